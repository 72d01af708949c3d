"""What static_check tells about a source."""

from __future__ import annotations

import pytest
from agent_cell import Cell, call, says

from agents.tools.static_check import NOTES, static_text
from agents.trajectory import Trajectory
from evaluation import tags

CLEAN = """
import torch
from torch.utils.cpp_extension import load_inline

own = load_inline("own", cpp_sources="int one() { return 1; }", functions=["one"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return own.run(x)
"""
WARNED = CLEAN.replace("return own.run(x)", "return torch.relu(own.run(x))")
ADVICE = "Warnings are noted in the record for its reader; none of them changes a verdict."


def test_a_source_without_notes_passes() -> None:
    assert static_text(CLEAN, "cpp") == ("static_check PASSED: no violations or warnings detected.", True)


def test_notes_are_warnings_and_no_failure() -> None:
    assert static_text(WARNED, "cpp") == (
        "static_check PASSED (with warnings):\n"
        "  WARNING: calls-reference-op: an operator of torch does part of the work\n"
        f"{ADVICE}",
        True,
    )


def test_what_cannot_be_loaded_fails_with_its_warnings() -> None:
    assert static_text(WARNED.replace("ModelNew", "Model"), "cpp") == (
        "static_check FAILED: strict violations found.\n"
        "  ERROR: the module does not define a class ModelNew\n"
        "Advisory warnings:\n"
        "  WARNING: calls-reference-op: an operator of torch does part of the work\n"
        f"{ADVICE}",
        False,
    )


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("class ModelNew(:\n    pass\n", "syntax error in line 1: "),
        ("class ModelNew:\n    pass\nreturn 1\n", "syntax error in line 3: 'return' outside function"),
        ("x = 1\n  y = 2\n", "syntax error in line 2: unexpected indent"),
        ("class ModelNew:\n    pass\n\0", ""),
        ("class ModelNew:\n    x = " + "-" * 200_000 + "1\n", "the source cannot be read as Python"),
        ("class ModelNew:\n    x = y" + ".a" * 200_000 + "\n", "the source cannot be read as Python"),
        ("", "the module does not define a class ModelNew"),
        ("def make():\n    class ModelNew:\n        pass\n", "the module does not define a class ModelNew"),
        ("class Outer:\n    class ModelNew:\n        pass\n", "the module does not define a class ModelNew"),
        ("x.ModelNew = 1\nprint(ModelNew)\n", "the module does not define a class ModelNew"),
    ],
    ids=range(10),
)
def test_errors(source: str, error: str) -> None:
    text, ok = static_text(source, "cpp")
    lines = text.splitlines()
    assert not ok and lines[0] == "static_check FAILED: strict violations found."
    assert lines[1].startswith(f"  ERROR: {error}") and len(text) < 500


@pytest.mark.parametrize(
    "source",
    [
        "ModelNew = type('ModelNew', (), {})",
        "from elsewhere import Fast as ModelNew",
        "from elsewhere import *",
        "if True:\n    class ModelNew: pass\n",
        "try:\n    import x\nexcept ImportError:\n    pass\nelse:\n    ModelNew = x.y\n",
        "globals()['ModelNew'] = 1",
        "exec('class ModelNew: pass')",
        "import sys\nsys.modules[__name__].ModelNew = 1",
        "def define():\n    global ModelNew\n    ModelNew = 1\ndefine()",
        "(ModelNew := 3)",
        "for ModelNew in [int]: pass",
    ],
)
def test_whatever_may_define_the_class_is_not_called_an_error(source: str) -> None:
    text, ok = static_text(source, "cpp")
    assert ok and text.startswith("static_check PASSED")


def test_every_tag_of_the_evaluator_has_words() -> None:
    named = {*tags._MODULE_TAGS.values(), *tags._CALL_TAGS.values(), *tags._CALL_PREFIX_TAGS.values()}
    named |= {*tags._CPP_CALL_TAGS, *tags._CPP_QUALIFIED_TAGS.values()}
    others = "import torch\ntorch.backends.x = 1\ntorch.y = 2\ntry:\n    f()\nexcept: g()\n"
    named |= set(tags.static_tags(f"{others}t = torch.sum('{'a' * 5000}')", "cpp"))
    assert {"sets-torch-flags", "patches-torch", "try-except-fallback", "large-literal", "no-custom-kernel"} <= named
    assert named == set(NOTES)


def test_a_call_keeps_the_kernel_and_asks_no_judge(cell: Cell, trajectory: Trajectory) -> None:
    toolbox = cell.loop([says()], trajectory).session.toolbox
    first = toolbox.run(call("static_check", kernel_code=WARNED))
    assert first.ok and first.evaluation is None and first.solution_sha256 is not None
    kernel_id = first.solution_sha256[:12]
    assert first.text.splitlines()[-1] == f"kernel_id: {kernel_id}"
    assert trajectory.source(kernel_id) == WARNED
    again = toolbox.run(call("static_check", kernel_id=kernel_id))
    assert again.text == first.text and cell.judge.asked == []
    assert not toolbox.run(call("static_check", kernel_code="class")).ok
