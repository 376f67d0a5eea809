"""A checkpoint: the fields of a run at an iterate, and every answer since. No evaluation is made twice.

The file is an SQLite database. Each answer is written as it comes, so that a run can be killed anywhere, in
the middle of a difference, too. When the run is resumed, its questions are answered from the file as long as
they are the same to the bit. On another CPU they may not be; then the rest is evaluated anew, and counted.
The state of the run is written at an iterate, as long as that takes a small part of the time; with an f that
takes a second, at every one. There is no pickle: arrays are in NumPy's own format, all else is JSON.

Whether f is the same function is not checked: that would take an evaluation.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sqlite3
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from .._tools.fingerprint import fingerprint
from .._tools.version import version
from ..arrays import is_numpy, to_numpy
from ..questions import Iterate, Point, Product, Question, Value, Values, Vector
from ..run import Run
from ..space import Everywhere
from ..vectors import own
from .caller import Caller, Meter
from .recorder import ENTRY, Recorder

FORMAT = 16
PART = 0.05
"""The state of a run is written so rarely that this takes no more than this part of the time."""

TABLES = """
    CREATE TABLE header (name TEXT PRIMARY KEY, text TEXT);
    CREATE TABLE state (run INTEGER, name TEXT, content BLOB, PRIMARY KEY (run, name));
    CREATE TABLE trace (run INTEGER, k INTEGER, entry BLOB, x BLOB, PRIMARY KEY (run, k));
    CREATE TABLE answers (run INTEGER, number INTEGER, question BLOB, answer BLOB, seconds REAL,
                          PRIMARY KEY (run, number));
