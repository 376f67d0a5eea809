"""`load_results`: the file of a sweep, a comparison, a benchmark or the paper, as a table."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._tools.jobs import unpack
from .._tools.jobs.file import Key, Record, keep, parsed, read_head
from .._tools.optional import load
from .sweep import frame, rows_of

if TYPE_CHECKING:
    import pandas as pd


def load_results(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a file of results, finished or not, into a table.

    `sweep`, `steepen.train.compare`, `steepen reproduce` and the programs in `benchmarks/` write such files:
    lines of JSON with a checksum each, the first of which says what they belong to.

    Parameters
    ----------
    path : path
        The file. One of an older layout is refused; lines that are damaged are left out, with a warning.

    Returns
    -------
    pandas.DataFrame
        Of a sweep the table that it returns, as far as it was run (without the columns `start0`, …); of
        others a row for each record. `attrs["about"]` is the first line.

    Examples
    --------
    >>> import tempfile, steepen as st
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = st.sweep("booth", 5, step=[0.01, 0.02], method="gd", out=f"{folder}/booth.jsonl")
    ...     st.load_results(f"{folder}/booth.jsonl").equals(table)
    True
    """
    pandas = load("pandas", "load_results", extra="pandas")
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"path: there is no file {str(file)!r}")
    head = read_head("path", file)
    found: dict[Key, Record] = {}
    damaged = 0
    with file.open("rb") as lines:
        next(lines)
        for line in lines:
            record = parsed(line)
            if record is not None:
                keep(found, head["key"], record)
            damaged += record is None and line.endswith(b"\n")  # the last may still be growing
    if damaged:
        text = "1 line is" if damaged == 1 else f"{damaged} lines are"
        warnings.warn(f"path: {text} damaged in {str(file)!r}, and left out", stacklevel=2)
    records = list(found.values())
    made = _of_sweep(head, records) if head.get("results") == "sweep" else pandas.DataFrame(records)
    made.attrs["about"] = head
    return made


def _of_sweep(head: Mapping[str, Any], records: Sequence[Record]) -> pd.DataFrame:
    """Put the rows of the batches where the sweep puts them, and leave out those that were not run."""
    functions: dict[str, Any] = head["functions"]
    sizes = [len(head["settings"]) * one["starts"] for one in functions.values()]
    begun = dict(zip(functions, np.cumsum([0, *sizes[:-1]]).tolist(), strict=True))
    there = np.zeros(sum(sizes), bool)
    made: dict[str, NDArray[Any]] = {}
    for record in records:
        if "error" in record:
            continue
        name, size, which = record["function"], record["size"], np.array(head["calls"][record["call"]])
        rows = rows_of(which, functions[name]["starts"], record["first"], size, begun[name])
        there[rows] = True
        for column, packed in record["rows"].items():
            values = unpack(packed, size)
            whole = values.dtype.kind == "u"
            if column not in made:
                kind = np.uint8 if column == "status" else np.int64 if whole else float
                made[column] = np.zeros(len(there), kind) if whole else np.full(len(there), np.nan)
            made[column][rows] = values
    f0 = {name: unpack(one["f0"], one["starts"]) for name, one in functions.items()}
    made = made or {"status": np.zeros(len(there), np.uint8)}
    table: Any = frame(f0, head["settings"], made, {})
    return table[there].reset_index(drop=True)
