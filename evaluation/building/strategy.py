"""Which headers build a request, and whose error is shown."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from evaluation.building.compile import Bench, Outcome, Workshop
from evaluation.building.faults import errors_of_author
from evaluation.building.request import BuildRequest
from evaluation.building.slim import slim_applies
from evaluation.building.sources import LITE, SLIM, STOCK, Plan, lite_applies, plan
from evaluation.building.vocabulary import VocabularyKeeper

PLACES_FOR_BOTH = 4
"""Compilers that the machine must carry for slim and stock to start together: each has two units as a rule."""


@dataclass(frozen=True, slots=True)
class Built:
    """What came of a request: an object, or diagnostics."""

    tier: str
    library: Path | None
    diagnostics: str
    final: bool
    """As in Outcome."""


class Strategy:
    """Lite headers first; where they do not suffice torch's own, of which slim brings what the sources name.

    Lite does not start together with others: it is done in a twentieth of the time and nearly always suffices. Slim
    takes a seventh of stock's time. They start together where the machine is large enough, so that what slim cannot
    build waits for nothing; the first object counts, and the other compile is ended. Stock has the last word.
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
            if not (request.allow_lite and slim_applies(request)):
                yield self._by_stock(stock, stock.compile())
                return
            slim = stack.enter_context(self._workshop.bench(self._plan(request, SLIM)))
            together = self._workshop.places.count >= PLACES_FOR_BOTH
            yield self._by_either(slim, stock) if together else self._by_turns(slim, stock)

    def _by_turns(self, slim: Bench, stock: Bench) -> Built:
        outcome = slim.compile()
        return Built(SLIM, outcome.library, "", final=True) if outcome.ok else self._by_stock(stock, stock.compile())

    def _by_either(self, slim: Bench, stock: Bench) -> Built:
        with ThreadPoolExecutor(max_workers=2) as pool:
            try:
                # Slim's compilers are first in the row for places.
                slim_outcome, stock_outcome = pool.submit(slim.compile), pool.submit(stock.compile)
                wait([slim_outcome, stock_outcome], return_when=FIRST_COMPLETED)
                if not _decided(stock_outcome) and slim_outcome.result().ok:
                    return Built(SLIM, slim_outcome.result().library, "", final=True)
                return self._by_stock(stock, stock_outcome.result())
            finally:
                slim.stop()
                stock.stop()

    @staticmethod
    def _by_stock(bench: Bench, outcome: Outcome) -> Built:
        said = "\n".join(outcome.refusals[:1])
        return Built(STOCK, outcome.library, bench.present(said), outcome.final)

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


def _decided(stock: Future[Outcome]) -> bool:
    """Whether stock has ended, and not for want of time or by the machine's fault."""
    return stock.done() and stock.exception() is None and (stock.result().ok or stock.result().final)
