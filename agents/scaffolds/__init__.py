"""The agents: one module each, behind `protocols.Agent`, on the shared parts of this package."""
