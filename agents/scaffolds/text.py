"""The shared part of the agents whose models answer in text: one kernel a reply, and what came of it as the answer."""

from __future__ import annotations

import json
from dataclasses import dataclass

from agents.conversation import kernel_in, text_message, user_message
from agents.protocols import ToolCall, ToolResult
from agents.session import Conversation, Session

EVALUATE, SUBMIT = "evaluate_kernel", "submit_kernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A kernel and what the judge found."""

    source: str
    result: ToolResult


def judge(session: Session, source: str, tool: str, index: int = 0) -> ToolResult:
    """Have a kernel judged as a call of the last reply, so that it is journaled and charged as any."""
    arguments = json.dumps({"kernel_code": source})
    return session.call(index, ToolCall(id=f"harness_{session.turn}_{index}", name=tool, arguments=arguments))


def attempt(session: Session, conversation: Conversation) -> Candidate | None:
    """One reply and the verdict on its kernel, which the model is told; None when the reply had no kernel.

    Raises BudgetExceeded when nothing more may be asked or judged, ConversationOver after too many replies without.
    """
    session.budget.check_tools()
    reply = session.ask(conversation, tools=[])
    source = kernel_in(reply)
    conversation.messages.append(text_message(reply, source))
    if source is None:
        session.note_format_error(conversation)
        reminder = session.prompt.render("reminder.md", truncated=reply.truncated)
        conversation.messages.append(user_message(reminder))
        return None
    conversation.format_errors = 0
    result = judge(session, source, EVALUATE)
    if result.refused:
        # The reply that used up the budget has been paid for, and a submission is judged in any case.
        judge(session, source, SUBMIT, index=1)
        session.check_tools()
    facts = {"correct": result.ok, "turns_left": conversation.turns_left(session.budget)}
    conversation.messages.append(user_message(session.prompt.render("feedback.md", result=result.text, **facts)))
    return Candidate(source=source, result=result)
