"""What all agents share: asking, judging and charging, each through the journal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from agents.budget import Budget, Interrupt
from agents.errors import ProviderCause, ProviderError
from agents.prompts import Prompt
from agents.protocols import ExitStatus, Message, Model, Reply, ToolCall, ToolResult
from agents.requests import MAIN, Request
from agents.tools.toolbox import Toolbox
from agents.trajectory import Trajectory
from agents.window import Window


class ConversationOver(Interrupt):
    """Ends a conversation, and with it the run of an agent that has only one."""


@dataclass(slots=True, kw_only=True)
class Conversation:
    """One exchange with the model; `name` tells it from the others of the cell."""

    messages: list[Message]
    window: Window
    name: str = MAIN
    number: int = 0
    """Counted through the cell."""
    turns: int | None = None
    """Replies that it may have; None is as many as the budget allows."""
    replies: int = 0
    format_errors: int = 0
    """Replies in a row with nothing to act upon."""

    def turns_left(self, budget: Budget) -> int:
        """Replies that it may still have."""
        return budget.turns_left if self.turns is None else min(budget.turns_left, self.turns - self.replies)


@dataclass(slots=True, kw_only=True)
class Session:
    """One cell at work. What its trajectory holds already is handed out again, never redone, and charged alike."""

    model: Model
    toolbox: Toolbox
    budget: Budget
    trajectory: Trajectory
    prompt: Prompt
    opening: list[Message]
    """System message and problem, with which every conversation begins."""
    room_tokens: int | None = None
    """What a request may have; None is unlimited."""
    max_format_errors: int = 3
    conversations: int = field(default=0, init=False)
    """How many were begun."""
    turn: int = field(default=-1, init=False)
    """Number of the last reply, over all conversations."""

    def run(self, work: Callable[[], ExitStatus]) -> ExitStatus:
        """Do `work` until it ends or is stopped.

        EvaluatorError and ProblemError pass, and ProviderError but for its CONTEXT.
        """
        try:
            exit_status = work()
        except Interrupt as stop:
            exit_status = stop.exit_status
        self.trajectory.exit(exit_status)
        return exit_status

    def converse(self, name: str = MAIN, *, turns: int | None = None, more: str = "") -> Conversation:
        """A new conversation of at most `turns` replies; `more` is added to the problem's message."""
        system, task = self.opening
        task = {**task, "content": f"{task['content']}\n\n{more}"} if more else task
        window, number = Window(room_tokens=self.room_tokens), self.conversations
        self.conversations += 1
        return Conversation(name=name, number=number, messages=[system, task], window=window, turns=turns)

    def ask(self, conversation: Conversation, tools: list[dict[str, Any]], tool_choice: str = "auto") -> Reply:
        """The model's next reply, charged; the caller adds it to the conversation.

        Raises BudgetExceeded, and ConversationOver when the provider finds the conversation too long.
        """
        self.budget.check()
        self.turn += 1
        conversation.messages = conversation.window.fit(conversation.messages, tools)
        request = Request(
            conversation=conversation.name, messages=conversation.messages, tools=tools, tool_choice=tool_choice
        )
        try:
            reply = self.trajectory.reply(
                self.turn, request, lambda: self.model.query(request.messages, tools, tool_choice, conversation.number)
            )
        except ProviderError as error:
            if error.cause is ProviderCause.CONTEXT:
                raise ConversationOver(ExitStatus.CONTEXT_SPENT) from error
            raise
        conversation.replies += 1
        conversation.window.learn(request.messages, tools, reply.usage.prompt_tokens)
        self.budget.spent.add_reply(reply)
        return reply

    def call(self, index: int, call: ToolCall) -> ToolResult:
        """The result of one call of the last reply, charged."""
        result = self.trajectory.tool_result(self.turn, index, call, self.toolbox.run)
        self.budget.spent.add_result(result)
        return result

    def check_tools(self) -> None:
        """After every call was refused. Raises BudgetExceeded with the budget that is spent."""
        self.budget.check()
        self.budget.check_tools()

    def note_format_error(self, conversation: Conversation) -> None:
        """Count one. Raises ConversationOver when there were too many in a row."""
        conversation.format_errors += 1
        if conversation.format_errors >= self.max_format_errors:
            raise ConversationOver(ExitStatus.FORMAT_ERROR)
