"""What is decided without a cluster: contradictions, names of workers, and what a site's accounting permits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli.main import main
from orchestrator.settings import SlurmSettings
from orchestrator.store.store import Store
from orchestrator.sweep import slurm
from orchestrator.sweep.jobs import collect_tasks
from orchestrator.sweep.node import seats

ARRAY = {"SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "4"}


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["launcher.slurm.time_limit_min=5", "launcher.slurm.signal_lead_s=300"], ["signal_lead_s=300", "time_limit"]),
        (["launcher.slurm.gpu_type=h100"], ["gpus_per_node"]),
        (["launcher.slurm.extra={time: 5, nodelist: x}"], ["extra cannot set time", "launcher.slurm"]),
        (["launcher.slurm.prefix='a \"b'"], ["launcher.slurm.prefix", "quot"]),
        ([], ["sbatch", "login node", "launcher=local"]),
    ],
)
def test_what_cannot_be_submitted_is_one_sentence_and_leaves_nothing_behind(
    overrides: list[str],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    outputs = tmp_path / "outputs"
    assert main(["run", "problem=24", "launcher=slurm", *overrides, "--out", str(outputs)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert all(word in err for word in words), err
    assert not outputs.exists()


def test_topping_up_is_for_clusters_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "problem=24", "--top-up", "--out", str(tmp_path / "outputs")]) == 2
    assert "launcher=slurm" in capsys.readouterr().err


def test_a_job_has_a_worker_for_each_of_its_gpus_whose_names_no_other_life_of_it_has() -> None:
    [alone] = seats(ARRAY)
    assert (alone.name, dict(alone.variables)) == ("17_4", {})
    [one] = seats({**ARRAY, "CUDA_VISIBLE_DEVICES": "GPU-1f", "SLURM_RESTART_COUNT": "2"})
    assert (one.name, dict(one.variables)) == ("17_4r2", {})
    both = seats({**ARRAY, "CUDA_VISIBLE_DEVICES": "3,GPU-8a"})
    assert [(seat.name, seat.variables["CUDA_VISIBLE_DEVICES"]) for seat in both] == [
        ("17_4g0", "3"),
        ("17_4g1", "GPU-8a"),
    ]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts stand-ins of SLURM's programs, which print what the real ones print, first on the path."""

    def install(**programs: str) -> None:
        for name, script in programs.items():
            path = tmp_path / name
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return install


def test_the_room_is_what_accounting_permits_less_what_is_queued(site: Callable[..., None]) -> None:
    config = "printf 'MaxArraySize            = 1001\\nMessageTimeout          = 25 sec\\n'"
    by_kind = 'case "$*" in *qos*) echo 12;; *account=a*) echo 40;; *) printf "40\\n50\\n";; esac'
    site(scontrol=config, squeue="printf '7_0\\n7_1\\n9\\n'", sacctmgr=by_kind)
    assert slurm.limits(SlurmSettings()) == slurm.Limits(array_size=1001, jobs=47, answer_s=25)
    assert slurm.limits(SlurmSettings(account="a")).jobs == 37
    assert slurm.limits(SlurmSettings(account="a", qos="short")).jobs == 9
    site(sacctmgr="printf '\\n'")
    assert slurm.limits(SlurmSettings()).jobs is None  # no bound is set
    site(sacctmgr="echo 'You are not running a supported accounting_storage plugin' >&2; exit 1")
    assert slurm.limits(SlurmSettings(qos="short")).jobs is None


def test_status_says_nothing_of_clusters_where_none_was_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert collect_tasks(Store(tmp_path)).lines() == []
