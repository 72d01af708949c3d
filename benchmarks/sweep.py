"""What the orchestrator itself costs, with cells that take no model's time and no judge's.

    python benchmarks/sweep.py [--only costs] [--only finished] [--only slurm] [--only chaos] [--out FILE.json]

Cells replay a recording that calls one harmless tool and hands in nothing, so the grade needs no evaluation. Processes
are forks of this one, which has imported what a worker imports. CPU seconds are user and system time of the processes
under test; wall seconds are of this machine with whatever else runs on it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import ROOT, header, measure, write

sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from finished import assert_each_once  # noqa: E402
from one_cell import make_job, rewritten, store_of  # noqa: E402
from slurm_cluster import Cluster  # noqa: E402
from sweep_chaos import chaos  # noqa: E402
from sweeps import call, make_sweep  # noqa: E402

from orchestrator.cell import Cell  # noqa: E402
from orchestrator.config.experiment import load_experiment  # noqa: E402
from orchestrator.plan import make_plan  # noqa: E402
from orchestrator.store.job import Job, create_job  # noqa: E402
from orchestrator.store.layouts import remember_layout  # noqa: E402
from orchestrator.store.store import Store  # noqa: E402
from orchestrator.sweep.submit import submit  # noqa: E402
from orchestrator.sweep.worker import Worker  # noqa: E402

ALONE, MANY, PROCESSES, FINISHED, FEW, BATCH = 200, 2_000, 64, 100_000, 100, 150
NAMES = ["name=tiny", "problem=level1/24_row_softmax", "agent=tool_loop", "budget.turns=2", "tracking=none"]
Json = dict[str, Any]


def used_s(pids: list[int]) -> tuple[float, list[int]]:
    """CPU seconds of these children and their exit codes, once all have ended."""
    total, codes = 0.0, []
    for pid in pids:
        _, status, usage = os.wait4(pid, 0)
        total += usage.ru_utime + usage.ru_stime
        codes.append(os.waitstatus_to_exitcode(status))
    return total, codes


def fork(do: Callable[[], None]) -> int:
    """The pid of a child that does this and nothing else."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        do()
        code = 0
    finally:
        os._exit(code)


def worked(job: Job, processes: int) -> Json:
    """CPU and wall seconds of so many workers on one job."""
    began = time.perf_counter()
    pids = [fork(lambda name=str(number): Worker(job, name).run()) for number in range(processes)]
    cpu_s, codes = used_s(pids)
    assert codes == [0] * processes
    return {"cpu_s": cpu_s, "wall_s": time.perf_counter() - began}


def on_disk(store: Store) -> Json:
    """What the cells and the index of a store take."""
    files = [path for top in (store.cells_dir, store.index_dir) for path in top.rglob("*")]
    stats = {stat.st_ino: stat for stat in (path.lstat() for path in files)}  # a claim is a link to a lease
    leases = {path.lstat().st_ino for path in store.cells_dir.glob("*/attempts/*.claim")}
    own = [stat for inode, stat in stats.items() if inode not in leases]
    return {
        "inodes": len(own),
        "leases": len(leases),
        "bytes": sum(path.stat().st_size for path in files if path.is_file() and path.suffix != ".claim"),
        "allocated_bytes": sum(stat.st_blocks * 512 for stat in own),
    }


def new_job(folder: Path, cells: list[Cell], **changes: Any) -> Job:
    """A launch of these cells in the store below `folder`."""
    job = create_job(Store(folder / "tiny"), {cell.uid: cell for cell in cells}, folder / "cache")
    return rewritten(job, **changes)


def costs(folder: Path, _: argparse.Namespace) -> Json:
    """CPU of one and of many processes, and what they leave on the disk."""
    make_job(folder)  # and with it the recording
    cells = planned_by([*NAMES, f"model.transcript={folder / 'transcripts'}", f"seed=range(0,{MANY})"])
    samples: Json = {
        "one_cell": worked(new_job(folder / "one", cells[:1]), 1),
        "one_loop": worked(new_job(folder / "alone", cells[:ALONE]), 1),
        "sixteen_loops": worked(new_job(folder / "threads", cells[:ALONE], agents=16), 1),
    }
    serial, shared = new_job(folder / "serial", cells), new_job(folder / "shared", cells)
    samples["serial"] = worked(serial, 1) | on_disk(store_of(serial))
    samples["processes"] = worked(shared, PROCESSES) | on_disk(store_of(shared))
    for job in (serial, shared):
        assert_each_once(store_of(job), [cell.uid for cell in cells])
    return samples


