"""The messages that an agent adds to a conversation, in OpenAI's form."""

from __future__ import annotations

import re

from agents.budget import Budget
from agents.protocols import Message, Reply, ToolCall, ToolResult
from agents.tools.arguments import as_json, parse_arguments
from agents.tools.toolbox import ALWAYS_POSSIBLE

FENCED = re.compile(
    r"^ {0,3}(?P<fence>`{3,})[^`\n]*\n(?P<body>.*?)(?:^ {0,3}(?P<end>(?P=fence)`*)[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
"""A fenced code block of Markdown; `end` is empty for one that is never closed."""


def user_message(text: str) -> Message:
    """Something that the harness says."""
    return {"role": "user", "content": text}


def assistant_message(reply: Reply) -> Message:
    """The reply as the model will see it again; its reasoning is not sent back, except what the provider signed."""
    message: Message = {"role": "assistant", "content": reply.text, **reply.echo}
    if reply.tool_calls:
        message["tool_calls"] = [_call(call) for call in reply.tool_calls]
    return message


def _call(call: ToolCall) -> Message:
    # Providers refuse a history whose arguments do not parse; the tool's answer says what was wrong.
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": as_json(call.arguments)}}


def tool_message(call: ToolCall, result: ToolResult) -> Message:
    """What the tool answers."""
    return {"role": "tool", "tool_call_id": call.id, "content": result.text}


def text_message(reply: Reply, kernel: str | None) -> Message:
    """The reply as a model without tools will see it again: a kernel that came in a call stands as a code block."""
    text = reply.text
    if kernel is not None and kernel not in text:
        text = f"{text}\n\n```python\n{kernel.rstrip()}\n```".lstrip()
    return {"role": "assistant", "content": text, **reply.echo}


def kernel_in(reply: Reply) -> str | None:
    """The kernel of a reply: of its last submission, else of its last call that carries one, else its last code block.

    A block that defines ModelNew goes before one that does not. A block that is still open at the end counts, unless
    the provider cut the reply there.
    """
    called = [(call.name, kernel) for call in reply.tool_calls if (kernel := _kernel_of(call)) is not None]
    submitted = [kernel for name, kernel in called if name == ALWAYS_POSSIBLE]
    blocks = [
        match["body"]
        for match in FENCED.finditer(reply.text)
        if match["body"].strip() and (match["end"] or not reply.truncated)
    ]
    written = [body for body in blocks if "ModelNew" in body] or blocks
    found = submitted or [kernel for _, kernel in called] or written
    return found[-1] if found else None


def _kernel_of(call: ToolCall) -> str | None:
    try:
        kernel = parse_arguments(call.arguments).get("kernel_code")
    except (ValueError, RecursionError):
        return None
    return kernel if isinstance(kernel, str) and kernel else None


def notice_due(budget: Budget) -> bool:
    """Whether the model is to be told before its next turn how little is left."""
    turns, calls = budget.turns_left, budget.tool_calls_left
    return turns == 1 or (budget.spent.turns > 0 and (turns <= budget.settings.warn_turns_remaining or calls == 0))
