"""The agent that asks once: one reply, whose kernel is submitted."""

from __future__ import annotations

from dataclasses import dataclass

from agents.conversation import kernel_in
from agents.protocols import ExitStatus
from agents.scaffolds.text import SUBMIT, judge
from agents.session import ConversationOver, Session


@dataclass(slots=True, kw_only=True)
class SingleTurn:
    """One turn, whatever the budget allows beyond it."""

    session: Session
    offers_submit: bool
    """Whether the model may call submit_kernel in place of writing a code block."""

    def run(self) -> ExitStatus:
        """Ask, submit and stop."""
        return self.session.run(self._work)

    def _work(self) -> ExitStatus:
        session = self.session
        tools = [tool for tool in session.toolbox.schemas if tool["function"]["name"] == SUBMIT]
        reply = session.ask(session.converse(), tools if self.offers_submit else [])
        source = kernel_in(reply)
        if source is None:
            raise ConversationOver(ExitStatus.FORMAT_ERROR)
        judge(session, source, SUBMIT)
        return ExitStatus.SUBMITTED
