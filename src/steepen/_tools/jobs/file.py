"""The results file of sweeps, studies and benchmarks: an SQLite database with a row per job.

Many processes may write it, and any of them may die: a record is one transaction. A process claims a job
by a row of its own, which it renews. A claim that was not renewed for `LEASE` seconds is free, as is one of
a process that has ended here. Published rows, which are text (`lines.py`), are read and never written.
"""

from __future__ import annotations

import binascii
import json
import os
import secrets
import socket
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ..database import Unfit, connect, is_database, opened, sealed, transaction
from .lines import line_head, read_lines

FORMAT = "results 3"  # the name of the format, under "steepen" in the description
LEASE = 60.0  # seconds for which a claim holds, if it is not renewed
RENEWED = 15.0  # seconds between renewals

TABLES = (
    "CREATE TABLE IF NOT EXISTS about (text TEXT)",
    "CREATE TABLE IF NOT EXISTS jobs"
    " (number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT UNIQUE, failed INTEGER, content BLOB)",
    "CREATE TABLE IF NOT EXISTS claims"
    " (key TEXT PRIMARY KEY, host TEXT, process INTEGER, owner TEXT, until REAL)",
)
ADD = """
    INSERT OR REPLACE INTO jobs (key, failed, content) SELECT :key, :failed, :content
    WHERE NOT (:failed AND EXISTS (SELECT 1 FROM jobs WHERE key = :key AND NOT failed))
"""

Key: TypeAlias = tuple[Hashable, ...]
Record: TypeAlias = dict[str, Any]


class JobFile:
    """Results by job; `fields` name the parts of a key, and `about` describes the run.

    Of a file that is there already, `about` must be the same, but for what is `chosen`: its choice holds.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fields: Sequence[str],
        about: Mapping[str, Any] | None = None,
        chosen: Sequence[str] = (),
    ):
        self.path, self._fields = Path(path), tuple(fields)
        self._head = json.dumps({"steepen": FORMAT, "key": list(fields), **(about or {})}, default=_plain)
        self._chosen = {*chosen, "steepen"}  # `read_head` has checked the format
        self._found: dict[Key, Record] = {}
        self._last = self.damaged = 0  # the number of the last row read, and how many are damaged
        self._reading = threading.Lock()  # executors may send jobs in threads of their own
        if not self.path.parent.is_dir():
            raise ValueError(f"out: there is no folder {str(self.path.parent)!r}")
        if about is not None and not _has_content(self.path):
            self._create()
        self.about: Record = (
            read_head("out", self.path) if _has_content(self.path) else json.loads(self._head)
        )
        """The description in the file."""
        self._check(json.loads(self._head))
        self._published = _has_content(self.path) and not is_database(self.path)

    def read(self) -> dict[Key, Record]:
        """Return the records in the file; one with an "error" only if its job has no other."""
        with self._reading:
            if self._published and not self._last:
                self._last = 1
                self._keep(*read_lines(self.path))
            elif _has_content(self.path) and not self._published:
                self._keep(*self._new_rows())
            return self._found

    def add(self, key: Key, value: Mapping[str, Any]) -> None:
        """Write the record of a job. Numeric arrays are packed: see `unpack`."""
        if self._published:
            raise ValueError(f"out: {str(self.path)!r} has published rows and is not added to")
        record = dict(zip(self._fields, key, strict=True)) | dict(value)
        content = sealed(json.dumps(record, default=_plain).encode())
        if not _has_content(self.path):
            self._create()
        with _database(self.path) as database, transaction(database):
            failed = "error" in record
            database.execute(ADD, {"key": json.dumps(key), "failed": failed, "content": content})

    @contextmanager
    def claims(self) -> Iterator[Callable[[Key], bool]]:
        """Yield a function that claims a job for this process, up to the end of the block, if it is free."""
        if self._published:
            yield lambda key: True
            return
        if not _has_content(self.path):
            self._create()
        owner, ended = secrets.token_hex(8), threading.Event()
        renewal = threading.Thread(target=self._renew, args=(owner, ended), daemon=True)
        renewal.start()
        try:
            yield lambda key: self._claim(json.dumps(key), owner)
        finally:
            ended.set()
            renewal.join()
            with suppress(OSError, ValueError), _database(self.path) as database:
                database.execute("DELETE FROM claims WHERE owner = ?", (owner,))

    def _claim(self, key: str, owner: str) -> bool:
        with _database(self.path) as database, transaction(database):
            query = "SELECT host, process, owner, until FROM claims WHERE key = ?"
            held = database.execute(query, (key,)).fetchone()
            if held is not None and held[2] != owner and not _is_free(*held):
                return False
            row = key, socket.gethostname(), os.getpid(), owner, time.time() + LEASE
            database.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?)", row)
            return True

    def _renew(self, owner: str, ended: threading.Event) -> None:
        while not ended.wait(RENEWED):
            with suppress(OSError, ValueError), _database(self.path) as database:
                database.execute("UPDATE claims SET until = ? WHERE owner = ?", (time.time() + LEASE, owner))

    def _create(self) -> None:
        """Make the tables; of several processes, the first one describes the run."""
        with _database(self.path) as database, transaction(database):
            for table in TABLES:
                database.execute(table)
            if database.execute("SELECT count(*) FROM about").fetchone()[0] == 0:
                database.execute("INSERT INTO about VALUES (?)", (self._head,))

    def _check(self, about: Record) -> None:
        """Raise ValueError if the file belongs to another run."""
        head = self.about
        differing = [
            name for name, value in about.items() if head.get(name) != value and name not in self._chosen
        ]
        if differing:
            pairs = ((name, *_apart(head.get(name), about[name])) for name in differing)
            said = (f"{name} {_brief(there)}, not {_brief(here)}" for name, there, here in pairs)
            raise ValueError(
                f"out: {str(self.path)!r} holds other results, and is left as it is: it has "
                f"{'; '.join(said)}. Choose another file"
            )

    def _new_rows(self) -> tuple[list[Record], int]:
        """Return the records that were not read before, and how many are damaged."""
        with _database(self.path) as database:
            query = "SELECT number, content FROM jobs WHERE number > ? ORDER BY number"
            rows: list[tuple[int, bytes]] = database.execute(query, (self._last,)).fetchall()
        records, damaged = list[Record](), 0
        for number, content in rows:
            self._last = number
            try:
                records.append(json.loads(opened(content)))
            except Unfit:
                damaged += 1
        return records, damaged

    def _keep(self, records: list[Record], damaged: int) -> None:
        self.damaged += damaged
        for record in records:
            key = tuple(record[name] for name in self._fields)
            if "error" not in record or key not in self._found:
                self._found[key] = record


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _is_free(host: str, process: int, _: str, until: float) -> bool:
    """Return whether a claim has run out, or its process has ended."""
    if until < time.time():
        return True
    if host != socket.gethostname() or os.name != "posix":
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


@contextmanager
def _database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file for a moment: no connection is shared by threads or with a forked process."""
    try:
        with closing(connect(path)) as database:
            yield database
    except sqlite3.OperationalError as error:  # a full disk, no permission, a lock that is held for a minute
        raise OSError(f"out: {str(path)!r} cannot be written or read: {error}") from error
    except sqlite3.DatabaseError as error:
        raise ValueError(f"out: {str(path)!r} is damaged ({error}). It is left as it is") from error


