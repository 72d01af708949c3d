from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.building import flags
from evaluation.building.request import BuildRequest, RequestError

FOLDERS = [Path("/usr/include"), Path("/usr/lib")]


ALLOWED = """
-O3
-O3 -march=native
-ffast-math
-fopenmp
-mavx2
-mprefer-vector-width=512
-std=c++17
-DWIDTH=4
-Wno-unused-variable
-funroll-loops
-fno-math-errno
-g
-I/usr/include
"""
REFUSED = """
-fplugin=x.so
-B/tmp
@file
-wrapper sh
-include /etc/passwd
-I/etc
-Iinclude
-I/usr/include/../../etc
-Wl,-T,x
-Wp,-include,x
-Wa,-I/etc
x.c
-o out
-specs=x
-fdump-tree-all
-save-temps
-x c
-fprofile-use=/x
--sysroot=/
-DA -imacros x
-D'A' -fplugin-arg-x
-MF x
'-O3
"""
REFUSED_BY_LINKER = """
-T x
-Wl,-T,x
x.o
-l:x.a
-Wl,--script=x
-fuse-ld=x
-L/tmp
@x
-lc/../x
"""


@pytest.mark.parametrize("flag", ALLOWED.strip().splitlines())
def test_what_kernels_use_is_allowed(flag: str) -> None:
    assert flags.compiler_flags([flag], FOLDERS) == flag.split()


@pytest.mark.parametrize("flag", REFUSED.strip().splitlines())
def test_what_starts_programs_or_names_files_is_refused(flag: str) -> None:
    with pytest.raises(RequestError, match="extra_cflags"):
        flags.compiler_flags([flag], FOLDERS)


@pytest.mark.parametrize(
    ("flag", "accepted"),
    [
        ("-O3 --use_fast_math -lineinfo", True),
        ("-Xcompiler -O3,-fopenmp", True),
        ("-Xcompiler -fplugin=x", False),
        ("-Xcompiler=-B/tmp", False),
        ("-Xptxas -v", True),
        ("-Xptxas=-v,-O3", True),
        ("-Xptxas --input-file=x", False),
        ("-Xptxas=--output-file,x", False),
        ("-gencode arch=compute_90a,code=sm_90a", True),
        ("-gencode=arch=compute_90,code=[sm_90,compute_90]", True),
        ("-arch=sm_90a --maxrregcount=64", True),
        ("-ccbin /bin/sh", False),
        ("--compiler-bindir=/tmp", False),
        ("-Xlinker -T", False),
        ("--options-file x", False),
        ("-Xcompiler", False),
    ],
)
def test_nvcc(flag: str, accepted: bool) -> None:
    if accepted:
        assert flags.nvcc_flags([flag], FOLDERS) == flag.split()
    else:
        with pytest.raises(RequestError, match="extra_cuda_cflags"):
            flags.nvcc_flags([flag], FOLDERS)


@pytest.mark.parametrize("flag", REFUSED_BY_LINKER.strip().splitlines())
def test_the_linker_reads_no_scripts_or_objects(flag: str) -> None:
    with pytest.raises(RequestError, match="extra_ldflags"):
        flags.linker_flags([flag], FOLDERS)


def test_libraries_are_allowed() -> None:
    given = ["-lcublas", "-L/usr/lib", "-Wl,--no-as-needed", "-fopenmp"]
    assert flags.linker_flags(given, FOLDERS) == given


def test_include_folders_lie_in_the_toolchain() -> None:
    assert flags.include_folders(["/usr/include"], FOLDERS) == ["-I/usr/include"]
    with pytest.raises(RequestError, match="extra_include_paths"):
        flags.include_folders(["/root"], FOLDERS)


@pytest.mark.parametrize(
    "request_",
    [
        BuildRequest(name="a-b", cpp_sources=["x"]),
        BuildRequest(name="a", cpp_sources=["x"], functions={"f(); }": ""}),
        BuildRequest(name="a"),
        BuildRequest(name="a", cpp_sources=["\udc80"]),
        BuildRequest(name="a", cpp_sources=["x"], extra_cflags=["-DA=\0"]),
        BuildRequest(name="a", cpp_sources=["x"], headers={"../x.h": ""}),
        BuildRequest(name="a", cpp_sources=["x"], headers={"/etc/x.h": ""}),
        BuildRequest(name="a", cpp_sources=["x" * 5_000_000]),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(request_: BuildRequest) -> None:
    with pytest.raises(RequestError):
        request_.check()
