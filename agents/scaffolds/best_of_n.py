"""The agent that tries several times afresh; the best kernel is chosen by the judge, as in every cell."""

from __future__ import annotations

from dataclasses import dataclass

from agents.protocols import ExitStatus
from agents.scaffolds.text import attempt
from agents.session import ConversationOver, Session
from agents.settings import BestOfNSettings


@dataclass(slots=True, kw_only=True)
class BestOfN:
    """Parallel samples, one after the other; each may be refined for some turns."""

    session: Session
    settings: BestOfNSettings

    def run(self) -> ExitStatus:
        """Work until all tries are made or the budget is spent."""
        return self.session.run(self._work)

    def _work(self) -> ExitStatus:
        for number in range(1, self.settings.tries + 1):
            turns = self.settings.turns_per_try
            conversation = self.session.converse(f"try-{number}", turns=turns)
            try:
                for _ in range(turns):
                    attempt(self.session, conversation)
            except ConversationOver:
                continue
        return ExitStatus.FINISHED
