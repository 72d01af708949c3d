"""`kernelsweep VERB [group=option] [key=value]`: the verbs, their help, and the one place that writes to stdout.

Importing this loads little but the standard library; each verb's module is imported when the verb is called.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from orchestrator.cli.answer import DONE, FAILED, USAGE, Answer, UsageError

_INTERRUPTED = 130

_EPILOG = """\
Overrides are Hydra's: group=option, key=value, and sweeps of both. Quote brackets for the shell.
  experiment=quickstart            a file of conf/experiment/
  model=recorded,grok-4.3          options of a group; budget.turns=3,5 sweeps a key
  'seed=range(0,5)'                five replicates
  'problem=glob(level1/*)'         problems by glob, name (level1/24_row_softmax) or number (24)
  problem.source=kernelbench problem.path=DIR

Exit codes: 0 done; 1 some cells failed on our side; 2 usage or config error, said in one sentence.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verb:
    module: str
    """Where the function of the verb's name is; it takes the parsed arguments and returns an Answer."""
    summary: str
    takes_overrides: bool = True
    takes_out: bool = True


_VERBS = {
    "plan": _Verb(module="cli.plan", summary="list the cells of an experiment, done and pending, and run nothing"),
    "run": _Verb(module="cli.sweep", summary="run the pending cells of an experiment, then table, report and MLflow"),
    "status": _Verb(module="cli.status", summary="say where an experiment stands, also while it runs"),
    "wait": _Verb(module="cli.status", summary="return when an experiment is done (0), or nothing works on it (1)"),
    "retry": _Verb(module="cli.control", summary="have cells run anew: those without a record, or as --where says"),
    "pause": _Verb(module="cli.control", summary="have no new cell of an experiment taken"),
    "resume": _Verb(module="cli.control", summary="lift the pause of an experiment, whoever made it"),
    "cancel": _Verb(module="cli.control", summary="stop an experiment after the turns at work; its cells stay owed"),
    "explain": _Verb(
        module="cli.explain", summary="say what a cell is, where it stands, and what differs from another"
    ),
    "evaluate": _Verb(module="cli.evaluate", summary="judge one candidate file against one problem, with no model"),
    "report": _Verb(module="cli.sweep", summary="write report.html and the tables of an experiment"),
    "sync": _Verb(module="cli.sweep", summary="project an experiment's records into MLflow; twice equals once"),
    "problems": _Verb(module="cli.evaluate", summary="list the problems of the library", takes_out=False),
    "doctor": _Verb(
        module="cli.doctor", summary="check this machine, or with model=NAME a model: what is missing, what to do"
    ),
}

