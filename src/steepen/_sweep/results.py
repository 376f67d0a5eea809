"""`load_results`, for users: pandas tables of results files, also of training and benchmarks; reads only."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._tools.check import is_number
from .._tools.jobs import JobFile, read_head, unpack
from .._tools.jobs.file import Record
from .._tools.optional import load
from ..status import Status
from .grid import AXES

if TYPE_CHECKING:
    import pandas as pd

COUNTS = ("nit", "nfev", "njev", "nhvp")


def load_results(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read a results file, complete or not, into a table.

    `sweep`, `steepen.train.compare`, `steepen reproduce` and the programs in `benchmarks/` write such files:
    SQLite databases with a row per job, and a description of the run. Published rows, in `benchmarks/`, are
    text: lines of JSON, the first of which is the description. All content has checksums.

    Parameters
    ----------
    path : path
        The file. For an older format an error names the version that reads it; damaged records are skipped
        with a warning.

    Returns
    -------
    pandas.DataFrame
        For a sweep, the table that `sweep` returns, with the rows completed so far; otherwise one row per
        record. `attrs["about"]` is the description.

    Examples
    --------
    >>> import tempfile, steepen as st
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = st.sweep("booth", 5, step=[0.01, 0.02], method="gd", out=f"{folder}/booth.sqlite")
    ...     st.load_results(f"{folder}/booth.sqlite").equals(table)
    True
    """
    pandas = load("pandas", "load_results", extra="pandas")
    if not Path(path).is_file():
        raise ValueError(f"path: file {os.fspath(path)!r} does not exist")
    head = read_head("path", Path(path))
    sweep = head.get("results") == "sweep"
    if sweep and "columns" not in head:
        old = (
            "has the old layout of a sweep; the steepen that wrote it, of commit 5b3703c or before, reads it"
        )
        raise ValueError(f"path: {os.fspath(path)!r} {old}")
    file = JobFile(path, head["key"])
    records = file.read().values()
    if file.damaged:
        text = "1 record is" if file.damaged == 1 else f"{file.damaged} records are"
        warnings.warn(f"path: {text} damaged in {os.fspath(path)!r} and skipped", stacklevel=2)
    made = table_of(head, records) if sweep else pandas.DataFrame(records)
    made.attrs["about"] = head
    return made


def table_of(about: Mapping[str, Any], records: Iterable[Record]) -> pd.DataFrame:
    """Return the table of a sweep from the description in its file and its batches, completed rows only."""
    pandas = load("pandas", "sweep", extra="sweep")
    functions: dict[str, Any] = about["functions"]
    settings: list[dict[str, Any]] = about["settings"]
    counts, every = [int(one["starts"]) for one in functions.values()], len(settings)
    total = every * sum(counts)
    made: dict[str, Any] = {name: np.full(total, np.nan) for name in about["columns"]}
    made |= {"status": np.zeros(total, np.uint8), **{name: np.zeros(total, np.int64) for name in COUNTS}}
    there = np.zeros(total, bool)
    for one in records:
        if "error" in one:
            continue
        rows = slice(one["row"], one["row"] + one["size"])
        there[rows] = True
        for column, values in one["rows"].items():
            made[column][rows] = unpack(values)
    setting = np.concatenate([np.repeat(range(every), count) for count in counts])
    names = pandas.Categorical(list(functions), categories=list(functions))
    columns: dict[str, Any] = {"function": names.repeat([every * count for count in counts])}
    for name in ("method", *AXES):
        values = [one.get(name) for one in settings]
        if all(value is None or is_number(value) for value in values):
            column: Any = np.array([np.nan if value is None else value for value in values], dtype=float)
        else:
            texts = ["" if value is None else str(value) for value in values]
            column = pandas.Categorical(texts, categories=list(dict.fromkeys(texts)))
        if any(value is not None for value in values):
            columns[name] = column[setting]
    columns["start"] = np.concatenate([np.tile(np.arange(count), every) for count in counts])
    f0 = [np.tile(unpack(one["f0"]), every) for one in functions.values()]
    names = {int(one): one.name for one in Status}
    made["status"] = pandas.Categorical(made["status"]).rename_categories(names)
    table: Any = pandas.DataFrame(columns | {"f0": np.concatenate(f0), **made}, copy=False)
    return table if there.all() else table[there].reset_index(drop=True)