def _plain(value: Any) -> Any:
    """Return what JSON does not know as what it knows: a number of NumPy as a number, an array packed."""
    return cast(Any, value).item() if isinstance(value, np.generic) else pack(value)


def pack(column: NDArray[Any]) -> tuple[str, str]:
    """Return the type of a column and its bytes in base 64: floats exact, counts narrowed and compressed."""
    if column.dtype.kind in "iu":
        column = column.astype(np.min_scalar_type(int(column.max(initial=0))), copy=False)
    data = column.astype(kind := column.dtype.newbyteorder("<"), copy=False).tobytes()
    data = zlib.compress(data, 1) if kind.kind == "u" else data
    return kind.str, binascii.b2a_base64(data, newline=False).decode()


def unpack(packed: Any) -> NDArray[Any]:
    """Return a packed column (an array that was not packed as it is)."""
    if isinstance(packed, np.ndarray):
        return cast("NDArray[Any]", packed)
    dtype, data = np.dtype(packed[0]), binascii.a2b_base64(packed[1])
    return np.frombuffer(zlib.decompress(data) if dtype.kind == "u" else data, dtype)


def read_head(argument: str, path: Path) -> Record:
    """Return the description in a results file; ValueError if it is not one, or has another format."""
    if not is_database(path):
        return line_head(argument, path)
    what = "is an SQLite database of something else"
    with suppress(sqlite3.DatabaseError, TypeError, ValueError), closing(connect(path)) as database:
        head = json.loads(database.execute("SELECT text FROM about").fetchone()[0])
        if head["steepen"] == FORMAT:
            return head
        what = f"has the format {head['steepen']!r} of another steepen; this one reads {FORMAT!r}"
    raise ValueError(f"{argument}: {str(path)!r} {what}. It is left as it is")


def _apart(one: Any, other: Any) -> tuple[Any, Any]:
    """Return the first parts in which two lists or two records of the same shape differ."""
    mine, theirs = _parts(one), _parts(other)
    if mine is None or theirs is None or mine.keys() != theirs.keys():
        return one, other
    key = next(key for key in mine if mine[key] != theirs[key])
    return _apart(mine[key], theirs[key])


def _parts(value: Any) -> dict[Any, Any] | None:
    if isinstance(value, list):
        return dict(enumerate(cast("list[Any]", value)))
    return cast("dict[Any, Any]", value) if isinstance(value, dict) else None


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 80 else text[:77] + "…"
