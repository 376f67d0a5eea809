"""A checkpoint: the fields of a run at an iterate, and every answer since. No evaluation is made twice.

The file is an SQLite database. Each answer is written as it comes, so that a run can be killed anywhere, in
the middle of a difference, too. When the run is resumed, its questions are answered from the file as long as
they are the same to the bit. On another CPU they may not be; then the rest is evaluated anew, and counted.
The state of the run is written at an iterate, as long as that takes a small part of the time; with an f that
takes a second, at every one. There is no pickle: see `packing.py`.

Whether f is the same function is not checked: that would take an evaluation.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from .._tools.database import Unfit, connect, is_database, opened, sealed
from .._tools.fingerprint import fingerprint
from .._tools.version import version
from ..questions import Iterate, Question, Value, Values, Vector
from ..run import Run
from .caller import Caller, Meter
from .packing import UNREADABLE, CheckpointError, digest, pack, restore, saved, unpack
from .recorder import ENTRY, Recorder

FORMAT = 17
PART = 0.05
"""The state of a run is written so rarely that this takes no more than this part of the time."""

TABLES = """
    CREATE TABLE header (name TEXT PRIMARY KEY, text TEXT);
    CREATE TABLE state (run INTEGER PRIMARY KEY, content BLOB);
    CREATE TABLE trace (run INTEGER, k INTEGER, entry BLOB, x BLOB, PRIMARY KEY (run, k));
    CREATE TABLE answers (run INTEGER, number INTEGER, question BLOB, answer BLOB, seconds REAL,
                          PRIMARY KEY (run, number));
"""


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
        self._answers: list[tuple[Any, ...]] = []
        """Those that are written together, and are not written yet."""
        exists = self._path.exists() and self._path.stat().st_size > 0
        with self.explained():
            if exists:
                self._check_kind()
            self.database = connect(self._path)
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
            try:
                self._write_answers()
            finally:
                self.database.execute("COMMIT")

    def write_answer(self, *row: Any) -> None:
        """Write an answer; one of several together waits for the others."""
        self._answers.append(row)
        if not self.database.in_transaction:
            self._write_answers()

    def write_state(self, number: int, content: bytes) -> None:
        """Write the state of a run; the answers before are not needed any more."""
        self._write_answers()
        self.database.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (number, content))
        self.database.execute("DELETE FROM answers WHERE run = ?", (number,))

    def _write_answers(self) -> None:
        rows, self._answers = self._answers, []
        self.database.executemany("INSERT INTO answers VALUES (?, ?, ?, ?, ?)", rows)

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
    def explained(self) -> Iterator[None]:
        """Say of an unreadable file that it is one."""
        try:
            yield
        except (OSError, sqlite3.DatabaseError, *UNREADABLE) as error:
            if isinstance(error, CheckpointError):
                raise
            raise self.error(
                f"is not a steepen checkpoint, or was truncated, damaged or edited ({error!r}); "
                "move it away to start a new run"
            ) from error

    def _create(self) -> None:
        header = {"steepen": FORMAT, "version": version(), "settings": self._settings}
        self.database.executescript(f"BEGIN; {TABLES} COMMIT;")
        rows = [(name, json.dumps(value)) for name, value in header.items()]
        self.database.executemany("INSERT INTO header VALUES (?, ?)", rows)

    def _check_kind(self) -> None:
        if not is_database(self._path):
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
            for (state,) in self._select("SELECT content FROM state WHERE run = ?"):
                restore(run, meter, state)
            seconds = meter.earlier
            for question, answer, at in self._select(
                "SELECT question, answer, seconds FROM answers WHERE run = ? ORDER BY number"
            ):
                self._replay.append((question, unpack(answer, run.start)))
                seconds = at
            meter.earlier = seconds
            if recorder is not None:
                self._load_trace(recorder, run)

    def _load_trace(self, recorder: Recorder, run: Run) -> None:
        rows = self._select("SELECT entry, x FROM trace WHERE run = ? ORDER BY k")
        if rows:
            entries = b"".join(opened(entry) for entry, _ in rows)
            points = [unpack(x, run.start) for _, x in rows if x is not None]
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
        if question != digest(ask):
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
        self._checkpoint.write_answer(self._number, self._count, digest(ask), pack(answer), seconds)
        self._count += 1

    # --- the state -------------------------------------------------------------------------------------

    def iterate(self, run: Run, meter: Meter, recorder: Recorder | None) -> None:
        """Write the state of a run at an iterate, unless it was just written or is being replayed."""
        began = time.monotonic()
        if self._replay or not self._checkpoint.has_time(began):
            return
        with self._checkpoint.together():
            self._checkpoint.write_state(self._number, saved(run, meter))
            if recorder is not None:
                self._write_trace(recorder)
        self._count = 0
        self._checkpoint.spent += time.monotonic() - began

    def _write_trace(self, recorder: Recorder) -> None:
        """Write the entries that are new, and the last one again: it has a step now."""
        first = self._traced
        entries, points = recorder.since(first)
        rows = [
            (self._number, first + i, sealed(entry.tobytes()), pack(points[i]) if points else None)
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
