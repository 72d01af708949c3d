"""What one process needs to keep to the limits of its experiment: made once, shared by its threads."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from types import TracebackType

from agents.errors import ExperimentSpent
from agents.settings import ModelSettings
from orchestrator.limits.bank import Bank
from orchestrator.limits.breaker import Breaker
from orchestrator.limits.clock import Clock, SystemClock
from orchestrator.limits.gate import Shared, SharedGate
from orchestrator.limits.hours import Hours
from orchestrator.limits.ledger import nusd
from orchestrator.limits.members import BEAT_S, Members, Membership
from orchestrator.limits.purse import Purse
from orchestrator.limits.settings import LimitsSettings

log = logging.getLogger(__name__)

_LOOK_S = 30.0
"""How often the experiment's hours are added up; a look opens a file of each process."""
NO_CAP_NUSD = nusd(1e9)
"""Stands for no cap where an amount is needed; nothing is reserved against it."""


def limits_root(store_root: Path) -> Path:
    """Where an experiment keeps the state of its limits."""
    return store_root / "limits"


class Limits:
    """This process among all that share `store_root`. `who` is readable; an id is made of it that nobody else has.

    `stop` is set when the process is to end: whoever waits at a gate then gets Draining. Open it before the first
    request; closing it returns what is not spent, and charges in full what is still under way.
    """

    def __init__(
        self,
        store_root: Path,
        settings: LimitsSettings,
        who: str,
        stop: threading.Event | None = None,
        clock: Clock | None = None,
    ) -> None:
        root = limits_root(store_root)
        clock = clock or SystemClock()
        self._root, self._settings = root, settings
        self._membership = Membership(root / "members", who, clock)
        self.id = self._membership.id
        self.hours = Hours(root, self.id)
        self.breaker = Breaker(root, settings, self.id, clock)
        self._members = Members(root / "members", clock)
        bank = Bank(root, NO_CAP_NUSD if settings.cost_usd is None else nusd(settings.cost_usd), clock)
        self._spent: str | None = None
        self._shared = Shared(
            purse=Purse(bank, settings.cost_usd, self.id),
            pulse=self._members.pulse,
            check=self.check,
            answered=self.breaker.answered,
            card=root / "cards" / self.id,
            stop=stop or threading.Event(),
            clock=clock,
        )
        self._gates: dict[str, SharedGate] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="limits", daemon=True)

    def gate(self, model: ModelSettings) -> SharedGate:
        """The gate of the model's deployment; all cells of this process share it."""
        key = repr((model.litellm_model or model.name, model.base_url, model.api_key_env))
        with self._lock:
            if key not in self._gates:
                self._gates[key] = SharedGate(self._root, model, self._shared)
            return self._gates[key]

    def note_device_s(self, uid: str, device_s: float) -> None:
        """The cell's candidates have run on the device for so many seconds, earlier processes' work included."""
        self.hours.note(uid, device_s)

    def check(self) -> None:
        """Raise ExperimentSpent when the hours of the experiment are used up; asked before a cell and a request."""
        if self._spent is not None:
            raise ExperimentSpent(self._spent)

    def __enter__(self) -> Limits:
        self._membership.beat()
        self._shared.card.parent.mkdir(exist_ok=True)
        self._shared.card.write_text(self.id, encoding="utf-8")
        self._look()
        self._ticker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._closing.set()
        self._ticker.join()
        self._shared.purse.close()
        self._membership.end()
        self._shared.card.unlink(missing_ok=True)

    def _tick(self) -> None:
        looked_at = time.monotonic()
        while not self._closing.wait(BEAT_S):
            try:
                self._membership.beat(*self._shared.purse.tend())
                if time.monotonic() - looked_at >= _LOOK_S:
                    looked_at = time.monotonic()
                    self._look()
            except OSError:
                log.exception("the limits' files under %s could not be reached; tried again", self._root)

    def _look(self) -> None:
        self._spent = self.hours.spent(self._settings)
