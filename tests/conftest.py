"""Each worker of pytest-xdist leads a session of its own, as the judge's process does.

Judges of these tests live in a pytest worker. While they measure, their session's scheduling group goes ahead of all
others, and the tests of the other workers are none of it.
"""

from __future__ import annotations

import os


def pytest_configure() -> None:
    if os.environ.get("PYTEST_XDIST_WORKER") and os.getsid(0) != os.getpid():
        os.setsid()
