"""The command `steepen`, run as a console script: `explore`, `sweep` and `reproduce`.

Results go to standard output, progress and one-line errors to standard error. For one run use `minimize`.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from .._tools.optional import load

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (by default `sys.argv`) and return its exit code.

    Examples
    --------
    >>> main(["sweep", "nowhere.toml"])
    2
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot encode ∇ shows a ?
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        for module in ("typer", "rich"):
            load(module, "the steepen command", extra="paper")
        from ._commands import app

        code = app(args=words, prog_name="steepen", standalone_mode=False)
        if isinstance(sys.stdout, io.TextIOBase):  # not None, as where it is closed
            sys.stdout.flush()
        if code == 130:  # typer's code for an interrupt
            raise KeyboardInterrupt
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        kept = "; run the same command again to resume" if words[:1] == ["sweep"] else ""
        return _fail(f"interrupted{kept}", 1)
    except (ValueError, OSError, ImportError) as error:
        return _fail(str(error), 2)
    except Exception as error:
        # typer's own usage errors; their class has moved between its versions
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        return _fail(message(), 2)
    return int(code or 0)


def _fail(message: str, code: int) -> int:
    if isinstance(sys.stderr, io.TextIOBase):
        sys.stderr.write(f"steepen: {' '.join(message.split())}\n")
    return code