"""

PARTS = ("problem", "method", "step", "switch", "tolerances", "start", "watched", "checked")
"""The fields of a run that are not its state."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be resumed: damaged, not a checkpoint, or from a different run.

    Examples
    --------
    >>> issubclass(CheckpointError, ValueError)
    True
    """


class Unfit(Exception):
    """What is wrong with a file, in words that follow its name."""


class Checkpoint:
    """The file of a run, or of the runs of a batch."""

    def __init__(self, path: str | os.PathLike[str], settings: dict[str, Any]):
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"checkpoint: expected a path, got {path!r}")
        self._path = Path(path)
        if not self._path.parent.is_dir():
            raise CheckpointError(f"checkpoint: the folder of {str(path)!r} does not exist")
        self._settings = {name: fingerprint(value) for name, value in settings.items()}
        self._began, self.spent = time.monotonic(), 0.0
        exists = self._path.exists() and self._path.stat().st_size > 0
        with self._explained():
            if exists:
                self._check_kind()
            self.database = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            self.database.execute("PRAGMA synchronous = OFF")  # what is written outlives the process
            self.database.execute("PRAGMA journal_mode = TRUNCATE")
            if exists:
                self._check_settings()
            else:
                self._create()

    def has_time(self, now: float) -> bool:
        """Return whether writing states has taken no more than its part of the time so far."""
        return self.spent <= PART * (now - self._began)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Write what follows in one transaction; what is in the file afterwards is all of it, or none."""
        if self.database.in_transaction:
            yield
            return
        self.database.execute("BEGIN")
        try:
            yield
        finally:
            self.database.execute("COMMIT")

    def journal(self, number: int) -> Journal:
        """Return the part of one run."""
        return Journal(self, number)

    def close(self) -> None:
        """Close the file."""
        with suppress(sqlite3.Error):  # no second file is left beside it
            self.database.execute("PRAGMA journal_mode = DELETE")
        self.database.close()

    def error(self, what: str) -> CheckpointError:
        """Return an error about the file."""
        return CheckpointError(f"checkpoint: {str(self._path)!r} {what}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say of an unreadable file that it is one."""
        try:
            yield
        except (OSError, sqlite3.DatabaseError, Unfit, KeyError, TypeError, ValueError) as error:
            if isinstance(error, CheckpointError):
                raise
            raise self.error(
                f"is not a steepen checkpoint, or was truncated, damaged or edited ({error!r}); "
                "move it away to start a new run"
            ) from error

    def explained(self) -> Any:
        """Return a context that says of an unreadable file that it is one."""
        return self._explained()

    def _create(self) -> None:
        header = {"steepen": FORMAT, "version": version(), "settings": self._settings}
        self.database.executescript(f"BEGIN; {TABLES} COMMIT;")
        rows = [(name, json.dumps(value)) for name, value in header.items()]
        self.database.executemany("INSERT INTO header VALUES (?, ?)", rows)

    def _check_kind(self) -> None:
        with self._path.open("rb") as file:
            if file.read(16) != b"SQLite format 3\x00":
                raise Unfit("no SQLite database")

    def _check_settings(self) -> None:
        header = {name: json.loads(text) for name, text in self.database.execute("SELECT * FROM header")}
        if header["steepen"] != FORMAT:
            raise self.error(
                f"was written by steepen {header['version']}, in format {header['steepen']!r}; this version "
                f"reads format {FORMAT}. Finish the run with the version that wrote it, or move the file "
                "away to start a new run"
            )
        there = header["settings"]
        for name, here in self._settings.items():
            if (found := there.pop(name, None)) != here:
                raise self.error(f"belongs to another run: {name} is {found} there and {here} here")
        if there:
            raise self.error(f"belongs to another run: it has the settings {sorted(there)}")


class Journal:
    """What a checkpoint holds of one run: its state at an iterate, and the answers since."""

    def __init__(self, checkpoint: Checkpoint, number: int):
        self._checkpoint, self._database, self._number = checkpoint, checkpoint.database, number
        self._count = 0
        """How many answers since the state."""
        self._replay: deque[tuple[bytes, Any]] = deque()
        self._traced = 0
        """How many entries of the trace are in the file."""

    # --- going on --------------------------------------------------------------------------------------

    def resume(self, run: Run, meter: Meter, recorder: Recorder | None) -> None:
        """Put a new run where the file left it, and get ready to answer its questions again."""
        with self._checkpoint.explained():
            state = {
                name: opened(content)
                for name, content in self._select("SELECT name, content FROM state WHERE run = ?")
            }
            if state:
                restore(run, meter, json.loads(state.pop("tree")), state)
            seconds = meter.earlier
            for _, question, answer, at in self._select(
                "SELECT number, question, answer, seconds FROM answers WHERE run = ? ORDER BY number"
            ):
                self._replay.append((question, unpacked_answer(opened(answer), run.start)))
                seconds = at
            meter.earlier = seconds
            if recorder is not None:
                self._load_trace(recorder, run)

    def _load_trace(self, recorder: Recorder, run: Run) -> None:
        rows = self._select("SELECT entry, x FROM trace WHERE run = ? ORDER BY k")
        if rows:
            entries = b"".join(opened(entry) for entry, _ in rows)
            points = [own(run.start, read_array(opened(x))) for _, x in rows if x is not None]
            recorder.load(np.frombuffer(entries, ENTRY), points)
            self._traced = len(rows) - 1  # the last one has no step yet

    def _select(self, query: str) -> list[Any]:
        return self._database.execute(query, (self._number,)).fetchall()

    # --- answers ---------------------------------------------------------------------------------------

    def replayed(self, ask: Question) -> tuple[bool, Any]:
        """Return whether the file answers a question, and the answer."""
        if not self._replay:
            return False, None
        question, answer = self._replay[0]
        if question != _digest(ask):
            self._forget()
            return False, None
        self._replay.popleft()
        self._count += 1
        return True, answer

    def _forget(self) -> None:
        """Drop answers to questions that this machine does not ask."""
        self._replay.clear()
        self._database.execute(
            "DELETE FROM answers WHERE run = ? AND number >= ?", (self._number, self._count)
        )

    def note(self, ask: Question, answer: Any, seconds: float) -> None:
        """Write an answer."""
        content = sealed(packed_answer(answer))
        row = self._number, self._count, _digest(ask), content, seconds
        self._database.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?)", row)
        self._count += 1

    # --- the state -------------------------------------------------------------------------------------

    def iterate(self, run: Run, meter: Meter, recorder: Recorder | None) -> None:
        """Write the state of a run at an iterate, unless it was just written or is being replayed."""
        began = time.monotonic()
        if self._replay or not self._checkpoint.has_time(began):
            return
        arrays: list[Any] = []
        tree = json.dumps(state_of(run, meter, arrays))
        contents = {"tree": tree.encode()} | {f"array {i}": array_bytes(a) for i, a in enumerate(arrays)}
        database, number = self._database, self._number
        with self._checkpoint.together():
            database.execute("DELETE FROM state WHERE run = ?", (number,))
            database.execute("DELETE FROM answers WHERE run = ?", (number,))
            rows = [(number, name, sealed(content)) for name, content in contents.items()]
            database.executemany("INSERT INTO state VALUES (?, ?, ?)", rows)
            if recorder is not None:
                self._write_trace(recorder)
        self._count = 0
        self._checkpoint.spent += time.monotonic() - began

    def _write_trace(self, recorder: Recorder) -> None:
        """Write the entries that are new, and the last one again: it has a step now."""
        first = self._traced
        entries, points = recorder.since(first)
        rows = [
            (
                self._number,
                first + i,
                sealed(entry.tobytes()),
                sealed(array_bytes(points[i])) if points else None,
            )
            for i, entry in enumerate(entries)
        ]
        self._database.executemany("INSERT OR REPLACE INTO trace VALUES (?, ?, ?, ?)", rows)
        self._traced = first + len(rows) - 1


