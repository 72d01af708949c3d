from __future__ import annotations

import pytest
from mistakes import FOLDER, SAYS, request_of

from evaluation.building import Builder
from evaluation.building.faults import errors_of_author
from evaluation.building.vocabulary import Vocabulary, names_of
from evaluation.settings import LimitSettings

HEADERS = """
#define ONLY_MACRO 1
#define BOTH_MACRO 1
extern "C" { int puts(const char *text); }
typedef int (*callback)(int given);
namespace at { struct Tensor { int add() const { int local = 0; return local; } int hidden; }; int cat(Tensor first); }
namespace c10 { template <class T> struct Deep { enum Kind { flat }; }; }
"""
KNOWN = Vocabulary(
    names_of(HEADERS), names_of("#define BOTH_MACRO 1\nnamespace at { struct Tensor { int numel(); }; }")
)
SOURCE = """void f(at::Tensor x) {
  int a = 1
  b = a;
  x.hidden = b + cat(x);
  g(x, ONLY_MACRO);
  x.add(3);
  omp_get_num_threads();
}
"""


def _own(text: str, source: str = SOURCE) -> bool:
    return errors_of_author(text + "\n", {"main.cpp": source, "cuda.cu": source}, KNOWN) is not None


def test_names_are_those_that_headers_declare_and_define() -> None:
    names = KNOWN.stock
    assert {"ONLY_MACRO", "puts", "callback", "at"} <= names.open
    assert "cat" in names.of_at - names.open
    assert {"add", "hidden", "Deep", "flat"} <= names.all - names.of_at
    assert names.all.isdisjoint({"text", "given", "local", "first"})


@pytest.mark.parametrize(
    "text",
    [
        "main.cpp:3:3: error: expected ',' or ';' before 'b'",
        "main.cpp:4:14: error: 'b' was not declared in this scope",
        'cuda.cu(4): error: identifier "b" is undefined',
        "main.cpp:5:3: error: 'nowhere' is not a member of 'at'",
        "main.cpp:1:10: fatal error: missing.h: No such file or directory",
        "main.cpp:7:1: error: cannot convert 'at::Tensor' to 'float*'",
        "main.cpp:(.text+0x1): undefined reference to `f(at::Tensor)'",
        "ptxas /tmp/tmpxft_1_cuda.ptx, line 4; error   : Unknown modifier '.float32'",
    ],
)
def test_an_error_in_which_nothing_of_torchs_takes_part_is_the_authors(text: str) -> None:
    assert _own(text)


@pytest.mark.parametrize(
    "text",
    [
        "lite/x.h:3:3: error: expected ';'",
        "lite/x.h:3:3: fatal error: missing.h: No such file or directory",
        "main.cpp:4:5: error: 'class at::Tensor' has no member named 'hidden'",
        "main.cpp:4:18: error: 'cat' was not declared in this scope",
        "main.cpp:5:8: error: expected primary-expression before ';'",
        "main.cpp:6:3: error: no matching function for call to 'at::Tensor::add(int)'",
        "main.cpp:7:3: error: no match for 'operator&' (operand types are 'at::Tensor' and 'at::Tensor')",
        "main.cpp:7:3: error: invalid conversion from 'int' to 'c10::Deep<int>'",
        "cuda.cu(6): error: too many arguments in function call",
        'cuda.cu(4): error: class "at::Tensor" has no member "hidden"',
        "main.cpp:(.text+0x1): undefined reference to `at::cat(at::Tensor)'",
        "main.cpp:(.text+0x1): undefined reference to `elsewhere()'",
        "main.cpp:(.text+0x1): undefined reference to `omp_get_num_threads'",
        "something else altogether",
    ],
)
def test_what_only_torchs_headers_can_tell(text: str) -> None:
    assert not _own(text)


def test_opened_namespaces_make_their_names_doubtful() -> None:
    error = "main.cpp:5:3: error: 'Deep' was not declared in this scope"
    assert _own(error)
    assert not _own(error, "using namespace c10;\n" + SOURCE)


def test_only_the_errors_before_the_first_doubtful_one_are_shown() -> None:
    own, doubtful = (f"main.cpp:4:14: error: '{name}' was not declared in this scope" for name in ("b", "puts"))
    assert errors_of_author(f"{own}\n{doubtful}\n", {"main.cpp": SOURCE}, KNOWN) == own
    assert errors_of_author(f"{doubtful}\n{own}\n", {"main.cpp": SOURCE}, KNOWN) is None


def test_every_mistake_is_listed() -> None:
    assert sorted(SAYS) == sorted(path.stem for path in FOLDER.iterdir())


@pytest.mark.parametrize("name", ["cpp_tensor_argument", "cpp_missing_function"])
def test_a_mistake_is_told_without_torchs_headers(builder: Builder, name: str) -> None:
    reply = builder.build(request_of(name))
    assert (reply.ok, reply.tier) == (False, "lite")
    assert SAYS[name] in reply.diagnostics
    assert "kernelsweep" not in reply.diagnostics
    again = builder.build(request_of(name))
    assert (again.cached, again.diagnostics) == (True, reply.diagnostics)


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    return Builder(tmp_path_factory.mktemp("cache"), LimitSettings())