def finished(folder: Path, _: argparse.Namespace) -> Json:
    """One more cell's cost, and the status, in a store of FINISHED cells."""
    make_job(folder)
    grid = [*NAMES, f"model.transcript={folder / 'transcripts'}", f"seed=range(0,{FINISHED + FEW + 2 * BATCH})"]
    cells = planned_by(grid)
    samples, outputs = Json(), folder / "outputs"
    store = Store(outputs / "tiny")
    remember_layout(store)
    worked(new_job(outputs, cells[:FEW]), 1)
    samples["at_few"] = worked(new_job(outputs, cells[FEW : FEW + BATCH]), 1)
    template = next(iter(store.rows().values()))
    with (store.index_dir / "made.jsonl").open("w") as index:
        for cell in cells[FEW + BATCH : FINISHED]:
            path = store.cell_dir(cell.uid)
            path.mkdir()
            (path / "record.json").write_bytes(b"{}")
            row = template._replace(uid=cell.uid).plain()
            index.write(json.dumps(row, separators=(",", ":")) + "\n")
    samples["at_many"] = worked(new_job(outputs, cells[FINISHED : FINISHED + BATCH]), 1)
    for name in ("status", "status_again"):
        began = time.perf_counter()
        command = [sys.executable, "-m", "orchestrator", "status", *grid, "--out", str(outputs)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, cwd=ROOT)
        cpu_s, codes = used_s([process.pid])
        assert codes == [0]
        samples[name] = {"cpu_s": cpu_s, "wall_s": time.perf_counter() - began}
    assert len(store.rows()) == FINISHED + BATCH
    return samples


def slurm(folder: Path, _: argparse.Namespace) -> Json:
    """CPU of whole SLURM jobs, of one cell and of ALONE, as bash accounts for the job's command."""
    cluster = Cluster()
    os.environ.update({name: cluster.environment[name] for name in ("SLURM_CONF", "PATH")})
    samples: Json = {"cells": ALONE}
    try:
        for name, cells in (("one", 1), ("many", ALONE)):
            (folder / name).mkdir()
            spent = folder / f"{name}.times"
            prefix = json.dumps(f"bash -c '\"$@\"; times >{spent}' timed")
            sweep = make_sweep(
                folder / name, [call("get_gpu_specs")] * 2, *NAMES[2:4], f"seed=range(0,{cells})", "launcher=slurm",
                "launcher.workers=1", "launcher.agents=1", "launcher.slurm.cpus=1", "launcher.slurm.memory_gb=1",
                f"launcher.slurm.prefix={prefix}",
            )  # fmt: skip
            submit(sweep, top_up=False)
            while not spent.exists() or cluster.queue():
                time.sleep(0.5)
            assert_each_once(sweep.store, sweep.cells)
            samples[name] = {"cpu_s": _seconds(spent.read_text().splitlines()[1])}
    finally:
        cluster.stop()
    return samples


def _seconds(line: str) -> float:
    """The sum of `1m2.345s 0m0.678s`."""
    pairs = [word.removesuffix("s").split("m") for word in line.split()]
    return sum(60.0 * int(minutes) + float(seconds) for minutes, seconds in pairs)


def planned_by(grid: list[str]) -> list[Cell]:
    """The cells of these overrides, as `status` plans them."""
    return list(make_plan(load_experiment(grid)).cells.values())


def measures_of(samples: Json) -> list[Json]:
    """The figures that count, each with the bar that it is held to, of the parts that have been measured."""
    return [one for part in PARTS if part in samples for one in PARTS[part][1](samples[part])]


