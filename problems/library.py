"""Where problems are found, and how a file becomes a `Problem` without being run."""

from __future__ import annotations

import ast
import difflib
import fnmatch
import hashlib
import re
from pathlib import Path

from problems.problem import STOCHASTIC_RULES, VALUE_SETS, FreeDim, Problem, ProblemError, Stochastic

SOURCES = ("own", "kernelbench")
_FILE_NAME = re.compile(r"(\d+)_\w.*")
_LEVEL_NAME = re.compile(r"level(\d+)")


class Library:
    """The problems of one source.

    `own`: this checkout's. `kernelbench`: those of a KernelBench checkout, or of any folder that holds
    `level<N>/<number>_<name>.py` files; `path` says where. Raises ProblemError when there is nothing to be found.
    """

    def __init__(self, source: str = "own", path: Path | None = None) -> None:
        self.source = source
        self._root = _root(source, path)
        self._paths = _scan(self._root)
        if not self._paths:
            raise ProblemError(f"no files level<N>/<number>_<name>.py in {self._root}")

    def names(self) -> list[str]:
        """All names, `level1/23_virtual_all_reduce_mean`, by level and number."""
        return list(self._paths)

    def select(self, pattern: str) -> list[str]:
        """Names that `pattern` means: a name, a stem or number that only one level has, or a glob such as `level1/*`.

        Raises ProblemError that names the choices when it means none, or more than one without being a glob.
        """
        if pattern in self._paths:
            return [pattern]
        if any(character in pattern for character in "*?["):
            found = [name for name in self._paths if fnmatch.fnmatchcase(name, pattern)]
            if not found:
                raise ProblemError(f"no problem matches {pattern!r}; {self._levels()}")
            return found
        found = [name for name in self._paths if pattern in _short_names(name)]
        if len(found) > 1:
            raise ProblemError(f"{pattern!r} could be any of {', '.join(found)}; give the whole name")
        if not found:
            raise ProblemError(f"no problem {pattern!r}; {self._nearest(pattern)}")
        return found

    def load(self, name: str) -> Problem:
        """Read the one problem that `name` means. Raises ProblemError when there is none or its file is unfit."""
        selected = self.select(name)
        if len(selected) > 1:
            raise ProblemError(f"{name!r} matches {len(selected)} problems; give one name")
        return read_problem(self._paths[selected[0]], origin=self.source)

    def _nearest(self, pattern: str) -> str:
        spellings = {short: name for name in self._paths for short in (*_short_names(name), name)}
        close = difflib.get_close_matches(pattern, spellings, n=3, cutoff=0.5)
        if not close:
            return self._levels()
        return f"the nearest are {', '.join(dict.fromkeys(spellings[spelling] for spelling in close))}"

    def _levels(self) -> str:
        """The choices: every name when they are few, else a range for each level."""
        names = self.names()
        if len(names) <= 12:
            return f"there are {', '.join(names)}"
        groups: dict[str, list[str]] = {}
        for name in names:
            groups.setdefault(name.split("/")[0], []).append(name)
        return "there are " + "; ".join(
            f"{len(group)} from {group[0]} to {group[-1].split('/')[1]}" for group in groups.values()
        )


