"""What went wrong with a request, told by what was received: never by the words of a message.

LiteLLM's classes do not tell it alone (a refused connection arrives as a 500, a provider's 529 as one too), so the
chain of exceptions below is walked to what the HTTP client saw: a status, a broken connection, or a body that does
not parse. docs/models.md has the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from agents.errors import ProviderCause, ProviderError

_CAUSE_OF_STATUS = {
    401: ProviderCause.AUTH,
    402: ProviderCause.AUTH,
    403: ProviderCause.AUTH,
    404: ProviderCause.NOT_FOUND,
    408: ProviderCause.TIMEOUT,
    409: ProviderCause.OUTAGE,
    413: ProviderCause.CONTEXT,
    425: ProviderCause.OUTAGE,
    429: ProviderCause.RATE_LIMIT,
}
_CAUSE_OF_CODE = {
    "context_length_exceeded": ProviderCause.CONTEXT,
    "insufficient_quota": ProviderCause.AUTH,
    "model_not_found": ProviderCause.NOT_FOUND,
}
"""OpenAI's codes in the body; they say more than the status, and others use the same."""
_GAVE_UP_WAITING = (408, 504, 524)
"""Statuses of a gateway that did not see what became of the request."""
_TEXT_CHARS = 500


def provider_error(error: BaseException, context_errors: tuple[type[BaseException], ...]) -> ProviderError:
    """The failure of one request. `context_errors` are the classes that LiteLLM gives an overflow of the context."""
    import httpx  # slow, and loaded by LiteLLM already

    chain = list(_chain(error))
    text = " ".join(str(error).split())[:_TEXT_CHARS] or type(error).__name__
    for item in chain:
        if isinstance(item, httpx.HTTPStatusError):
            overflow = any(isinstance(one, context_errors) for one in chain)
            return _refused(text, item.response, overflow=overflow)
        if isinstance(item, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)):
            return ProviderError(ProviderCause.OUTAGE, text)
        if isinstance(item, (httpx.TimeoutException, TimeoutError)):
            return ProviderError(ProviderCause.TIMEOUT, text, maybe_charged=True)
        if isinstance(item, (httpx.TransportError, json.JSONDecodeError)):
            return ProviderError(ProviderCause.OUTAGE, text, maybe_charged=True)
    # Nothing of HTTP is in it: LiteLLM refused to send the request, or could not read the reply.
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and 400 <= status < 500:
        return ProviderError(_CAUSE_OF_STATUS.get(status, ProviderCause.BAD_REQUEST), text)
    return ProviderError(ProviderCause.OUTAGE, text, maybe_charged=True)


def _refused(text: str, response: Any, *, overflow: bool) -> ProviderError:
    status: int = response.status_code
    cause = _CAUSE_OF_CODE.get(_code(response)) if status < 500 else None
    if cause is None and overflow and status < 500:
        cause = ProviderCause.CONTEXT
    if cause is None:
        usual = ProviderCause.OUTAGE if status >= 500 else ProviderCause.BAD_REQUEST
        cause = _CAUSE_OF_STATUS.get(status, usual)
    return ProviderError(
        cause,
        text,
        status=status,
        retry_after_s=retry_after_s(response.headers.get("retry-after")),
        maybe_charged=status in _GAVE_UP_WAITING,
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The exception and those that it came from, itself first."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _code(response: Any) -> str:
    """The error's code in the body; nothing when it has another form."""
    try:
        error = json.loads(response.text)["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, str) else ""


def retry_after_s(value: str | None) -> float | None:
    """A Retry-After header in seconds from now; it may be a number or a date. None when it is neither."""
    if value is None:
        return None
    if re.fullmatch(r"\d+(\.\d+)?", value):
        return float(value)
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
