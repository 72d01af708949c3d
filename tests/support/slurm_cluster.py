"""A real SLURM on this machine: munged, slurmctld and one slurmd a node, in a folder of its own, with fake GPUs.

Nothing of the system is changed: the daemons run as this user, on free ports, and are found through SLURM_CONF alone.
"""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ports import free_ports

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")
NODES = 2
CPUS = 4
_DEVICES = ("/dev/null", "/dev/zero")
"""What each node calls its GPUs: any device files will do, as nothing computes on them."""
GPUS = len(_DEVICES)
MEMORY_MB = 4000
START_S = 90.0
_SEARCH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin"

_CONF = """\
ClusterName=kernelsweep
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0
ReturnToService=2
GresTypes=gpu
{options}
{nodes}
PartitionName=cpu Nodes=ALL Default=YES MaxTime=UNLIMITED DefaultTime=10 State=UP
"""

_LIMIT = """\
local left = {count}
function slurm_job_submit(job, partitions, uid)
    local low, high = string.match(job.array_inx, "(%d+)-(%d+)")
    local tasks = high - low + 1
    if tasks > left then
        slurm.log_user("AssocMaxSubmitJobLimit")
        return slurm.ERROR
    end
    left = left - tasks
    return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid) return slurm.SUCCESS end
return slurm.SUCCESS
"""


def missing_programs() -> list[str]:
    """What must be installed (Debian: slurm-wlm and munge) before a cluster can start."""
    return [name for name in PROGRAMS if shutil.which(name, path=_SEARCH) is None]


