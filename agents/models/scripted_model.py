"""A model whose replies are given in code: for tests and benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from agents.protocols import Message, Reply

Script = Sequence[Reply] | Callable[[int, list[Message]], Reply]


class ScriptedModel:
    """Answers turn n with `script[n]` or `script(n, messages)`, after `delay_s` seconds. IndexError past the end."""

    counts_tokens = True
    knows_cost = True

    def __init__(self, script: Script, *, name: str = "scripted", delay_s: float = 0.0) -> None:
        self.name = name
        self.queries = 0
        """How often it was asked."""
        self._script = script
        self._delay_s = delay_s

    def query(
        self,
        messages: list[Message],
        tools: list[dict[str, Any]],  # noqa: ARG002
        tool_choice: str = "auto",  # noqa: ARG002
        sample: int = 0,  # noqa: ARG002
    ) -> Reply:
        """The reply with the number of the assistant messages so far."""
        self.queries += 1
        time.sleep(self._delay_s)
        turn = sum(message["role"] == "assistant" for message in messages)
        return self._script(turn, messages) if callable(self._script) else self._script[turn]
