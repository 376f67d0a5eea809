"""One race: problem sets × solvers × features, to a limit of evaluations.

One evaluation is f and ∇f at one point; without a gradient it is one value. A problem counts as solved to
an accuracy τ at the first evaluation with (f − f*)/(f0 − f*) ≤ τ, by f without its noise where it has some,
or at its last one if the solver ends at such a point. f* is the lowest value that any solver of the race
reached (`results.rows_of`).

    from benchmarks.race import Case, race

    race([Case("mine", loss, [1.0, 2.0])], ["cgd-auto", "Nelder-Mead"], ["noise=1e-3"]).show()

On the command line: python -m benchmarks race --fun mine:loss --start 1 2 --features noise=1e-3
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.problems import Case
from benchmarks.problems import cases as cases_of

from steepen._tools.check import number, whole
from steepen._tools.jobs import JobFile, run
from steepen._tools.workers import check_workers

from .features import parsed
from .one import measure
from .results import Line, Results, Row, rows_of
from .solvers import SOLVERS, available, feature_for, mark, named

__all__ = ["ACCURACIES", "SOLVERS", "Case", "Line", "Results", "Row", "available", "race"]

ACCURACIES = (1e-3, 1e-5, 1e-8)
LIMIT = 3000
KEY = ("set", "case", "feature", "solver", "mark")
OWN = "own"
"""The set of cases that are not of a set."""


def race(
    sets: Sequence[str | Case], solvers: Sequence[str], features: Sequence[str] = ("plain",), *,
    limit: int = LIMIT, tight: bool = True, accuracies: Sequence[float] = ACCURACIES,
    seconds: float = math.inf, store: str | os.PathLike[str] | None = None, workers: Any = None,
    progress: bool = False,
) -> Results:  # fmt: skip
    """Run solvers on problems with features, and count their evaluations to each accuracy.

    Parameters
    ----------
    sets : sequence of str or Case
        Names from `benchmarks.problems.SETS`, and cases of your own.
    solvers : sequence of str
        Names from `SOLVERS`.
    features : sequence of str
        "plain", or what is wrong with a function (`race.features`), such as "values+noise=1e-4".
    limit : int
        The evaluations for each solver on each problem: a hard limit.
    tight : bool
        Whether tolerances are as tight as they go; otherwise each solver has its own defaults.
    accuracies : sequence of float
        The τ of (f − f*)/(f0 − f*) ≤ τ.
    seconds : float
        The time for each run, after which the solver is stopped.
    store : path, optional
        An SQLite file for the runs; what it holds is not run again, unless solver or problems have changed.
    workers : int, executor or map-like callable, optional
        Where runs are made, as in `steepen.sweep`.
    progress : bool
        Show a progress bar, if standard error is a terminal.

    Returns
    -------
    Results

    Examples
    --------
    >>> from benchmarks.race import Case, race
    >>> bowl = Case("bowl", lambda x: float(((x - 1) ** 2).sum()), [3.0, 4.0])
    >>> [row.used <= 200 for row in race([bowl], ["cgd-auto", "Nelder-Mead"], tight=False).rows]
    [True, True]
    """
    levels = _levels(accuracies)
    entries = _entries(sets)
    for name, given in (("solvers", solvers), ("features", features)):
        _check_names(name, given)
    for feature in features:
        parsed(feature)
    for solver in solvers:
        named(solver)
    whole("limit", limit, 1)
    if not seconds > 0:
        raise ValueError(f"seconds: expected a positive number, got {seconds!r}")
    check_workers(workers)
    if any(key[0] == "learning" for key in entries):  # better now than in the middle
        cases_of("learning")
    settings = {"results": "race", "limit": limit, "tight": tight, "seconds": str(seconds)}
    file = None if store is None else JobFile(store, KEY, settings)
    if file is not None and any(key[0] == OWN for key in entries):
        raise ValueError("store: expected none with cases of your own, which a file cannot tell apart")
    # the largest problems take the longest: begun first, none is left alone at the end
    keys = [
        (*entry, feature_for(solver, feature), solver, mark(solver))
        for entry in sorted(entries, key=lambda entry: -entries[entry][1])
        for feature in features
        for solver in solvers
    ]

    def send(key: Any) -> tuple[Any, ...]:
        return entries[key[0], key[1]][0], key[2], key[3], limit, tight, seconds

    found: dict[Any, dict[str, Any]] = {}
    shown = lambda key: f"{key[3]} on {key[1]}, {key[2]}"  # noqa: E731
    for done in run(measure, keys, send=send, file=file, workers=workers, progress=progress, title=shown):
        if done.error is not None:
            raise RuntimeError(f"{shown(done.key)}: {done.error}")
        found[done.key[:4]] = done.value
    order = [(*entry, feature, solver) for feature in features for entry in entries for solver in solvers]
    records = [
        ((*entry, feature, solver), found[*entry, feature_for(solver, feature), solver])
        for *entry, feature, solver in order
    ]
    return Results(rows_of(records, levels), levels)


def _levels(accuracies: Sequence[float]) -> tuple[float, ...]:
    for accuracy in accuracies:
        number("accuracies", accuracy, "numbers between 0 and 1", above=0, below=1)
    levels = tuple(sorted(set(accuracies), reverse=True))
    if not levels:
        raise ValueError("accuracies: expected at least one number, got none")
    return levels


def _entries(sets: Sequence[str | Case]) -> dict[tuple[str, str], tuple[Any, int]]:
    """Return for each set and case what a worker is sent, and n."""
    if isinstance(sets, str | Case):
        raise TypeError(f"sets: expected a list of names and cases, got {sets!r}")
    found: dict[tuple[str, str], tuple[Any, int]] = {}
    for one in sets:
        if isinstance(one, Case):
            case = Case(**{**vars(one), "x0": np.array(one.x0, dtype=float)})
            if case.x0.ndim != 1 or not len(case.x0):
                raise ValueError(f"sets: expected a start of shape (n,) for {one.name!r}, got {one.x0!r}")
            new: dict[tuple[str, str], tuple[Any, int]] = {(OWN, one.name): (case, len(case.x0))}
        elif isinstance(one, str):
            new = {(one, name): ((one, name), len(case.x0)) for name, case in cases_of(one).items()}
        else:
            raise TypeError(f"sets: expected names and cases, got {one!r}")
        if twice := [key for key in new if key in found]:
            raise ValueError(f"sets: {twice[0][1]!r} is named twice")
        found |= new
    if not found:
        raise ValueError("sets: expected at least one, got none")
    return found


def _check_names(name: str, given: Sequence[str]) -> None:
    if isinstance(given, str):
        raise TypeError(f"{name}: expected a list of names, got {given!r}")
    if not given:
        raise ValueError(f"{name}: expected at least one, got none")
    twice = [one for i, one in enumerate(given) if one in given[:i]]
    if twice:
        raise ValueError(f"{name}: {twice[0]!r} is named twice")


def store_path(name: str) -> Path:
    """Return where a command keeps its runs."""
    return Path("out", "race", f"{name}.sqlite")
