"""Pages and tables for people."""
