"""Config of a whole experiment, and how one cell's settings are parted into identity and runtime."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from agents.settings import AgentSettings, BudgetSettings, ModelSettings
from evaluation.serialize import from_plain, to_plain
from evaluation.settings import EvaluationSettings
from orchestrator.cell import Cell
from orchestrator.limits.settings import LimitsSettings
from problems.library import Library

T = TypeVar("T")

SQLITE = "sqlite:///"

CHECKOUT = Path(__file__).resolve().parent.parent
"""The folder that holds conf/, problems/ and this package."""


class ConfigError(Exception):
    """The command line or a file under conf/ asks for something that there is not; the message is one sentence."""


class LauncherKind(Enum):
    """Where cells run. Enums match by member name in the config."""

    inline = "inline"
    local = "local"
    slurm = "slurm"


@dataclass(slots=True, kw_only=True)
class SlurmSettings:
    """What one SLURM job, a task of an array, asks for. None leaves it to the site."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    time_limit_min: int | None = field(default=None, metadata={"minimum": 1})
    """Wall time of one job in minutes. What is in flight when it ends goes on in another job."""
    signal_lead_s: int = field(default=300, metadata={"minimum": 1})
    """Seconds before the wall time at which workers are told to drain; SLURM may tell them a minute earlier still."""
    gpus_per_node: int | None = field(default=None, metadata={"minimum": 1})
    """GPUs of one job; each gets a worker of its own."""
    gpu_type: str | None = None
    """The site's name of it, such as `h100`; takes gpus_per_node."""
    cpus: int | None = field(default=None, metadata={"minimum": 1})
    """Cores of one job. Native builds and the conversations with models run on them."""
    memory_gb: int | None = field(default=None, metadata={"minimum": 1})
    """Memory of one job."""
    array_size: int | None = field(default=None, metadata={"minimum": 1})
    """Jobs in one array; None is as many as the site's MaxArraySize permits."""
    array_parallelism: int | None = field(default=None, metadata={"minimum": 1})
    """Jobs of one array that may run at a time; None does not hold any back."""
    setup: list[str] = field(default_factory=list)
    """Lines of bash before the worker, such as `module load cuda`."""
    prefix: str = ""
    """Put before the worker's command, such as `apptainer exec --nv image.sif`; it must pass signals on."""
    python: str | None = None
    """Python on the nodes, or in the container; None is the one that submits."""
    extra: dict[str, str] = field(default_factory=dict)
    """Further sbatch options, long name -> value; an empty value makes a flag. They win over the above."""


@dataclass(slots=True, kw_only=True)
class LauncherSettings:
    """Who runs the pending cells."""

    kind: LauncherKind = LauncherKind.local
    """`inline`: one after the other in this process. `local`: worker processes on this machine. `slurm`: SLURM jobs."""
    workers: int = field(default=2, metadata={"minimum": 1})
    """kind=local: worker processes. kind=slurm: jobs, each of which has one node and a worker for each of its GPUs."""
    agents: int | None = field(default=None, metadata={"minimum": 1})
    """Agent loops that one worker runs at once. None: one for `inline`, else as many as keep its judges busy."""
    judges: int | None = field(default=None, metadata={"minimum": 1})
    """Judges that one worker's loops share. None: half of its cores."""
    lease_s: float = field(default=60.0, metadata={"minimum": 1})
    """Seconds without a heartbeat after which others take over a worker's cells; its own host knows a death at once."""
    slurm: SlurmSettings = field(default_factory=SlurmSettings)


@dataclass(slots=True, kw_only=True)
class TrackingSettings:
    """Where records are projected to. Nothing is kept there that cannot be rebuilt from the records."""

    enabled: bool = True
    uri: str = "sqlite:///mlflow.db"
    """MLflow's tracking URI; a relative path is taken from the outputs folder."""
    experiment: str = "kernelsweep"
    """MLflow's experiment, which holds one parent run per experiment of ours."""
    artifacts: bool = True
    """Whether kernels, records and run pages are uploaded beside the figures."""

    def below(self, outputs: Path) -> TrackingSettings:
        """The same with the place of an embedded store made absolute."""
        path = outputs.resolve() / self.uri.removeprefix(SQLITE)
        return dataclasses.replace(self, uri=f"{SQLITE}{path}") if self.uri.startswith(SQLITE) else self


