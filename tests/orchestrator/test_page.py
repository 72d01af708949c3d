"""What one cell's page shows, and that nothing in it acts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from pages import HOSTILE, Page

from evaluation.verdict import Evaluation, Profile, ProfiledKernel, Stage, Status
from orchestrator.config.experiment import load_experiment
from orchestrator.plan import make_plan
from orchestrator.report.page import reference_source, write_cell_page
from orchestrator.report.page_blocks import environment_block, setting
from orchestrator.report.page_html import visible
from orchestrator.report.page_profile import profile_blocks
from orchestrator.report.page_rows import Row
from orchestrator.report.page_svg import turns_picture
from orchestrator.store.store import StoreError


def page_of(store, record) -> str:
    return write_cell_page(store, record.uid).read_text(encoding="utf-8")


def test_every_field_of_a_run_page_is_there(store, finish_cell):
    html = page_of(store, finish_cell())
    text = Page(html).text
    for label in (
        "L1 P24 · 24_row_softmax.py", "PASSED", "model", "turns / max", "tool calls / max", "tokens (total)",
        "wall clock", "truncated", "backend", "cpp fp32 on cpu", "variant", "shapes jitter", "runtime",
        "reference runtime", "speed-up", "started", "2026-05-11T18:05:12Z",
        "kernel mean / median / std", "reference mean / median / std",
        "max abs error", "mean abs error", "max rel error", "mean rel error", "tolerance", "kernelbench verdict",
        "kernel peak", "reference peak", "kernel / reference",
        "kernel launches", "reference launches", "fusion ratio (reference / kernel)", "total device time",
        "SOL score", "DRAM utilisation", "compute utilisation", "bottleneck", "dominant pipe",
        "arithmetic intensity", "ridge point", "DRAM bandwidth", "FP32", "FP16", "occupancy", "L1 hits", "L2 hits",
        "load sectors / request", "store sectors / request", "registers / thread", "shared memory / block",
        "block size", "peak bandwidth", "peak FP32", "peak FP16 (dense)", "warp stalls (top 5)",
        "energy", "builds", "environment", "reference source", "def get_inputs",
        "turn 1", "turn 2", "turn 3", "FINAL", "reasoning", "assistant", "call → compile_kernel",
        "result ← compile_kernel", "(failed)", "(ok)", "kernels in order", "final kernel (16 lines, ",
        "record.json",
    ):  # fmt: skip
        assert label in text, label


def test_figures_have_the_right_units_and_values(store, finish_cell):
    text = Page(page_of(store, finish_cell())).text
    assert "1.259 [1.246, 1.283] µs" in text
    assert "1.45x [1.41, 1.49]" in text
    assert "8.34e-07" in text and "5.65e-07" in text
    assert "3 / 4" in text and "3 / no limit" in text
    assert "11,889" in text
    assert "tokens in 3,396 (cached 1,024) · out 567 (reasoning 120) · total 3,963 · cost unknown" in text
    assert "9.5 s LLM · 2.2 s tools" in text


@pytest.mark.parametrize(
    ("median_us", "shown"), [(0.845, "861.9 ns"), (12.3, "12.55 µs"), (4700.0, "4.794 ms"), (2.1e6, "2.142 s")]
)
def test_time_units_follow_the_magnitude(store, finish_cell, timed, median_us, shown):
    assert shown in Page(page_of(store, finish_cell(grade=timed(median_us, 2 * median_us)))).text.replace(
        f"{shown.split()[0]} [", f"{shown} ["
    )


def test_what_a_cpu_cannot_measure_is_named_with_its_reason(store, finish_cell):
    text = Page(page_of(store, finish_cell())).text
    for reason in (
        "there is no GPU memory",
        "no kernels are launched",
        "there are no warps",
        "no energy counter is read",
    ):
        assert reason in text


def test_a_cell_without_a_timing_says_why(store, finish_cell):
    failed = Evaluation(status=Status.INCORRECT_VALUES, stage=Stage.CORRECTNESS, message="draw 3 is off by 0.5")
    text = Page(page_of(store, finish_cell(grade=failed))).text
    assert "no timing: the evaluation ended as INCORRECT_VALUES in stage correctness" in text
    assert "draw 3 is off by 0.5" in text


def test_a_cell_without_a_kernel_says_so(store, finish_cell):
    text = Page(page_of(store, finish_cell(grade=None))).text
    assert "no timing: no kernel was written, so none was graded" in text
    assert "No kernel was written, so none was graded." in text


def test_the_final_kernel_is_whole_and_kernels_are_compared(store, finish_cell):
    long_line = "x" * 1_000_000
    record = finish_cell(fast=f"# {long_line}\nclass ModelNew: ...\n")
    html = page_of(store, record)
    assert f"# {long_line}\nclass ModelNew: ...\n" in html
    assert "final kernel (2 lines, 1,000,023 characters)" in Page(html).text
    assert '<span class="del">-    auto out' not in html or "difference to kernel 2" in html
    assert '<span class="add">+class ModelNew: ...</span>' in html


def test_texts_that_nobody_reads_to_the_end_are_cut_with_a_note(store, finish_cell):
    html = page_of(store, finish_cell(error_text="e" * 3_000_000))
    assert "2,800,000 characters left out, whole in trajectory.jsonl" in html
    assert len(html) < 1_000_000


def test_nothing_that_a_model_wrote_can_act(store, finish_cell):
    storable = HOSTILE.replace("\ud800", "")
    record = finish_cell(
        text=HOSTILE, reasoning=HOSTILE, error_text=HOSTILE, slow=f"# {storable}\n", fast=f"# fast {storable}\n"
    )
    html = page_of(store, record)
    page = Page(html)
    assert page.open == []
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "img", "iframe", "object", "embed", "link", "base", "form", "input"}
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (tag, attributes)
        assert not (attributes.get("href") or "").startswith(("javascript", "http", "//"))
        assert "src" not in attributes
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x00\x1b\ud800]", html)
    assert "⟨U+202E⟩" in html and "␛[31mred" in html and "⟨U+D800⟩" in html
    assert page.text.count("<script>alert(1)</script>") >= 6
    assert "{{ 7*7 }}" in page.text


def test_hostile_problem_and_model_names_stay_text(store, finish_cell):
    html = page_of(store, finish_cell(model="<b>&\"'"))
    assert "<b>" not in html
    assert "&lt;b&gt;&amp;&#34;&#39;" in html


def test_the_policy_allows_the_page_its_own_style_and_nothing_else(store, finish_cell):
    html = page_of(store, finish_cell())
    policy = next(
        attributes["content"]
        for tag, attributes in Page(html).tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    style = re.search("<style>(.*?)</style>", html, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.split("; ") == [
        "default-src 'none'", f"style-src 'sha256-{digest}'", "script-src 'none'", "base-uri 'none'",
        "form-action 'none'",
    ]  # fmt: skip
    assert "url(" not in style and "@import" not in style


def test_pictures_show_every_sample_and_every_verdict(store, finish_cell):
    html = page_of(store, finish_cell())
    assert html.count('class="sample candidate"') == 24 and html.count('class="sample reference"') == 24
    assert len(re.findall("<title>turn [0-9]+: ", html)) == 2
    for number in re.findall(' (?:x|y|cx|cy|x1|x2|y1|y2)="([^"]+)"', html):
        assert 0 <= float(number) <= 400


def test_turns_are_drawn_from_the_first_on():
    drawn = turns_picture([(0, "COMPILE_ERROR", None, None), (0, "PASSED", None, None), (2, "PASSED", 1.5, 2.0)])
    assert ["0", "1", "2"] == re.findall('y="150.0" text-anchor="middle" class="small">([0-9]+)<', drawn)
    assert "✗" in drawn and "✓" in drawn and "<title>turn 2: 2.00x, 1.500 µs</title>" in drawn


def test_the_reference_is_shown_only_if_it_is_what_was_judged(store, finish_cell):
    record = finish_cell()
    path = store.record_path(record.uid)
    plain = json.loads(path.read_text(encoding="utf-8"))
    plain["cell"]["identity"]["problem"]["sha256"] = "0" * 64
    path.write_text(json.dumps(plain), encoding="utf-8")
    text = Page(page_of(store, record)).text
    assert "has changed since" in text
    assert "## Task" in text, "the prompt still shows what the agent saw"


def test_a_torn_last_line_and_a_take_over_are_understood(store, finish_cell):
    record = finish_cell()
    journal = store.trajectory_path(record.uid)
    lines = journal.read_bytes().splitlines(keepends=True)
    start = json.loads(lines[0]) | {"t": json.loads(lines[-1])["t"]}
    torn = [*lines[:-4], json.dumps(start).encode() + b"\n", *lines[-4:], b'{"kind": "rep']
    journal.write_bytes(b"".join(torn))
    text = Page(page_of(store, record)).text
    assert "resumed by another process" in text
    assert "turn 3" in text


def test_a_baseline_has_no_turns_and_shows_its_kernel(store, finish_cell):
    text = Page(page_of(store, finish_cell(agent="baseline"))).text
    assert "There are no turns." in text
    assert "final kernel (16 lines" in text


def test_no_page_before_the_cell_is_finished(store, finish_cell):
    record = finish_cell()
    store.record_path(record.uid).unlink()
    with pytest.raises(StoreError, match=r"has no record\.json yet"):
        write_cell_page(store, record.uid)


def test_writing_twice_gives_the_same_page(store, finish_cell):
    record = finish_cell()
    assert page_of(store, record) == page_of(store, record)
    leftovers = [path.name for path in Path(store.cell_dir(record.uid)).glob(".*")]
    assert leftovers == []


def test_a_row_has_a_value_or_a_reason():
    with pytest.raises(ValueError, match="either a value or the reason"):
        Row("runtime")
    with pytest.raises(ValueError, match="either a value or the reason"):
        Row("runtime", "1 µs", absent="because")


def test_figures_of_a_gpu_are_shown_where_they_exist(timed):
    metrics = {
        "kernel_peak_bytes": 12288.0, "reference_peak_bytes": 24576.0, "kernel_launches": 1.0,
        "reference_launches": 14.0, "dram_percent": 61.5, "compute_percent": 12.0, "pipe_fma_percent": 11.0,
        "pipe_alu_percent": 30.0, "stall_long_scoreboard_percent": 48.0, "stall_wait_percent": 7.0, "novel": 3.0,
    }  # fmt: skip
    evaluation = timed(1.0, 2.0)
    object.__setattr__(evaluation, "profile", Profile(metrics=metrics, absent={"energy": "no counter"}))
    rows = {
        (block.title, row.label): row.value or f"({row.absent})"
        for block in profile_blocks(evaluation)
        for row in block.rows
    }
    assert rows["GPU memory", "kernel peak"] == "12.00 KiB"
    assert rows["GPU memory", "kernel / reference"] == "0.50x"
    assert rows["kernel launches / fusion", "fusion ratio (reference / kernel)"] == "14.00x"
    assert rows["SOL (speed of light)", "bottleneck"] == "memory"
    assert rows["SOL (speed of light)", "dominant pipe"] == "alu"
    assert rows["warp stalls (top 5)", "all states"].startswith("(the cycles")
    assert rows["energy", "kernel, per call"] == "(no counter)"
    assert rows["roofline / occupancy", "occupancy"] == "(not recorded by this evaluator)"
    assert rows["other figures", "novel"] == "3.000"


def test_figures_that_are_words_and_cycles_of_stalls_are_shown(timed):
    metrics = {
        "dram_percent": 30.0, "compute_percent": 4.0, "stall_wait_percent": 75.0, "stall_wait_cycles": 6.0,
        "stall_selected_percent": 25.0, "stall_selected_cycles": 2.0,
    }  # fmt: skip
    words = {"bottleneck": "latency", "occupancy_limiter": "registers"}
    kernels = [ProfiledKernel(name=f"k{at}", device_time_us=float(at)) for at in range(1, 30)]
    kernels[28] = ProfiledKernel(name="last", device_time_us=90.0, dram_bytes=2048.0, dram_percent=5.0)
    evaluation = timed(1.0, 2.0)
    object.__setattr__(evaluation, "profile", Profile(metrics=metrics, words=words, kernels=kernels))
    rows = {(block.title, row.label): row.value for block in profile_blocks(evaluation) for row in block.rows}
    assert rows["SOL (speed of light)", "bottleneck"] == "latency"
    assert rows["roofline / occupancy", "occupancy limited by"] == "registers"
    assert rows["warp stalls (top 5)", "all states"] == "8.00 cycles of a warp for each instruction issued"
    (stalls,) = [block.picture for block in profile_blocks(evaluation) if block.title == "warp stalls (top 5)"]
    assert re.findall(">([^<]+)</text>", str(stalls)) == [
        "wait", "75.0 % · 6.00 cycles", "issuing (selected)", "25.0 % · 2.00 cycles",
    ]  # fmt: skip
    shown = [label for title, label in rows if title == "kernels of one forward (20 of 29)"]
    assert shown == [f"launch {at}" for at in range(10, 30)]
    last = rows["kernels of one forward (20 of 29)", "launch 29"]
    assert last == "last: 90.00 µs, DRAM 2.000 KiB, DRAM 5.00 %"


def test_the_software_of_a_gpu_is_shown_where_it_is_known(store, finish_cell, timed):
    before = timed(1.0, 2.0)
    for_gpu = {"driver": "580.65.06", "cuda": "13.0", "nvcc": "Cuda compilation tools, release 13.0", "host": "A CPU"}
    on_gpu = replace(before, environment=replace(before.environment, **for_gpu))
    rows = {row.label: row.value for row in environment_block(finish_cell(grade=on_gpu)).rows}
    assert (rows["driver"], rows["CUDA"], rows["host"]) == ("580.65.06", "13.0", "A CPU")
    assert rows["nvcc"] == "Cuda compilation tools, release 13.0"
    on_cpu = {row.label for row in environment_block(finish_cell(seed=1, grade=before)).rows}
    assert on_cpu == set(rows) - {"driver", "CUDA", "nvcc", "host"}


def test_visible_keeps_readable_text():
    assert visible("héllo\tworld\n日本 ✓ שלום") == "héllo\tworld\n日本 ✓ שלום"
    assert visible("a\r\nb") == "a␍\nb"


def test_what_a_page_looks_up_is_in_a_planned_cell():
    experiment = load_experiment(["experiment=quickstart"])
    cell = next(iter(make_plan(experiment).cells.values()))
    for path in (
        ("problem", "sha256"), ("agent", "backend"), ("agent", "kind"), ("evaluation", "device"),
        ("evaluation", "precision"), ("evaluation", "shapes"), ("budget", "turns"),
    ):  # fmt: skip
        assert setting(cell.identity, *path) is not None, path
    assert setting(cell.runtime, "problem", "source") == "own"
    source, reason = reference_source(cell)
    assert "class Model" in source and reason == ""
