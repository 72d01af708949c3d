"""One real SLURM for all tests of this folder, and sweeps whose cells need no judge."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from slurm_cluster import Cluster, missing_programs
from sweeps import call, make_sweep

from orchestrator.store.store import Store
from orchestrator.sweep.run import Sweep

REQUIRED = "KERNELSWEEP_REQUIRE_SLURM"
"""Set where these tests must not be skipped, as .ci/run does."""
MAX_ARRAY_SIZE = 3


@pytest.fixture(scope="session")
def started_cluster() -> Iterator[Cluster]:
    missing = missing_programs()
    if missing:
        reason = f"SLURM is not installed ({', '.join(missing)} not found): apt install slurm-wlm munge"
        if os.environ.get(REQUIRED):
            pytest.fail(f"{REQUIRED} is set, but {reason}", pytrace=False)
        pytest.skip(reason)
    cluster = Cluster(MaxArraySize=str(MAX_ARRAY_SIZE))
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def cluster(started_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The cluster, as a person on its login node has it; without jobs before and after."""
    for name in [name for name in os.environ if name.startswith(("SLURM", "SBATCH"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_CONF", started_cluster.environment["SLURM_CONF"])
    monkeypatch.setenv("PATH", started_cluster.environment["PATH"])
    yield started_cluster
    started_cluster.clear()


@pytest.fixture
def sweep_of(tmp_path: Path) -> Callable[..., Sweep]:
    """Cells of so many turns, each of which asks for the machine's description: nothing is built or measured."""

    def make(cells: int, turns: int, *overrides: str) -> Sweep:
        return make_sweep(
            tmp_path,
            [call("get_gpu_specs")] * turns,
            "launcher=slurm",
            "launcher.agents=1",
            "launcher.slurm.cpus=1",
            "launcher.slurm.memory_gb=1",
            f"seed=range(0,{cells})",
            f"budget.turns={turns}",
            *overrides,
        )

    return make


@pytest.fixture
def until() -> Callable[[Callable[[], object], float], None]:
    def wait(holds: Callable[[], object], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"it did not come about in {seconds} s"
            time.sleep(0.1)

    return wait


@pytest.fixture
def all_done() -> Callable[[Sweep], bool]:
    return lambda sweep: all(Store(sweep.store.root).is_done(uid) for uid in sweep.cells)
