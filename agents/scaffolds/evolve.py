"""The agent that breeds kernels: the best so far are shown as parents to the conversations of the next generation.

The idea is that of FunSearch (Romera-Paredes et al., Nature 625, 2024) and AlphaEvolve (Novikov et al., 2025), in one
population: the judge's verdict and speed-up are the fitness, parents are drawn by rank.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agents.protocols import ExitStatus
from agents.scaffolds.text import Candidate, attempt
from agents.session import ConversationOver, Session
from agents.settings import EvolveSettings
from evaluation.verdict import Evaluation, Status


@dataclass(slots=True, kw_only=True)
class Evolve:
    """Generations of children, one reply each. What is drawn depends on the cell's seed and the verdicts alone."""

    session: Session
    settings: EvolveSettings
    seed: int

    def run(self) -> ExitStatus:
        """Work until all generations are born or the budget is spent."""
        return self.session.run(self._work)

    def _work(self) -> ExitStatus:
        population: list[Candidate] = []
        for generation in range(1, self.settings.generations + 1):
            elites = best(population, self.settings.elites)
            for child in range(1, self.settings.children + 1):
                born = self._bear(f"generation-{generation}-child-{child}", elites)
                if born is not None:
                    population.append(born)
        return ExitStatus.FINISHED

    def _bear(self, name: str, elites: Sequence[Candidate]) -> Candidate | None:
        parents = draw(elites, self.settings.parents, random.Random(f"{self.seed} {name}"))
        facts = [{"source": parent.source, "result": parent.result.text} for parent in reversed(parents)]
        more = self.session.prompt.render("offspring.md", parents=facts) if facts else ""
        try:
            return attempt(self.session, self.session.converse(name, turns=1, more=more))
        except ConversationOver:
            return None


def best(population: Iterable[Candidate], count: int) -> list[Candidate]:
    """The fittest, each source once, the best first; of equals the earlier born."""
    distinct: dict[str, Candidate] = {}
    for candidate in population:
        evaluation = candidate.result.evaluation
        if evaluation is not None and evaluation.status is not Status.TAMPERING:
            distinct.setdefault(candidate.source, candidate)
    return sorted(distinct.values(), key=_fitness, reverse=True)[:count]


def _fitness(candidate: Candidate) -> tuple[int, float]:
    evaluation = candidate.result.evaluation
    return (0, 0.0) if evaluation is None else fitness(evaluation)


def fitness(evaluation: Evaluation) -> tuple[int, float]:
    """(how far it got, how well it did there): a correct kernel goes by what is certain of its speed-up.

    While none is correct the ones that run lead, then those that build: there is most to learn from them.
    """
    if evaluation.status.correct:
        return 3, evaluation.timing.speedup_low if evaluation.timing else 0.0
    if evaluation.status in (Status.INCORRECT_VALUES, Status.INCORRECT_STRUCTURE):
        found = evaluation.correctness
        return 2, found.draws_passed / found.draws_total if found else 0.0
    return (0 if evaluation.status is Status.COMPILE_ERROR else 1), 0.0


def draw(ranked: Sequence[Candidate], count: int, generator: random.Random) -> list[Candidate]:
    """Up to `count` of them without repetition, the best first; rank r is drawn with weight 1/r.

    The largest of u^(1/w), u uniform, are a weighted sample: P. S. Efraimidis, P. G. Spirakis, Weighted random
    sampling with a reservoir, Information Processing Letters 97 (2006). It needs only `random()`, whose sequence
    Python promises to keep.
    """
    keys = [generator.random() ** rank for rank in range(1, len(ranked) + 1)]
    chosen = sorted(range(len(ranked)), key=lambda index: -keys[index])[:count]
    return [ranked[index] for index in sorted(chosen)]
