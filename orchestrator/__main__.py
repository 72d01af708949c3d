"""`python -m orchestrator` is `kernelsweep`."""

import sys

from orchestrator.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