class Cluster:
    """A running cluster. `environment` is what a process needs to talk to it."""

    def __init__(self, **options: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ks-slurm-", dir="/tmp"))  # a socket's path has 107 bytes at most
        self.folder.chmod(0o755)  # munged refuses a key that others could replace, and a folder that they cannot enter
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "SBATCH_"))},
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "PATH": _SEARCH,
        }
        self.nodes = [f"node{number}" for number in range(NODES)]
        self._ports = free_ports(1 + NODES)
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._options = {
            "MessageTimeout": "10",
            "KillWait": "25",
            "MinJobAge": "300",
            "InactiveLimit": "0",
            "SlurmdTimeout": "30",
            **options,
        }
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def command(self, *words: str) -> str:
        """Run one of SLURM's programs; returns what it printed. Raises CalledProcessError."""
        found = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=60)
        assert found.returncode == 0, f"{words}: {found.stdout}{found.stderr}"
        return found.stdout

    def queue(self, *arguments: str) -> dict[str, str]:
        """`array_task` -> state of the jobs that have not ended."""
        lines = self.command("squeue", "--noheader", "--array", "--format=%F_%K|%T", *arguments).split()
        return dict(line.split("|") for line in lines)

    def configure(self, **options: str) -> None:
        """Restart the controller with other options; jobs go on."""
        self._options |= options
        self._write_conf()
        self.end_controller()
        self.start_controller()

    def start_controller(self) -> None:
        """Start slurmctld and wait until it answers."""
        self._daemon("slurmctld", "slurmctld", "-D")
        self._wait_for("slurmctld", lambda: "UP" in self._try("scontrol", "ping"))

    def end_controller(self) -> None:
        """End slurmctld; it writes its state."""
        self._end("slurmctld")

    def signal_controller(self, number: signal.Signals) -> None:
        """Send slurmctld a signal, such as SIGSTOP to make every request time out."""
        self._daemons["slurmctld"].send_signal(number)

    def admit(self, count: int) -> None:
        """Refuse arrays once so many more jobs are in, as a site's MaxSubmitJobs does; sbatch alone comes to know."""
        (self.folder / "job_submit.lua").write_text(_LIMIT.format(count=count))
        self.configure(JobSubmitPlugins="lua")

    def admit_all(self) -> None:
        """Lift the limit."""
        del self._options["JobSubmitPlugins"]
        self.configure()

    def stall(self, seconds: float) -> threading.Timer:
        """Let the controller take requests and answer none for so long."""
        self.signal_controller(signal.SIGSTOP)
        timer = threading.Timer(seconds, self.signal_controller, [signal.SIGCONT])
        timer.start()
        return timer

    def clear(self) -> None:
        """Cancel all jobs, give all nodes back, and wait until nothing is left."""
        self._try("scancel", "--user", _user(), "--signal=KILL", "--full")
        self._try("scancel", "--user", _user())
        self._wait_for("an empty queue", lambda: not self._try("squeue", "--noheader").strip())

    def revive(self, node: str) -> None:
        """Give a node that was set down back to the scheduler, if it has not come back by itself."""

        def state() -> str:
            return self.command("sinfo", "--noheader", f"--nodes={node}", "--format=%T").split()[0]

        if state().startswith("down"):
            self._try("scontrol", "update", f"nodename={node}", "state=resume")
        self._wait_for(node, lambda: state() in ("idle", "mixed", "allocated"))

    def stop(self) -> None:
        """End all jobs and daemons, and remove the folder."""
        if "slurmctld" in self._daemons and self._daemons["slurmctld"].poll() is None:
            self._try("scancel", "--user", _user(), "--signal=KILL", "--full")
            self._try("scancel", "--user", _user())
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline and self._try("squeue", "--noheader").strip():
                time.sleep(0.1)
        for name in list(self._daemons):
            self._end(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        """The ends of all daemons' logs."""
        return "\n".join(f"== {path.name}\n{path.read_text()[-2000:]}" for path in self.folder.glob("*.log"))

    def _start(self) -> None:
        for name in ("state", *(f"spool-{node}" for node in self.nodes)):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        self._write_conf()
        where = [f"--{name}={self.folder}/munge.{name.removesuffix('-file')}" for name in ("socket", "key-file")]
        where += [f"--{name}-file={self.folder}/munge.{name}" for name in ("pid", "log", "seed")]
        self._daemon("munged", "munged", "--foreground", "--force", "--num-threads=2", *where)
        self._wait_for("munged", (self.folder / "munge.socket").exists)
        self.start_controller()
        for node in self.nodes:
            self._daemon(node, "slurmd", "-D", "-N", node)
        self._wait_for("slurmd", lambda: self._try("sinfo", "-ho", "%T %D").split() == ["idle", str(NODES)])

    def _write_conf(self) -> None:
        host = socket.gethostname().split(".")[0]
        nodes = [
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={CPUS} RealMemory={MEMORY_MB} "
            f"Gres=gpu:toy:{GPUS} State=UNKNOWN"
            for node, port in zip(self.nodes, self._ports[1:], strict=True)
        ]
        gres = [f"NodeName={node} Name=gpu Type=toy File={path}" for node in self.nodes for path in _DEVICES]
        text = _CONF.format(
            host=host,
            user=_user(),
            port=self._ports[0],
            folder=self.folder,
            options="\n".join(f"{key}={value}" for key, value in self._options.items()),
            nodes="\n".join(nodes),
        )
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "gres.conf").write_text("\n".join(gres) + "\n")
        # Versions that have no cgroup of their own to manage say so; older ones know no such word and need none.
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n" if _version() >= (23, 11) else "")

    def _daemon(self, name: str, program: str, *arguments: str) -> None:
        path = shutil.which(program, path=_SEARCH)
        assert path is not None
        with (self.folder / f"{name}.out.log").open("ab") as output:
            self._daemons[name] = subprocess.Popen(
                [path, *arguments], env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    def _end(self, name: str) -> None:
        process = self._daemons.pop(name)
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _wait_for(self, what: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_S
        while not ready():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what} did not come up in {START_S:.0f} s\n{self.log()}")
            time.sleep(0.05)

    def _try(self, *words: str) -> str:
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=60).stdout


def _user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def _version() -> tuple[int, ...]:
    path = shutil.which("slurmctld", path=_SEARCH)
    assert path is not None
    found = subprocess.run([path, "-V"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in re.findall(r"\d+", found)[:2])
