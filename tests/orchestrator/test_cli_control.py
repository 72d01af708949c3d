"""The verbs that look at a sweep and steer it from outside."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from sweeps import PROBLEM, call

from orchestrator.cli.main import main
from orchestrator.store.claims import Outcome, take
from orchestrator.store.leases import Lease, Watch
from orchestrator.store.store import Store

Verb = Callable[..., tuple[int, Any]]


@pytest.fixture
def verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Verb:
    """`verb("status", "--watch")` gives the exit code and the JSON of a verb about a sweep of two cells."""
    replies = [call("get_gpu_specs")]
    text = yaml.safe_dump({"origin": "a test", "problem": PROBLEM, "replies": replies})
    (tmp_path / f"{PROBLEM.rsplit('/', 1)[-1]}.yaml").write_text(text)
    overrides = ["name=two", f"problem={PROBLEM}", f"model.transcript={tmp_path}", "tracking=none", "seed=0,1"]
    overrides += ["agent=tool_loop", "budget.turns=1", "launcher=inline", "--out", str(tmp_path / "outputs"), "--json"]

    def ask(name: str, *arguments: str) -> tuple[int, Any]:
        code = main([name, *arguments, *overrides])
        out = capsys.readouterr().out
        return code, json.loads(out) if out else None

    return ask


def test_a_sweep_is_looked_at_and_steered_from_outside(verb: Verb, tmp_path: Path) -> None:
    assert verb("wait")[0] == 2  # nothing was ever run
    assert verb("run")[0] == 0
    assert verb("wait") == (0, {"experiment": "two", "done_total": 2, "planned": 2})
    code, status = verb("status", "--watch")
    assert code == 0 and status["done"] == {"NO_SOLUTION": 2} and status["workers"] == []
    assert status["cells_per_h"] > 0 and status["paused"] is None

    assert verb("retry", "--where", "colour=red")[0] == 2
    assert verb("retry", "--where", "verdict=PASSED")[1] == {"released": [], "held": []}
    code, found = verb("retry", "--where", "verdict=NO_SOLUTION", "--where", "seed=1")
    (uid,) = found["released"]
    assert code == 0 and "-s1-" in uid and found["held"] == []
    code, found = verb("wait", "--patience", "0")
    assert code == 1 and found["done_total"] == 1

    assert verb("pause", "--reason", "the cluster is needed") == (0, {"paused": "the cluster is needed"})
    assert verb("status")[1]["paused"] == "person: the cluster is needed"
    assert verb("run")[0] == 2
    assert verb("resume")[1] == {"was_paused": "the cluster is needed"}
    assert verb("run")[0] == 0 and verb("wait")[0] == 0
    assert len(verb("cancel")[1]["cancelled"]) == 2 and verb("cancel")[1] == {"cancelled": []}

    store = Store(tmp_path / "outputs" / "two")
    for path in store.index_dir.iterdir():
        path.unlink()
    assert len(store.unindexed()) == 2
    assert verb("report", "--rebuild-index")[0] == 0
    assert store.unindexed() == [] and {row.attempt for row in store.rows().values()} == {1, 3}


def test_doctor_tries_what_a_store_needs_of_a_filesystem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--fs", str(tmp_path / "store"), "--json"]) == 0
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert {name: check["state"] for name, check in checks.items() if name != "append"} == dict.fromkeys(
        ("links", "O_EXCL", "rename"), "ok"
    )
    assert "ms at most" in checks["append"]["found"]
    assert list((tmp_path / "store").iterdir()) == []


def test_parked_and_quarantined_cells_are_explained(verb: Verb, tmp_path: Path) -> None:
    assert verb("run")[0] == 0
    store = Store(tmp_path / "outputs" / "two")
    parked, quarantined = sorted(store.rows())
    released = verb("retry", "--where", "verdict=NO_SOLUTION")[1]["released"]
    assert sorted(released) == [parked, quarantined]
    with Lease(store.leases_dir, "job") as lease:
        for uid, outcome, due in (
            (parked, Outcome.PARKED, time.time() + 100.0),
            (quarantined, Outcome.QUARANTINED, None),
        ):
            claim = take(store.attempts_dir(uid), lease, Watch())
            assert claim is not None
            claim.end(outcome, "what was the matter", due)
    state = verb("explain", parked)[1]["state"]
    assert (state["state"], state["cause"]) == ("parked", "what was the matter")
    assert "taken again in 9" in state["text"]
    state = verb("explain", quarantined)[1]["state"]
    assert state["state"] == "quarantined" and "`kernelsweep retry` releases it" in state["text"]
    assert len(verb("retry")[1]["released"]) == 2
    assert verb("explain", parked)[1]["state"]["state"] == "untouched"
