"""Run one solver on one problem, or all of them in parallel."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from benchmarks.problems import Problem

from steepen._tools.jobs import run
from steepen._tools.optional import load

from ._count import Counter
from .solvers import LARGEST, SOLVERS


@dataclass(frozen=True)
class Run:
    """What one solver did on one problem.

    Parameters
    ----------
    problem, solver : str
        Their names.
    evaluations : int
        How many were used; none if the solver was left out.
    improvements : tuple of (int, float)
        The number of each evaluation that found a new lowest f, and that f.
    seconds : float
        How long it took.
    message : str
        The solver's own message, or "budget spent".
    failed : bool
        Whether the solver ended with an exception.
    """

    problem: str
    solver: str
    evaluations: int
    improvements: tuple[tuple[int, float], ...]
    seconds: float
    message: str
    failed: bool = False


def measure(problem: Problem, solver: str, budget: int) -> Run:
    """Run one solver on one problem, for `budget` evaluations at most."""
    if problem.n > LARGEST.get(solver, problem.n):
        return Run(problem.name, solver, 0, (), 0.0, f"left out: n > {LARGEST[solver]}")
    counter = Counter(problem, budget)
    failed = False
    start = time.perf_counter()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # what is not finite is part of the game
        try:
            message = SOLVERS[solver](counter, problem.x0.copy())
        except ImportError:
            raise
        except Exception as error:
            # a peer may end by any error, and it is the record that should say so; `Spent` is the usual one
            failed, message = not counter.spent, f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - start
    if counter.spent:
        message = "budget spent"
    return Run(
        problem.name,
        solver,
        counter.used,
        tuple(counter.improvements),
        seconds,
        " ".join(message.split()),
        failed,
    )


def measure_all(
    problems: Sequence[Problem],
    solvers: Sequence[str],
    budget: int,
    *,
    jobs: int = -1,
    progress: bool = False,
) -> list[Run]:
    """Run every solver on every problem, in `jobs` processes (-1: one per core), each with one thread.

    The order is that of the problems, and within a problem that of the solvers. With one job everything runs
    in this process, whose threads are left alone. `joblib.parallel_config` names another place, such as Dask.
    """
    load("joblib", "benchmarks.bench", extra="bench")
    # the largest problems take the longest: begun first, none is left alone at the end
    keys = [(p.name, s) for p in sorted(problems, key=lambda p: -p.n) for s in solvers]
    named = {p.name: p for p in problems}
    done = run(
        measure, keys, send=lambda key: (named[str(key[0])], key[1], budget), jobs=jobs, strict=True,
        progress=progress, title=lambda key: f"{key[1]} on {key[0]}",
    )  # fmt: skip
    found: dict[Any, Run] = {one.key: one.value for one in done}
    return [found[p.name, s] for p in problems for s in solvers]
