"""The file that keeps a measurement, who may ask for one, and on a GPU the measurement itself."""

import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from agents.tools.ert_roofline import roofline_result
from agents.tools.get_gpu_specs import gpu_result
from evaluation.building.toolchain import Toolchain
from evaluation.client import Evaluator
from evaluation.correctness.surroundings import strict_fp32
from evaluation.device.facts import device_facts
from evaluation.environment import gpu_uuid
from evaluation.errors import EvaluatorError
from evaluation.judge import Judge
from evaluation.profile import benchmarks, judged
from evaluation.profile import metrics as names
from evaluation.profile.ncu import Kernel
from evaluation.profile.rates import MeasuredRoofline, Rate
from evaluation.profile.roofline import Kept, measured_roofline
from evaluation.profile.specs import specs_of
from evaluation.profile.summary import summarise
from evaluation.serialize import from_plain, to_plain
from evaluation.settings import EvaluationSettings
from evaluation.timing import lane
from evaluation.verdict import Conditions

CHECKOUT = Path(__file__).parents[3]
KEY = {
    "uuid": "GPU-01234567-89ab-cdef-0123-456789abcdef",
    "torch": "2.11.0+cu130",
    "driver": "580.65.06",
    "method": "0123456789abcdef",
}


def rate(per_s, size=8192):
    return Rate(per_s=per_s, spread=0.0125, rounds=5, calls=55, size=size)


FOUND = MeasuredRoofline(
    device_name="NVIDIA H200",
    uuid=KEY["uuid"],
    torch=KEY["torch"],
    driver=KEY["driver"],
    bandwidths={"dram_copy": rate(4.1e12), "dram_read": rate(4.4000000000000123e12), "l2_read": rate(7e12)},
    operations={"fp16": rate(7.04e14), "fp32": rate(5.28e13)},
    absent={"fp8": "torch refused: no"},
    conditions=[Conditions(sm_clock_mhz=1980, temperature_c=41), Conditions(throttle_reasons=["sw_power_cap"])],
    wall_s=2.125,
)


@pytest.fixture
def kept(tmp_path):
    return Kept(tmp_path / "cache" / "roofline" / "one.json", KEY)


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING)
    return lambda: [record.getMessage() for record in caplog.records]


def test_a_measurement_stands_where_a_table_does():
    assert FOUND.dram_bandwidth_bytes_s == 4.4000000000000123e12
    assert list(FOUND.peak_flops.items()) == [("fp32", 5.28e13), ("fp16", 7.04e14)]
    assert FOUND.ridge_points == pytest.approx({"fp32": 12.0, "fp16": 160.0})
    assert from_plain(MeasuredRoofline, json.loads(json.dumps(to_plain(FOUND)))) == FOUND


@pytest.mark.parametrize(
    "changes",
    [
        {"per_s": 0.0},
        {"per_s": float("inf")},
        {"per_s": float("nan")},
        {"spread": -0.1},
        {"spread": float("nan")},
        {"rounds": 0},
        {"calls": 4},
        {"size": 0},
    ],
)
def test_what_no_measurement_gives_is_no_rate(changes):
    with pytest.raises(ValueError, match="is no measurement"):
        replace(rate(1.0), **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"bandwidths": {"dram_copy": rate(1.0)}},
        {"bandwidths": FOUND.bandwidths | {"l3_read": rate(1.0)}},
        {"operations": {"fp4": rate(1.0)}},
    ],
)
def test_figures_of_unknown_name_are_no_roofline(changes):
    with pytest.raises(ValueError, match="a roofline of the "):
        replace(FOUND, **changes)


def test_what_is_stored_is_loaded(kept, warnings):
    assert kept.load() is None
    kept.store(FOUND)
    assert kept.load() == FOUND
    kept.store(replace(FOUND, wall_s=3.0))
    assert kept.load().wall_s == 3.0
    assert [path.name for path in kept.path.parent.iterdir()] == ["one.json"]
    assert warnings() == []


@pytest.mark.parametrize("field", KEY)
def test_another_gpus_or_torchs_file_does_not_hold(kept, warnings, field):
    kept.store(FOUND)
    assert Kept(kept.path, KEY | {field: "another"}).load() is None
    (warning,) = warnings()
    assert warning.endswith(f"does not hold and is measured anew: it is of another {field}")


def _flipped(text):
    return text.replace("55", "56", 1)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda text: "", "Expecting value"),
        (lambda text: text[: len(text) // 2], ""),
        (lambda text: "[" * 100_000, ""),
        (lambda text: "[]", "it is no roofline"),
        (lambda text: "{}", "it is no roofline"),
        (lambda text: text.replace('"roofline"', '"roof"'), "it is no roofline"),
        (_flipped, "it was damaged"),
        (lambda text: text.replace("4100000000000.0", "NaN"), "it was damaged"),
    ],
)
def test_a_damaged_file_is_said_and_measured_anew(kept, warnings, damage, says):
    kept.store(FOUND)
    before = kept.path.read_text()
    assert damage(before) != before
    kept.path.write_text(damage(before))
    assert kept.load() is None
    (warning,) = warnings()
    assert warning.startswith(f"{kept.path} does not hold and is measured anew: {says}")
    kept.store(FOUND)
    assert kept.load() == FOUND


