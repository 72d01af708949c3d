"""A gate that lets every request pass and writes down what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from agents.errors import ProviderError
from agents.protocols import Usage


@dataclass
class WatchedPermit:
    feared: Usage
    ends: list[str] = field(default_factory=list)
    """Names of the methods that were called: exactly one, in the end."""
    settled: Usage | None = None
    error: ProviderError | None = None

    def settle(self, usage: Usage) -> None:
        self.ends.append("settle")
        self.settled = usage

    def lost(self) -> None:
        self.ends.append("lost")

    def refused(self, error: ProviderError) -> None:
        self.ends.append("refused")
        self.error = error


@dataclass
class WatchingGate:
    permits: list[WatchedPermit] = field(default_factory=list)

    def admit(self, feared: Usage) -> WatchedPermit:
        self.permits.append(WatchedPermit(feared))
        return self.permits[-1]

    @property
    def ends(self) -> list[str]:
        """What became of each permit, in order."""
        return [",".join(permit.ends) for permit in self.permits]
