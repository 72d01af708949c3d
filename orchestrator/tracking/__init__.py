"""Projects the store into MLflow; the only place that knows it."""
