"""Config of what a whole experiment may use. Nothing here changes the result of a cell."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class LimitsSettings:
    """Caps over all cells, processes and launches of one experiment. None is no cap."""

    cost_usd: float | None = field(default=None, metadata={"minimum": 0})
    """Dollars for replies. Never passed: the worst case of a request is reserved before it is sent."""
    gpu_hours: float | None = field(default=None, metadata={"minimum": 0})
    """Hours in which the judge ran candidates on the device. Cells at work end their tool call first."""
    wall_hours: float | None = field(default=None, metadata={"minimum": 0})
    """Hours in which at least one process of the experiment was at work."""
    breaker_failures: int = field(default=30, metadata={"minimum": 1})
    """Provider failures in a row, over all workers, that pause the sweep."""
    breaker_probe_s: float = field(default=300.0, metadata={"minimum": 0})
    """Seconds after which one cell tries whether the provider is back; doubled after each that fails."""
