"""The one place that imports LiteLLM, which takes seconds: it happens when the first model is built.

Requests of all threads run on one event loop in a thread of its own, where a deadline really ends them: a time limit
of the HTTP client is one of each read, and a server that sends a byte now and then is never late for that.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import os
import threading
from collections.abc import Mapping
from typing import Any

from agents.errors import ProviderCause, ProviderError
from agents.models.failures import provider_error


class LitellmClient:
    """Sends requests and looks up prices. One for each process: see `client`."""

    def __init__(self) -> None:
        litellm = _imported()
        litellm.telemetry = False
        litellm.suppress_debug_info = True  # else every error prints advice to stdout
        logging.getLogger("LiteLLM").setLevel(logging.WARNING)  # else every request is two lines in a worker's log
        litellm.drop_params = False  # what a provider does not take is an error, never left out in silence
        litellm.disable_aiohttp_transport = True  # httpx's exceptions tell what happened, those of its stand-in less
        self._litellm: Any = litellm
        self._errors = tuple(litellm.LITELLM_EXCEPTION_TYPES)
        self._context_errors = (litellm.exceptions.ContextWindowExceededError,)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="litellm", daemon=True).start()

    def chat(self, arguments: Mapping[str, Any], timeout_s: float) -> Any:
        """One chat completion, in OpenAI's form. Raises ProviderError."""
        return self._send(self._litellm.acompletion, arguments, timeout_s)

    def responses(self, arguments: Mapping[str, Any], timeout_s: float) -> Any:
        """One response of OpenAI's responses protocol. Raises ProviderError."""
        return self._send(self._litellm.aresponses, arguments, timeout_s)

    def listed(self, model: str) -> dict[str, Any]:
        """LiteLLM's entry of a model: dollars per token, limits. Empty when it has none."""
        try:
            key = self._litellm.get_model_info(model)["key"]
        except self._litellm.exceptions.ModelNotMappedError:
            return {}
        return dict(self._litellm.model_cost[key])

    def _send(self, function: Any, arguments: Mapping[str, Any], timeout_s: float) -> Any:
        async def answer() -> Any:
            # LiteLLM's own retries would multiply with ours, and hide a 429 from the gate.
            return await function(**arguments, timeout=timeout_s, max_retries=0, num_retries=0)

        future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(answer(), timeout_s), self._loop)
        try:
            return future.result()
        except TimeoutError as error:
            message = f"no reply within {timeout_s:g} s"
            raise ProviderError(ProviderCause.TIMEOUT, message, maybe_charged=True) from error
        except self._errors as error:
            raise provider_error(error, self._context_errors) from error
        except BaseException:  # a signal: nobody waits for this answer any more
            future.cancel()
            raise


def _imported() -> Any:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else the import asks the network for prices
    collects = gc.isenabled()
    gc.disable()  # a third of the import's time would go into looking for garbage among what it makes to stay
    try:
        import litellm
    finally:
        if collects:
            gc.enable()
    return litellm


_first = threading.Lock()


def client() -> LitellmClient:
    """The client of this process."""
    with _first:
        return _client()


@functools.cache
def _client() -> LitellmClient:
    return LitellmClient()
