"""The results file of sweeps, studies and benchmarks: a line of JSON per job. Many processes may write it.

The first line describes the run; every line ends with the CRC-32 of its preceding content. A line is
written in one call under a lock, removed if the disk is full, skipped if damaged: any process may die.
A claim is a lock on one byte of the file beside it, `….claims`: the system frees it when the process ends.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import os
import re
import threading
import zlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

try:
    import fcntl
except ImportError:  # Windows: one process writes a file
    fcntl = None

FORMAT = "results 2"  # the name of the format, under "steepen" in the first line
OLD = "steepen before 0.1.0, as of commit 4732399"  # reads the older formats, which have no checksums

Key: TypeAlias = tuple[Hashable, ...]
Record: TypeAlias = dict[str, Any]


class JobFile:
    """Results by job; `fields` name the parts of a key, and `about` describes the run, in the first line."""

    def __init__(
        self, path: str | os.PathLike[str], fields: Sequence[str], about: Mapping[str, Any] | None = None
    ):
        self.path, self._fields = Path(path), tuple(fields)
        self._head = json.dumps({"steepen": FORMAT, "key": list(fields), **(about or {})}, default=_plain)
        self._found: dict[Key, Record] = {}
        self._at = self.damaged = 0  # the number of bytes read, and of damaged lines
        self._reading = threading.Lock()  # joblib fetches jobs in threads of its own
        if not self.path.parent.is_dir():
            raise ValueError(f"out: there is no folder {str(self.path.parent)!r}")
        if about is not None:
            self._append(b"")
        if self.path.exists():
            self._check(json.loads(self._head))

    def read(self) -> dict[Key, Record]:
        """Return the records in the file; one with an "error" only if its job has no other."""
        with self._reading:
            for line in self._new_lines():
                self._at += len(line)
                record = parsed(line)
                if record is None:
                    self.damaged += 1
                elif record.keys() >= set(self._fields):  # the first line has other keys
                    key = tuple(record[name] for name in self._fields)
                    if "error" not in record or key not in self._found:
                        self._found[key] = record
            return self._found

    def add(self, key: Key, value: Mapping[str, Any]) -> None:
        """Append the record of a job atomically. Numeric arrays are packed: see `unpack`."""
        record = dict(zip(self._fields, key, strict=True)) | dict(value)
        self._append(sealed(json.dumps(record, default=_plain)))

    @contextmanager
    def claims(self) -> Iterator[Callable[[Key], bool]]:
        """Yield a function that claims a job for this process, up to the end of the block, if it is free."""
        with self.path.with_name(self.path.name + ".claims").open("a") as file:

            def claim(key: Key) -> bool:
                if fcntl is None:
                    return True
                digest = hashlib.sha256(json.dumps(key).encode()).digest()
                byte = int.from_bytes(digest[:7], "big")  # far beyond the end of the file, which stays empty
                try:
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
                except (BlockingIOError, PermissionError):
                    return False
                return True

            yield claim

    def _check(self, about: Record) -> None:
        """Raise ValueError if the file belongs to another run."""
        head = read_head("out", self.path)
        differing = [name for name, value in about.items() if head.get(name) != value]
        if differing:
            pairs = ((name, *_apart(head.get(name), about[name])) for name in differing)
            said = (f"{name} {_brief(there)}, not {_brief(here)}" for name, there, here in pairs)
            raise ValueError(
                f"out: {str(self.path)!r} holds other results, and is left as it is: it has "
                f"{'; '.join(said)}. Choose another file"
            )

    def _new_lines(self) -> Iterator[bytes]:
        """Yield the complete lines that were not read before."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._at)
                yield from (line for line in file if line.endswith(b"\n"))  # the last may still be growing

    def _append(self, line: bytes) -> None:
        """Append a line under a lock, in an empty file after the head."""
        with self.path.open("ab+", buffering=0) as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            if not size:
                line = sealed(self._head) + line
            elif line and file.read(1) != b"\n":
                line = b"\n" + line  # what a kill has left of a line ends here
            rest = memoryview(line)
            try:
                while rest:
                    rest = rest[file.write(rest) :]
            except OSError:
                file.truncate(size)
                raise


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


_SEAL = re.compile(rb', "crc": "([0-9a-f]{8})"\}\n?$')


def sealed(text: str) -> bytes:
    """Return a JSON object as a line that ends with its checksum."""
    data = text.encode()
    return data[:-1] + b', "crc": "%08x"}\n' % zlib.crc32(data)


def parsed(line: bytes) -> Record | None:
    """Return the object that a line holds; None if its checksum is missing or wrong."""
    seal = _SEAL.search(line)
    if seal is None:
        return None
    data = line[: seal.start()] + b"}"
    return cast(Record, json.loads(data)) if zlib.crc32(data) == int(seal[1], 16) else None


def read_head(argument: str, path: Path) -> Record:
    """Return the first line of a results file; ValueError if it is not one, or has another format."""
    with path.open("rb") as file:
        line = file.readline()
    head = parsed(line)
    if head is not None and head.get("steepen") == FORMAT:
        return head
    what = "is not a results file"
    if head is not None and "steepen" in head:
        what = f"has the format {head['steepen']!r} of a later steepen; this one reads {FORMAT!r}"
    elif line.startswith(b"{") and line.endswith(b"}\n"):
        what = f"has the old format, without checksums; {OLD}, reads it"
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