def test_a_file_with_its_sum_but_without_sense_does_not_hold(kept, warnings):
    """As an older form of it would be."""
    kept.store(FOUND)
    data = json.loads(kept.path.read_text())
    for change in ({"key": ["uuid"]}, {"roofline": data["roofline"] | {"wall_s": "long"}}, {"roofline": {}}):
        body = {"key": data["key"], "roofline": data["roofline"]} | change
        sha256 = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        kept.path.write_text(json.dumps({"sha256": sha256, **body}))
        assert kept.load() is None
    assert len(warnings()) == 3 and not any("it was damaged" in warning for warning in warnings())


def test_bytes_that_are_no_text_and_a_folder_in_its_place(kept, warnings):
    kept.path.parent.mkdir(parents=True)
    kept.path.write_bytes(b"\xff\xfe")
    assert kept.load() is None
    kept.path.unlink()
    kept.path.mkdir()
    assert kept.load() is None
    kept.store(FOUND)
    assert len(warnings()) == 3 and "cannot be kept" in warnings()[2]
    assert [path.name for path in kept.path.parent.iterdir()] == ["one.json"]


def test_a_reader_never_sees_half_a_file(kept):
    """While another process stores again and again."""
    kept.store(FOUND)
    script = (
        "import sys, json; from pathlib import Path; from evaluation.profile.roofline import Kept\n"
        "from evaluation.profile.rates import MeasuredRoofline; from evaluation.serialize import from_plain\n"
        "path, key = Path(sys.argv[1]), json.loads(sys.argv[2])\n"
        "kept = Kept(path, key); found = kept.load()\n"
        "print('ready', flush=True)\n"
        "while True: kept.store(found)"
    )
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    arguments = [sys.executable, "-c", script, str(kept.path), json.dumps(KEY)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment) as writer:
        assert writer.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 1.0
        reads = 0
        while time.monotonic() < deadline:
            assert kept.load() == FOUND
            reads += 1
        assert writer.poll() is None and reads > 50
        writer.kill()


@pytest.mark.parametrize("tf32", [False, True])
def test_the_switches_of_tf32_are_put_back(tf32):
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    with benchmarks._fp32_products(tf32=tf32):
        assert matmul.fp32_precision == ("tf32" if tf32 else "ieee")
    assert matmul.fp32_precision == before


def test_measured_peaks_are_those_of_a_profile():
    kernel = Kernel(name="k", values={names.TIME: 1e6})
    metrics = summarise([kernel], FOUND).metrics
    assert metrics["peak_gb_per_s"] == pytest.approx(4400.0)
    assert (metrics["peak_fp16_tflops"], metrics["peak_fp32_tflops"]) == pytest.approx((704.0, 52.8))
    assert metrics["ridge_point"] == pytest.approx(12.0)


def test_how_often_a_call_is_made():
    assert benchmarks._calls(0.015, 1.0) == 15
    assert benchmarks._calls(0.015, 40.0) == 3
    assert benchmarks._calls(0.015, 0.001) == 100


@pytest.mark.skipif(Toolchain.find().nvcc is None, reason="no nvcc here")
def test_the_reading_kernel_keeps_its_loads(tmp_path):
    """In PTX: four loads past the L1 cache in the loop and one in its rest."""
    made = tmp_path / "bandwidth.ptx"
    nvcc = str(Toolchain.find().nvcc)
    subprocess.run([nvcc, "-ptx", "-arch=compute_90", "-std=c++17", "-o", made, benchmarks.SOURCE], check=True)
    assert made.read_text().count("ld.global.cg.v4.u32") == 5


def test_a_judge_on_a_cpu_has_no_roofline(tmp_path):
    """Said by its process to whoever asks; it goes on judging."""
    with Evaluator(EvaluationSettings(), tmp_path, tmp_path / "log") as evaluator:
        for _ in range(2):
            with pytest.raises(EvaluatorError, match=r"a roofline is measured on a GPU; set evaluation\.device=cuda"):
                evaluator.roofline()


@pytest.fixture(scope="module")
def on_gpu(tmp_path_factory):
    """A measurement of this GPU, its seconds with and without the build, and the folder that keeps it."""
    folder = tmp_path_factory.mktemp("roofline")
    started = time.monotonic()
    found = measured_roofline(folder)
    sys.stdout.write(f"\nwith the build, in {time.monotonic() - started:.2f} s\n")
    sys.stdout.write(gpu_result().text + "\n" + roofline_result(found).text + "\n")
    sys.stdout.write(json.dumps(to_plain(found), indent=1) + "\n")
    return found, folder


@pytest.fixture
def unmeasured(on_gpu, tmp_path):
    """A folder with the built code of that, but without its figures."""
    shutil.copytree(on_gpu[1] / "harness", tmp_path / "harness")
    return tmp_path


