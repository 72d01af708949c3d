"""The agent that refines one kernel by text alone: kernel, verdict, next kernel, until its turns are spent."""

from __future__ import annotations

from dataclasses import dataclass

from agents.protocols import ExitStatus
from agents.scaffolds.text import attempt
from agents.session import Session


@dataclass(slots=True, kw_only=True)
class Iterative:
    """Serial refinement, for models without tools. It ends by the budget: no kernel is known to be the last word."""

    session: Session

    def run(self) -> ExitStatus:
        """Work until stopped."""
        return self.session.run(self._work)

    def _work(self) -> ExitStatus:
        conversation = self.session.converse()
        while True:
            attempt(self.session, conversation)
