"""What one wallet has spent, request by request: a file with one writer that survives its process.

Amounts are whole nano-dollars, so that sums are exact.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from agents.protocols import Usage
from orchestrator.store.files import read_lines

NUSD = 1_000_000_000


def nusd(cost_usd: float) -> int:
    """Dollars as nano-dollars."""
    return round(cost_usd * NUSD)


@dataclass(slots=True, kw_only=True)
class Spending:
    """What the lines of one or more ledgers add up to."""

    charged_nusd: int = 0
    """Of requests whose end is known."""
    in_doubt: dict[str, int] = field(default_factory=dict)
    """Request -> its worst case, of those whose end is not known."""
    requests: int = 0
    unpriced: int = 0
    """Requests that were answered and whose cost nobody knows."""
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def total_nusd(self) -> int:
        """With what is in doubt at its worst."""
        return self.charged_nusd + sum(self.in_doubt.values())

    def add(self, other: Spending) -> None:
        """Sum up."""
        self.charged_nusd += other.charged_nusd
        self.in_doubt |= other.in_doubt
        self.requests += other.requests
        self.unpriced += other.unpriced
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens


class Ledger:
    """The file, open for its one writer. `reserve` is on the disk when it returns if `durable`."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        self._durable = durable
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_EXCL, 0o644)

    def reserve(self, request: int, deployment: str, amount_nusd: int) -> None:
        """Before a request is sent: what it may cost at worst."""
        self._append({"request": request, "reserved": amount_nusd, "to": deployment})
        if self._durable:
            os.fsync(self._file)

    def charge(self, request: int, amount_nusd: int, usage: Usage | None = None) -> None:
        """After it: what it cost. A line lost in a crash of the host leaves the request in doubt, at its worst."""
        tokens = {} if usage is None else {"prompt": usage.prompt_tokens, "completion": usage.completion_tokens}
        unpriced = {"unpriced": True} if usage is not None and usage.cost_usd is None else {}
        self._append({"request": request, "charged": amount_nusd, **tokens, **unpriced})

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _append(self, row: dict[str, object]) -> None:
        os.write(self._file, json.dumps(row, separators=(",", ":")).encode() + b"\n")


def read_spending(path: Path) -> Spending:
    """What a ledger says; nothing when there is none. A torn last line is a request that was never sent."""
    found = Spending()
    if not path.exists():
        return found
    for row in read_lines(path)[0]:
        request = f"{path.stem}/{row['request']}"
        if "reserved" in row:
            found.in_doubt[request] = row["reserved"]
            found.requests += 1
        else:
            found.in_doubt.pop(request, None)
            found.charged_nusd += row["charged"]
            found.unpriced += row.get("unpriced", False)
            found.prompt_tokens += row.get("prompt") or 0
            found.completion_tokens += row.get("completion") or 0
    return found