@pytest.mark.gpu
def test_measuring_takes_seconds_and_is_done_once(on_gpu):
    found, folder = on_gpu
    assert found.wall_s <= 4.0
    assert found.uuid == gpu_uuid() == device_facts().uuid
    started = time.monotonic()
    assert measured_roofline(folder) == found
    assert time.monotonic() - started < 0.5
    (path,) = (folder / "roofline").iterdir()
    path.write_text(path.read_text().replace("dram_copy", "dram_copied"))
    again = measured_roofline(folder)
    assert again != found and again.bandwidths.keys() == found.bandwidths.keys()


@pytest.mark.gpu
def test_bandwidth_is_near_the_vendors(on_gpu):
    found, _ = on_gpu
    specs = specs_of(found.device_name)
    if specs is None:
        pytest.skip(f"{found.device_name} is not listed")
    for kind in ("dram_copy", "dram_read"):
        assert 0.6 <= found.bandwidths[kind].per_s / specs.dram_bandwidth_bytes_s <= 1.0, kind
    assert found.bandwidths["l2_read"].per_s > 1.05 * found.dram_bandwidth_bytes_s
    assert found.bandwidths["l2_read"].size < specs.l2_bytes / 2 < found.bandwidths["dram_read"].size / 8


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("precision", "least"), [("fp32", 0.5), ("tf32", 0.5), ("fp16", 0.5), ("bf16", 0.5), ("fp8", 0.35), ("int8", 0.25)]
)
def test_peaks_are_near_the_vendors(on_gpu, precision, least):
    """fp64 is left out: the table has that of the ordinary cores, and libraries use tensor cores if there are such."""
    found, _ = on_gpu
    specs = specs_of(found.device_name)
    if specs is None or precision not in specs.peak_flops:
        pytest.skip(f"no {precision} of {found.device_name} is listed")
    assert precision in found.operations, found.absent.get(precision)
    assert least <= found.operations[precision].per_s / specs.peak_flops[precision] <= 1.05


@pytest.mark.gpu
def test_figures_hold_still_and_the_device_was_looked_at(on_gpu):
    found, _ = on_gpu
    for name, figure in (found.bandwidths | found.operations).items():
        assert figure.spread < 0.3, (name, figure)
    assert len(found.conditions) in (0, 2)
    if found.conditions:
        assert found.conditions[1].temperature_c > 10 and found.driver


@pytest.mark.gpu
def test_the_device_is_held_while_it_is_measured(unmeasured):
    """Another process holds it for two seconds: the measurement begins when it is let go."""
    script = (
        "import sys, time; from evaluation.timing import lane\n"
        "with lane.device_held(sys.argv[1]):\n"
        "    print('holds', flush=True); time.sleep(2)\n"
        "    print(time.monotonic(), flush=True)"
    )
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    arguments = [sys.executable, "-c", script, gpu_uuid()]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment) as holder:
        assert holder.stdout.readline() == "holds\n"
        found = measured_roofline(unmeasured)
        ended = time.monotonic()
        assert ended - float(holder.stdout.readline()) >= found.wall_s - 0.1
    with lane.device_held(gpu_uuid()) as waited_s:
        assert waited_s < 0.5


@pytest.mark.gpu
def test_torch_is_left_as_it_was(unmeasured):
    torch.manual_seed(7)
    torch.cuda.manual_seed(7)
    expected = torch.randn(4, device="cuda")
    torch.cuda.manual_seed(7)
    with strict_fp32():
        before = torch.backends.cuda.matmul.fp32_precision
        measured_roofline(unmeasured)
        assert torch.backends.cuda.matmul.fp32_precision == before
    assert torch.equal(torch.randn(4, device="cuda"), expected)
    assert torch.cuda.memory_reserved() < 2**28


@pytest.mark.gpu
def test_a_judge_tells_its_roofline_and_goes_on(unmeasured):
    settings = EvaluationSettings.on("cuda")
    with Evaluator(settings, unmeasured, unmeasured / "log") as evaluator:
        found = evaluator.roofline()
    with Judge(settings, unmeasured) as judge:
        assert judge.roofline() == found


@pytest.mark.gpu
def test_a_gpu_that_no_table_has_is_profiled_against_its_measurement(on_gpu, monkeypatch):
    """The table's where there are some; where the measurement fails, a profile has no peaks and says why."""
    found, folder = on_gpu
    with Judge(EvaluationSettings.on("cuda"), folder) as judge:
        listed = specs_of(found.device_name)
        if listed is not None:
            assert judged._peaks(judge._tools) == (listed, f"vendor: {listed.source}")
        monkeypatch.setattr(judged, "specs_of", lambda name: None)
        peaks, source = judged._peaks(judge._tools)
        assert source == "measured on this GPU, which is not in the table of vendors' figures"
        assert peaks == judge.roofline()

        def fail(cache_dir):
            raise EvaluatorError("nothing to measure with")

        monkeypatch.setattr(judged, "measured_roofline", fail)
        peaks, source = judged._peaks(judge._tools)
        assert peaks is None and source.endswith("measuring failed: nothing to measure with")
