"""The command line: help, exit codes, streams, and what it loads."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.building.cache import Cache, Entry
from evaluation.verdict import Evaluation, Stage, Status
from orchestrator.cli.evaluate import verdict_lines
from orchestrator.cli.main import build_parser, main
from orchestrator.config.experiment import CONF
from orchestrator.store.store import Store

CHECKOUT = CONF.parent
VERBS = (
    "plan", "explain", "run", "status", "wait", "retry", "pause", "resume", "cancel",
    "evaluate", "report", "sync", "problems", "doctor",
)  # fmt: skip


def kernelsweep(*arguments: str, cwd: Path = CHECKOUT) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "orchestrator", *arguments], capture_output=True, text=True, cwd=cwd)


def test_importing_it_loads_nothing_heavy() -> None:
    program = "import orchestrator.cli.main, sys; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=CHECKOUT)
    assert not {"torch", "mlflow", "litellm", "hydra", "omegaconf", "numpy", "jinja2"} & set(found.stdout.split())


def test_planning_loads_neither_torch_nor_mlflow_nor_litellm() -> None:
    program = (
        "import sys; from orchestrator.cli.main import main; code = main(['plan', 'experiment=quickstart']);"
        "sys.exit(code or repr({'torch', 'mlflow', 'litellm'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=CHECKOUT)
    assert found.stderr.strip() == "set()"


@pytest.mark.quiet
def test_help_is_quick_and_names_every_verb() -> None:
    walls_s = []
    for _ in range(3):
        started = time.perf_counter()
        found = kernelsweep("--help")
        walls_s.append(time.perf_counter() - started)
    assert found.returncode == 0
    for verb in VERBS:
        assert f"    {verb} " in found.stdout
    assert "worker" not in found.stdout
    assert min(walls_s) < 0.4


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        build_parser().parse_args([verb, "-h"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: kernelsweep {verb} ")
    assert "--json" in text
    assert "Exit codes" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plane"], ["'plane'", "plan", "doctor"]),
        ([], ["VERB"]),
        (["plan", "--bogus"], ["--bogus"]),
        (["evaluate", "24"], ["FILE"]),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    out, err = capsys.readouterr()
    assert end.value.code == 2
    assert (out, err.count("\n")) == ("", 1)
    for word in words:
        assert word in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan", "budget.turms=3"], ["did you mean turns?"]),
        (["run", "model=recordet"], ["did you mean recorded?"]),
        (["status", "problem=24"], ["holds no cells yet", "kernelsweep run"]),
        (["report", "problem=24"], ["holds no cells yet"]),
        (["sync", "problem=24"], ["holds no cells yet"]),
        (["problems", "99"], ["no problem '99'"]),
        (["problems", "problem.source=kernelbench"], ["problem.path"]),
        (["evaluate", "999", "x.py"], ["no problem '999'"]),
        (["evaluate", "nosuch.py", "x.py"], ["nosuch.py"]),
        (["evaluate", "24", "nosuch.py"], ["cannot read nosuch.py"]),
        (["evaluate", "24", "x.py", "evaluation.drows=3"], ["did you mean draws?"]),
        (["run", "problem=24", "model=grok-4.3"], ["environment variable XAI_API_KEY"]),
        (
            ["run", "problem=24", "model=grok-4.3,glm-5.3"],
            ["XAI_API_KEY", "glm-5.3 (environment variable ZAI_API_KEY)"],
        ),
        (["doctor", "model=grok"], ["did you mean grok-4.3?"]),
        (["doctor", "model=grok-4.3", "tracking=none"], ["tracking has no meaning here"]),
        (["doctor", "budget=small"], ["budget has no meaning here"]),
        (["doctor", "tracking=mlflo"], ["did you mean mlflow?"]),
    ],
)
def test_a_config_error_is_one_sentence_exit_code_2_and_nothing_written(
    arguments: list[str],
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XAI_API_KEY", raising=False)
    monkeypatch.delenv("ZAI_API_KEY", raising=False)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("kernelsweep: ")
    for word in words:
        assert word in err
    assert not list(tmp_path.iterdir())


def test_plan_counts_what_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "problem=24", "--out", str(tmp_path), "seed=0,1,2", "--json"]
    assert main(arguments) == 0
    first = json.loads(capsys.readouterr().out)
    assert (first["cells_total"], first["done"], first["pending"]) == (3, 0, 3)
    finished = Store(tmp_path / "adhoc").record_path(first["cells"][1]["uid"])
    finished.parent.mkdir(parents=True)
    finished.write_text("{}")
    assert main(arguments) == 0
    second = json.loads(capsys.readouterr().out)
    assert (second["done"], second["pending"]) == (1, 2)
    assert [cell["done"] for cell in second["cells"]] == [False, True, False]


def test_plan_lists_no_more_than_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "problem=24", "seed=range(0,30)", "--out", str(tmp_path)]
    for limit, listed in ((None, 20), (5, 5), (0, 30)):
        assert main([*asked, *([] if limit is None else ["--limit", str(limit)])]) == 0
        text = capsys.readouterr().out
        assert text.count("  pending  ") == listed
        assert ("more; --limit 0 lists all" in text) is (listed < 30)


def test_problems_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["problems", "level1/*"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("level1/24_row_softmax ") for line in lines)
    assert not any("level2" in line for line in lines)
    assert main(["problems", "47", "--json"]) == 0
    [row] = json.loads(capsys.readouterr().out)
    assert row["name"] == "level2/47_virtual_all_gather_concat_linear"
    assert len(row["sha256"]) == 64


def test_doctor_says_what_is_there_and_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path / "cache")
    for key in ("a" * 64, "b" * 64):
        cache.put(key, Entry(tier="lite", wall_s=1.0, sha256=None, diagnostics="x" * 2**20), None)
    for hit in (True, False, True):
        cache.count(hit=hit)
    broken = tmp_path / "broken.db"
    broken.write_text("no database")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["doctor", "--json", "--out", str(tmp_path), f"tracking.uri=sqlite:///{broken}"]) == 1
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert checks["compiler"]["state"] == "missing"
    assert "apt install g++" in checks["compiler"]["advice"]
    assert checks["torch"]["state"] == "ok"
    assert checks["builds"]["found"].startswith("2.000 MiB in 2 builds of ")
    assert checks["builds"]["found"].endswith("67% of 3 requests answered from it")
    assert checks["mlflow"]["state"] == "weak"
    assert set(checks) == {"compiler", "torch", "sandbox", "disk", "builds", "mlflow"}


def test_doctor_bounds_the_cache_of_builds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = Cache(tmp_path / "cache")
    for key in ("a" * 64, "b" * 64):
        cache.put(key, Entry(tier="lite", wall_s=1.0, sha256=None, diagnostics="x" * 2**20), None)
    assert main(["doctor", "--out", str(tmp_path), "--prune-cache", "1.5MB"]) == 0
    assert "1.000 MiB removed; 1.000 MiB in 1 builds of " in capsys.readouterr().out
    assert main(["doctor", "--out", str(tmp_path), "--prune-cache", "much"]) == 2
    assert "--prune-cache 'much' is no size" in capsys.readouterr().err
    assert cache.stats().entries == 1


def test_it_refuses_another_package_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").write_text("")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from orchestrator.cli.main import main; sys.exit(main())"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=CHECKOUT)
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert f"package 'agents' must be {CHECKOUT / 'agents'}" in found.stderr


def test_a_reader_that_closes_its_pipe_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -m orchestrator plan problem=24 'seed=range(0,5000)' --json --out {tmp_path} | head -1"
    found = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, cwd=CHECKOUT)
    assert (found.returncode, found.stdout.strip(), found.stderr) == (0, "{", "")


SOFTMAX = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
"""


