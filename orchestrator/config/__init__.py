"""From conf/ and overrides to an experiment; the only place that knows Hydra."""
