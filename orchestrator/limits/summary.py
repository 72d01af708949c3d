"""Where an experiment stands against its caps, read from its store alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from evaluation.serialize import from_plain, to_plain
from orchestrator.limits.bank import Bank, member_of
from orchestrator.limits.breaker import Pause, read_pause
from orchestrator.limits.clock import SystemClock
from orchestrator.limits.hours import Hours
from orchestrator.limits.ledger import NUSD, read_spending
from orchestrator.limits.limits import NO_CAP_NUSD, limits_root
from orchestrator.limits.members import Members, Pulse, read_entry
from orchestrator.limits.settings import LimitsSettings
from orchestrator.store.files import write_atomic

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Spent and allowed; a cap of None is none."""

    cost_usd: float
    """Charged for replies, and for requests whose end nobody knows at their worst. Known to within a few seconds."""
    under_way_usd: float
    """Set aside for requests that are under way."""
    cost_cap_usd: float | None
    gpu_hours: float
    gpu_hours_cap: float | None
    wall_hours: float
    wall_hours_cap: float | None
    paused: Pause | None
    """Why the breaker lets no cell begin."""

    def lines(self) -> list[str]:
        """For a person: what is spent of what, and what is the matter."""
        parts = [
            f"${self.cost_usd:.2f} of {_cap(self.cost_cap_usd, '${:.2f}')}"
            + (f" (and up to ${self.under_way_usd:.2f} under way)" if self.under_way_usd else ""),
            f"{self.gpu_hours:.2f} of {_cap(self.gpu_hours_cap, '{:g}')} GPU-hours",
            f"{self.wall_hours:.2f} of {_cap(self.wall_hours_cap, '{:g}')} wall-hours",
        ]
        lines = [f"spent: {', '.join(parts)}"]
        if self.paused is not None:
            lines.append(f"paused: breaker: {self.paused.cause}; `kernelsweep resume` goes on")
        return lines


def write_settings(store_root: Path, settings: LimitsSettings) -> None:
    """Keep the caps of the latest launch, for whoever asks where it stands."""
    write_atomic(limits_root(store_root) / "settings.json", json.dumps(to_plain(settings), indent=1) + "\n")


def read_settings(store_root: Path) -> LimitsSettings:
    """The caps of the latest launch; none before the first."""
    path = limits_root(store_root) / "settings.json"
    if not path.exists():
        return LimitsSettings()
    return from_plain(LimitsSettings, json.loads(path.read_text(encoding="utf-8")))


def summary(store_root: Path) -> Summary:
    """Where the experiment stands. Costs the open wallets and the launches' processes, not the finished cells."""
    root, settings, clock = limits_root(store_root), read_settings(store_root), SystemClock()
    bank, members = Bank(root, NO_CAP_NUSD, clock), Members(root / "members", clock)
    charged, wallets = bank.totals()
    reserved = 0
    for wallet in wallets:
        member = member_of(wallet)
        entry = read_entry(root / "members" / f"{member}.json")
        if entry is None or members.pulse(member) is not Pulse.ALIVE:
            charged += read_spending(bank.ledger_path(wallet)).total_nusd
        else:
            charged, reserved = charged + entry.charged_nusd, reserved + entry.reserved_nusd
    hours = Hours(root, "reader")
    return Summary(
        cost_usd=charged / NUSD,
        under_way_usd=reserved / NUSD,
        cost_cap_usd=settings.cost_usd,
        gpu_hours=hours.device_s() / _HOUR_S,
        gpu_hours_cap=settings.gpu_hours,
        wall_hours=hours.worked_s() / _HOUR_S,
        wall_hours_cap=settings.wall_hours,
        paused=read_pause(root),
    )


def _cap(value: float | None, form: str) -> str:
    return "no limit" if value is None else form.format(value)
