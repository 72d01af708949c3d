"""Device code of objects that nvcc made here, and of those that hold none."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from evaluation.building.toolchain import Toolchain
from evaluation.disassembly import objects, programs
from evaluation.disassembly.instructions import Mix, bits_of, class_of
from evaluation.disassembly.kernel_code import Disassembly, KernelCode
from evaluation.disassembly.listing import Usage, codes, usages
from evaluation.disassembly.objects import NotRead, disassembled, kernels_in
from evaluation.judge import Judge
from evaluation.serialize import from_plain, to_plain
from evaluation.settings import EvaluationSettings, LimitSettings
from evaluation.verdict import Build, Evaluation, Solution, Stage, Status
from problems.library import Library

SOURCE = Path(__file__).parents[1] / "data" / "disassembly" / "kernels.cu"
LIMITS = LimitSettings()
NVCC = Toolchain.find().nvcc
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")


def compiled(folder, *flags):
    """The shared object, and what ptxas says of its functions."""
    target = folder / "kernels.so"
    command = [NVCC, "-std=c++17", *flags, "-Xptxas=-v", "-shared", "-Xcompiler=-fPIC", "-cudart=none"]
    done = subprocess.run([*command, "-o", target, SOURCE], capture_output=True, text=True, check=True)
    return target, done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("nvcc"), "-arch=sm_90a", "-maxrregcount=32")


@pytest.fixture(scope="module")
def kernels(built):
    return {kernel.name: kernel for kernel in kernels_in(built[0], LIMITS, "own")}


def said_by_ptxas(text, name):
    """(bytes of stack frame, of spill stores, of spill loads, registers) of the function with this in its name."""
    part = text[text.index(name, text.index("Function properties for")) :]
    frame = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
    return (*map(int, frame.groups()), int(re.search(r"Used (\d+) registers", part)[1]))


@needs_nvcc
def test_all_functions_are_found_by_readable_names(kernels):
    assert set(kernels) == {"spilling<48>", "product", "warpgroup", "half_pairs", "various"}
    assert {(kernel.arch, kernel.build) for kernel in kernels.values()} == {("sm_90a", "own")}


@needs_nvcc
def test_spills_are_those_that_ptxas_tells_of(built, kernels):
    found = kernels["spilling<48>"]
    stack_bytes, store_bytes, load_bytes, registers = said_by_ptxas(built[1], "spilling")
    assert store_bytes and load_bytes
    assert (found.stack_bytes, found.registers) == (stack_bytes, registers)
    assert found.uses_local_memory
    # An instruction spills one register of 4 bytes, or up to four of them.
    assert store_bytes / 16 <= found.local_stores <= store_bytes / 4
    assert load_bytes / 16 <= found.local_loads <= load_bytes / 4
    assert found.shared_bytes in (1024, 2048)
    assert found.mix["barrier"] == found.mix["store_shared"] == found.mix["load_shared"] == 1
    assert found.mix["load_global"] == 48 == found.global_load_bits["32"]
    assert found.mix["store_global"] == 48 and found.mix["fp32"] >= 48 * 2
    assert found.tensor == {}


@needs_nvcc
def test_tensor_cores_are_told_from_packed_arithmetic(built, kernels):
    product, pairs = kernels["product"], kernels["half_pairs"]
    assert product.tensor == {"HMMA": 1} and product.mix["tensor"] == 1
    assert kernels["warpgroup"].tensor == {"HGMMA": 1}
    raw = subprocess.run([programs.find()[0], "-sass", built[0]], capture_output=True, text=True, check=True).stdout
    assert "HFMA2.MMA" in raw
    assert pairs.tensor == {} and "tensor" not in pairs.mix and pairs.mix["half"] >= 1
    for kernel in (product, pairs, kernels["various"]):
        assert not kernel.uses_local_memory and kernel.stack_bytes == kernel.local_loads == kernel.local_stores == 0


@needs_nvcc
def test_classes_and_widths(kernels):
    mix = kernels["various"].mix
    assert kernels["various"].global_load_bits == {"128": 1, "64": 1}
    assert mix["load_global"] == 2 and mix["store_global"] == 1
    assert mix["fp64"] >= 1 and mix["special"] >= 1 and mix["conversion"] >= 1 and mix["atomic"] == 1
    for kernel in kernels.values():
        assert sum(kernel.mix.values()) == kernel.instructions
        assert "other" not in kernel.mix
        assert list(kernel.mix.values()) == sorted(kernel.mix.values(), reverse=True)


@needs_nvcc
def test_each_architecture_of_an_object_is_told_apart(tmp_path):
    target, _ = compiled(tmp_path, "-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90a,code=sm_90a")
    found = [kernel for kernel in kernels_in(target, LIMITS) if kernel.name == "product"]
    assert sorted(kernel.arch for kernel in found) == ["sm_80", "sm_90a"]
    assert all(kernel.tensor == {"HMMA": 1} and kernel.registers for kernel in found)


def host_library(folder):
    source, library = folder / "host.cpp", folder / "host.so"
    source.write_text("int answer() { return 42; }\n")
    subprocess.run([Toolchain.find().cxx, "-shared", "-fPIC", "-o", library, source], check=True)
    return library


def test_an_object_without_device_code_has_no_kernels(tmp_path):
    assert kernels_in(host_library(tmp_path), LIMITS) == []


@needs_nvcc
def test_damaged_objects_are_answered(built, tmp_path):
    whole = built[0].read_bytes()
    at = whole.index(b"\x50\xed\x55\xba")  # where the fatbin begins
    for number, data in enumerate((b"", b"no object", whole[: len(whole) // 2], whole[: at + 40] + b"\xff" * 4000)):
        path = tmp_path / f"{number}.so"
        path.write_bytes(data)
        try:
            found = kernels_in(path, LIMITS)
        except NotRead as refused:
            assert "\n" not in str(refused) and str(tmp_path) not in str(refused)
        else:
            assert found == []


@pytest.fixture(scope="module")
def installed():
    return programs.find()


@pytest.fixture
def only_from(monkeypatch, tmp_path):
    """Has the programs looked for in this folder alone, as if it held the installed packages."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(programs, "_USUAL_FOLDER", tmp_path / "nowhere")
    monkeypatch.setattr(programs.sysconfig, "get_path", lambda name: str(folder))
    return folder


