"""The sweeps of docs/configuration.md have the cells that the page says."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from orchestrator.config.experiment import CONF, load_experiment
from orchestrator.plan import make_plan

PAGE = (CONF.parent / "docs" / "configuration.md").read_text(encoding="utf-8")
FILES = re.findall(r"```yaml\n# (.*? = [\d,]+)\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^kernelsweep plan (.*?) +# (.* = [\d,]+)$", PAGE, re.MULTILINE)


def test_the_page_has_examples() -> None:
    assert len(FILES) == PAGE.count("```yaml") >= 4 and len(COMMANDS) >= 4


@pytest.mark.parametrize(("formula", "text"), FILES, ids=[formula for formula, _ in FILES])
def test_an_experiment_file_has_the_cells_that_its_first_line_says(formula: str, text: str, tmp_path: Path) -> None:
    conf = Path(shutil.copytree(CONF, tmp_path / "conf"))
    (conf / "experiment" / "example.yaml").write_text(text, encoding="utf-8")
    assert make_plan(load_experiment(["experiment=example"], conf=conf)).formula == formula


@pytest.mark.parametrize(("command", "formula"), COMMANDS, ids=[formula for _, formula in COMMANDS])
def test_a_command_has_the_cells_that_its_comment_says(command: str, formula: str) -> None:
    assert make_plan(load_experiment(shlex.split(command))).formula == formula