def test_evaluate_judges_a_candidate_without_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    candidate = tmp_path / "candidate.py"
    candidate.write_text(SOFTMAX.replace("dim=-1", "dim=0"))
    problem = Path(shutil.copy(CHECKOUT / "problems" / "level1" / "24_row_softmax.py", tmp_path))
    arguments = ["evaluate", str(problem), str(candidate), "--json", "--out", str(tmp_path), "evaluation.draws=9"]
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["status"] == "INCORRECT_VALUES"
    assert found["correctness"]["draws_total"] == 9


def test_the_verdict_is_a_readable_table(timed: Callable[[float, float], Evaluation]) -> None:
    lines = dict(verdict_lines(timed(1.0, 2.0)))
    assert lines["verdict"] == "PASSED (reached: timing)"
    assert lines["speed-up"].startswith("2.00x [1.94, 2.06]")
    assert lines["correct"].startswith("5 of 5 draws; largest error 8.34e-07")
    assert lines["build"].startswith("softmax: 2.4 s")
    assert "gpu" not in lines
    failed = Evaluation(status=Status.COMPILE_ERROR, stage=Stage.BUILD, message="no such function")
    assert dict(verdict_lines(failed))["message"] == "no such function"
    assert "speed-up" not in dict(verdict_lines(failed))


def test_the_software_of_a_gpu_is_in_the_table(timed: Callable[[float, float], Evaluation]) -> None:
    found = timed(1.0, 2.0)
    assert found.environment is not None
    on_gpu = replace(found, environment=replace(found.environment, driver="580.65.06", cuda="13.0"))
    assert dict(verdict_lines(on_gpu))["gpu"] == "driver 580.65.06, CUDA 13.0"
