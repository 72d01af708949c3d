"""SLURM asked by its own commands: what is queued, and how much may be. Accounting is used where there is some."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from orchestrator.settings import ConfigError, SlurmSettings

COMMAND_S = 60.0
"""Seconds that one command may take; SLURM's own limit on an answer is shorter at most sites."""
MESSAGE_TIMEOUT_S = 10.0
"""SLURM's own limit where the site does not say."""
NEEDED = ("sbatch", "squeue", "scontrol", "srun")
"""srun is not used, but submitit takes a machine without it for one without SLURM."""
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT")
"""How to reach the cluster. Every other variable of SLURM describes the job that we may be in."""
_DEVICES = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "GPU_DEVICE_ORDINAL")


class SlurmError(Exception):
    """SLURM refuses or does not answer; the message is one sentence that quotes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """A job that has not ended, as squeue lists it."""

    task: str
    """`<array id>_<index>`, the name of its log and of its worker."""
    job_name: str
    state: str
    """SLURM's word, such as PENDING or RUNNING."""
    node: str
    """Nothing while it is pending."""
    reason: str
    """Why it is pending, in SLURM's word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the site permits this user; None where it does not say."""

    array_size: int | None
    """Indices of an array stay below it."""
    jobs: int | None
    """Jobs, each task of an array counted, that may be submitted beside those that are."""
    answer_s: float
    """Seconds after which a command gives up on the controller."""


def require_slurm() -> None:
    """Raise ConfigError when this machine has no SLURM commands."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        raise ConfigError(
            f"launcher=slurm needs {', '.join(missing)}, which this machine has not: "
            "start from a login node of the cluster, or choose launcher=local"
        )


def queued(names: Iterable[str]) -> list[Queued]:
    """The jobs of these names that have not ended, each task of an array by itself. Raises SlurmError."""
    listed = ",".join(names)
    if not listed:
        return []
    text = ask(["squeue", "--noheader", "--array", f"--name={listed}", "--format=%F_%K|%j|%T|%N|%r"])
    rows = [line.split("|") for line in text.splitlines() if line.count("|") == 4]
    return [
        Queued(task=task, job_name=name, state=state, node=node, reason=why) for task, name, state, node, why in rows
    ]


def limits(settings: SlurmSettings) -> Limits:
    """The site's limits at this moment. Raises SlurmError when the controller does not answer."""
    config = dict(_pairs(ask(["scontrol", "show", "config"])))
    bounds = [bound for bound in _accounted(settings) if bound is not None]
    room = None
    if bounds:
        mine = len(ask(["squeue", "--noheader", "--array", f"--user={os.geteuid()}", "--format=%i"]).split())
        room = max(0, min(bounds) - mine)
    answer_s = _number(config.get("MessageTimeout", "").partition(" ")[0])
    return Limits(
        array_size=_number(config.get("MaxArraySize", "")),
        jobs=room,
        answer_s=MESSAGE_TIMEOUT_S if answer_s is None else answer_s,
    )


def ask(command: Sequence[str]) -> str:
    """What a command of SLURM prints. Raises SlurmError."""
    # SLURM_TIME_FORMAT and SQUEUE_* of a user's profile would change what is printed.
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SQUEUE_", "SLURM_TIME"))}
    try:
        found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=COMMAND_S)
    except FileNotFoundError as error:
        raise SlurmError(f"this machine has no {command[0]}") from error
    except subprocess.TimeoutExpired as error:
        raise SlurmError(f"{command[0]} has not answered in {COMMAND_S:.0f} s") from error
    if found.returncode != 0:
        raise SlurmError(f"{command[0]} says: {' '.join(found.stderr.split()) or f'exit code {found.returncode}'}")
    return found.stdout


@contextmanager
def outside_allocations(settings: SlurmSettings) -> Iterator[None]:
    """An environment to submit from that knows nothing of a job which this process may be in.

    A variable SBATCH_X wins over the directive in a script, and --export=ALL hands SLURM_* and the devices of the
    surrounding job to the new one; so only a user's own defaults stay, and only where the config has none.
    """
    defaults = {  # of a user, with what the config says instead
        "SBATCH_ACCOUNT": settings.account,
        "SBATCH_PARTITION": settings.partition,
        "SBATCH_QOS": settings.qos,
        "SBATCH_RESERVATION": settings.extra.get("reservation"),
        "SBATCH_CONSTRAINT": settings.extra.get("constraint"),
    }
    kept = {*_KEPT, *(name for name, chosen in defaults.items() if chosen is None)}
    strange = [
        name
        for name in os.environ
        if name not in kept and (name.startswith(("SLURM", "SBATCH_", "SRUN_", "SUBMITIT_")) or name in _DEVICES)
    ]
    hidden = {name: os.environ.pop(name) for name in strange}
    try:
        yield
    finally:
        os.environ.update(hidden)


def _accounted(settings: SlurmSettings) -> list[int | None]:
    """Bounds on submitted jobs of the user's association and of the QOS; nothing at a site without accounting."""
    show = ["sacctmgr", "--noheader", "--parsable2", "show"]
    bounds: list[int | None] = []
    try:
        where = [f"account={settings.account}"] if settings.account is not None else []
        text = ask([*show, "assoc", f"user={getpass.getuser()}", *where, "format=maxsubmitjobs"])
        per_account = [bound for line in text.splitlines() if (bound := _number(line)) is not None]
        # Of several accounts, sbatch takes one that we cannot tell: only the highest bound on all of them is certain.
        if per_account and len(per_account) == len(text.splitlines()):
            bounds.append(max(per_account))
        if settings.qos is not None:
            text = ask([*show, "qos", settings.qos, "format=maxsubmitjobsperuser"])
            bounds += [_number(line) for line in text.splitlines()]
    except SlurmError:
        return []  # no accounting, or none that this user may read: sbatch knows the limits and says so
    return bounds


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        key, sign, value = line.partition("=")
        if sign:
            yield key.strip(), value.strip()


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdigit() else None