class ProblemSource(Enum):
    """What kind of library the problems come from."""

    own = "own"
    kernelbench = "kernelbench"


@dataclass(slots=True, kw_only=True)
class ProblemSettings:
    """The library, and which of its problems are asked for when the sweep names none."""

    source: ProblemSource = ProblemSource.own
    path: str | None = None
    """source=kernelbench: the folder of a KernelBench checkout. source=own: None is this checkout's problems/."""
    select: list[str] = field(default_factory=lambda: ["*"])
    """Names, numbers or globs such as `level1/*`."""


@dataclass(slots=True, kw_only=True)
class RootSettings:
    """The composed config: what `conf/config.yaml` and the overrides may say, and nothing else."""

    name: str = "adhoc"
    """The experiment's name, and its folder under outputs/."""
    seed: int = 0
    model: ModelSettings = field(default_factory=ModelSettings)
    agent: AgentSettings = field(default_factory=AgentSettings)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    problem: ProblemSettings = field(default_factory=ProblemSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    launcher: LauncherSettings = field(default_factory=LauncherSettings)
    tracking: TrackingSettings = field(default_factory=TrackingSettings)
    limits: LimitsSettings = field(default_factory=LimitsSettings)
    sweep: Any = None
    """One grid (axis: values), or a list of grids whose union is the experiment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSettings:
    """What one cell runs with, rebuilt from its identity and runtime."""

    model: ModelSettings
    agent: AgentSettings
    budget: BudgetSettings
    evaluation: EvaluationSettings
    seed: int
    problem_name: str
    problem_sha256: str
    problem_source: ProblemSource
    problem_path: Path | None
    """Folder of the library, None for this checkout's own."""


def settings_of(cell: Cell) -> CellSettings:
    """Rebuild the typed settings of a cell. Raises ValueError that names the field if it is of another schema."""
    problem, where = cell.identity["problem"], cell.runtime["problem"]
    return CellSettings(
        model=join(ModelSettings, cell.identity["model"], cell.runtime["model"]),
        agent=join(AgentSettings, cell.identity["agent"], cell.runtime["agent"]),
        budget=join(BudgetSettings, cell.identity["budget"], cell.runtime["budget"]),
        evaluation=join(EvaluationSettings, cell.identity["evaluation"], cell.runtime["evaluation"]),
        seed=cell.identity["seed"],
        problem_name=problem["name"],
        problem_sha256=problem["sha256"],
        problem_source=ProblemSource(where["source"]),
        problem_path=Path(where["path"]) if where["path"] is not None else None,
    )


def open_library(settings: ProblemSettings) -> Library:
    """The library that the section names. Raises ConfigError without the path it needs, ProblemError if it is empty."""
    return Library(settings.source.value, library_path(settings))


def library_path(settings: ProblemSettings) -> Path | None:
    """The library's folder, None for this checkout's own. Raises ConfigError when it is needed and not given."""
    if settings.path is not None:
        return Path(settings.path).expanduser().resolve()
    if settings.source is ProblemSource.kernelbench:
        raise ConfigError("problem.source=kernelbench needs problem.path=DIR, the folder of a KernelBench checkout")
    return None


def split(settings: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part a settings dataclass into (identity, runtime), plain JSON both, by its fields' `identity` metadata."""
    identity: dict[str, Any] = {}
    runtime: dict[str, Any] = {}
    for item in dataclasses.fields(settings):
        value = getattr(settings, item.name)
        if not item.metadata.get("identity", True):
            runtime[item.name] = to_plain(value)
        elif dataclasses.is_dataclass(value):
            identity[item.name], inner = split(value)
            if inner:
                runtime[item.name] = inner
        else:
            identity[item.name] = to_plain(value)
    return identity, runtime


def join(cls: type[T], identity: dict[str, Any], runtime: dict[str, Any]) -> T:
    """Undo `split`. Raises ValueError that names the field on unknown or ill-typed input."""
    return from_plain(cls, _merged(identity, runtime))


def _merged(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    both = {key: _merged(left[key], right[key]) for key in left.keys() & right.keys()}
    return {**left, **right, **both}
