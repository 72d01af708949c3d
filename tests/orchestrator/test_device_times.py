"""What is shown of a kernel that was timed on a device, with evaluations from an H200 as data."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from device_evaluations import GATHER, MEAN, on_h200, source_of, waiting

from evaluation.serialize import to_plain
from evaluation.verdict import Conditions, Evaluation, Timing
from orchestrator.cell import Record
from orchestrator.cli.evaluate import verdict_lines
from orchestrator.cli.main import main
from orchestrator.report.page import write_cell_page
from orchestrator.report.page_evaluation import evaluation_page
from orchestrator.report.page_timing import conditions_blocks, conditions_rows, runtime_rows, timing_block
from orchestrator.report.report import write_report
from orchestrator.report.tables import format_table, group_rows, group_table
from orchestrator.store.index import DEVICE_FIELDS, Row, parse_row
from orchestrator.store.store import Store
from orchestrator.tracking.projection import final_figures
from problems.library import Library

CHECKOUT = Path(__file__).parents[2]
FinishCell = Callable[..., Record]
LAUNCH_BOUND = "launch-bound: a call is so short that the speed-up says little about the kernel"


def timing_of(evaluation: Evaluation) -> Timing:
    assert evaluation.timing is not None
    return evaluation.timing


def words_of(page: str) -> str:
    return html.unescape(re.sub("<[^>]+>", "\n", page))


def test_both_kinds_of_time_have_rows_with_intervals_and_a_speedup() -> None:
    rows = {row.label: row.value for row in timing_block(on_h200(MEAN)).rows}
    assert rows["device time"] == "1.572 [1.528, 1.647] µs"
    assert rows["reference device time"] == "3.869 [3.829, 3.886] µs"
    assert rows["speed-up, device time"] == "2.45x [2.30, 2.60]"
    assert rows["end to end"] == "75.22 [52.21, 443.6] µs"
    assert rows["reference end to end"] == "62.99 [42.78, 102.7] µs"
    assert rows["speed-up, end to end"] == "0.737x [0.265, 1.44]"
    assert rows["kernel end to end, mean / median / std"] == "131.7 / 75.22 / 124.8 µs"
    assert rows["bounded by the judge's clock"] == "at least 1.200 µs of device time"
    assert rows["size"] == LAUNCH_BOUND
    assert rows["blocks"].endswith("; 9 pairs end to end")
    assert not {"runtime", "speed-up", "reference ran as"} & set(rows)


def test_a_call_that_waits_is_said_to_be_bounded_end_to_end() -> None:
    rows = {row.label: row.value for row in timing_block(waiting(100.0)).rows}
    assert rows["bounded by the judge's clock"] == (
        "the call waits for the device, so that at the lower end of the speed-up its end-to-end time counts"
    )
    assert rows["size"] == "the reference takes at least 10 µs"


def test_what_the_reference_ran_as_is_said_where_it_is_not_the_module_as_it_stands() -> None:
    found = on_h200(MEAN)
    compiled = replace(found, timing=replace(timing_of(found), baseline="compile"))
    assert {row.label: row.value for row in timing_block(compiled).rows}["reference ran as"] == "torch.compile of it"
    assert dict(verdict_lines(compiled))["reference"] == "ran as torch.compile of it"


def test_the_device_is_described_before_and_after() -> None:
    (block,) = conditions_blocks(on_h200(MEAN))
    assert {row.label: row.value for row in block.rows} == {
        "SM clock": "1980 → 1980 MHz (highest 1980 MHz)",
        "memory clock": "3201 → 3201 MHz",
        "power": "123.8 → 143.1 W (limit 700 W)",
        "temperature": "38 → 38 °C",
        "clocks held down by": "nothing → nothing",
        "other processes": "4 (pid 1785, 1787, 1788, 1789) → none",
        "utilisation": "9 → 6 %",
        "memory in use": "4.489 GiB → 918.8 MiB",
    }


def test_what_the_driver_does_not_tell_is_no_zero() -> None:
    (silent,) = conditions_blocks(waiting(100.0))
    assert silent.common_absence == "the device's driver does not tell"
    before = Conditions(sm_clock_mhz=1200, power_limit_w=600.0, throttle_reasons=["SW_POWER_CAP", "HW_SLOWDOWN"])
    after = Conditions(power_w=0.0, power_limit_w=700.0, throttle_reasons=[])
    rows = {row.label: row.value or f"({row.absent})" for row in conditions_rows([before, after])}
    assert rows["SM clock"] == "1200 → unknown MHz"
    assert rows["power"] == "unknown → 0 W", "a limit that moved is not told as one"
    assert rows["clocks held down by"] == "SW_POWER_CAP, HW_SLOWDOWN → nothing"
    assert rows["temperature"] == "(the device's driver does not tell)"
    assert rows["other processes"].startswith("(not known: ")
    crowd = [Conditions(foreign_processes=list(range(100, 120)))]
    (row,) = [row for row in conditions_rows(crowd) if row.label == "other processes"]
    assert row.value == "20 (pid 100, 101, 102, 103, 104, 105, 106, 107, …)"


def test_a_cell_judged_on_a_cpu_has_one_kind_of_time_and_no_device(timed: Callable[..., Evaluation]) -> None:
    found = timed(1.0, 2.0)
    assert [row.label for row in runtime_rows(found.timing, "")] == ["runtime", "reference runtime", "speed-up"]
    assert conditions_blocks(found) == [] and conditions_blocks(None) == []
    labels = {row.label for row in timing_block(found).rows}
    assert not [label for label in labels if "end to end" in label or "judge" in label]


def test_the_page_of_a_cell_shows_both(store: Store, finish_cell: FinishCell) -> None:
    page = write_cell_page(store, finish_cell(grade=on_h200(MEAN)).uid).read_text(encoding="utf-8")
    words = words_of(page)
    assert "2.45x [2.30, 2.60] device time · 0.737x [0.265, 1.44] end to end · launch-bound" in words
    assert "device while timed" in words and "580.159.04" in words
    assert words.count("1.572 [1.528, 1.647] µs") >= 3, "head, timing and picture"
    assert page.count('class="sample candidate"') == 18 + 9


def test_one_evaluation_has_a_page_of_its_own() -> None:
    found = on_h200(GATHER)
    page = evaluation_page(found, Library().load(found.problem), source_of(GATHER))
    words = words_of(page)
    for expected in (
        "L2 P47 · 47_virtual_all_gather_concat_linear.py", "PASSED", "there is no session behind it",
        "0.606x [0.591, 0.618] device time · 2.23x [0.607, 7.62] end to end · launch-bound",
        "numerical precision", "no profile was taken", "fused_module", "device while timed", "reference source",
        "def get_inputs", f"kernel ({len(source_of(GATHER).splitlines())} lines, ", "problem sha256", "evaluation.json",
    ):  # fmt: skip
        assert expected in words, expected
    assert html.escape(source_of(GATHER), quote=False).splitlines()[-1] in page
    assert not [word for word in ("turns", "tokens", "agent", "cell") if word in words.split("evaluation.json")[0]]


def test_a_page_of_other_things_than_what_was_judged_is_refused() -> None:
    found, library = on_h200(GATHER), Library()
    with pytest.raises(ValueError, match="the evaluation is of level2/47_virtual_all_gather_concat_linear and kernel"):
        evaluation_page(found, library.load(found.problem), source_of(MEAN))
    with pytest.raises(ValueError, match="not of level1/24_row_softmax"):
        evaluation_page(found, library.load("level1/24_row_softmax"), source_of(GATHER))


@pytest.mark.parametrize("name", [MEAN, GATHER])
def test_the_examples_show_what_their_evaluations_say(name: str) -> None:
    found = on_h200(name)
    stem = CHECKOUT / "docs" / "examples" / found.problem.rsplit("/", 1)[-1]
    assert json.loads(stem.with_suffix(".json").read_text(encoding="utf-8")) == json.loads(
        (CHECKOUT / "tests" / "data" / "evaluations" / f"{name}.json").read_text(encoding="utf-8")
    )
    words = words_of(stem.with_suffix(".html").read_text(encoding="utf-8"))
    for row in [*runtime_rows(found.timing, ""), *conditions_rows(timing_of(found).conditions)]:
        assert row.label in words and row.value in words, row.label
    assert source_of(name).splitlines()[-1] in words


def test_evaluate_writes_a_page_beside_its_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    candidate, page = tmp_path / "candidate.py", tmp_path / "page.html"
    candidate.write_text("class ModelNew: <b>", encoding="utf-8")
    asked = ["evaluate", "24", str(candidate), "--out", str(tmp_path)]
    assert main([*asked, "--page", str(tmp_path / "nowhere" / "page.html")]) == 2
    assert capsys.readouterr().err.endswith("nowhere/page.html: its folder does not exist\n")
    assert main([*asked, "--page", str(tmp_path)]) == 2
    assert "it is a folder" in capsys.readouterr().err
    assert main([*asked, "--page", str(page), "evaluation.draws=2"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["page", str(page)]
    text = page.read_text(encoding="utf-8")
    assert "no speed-up: not timed" in text and "class ModelNew: &lt;b&gt;" in text and "<b>" not in text


def test_the_terminal_of_evaluate_tells_both() -> None:
    lines = dict(verdict_lines(on_h200(MEAN)))
    assert lines["device time"].startswith("2.45x [2.30, 2.60]: 1.572 [1.528, 1.647] µs, reference 3.869 [")
    assert lines["end to end"].startswith("0.737x [0.265, 1.44]: 75.22 [52.21, 443.6] µs, reference 62.99 [")
    assert lines["bounded"] == "by the judge's clock: at least 1.200 µs of device time"
    assert lines["mark"] == LAUNCH_BOUND
    assert lines["conditions"].startswith("SM clock 1980 → 1980 MHz (highest 1980 MHz), memory clock ")
    waits = dict(verdict_lines(waiting(100.0)))
    assert "waits for the device" in waits["bounded"] and not {"mark", "conditions", "speed-up"} & set(waits)


def test_a_row_of_the_index_has_a_devices_figures_where_there_are_any(finish_cell: FinishCell) -> None:
    on_cpu, on_gpu = Row.of(finish_cell()), Row.of(finish_cell(seed=1, grade=on_h200(MEAN)))
    assert not set(DEVICE_FIELDS) & set(on_cpu.plain()) and set(DEVICE_FIELDS) <= set(on_gpu.plain())
    for row in (on_cpu, on_gpu):
        assert parse_row(json.loads(json.dumps(row.plain()))) == row
    assert on_gpu.launch_bound is True and on_cpu.launch_bound is None


def test_tables_have_a_second_speedup_once_a_device_was_timed(store: Store, finish_cell: FinishCell) -> None:
    finish_cell()
    before = format_table(store.rows().values())
    assert "speed-up [95 %]  " in before and "†" not in before
    finish_cell(seed=1, grade=on_h200(MEAN))
    finish_cell(seed=2, grade=waiting(100.0))
    rows = sorted(store.rows().values(), key=lambda row: row.seed)
    lines = format_table(rows).splitlines()
    assert "speed-up, device time [95 %]  speed-up, end to end [95 %]" in lines[0]
    assert re.search(r"1\.45x \[1\.41, 1\.49\] +- ", lines[1])
    assert re.search(r"2\.45x \[2\.30, 2\.60\] † +0\.737x \[0\.265, 1\.44\] ", lines[2])
    assert re.search(r"0\.606x \[0\.591, 0\.618\] +2\.23x ", lines[3])
    assert lines[4] == f"† {LAUNCH_BOUND}"
    columns, (line,) = group_table(group_rows(rows))
    assert dict(zip(columns, line, strict=True))["launch-bound"] == "1"
    assert dict(zip(columns, line, strict=True))["median speed-up, end to end"] == "1.48x"


def test_the_report_and_its_spreadsheet_have_them(store: Store, finish_cell: FinishCell) -> None:
    finish_cell()
    on_gpu = finish_cell(seed=1, grade=on_h200(MEAN))
    waits = finish_cell(seed=2, grade=waiting(100.0))
    words = words_of(write_report(store).read_text(encoding="utf-8"))
    assert "speed-up, end to end" in words and "75.22 µs" in words and "62.99 µs" in words
    assert "speed-up, runtime and reference are of device time" in words
    markdown = (store.root / "report.md").read_text(encoding="utf-8")
    assert "| 2.45x [2.30, 2.60] † | 0.737x [0.265, 1.44] |" in markdown and f"† {LAUNCH_BOUND}" in markdown
    assert "launch-bound" in (store.root / "report.tex").read_text(encoding="utf-8")
    table = csv.DictReader(io.StringIO((store.root / "report.csv").read_text(encoding="utf-8")))
    lines = {line["uid"]: line for line in table}
    timing = timing_of(on_h200(MEAN))
    assert timing.end_to_end is not None
    line = lines.pop(on_gpu.uid)
    arm, reference = timing.end_to_end.candidate, timing.end_to_end.reference
    figures = {
        "end_to_end_us": arm.median_us, "end_to_end_low_us": arm.low_us, "end_to_end_high_us": arm.high_us,
        "reference_end_to_end_us": reference.median_us, "end_to_end_speedup": timing.end_to_end.speedup,
        "end_to_end_speedup_low": timing.end_to_end.speedup_low, "attested_us": timing.attested_us,
        "latency_us": timing.candidate.median_us,
    }  # fmt: skip
    assert {name: float(line[name]) for name in figures} == figures and line["launch_bound"] == "True"
    line = lines.pop(waits.uid)
    assert (line["attested_us"], line["launch_bound"]) == ("", "False")
    (line,) = lines.values()
    assert {line[name] for name in figures if name != "latency_us"} == {""} and line["launch_bound"] == ""


def test_mlflow_gets_them_where_they_are_known(finish_cell: FinishCell) -> None:
    figures = final_figures(finish_cell(grade=on_h200(MEAN)))
    timing = timing_of(on_h200(MEAN))
    assert figures["final/end_to_end_us"] == pytest.approx(75.219, abs=1e-3)
    assert figures["final/end_to_end_speedup"] == pytest.approx(0.7372, abs=1e-4)
    assert figures["final/attested_us"] == timing.attested_us and figures["final/sm_clock_mhz"] == 1980.0
    assert figures["final/latency_us"] == timing.candidate.median_us
    silent = final_figures(finish_cell(seed=1, grade=waiting(100.0)))
    assert not {"final/attested_us", "final/sm_clock_mhz"} & set(silent) and "final/end_to_end_us" in silent
    on_cpu = final_figures(finish_cell(seed=2))
    assert not [name for name in on_cpu if "end_to_end" in name or "attested" in name or "clock" in name]


def test_an_evaluation_of_a_device_survives_its_journal() -> None:
    text = (CHECKOUT / "tests" / "data" / "evaluations" / f"{MEAN}.json").read_text(encoding="utf-8")
    plain, kept = to_plain(on_h200(MEAN)), json.loads(text)
    assert {name: plain["timing"][name] for name in kept["timing"]} == kept["timing"]
    assert {name: plain[name] for name in kept if name != "timing"} == {
        name: kept[name] for name in kept if name != "timing"
    }
