"""`python -m steepen`: the command."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
