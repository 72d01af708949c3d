"""The money of an experiment as its processes share it: what is granted to whom, and what closed wallets have spent.

The sum of all grants and of all that closed wallets spent never passes the cap, because each grant is one link of a
chain. A process spends from its wallet only, so no set of processes, dead ones included, can pass the cap.

A wallet whose process is dead is fenced, then read, then closed, and what it did not spend comes back. Its process,
should it wake up, looks for the fence between writing a request into its ledger and sending it: either it sees the
fence and does not send, or it wrote before the fence, and the reader finds what it wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from orchestrator.limits.chain import Chain, State
from orchestrator.limits.clock import Clock
from orchestrator.limits.ledger import read_spending
from orchestrator.limits.members import Pulse

FENCE_S = 90.0
"""From fencing a wallet of another host to reading it: longer than a network filesystem hides a new file."""
_SHARE = 4
"""While there is plenty, all wallets together hold one part in this of what is free."""


class WalletTaken(Exception):
    """Others took the process for dead and fenced its wallet; what is in it may not be spent any more."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The money at one moment. Nano-dollars."""

    free: int
    """What can still be granted under the cap; negative after the cap was lowered."""
    known: int
    """What has been spent for certain."""
    chunk: int
    """How much a wallet may hold for later; nothing once money has run short under this cap."""


class Bank:
    """The chain of grants. One thread at a time may use it."""

    def __init__(self, root: Path, cap_nusd: int, clock: Clock) -> None:
        self._ledgers = root / "ledgers"
        self._cap = cap_nusd
        self._clock = clock
        self._chain = Chain(root / "grants", {"closed": 0, "short_cap": -1, "wallets": {}})
        self._fenced_since: dict[str, float] = {}

    def ledger_path(self, wallet: str) -> Path:
        """Where the wallet's ledger is."""
        return self._ledgers / f"{wallet}.jsonl"

    def standing(self) -> Standing:
        """Where things stand now."""
        return self._standing(self._chain.read())

    def open(self, wallet: str) -> None:
        """Begin an empty wallet."""
        self._chain.update(lambda state: _with(state, wallet, {"granted": 0, "charged": 0, "fenced": False}))

    def require_open(self, wallet: str) -> None:
        """Raise WalletTaken when the wallet's money may not be spent any more."""
        _entry(self._chain.read(), wallet)

    def grant(self, wallet: str, need: int, charged: int) -> int | None:
        """Add `need`, or more while there is plenty; returns what the wallet then has been granted in all.

        None when there is not that much; all others learn of it and return what they do not need. Raises WalletTaken.
        """
        granted: int | None = None

        def change(state: State) -> State | None:
            nonlocal granted
            entry, standing = _entry(state, wallet), self._standing(state)
            if standing.free >= need:
                granted = entry["granted"] + min(standing.free, max(need, standing.chunk))
                return _with(state, wallet, {**entry, "granted": granted, "charged": charged})
            granted = None
            if state["short_cap"] >= self._cap and entry["charged"] == charged:
                return None
            return {
                **_with(state, wallet, {**entry, "charged": charged}),
                "short_cap": max(state["short_cap"], self._cap),
            }

        self._chain.update(change)
        return granted

    def give_back(self, wallet: str, amount: int, charged: int) -> None:
        """Return what the wallet does not need. Raises WalletTaken."""

        def change(state: State) -> State:
            entry = _entry(state, wallet)
            return _with(state, wallet, {**entry, "granted": entry["granted"] - amount, "charged": charged})

        self._chain.update(change)

    def close(self, wallet: str) -> None:
        """End a wallet of which no request will be sent any more: what its ledger says is spent, the rest is free."""
        spent = read_spending(self.ledger_path(wallet)).total_nusd

        def change(state: State) -> State | None:
            if wallet not in state["wallets"]:
                return None
            wallets = {name: entry for name, entry in state["wallets"].items() if name != wallet}
            return {**state, "closed": state["closed"] + spent, "wallets": wallets}

        self._chain.update(change)

    def reconcile(self, pulse: Callable[[str], Pulse]) -> None:
        """Fence the wallets of dead and lapsed members and close those that may be read. `pulse` is asked of ids."""
        for wallet, entry in self._chain.read()["wallets"].items():
            state = pulse(member_of(wallet))
            if state is Pulse.ALIVE and not entry["fenced"]:
                continue
            if not entry["fenced"]:
                self._chain.update(lambda state, wallet=wallet: _fenced(state, wallet))  # type: ignore[misc]
            since = self._fenced_since.setdefault(wallet, self._clock.monotonic())
            if state is Pulse.DEAD or self._clock.monotonic() - since >= FENCE_S:
                self.close(wallet)

    def totals(self) -> tuple[int, list[str]]:
        """(spent by closed wallets in nano-dollars, the open wallets)."""
        state = self._chain.read()
        return state["closed"], list(state["wallets"])

    def _standing(self, state: State) -> Standing:
        wallets = state["wallets"].values()
        free = self._cap - state["closed"] - sum(entry["granted"] for entry in wallets)
        short = state["short_cap"] >= self._cap
        return Standing(
            free=free,
            known=state["closed"] + sum(entry["charged"] for entry in wallets),
            chunk=0 if short else max(0, free) // (_SHARE * max(1, len(wallets))),
        )


def member_of(wallet: str) -> str:
    """The member whose wallet it is: `<member>.<number>`."""
    return wallet.rpartition(".")[0]


def _entry(state: State, wallet: str) -> State:
    entry: State | None = state["wallets"].get(wallet)
    if entry is None or entry["fenced"]:
        raise WalletTaken(wallet)
    return entry


def _with(state: State, wallet: str, entry: State) -> State:
    return {**state, "wallets": {**state["wallets"], wallet: entry}}


def _fenced(state: State, wallet: str) -> State | None:
    entry = state["wallets"].get(wallet)
    return None if entry is None or entry["fenced"] else _with(state, wallet, {**entry, "fenced": True})
