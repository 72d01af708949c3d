"""What runs in one job of a batch system: a worker for each GPU of the job, until they are done or told to drain.

`python -m orchestrator.sweep.node --root DIR --job ID`, inside a SLURM job.

The batch script becomes this process, so that signals sent to the script arrive here. SIGTERM (scancel, preemption,
wall time), SIGUSR1 (`--signal`, before the wall time) and SIGUSR2 all mean: drain, and end within half a minute.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from orchestrator.store.files import append_line
from orchestrator.store.job import read_job
from orchestrator.store.store import Store
from orchestrator.store.submissions import batch_dir
from orchestrator.sweep.launcher_local import Seat, work

DRAIN_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_GPUS = "CUDA_VISIBLE_DEVICES"

log = logging.getLogger(__name__)


def task_name(environment: Mapping[str, str]) -> str:
    """`<array id>_<index>` of the SLURM job that this process is in; raises KeyError outside of an array."""
    return f"{environment['SLURM_ARRAY_JOB_ID']}_{environment['SLURM_ARRAY_TASK_ID']}"


def seats(environment: Mapping[str, str]) -> list[Seat]:
    """A worker for each GPU that the job has, by number or UUID as SLURM names it; one where there is none.

    A job that SLURM starts a second time has workers of another name: each name is one writer of journals.
    """
    life = int(environment.get("SLURM_RESTART_COUNT", "0"))
    name = task_name(environment) + (f"r{life}" if life else "")
    gpus = [gpu for gpu in environment.get(_GPUS, "").split(",") if gpu]
    if len(gpus) < 2:
        return [Seat(name=name)]
    return [Seat(name=f"{name}g{index}", variables={_GPUS: gpu}) for index, gpu in enumerate(gpus)]


def main(argv: list[str] | None = None) -> None:
    """Run the workers of this job; exit code 1 when one of them cannot work."""
    parser = argparse.ArgumentParser(prog="python -m orchestrator.sweep.node", description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="the store's folder")
    parser.add_argument("--job", required=True, help="id of the launch")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for number in DRAIN_SIGNALS:
        signal.signal(number, _drain)
    job = read_job(Store(arguments.root), arguments.job)
    journal = batch_dir(job) / f"{task_name(os.environ)}.jsonl"
    append_line(journal, {"event": "start", "t": time.time(), "host": socket.gethostname(), "pid": os.getpid()})
    code = 1
    try:
        code = 0 if work(job, seats(os.environ)) else 1
    except SystemExit:
        code = 0  # drained
    finally:
        append_line(journal, {"event": "end", "t": time.time(), "code": code})
    sys.exit(code)


def _drain(number: int, _: object) -> None:
    for each in DRAIN_SIGNALS:  # a second signal must not disturb what the first has begun
        signal.signal(each, signal.SIG_IGN)
    log.info("%s: the workers drain", signal.Signals(number).name)
    sys.exit(0)


if __name__ == "__main__":
    main()
