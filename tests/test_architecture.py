"""The rules of docs/architecture.md, held over the syntax trees of the four packages, and over conf/."""

import ast
import graphlib
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

import pytest

from orchestrator.config.compose import composer, group_options
from orchestrator.config.experiment import CONF, load_experiment
from orchestrator.plan import make_plan
from orchestrator.settings import RootSettings

CHECKOUT = CONF.parent
PACKAGES = ("problems", "evaluation", "agents", "orchestrator")
"""Each may import itself and those before it."""
PROBLEM_FILES = "problems/level*"
HOMES = {
    "torch": ("evaluation/*", "problems/inputs.py", "problems/values.py", f"{PROBLEM_FILES}/*"),
    "numpy": ("evaluation/*", "problems/inputs.py", "problems/values.py", f"{PROBLEM_FILES}/*"),
    "hydra": ("orchestrator/config/*",),
    "omegaconf": ("orchestrator/config/*",),
    "mlflow": ("orchestrator/tracking/*",),
    "submitit": ("orchestrator/sweep/launcher*.py",),
    "litellm": ("agents/models/litellm_client.py",),
}
"""Library -> the only files that may import it."""
MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 60
MAX_ARGUMENTS = 6

FILES = {
    path.relative_to(CHECKOUT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for package in PACKAGES
    for path in sorted((CHECKOUT / package).rglob("*.py"))
}
GROUPS = ("model", "agent", "budget", "problem", "evaluation", "launcher", "tracking", "limits", "experiment")


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(module, line) of every import, inside functions too, and of import_module and __import__ with a literal."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name in ("import_module", "__import__", "find_spec"):
                yield str(node.args[0].value), node.lineno


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def module_of(name: str) -> str | None:
    """The file of ours that an imported name is or is in."""
    for candidate in (name, name.rpartition(".")[0]):
        path = candidate.replace(".", "/")
        for file in (f"{path}.py", f"{path}/__init__.py"):
            if file in FILES:
                return file
    return None


def test_the_packages_are_found() -> None:
    assert {name.split("/")[0] for name in FILES} == set(PACKAGES)


def test_imports_point_one_way() -> None:
    wrong = []
    for file, tree in FILES.items():
        package = PACKAGES.index(file.split("/")[0])
        for name, line in imports(tree):
            root = name.split(".")[0]
            if root == "tests" or (root in PACKAGES and PACKAGES.index(root) > package):
                wrong.append(f"{file}:{line} imports {name}")
    assert wrong == []


def test_each_library_has_one_home() -> None:
    wrong = [
        f"{file}:{line} imports {name}"
        for file, tree in FILES.items()
        for name, line in imports(tree)
        if (homes := HOMES.get(name.split(".")[0])) is not None
        if not any(fnmatchcase(file, home) for home in homes)
    ]
    assert wrong == []


def test_no_module_imports_itself_by_a_detour() -> None:
    graph = {
        file: {found for name, _ in imports(tree) if (found := module_of(name)) is not None and found != file}
        for file, tree in FILES.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"cycle: {' <- '.join(error.args[1])}")


def test_files_are_short() -> None:
    lengths = {file: (CHECKOUT / file).read_text(encoding="utf-8").count("\n") for file in FILES}
    assert {file: lines for file, lines in lengths.items() if lines > MAX_FILE_LINES} == {}


def test_functions_are_short_and_take_few_arguments() -> None:
    wrong = []
    for file, tree in FILES.items():
        for function in functions(tree):
            where = f"{file}:{function.lineno} {function.name}"
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            arguments = function.args
            names = [item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
            count = len([name for name in names if name not in ("self", "cls")])
            if lines > MAX_FUNCTION_LINES:
                wrong.append(f"{where} has {lines} lines")
            if count > MAX_ARGUMENTS:
                wrong.append(f"{where} takes {count} arguments")
    assert wrong == []


def test_nothing_prints() -> None:
    wrong = [
        f"{file}:{node.lineno}"
        for file, tree in FILES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert wrong == []


def test_tests_are_no_packages() -> None:
    """With `agents` and `evaluation` as folders below tests/, an __init__.py would hide the packages of those names."""
    assert list((CHECKOUT / "tests").rglob("__init__.py")) == []


def test_the_quiet_tests_are_where_make_looks_for_them() -> None:
    (listed,) = re.findall(r"^QUIET := (.*)$", (CHECKOUT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    marked = [path for path in (CHECKOUT / "tests").rglob("test_*.py") if "mark." + "quiet" in path.read_text()]
    assert sorted(listed.split()) == sorted(path.relative_to(CHECKOUT).as_posix() for path in marked)


def test_the_config_has_the_groups_it_should() -> None:
    assert sorted(path.name for path in CONF.iterdir() if path.is_dir()) == sorted(GROUPS)


def test_every_option_composes() -> None:
    with composer(CONF, {}) as composed:
        for group in GROUPS:
            assert composed.options(group), f"conf/{group} has no option"
            if group != "experiment":
                section = type(getattr(RootSettings(), group))
                for option in composed.options(group):
                    settings = composed.settings(group, option, {}, section)
                    assert getattr(settings, "name", option) == option, f"conf/{group}/{option}.yaml has another name"


@pytest.mark.parametrize("experiment", group_options(CONF, "experiment"))
def test_every_experiment_composes(experiment: str) -> None:
    found = load_experiment([f"experiment={experiment}"])
    assert found.name == experiment
    assert make_plan(found).cells
