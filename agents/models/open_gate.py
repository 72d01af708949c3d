"""The gate of an experiment without caps or rates."""

from __future__ import annotations

from agents.errors import ProviderError
from agents.protocols import Permit, Usage


class OpenGate:
    """Lets every request pass at once and charges nobody."""

    def admit(self, feared: Usage) -> Permit:  # noqa: ARG002
        """Always."""
        return self

    def settle(self, usage: Usage) -> None:
        """Nothing is kept."""

    def lost(self) -> None:
        """Nothing is kept."""

    def refused(self, error: ProviderError) -> None:
        """Nothing is kept."""
