"""What of benchmarks/timing.py needs no GPU: problems and candidates, figures, and reading what profilers write."""

from __future__ import annotations

import ctypes
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from cuda_candidates import request_of

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import timing_cases as cases  # noqa: E402
import timing_figures as figures  # noqa: E402
from timing_others import UNCOUNTED, Profilers  # noqa: E402
from timing_profile import WARM_UPS  # noqa: E402

from evaluation.building.compile import Workshop  # noqa: E402
from evaluation.building.places import Places  # noqa: E402
from evaluation.building.sources import LITE, plan  # noqa: E402
from evaluation.building.toolchain import Toolchain  # noqa: E402
from evaluation.correctness.admission import admission  # noqa: E402
from evaluation.settings import LimitSettings  # noqa: E402
from problems.inputs import LoadedProblem  # noqa: E402

ALL = [*cases.equal_cases(), *cases.slower_cases(), *cases.mean8_cases()]
TORCH = [case for case in ALL if case.solution.language == "torch"]
SMALLER = {
    f"N = {2**20}": f"N = {cases.BLOCK}",
    f"N = {186 * cases.BLOCK}": f"N = {2 * cases.BLOCK}",
    f"N = {265 * cases.BLOCK}": f"N = {cases.BLOCK}",
    "26_000": "200",
    ".repeat(130, 1)": "",
    "1000": "100",
    "1030": "103",
}
"""What keeps a file's form and takes a CPU seconds."""
needs_nvcc = pytest.mark.skipif(Toolchain.find().nvcc is None, reason="nvcc is not installed")


def smaller(source: str) -> str:
    for size, less in SMALLER.items():
        source = source.replace(size, less)
    return source


def run(source: str, folder: Path) -> dict[str, Any]:
    path = folder / "file.py"
    path.write_text(source)
    return runpy.run_path(str(path))


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_problems_parse_and_ask_for_inputs_of_a_fair_size(case: cases.Case, tmp_path: Path) -> None:
    problem = case.problem(tmp_path)
    file = run(problem.source, tmp_path)
    with torch.device("meta"):
        inputs = file["get_inputs"]()
    total_bytes = sum(tensor.numel() * tensor.element_size() for tensor in inputs)
    assert total_bytes < 2**30
    if isinstance(case, cases.Mean8Case):
        assert inputs[0].shape == (8, case.n)
        assert case.n % case.folds == 0


@pytest.mark.parametrize(
    "case",
    [case for case in ALL if case.name in ("mean8 1000 us", "mean8 1.5 us") or case in TORCH],
    ids=lambda case: case.name,
)
def test_problems_are_admitted(case: cases.Case, tmp_path: Path) -> None:
    path = tmp_path / "problem.py"
    path.write_text(smaller(case.problem_source))
    assert admission(LoadedProblem(cases.read_problem(path))) == []


@pytest.mark.parametrize("case", TORCH, ids=lambda case: case.name)
def test_both_arms_answer_alike(case: cases.Case, tmp_path: Path) -> None:
    reference = run(smaller(case.problem_source), tmp_path)
    candidate = run(smaller(case.solution.source), tmp_path)
    inputs = reference["get_inputs"]()
    assert torch.equal(reference["Model"]()(*inputs), candidate["ModelNew"]()(*inputs))


def test_equal_arms_are_the_same_text() -> None:
    for case in cases.equal_cases():
        assert case.problem_source == case.solution.source.replace("class ModelNew(", "class Model(")


@pytest.mark.parametrize("case", cases.slower_cases(), ids=lambda case: case.name)
def test_slower_candidates_have_exactly_so_many_more_rows(case: cases.Case, tmp_path: Path) -> None:
    file = run(case.problem_source, tmp_path)
    with torch.device("meta"):
        x = file["get_inputs"]()[0]
    assert x.shape[0] == pytest.approx(cases.SLOWDOWN * file["ROWS"], abs=1e-9)