def read_problem(path: Path, *, origin: str = "file") -> Problem:
    """Read any KernelBench-form file. It is parsed, never executed.

    Raises ProblemError when it cannot be read, is no Python, lacks `Model`, `get_inputs` or `get_init_inputs`, or
    declares FREE_DIMS, VALUE_SETS or STOCHASTIC in another form than `Problem` states.
    """
    try:
        source = path.read_bytes().decode()
        tree = ast.parse(source)
    except OSError as error:
        raise ProblemError(f"cannot read problem file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ProblemError(f"problem file {path} is not UTF-8 text") from error
    except SyntaxError as error:
        raise ProblemError(f"problem file {path} is not valid Python: line {error.lineno}: {error.msg}") from error
    except ValueError as error:
        raise ProblemError(f"problem file {path} is not valid Python: {error}") from error
    _require_form(tree, path)
    level, number = _LEVEL_NAME.fullmatch(path.parent.name), _FILE_NAME.fullmatch(path.stem)
    return Problem(
        name=f"{path.parent.name}/{path.stem}" if level else path.stem,
        source=source,
        source_sha256=hashlib.sha256(source.encode()).hexdigest(),
        origin=origin,
        path=str(path),
        level=int(level[1]) if level else None,
        number=int(number[1]) if number else None,
        free_dims=_free_dims(_literal(tree, "FREE_DIMS", path), path),
        value_sets=_value_sets(_literal(tree, "VALUE_SETS", path), path),
        stochastic=_stochastic(_literal(tree, "STOCHASTIC", path), path),
    )


def _root(source: str, path: Path | None) -> Path:
    if source not in SOURCES:
        raise ProblemError(f"unknown problem source {source!r}; choose one of {', '.join(SOURCES)}")
    if source == "own":
        if path is not None:
            raise ProblemError("problem source 'own' takes no path; for files elsewhere use source 'kernelbench'")
        return Path(__file__).parent
    if path is None:
        raise ProblemError("problem source 'kernelbench' needs a path: the folder of a KernelBench checkout")
    if not path.is_dir():
        raise ProblemError(f"problem path {path} is not a folder; give the folder of a KernelBench checkout")
    inner = path / "KernelBench"
    return inner if inner.is_dir() else path


def _scan(root: Path) -> dict[str, Path]:
    """Name -> path, ordered by level and number."""
    found = []
    for path in root.glob("level*/*.py"):
        level, number = _LEVEL_NAME.fullmatch(path.parent.name), _FILE_NAME.fullmatch(path.stem)
        if level and number:
            found.append((int(level[1]), int(number[1]), f"{path.parent.name}/{path.stem}", path))
    return {name: path for _, _, name, path in sorted(found)}


def _short_names(name: str) -> tuple[str, str, str]:
    """Other spellings of a name: `23_mean`, `23` and `level1/23`."""
    level, stem = name.split("/")
    number = stem.split("_")[0]
    return stem, number, f"{level}/{number}"


def _require_form(tree: ast.Module, path: Path) -> None:
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    missing = [f"class {name}" for name in ("Model",) if name not in classes]
    missing += [f"function {name}()" for name in ("get_inputs", "get_init_inputs") if name not in functions]
    if missing:
        raise ProblemError(f"problem file {path} defines no {', no '.join(missing)}")


def _literal(tree: ast.Module, name: str, path: Path) -> object:
    """The value of a module-level `name = <literal>`; None when there is no such line."""
    value: ast.expr | None = None
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            value = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            value = node.value
    if value is None:
        return None
    try:
        return ast.literal_eval(value)
    except ValueError as error:
        raise ProblemError(f"{name} in {path} must be a literal: it is read without running the file") from error


def _free_dims(declared: object, path: Path) -> dict[str, FreeDim]:
    if declared is None:
        return {}
    if not isinstance(declared, dict) or not all(isinstance(name, str) for name in declared):
        raise ProblemError(f"FREE_DIMS in {path} must be a dict of name: (low, high) or (low, high, step)")
    return {name: _free_dim(name, bounds, path) for name, bounds in declared.items()}


def _free_dim(name: str, bounds: object, path: Path) -> FreeDim:
    where = f"FREE_DIMS[{name!r}] in {path}"
    if not isinstance(bounds, tuple) or len(bounds) not in (2, 3) or not all(type(bound) is int for bound in bounds):
        raise ProblemError(f"{where} must be (low, high) or (low, high, step) in whole numbers")
    dim = FreeDim(low=bounds[0], high=bounds[1], step=bounds[2] if len(bounds) == 3 else 1)
    if not 1 <= dim.low <= dim.high or dim.step < 1 or not dim.sizes():
        raise ProblemError(f"{where} allows no size: no multiple of {dim.step} from {dim.low} to {dim.high}")
    return dim


def _value_sets(declared: object, path: Path) -> tuple[str, ...]:
    if declared is None:
        return ("nominal",)
    choices = ", ".join(VALUE_SETS)
    if not isinstance(declared, (tuple, list)) or not declared:
        raise ProblemError(f"VALUE_SETS in {path} must be a tuple of one or more of {choices}")
    for name in declared:
        if name not in VALUE_SETS:
            raise ProblemError(f"VALUE_SETS in {path} names an unknown value set {name!r}; known are {choices}")
    return tuple(dict.fromkeys(declared))


def _stochastic(declared: object, path: Path) -> Stochastic | None:
    if declared is None:
        return None
    form = '{"rule": "mask", "drop": P} with 0 < P < 1, or {"rule": "moments"}'
    if not isinstance(declared, dict) or declared.get("rule") not in STOCHASTIC_RULES:
        raise ProblemError(f"STOCHASTIC in {path} must be {form}")
    drop = declared.get("drop")
    wanted = {"rule", "drop"} if declared["rule"] == "mask" else {"rule"}
    if set(declared) != wanted or ("drop" in wanted and not (isinstance(drop, float) and 0 < drop < 1)):
        raise ProblemError(f"STOCHASTIC in {path} must be {form}")
    return Stochastic(rule=declared["rule"], drop=drop)
