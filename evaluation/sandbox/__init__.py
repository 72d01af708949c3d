"""What a candidate's process can reach."""