@pytest.mark.slow
@needs_nvcc
def test_the_kernel_compiles_and_is_one_build_for_all_sizes(tmp_path: Path) -> None:
    requests = []
    for case in cases.mean8_cases():
        path = tmp_path / "candidate.py"
        path.write_text(case.solution.source)
        requests.append(request_of(path)[0])
    assert all(request == requests[0] for request in requests)
    toolchain = Toolchain.find()
    workshop = Workshop(toolchain=toolchain, limits=LimitSettings(), scratch=tmp_path, places=Places(tmp_path, 2))
    with workshop.bench(plan(requests[0], LITE, toolchain, cases.ARCH, tmp_path)) as bench:
        refused = [outcome for outcome in bench.compile_units() if not outcome.ok]
    assert not refused, refused[0].output


@needs_nvcc
def test_the_library_for_other_profilers_can_be_called(tmp_path: Path) -> None:
    assert ctypes.CDLL(str(Profilers(tmp_path).library)).launch_mean8


def latency(median_us: float) -> dict[str, float]:
    return {"median_us": median_us, "low_us": median_us, "high_us": median_us}


def timing(speedup: float, half_width: float, **more: Any) -> dict[str, Any]:
    return {
        "speedup": speedup,
        "speedup_low": speedup - half_width,
        "speedup_high": speedup + half_width,
        "reference": latency(10.0),
        "candidate": latency(10.0 / speedup),
        "wall_s": 1.0,
        **more,
    }


def value_of(measures: list[dict[str, Any]], ending: str) -> tuple[float, bool | None]:
    (one,) = [one for one in measures if one["name"].endswith(ending)]
    return one["value"], one["holds"]


def test_equal_arms_are_held_to_how_near_they_are() -> None:
    whole = {"reference": latency(25.0), "speedup_low": 1.01, "speedup_high": 1.02}
    near, far = timing(1.019, 0.01, attested_us=0.4), timing(0.979, 0.03, attested_us=0.6, end_to_end=whole)
    for repeats, holds in (([near] * 19 + [far], True), ([near] * 18 + [far] * 2, False)):
        measures = figures.measures_of({"aa": {"relu": {"within": 0.02, "repeats": repeats}}})
        share, held = value_of(measures, "within 1 +- 2.0%")
        assert held is holds
        assert share == repeats.count(near) / 20
    assert value_of(measures, ": interval holds 1") == (0.1, None)
    assert value_of(measures, "end to end")[0] == 25.0
    assert value_of(measures, "end-to-end interval holds 1") == (0.0, None)
    assert value_of(measures, "repeats") == (20, False)
    assert value_of(measures, "furthest from 1")[0] == pytest.approx(0.021)
    assert value_of(measures, "attested, median")[0] == pytest.approx(0.4)


def test_slower_candidates_must_be_called_slower() -> None:
    seen, missed = timing(1 / 1.03, 0.01), timing(1 / 1.03, 0.03)
    for repeats, holds in (([seen] * 19 + [missed], True), ([seen] * 18 + [missed] * 2, False)):
        measures = figures.measures_of({"detection": {"rows": {"within": 0.005, "repeats": repeats}}})
        assert value_of(measures, "called slower")[1] is holds
    assert value_of(measures, "slowdown, median")[0] == pytest.approx(1.03)


@pytest.mark.parametrize(
    ("ours_us", "cupti_us", "holds"),
    [(1.79, 1.5, True), (1.81, 1.5, False), (9.5, 9.9, False), (10.25, 10.0, True), (96.0, 100.0, False)],
)
def test_device_times_are_held_to_cupti(ours_us: float, cupti_us: float, holds: bool) -> None:
    row = {"timing": {"candidate": latency(ours_us)}, "cupti_us": [cupti_us - 1, cupti_us, cupti_us + 7]}
    measures = figures.measures_of({"agreement": {"mean8": row}})
    assert value_of(measures, "ours and CUPTI apart")[1] is holds


def test_device_times_are_held_to_ncu() -> None:
    row = {"timing": {"candidate": latency(104.0)}, "cupti_us": [104.0], "ncu_us": [100.0]}
    measures = figures.measures_of({"agreement": {"mean8": row}})
    assert value_of(measures, "ours and ncu apart") == (pytest.approx(0.04), False)


