"""A file of results: one line of JSON a job. Several processes may write it, and any may die at any time.

A line is written in one go under a lock, and taken back if the disk is full; what a kill leaves of one is
passed over. A claim is a lock on one byte of the file beside it, `….claims`: the system frees it when the
process that holds it ends, however it ends.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from .packed import pack

try:
    import fcntl
except ImportError:  # Windows: one process writes a file
    fcntl = None

Key: TypeAlias = tuple[Hashable, ...]
Record: TypeAlias = dict[str, Any]


class JobFile:
    """Results by job.

    Parameters
    ----------
    path : path
        The file; it need not be there, its folder must.
    fields : sequence of str
        The names under which a line holds the parts of its job's key.
    about : mapping, optional
        What the results belong to. It is the first line; a file that says anything else is refused.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = JobFile(Path(folder, "results.jsonl"), ["seed"], {"study": "one"})
    ...     file.add((3,), {"loss": 0.5})
    ...     file.read()
    {(3,): {'seed': 3, 'loss': 0.5}}
    """

    def __init__(
        self, path: str | os.PathLike[str], fields: Sequence[str], about: Mapping[str, Any] | None = None
    ):
        self.path, self._fields = Path(path), tuple(fields)
        self._about = None if about is None else json.loads(json.dumps(about))  # as it will be read
        self._found: dict[Key, Record] = {}
        self._at = 0
        self._reading = threading.Lock()  # joblib asks for jobs in threads of its own
        if not self.path.parent.is_dir():
            raise ValueError(f"out: there is no folder {str(self.path.parent)!r}")
        if self._about is not None:
            self._write(json.dumps(self._about), first=True)
            self._check(self._about)

    def read(self) -> dict[Key, Record]:
        """Return the records that are there; one with an "error" only where there is no other."""
        self._look()
        return dict(self._found)

    def get(self, key: Key) -> Record | None:
        """Return the record of a job, if there is one, as `read` has it."""
        self._look()
        return self._found.get(key)

    def add(self, key: Key, value: Mapping[str, Any]) -> None:
        """Append the record of a job, whole or not at all. Arrays of numbers are packed: see `unpack`."""
        record = dict(zip(self._fields, key, strict=True)) | dict(value)
        text = _json(record)
        with self._reading:
            before, after = self._write(text)
            if before == self._at:  # nobody else has written: there is no need to read it
                self._at = after
                self._keep(record)

    @contextmanager
    def claims(self) -> Iterator[Callable[[Key], bool]]:
        """Give what claims a job for this process, and says whether that succeeded.

        Claims last to the end of the block, or of the process. A process gets its own claims again.
        """
        locks = fcntl
        if locks is None:
            yield lambda key: True
            return
        handle = os.open(self.path.with_name(self.path.name + ".claims"), os.O_RDWR | os.O_CREAT, 0o666)

        def claim(key: Key) -> bool:
            digest = hashlib.sha256(json.dumps(key).encode()).digest()
            byte = int.from_bytes(digest[:7], "big")  # far beyond the end of the file, which stays empty
            try:
                locks.lockf(handle, locks.LOCK_EX | locks.LOCK_NB, 1, byte)
            except (BlockingIOError, PermissionError):
                return False
            return True

        try:
            yield claim
        finally:
            os.close(handle)

    def _look(self) -> None:
        with self._reading:
            for record in self._new():
                self._keep(record)

    def _keep(self, record: Record) -> None:
        try:
            key = tuple(record[name] for name in self._fields)
        except KeyError:
            return
        if "error" not in record or key not in self._found:
            self._found[key] = record

    def _check(self, about: Record) -> None:
        """Refuse a file that belongs to something else."""
        with self.path.open("rb") as file:
            head = _parsed(file.readline())
        wrong = f"out: {str(self.path)!r} is not a file of these results, and is left as it is"
        if head is None:
            raise ValueError(wrong)
        other = [
            f"{name} {_brief(head.get(name))}, not {_brief(value)}"
            for name, value in about.items()
            if head.get(name) != value
        ]
        if other:
            raise ValueError(f"{wrong}: it has {'; '.join(other)}. Give another file for these")

    def _new(self) -> Iterator[Record]:
        """Read the whole lines that have come since the last time."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # it may still be growing
                self._at += len(line)
                record = _parsed(line)
                if record is not None:
                    yield record

    def _write(self, text: str, *, first: bool = False) -> tuple[int, int]:
        """Append a line, and return how long the file was and is; the first line only where there is none."""
        handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX)
            size, line = os.fstat(handle).st_size, text.encode() + b"\n"
            if first and size:
                if size >= len(line) or os.pread(handle, size, 0) != line[:size]:
                    return size, size
                os.ftruncate(handle, size := 0)  # what a kill has left of this very line
            if size and os.pread(handle, 1, size - 1) != b"\n":
                line = b"\n" + line  # what a kill has left of a line ends here
            try:
                rest = memoryview(line)
                while rest:
                    rest = rest[os.write(handle, rest) :]
            except OSError:
                os.ftruncate(handle, size)
                raise
            return size, size + len(line)
        finally:
            os.close(handle)


def _json(value: Any) -> str:
    """Return a value as JSON; columns are put in as they are, since to search them would take longest."""
    if isinstance(value, np.ndarray):
        kind, text = pack(cast(Any, value))
        return f'["{kind}", "{text}"]'
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return "{" + ", ".join(f"{json.dumps(name)}: {_json(one)}" for name, one in pairs) + "}"
    return json.dumps(value)


def _parsed(line: bytes) -> Record | None:
    """Return the object that a line holds; None if it holds none."""
    try:
        record: Any = json.loads(line)
    except ValueError:
        return None
    return cast(Record, record) if isinstance(record, dict) else None


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 80 else text[:77] + "…"
