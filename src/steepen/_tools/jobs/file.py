"""The results file: one line of JSON per job. Several processes may write it, and any may die at any time.

The first line describes the run, and every line ends with the CRC-32 of its preceding content. A line
is written in one call under a lock, and removed if the disk is full; damaged or truncated lines
are skipped. Sweeps, comparisons, benchmarks and the paper all write such files, and `load_results`
reads them. A claim is a lock on one byte of the file beside it, `….claims`: the system frees it when the
process that holds it ends, however it ends.
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

FORMAT = "results 2"
"""The name of the format, under "steepen" in the first line."""

OLD = "steepen before 0.1.0, as of commit 4732399"
"""The version that reads the older formats, which have no checksums."""

Key: TypeAlias = tuple[Hashable, ...]
Record: TypeAlias = dict[str, Any]


class JobFile:
    """Results by job, whose keys have these fields.

    The file need not exist, but its folder must. `about` describes the run: it is the first
    line, and a file with a different first line is rejected.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = JobFile(Path(folder, "results.jsonl"), ["seed"], {"results": "a study"})
    ...     file.add((3,), {"loss": 0.5})
    ...     file.read()
    {(3,): {'seed': 3, 'loss': 0.5}}
    """

    def __init__(
        self, path: str | os.PathLike[str], fields: Sequence[str], about: Mapping[str, Any] | None = None
    ):
        self.path, self._fields = Path(path), tuple(fields)
        self._head = json.dumps({"steepen": FORMAT, "key": list(fields), **(about or {})})
        self._found: dict[Key, Record] = {}
        self._at = self.damaged = 0  # how far the file was read, and how many of its lines were damaged
        self._reading = threading.Lock()  # joblib asks for jobs in threads of its own
        if not self.path.parent.is_dir():
            raise ValueError(f"out: there is no folder {str(self.path.parent)!r}")
        if about is not None:
            self._write(self._head, first=True)
        if self.path.exists():
            self._check(json.loads(self._head))  # as it is read

    def read(self) -> dict[Key, Record]:
        """Return the records in the file; one with an "error" only if its job has no other."""
        with self._reading:
            for line in self._new_lines():
                record = parsed(line)
                if record is None:
                    self.damaged += 1
                elif self._at:  # the first line is the head
                    self._keep(record)
                self._at += len(line)
            return self._found

    def add(self, key: Key, value: Mapping[str, Any]) -> None:
        """Append the record of a job atomically. Numeric arrays are packed: see `unpack`."""
        record = dict(zip(self._fields, key, strict=True)) | dict(value)
        text = _json(record)
        with self._reading:
            if not self.path.exists():
                self._write(self._head, first=True)
            before, after = self._write(text)
            if before == self._at:  # nobody else has written: there is no need to read it
                self._at = after
                self._keep(record)

    @contextmanager
    def claims(self) -> Iterator[Callable[[Key], bool]]:
        """Yield a function that claims a job for this process and returns whether it succeeded.

        Claims last until the end of the block or of the process. A process may reclaim its own claims.
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

    def _keep(self, record: Record) -> None:
        if record.keys() >= set(self._fields):
            key = tuple(record[name] for name in self._fields)
            if "error" not in record or key not in self._found:
                self._found[key] = record

    def _check(self, about: Record) -> None:
        """Raise ValueError if the file belongs to another run."""
        head = read_head("out", self.path)
        differing = [name for name, value in about.items() if head.get(name) != value]
        if differing:
            said = (f"{name} {_brief(head.get(name))}, not {_brief(about[name])}" for name in differing)
            wrong = f"out: {str(self.path)!r} is not a file of these results, and is left as it is"
            raise ValueError(f"{wrong}: it has {'; '.join(said)}. Give another file for these")

    def _new_lines(self) -> Iterator[bytes]:
        """Yield the complete lines added since the last call."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._at)
                yield from (line for line in file if line.endswith(b"\n"))  # the last may still be growing

    def _write(self, text: str, *, first: bool = False) -> tuple[int, int]:
        """Append a line, and return the old and new file size; a first line only if the file has none."""
        handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX)
            size, line = os.fstat(handle).st_size, sealed(text)
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


def pack(column: NDArray[Any]) -> tuple[str, str]:
    """Return the type of a column and its bytes in base 64, neither of which JSON needs to escape.

    Floats are kept exactly; integers are stored in the narrowest type and compressed.

    Examples
    --------
    >>> pack(np.zeros(2)), len(pack(np.full(1000, 40))[1])
    (('<f8', 'AAAAAAAAAAAAAAAAAAAAAA=='), 28)
    """
    column = narrow(column)
    data = column.astype(kind := column.dtype.newbyteorder("<"), copy=False).tobytes()
    data = zlib.compress(data, 1) if kind.kind == "u" else data
    return kind.str, binascii.b2a_base64(data, newline=False).decode()


def narrow(column: NDArray[Any]) -> NDArray[Any]:
    """Return non-negative integers in the narrowest type that fits; other arrays unchanged."""
    if column.dtype.kind not in "iu":
        return column
    return column.astype(np.min_scalar_type(int(column.max(initial=0))), copy=False)


def unpack(packed: Any, length: int) -> NDArray[Any]:
    """Return an unpacked column; ValueError if its length differs.

    Examples
    --------
    >>> unpack(pack(np.array([7, 300])), 2)
    array([  7, 300], dtype=uint16)
    """
    kind, text = packed
    dtype, data = np.dtype(kind), binascii.a2b_base64(text, strict_mode=True)
    if dtype.kind == "u":  # and no more bytes than asked for, whatever it claims
        data = zlib.decompressobj().decompress(data, length * dtype.itemsize + 1)
    if len(data) != length * dtype.itemsize:
        raise ValueError(f"expected {length} values, got {len(data) / dtype.itemsize:g}")
    return np.frombuffer(data, dtype)


def _json(value: Any) -> str:
    """Return a value as JSON; packed columns are inserted unescaped, for speed."""
    if isinstance(value, np.ndarray):
        kind, text = pack(cast(Any, value))
        return f'["{kind}", "{text}"]'
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value).items()
        return "{" + ", ".join(f"{json.dumps(name)}: {_json(one)}" for name, one in pairs) + "}"
    return json.dumps(value)


_SEAL = re.compile(rb', "crc": "([0-9a-f]{8})"\}\n?$')


def sealed(text: str) -> bytes:
    r"""Return a JSON object as a line that ends with its checksum.

    Examples
    --------
    >>> sealed('{"i": 1}')
    b'{"i": 1, "crc": "17f20cfa"}\n'
    """
    data = text.encode()
    return data[:-1] + b', "crc": "%08x"}\n' % zlib.crc32(data)


def parsed(line: bytes) -> Record | None:
    """Return the object that a line holds; None if its checksum is missing or wrong.

    Examples
    --------
    >>> parsed(sealed('{"i": 1}')), parsed(sealed('{"i": 1}').replace(b"1", b"2"))
    ({'i': 1}, None)
    """
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
    what = "is not a file of these results"
    if head is not None and "steepen" in head:
        what = f"has the format {head['steepen']!r} of a later steepen; this one reads {FORMAT!r}"
    elif line.startswith(b"{") and line.endswith(b"}\n"):
        what = f"has the old format, without checksums; {OLD}, reads it"
    raise ValueError(f"{argument}: {str(path)!r} {what}. It is left as it is")


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 80 else text[:77] + "…"
