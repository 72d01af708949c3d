"""The money that one process may spend: reserves the worst case of each request, settles what it cost."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from agents.errors import AgentConfigError, Draining, ExperimentSpent
from agents.protocols import Usage
from orchestrator.limits.bank import Bank, WalletTaken
from orchestrator.limits.ledger import NUSD, Ledger, nusd
from orchestrator.limits.members import Pulse

_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class Reservation:
    """The worst case of one request, set aside in one wallet."""

    wallet: _Wallet
    request: int
    amount: int


class Purse:
    """The wallet of one process; its threads share it. `pause(seconds)` sleeps, and raises when the process is to end.

    Without a cap nothing is ever short, and the ledger is kept all the same: a cap may be set later.
    """

    def __init__(self, bank: Bank, cap_usd: float | None, member: str) -> None:
        self._bank = bank
        self._cap_usd = cap_usd
        self._member = member
        self._lock = threading.Lock()
        self._wallets = 0
        self._wallet: _Wallet | None = None
        self._closed = False

    def reserve(
        self, deployment: str, feared: Usage, pause: Callable[[float], None], pulse: Callable[[str], Pulse]
    ) -> Reservation:
        """Set aside what the request may cost; waits while others hold what may come back.

        Raises ExperimentSpent when that can never be had under the cap, AgentConfigError without a price.
        """
        if feared.cost_usd is None and self._cap_usd is not None:
            raise AgentConfigError(
                f"limits.cost_usd={self._cap_usd:g} needs to know what a request to {deployment} costs at worst; set "
                "its prices and model.max_tokens"
            )
        amount = nusd(feared.cost_usd or 0.0)
        while True:
            with self._lock:
                if self._closed:
                    raise Draining("the limits of this process are closed, so no further request is sent")
                reservation = self._try(deployment, amount)
                if reservation is None:
                    self._require_hope(amount)
                    self._bank.reconcile(pulse)
            if reservation is not None:
                return reservation
            pause(random.uniform(0.2, 1.0) * _POLL_S)

    def settle(self, reservation: Reservation, usage: Usage | None) -> None:
        """Charge what the reply says it cost; None, or a reply that does not say, charges the worst case."""
        told = None if usage is None else usage.cost_usd
        self._charge(reservation, reservation.amount if told is None else nusd(told), usage)

    def cancel(self, reservation: Reservation) -> None:
        """Charge nothing: the provider did nothing."""
        self._charge(reservation, 0, None)

    def tend(self) -> tuple[int, int]:
        """Return what this process holds and others need; called every few seconds.

        The answer is what was charged to the open wallet and what is set aside in it, in nano-dollars.
        """
        with self._lock:
            wallet = self._wallet
            if wallet is None:
                return 0, 0
            self._level(wallet)
            return wallet.charged, wallet.reserved

    def close(self) -> None:
        """End the wallet: what was not spent is free for others, and a request still under way is charged in full."""
        with self._lock:
            self._closed = True
            wallet, self._wallet = self._wallet, None
            if wallet is None:
                return
            self._bank.close(wallet.name)
            if not wallet.reserved:
                wallet.ledger.close()

    def _try(self, deployment: str, amount: int) -> Reservation | None:
        """One try; None when the money cannot be had now."""
        wallet = self._wallet or self._open()
        try:
            if self._cap_usd is not None and wallet.idle < amount:
                granted = self._bank.grant(wallet.name, amount - wallet.idle, wallet.charged)
                wallet.published = wallet.charged
                if granted is None:
                    return None
                wallet.granted = granted
            wallet.requests += 1
            wallet.ledger.reserve(wallet.requests, deployment, amount)
            wallet.reserved += amount
            reservation = Reservation(wallet, wallet.requests, amount)
            if self._cap_usd is not None:
                self._require_open(reservation)
        except WalletTaken:
            self._wallet = None
            return None
        return reservation

    def _require_open(self, reservation: Reservation) -> None:
        """Look for the fence, after the request is in the ledger; one that is not sent costs nothing."""
        wallet = reservation.wallet
        try:
            self._bank.require_open(wallet.name)
        except WalletTaken:
            wallet.ledger.charge(reservation.request, 0)
            raise

    def _open(self) -> _Wallet:
        self._wallets += 1
        name = f"{self._member}.{self._wallets}"
        ledger = Ledger(self._bank.ledger_path(name), durable=self._cap_usd is not None)
        self._bank.open(name)
        self._wallet = _Wallet(name, ledger)
        return self._wallet

    def _require_hope(self, amount: int) -> None:
        """Raise ExperimentSpent when the request would not fit even if everything that is reserved came back."""
        known = self._bank.standing().known
        if self._cap_usd is not None and nusd(self._cap_usd) - known < amount:
            raise ExperimentSpent(
                f"limits.cost_usd={self._cap_usd:g} is reached: ${known / NUSD:.4f} are spent and the next request may "
                f"cost ${amount / NUSD:.4f}; raise the cap and run again to go on"
            )

    def _charge(self, reservation: Reservation, amount: int, usage: Usage | None) -> None:
        wallet = reservation.wallet
        with self._lock:
            wallet.ledger.charge(reservation.request, amount, usage)
            wallet.reserved -= reservation.amount
            wallet.charged += amount
            if wallet is self._wallet:
                self._level(wallet)

    def _level(self, wallet: _Wallet) -> None:
        """Return what the wallet holds beyond a chunk or two: all of it once money is short, so that nobody starves."""
        if self._cap_usd is None:
            return
        chunk = self._bank.standing().chunk
        surplus = wallet.idle - chunk
        unsaid = chunk == 0 and wallet.charged != wallet.published
        if surplus > chunk or wallet.idle < 0 or unsaid:
            try:
                self._bank.give_back(wallet.name, surplus, wallet.charged)
            except WalletTaken:
                self._wallet = None
                return
            wallet.granted -= surplus
            wallet.published = wallet.charged


@dataclass(slots=True, eq=False)
class _Wallet:
    """What this process knows of its wallet. Nano-dollars."""

    name: str
    ledger: Ledger
    granted: int = 0
    charged: int = 0
    published: int = 0
    """What the bank knows of `charged`."""
    reserved: int = 0
    requests: int = 0

    @property
    def idle(self) -> int:
        """Granted, and neither spent nor set aside; negative when a reply cost more than was feared."""
        return self.granted - self.charged - self.reserved
