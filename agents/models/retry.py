"""Asking again when a provider is busy or away."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from typing import TypeVar

from agents.errors import ProviderError

T = TypeVar("T")

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 120.0


def with_retries(ask: Callable[[int], T], max_attempts: int, sleep: Callable[[float], None] = time.sleep) -> T:
    """Return `ask(n)`, n = 1, 2, ... up to `max_attempts`; between attempts wait as the provider asked, or with jitter.

    Raises the last ProviderError; at once if its cause will not pass, or the provider asks for more than two minutes.
    """
    for attempt in itertools.count(1):
        try:
            return ask(attempt)
        except ProviderError as error:
            asked_s = error.retry_after_s or 0.0
            if not error.cause.passing or attempt >= max_attempts or asked_s > LONGEST_WAIT_S:
                raise
            sleep(asked_s or random.uniform(0.0, min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (attempt - 1))))
    raise AssertionError("unreachable: the last attempt returns or raises")
