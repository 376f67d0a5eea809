"""Published rows, for benchmarks and `load_results`: a text file, a line of JSON per record, written whole.

The first line describes the rows; every line ends with the CRC-32 of its preceding content.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from ..files import write_whole

FORMAT = "results 2"  # the name of the format, under "steepen" in the first line
OLD = "steepen before 0.1.0, as of commit 4732399"  # reads the older formats, which have no checksums

_SEAL = re.compile(rb', "crc": "([0-9a-f]{8})"\}\n?$')


def line_of(record: Mapping[str, Any]) -> bytes:
    """Return a record as a line that ends with its checksum."""
    data = json.dumps(record).encode()
    return data[:-1] + b', "crc": "%08x"}\n' % zlib.crc32(data)


def record_of(line: bytes) -> dict[str, Any] | None:
    """Return the record of a line; None if its checksum is missing or wrong."""
    seal = _SEAL.search(line)
    if seal is None:
        return None
    data = line[: seal.start()] + b"}"
    return cast("dict[str, Any]", json.loads(data)) if zlib.crc32(data) == int(seal[1], 16) else None


def write_lines(path: Path, about: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> None:
    """Write all rows; a reader sees the old file or the new one."""
    head = {"steepen": FORMAT, **about}
    text = b"".join(line_of(record) for record in (head, *records))
    write_whole(path, lambda file: file.write(text))


def read_lines(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the records of a file without its first line, and how many lines are damaged."""
    with path.open("rb") as file:
        found = [record_of(line) for line in list(file)[1:]]
    records = [record for record in found if record is not None]
    return records, len(found) - len(records)


def line_head(argument: str, path: Path) -> dict[str, Any]:
    """Return the first line; ValueError if the file does not hold rows, or has another format."""
    with path.open("rb") as file:
        line = file.readline()
    head = record_of(line)
    if head is not None and head.get("steepen") == FORMAT:
        return head
    what = "is not a results file"
    if head is not None and "steepen" in head:
        what = f"has the format {head['steepen']!r} of a later steepen; this one reads {FORMAT!r}"
    elif line.startswith(b"{") and line.endswith(b"}\n"):
        what = f"has the old format, without checksums; {OLD}, reads it"
    raise ValueError(f"{argument}: {str(path)!r} {what}. It is left as it is")
