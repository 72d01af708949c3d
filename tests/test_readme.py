"""What the README says is true: its commands run, its files and names exist.

A block under `<!-- checked with: plan instead of run -->` would take a server, a key or hours; its cells are planned.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.cli.main import build_parser

CHECKOUT = Path(__file__).resolve().parent.parent
README = (CHECKOUT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"(?:<!-- checked with: (.*?) -->\n)?```(?:console|bash)\n(.*?)```", re.DOTALL)
PAGES = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]


JUDGED = ("evaluate", "run", "status", "report")
SHORT = "evaluation.timing.budget_s=0.2"
"""What the README's reader has time for and a test has not."""


@dataclass(frozen=True)
class Block:
    """One fenced block of commands."""

    commands: tuple[tuple[str, ...], ...]
    note: str

    def of(self, program: str) -> list[tuple[str, ...]]:
        return [command for command in self.commands if command[0] == program]


BLOCKS = [
    Block(tuple(tuple(shlex.split(line)) for line in text.replace("\\\n", " ").splitlines() if line), note or "")
    for note, text in BLOCK.findall(README)
]


def test_the_readme_has_commands():
    assert sum(len(block.of("kernelsweep")) for block in BLOCKS) >= 8
    assert {block.note for block in BLOCKS} == {"", "plan instead of run"}


@pytest.mark.parametrize("target", [command[1] for block in BLOCKS for command in block.of("make")])
def test_make_targets_exist(target):
    found = subprocess.run(["make", "--dry-run", target], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A folder with what the README tells its reader to have: my_kernel.py and a KernelBench checkout."""
    kernel = re.search(r"Save this as `my_kernel.py`:\n\n```python\n(.*?)```", README, re.DOTALL)[1]
    (tmp_path / "my_kernel.py").write_text(kernel, encoding="utf-8")
    level = tmp_path / "KernelBench" / "KernelBench" / "level1"
    level.mkdir(parents=True)
    shutil.copy(CHECKOUT / "problems" / "level1" / "24_row_softmax.py", level / "23_Softmax.py")
    return tmp_path


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.of("kernelsweep")], ids=lambda block: " ".join(block.commands[0][:3])
)
def test_kernelsweep_commands_run(block, workplace):
    for command in block.of("kernelsweep"):
        words = list(command[1:])
        if block.note:
            assert words[0] == "run"
            words[0] = "plan"
        elif words[0] in JUDGED:
            words.append(SHORT)
        found = subprocess.run(
            [sys.executable, "-m", "orchestrator", *words], cwd=workplace, capture_output=True, text=True, check=False
        )
        assert found.returncode == 0, f"{shlex.join(command)}\n{found.stdout}\n{found.stderr}"
        EXPECTED[words[0]](found.stdout, workplace)


def _evaluated(stdout: str, _: Path) -> None:
    assert re.search(r"^verdict +(PASSED|UNSTABLE_TIMING)", stdout, re.MULTILINE), stdout


def _ran(stdout: str, workplace: Path) -> None:
    cells = re.findall(r"^\S+-baseline-\S+ +(PASSED|UNSTABLE_TIMING) +[0-9.]+x \[", stdout, re.MULTILINE)
    assert len(cells) == 2, stdout
    assert (workplace / "outputs" / "mlflow.db").exists()


def _reported(stdout: str, workplace: Path) -> None:
    page = workplace / stdout.strip()
    assert page.read_text(encoding="utf-8").count('href="cells/') >= 2


EXPECTED = {
    "evaluate": _evaluated,
    "run": _ran,
    "status": lambda stdout, _: _contains(stdout, "2 of 2 done"),
    "report": _reported,
    "plan": lambda stdout, _: _contains(stdout, "pending"),
    "problems": lambda stdout, _: _contains(stdout, "level1/23_Softmax"),
}


def _contains(stdout: str, words: str) -> None:
    assert words in stdout, stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_documented_verbs_and_options_are_those_that_exist():
    text = (CHECKOUT / "docs" / "configuration.md").read_text(encoding="utf-8")
    verbs, groups = (re.findall(r"^\| `(\w+)[ `].*$", part, re.MULTILINE) for part in text.split("\n## Groups")[:2])
    actions = next(action for action in build_parser()._actions if action.dest == "verb")
    assert set(verbs) == set(actions.choices)
    assert set(groups) == {path.name for path in (CHECKOUT / "conf").iterdir() if path.is_dir()}
    for group in groups:
        (line,) = re.findall(rf"^\| `{group}` \|(.*?)\|", text, re.MULTILINE)
        assert set(re.findall(r"`(.*?)`", line)) == {path.stem for path in (CHECKOUT / "conf" / group).glob("*.yaml")}
