"""The command: `steepen functions`, `run`, `compare`, `sweep`, `tune`, `explore`, `reproduce` and more.

Results go to standard output; progress and errors go to standard error, an error as one line. Exit codes: 0,
a tolerance was met or the budget that was asked for is spent; 1, a run failed; 2, wrong usage or input, or a
missing dependency.

Examples
--------
>>> main(["functions", "booth"])
Booth (booth), plate-shaped
n          2
bounds     -10..10
minimum    0
minimiser  (1, 3)
0
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from .._tools.optional import load

__all__ = ["main"]

_OPTIONS = (
    "x0",
    "step",
    "lam",
    "penalty",
    "r",
    "b",
    "grads",
    "evals",
    "iters",
    "seconds",
    "gtol",
    "gtol_rel",
    "x_scale",
    "checkpoint",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (by default those of the process) and return its exit code.

    Examples
    --------
    >>> main(["run", "booth", "--quiet"])
    0
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ‖∇f‖ shows a ? there
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        for module in ("typer", "rich"):
            load(module, "the steepen command", extra="cli")
        from ._commands import app

        code = app(args=words, prog_name="steepen", standalone_mode=False)
        sys.stdout.flush()
        if code == 130:  # typer's word for an interrupt; one during a run is a status of the run
            raise KeyboardInterrupt
    except BrokenPipeError:  # the reader, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return _fail("interrupted", 1)
    except (ValueError, OSError, ImportError) as error:
        return _fail(_by_option(str(error)), 2)
    except Exception as error:
        # typer's own usage errors; their class has moved between its versions
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        return _fail(message(), 2)
    return int(code or 0)


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"steepen: {' '.join(message.split())}\n")
    return code


def _by_option(message: str) -> str:
    """Replace the name of an argument by that of the option that set it."""
    name, _, rest = message.partition(":")
    return f"--{name.replace('_', '-')}:{rest}" if name in _OPTIONS else message
