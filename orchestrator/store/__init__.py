"""What an experiment keeps on disk."""