def saving(
    answers: Mapping[type, Callable[[Any], Any]],
    journal: Journal,
    run: Run,
    caller: Caller,
    recorder: Recorder | None,
) -> dict[type, Callable[[Any], Any]]:
    """Return what answers the questions of a run from its journal, and notes the answers that are new."""

    def evaluated(ask: Any) -> Any:
        found, kept = journal.replayed(ask)
        if found:
            caller.charge(ask)
            return caller.recall(ask, kept)
        reply = answers[type(ask)](ask)
        journal.note(ask, caller.to_keep(ask, reply), caller.meter.seconds)
        return reply

    def iterate(ask: Iterate) -> Any:
        status = answers[Iterate](ask)
        if status is None:
            journal.iterate(run, caller.meter, recorder)
        return status

    saved: dict[type, Callable[[Any], Any]] = dict.fromkeys(caller.answers, evaluated)
    return {**answers, **saved, Values: lambda ask: _values(ask, journal, caller), Iterate: iterate}


def _values(ask: Values, journal: Journal, caller: Caller) -> list[float]:
    """Answer with the values of a difference, each of which is noted by itself."""
    caller.charge(ask)
    known = list[float]()
    for point in ask.points:
        found, value = journal.replayed(Value(point))
        if not found:
            break
        known.append(value)

    def note(point: Vector, value: float) -> None:
        journal.note(Value(point), value, caller.meter.seconds)

    return known + caller.evaluated(ask.points[len(known) :], ask.imaginary, note)


# --- questions and answers as bytes ------------------------------------------------------------------------


def _digest(ask: Any) -> bytes:
    """Return what tells a question."""
    digest = hashlib.blake2b(type(ask).__name__.encode(), digest_size=16)
    vectors: list[Vector] = [ask.x]
    if type(ask) is Product:
        vectors.append(ask.v)
    for vector in vectors:
        digest.update(np.ascontiguousarray(to_numpy(vector)).tobytes())
    return digest.digest()


def packed_answer(answer: Any) -> bytes:
    """Return an answer as bytes: numbers and vectors, or a list of them."""
    arrays: list[Any] = []
    tree = json.dumps(packed(answer, arrays)).encode()
    return b"".join(_framed(part) for part in (tree, *map(array_bytes, arrays)))


def unpacked_answer(content: bytes, like: Vector) -> Any:
    """Return an answer from bytes."""
    tree, *parts = _unframed(content)
    arrays = {f"array {i}": part for i, part in enumerate(parts)}
    return unpacked(json.loads(tree), arrays, like)


def _framed(part: bytes) -> bytes:
    return len(part).to_bytes(8, "little") + part


def _unframed(content: bytes) -> list[bytes]:
    parts, at = list[bytes](), 0
    while at < len(content):
        size = int.from_bytes(content[at : at + 8], "little")
        parts.append(content[at + 8 : at + 8 + size])
        at += 8 + size
    return parts


def sealed(content: bytes) -> bytes:
    """Return bytes with a checksum."""
    return zlib.crc32(content).to_bytes(4, "little") + content


def opened(content: bytes) -> bytes:
    """Return the bytes of `sealed`; raise if they have changed."""
    if zlib.crc32(content[4:]).to_bytes(4, "little") != content[:4]:
        raise Unfit("a checksum does not match")
    return content[4:]


def array_bytes(array: Any) -> bytes:
    """Return an array in NumPy's own format."""
    buffer = io.BytesIO()
    np.save(buffer, to_numpy(array), allow_pickle=False)
    return buffer.getvalue()


def read_array(content: bytes) -> Any:
    """Return an array from NumPy's own format."""
    return np.load(io.BytesIO(content), allow_pickle=False)


# --- the state of a run as JSON and arrays -----------------------------------------------------------------


