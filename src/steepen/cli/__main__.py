"""`python -m steepen.cli` is the command `steepen`."""

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