def evaluation(*builds, status=Status.PASSED):
    return Evaluation(status=status, stage=Stage.BUILD, builds=list(builds))


BUILD = Build(name="own", tier="lite", cached=True, wall_s=0.1, key="k")


def test_without_the_programs_it_says_what_would_bring_them(only_from, tmp_path):
    found = disassembled(evaluation(BUILD), lambda key: tmp_path, LIMITS)
    assert found.kernels == [] and found.absent == (
        "cuobjdump is not installed on this machine (pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm)"
    )


@needs_nvcc
def test_programs_of_wheels_need_no_right_to_be_run(built, kernels, installed, only_from, monkeypatch):
    folder = only_from / "nvidia" / "cu13" / "bin"
    folder.mkdir(parents=True)
    for source in installed:
        shutil.copyfile(source, folder / source.name)
        (folder / source.name).chmod(0o644)
    assert programs.find() == [folder / name for name in programs.NAMES]
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert kernels_in(built[0], LIMITS, "own") == list(kernels.values())


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("yes '        /*0000*/ FADD R0, R1 ;' | head -c 3000000", "the code is longer than"),
        ("sleep 60", "cuobjdump needs more than 3 s"),
        (
            "echo 'cuobjdump fatal : it is broken'; exit 3",
            "cuobjdump ended with code 3: cuobjdump fatal : it is broken",
        ),
    ],
)
def test_time_and_output_are_bounded(script, complaint, tmp_path, monkeypatch):
    for name in programs.NAMES:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(objects, "LIMIT_S", 3.0)
    monkeypatch.setattr(objects, "OUTPUT_BYTES_MAX", 2**20)
    found = disassembled(evaluation(BUILD), lambda key: host_library(tmp_path), LIMITS)
    assert found.absent.startswith(complaint)


def test_what_there_is_nothing_to_take_apart_in(tmp_path):
    def nothing(key):
        raise AssertionError(key)

    failed = disassembled(evaluation(status=Status.COMPILE_ERROR), nothing, LIMITS)
    assert failed.absent == "the kernel did not build: COMPILE_ERROR"
    assert disassembled(evaluation(), nothing, LIMITS).absent.startswith("the module has no native build")
    lost = disassembled(evaluation(BUILD), lambda key: None, LIMITS)
    assert lost.absent == "build own is not in the cache any more; call again"
    host = disassembled(evaluation(BUILD), lambda key: host_library(tmp_path), LIMITS)
    assert host.absent == "the native builds hold no code for a GPU"


