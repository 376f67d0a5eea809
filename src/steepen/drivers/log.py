"""A log: every evaluation as a line of JSON, from which any run takes what it would evaluate again.

It answers and notes as the journal of a checkpoint does. That knows where a run was, and holds the answers
since; a log knows all points, whoever asks.
"""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from .._tools.fingerprint import mark
from ..arrays import to_numpy
from ..objective import Objective
from ..questions import Gradient, Hessian, Product, Question, Value, Vector
from ..run import Run
from ..vectors import own
from .caller import Meter
from .recorder import Recorder

NAMES: dict[type, str] = {Gradient: "g", Product: "product", Hessian: "hessian"}


class Known:
    """What is known of f, by the point; points and answers are in the user's variables."""

    def __init__(self, like: Vector, scale: Any):
        self.n = len(like)
        self._like, self._scale = like, scale
        self.found: dict[tuple[str, int | None, bytes], Any] = {}

    def put(self, name: str, row: int | None, at: bytes, value: Any) -> None:
        """Keep f, g, a Hessian or a product of a row of the batch."""
        self.found[name, row, at] = value

    def answer(self, ask: Question, row: int | None, combined: bool) -> tuple[bool, Any]:
        """Return whether a question is answered, and the answer; `combined`: ∇f comes with f."""
        if not self.found:
            return False, None
        at = self.in_x(cast(Any, ask).x).tobytes()
        if isinstance(ask, Value):
            f, g = self.found.get(("f", row, at)), self.found.get(("g", row, at))
            if f is None or (g is None and combined):
                return False, None
            return True, (f, own(self._like, np.asarray(g) * self._scale)) if combined else f
        if isinstance(ask, Product):
            at += self.in_x(ask.v).tobytes()
        found = self.found.get((NAMES[type(ask)], row, at))
        if found is None:
            return False, None
        return True, own(self._like, np.asarray(found) * self.factor(ask))

    def factor(self, ask: Question) -> Any:
        """Return the derivative's scale: of the run's variables over the user's."""
        scale = self._scale
        return np.outer(scale, scale) if isinstance(ask, Hessian) and np.ndim(scale) else scale

    def in_x(self, z: Any) -> Any:
        """Return a vector in the user's variables; complex ones as pairs of numbers."""
        x = to_numpy(z) * self._scale
        if x.dtype.kind == "c":
            return np.stack([x.real, x.imag], axis=-1)
        return x.astype(np.float64) + 0.0  # no negative zeros


def known_of(placed: Objective) -> Known:
    """Return the place for what is known of an objective."""
    like = placed.x if placed.x.ndim == 1 else placed.x[0]
    return Known(like, 1.0 if placed.scale is None else placed.scale)


class Log:
    """A file of lines, or a function that is given each of them as a dict."""

    def __init__(self, target: Any, placed: Objective):
        is_path = _is_path(target)
        if not (is_path or callable(target)):
            raise TypeError(f"log: expected a path or a callable, got {target!r}")
        self.known = known_of(placed)
        self._marks = _marks_of(placed)
        """What tells the data of each row from others, or of a single run, as far as there are data."""
        self._file: Any = None
        self._tell: Callable[[dict[str, Any]], object] | None = None
        if is_path:
            self._open(Path(cast(Any, target)))
        else:
            self._tell = target

    def _open(self, path: Path) -> None:
        """Read what there is, and go on at the end; a last line that was cut off is dropped."""
        if not path.parent.is_dir() or path.is_dir():
            what = "is a folder" if path.is_dir() else "is in a folder that does not exist"
            raise ValueError(f"log: expected a path to write to; {str(path)!r} {what}")
        text = path.read_bytes() if path.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                self._read(json.loads(line))
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(
                    f"log: line {number} of {str(path)!r} is no evaluation of this problem: {error}; "
                    "pass another path"
                ) from error
        self._file = path.open("ab")
        weakref.finalize(self, self._file.close)  # a run that is told may never end
        self._file.truncate(len(whole))

    def _read(self, entry: dict[str, Any]) -> None:
        """Take what a line says; raise if it is no evaluation, or one of another problem."""
        x, row, n = np.array(entry["x"]), entry["row"], self.known.n
        if x.shape not in ((n,), (n, 2)) or x.dtype.kind not in "if":
            raise ValueError(f"expected {n} variables, got x = {entry['x']!r}")
        if row not in self._marks:
            here = "a single run" if None in self._marks else f"{len(self._marks)} rows"
            raise ValueError(f"it is of row {row!r}, and this is {here}")
        if entry.get("data") != self._marks[row]:
            raise ValueError("it was made with other data (args or rows)")
        at, shapes = x.astype(np.float64).tobytes(), {"f": (), "g": (n,), "hessian": (n, n), "product": (n,)}
        for name in shapes.keys() & entry.keys():
            value = np.array(entry[name])
            if value.shape != shapes[name] or value.dtype.kind not in "if":
                raise ValueError(f"expected {name} of shape {shapes[name]}, got {entry[name]!r}")
            along = np.array(entry["v"], np.float64).tobytes() if name == "product" else b""
            self.known.put(name, row, at + along, float(value) if name == "f" else value)

    def write(self, entry: dict[str, Any]) -> None:
        """Write a line, which then outlives the process; or tell it."""
        mark = self._marks[entry["row"]]
        entry = entry if mark is None else entry | {"data": mark}
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


def _marks_of(placed: Objective) -> dict[int | None, str | None]:
    """Return what tells the data of each row, or of a single run: arrays, numbers and texts."""
    args: list[Any] = [
        one for one in placed.args if isinstance(one, np.ndarray | np.generic | float | int | str)
    ]
    if placed.x.ndim == 1:
        return {None: mark(args) if args else None}
    each = [args + [data[row] for data in placed.rows] for row in range(len(placed.x))]
    return {row: mark(data) if data else None for row, data in enumerate(each)}


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
        return self._log.known.answer(ask, self._row, self.combined)

    combined = False
    """Whether ∇f comes with f."""

    def note(self, ask: Question, answer: Any, seconds: float) -> None:
        """Write an answer."""
        asked, known = cast(Any, ask), self._log.known
        x, name = known.in_x(asked.x), NAMES.get(type(ask), "g")
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
                entry["g"] = (to_numpy(g) / known.factor(ask)).tolist()
        elif answer is not None:  # an operator is not kept
            entry[name] = (to_numpy(answer) / known.factor(ask)).tolist()
            if isinstance(ask, Product):
                entry["v"] = known.in_x(asked.v).tolist()
        self._log.write(entry)

    def write(self, seconds: float, x: Any, f: float, g: Any) -> None:
        """Write an evaluation that the run has not asked for; x and g are in the user's variables."""
        entry: dict[str, Any] = {"x": x.tolist(), "row": self._row, "seconds": seconds, "f": f}
        self._log.write(entry if g is None else entry | {"g": g.tolist()})


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
