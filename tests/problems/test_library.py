"""The library finds files, reads them without running them, and says what is wrong in one sentence."""

import subprocess
import sys
from pathlib import Path

import pytest

from problems.library import Library, read_problem
from problems.problem import FreeDim, ProblemError

FORM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x + 1

def get_inputs():
    return [torch.rand(4, 4)]

def get_init_inputs():
    return []
"""


@pytest.fixture
def kernelbench(tmp_path: Path) -> Path:
    """A folder laid out as a KernelBench checkout."""
    names = ("level1/1_Square", "level1/2_Standard_matmul", "level1/10_Tensor", "level2/1_Conv_ReLU", "level2/7_Gemm")
    for name in names:
        path = tmp_path / "KernelBench" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FORM)
    (tmp_path / "KernelBench" / "level1" / "helpers.py").write_text("")
    (tmp_path / "KernelBench" / "changelog").mkdir()
    return tmp_path


def test_own_problems_are_found_and_read():
    library = Library()
    names = library.names()
    assert len(names) == 8
    assert {"level1/23_virtual_all_reduce_mean", "level1/24_row_softmax"} <= set(names)
    problem = library.load("level2/47_virtual_all_gather_concat_linear")
    assert (problem.origin, problem.level, problem.number) == ("own", 2, 47)
    assert problem.free_dims == {"B": FreeDim(low=4, high=32, step=1)}
    assert "scaled" in problem.value_sets


def test_reading_needs_no_torch():
    code = (
        "import sys; from problems.library import Library; library = Library(); "
        "problems = [library.load(name) for name in library.names()]; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_kernelbench_names_are_ordered_by_number(kernelbench: Path):
    expected = [
        "level1/1_Square",
        "level1/2_Standard_matmul",
        "level1/10_Tensor",
        "level2/1_Conv_ReLU",
        "level2/7_Gemm",
    ]
    assert Library("kernelbench", kernelbench).names() == expected
    assert Library("kernelbench", kernelbench / "KernelBench").names() == expected


def test_a_plain_kernelbench_file_has_fixed_sizes_and_nominal_values(kernelbench: Path):
    problem = Library("kernelbench", kernelbench).load("level2/7_Gemm")
    assert (problem.origin, problem.free_dims, problem.value_sets) == ("kernelbench", {}, ("nominal",))
    assert problem.source == FORM


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("level1/10_Tensor", ["level1/10_Tensor"]),
        ("10", ["level1/10_Tensor"]),
        ("level2/1", ["level2/1_Conv_ReLU"]),
        ("7_Gemm", ["level2/7_Gemm"]),
        ("level2/*", ["level2/1_Conv_ReLU", "level2/7_Gemm"]),
        ("level?/1_*", ["level1/1_Square", "level2/1_Conv_ReLU"]),
    ],
)
def test_select(kernelbench: Path, pattern: str, expected: list[str]):
    assert Library("kernelbench", kernelbench).select(pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("1", "'1' could be any of level1/1_Square, level2/1_Conv_ReLU; give the whole name"),
        ("level1/2_Standart_matmul", "no problem 'level1/2_Standart_matmul'; the nearest are level1/2_Standard_matmul"),
        ("zzzz", "no problem 'zzzz'; there are level1/1_Square, .* level2/7_Gemm"),
        ("level3/*", r"no problem matches 'level3/\*'; there are level1/1_Square"),
    ],
)
def test_select_names_the_choices(kernelbench: Path, pattern: str, message: str):
    with pytest.raises(ProblemError, match=message):
        Library("kernelbench", kernelbench).select(pattern)


def test_load_wants_one(kernelbench: Path):
    with pytest.raises(ProblemError, match=r"'level1/\*' matches 3 problems; give one name"):
        Library("kernelbench", kernelbench).load("level1/*")


def test_choices_of_a_large_library_are_ranges(tmp_path: Path):
    (tmp_path / "level1").mkdir()
    for number in range(1, 21):
        (tmp_path / "level1" / f"{number}_name.py").write_text(FORM)
    with pytest.raises(ProblemError, match="there are 20 from level1/1_name to 20_name"):
        Library("kernelbench", tmp_path).select("level5/*")


def test_sources_are_checked(tmp_path: Path):
    with pytest.raises(ProblemError, match="unknown problem source 'web'; choose one of own, kernelbench"):
        Library("web")
    with pytest.raises(ProblemError, match="needs a path"):
        Library("kernelbench")
    with pytest.raises(ProblemError, match="takes no path"):
        Library("own", tmp_path)
    with pytest.raises(ProblemError, match="is not a folder"):
        Library("kernelbench", tmp_path / "absent")
    with pytest.raises(ProblemError, match="no files level<N>/"):
        Library("kernelbench", tmp_path)


def test_any_file_of_the_form_is_read_and_none_is_run(tmp_path: Path):
    path = tmp_path / "mine.py"
    path.write_text(FORM + "\nraise SystemExit('was run')\n")
    problem = read_problem(path)
    assert (problem.name, problem.origin, problem.level, problem.number) == ("mine", "file", None, None)


def test_declarations_are_read(tmp_path: Path):
    path = tmp_path / "mine.py"
    path.write_text(FORM + "FREE_DIMS: dict = {'N': (3, 17, 8), 'M': (1, 2)}\nVALUE_SETS = ['nominal', 'integer']\n")
    problem = read_problem(path)
    assert [list(dim.sizes()) for dim in problem.free_dims.values()] == [[8, 16], [1, 2]]
    assert problem.value_sets == ("nominal", "integer")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (FORM.replace("class Model", "class Net"), "defines no class Model$"),
        ("x = 1", r"defines no class Model, no function get_inputs\(\), no function get_init_inputs\(\)$"),
        ("def f(:", "is not valid Python: line 1: "),
        ("x = '\0'", "is not valid Python: "),
        (FORM + "FREE_DIMS = dict(N=(1, 2))", "FREE_DIMS in .* must be a literal"),
        (FORM + "FREE_DIMS = [1]", "FREE_DIMS in .* must be a dict of name"),
        (FORM + "FREE_DIMS = {'N': (1.0, 2)}", r"FREE_DIMS\['N'\] in .* in whole numbers"),
        (FORM + "FREE_DIMS = {'N': (9, 15, 8)}", "allows no size: no multiple of 8 from 9 to 15"),
        (FORM + "FREE_DIMS = {'N': (9, 15, 0)}", "allows no size"),
        (FORM + "FREE_DIMS = {'N': (0, 15)}", "allows no size"),
        (FORM + "VALUE_SETS = ('nominal', 'huge')", "unknown value set 'huge'; known are nominal, scaled, "),
        (FORM + "VALUE_SETS = ()", "must be a tuple of one or more of nominal, "),
    ],
)
def test_unfit_files(tmp_path: Path, source: str, message: str):
    path = tmp_path / "mine.py"
    path.write_text(source)
    with pytest.raises(ProblemError, match=message):
        read_problem(path)


def test_unreadable_files(tmp_path: Path):
    with pytest.raises(ProblemError, match=r"cannot read problem file .*absent.py: No such"):
        read_problem(tmp_path / "absent.py")
    path = tmp_path / "latin.py"
    path.write_bytes(b"x = '\xe9'")
    with pytest.raises(ProblemError, match="is not UTF-8 text"):
        read_problem(path)
