"""SQLite files, for checkpoints and results: opening them, transactions, and content with checksums."""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

PATIENCE = 60.0
"""Seconds to wait for another process that writes."""


class Unfit(Exception):
    """What is wrong with a file, in words that follow its name."""


def connect(path: str | os.PathLike[str]) -> sqlite3.Connection:
    """Open a database whose transactions are begun and ended by hand; any thread may use it."""
    return sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)


def is_database(path: Path) -> bool:
    """Return whether a file is an SQLite database, in whatever state.

    SQLite is asked: if the file were opened here and closed, the locks that this process has on it would go.
    """
    try:
        with closing(connect(path)) as database:
            database.execute("PRAGMA schema_version").fetchone()
    except sqlite3.DatabaseError as error:
        return error.sqlite_errorcode != sqlite3.SQLITE_NOTADB
    return True


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Write what follows whole, or none of it if an error is raised; other writers wait."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # an error of the disk has ended it already
            database.execute("ROLLBACK")
        raise


def sealed(content: bytes) -> bytes:
    """Return bytes with a checksum."""
    return zlib.crc32(content).to_bytes(4, "little") + content


def opened(content: bytes) -> bytes:
    """Return the bytes of `sealed`; raise if they have changed."""
    if zlib.crc32(content[4:]).to_bytes(4, "little") != content[:4]:
        raise Unfit("a checksum does not match")
    return content[4:]
