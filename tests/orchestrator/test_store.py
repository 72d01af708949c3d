"""The record is the truth: what is listed, counted and refused follows from it, wherever a process was killed."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cell import Record
from orchestrator.store.files import Tail, append_line, read_lines, write_new
from orchestrator.store.index import Row
from orchestrator.store.store import Store, StoreError

FinishCell = Callable[..., Record]


def test_a_record_is_read_back_as_it_was_written(store: Store, finish_cell: FinishCell) -> None:
    record = finish_cell()
    assert store.read_record(record.uid) == record
    assert store.read_cell(record.uid) == record.cell


def test_a_cell_gets_one_record_and_the_other_is_kept(store: Store, finish_cell: FinishCell) -> None:
    record = finish_cell()
    late = dataclasses.replace(record, attempt=2, verdict="TIMEOUT", grade=None)
    assert not store.commit(late, lambda: True)
    assert store.read_record(record.uid) == record
    kept = json.loads((store.cell_dir(record.uid) / "superseded-2.json").read_text())
    assert kept["verdict"] == "TIMEOUT"


def test_a_holder_that_was_overtaken_cannot_commit(store: Store, finish_cell: FinishCell) -> None:
    record = finish_cell()
    store.record_path(record.uid).unlink()
    assert not store.commit(record, lambda: False)
    assert not store.is_done(record.uid)
    assert (store.cell_dir(record.uid) / "superseded-1.json").exists()


def test_a_folder_of_another_cell_is_refused_with_the_difference(store: Store, finish_cell: FinishCell) -> None:
    cell = finish_cell().cell
    path = store.cell_dir(cell.uid) / "cell.json"
    stored = json.loads(path.read_text())
    stored["identity"]["budget"]["turns"] = 5
    path.write_text(json.dumps(stored))
    with pytest.raises(StoreError, match=r"identity\.budget\.turns is 5 there and 4 here"):
        store.write_cell(cell)


def test_runtime_may_change(store: Store, finish_cell: FinishCell) -> None:
    cell = dataclasses.replace(finish_cell().cell, runtime={"model": {"base_url": "http://elsewhere"}})
    store.write_cell(cell)
    assert store.read_cell(cell.uid) == cell


def test_a_record_that_the_index_missed_is_listed(store: Store, finish_cell: FinishCell) -> None:
    listed, missed = finish_cell(seed=0), finish_cell(seed=1)
    store.add_to_index(listed, "w0")
    assert store.unindexed() == [missed.uid]
    assert store.rows() == {record.uid: Row.of(record) for record in (listed, missed)}
    store.add_to_index(missed, "w1")
    assert store.unindexed() == []


def test_a_row_without_its_record_does_not_count(store: Store, finish_cell: FinishCell) -> None:
    record = finish_cell()
    store.add_to_index(record, "w0")
    store.record_path(record.uid).unlink()
    assert store.rows() == {}


def test_the_index_is_rebuilt_from_the_records(store: Store, finish_cell: FinishCell) -> None:
    records = [finish_cell(seed=seed) for seed in range(3)]
    store.index_dir.mkdir()
    (store.index_dir / "w0.jsonl").write_text('{"uid": "of another version"}\n{"uid": "torn')
    assert len(store.rows()) == 3
    assert store.rebuild_index("rebuilt") == 3
    assert [path.name for path in store.index_dir.iterdir()] == ["rebuilt.jsonl"]
    assert store.unindexed() == []
    assert store.rows() == {record.uid: Row.of(record) for record in records}


def test_a_newer_record_is_refused(store: Store, finish_cell: FinishCell) -> None:
    record = finish_cell()
    store.record_path(record.uid).write_text('{"schema_version": 99}')
    with pytest.raises(StoreError, match="newer version"):
        store.read_record(record.uid)


def test_a_journal_cut_at_any_byte_loses_its_last_line_only(tmp_path: Path) -> None:
    whole = tmp_path / "whole.jsonl"
    for number in range(3):
        append_line(whole, {"number": number})
    data = whole.read_bytes()
    cut = tmp_path / "cut.jsonl"
    for size in range(len(data)):
        cut.write_bytes(data[:size])
        append_line(cut, {"number": "next"})
        numbers = [row["number"] for row in read_lines(cut)[0]]
        complete = data[:size].count(b"\n") + (data[size : size + 1] == b"\n")
        assert numbers == [*range(complete), "next"]


def test_a_tail_yields_each_row_once(tmp_path: Path) -> None:
    tail = Tail(tmp_path)
    assert tail.poll() == []
    append_line(tmp_path / "a.jsonl", {"row": 1})
    append_line(tmp_path / "b.jsonl", {"row": 2})
    assert [row["row"] for row in tail.poll()] == [1, 2]
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write('{"row": 3')
    assert tail.poll() == []
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write("}\n")
    assert tail.poll() == [{"row": 3}]


def test_write_new_never_replaces(tmp_path: Path) -> None:
    assert write_new(tmp_path / "file", "first")
    assert not write_new(tmp_path / "file", "second")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "first"


@pytest.mark.quiet
def test_twenty_thousand_finished_cells_are_listed_at_once_and_one_more_costs_the_same(
    store: Store, finish_cell: FinishCell
) -> None:
    first, last = finish_cell(seed=0), finish_cell(seed=1)

    def seconds_to_finish() -> float:
        start = time.perf_counter()
        for _ in range(20):
            store.record_path(last.uid).unlink()
            assert store.commit(last, lambda: True)
            store.add_to_index(last, "w0")
        return time.perf_counter() - start

    seconds_to_finish()
    when_few = min(seconds_to_finish() for _ in range(3))
    template = Row.of(first).plain()
    store.index_dir.mkdir(exist_ok=True)
    with (store.index_dir / "w1.jsonl").open("w") as index:
        for number in range(20_000):
            folder = store.cell_dir(f"cell-{number}")
            folder.mkdir()
            (folder / "record.json").touch()
            index.write(json.dumps({**template, "uid": folder.name}) + "\n")
    when_many = min(seconds_to_finish() for _ in range(3))
    start = time.process_time()
    assert len(store.rows()) == 20_002
    assert time.process_time() - start < 2
    assert when_many < 3 * when_few + 0.05
