"""A log: every evaluation as a line of JSON, from which any run takes what it would evaluate again.

It answers and notes as the journal of a checkpoint does. That knows where a run was, and holds the answers
since; a log knows all points, whoever asks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..arrays import to_numpy
from ..objective import Objective
from ..questions import Gradient, Hessian, Product, Question, Value
from ..run import Run
from ..vectors import own
from .caller import Meter
from .recorder import Recorder

NAMES: dict[type, str] = {Gradient: "g", Product: "product", Hessian: "hessian"}


class Log:
    """A file of lines, or a function that is given each of them as a dict."""

    def __init__(self, target: Any, placed: Objective):
        is_path = _is_path(target)
        if not (is_path or callable(target)):
            raise TypeError(f"log: expected a path or a callable, got {target!r}")
        self.like = placed.x if placed.x.ndim == 1 else placed.x[0]
        self.scale: Any = 1.0 if placed.scale is None else placed.scale
        self.known: dict[tuple[Any, ...], Any] = {}
        self._file: Any = None
        self._tell: Callable[[dict[str, Any]], object] | None = None
        if is_path:
            self._open(Path(cast(Any, target)))
        else:
            self._tell = target

    def _open(self, path: Path) -> None:
        """Read what there is, and go on at the end; a last line that was cut off is dropped."""
        if not path.parent.is_dir():
            raise ValueError(f"log: the folder of {str(path)!r} does not exist")
        text = path.read_bytes() if path.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                self._read(json.loads(line))
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(
                    f"log: line {number} of {str(path)!r} is no evaluation with {len(self.like)} variables "
                    f"({error!r}); pass another path"
                ) from error
        self._file = path.open("ab")
        self._file.truncate(len(whole))

    def _read(self, entry: dict[str, Any]) -> None:
        x, row = np.array(entry["x"]), entry["row"]
        if x.shape != self.like.shape and x.shape != (*self.like.shape, 2):
            raise ValueError(f"x has shape {x.shape}")
        for name in ("f", "g", "hessian"):
            if entry.get(name) is not None:
                self.known[name, row, x.tobytes()] = entry[name]
        if "product" in entry:
            self.known["product", row, x.tobytes() + np.array(entry["v"]).tobytes()] = entry["product"]

    def write(self, entry: dict[str, Any]) -> None:
        """Write a line, which then outlives the process; or tell it."""
        if self._tell is not None:
            self._tell(entry)
            return
        self._file.write(json.dumps(entry).encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def journal(self, row: int | None) -> LogJournal:
        """Return the part of one run."""
        return LogJournal(self, row)


def _is_path(target: object) -> bool:
    return isinstance(target, str | os.PathLike)


class LogJournal:
    """What a log does for one run."""

    def __init__(self, log: Log, row: int | None):
        self._log, self._row = log, row
        self._last: dict[str, bytes] = {}
        """Where ∇f and H were last written: at the same point they are at hand, and not evaluated again."""

    def resume(self, run: Run, meter: Meter, recorder: Recorder | None) -> None:
        """Do nothing: a log knows points, not runs."""

    def iterate(self, run: Run, meter: Meter, recorder: Recorder | None) -> None:
        """Do nothing."""

    def replayed(self, ask: Question) -> tuple[bool, Any]:
        """Return whether the log answers a question, and the answer."""
        known, like, scale = self._log.known, self._log.like, self._log.scale
        if not known:
            return False, None
        at = self._x(cast(Any, ask).x).tobytes()
        if isinstance(ask, Value):
            f, g = known.get(("f", self._row, at)), known.get(("g", self._row, at))
            if f is None or (g is None and self.combined):
                return False, None
            return True, (f, own(like, np.array(g) * scale)) if self.combined else f
        if isinstance(ask, Product):
            at += self._x(ask.v).tobytes()
        found = known.get((NAMES[type(ask)], self._row, at))
        if found is None:
            return False, None
        factor = np.outer(scale, scale) if isinstance(ask, Hessian) and np.ndim(scale) else scale
        return True, own(like, np.array(found) * factor)

    combined = False
    """Whether ∇f comes with f."""

    def note(self, ask: Question, answer: Any, seconds: float) -> None:
        """Write an answer."""
        asked, scale = cast(Any, ask), self._log.scale
        x, name = self._x(asked.x), NAMES.get(type(ask), "g")
        entry: dict[str, Any] = {"x": x.tolist(), "row": self._row, "seconds": seconds}
        if not isinstance(ask, Value | Product):
            if self._last.get(name) == x.tobytes():
                return
            self._last[name] = x.tobytes()
        if isinstance(ask, Value):
            f, g = cast("tuple[Any, Any]", answer) if isinstance(answer, tuple) else (answer, None)
            entry["f"] = f
            if g is not None:
                self._last[name] = x.tobytes()
                entry["g"] = (to_numpy(g) / scale).tolist()
        elif answer is not None:  # an operator is not kept
            factor = np.outer(scale, scale) if isinstance(ask, Hessian) and np.ndim(scale) else scale
            entry[name] = (to_numpy(answer) / factor).tolist()
            if isinstance(ask, Product):
                entry["v"] = self._x(asked.v).tolist()
        self._log.write(entry)

    def _x(self, z: Any) -> Any:
        """Return a vector in the user's variables; complex ones as pairs of numbers."""
        x = to_numpy(z) * self._log.scale
        if x.dtype.kind == "c":
            return np.stack([x.real, x.imag], axis=-1)
        return x.astype(np.float64)


class Both:
    """A checkpoint's journal and a log's: what only the log knows is noted in the checkpoint."""

    def __init__(self, journal: Any, log: LogJournal):
        self._journal, self._log = journal, log
        self.resume, self.iterate = journal.resume, journal.iterate

    def replayed(self, ask: Question) -> tuple[bool, Any]:
        """Return whether one of them answers a question, and the answer."""
        found, kept = self._journal.replayed(ask)
        if not found:
            found, kept = self._log.replayed(ask)
            if found:
                self._journal.note(ask, kept, 0.0)
        return found, kept

    def note(self, ask: Question, answer: Any, seconds: float) -> None:
        """Write an answer to both."""
        self._journal.note(ask, answer, seconds)
        self._log.note(ask, answer, seconds)


def journal_of(checkpoint: Any, log: Log | None, row: int | None, combined: bool) -> Any:
    """Return what answers a run from what was kept, and notes the rest; None if nothing is kept."""
    journal = None if checkpoint is None else checkpoint.journal(row or 0)
    if log is None:
        return journal
    noted = log.journal(row)
    noted.combined = combined
    return noted if journal is None else Both(journal, noted)
