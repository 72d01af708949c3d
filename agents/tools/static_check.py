"""static_check: what is told about a source without building it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from agents.protocols import ToolResult
from agents.tools.kernels import KERNEL_PARAMETERS, Kernels
from agents.tools.result_text import kernel_id_line
from evaluation.tags import static_tags
from evaluation.verdict import Solution

NOTES = {
    "calls-reference-op": "an operator of torch does part of the work",
    "exits-process": "it can end its process, which counts as a failure of the kernel if it happens",
    "inspects-process": "it looks into its own process",
    "large-literal": "it holds a large table or payload",
    "no-custom-kernel": "no kernel of its own was found (load_inline, load, triton.jit and the like)",
    "opens-network": "it imports or calls what opens network connections",
    "patches-torch": "it assigns to attributes of torch",
    "reads-environment": "it reads environment variables",
    "reads-files": "it reads files",
    "runs-text": "it runs text as code",
    "seeds-random": "it seeds torch's random numbers",
    "sets-torch-flags": "it sets flags of torch's backends",
    "spawns-process": "it can start processes",
    "threads": "it starts threads",
    "try-except-fallback": "an exception leads to other work instead of an error",
}
"""Tag of `evaluation/tags.py` -> what it says. `syntax-error` is an error here, not a note."""
_ADVICE = "Warnings are noted in the record for its reader; none of them changes a verdict."


class StaticCheck:
    """The evaluator's notes about a source, and what would keep it from being loaded."""

    name = "static_check"
    description = (
        "Read a kernel's source without building or running it: syntax, whether ModelNew is defined, and what the "
        "evaluator notes about the source. The notes are advice and change no verdict. Takes no time on the device."
    )
    parameters = KERNEL_PARAMETERS

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels

    def call(self, arguments: dict[str, Any]) -> ToolResult:
        """See the class."""
        source, sha256 = self._kernels.kept(arguments)
        text, ok = static_text(source, self._kernels.language)
        return ToolResult(text=f"{text}\n{kernel_id_line(sha256)}", ok=ok, solution_sha256=sha256)


def static_text(source: str, language: str) -> tuple[str, bool]:
    """Result of static_check, and whether the source can be loaded as far as reading it tells."""
    errors = list(_errors(source))
    tags = [tag for tag in static_tags(source, language) if tag in NOTES]
    warnings = [f"  WARNING: {tag}: {NOTES[tag]}" for tag in tags]
    if errors:
        lines = ["static_check FAILED: strict violations found.", *(f"  ERROR: {error}" for error in errors)]
        lines += ["Advisory warnings:", *warnings, _ADVICE] if warnings else []
    elif warnings:
        lines = ["static_check PASSED (with warnings):", *warnings, _ADVICE]
    else:
        lines = ["static_check PASSED: no violations or warnings detected."]
    return "\n".join(lines), not errors


def _errors(source: str) -> Iterator[str]:
    """What is certain to keep the module from being judged."""
    try:
        tree = ast.parse(source)
        # Finds what a tree alone does not show, such as `return` outside of a function. Nothing is run.
        compile(source, "kernel_code", "exec", dont_inherit=True)
    except SyntaxError as error:
        where = "" if error.lineno is None else f" in line {error.lineno}"
        yield f"syntax error{where}: {error.msg}"
        return
    except (ValueError, RecursionError, MemoryError) as error:
        yield f"the source cannot be read as Python ({type(error).__name__})"
        return
    name = Solution(source="").entry_point
    if name not in _bound(tree) and not _binds_unseen(tree):
        yield f"the module does not define a class {name}"


def _bound(tree: ast.AST) -> set[str]:
    """Names that the module's own statements bind, whichever branch they stand in."""
    found: set[str] = set()
    for node in _outside_of_functions(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found.update(alias.asname or alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def _outside_of_functions(tree: ast.AST) -> Iterator[ast.AST]:
    waiting = list(ast.iter_child_nodes(tree))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))


def _binds_unseen(tree: ast.AST) -> bool:
    """Whether names may be bound in ways that reading does not show."""
    for node in ast.walk(tree):
        if isinstance(node, ast.alias) and node.name == "*":
            return True
        if isinstance(node, ast.Name) and node.id in ("exec", "eval", "globals", "setattr", "vars", "locals"):
            return True
        if isinstance(node, ast.Global) or (isinstance(node, ast.Attribute) and node.attr == "modules"):
            return True
    return False