_OVERRIDE_HELP = {"explain": "another cell to compare with; group=option or key=value of the experiment"}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}; see {self.prog} -h\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code. Data goes to stdout, everything else to stderr."""
    given = list(sys.argv[1:] if argv is None else argv)
    stranger = _foreign_package()
    if stranger is not None:
        return _complain(stranger)
    if given[:1] == ["worker"]:  # started by launchers, not by people
        importlib.import_module("orchestrator.sweep.worker").main(given[1:])
        return DONE
    arguments = _parse(given)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        verb = importlib.import_module(f"orchestrator.{_VERBS[arguments.verb].module}")
        answer: Answer = getattr(verb, arguments.verb)(arguments)
    except _usage_errors() as error:
        return _complain(str(error))
    except _our_errors() as error:
        sys.stderr.write(f"kernelsweep: {error}\n")
        return FAILED
    except KeyboardInterrupt:
        sys.stderr.write("kernelsweep: interrupted\n")
        return _INTERRUPTED
    _write(json.dumps(answer.data, indent=1, ensure_ascii=False) if arguments.json else answer.text)
    return answer.code


def _parse(given: list[str]) -> argparse.Namespace:
    parser = build_parser()
    arguments, rest = parser.parse_known_args(given)
    options = [word for word in rest if word.startswith("-")]
    if options or (rest and not _VERBS[arguments.verb].takes_overrides):
        parser.error(f"unrecognized: {' '.join(options or rest)}")
    arguments.overrides = [*arguments.overrides, *rest]  # overrides after an option, which argparse leaves over
    return arguments


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = _Parser(
        prog="kernelsweep",
        description="Sweeps that measure how well language models write GPU kernels.",
        epilog=_EPILOG,
        formatter_class=formatter,
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_Parser)
    for name, verb in _VERBS.items():
        summary = f"{verb.summary[0].upper()}{verb.summary[1:]}."
        own = verbs.add_parser(name, help=verb.summary, description=summary, epilog=_EPILOG, formatter_class=formatter)
        _add_own_arguments(own, name)
        if verb.takes_overrides:
            own.add_argument(
                "overrides", nargs="*", metavar="OVERRIDE", help=_OVERRIDE_HELP.get(name, "group=option or key=value")
            )
        own.add_argument("--json", action="store_true", help="data as JSON on stdout")
        if verb.takes_out:
            out = Path("outputs")
            own.add_argument("--out", type=Path, default=out, metavar="DIR", help="folder of all outputs (outputs)")
    return parser


def _add_own_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    if verb == "plan":
        parser.add_argument("--limit", type=int, metavar="N", help="cells listed (20 as text, all as JSON; 0: all)")
        parser.add_argument("--diff", action="store_true", help="say which cells the store lacks, and what moved")
        parser.add_argument("--verify", type=int, metavar="N", help="compose N sampled cells with Hydra, and compare")
    elif verb == "run":
        parser.add_argument("--again", action="store_true", help="run what another version may have done already")
        words = "launcher=slurm: submit only the jobs that launcher.workers lacks, for the launch that is there"
        parser.add_argument("--top-up", action="store_true", help=words)
    elif verb == "explain":
        parser.add_argument("cell", metavar="CELL", help="any part of a cell's name that no other has")
    elif verb == "evaluate":
        parser.add_argument("problem", metavar="PROBLEM", help="a problem's name, or a KernelBench-form file")
        parser.add_argument("file", metavar="FILE", type=Path, help="Python file that defines ModelNew")
        parser.add_argument("--page", type=Path, metavar="HTML", help="also write the evaluation as a page")
        parser.add_argument("--profile", action="store_true", help="also profile a right candidate on its device")
    elif verb == "problems":
        parser.add_argument("pattern", nargs="?", default="*", metavar="PATTERN", help="name, number or glob (all)")
    elif verb == "doctor":
        parser.add_argument(
            "--prune-cache", metavar="SIZE", help="remove the builds used longest ago, down to 5GB, say"
        )
        parser.add_argument(
            "--fs", type=Path, metavar="DIR", help="check what a shared filesystem does, and nothing else"
        )
    elif verb == "report":
        text = "write trajectories.jsonl instead: the cells' sessions with rewards, for training"
        parser.add_argument("--trajectories", action="store_true", help=text)
        text = "first make the list of finished cells anew from the records"
        parser.add_argument("--rebuild-index", action="store_true", help=text)
    elif verb == "sync":
        parser.add_argument("--rebuild", action="store_true", help="compare everything anew")
    else:
        _add_steering_arguments(parser, verb)


def _add_steering_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    if verb == "status":
        parser.add_argument("--watch", action="store_true", help="look again and again while workers are at work")
    elif verb == "wait":
        text = "seconds without any worker after which nothing works on it (120)"
        parser.add_argument("--patience", type=float, default=120.0, metavar="S", help=text)
    elif verb == "retry":
        text = "finished cells with this value, such as verdict=FLAKY; all given must hold"
        parser.add_argument("--where", action="append", default=[], metavar="FIELD=VALUE", help=text)
    elif verb == "pause":
        parser.add_argument("--reason", default="by a person", metavar="TEXT", help="shown by status")


def _foreign_package() -> str | None:
    """Why this must not start: `agents` and `evaluation` are common names, and another one may be found first."""
    checkout = Path(__file__).resolve().parents[2]
    for name in ("problems", "evaluation", "agents"):
        spec = importlib.util.find_spec(name)
        origin = Path(spec.origin).resolve() if spec is not None and spec.origin is not None else None
        if origin is None or origin.parent.parent != checkout:
            found = origin.parent if origin is not None else "nothing"
            return f"package {name!r} must be {checkout / name}, but Python finds {found}; start from another folder"
    return None


def _usage_errors() -> tuple[type[Exception], ...]:
    from agents.errors import AgentConfigError
    from orchestrator.settings import ConfigError
    from orchestrator.store.store import StoreError
    from problems.problem import ProblemError

    return UsageError, ConfigError, ProblemError, AgentConfigError, StoreError


def _our_errors() -> tuple[type[Exception], ...]:
    from evaluation.errors import EvaluatorError
    from orchestrator.sweep.slurm import SlurmError
    from orchestrator.tracking.sync import TrackingBusyError

    return EvaluatorError, SlurmError, TrackingBusyError


def _complain(sentence: str) -> int:
    sys.stderr.write(f"kernelsweep: {sentence}\n")
    return USAGE


def _write(text: str) -> None:
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:  # `| head`: the reader has what it wanted, and Python must not flush again at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