def test_kernelbench_stands_beside_cupti() -> None:
    samples = {
        "agreement": {"mean8": {"timing": {"candidate": latency(10.1)}, "cupti_us": [10.0]}},
        "kernelbench": {"mean8": {"runtime_stats": {"mean": 0.0137, "std": 0.0004}}},
    }
    measures = figures.measures_of(samples)
    assert value_of(measures, "KernelBench, mean")[0] == pytest.approx(13.7)
    assert value_of(measures, "KernelBench, standard deviation")[0] == pytest.approx(0.4)
    assert value_of(measures, "KernelBench over CUPTI")[0] == pytest.approx(1.37)
    assert value_of(measures, "ours over CUPTI")[0] == pytest.approx(1.01)


def test_the_slowest_handover_counts() -> None:
    samples = {"worker": {"spawn_s": [0.1, 0.1, 0.31]}, "mean8 2 us": {"total_s": 2.9}}
    measures = figures.measures_of({"handover": samples})
    assert value_of(measures, "answers, slowest") == (0.31, False)
    assert value_of(measures, "answers, median")[0] == 0.1
    assert value_of(measures, "evaluation from the cache") == (2.9, True)


def test_failed_cases_are_counted_and_named() -> None:
    samples = {"aa": {"relu": {"failed": "Traceback ..."}}, "handover": {"worker": {"spawn_s": [0.1]}}}
    (failed,) = [one for one in figures.measures_of(samples) if one["name"].startswith("parts that failed")]
    assert (failed["value"], failed["holds"]) == (1, False)
    assert "aa: relu" in failed["name"]


def test_the_report_reads_back_as_it_was() -> None:
    row = {"within": 0.02, "repeats": [{"samples_us": [1.5, 2.5]}]}
    for samples in ({}, {"aa": {"relu": row}, "handover": {"worker": {}, "mean8": {"failed": 'a "b"\n'}}}):
        report = {"machine": {"cores": 2}, "measures": [], "samples": samples}
        assert json.loads(figures.as_text(report)) == report


NCU = """==PROF== Connected to process 77 (/usr/bin/python3.12)
==PROF== Profiling "mean8_kernel" - 0: 0%....50%....100% - 1 pass
==PROF== Profiling "mean8_kernel" - 1: 0%....50%....100% - 1 pass
==PROF== Disconnected from process 77
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","77","python3.12","127.0.0.1","mean8_kernel(const float *, float *, unsigned int, unsigned int)","1","7","(256, 1, 1)","(65536, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","ns","135,904"
"1","77","python3.12","127.0.0.1","mean8_kernel(const float *, float *, unsigned int, unsigned int)","1","7","(256, 1, 1)","(65536, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","usecond","137.76"
"""  # noqa: E501


def test_ncu_output_is_read_in_whatever_unit_of_time() -> None:
    assert figures.ncu_durations_us(NCU) == pytest.approx([135.904, 137.76])


def test_ncu_output_without_a_table_is_said_to_be_so() -> None:
    refused = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters"
    with pytest.raises(ValueError, match=r"no table.*ERR_NVGPUCTRPERM"):
        figures.ncu_durations_us(refused)
    with pytest.raises(ValueError, match="in cycle, which is no unit of time"):
        figures.ncu_durations_us(NCU.replace('"ns"', '"cycle"'))


def test_launches_are_told_apart_by_their_number() -> None:
    assert figures.counted([9, 9, 1, 2, 9, 9, 3, 4], uncounted=2, repeats=2) == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match="7 launches were seen, which is no multiple of 4"):
        figures.counted([1] * 7, uncounted=2, repeats=2)
    with pytest.raises(ValueError, match="0 launches"):
        figures.counted([], uncounted=2, repeats=2)


def test_only_the_kernel_is_taken_from_a_trace() -> None:
    name = "mean8_kernel(float const*, float*, unsigned int, unsigned int)"
    events = [
        {"cat": "kernel", "name": name, "ts": 20.5, "dur": 1.536},
        {"cat": "kernel", "name": "void at::native::reduce_kernel<512>()", "ts": 12.0, "dur": 44.0},
        {"cat": "kernel", "name": name, "ts": 10.25, "dur": 1.504},
        {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 9.0, "dur": 5.0},
        {"name": "process_name", "ph": "M"},
    ]
    assert figures.trace_durations_us({"traceEvents": events}, "mean8_kernel") == [1.504, 1.536]


def test_the_profiled_script_and_its_reader_agree_on_what_is_not_counted() -> None:
    assert UNCOUNTED == WARM_UPS + 1
