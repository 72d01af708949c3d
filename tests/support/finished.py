"""What must hold of a finished store, however often its processes were killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from orchestrator.limits.ledger import Spending, nusd, read_spending
from orchestrator.limits.limits import limits_root
from orchestrator.store.files import read_lines
from orchestrator.store.store import Store


def assert_each_once(store: Store, uids: Iterable[str]) -> None:
    """Each planned cell has one record and one row of the index, and a journal in which each turn was answered once."""
    planned = set(uids)
    assert set(store.rows()) == planned == store.begun()
    listed = Counter(row["uid"] for path in store.index_dir.iterdir() for row in read_lines(path)[0])
    assert listed == dict.fromkeys(planned, 1)
    for uid in planned:
        record = store.read_record(uid)
        assert record is not None
        events, _ = read_lines(store.trajectory_path(uid))
        assert [event["seq"] for event in events] == list(range(len(events)))
        by_turn: dict[int, list[str]] = {}
        for event in events:
            if "turn" in event:
                by_turn.setdefault(event["turn"], []).append(event["kind"])
        answers = [[kind for kind in kinds if kind in ("reply", "refusal")] for kinds in by_turn.values()]
        assert all(len(kinds) == 1 for kinds in answers) and answers.count(["reply"]) == record.turns
        for kinds, [answer] in zip(by_turn.values(), answers, strict=True):
            assert "request" not in kinds[kinds.index(answer) :]
        starts = [event["attempt"] for event in events if event["kind"] == "start"]
        assert starts == sorted(set(starts)) and record.attempt == starts[-1]


def journaled_replies(store: Store, uids: Iterable[str]) -> list[dict[str, Any]]:
    """The replies that the cells' journals hold."""
    return [
        event["reply"]
        for uid in uids
        for event in read_lines(store.trajectory_path(uid))[0]
        if event["kind"] == "reply"
    ]


def assert_no_reply_paid_twice(store: Store, uids: Iterable[str], answered: Iterable[str], lost_max: int) -> None:
    """By the provider's log (`answered`: ids of the completions that it gave) every reply is in one journal.

    `lost_max`: replies that may have been under way to processes that were killed; they were paid and are nowhere.
    """
    given = Counter(answered)
    kept = Counter(reply["request_id"] for reply in journaled_replies(store, uids))
    assert set(given.values()) <= {1} and set(kept.values()) <= {1}
    assert set(kept) <= set(given)
    assert len(given) - len(kept) <= lost_max


def assert_ledger_exact(store: Store, uids: Iterable[str], lost_max: int) -> Spending:
    """The ledgers charge each journaled reply what it cost, to the nano-dollar and once; returns what they add up to.

    `lost_max`: charges that may be for replies which no journal has: those that a killed process had just got, and
    those that were paid and held nothing.
    """
    charged: Counter[tuple[int | None, int | None, int | None]] = Counter()
    found = Spending()
    for path in (limits_root(store.root) / "ledgers").glob("*.jsonl"):
        rows = read_lines(path)[0]
        ends = Counter(row["request"] for row in rows if "charged" in row)
        begins = Counter(row["request"] for row in rows if "reserved" in row)
        assert set(begins.values()) <= {1} and ends <= begins, f"{path}: a request is charged twice, or out of nothing"
        for row in rows:
            if "prompt" in row:
                charged[row["prompt"], row["completion"], None if row.get("unpriced") else row["charged"]] += 1
        found.add(read_spending(path))
    kept: Counter[tuple[int | None, int | None, int | None]] = Counter()
    for usage in (reply["usage"] for reply in journaled_replies(store, uids)):
        cost_usd = usage["cost_usd"]
        kept[usage["prompt_tokens"], usage["completion_tokens"], None if cost_usd is None else nusd(cost_usd)] += 1
    assert not kept - charged, "a journal has a reply that no ledger has"
    assert (charged - kept).total() <= lost_max
    return found
