"""The report of an experiment and the statistics in it."""

from __future__ import annotations

import csv
import io
import json
import math
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from evaluation.serialize import to_plain
from evaluation.verdict import Evaluation, Stage, Status
from orchestrator.checkout import read_checkout
from orchestrator.report.report import write_report
from orchestrator.report.statistics import by_problem, capped_geometric_mean, sum_if_known, wilson
from orchestrator.report.tables import format_table, group_rows
from orchestrator.store.index import Row
from orchestrator.store.store import Store


def row(**changes) -> Row:
    plain = {
        "uid": "u", "problem": "level1/1_a", "model": "m", "agent": "tool_loop", "budget": "small",
        "evaluation": "cpu", "seed": 0, "verdict": "PASSED", "exit_status": "SUBMITTED", "attempt": 1, "turns": 3,
        "tool_calls": 3, "prompt_tokens": 10, "completion_tokens": 5, "cost_usd": 0.5, "wall_s": 2.0,
        "finished_at": "2026-05-11T18:05:45Z", "latency_us": 1.0, "speedup": 2.0, "speedup_low": 1.9,
        "speedup_high": 2.1,
    }  # fmt: skip
    return Row(**(plain | changes))


FAILED = {"verdict": "INCORRECT_VALUES", "latency_us": None, "speedup": None, "speedup_low": None, "speedup_high": None}


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (81, 263, 0.2553, 0.3662)],
)
def test_wilson_agrees_with_published_values(successes, trials, low, high):
    """The last case is R. G. Newcombe's first example (Statistics in Medicine 17, 1998, table I, method 3)."""
    found = wilson(successes, trials)
    assert found.value == successes / trials
    assert found.low == pytest.approx(low, abs=5e-5)
    assert found.high == pytest.approx(high, abs=5e-5)


def test_one_absurd_speedup_does_not_carry_the_geometric_mean():
    assert capped_geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert capped_geometric_mean([1.0, 973_615.0]) == pytest.approx(10.0)
    assert capped_geometric_mean([1.0, 1e-9]) == pytest.approx(0.1)


def test_the_bootstrap_resamples_whole_problems():
    one = by_problem(capped_geometric_mean, {"a": [2.0, 3.0, 4.0]})
    assert (one.low, one.high) == (None, None)
    same = by_problem(capped_geometric_mean, {"a": [2.0] * 5, "b": [2.0] * 5})
    assert same.low == pytest.approx(2.0) and same.high == pytest.approx(2.0)
    two = by_problem(capped_geometric_mean, {"a": [1.0] * 50, "b": [4.0] * 50})
    assert two.low == pytest.approx(1.0) and two.high == pytest.approx(4.0), (
        "fifty cells of a problem count as one draw"
    )
    assert two == by_problem(capped_geometric_mean, {"a": [1.0] * 50, "b": [4.0] * 50})


def test_the_bootstrap_covers_the_truth():
    """Log-normal speed-ups of 30 problems around 2: about 95 % of the intervals contain 2."""
    import random

    noise = random.Random(7)
    hits = 0
    for _ in range(40):
        groups = {str(index): [2 * math.exp(noise.gauss(0, 0.5))] for index in range(30)}
        found = by_problem(capped_geometric_mean, groups)
        hits += found.low <= 2.0 <= found.high
    assert hits >= 34


def test_a_sum_with_an_unknown_part_is_unknown():
    assert sum_if_known([1.0, 2.5]) == 3.5
    assert sum_if_known([1.0, None]) is None


def test_groups_count_failures_as_the_reference():
    rows = [row(uid="a"), row(uid="b", problem="level1/2_b", speedup=8.0), row(uid="c", cost_usd=None, **FAILED)]
    (group,) = group_rows(rows)
    assert (group.cells, group.faster, group.tokens, group.cost_usd, group.wall_s) == (3, 2, 45, None, 6.0)
    assert group.cached_tokens is None
    assert group_rows([row(cached_tokens=4), row(cached_tokens=3)])[0].cached_tokens == 7
    assert group.solved.value == pytest.approx(2 / 3)
    assert group.median.value == pytest.approx(5.0)
    assert group.geometric.value == pytest.approx(4.0)
    assert group.geometric_all.value == pytest.approx(16 ** (1 / 3))


def test_groups_without_a_solution_have_no_speedup():
    (group,) = group_rows([row(**FAILED)])
    assert group.median is None and group.geometric is None
    assert group.geometric_all.value == 1.0


def test_the_table_of_the_terminal():
    text = format_table([row(uid="long-cell-name", turns=12), row(uid="b", prompt_tokens=None, **FAILED)])
    assert text.splitlines() == [
        "cell            verdict           speed-up [95 %]     turns  tokens",
        "long-cell-name  PASSED            2.00x [1.90, 2.10]     12      15",
        "b               INCORRECT_VALUES  -                       3       -",
    ]


