"""The program that ncu runs, `python -m evaluation.profile.target SOCKET FOLDER HARNESS UUID`: a worker of its own.

It loads, constructs and calls the candidate by the worker's own code, so that what is counted is what is judged. Its
sandbox is level 0 (evaluation/sandbox/sandbox.py): ncu talks to it by a socket of the network, which a namespace of its
own would cut. It is one process that does not fork, as ncu's library in it would not survive that.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from evaluation.device.harness import Harness
from evaluation.device.page import Page
from evaluation.sandbox import sandbox
from evaluation.timing import lane
from evaluation.worker import main as worker
from evaluation.worker.device_calls import DeviceCalls


def main() -> None:
    """Serve the judge, which listens at SOCKET, until it hangs up."""
    path, folder, library, uuid = sys.argv[1:]
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(path)
    home = Path(folder)
    os.chdir(home)
    os.environ.update(HOME=folder, TMPDIR=folder)
    harness = Harness.load(Path(library))
    with Page.create() as page:
        # Whoever measures is not disturbed by a context that is made.
        with lane.device_held(uuid):
            sandbox.confine()
            calls = DeviceCalls(harness, page.fileno())
        worker.serve(sock, home, calls)


if __name__ == "__main__":
    main()
