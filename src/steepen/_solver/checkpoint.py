"""For `solve`: saves the eager loop in a file, and resumes it; the run is then that without interruption.

A file holds the state at the top of an iteration as NumPy arrays (no pickle), the settings that the state
depends on as JSON, and a checksum; checksum and settings must match when it is read. Whether f is the same
function is not checked: that would take an evaluation that the uninterrupted run does not make.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .._core.saved import Saved, Unfit, apart
from .._tools.files import write_whole
from .._tools.fingerprint import fingerprint
from .._tools.version import version
from .eager import Loop

FORMAT = 15
SECONDS = 10.0


class CheckpointError(ValueError):
    """A checkpoint that cannot be resumed: damaged, not a checkpoint, or from a different run.

    Examples
    --------
    >>> issubclass(CheckpointError, ValueError)
    True
    """


class Checkpoint:
    """Keeps the last complete state of a loop, and writes it periodically."""

    def __init__(self, path: str | os.PathLike[str], settings: dict[str, Any]):
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"checkpoint: expected a path, got {path!r}")
        self._path = Path(path)
        if not self._path.parent.is_dir():
            raise CheckpointError(f"checkpoint: the folder of {str(path)!r} does not exist")
        self._settings = {name: fingerprint(value) for name, value in settings.items()}
        self._state: dict[str, dict[str, Any]] | None = None
        self._trace: Callable[[], dict[str, Any]] | None = None
        self._written = time.monotonic()

    def watch(self, loop: Loop) -> None:
        """Record the state at the top of an iteration, unless the budget has cut an evaluation before it.

        With a larger budget, a run resumes from before that point; rows of a batch keep their limits.
        """
        if self._state is not None and loop.counter.cut and loop.backend.size is None:
            return
        self._state = {name: part.state() for name, part in loop.parts().items()}
        self._trace = loop.recorder and partial(loop.recorder.state, loop.solver_state.k)  # it only grows
        if time.monotonic() - self._written > SECONDS:
            self.write()

    def write(self) -> None:
        """Write the recorded state atomically."""
        if self._state is None:
            return
        arrays = apart(self._state | ({} if self._trace is None else {"trace": self._trace()}))
        header: dict[str, Any] = {"steepen": FORMAT, "version": version(), "settings": self._settings}
        arrays["header"] = np.array(json.dumps(header))
        arrays["checksum"] = np.array(_checksum(arrays))
        write_whole(self._path, lambda file: np.savez(file, **cast("dict[str, Any]", arrays)))
        self._written = time.monotonic()

    def resume(self, loop: Loop) -> bool:
        """Restore the saved state of a loop; return False if there is no file yet."""
        if not self._path.exists():
            return False
        try:
            with self._path.open("rb") as file, np.load(file, allow_pickle=False) as members:
                arrays = dict(members)
            header = json.loads(str(arrays["header"]))
            found = header["steepen"]
            if found == FORMAT and str(arrays.pop("checksum")) != _checksum(arrays):
                raise ValueError("checksum mismatch")
        except Exception as error:  # anything that zipfile, NumPy and json may raise on an invalid file
            raise self._error(
                f"is not a steepen checkpoint, or was truncated, damaged or edited ({error!r}); "
                "move it away to start a new run"
            ) from error
        if found != FORMAT:
            by = f"by steepen {header['version']}" if "version" in header else "before steepen 0.1"
            raise self._error(
                f"was written {by}, in format {found!r}; this version reads format {FORMAT}. "
                "Finish the run with the version that wrote it, or move the file away to start a new run"
            )
        del arrays["header"]
        settings = header["settings"]
        for name, here in self._settings.items():
            there = settings.pop(name, None)
            if there != here:
                raise self._error(f"belongs to another run: {name} is {there} there and {here} here")
        if settings:
            raise self._error(f"belongs to another run: it has the settings {sorted(settings)}")
        saved = Saved(arrays, loop.solver_state.point.x)
        try:
            for name, part in loop.parts().items():
                part.load(saved, name)
            if loop.recorder is not None:
                loop.recorder.load(saved, "trace")
        except Unfit as reason:
            raise self._error(str(reason)) from None
        if saved.arrays:
            raise self._error(f"does not fit the run: it has no {', '.join(sorted(saved.arrays))}")
        return True

    def _error(self, what: str) -> CheckpointError:
        return CheckpointError(f"checkpoint: {str(self._path)!r} {what}")


def _checksum(arrays: dict[str, NDArray[Any]]) -> str:
    """Return a checksum of the contents of a file: names, dtypes, shapes, layouts and bytes."""
    text = "\n".join(f"{name}={fingerprint(value)}" for name, value in sorted(arrays.items()))
    return hashlib.sha256(text.encode()).hexdigest()
