"""Plans a sweep, runs its cells, records and reports what came out."""