@pytest.fixture
def experiment(store, finish_cell, timed) -> Store:
    finish_cell(seed=0)
    finish_cell(seed=1, grade=Evaluation(status=Status.COMPILE_ERROR, stage=Stage.BUILD))
    finish_cell(seed=2, agent="baseline", grade=timed(1.80, 1.79))
    finish_cell(seed=3, agent="baseline", grade=timed(1.0, 1.79))
    finish_cell(seed=4, model="<script>alert(1)")
    return store


def test_the_report_says_what_came_out(experiment):
    html = write_report(experiment).read_text(encoding="utf-8")
    assert "5 of 5 started cells are finished" in html
    assert "<dt>PASSED</dt><dd>4</dd>" in html and "<dt>COMPILE_ERROR</dt><dd>1</dd>" in html
    assert "1 of 2 intervals contain 1." in html
    assert html.count('class="whisker ') == 4
    assert "50 % [9, 91]" in html
    for uid in experiment.rows():
        if "script" not in uid:
            assert f'href="cells/{uid}/page.html"' in html


def test_the_report_says_how_to_repeat_it(experiment):
    config = "name: pages\noverrides:\n- name=pages\n- seed=range(0,3)\n"
    (experiment.root / "experiment.yaml").write_text(config, encoding="utf-8")
    checkout, _ = read_checkout(experiment.root)
    host = json.dumps({"checkout": to_plain(checkout)})
    (experiment.root / "environment.json").write_text(host, encoding="utf-8")
    html = write_report(experiment).read_text(encoding="utf-8")
    assert "kernelsweep run name=pages &#39;seed=range(0,3)&#39;" in html
    assert "Last launched at git cannot read the checkout" in html


def test_the_report_runs_its_own_script_only(experiment):
    html = write_report(experiment).read_text(encoding="utf-8")
    assert html.count("<script>") == 1 and "<script>alert" not in html
    assert "script-src &#39;sha256-" in html
    assert "http://" not in html and "https://" not in html and "src=" not in html


def test_the_spreadsheet_keeps_full_precision(experiment):
    write_report(experiment)
    lines = list(csv.DictReader(io.StringIO((experiment.root / "report.csv").read_text(encoding="utf-8"))))
    assert len(lines) == 5
    for line in lines:
        record = experiment.read_record(line["uid"])
        if record.grade.timing is None:
            assert line["speedup"] == line["reference_median_us"] == ""
        else:
            assert float(line["speedup"]) == record.grade.timing.speedup
            assert float(line["reference_median_us"]) == record.grade.timing.reference.median_us
        assert line["cost_usd"] == "", "unknown is empty, never 0"


def test_the_tables_for_a_paper(experiment):
    write_report(experiment)
    markdown = (experiment.root / "report.md").read_text(encoding="utf-8")
    assert markdown.count("\n| ") == 2 * 2 + 3 + 5
    latex = (experiment.root / "report.tex").read_text(encoding="utf-8")
    assert r"tool\_loop" in latex and r"50 \% [9, 91]" in latex
    assert latex.count(r"\\") == 1 + 3


def test_an_experiment_without_finished_cells_has_a_report(tmp_path):
    html = write_report(Store(tmp_path / "empty")).read_text(encoding="utf-8")
    assert "no cell is finished yet" in html and "No finished cell has a speed-up." in html


def test_a_thousand_cells_take_seconds(store, finish_cell):
    record = finish_cell()
    text = store.record_path(record.uid).read_text(encoding="utf-8")
    for index in range(1000):
        folder = store.cell_dir(f"{record.uid}-{index}")
        folder.mkdir()
        (folder / "record.json").write_text(text.replace(record.uid, f"{record.uid}-{index}"), encoding="utf-8")
    start = time.process_time()
    write_report(store)
    assert time.process_time() - start < 8.0
    assert len((store.root / "report.csv").read_text(encoding="utf-8").splitlines()) == 1002


def test_reports_and_pages_need_no_heavy_library():
    code = (
        "import sys, orchestrator.report.page, orchestrator.report.report; "
        "print(sorted({'torch', 'mlflow', 'litellm', 'hydra'} & sys.modules.keys()))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_unstable_timings_are_correct_but_marked(store, finish_cell, timed):
    unstable = replace(timed(1.0, 1.5), status=Status.UNSTABLE_TIMING)
    finish_cell(grade=unstable)
    assert to_plain(unstable)["status"] == "UNSTABLE_TIMING"
    (group,) = group_rows(store.rows().values())
    assert group.solved.value == 1.0
    assert "UNSTABLE_TIMING" in write_report(store).read_text(encoding="utf-8")