def state_of(run: Run, meter: Meter, arrays: list[Any]) -> dict[str, Any]:
    """Return the state of a run and its counts; arrays are appended to the list, and named by their place."""
    own_fields = {field.name: getattr(run, field.name) for field in fields(run) if field.name not in PARTS}
    counts = [meter.nfev, meter.njev, meter.nhvp, meter.nhev, meter.seconds]
    parts = {"method": run.method, "step": run.step, "gradients": run.problem.gradients}
    return {
        "run": {name: packed(value, arrays) for name, value in own_fields.items()},
        "counts": counts,
        **{name: packed_object(part, arrays) for name, part in parts.items()},
    }


def restore(run: Run, meter: Meter, tree: dict[str, Any], arrays: dict[str, bytes]) -> None:
    """Put a new run, and its counts, into a saved state."""
    for name, value in tree["run"].items():
        setattr(run, name, unpacked(value, arrays, run.start))
    meter.nfev, meter.njev, meter.nhvp, meter.nhev, meter.earlier = tree["counts"]
    if run.begun:  # its memory is made, and then filled
        run.method.begin(run.problem, run.here)
    parts = {"method": run.method, "step": run.step, "gradients": run.problem.gradients}
    for name, part in parts.items():
        fill(part, tree[name], arrays, run.start)


def packed(value: Any, arrays: list[Any]) -> Any:
    """Return a value as JSON has it, with arrays by their number; None for anything else."""
    if isinstance(value, np.generic):
        return cast(Any, value).item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Point):
        return {"point": [packed(part, arrays) for part in value]}
    if isinstance(value, tuple | list):
        items = [packed(one, arrays) for one in cast("list[Any]", value)]
        return {"list" if isinstance(value, list) else "tuple": items}
    if isinstance(value, dict):
        return {"dict": {name: packed(one, arrays) for name, one in cast("dict[str, Any]", value).items()}}
    if hasattr(value, "__array__") and hasattr(value, "dtype"):
        arrays.append(value)
        return {"array" if is_numpy(value) else "vector": len(arrays) - 1}
    if isinstance(value, set | frozenset | bytes | bytearray):
        kept = "numbers, texts, arrays, and tuples, lists, dicts or objects of them"
        kind = type(cast(Any, value)).__name__
        raise CheckpointError(f"checkpoint: a field of the method or step is a {kind}; it keeps {kept}")
    if _has_state(value):
        return packed_object(value, arrays)
    return {"other": None}  # a setting, such as a schedule: it is the same in the run that resumes


def packed_object(value: Any, arrays: list[Any]) -> dict[str, Any]:
    """Return the fields of an object."""
    if not _has_state(value):
        return {"fields": {}}
    own_fields = cast("dict[str, Any]", vars(value))
    return {"fields": {name: packed(one, arrays) for name, one in own_fields.items()}}


def _has_state(value: Any) -> bool:
    """Return whether the fields of an object may change during a run."""
    frozen = is_dataclass(value) and getattr(type(value), "__dataclass_params__").frozen  # noqa: B009
    fixed = frozen or isinstance(value, Everywhere)  # or a box
    return hasattr(value, "__dict__") and not fixed and not callable(value) and not isinstance(value, type)


def unpacked(tree: Any, arrays: dict[str, bytes], like: Vector) -> Any:
    """Return a value from JSON and arrays."""
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = cast("dict[str, Any]", tree).items()
    if kind == "array":
        return read_array(arrays[f"array {content}"])
    if kind == "vector":
        return own(like, read_array(arrays[f"array {content}"]))
    if kind == "dict":
        named = cast("dict[str, Any]", content)
        return {name: unpacked(one, arrays, like) for name, one in named.items()}
    items = [unpacked(one, arrays, like) for one in content]
    return Point(*items) if kind == "point" else tuple(items) if kind == "tuple" else items


def fill(thing: Any, tree: dict[str, Any], arrays: dict[str, bytes], like: Vector) -> None:
    """Set the fields of an object; objects within it are filled in their turn."""
    if _has_state(thing):
        own_fields = cast("dict[str, Any]", vars(thing))
        for name in own_fields.keys() - tree["fields"].keys():  # it had its default yet
            delattr(thing, name)
    for name, one in tree["fields"].items():
        if isinstance(one, dict) and "fields" in one:
            inner = getattr(thing, name, None)
            if inner is not None:
                fill(inner, cast("dict[str, Any]", one), arrays, like)
        elif not (isinstance(one, dict) and "other" in one):
            setattr(thing, name, unpacked(one, arrays, like))
