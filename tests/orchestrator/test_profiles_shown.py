"""What is shown of profiles: pictures and figures of a page, tables, the spreadsheet, MLflow, the terminal."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pages import HOSTILE, Page
from profiles import profile_of, with_profile

from agents.protocols import ToolResult
from evaluation.__main__ import summarise
from evaluation.profile.brief import brief
from evaluation.verdict import Profile, ProfiledKernel
from orchestrator.cell import Record
from orchestrator.cli.evaluate import verdict_lines
from orchestrator.cli.main import main
from orchestrator.profiled import FIGURES, figures_of
from orchestrator.report.page import write_cell_page
from orchestrator.report.page_bars import cut, short_name
from orchestrator.report.page_labels import Board
from orchestrator.report.page_profile import profile_blocks
from orchestrator.report.page_roofline import Roofs, roofline
from orchestrator.report.page_turns import Call, Story, Turn, earlier_profiles
from orchestrator.report.report import write_report
from orchestrator.report.spreadsheet import csv_fields
from orchestrator.store.store import Store
from orchestrator.tracking.projection import final_figures, project

FinishCell = Callable[..., Record]
NAMES = ("matmul_fp16", "memory_copy", "three_kernels", "only_launches", "cpu")


def counted_matmul(**metrics: float) -> Profile:
    """The measured matrix product, with the operations that it has."""
    found = profile_of("matmul_fp16")
    flops = 2.0 * 4096**3
    own = {"tensor_fp16_flops": flops, "flops": flops, "arithmetic_intensity": flops / found.metrics["dram_bytes"]}
    words = found.words | {"ridge_precision": "fp16"}
    return replace(found, metrics=found.metrics | own | {"ridge_point": 989.4 / 4.8} | metrics, words=words)


def rows_of(profile: Profile) -> dict[tuple[str, str], str]:
    blocks = profile_blocks(with_profile(profile))
    return {(block.title, row.label): row.value or f"({row.absent})" for block in blocks for row in block.rows}


def texts(drawn: object) -> list[str]:
    return [html.unescape(words) for words in re.findall("<text [^>]*>([^<]*)</text>", str(drawn))]


def titles(drawn: object) -> list[str]:
    return [html.unescape(words) for words in re.findall("<title>([^<]*)</title>", str(drawn))]


def circles(drawn: object) -> list[tuple[float, float, str]]:
    found = re.findall('<circle cx="([^"]+)" cy="([^"]+)" r="[^"]+" class="spot ([a-z]+)"', str(drawn))
    return [(float(x), float(y), kind) for x, y, kind in found]


def test_every_figure_of_a_run_page_has_its_unit() -> None:
    rows = rows_of(counted_matmul(load_sectors_per_request=4.0, store_sectors_per_request=16.0, fp16_tflops=751.8,
                                  fp16_percent=75.99))  # fmt: skip
    sol, roofs = "SOL (speed of light)", "roofline / occupancy"
    expected = {
        ("GPU memory", "kernel peak"): "32.00 MiB", ("GPU memory", "reference peak"): "32.00 MiB",
        ("GPU memory", "kernel / reference"): "1.00x",
        ("kernel launches / fusion", "kernel launches"): "1", ("kernel launches / fusion", "reference launches"): "1",
        ("kernel launches / fusion", "fusion ratio (reference / kernel)"): "1.00x",
        ("kernel launches / fusion", "total device time"): "182.8 µs",
        (sol, "SOL score (0 to 1)"): "0.9037", (sol, "DRAM utilisation"): "20.0 %",
        (sol, "compute utilisation"): "90.4 %", (sol, "bottleneck"): "compute", (sol, "dominant pipe"): "tensor",
        (sol, "arithmetic intensity"): "782.5 FLOP/byte", (sol, "ridge point"): "206.1 FLOP/byte (fp16)",
        (roofs, "DRAM bandwidth"): "960.7 GB/s", (roofs, "DRAM utilisation"): "20.0 %",
        (roofs, "DRAM traffic"): "167.5 MiB", (roofs, "operations"): "137.4 GFLOP", (roofs, "FP32"): "0 TFLOPS",
        (roofs, "FP32 utilisation"): "0 %", (roofs, "FP16"): "751.8 TFLOPS", (roofs, "FP16 utilisation"): "76.0 %",
        (roofs, "occupancy"): "14.7 %", (roofs, "theoretical occupancy"): "18.8 %",
        (roofs, "occupancy limited by"): "registers, shared memory", (roofs, "bottleneck"): "compute",
        (roofs, "dominant pipe"): "95.1 % (tensor)", (roofs, "L1 hits"): "0 %", (roofs, "L2 hits"): "73.6 %",
        (roofs, "load sectors / request"): "4.000", (roofs, "store sectors / request"): "16.00",
        (roofs, "registers / thread"): "168", (roofs, "shared memory / block"): "209.2 KiB",
        (roofs, "block size"): "384 threads", (roofs, "grid size"): "132 blocks",
        (roofs, "peak bandwidth"): "4800 GB/s", (roofs, "peak FP32"): "67.00 TFLOPS",
        (roofs, "peak FP16 (dense)"): "989.4 TFLOPS",
        ("warp stalls (top 5)", "all states"): "15.98 cycles of a warp for each instruction issued",
        ("energy", "kernel, per call"): "145.1 mJ", ("energy", "reference, per call"): "150.1 mJ",
        ("energy", "kernel / reference"): "0.97x",
        ("other figures", "pipe fma"): "0.0300 %", ("other figures", "tensor fp16 operations"): "137.4 GFLOP",
        ("kernels of one forward (1 of 1)", "launch 1"):
            "nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_coopA_NNT: 182.8 µs, DRAM 167.5 MiB, DRAM 20.0 %, compute 90.4 %",
    }  # fmt: skip
    assert {place: rows[place] for place in expected} == expected


def test_how_figures_were_measured_is_said_beside_them() -> None:
    found = counted_matmul()
    peaked = replace(found, words=found.words | {"peaks": "vendor: NVIDIA H200 datasheet"})
    how = "ncu, caches emptied before each pass, clocks as they are"
    sources = {block.title: block.source for block in profile_blocks(with_profile(peaked))}
    assert sources["SOL (speed of light)"] == f"{how}; sandbox: process, system call filter"
    assert sources["roofline / occupancy"] == f"{how}; peaks: vendor: NVIDIA H200 datasheet"
    assert sources["kernel launches / fusion"] == sources["warp stalls (top 5)"] == how
    sources = {block.title: block.source for block in profile_blocks(with_profile(profile_of("only_launches")))}
    assert sources["kernel launches / fusion"].startswith("none; launches and durations by torch's profiler")
    assert sources["SOL (speed of light)"] == ""


def test_the_roofline_has_its_roofs_ridge_and_point_where_they_belong() -> None:
    drawn, words = roofline(counted_matmul())
    assert words == "filled: this kernel"
    said = texts(drawn)
    for label in ("memory 4800 GB/s", "FP16 989.4 TFLOPS", "FP32 67.00 TFLOPS", "ridge 206 (FP16)", "this kernel"):
        assert said.count(label) == 1, label
    assert titles(drawn) == ["this kernel: 783 FLOP/byte, 752 TFLOPS, 76.0 % of the roof of FP16"]
    lines = re.findall('<line x1="([^"]+)" y1="([^"]+)" x2="([^"]+)" y2="([^"]+)" class="roof"', str(drawn))
    memory, fp16, fp32 = (tuple(map(float, line)) for line in lines)
    assert memory[2:] == fp16[:2] and fp16[1] == fp16[3] < fp32[1] == fp32[3]
    slope = (memory[3] - memory[1]) / (memory[2] - memory[0])
    assert fp32[1] == pytest.approx(memory[1] + slope * (fp32[0] - memory[0]), abs=0.2), "it starts on memory's roof"
    ((x, y, kind),) = circles(drawn)
    assert kind == "kernel" and x > fp16[0], "right of the ridge"
    assert fp16[1] < y < fp32[1], "between the roofs"


def test_earlier_profiles_are_numbered_by_turn_and_joined_in_order() -> None:
    slow, fast = counted_matmul(device_time_us=9000.0, arithmetic_intensity=66.0), counted_matmul(device_time_us=400.0)
    drawn, words = roofline(counted_matmul(), [("2", slow), ("3", profile_of("memory_copy")), ("5", fast)])
    assert "numbers: the turn of an earlier profile, joined in order" in words
    assert "no point for turn 3: without a counted operation" in words
    assert [title.partition(":")[0] for title in titles(drawn)] == ["turn 2", "turn 5", "this kernel"]
    assert {"2", "5", "this kernel"} <= set(texts(drawn)) and "3" not in texts(drawn)
    path = re.search('<polyline points="([^"]+)" class="path"/>', str(drawn))
    assert path is not None
    joined = [tuple(map(float, point.split(","))) for point in path[1].split()]
    assert joined == [(x, y) for x, y, _ in circles(drawn)] and len(joined) == 3


def test_each_launch_that_computes_has_a_point() -> None:
    profile = profile_of("three_kernels")
    drawn, words = roofline(profile)
    assert "launches of this forward" in words
    assert [kind for *_, kind in circles(drawn)] == ["launch", "launch", "kernel"], "the first launch adds nothing up"
    assert {"#2", "#3"} <= set(texts(drawn)) and "#1" not in texts(drawn)
    assert any(title.startswith("launch #2: 1.62 FLOP/byte, 5.34 TFLOPS, ") for title in titles(drawn))
    uncounted = replace(profile, kernels=[replace(kernel, flops=None) for kernel in profile.kernels])
    assert [kind for *_, kind in circles(roofline(uncounted)[0])] == ["kernel"]


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (profile_of("memory_copy"), "no floating-point operation was counted: the arithmetic intensity is 0"),
        (profile_of("matmul_fp16"), "tensor cores were up to 95.1 % busy, and none of their operations was counted"),
        (profile_of("only_launches"), "ERR_NVGPUCTRPERM"),
        (profile_of("cpu"), "judged on a CPU: this takes a GPU"),
        (replace(counted_matmul(), metrics={"arithmetic_intensity": 1.0}, absent={}), "no peaks of this device"),
    ],
)  # fmt: skip
def test_a_plot_without_a_point_is_named_with_its_reason(profile: Profile, reason: str) -> None:
    (block,) = [block for block in profile_blocks(with_profile(profile)) if block.title == "roofline / occupancy"]
    (row,) = [row for row in block.rows if row.label == "roofline plot"]
    assert block.picture is None and row.absent.startswith(reason)


def test_operations_that_were_not_counted_are_no_zero() -> None:
    rows = rows_of(profile_of("matmul_fp16"))
    assert "none of their operations was counted" in rows["SOL (speed of light)", "arithmetic intensity"]
    assert "arithmetic_intensity" not in figures_of(with_profile(profile_of("matmul_fp16")))
    assert figures_of(with_profile(profile_of("memory_copy")))["arithmetic_intensity"] == 0.0, "a copy computes nothing"


def test_stalls_are_the_five_largest_the_rest_and_issuing() -> None:
    (block,) = [b for b in profile_blocks(with_profile(profile_of("matmul_fp16"))) if b.title == "warp stalls (top 5)"]
    assert texts(block.picture) == [
        "barrier", "37.6 % · 6.01 cycles", "long_scoreboard", "23.7 % · 3.79 cycles", "mio_throttle",
        "18.2 % · 2.91 cycles", "wait", "9.82 % · 1.57 cycles", "math_pipe_throttle", "1.69 % · 0.27 cycles",
        "12 other stalls", "2.69 % · 0.43 cycles", "issuing (selected)", "6.26 % · 1.00 cycles",
    ]  # fmt: skip
    widths = [float(width) for width in re.findall('width="([^"]+)" height="7.0" class="bar', str(block.picture))]
    assert sum(widths) == pytest.approx(352, rel=0.01), "all together are the whole"
    assert "Where warps spend their cycles: barrier 37.6 % · 6.01 cycles; " in str(block.picture)


def test_launches_have_bars_where_there_are_several() -> None:
    pictures = {
        name: block.picture
        for name in NAMES
        for block in profile_blocks(with_profile(profile_of(name)))
        if block.title.startswith("kernels of one forward")
    }
    assert pictures.pop("memory_copy") is None and pictures.pop("matmul_fp16") is None
    assert texts(pictures.pop("only_launches")) == [
        "1. partial_sums", "4.100 µs · 56.2 %", "2. total", "3.200 µs · 43.8 %",
    ]  # fmt: skip
    assert [words for words in texts(pictures.pop("three_kernels")) if "%" in words] == [
        "48.30 µs · 23.1 %", "81.70 µs · 39.1 %", "79.10 µs · 37.8 %",
    ]  # fmt: skip
    assert pictures == {}
    many = replace(profile_of("cpu"), kernels=[ProfiledKernel(name=f"k{at}", device_time_us=at) for at in range(1, 31)])
    (block,) = [block for block in profile_blocks(with_profile(many)) if block.title.startswith("kernels")]
    names = texts(block.picture)[::2]
    assert names == [*(f"{at}. k{at}" for at in range(20, 31)), "19 other launches"]
    assert texts(block.picture)[-1] == "190.0 µs · 40.9 %"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void f<4>(int, float (*)(int))", "f<4>"),
        ("(anonymous namespace)::g(float*)", "(anonymous namespace)::g"),
        ("nvjet_sm90", "nvjet_sm90"),
        ("unbalanced)", "unbalanced)"),
        ("", ""),
    ],
)
def test_a_short_name_lacks_type_and_parameters(name: str, short: str) -> None:
    assert short_name(name) == short


@pytest.mark.parametrize("words", ["", "short", "x" * 200, "日本" * 100, "a日" * 50])
@pytest.mark.parametrize("room", [1, 2, 7, 30])
def test_a_name_is_cut_to_the_room_it_has(words: str, room: int) -> None:
    width = sum(2 if ord(character) > 255 and character != "…" else 1 for character in cut(words, room))
    assert width <= room or cut(words, room) == words
    assert (cut(words, room) == words) is (sum(1 + (ord(one) > 255) for one in words) <= room)


def test_names_of_points_do_not_lie_on_each_other() -> None:
    board = Board(0, 300, 0, 200)
    for _ in range(3):
        board.take_point(150, 100)
    places = [board.room_for(150, 100, "turn 1") for _ in range(30)]
    found = [place for place in places if place is not None]
    assert 4 <= len(found) < 30 and len(set(found)) == len(found)
    boxes = board.taken[3:]
    for at, one in enumerate(boxes):
        for other in boxes[:at]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


@pytest.mark.parametrize("scale", [1e-7, 1e-3, 1.0, 1e4])
@pytest.mark.parametrize("intensity", [1e-4, 1.0, 1e6])
def test_whatever_a_profile_says_stays_inside_the_picture(scale: float, intensity: float) -> None:
    odd = counted_matmul(arithmetic_intensity=intensity, device_time_us=182.8 / scale)
    drawn, _ = roofline(odd, [("1", counted_matmul()), ("2", profile_of("three_kernels"))])
    for name, number in re.findall(' (x|y|cx|cy|x1|x2|y1|y2)="([^"]+)"', str(drawn)):
        assert 0 <= float(number) <= (360 if "x" in name else 260), (name, number)


def test_roofs_of_one_height_are_one_and_a_device_without_peaks_has_none() -> None:
    roofs = Roofs.of(counted_matmul(peak_bf16_tflops=989.4))
    assert roofs is not None and roofs.lines() == [(989.4, "FP16, BF16"), (67.0, "FP32")]
    tf32 = replace(counted_matmul(ridge_point=494.7 / 4.8), words={"ridge_precision": "tf32"})
    roofs = Roofs.of(tf32)
    assert roofs is not None and roofs.lines() == [(989.4, "FP16"), (494.7, "TF32"), (67.0, "FP32")]
    assert Roofs.of(profile_of("cpu")) is None


@pytest.mark.parametrize("name", NAMES)
def test_a_page_shows_it_safely(store: Store, finish_cell: FinishCell, name: str) -> None:
    profile = profile_of(name)
    storable = HOSTILE.replace("\ud800", "")
    kernels = [replace(kernel, name=storable) for kernel in profile.kernels]
    hostile = replace(profile, kernels=kernels, words=dict.fromkeys(profile.words, storable))
    page = Page(write_cell_page(store, finish_cell(grade=with_profile(hostile)).uid).read_text(encoding="utf-8"))
    assert page.open == []
    assert not {tag for tag, _ in page.tags} & {"script", "img", "image", "use", "foreignobject"}
    for tag, attributes in page.tags:
        assert not [key for key in attributes if key.startswith("on") or key == "style"], (tag, attributes)
    assert all(attributes.get("aria-label") for tag, attributes in page.tags if tag == "svg")


def test_a_cells_earlier_profiles_come_from_its_tools() -> None:
    results = [
        ToolResult(text="", ok=True, evaluation=with_profile(profile_of(name)), wall_s=1.0)
        for name in ("memory_copy", "cpu")
    ]
    calls = {at: Call(name="profile_kernel", arguments=[], result=result) for at, result in enumerate(results)}
    without = Turn(number=2, calls={0: Call(name="compile_kernel", arguments=[])})
    story = Story(turns=[without, Turn(number=4, calls=calls)])
    assert earlier_profiles(story) == [("4", profile_of("memory_copy")), ("4", profile_of("cpu"))]


def test_the_spreadsheet_and_mlflow_have_what_is_known_and_nothing_else(store: Store, finish_cell: FinishCell) -> None:
    records = {name: finish_cell(seed=at, grade=with_profile(profile_of(name))) for at, name in enumerate(NAMES)}
    none = finish_cell(seed=9)
    for name, record in records.items():
        metrics = profile_of(name).metrics
        known = {key: metrics[key] for key in FIGURES if key in metrics}
        fields = csv_fields(record)
        assert {key: fields[key] for key in FIGURES} == dict.fromkeys(FIGURES) | known
        assert fields["bottleneck"] == profile_of(name).words.get("bottleneck")
        figures = final_figures(record)
        assert {key: figures[f"final/{key}"] for key in FIGURES if f"final/{key}" in figures} == known
    assert len(figures_of(records["three_kernels"].grade)) == len(FIGURES)
    assert not {f"final/{key}" for key in FIGURES} & final_figures(none).keys()
    write_report(store)
    table = csv.DictReader(io.StringIO((store.root / "report.csv").read_text(encoding="utf-8")))
    lines = {line["uid"]: line for line in table}
    assert lines[records["memory_copy"].uid]["bottleneck"] == "memory"
    assert float(lines[records["memory_copy"].uid]["dram_percent"]) == pytest.approx(79.66)
    assert {lines[none.uid][key] for key in (*FIGURES, "bottleneck")} == {""}


def test_mlflow_has_the_bottleneck_as_a_tag(store: Store, finish_cell: FinishCell) -> None:
    tags = []
    for at, name in enumerate(("memory_copy", "cpu")):
        record = finish_cell(seed=at, grade=with_profile(profile_of(name)))
        start = {"kind": "start", "attempt": 1, "t": 100.0}
        (view,) = project(record.cell, [start], [], record, held=False)
        tags.append(view.tags.get("kernelsweep.bottleneck"))
    assert tags == ["memory", None]


def test_the_report_has_columns_of_profiles_once_there_is_one(store: Store, finish_cell: FinishCell) -> None:
    finish_cell()
    plain = write_report(store).read_text(encoding="utf-8")
    assert "<th>bottleneck</th>" not in plain and "SOL score" not in plain
    finish_cell(seed=1, grade=with_profile(profile_of("three_kernels")))
    finish_cell(seed=2, grade=with_profile(profile_of("only_launches")))
    found = write_report(store).read_text(encoding="utf-8")
    columns = re.findall("<th>([^<]*)</th>", found.partition("<h2>cells</h2>")[2])
    lines = [
        re.findall("<td[^>]*>(?:<a[^>]*>)?([^<]*)", line)
        for line in found.partition("<h2>cells</h2>")[2].partition("</tbody>")[0].split("<tr>")[2:]
    ]
    assert columns[-6:] == ["bottleneck", "SOL score", "DRAM", "compute", "occupancy", "launches"]
    assert {len(line) for line in lines} == {len(columns)}
    assert sorted(line[-6:] for line in lines) == [
        ["-", "-", "-", "-", "-", "-"],
        ["-", "-", "-", "-", "-", "2"],
        ["memory", "0.6681", "66.8 %", "28.2 %", "70.0 %", "3"],
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("matmul_fp16", "compute-bound: SOL 0.904, DRAM 20.0 %, compute 90.4 %"),
        ("memory_copy", "memory-bound: SOL 0.797, DRAM 79.7 %, compute 14.2 %"),
        ("only_launches", "2 launches, 7.30 us of device time; no counters: ERR_NVGPUCTRPERM - "),
        ("cpu", "absent: judged on a CPU: this takes a GPU"),
    ],
)
def test_the_terminal_has_a_line_of_it(name: str, words: str) -> None:
    found = with_profile(profile_of(name))
    assert brief(profile_of(name)).startswith(words)
    assert dict(verdict_lines(found))["profile"].startswith(words)
    assert any(line.startswith(f"profile: {words}") for line in summarise(found).splitlines())
    assert "profile" not in dict(verdict_lines(replace(found, profile=None)))


RIGHT = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return {}\n"


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("torch.softmax(x, dim=-1)", "absent: judged on a CPU: this takes a GPU"),
        ("x", "none: only a right candidate is profiled"),
    ],
)
def test_evaluate_profiles_when_it_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], result: str, said: str
) -> None:
    candidate = tmp_path / "candidate.py"
    candidate.write_text(RIGHT.format(result), encoding="utf-8")
    asked = ["evaluate", "24", str(candidate), "--out", str(tmp_path), "--profile"]
    asked += ["evaluation.draws=1", "evaluation.timing.budget_s=0.1"]
    assert main(asked) == 0
    assert re.search(f"^profile +{re.escape(said)}$", capsys.readouterr().out, re.MULTILINE)
