"""What can go wrong on our side of an agent. Each message is one sentence for the user."""

from __future__ import annotations

from enum import StrEnum


class AgentConfigError(Exception):
    """A setting of a model, an agent or a budget cannot be used."""


class TrajectoryError(Exception):
    """A journal cannot be continued."""


class ProviderCause(StrEnum):
    """Why the provider gave no reply."""

    RATE_LIMIT = "RATE_LIMIT"
    """Too many requests or tokens for now."""
    OUTAGE = "OUTAGE"
    """An error of the provider's own, a lost connection, or an answer that is no reply."""
    TIMEOUT = "TIMEOUT"
    AUTH = "AUTH"
    """The key, or the account behind it, is refused."""
    NOT_FOUND = "NOT_FOUND"
    """The provider does not know the model, or the address is not its own."""
    CONTEXT = "CONTEXT"
    """The conversation is longer than the model can hold: the agent's fault, it ends the cell as CONTEXT_SPENT."""
    BAD_REQUEST = "BAD_REQUEST"
    """Something else in the request is refused."""
    BAD_REPLY = "BAD_REPLY"
    """The reply does not say what a budget has to know."""

    @property
    def passing(self) -> bool:
        """Whether the same request may be answered later."""
        return self in (ProviderCause.RATE_LIMIT, ProviderCause.OUTAGE, ProviderCause.TIMEOUT)


class ProviderError(Exception):
    """No reply could be had; it says nothing about the kernel, and the cell is owed again."""

    def __init__(
        self,
        cause: ProviderCause,
        message: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        maybe_charged: bool = False,
    ) -> None:
        super().__init__(f"{cause}: {message}")
        self.cause = cause
        self.status = status
        """The HTTP status that was received, if one was."""
        self.retry_after_s = retry_after_s
        """What the provider asked for, if it did."""
        self.maybe_charged = maybe_charged
        """Whether the provider may have done the work, so that it may be on the bill."""


class ExperimentSpent(Exception):
    """The experiment's own cap allows no further request; its cells stay owed until the cap is raised."""


class Draining(Exception):
    """The process is to end and sends no further request; its cell stays owed and goes on elsewhere."""
