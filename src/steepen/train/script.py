"""A script of the user's that says what to train."""

from __future__ import annotations

import inspect
import os
import runpy
from pathlib import Path
from typing import Any

from ._compare import compare

__all__ = ["NEEDED", "read_script"]

NEEDED = ("make_model", "loss", "train", "test")
"""The names that a script must define."""

_KNOWN = set(inspect.signature(compare).parameters) - {"out", "progress", "device"}


def read_script(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Run a Python file, and return those of its names that `compare` takes.

    It must define make_model, loss, train and test; any other argument of `compare` it may.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "task.py")
    ...     _ = path.write_text("budget = 2")
    ...     read_script(path)
    Traceback (most recent call last):
    ValueError: script: '...task.py' lacks make_model, loss, train, test
    """
    if not Path(path).is_file():
        raise ValueError(f"script: there is no file {str(path)!r}")
    names = runpy.run_path(str(path))
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise ValueError(f"script: {str(path)!r} lacks {', '.join(missing)}")
    return {name: value for name, value in names.items() if name in _KNOWN}