@needs_nvcc
def test_the_largest_come_first_and_their_number_is_bounded(built, kernels, monkeypatch):
    monkeypatch.setattr(objects, "KERNELS_MAX", 2)
    found = disassembled(evaluation(BUILD), lambda key: built[0], LIMITS)
    assert found.kernels_total == 5 and [kernel.name for kernel in found.kernels] == ["spilling<48>", "various"]
    assert from_plain(Disassembly, json.loads(json.dumps(to_plain(found)))) == found


def test_kernels_or_a_reason_for_none():
    kernel = KernelCode(name="k", build="b", arch="sm_90a", registers=1, stack_bytes=0, shared_bytes=0, instructions=1)
    for broken in ({}, {"kernels": [kernel], "absent": "why"}):
        with pytest.raises(ValueError, match="has kernels, or the reason"):
            Disassembly(evaluation=evaluation(), **broken)


CLASSES = {
    "tensor": "HMMA.16816.F32 IMMA.16832.S8.S8 DMMA.8x8x4 BMMA.168256 HGMMA.64x128x16.F32 "
    "QGMMA.64x64x32.F32.E4M3.E4M3 IGMMA.64x8x32 QMMA.16832.F32.E4M3.E4M3 OMMA.SF.16864 UTCHMMA "
    "UTCQMMA.2CTA",
    "half": "HFMA2.MMA HFMA2.MMA.BF16_V2 HADD2.F32",
    "fp32": "FFMA.FTZ FADD",
    "fp64": "DFMA",
    "alu": "IMAD.WIDE UIADD3",
    "move": "IMAD.MOV.U32 UMOV",
    "load_constant": "ULDC.64",
    "load_global": "LDG.E.128",
    "async_copy": "LDGSTS.E.BYPASS.128 UTMALDG.2D",
    "load_shared": "LDSM.16.M88.4",
    "store_local": "STL.64",
    "load_local": "LDL.LU",
    "load_generic": "LD.E",
    "atomic": "RED.E.ADD",
    "special": "MUFU.EX2",
    "conversion": "F2FP.BF16.F32.PACK_AB",
    "barrier": "BAR.SYNC WARPGROUP.ARRIVE",
    "control": "EXIT",
    "shuffle": "SHFL.BFLY",
    "other": "WHATEVER U",
}


@pytest.mark.parametrize(
    ("kind", "mnemonic"), [(kind, name) for kind, names in CLASSES.items() for name in names.split()]
)
def test_class_of_an_instruction(kind, mnemonic):
    assert class_of(mnemonic) == kind


def test_bits_of_a_load():
    names = ("LDG.E", "LDG.E.64.CONSTANT", "LDG.E.128.STRONG.GPU", "LDG.E.U8", "LDG.E.S16", "LDG.E.ENL2.256")
    assert [bits_of(name) for name in names] == [32, 64, 128, 8, 16, 256]


def test_padding_is_not_counted():
    mix = Mix()
    for name in ("FADD", "NOP", "EXIT", "BRA", "NOP"):
        mix.add(name)
    assert mix.total == 3 and mix.classes == {"control": 2, "fp32": 1}


def test_listings_that_are_not_as_they_should_be_give_what_they_hold():
    usage = "arch = sm_90a\n Function f:\n  REG:7 STACK:UNKNOWN SHARED:16\n Function g:\n Function h:\n  REG:x"
    assert usages(usage) == {("sm_90a", "f"): Usage(7, None, 16)}
    assert usages("  REG:7 STACK:8 SHARED:16\n") == {}
    listing = (
        "        /*0000*/ FADD R0, R1, R2 ;\n\tcode for sm_80\n\t\tFunction : f\n"
        "        /*0000*/                   @!P0 LDG.E R0, [R2] ;  /* 0x1 */\n"
        "        /*0010*/ @UP0 UIADD3 UR4, UR4, 0x1, URZ ;\n\t\tFunction : empty\n"
    )
    [found] = codes(listing)
    assert (found.arch, found.name, found.mix.classes) == ("sm_80", "f", {"alu": 1, "load_global": 1})


@pytest.mark.gpu
def test_a_kernel_of_a_candidate_on_a_gpu(tmp_path, data_folder):
    source = (data_folder / "candidates" / "cuda_mean_over_ranks.py").read_text()
    solution = Solution(source=source, language="cuda")
    with Judge(EvaluationSettings.on("cuda"), tmp_path) as judge:
        found = judge.disassemble(Library().load("level1/23_virtual_all_reduce_mean"), solution)
    assert found.absent == "" and all(kernel.registers and kernel.instructions for kernel in found.kernels)
    assert any(kernel.mix.get("store_global") for kernel in found.kernels)
