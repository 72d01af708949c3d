"""Which headers build a request, and whose error is shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from evaluation.building.compile import Bench, Outcome, Workshop
from evaluation.building.faults import errors_of_author
from evaluation.building.request import BuildRequest
from evaluation.building.sources import LITE, STOCK, Plan, lite_applies, plan
from evaluation.building.vocabulary import VocabularyKeeper


@dataclass(frozen=True, slots=True)
class Built:
    """What came of a request: an object, or diagnostics."""

    tier: str
    library: Path | None
    diagnostics: str
    final: bool
    """As in Outcome."""


class Strategy:
    """Lite headers first, torch's own where they do not suffice.

    They do not start together: the lite headers are done in a twentieth of the time and nearly always suffice.
    What an author reads is what the compiler says about the program under torch's own headers. To say it quickly,
    an error that would be the same under them (`faults`) is answered from the lite compile.
    """

    def __init__(self, workshop: Workshop, cuda_arch: str, folder: Path) -> None:
        """`folder` keeps what is made once for a toolchain."""
        self._workshop, self._cuda_arch = workshop, cuda_arch
        kept = folder / f"names-{workshop.toolchain.fingerprint}.json"
        self._vocabulary = VocabularyKeeper(kept, workshop.preprocessed)

    @contextmanager
    def build(self, request: BuildRequest) -> Iterator[Built]:
        """The result; its object lies in a private folder that is gone afterwards. Raises RequestError."""
        with ExitStack() as stack:
            if lite_applies(request):
                planned = self._plan(request, LITE)
                lite = stack.enter_context(self._workshop.bench(planned))
                built = self._by_lite(lite, planned)
                if built is not None:
                    yield built
                    return
            stock = stack.enter_context(self._workshop.bench(self._plan(request, STOCK)))
            outcome = stock.compile()
            said = "\n".join(outcome.refusals[:1])
            yield Built(STOCK, outcome.library, stock.present(said), outcome.final)

    def _plan(self, request: BuildRequest, tier: str) -> Plan:
        return plan(request, tier, self._workshop.toolchain, self._cuda_arch, self._workshop.scratch)

    def _by_lite(self, bench: Bench, planned: Plan) -> Built | None:
        """The object or the author's errors; None where only torch's own headers can tell."""
        outcome: Outcome = bench.compile()
        if outcome.ok:
            return Built(LITE, outcome.library, "", final=True)
        if not outcome.final:
            return Built(LITE, None, bench.present(outcome.refusals[0]), final=False)
        for refusal in outcome.refusals:
            errors = errors_of_author(refusal, planned.files, self._vocabulary.get())
            if errors is not None:
                return Built(LITE, None, bench.present(errors), final=True)
        return None
