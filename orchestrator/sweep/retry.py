"""Having cells run again by a person's wish. Nothing is deleted."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.store.claims import Outcome, history, take
from orchestrator.store.control import Control
from orchestrator.store.leases import Lease, Watch
from orchestrator.store.store import Store


def release(store: Store, uids: Iterable[str], job: str) -> tuple[list[str], list[str]]:
    """Move the records of these cells aside and forget their failures; returns those released, and those in use.

    Each is claimed for the moment, so that no worker is at it, and late results of earlier claims are refused.
    """
    released, held = [], []
    with Lease(store.leases_dir, job, "retry") as lease:
        watch = Watch()
        for uid in uids:
            claims = history(store.attempts_dir(uid))
            if claims and claims[-1].ended is None and store.is_done(uid):
                claims[-1].end(Outcome.DONE)  # its record said so until now
            claim = take(store.attempts_dir(uid), lease, watch)
            if claim is None:
                held.append(uid)
                continue
            store.move_aside(uid, lease.id)
            claim.end(Outcome.RELEASED)
            released.append(uid)
    if released:
        Control(store).note_release()
    return released, held