def cost_measures(samples: Json) -> list[Json]:
    """Of the part `costs`."""

    def per_cell_ms(name: str) -> float:
        return 1e3 * (samples[name]["cpu_s"] - samples["one_cell"]["cpu_s"]) / (ALONE - 1)

    serial, shared = samples["serial"], samples["processes"]
    difference = max(abs(shared[kind] / serial[kind] - 1) for kind in ("bytes", "inodes"))
    overhead = "overhead of the orchestrator per cell"
    return [
        measure(f"{overhead}, one loop, CPU", per_cell_ms("one_loop"), "ms", "<=", 50),
        measure(f"{overhead}, sixteen loops, CPU", per_cell_ms("sixteen_loops"), "ms", "<=", 50),
        measure(f"{PROCESSES} processes, {MANY} cells, each once, store's bytes and inodes beside the serial one's",
                difference, "", "<=", 0.01),
        measure(f"{PROCESSES} processes, {MANY} cells, CPU beside the serial run's", shared["cpu_s"] / serial["cpu_s"],
                ""),
        measure("inodes of a finished cell", serial["inodes"] / MANY, ""),
        measure("bytes allocated for a finished cell", serial["allocated_bytes"] / MANY, "B"),
    ]  # fmt: skip


def finished_measures(samples: Json) -> list[Json]:
    """Of the part `finished`."""
    looks = [samples[name] for name in ("status", "status_again")]
    ratio = samples["at_many"]["cpu_s"] / samples["at_few"]["cpu_s"]
    return [
        measure(f"status at {FINISHED} finished cells, wall, better of two", min(one["wall_s"] for one in looks), "s",
                "<=", 3),
        measure(f"status at {FINISHED} finished cells, CPU, better of two", min(one["cpu_s"] for one in looks), "s"),
        measure(f"finishing one cell at {FINISHED} beside {FEW}, CPU", ratio, "", "<=", 1.5),
    ]  # fmt: skip


def slurm_measures(samples: Json) -> list[Json]:
    """Of the part `slurm`."""
    each_ms = 1e3 * (samples["many"]["cpu_s"] - samples["one"]["cpu_s"]) / (samples["cells"] - 1)
    return [measure("overhead of the orchestrator per cell, one SLURM job, CPU", each_ms, "ms", "<=", 50)]


def chaos_measures(samples: Json) -> list[Json]:
    """Of the part `chaos`."""
    cells = samples["cells"]
    what = f"chaos on the test cluster, {cells} cells, a kill every {samples['kill_s']:g} s"
    return [
        measure(f"{what}: records right", cells - len(samples["wrong"]), "", ">=", cells),
        measure(f"{what}: ledger exact", int(samples["ledger_exact"]), "", ">=", 1),
        measure(f"{what}: processes and jobs killed", sum(samples["kills"].values()), ""),
        measure(f"{what}: controller restarted", samples["restarts"], "", ">=", 2),
        measure(f"{what}: wall", samples["wall_s"], "s"),
    ]


PARTS: dict[str, tuple[Callable[[Path, argparse.Namespace], Json], Callable[[Json], list[Json]]]] = {
    "costs": (costs, cost_measures),
    "finished": (finished, finished_measures),
    "slurm": (slurm, slurm_measures),
    "chaos": (lambda folder, asked: chaos(asked.cells, asked.kill_s, folder), chaos_measures),
}


def main() -> None:
    """Measure the parts that are asked for, and keep the others' figures as they are in the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "sweep.json")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may be given again (all)")
    parser.add_argument("--cells", type=int, default=1000, help="of the chaos (1000)")
    parser.add_argument("--kill-s", type=float, default=2.0, help="seconds between its kills (2)")
    arguments = parser.parse_args()
    report = header("litellm", "submitit")
    if arguments.out.exists():
        report["samples"] = json.loads(arguments.out.read_text())["samples"]
    for part in arguments.only or PARTS:
        with tempfile.TemporaryDirectory(prefix="sweep-") as folder:
            began = {"commit": report["commit"], "date": report["date"], "load_1_min": os.getloadavg()[0]}
            report["samples"][part] = PARTS[part][0](Path(folder), arguments) | {"measured": began}
            report["measures"] = measures_of(report["samples"])
            write(report, arguments.out)


if __name__ == "__main__":
    main()
