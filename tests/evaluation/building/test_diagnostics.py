from __future__ import annotations

from pathlib import Path

from evaluation.building.diagnostics import DIAGNOSTICS_CHARS_MAX, presentable

ERROR = "main.cpp: In function 'int f()':\nmain.cpp:3:3: error: expected ',' or ';' before 'return'\n"


def test_what_an_author_reads_is_short_and_names_no_folder_of_this_machine() -> None:
    noise = "In file included from /opt/torch/include/a.h:1,\n                 from main.cpp:1:\n"
    noise += "/opt/torch/include/a.h:3:1: warning: w\n"
    text = presentable(noise + ERROR + "x" * 50 + "\n" + "y\n" * 10_000, [Path("/opt/torch/include")])
    assert text.startswith(ERROR)
    assert "/opt/torch" not in text
    assert len(text) < DIAGNOSTICS_CHARS_MAX + 100
    assert text.endswith("... (more errors follow)")


def test_warnings_before_the_first_error_of_nvcc_go() -> None:
    text = presentable('cuda.cu(3): warning #177-D: unused\n  int a;\n\ncuda.cu(8): error: expected a ";"\n  }\n', [])
    assert "warning" not in text
    assert text.endswith('cuda.cu(8): error: expected a ";"\n  }')


def test_the_binding_that_the_builder_wrote_is_not_shown() -> None:
    error = "main.cpp:16:27: error: 'run' was not declared in this scope\n"
    echo = '   16 | kernelsweep_lite::method<&run>("run", "run"),\n      |                           ^~~\n'
    assert presentable(error + echo, []) == error.rstrip()
    assert presentable(error + "   16 | int f();\n      |     ^\n", []) == error + "   16 | int f();\n      |     ^"
