"""The agent that lets a model call tools until it submits or its budget is spent."""

from __future__ import annotations

from dataclasses import dataclass

from agents.budget import Interrupt
from agents.conversation import assistant_message, notice_due, tool_message, user_message
from agents.protocols import ExitStatus, Reply
from agents.session import Conversation, Session


class Submitted(Interrupt):
    """A submission reached a verdict."""


@dataclass(slots=True, kw_only=True)
class ToolLoop:
    """Query, run the calls, answer, repeat."""

    session: Session

    def run(self) -> ExitStatus:
        """Work until submitted or stopped."""
        return self.session.run(self._work)

    def _work(self) -> ExitStatus:
        conversation = self.session.converse()
        while True:
            self._turn(conversation)

    def _turn(self, conversation: Conversation) -> None:
        session, budget = self.session, self.session.budget
        budget.check()
        if notice_due(budget):
            facts = {"turns_left": budget.turns_left, "tool_calls_left": budget.tool_calls_left}
            conversation.messages.append(user_message(session.prompt.render("notice.md", **facts)))
        only_turn = budget.settings.turns == 1
        reply = session.ask(conversation, session.toolbox.schemas, "required" if only_turn else "auto")
        conversation.messages.append(assistant_message(reply))
        if reply.tool_calls:
            conversation.format_errors = 0
            self._run_calls(conversation, reply)
        else:
            session.note_format_error(conversation)
            reminder = session.prompt.render("reminder.md", truncated=reply.truncated)
            conversation.messages.append(user_message(reminder))

    def _run_calls(self, conversation: Conversation, reply: Reply) -> None:
        all_refused = True
        for index, call in enumerate(reply.tool_calls):
            result = self.session.call(index, call)
            conversation.messages.append(tool_message(call, result))
            all_refused &= result.refused
            if result.ends_run:
                raise Submitted(ExitStatus.SUBMITTED)
        if all_refused:
            self.session.check_tools()
