"""Candidate processes, and how the judge talks with them."""
