"""What the native candidates of the corpora ask the builder for, read from their text: none of their code runs."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from corpus import Entry

from evaluation.building import Builder, BuildReply, BuildRequest
from evaluation.building.shim import Shim
from evaluation.settings import LimitSettings


class _Asked(Exception):
    pass


def request_of(source: str) -> BuildRequest | None:
    """Of the one call of `load_inline`, whose arguments are literals or names of literals; None without a call.

    Raises ValueError when an argument is anything else.
    """
    tree = ast.parse(source)
    names = {
        statement.targets[0].id: statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "load_inline"]
    if not calls:
        return None
    asked: list[BuildRequest] = []

    def ask(request: BuildRequest) -> BuildReply:
        asked.append(request)
        raise _Asked

    arguments = {str(keyword.arg): _literal(keyword.value, names) for keyword in calls[0].keywords}
    try:
        Shim(ask).load_inline(**arguments)
    except _Asked:
        pass
    return asked[0]


def _literal(node: ast.expr, names: dict[str, ast.expr]) -> Any:
    class Named(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return names.get(node.id, node)

    return ast.literal_eval(Named().visit(node))


def build_all(entries: Sequence[Entry], cache: Path) -> dict[str, BuildReply]:
    """Build what these entries ask for into `cache`, as many at once as the machine carries; replies by id."""
    builder = Builder(cache, LimitSettings())
    asked = {entry.id: request_of(entry.solution.source) for entry in entries if entry.language == "cuda"}
    requests = {name: request for name, request in asked.items() if request is not None}
    if not requests:
        return {}
    with ThreadPoolExecutor(max_workers=len(requests)) as pool:
        return dict(zip(requests, pool.map(builder.build, requests.values()), strict=True))
