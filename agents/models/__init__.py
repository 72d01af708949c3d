"""The models that a sweep can ask: one module each, behind `protocols.Model`."""
