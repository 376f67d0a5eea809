"""`run`: every solver on every problem, and the evaluations that each needed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from benchmarks.problems import Problem
from benchmarks.problems import problems as all_problems

from steepen._tools.check import number, one_of, whole
from steepen._tools.optional import load

from .measure import Run, measure_all
from .profiles import best_value, evaluations_to
from .results import Results, Row
from .solvers import SOLVERS, available

ACCURACIES = (1e-3, 1e-5, 1e-8)
BUDGET = 3000


def run(
    problems: Sequence[Problem] | None = None,
    solvers: Sequence[str] | None = None,
    *,
    budget: int = BUDGET,
    accuracies: Sequence[float] = ACCURACIES,
    jobs: int = -1,
    progress: bool = False,
) -> Results:
    """Run solvers on problems, and count their evaluations to each accuracy.

    Parameters
    ----------
    problems : sequence of Problem, optional
        By default all of `benchmarks.problems`.
    solvers : sequence of str, optional
        Names from `SOLVERS`; by default all that are `available`.
    budget : int
        The evaluations for each solver on each problem: a hard limit.
    accuracies : sequence of float
        The τ of (f − f*)/(f0 − f*) ≤ τ.
    jobs : int
        How many processes; -1 is one for each core.
    progress : bool
        Show a progress bar, if standard error is a terminal.

    Returns
    -------
    Results
    """
    chosen = list(all_problems.values()) if problems is None else list(problems)
    names = available() if solvers is None else list(solvers)
    _check(chosen, names)
    whole("budget", budget, 1)
    for accuracy in accuracies:
        number("accuracies", accuracy, "numbers between 0 and 1", above=0, below=1)
    levels = tuple(sorted(set(accuracies), reverse=True))
    if not levels:
        raise ValueError("accuracies: expected at least one number, got none")
    if not (isinstance(jobs, int) and (jobs == -1 or jobs > 0)):
        raise ValueError(f"jobs: expected a positive whole number, or -1 for one a core; got {jobs!r}")
    if any(problem.suite == "learning" for problem in chosen):  # better now than in the middle
        load("sklearn", "the suite learning", extra="bench")
    for solver in names:
        if solver.startswith("NLopt"):
            load("nlopt", f"the solver {solver}", extra="bench")
    runs = measure_all(chosen, names, budget, jobs=jobs, progress=progress)
    rows: list[Row] = []
    for i, problem in enumerate(chosen):
        rows += _rows(problem, runs[i * len(names) : (i + 1) * len(names)], budget, levels)
    return Results(rows, levels)


def _check(problems: Sequence[Any], solvers: Sequence[Any]) -> None:
    for name, things in (("problems", problems), ("solvers", solvers)):
        if not things:
            raise ValueError(f"{name}: expected at least one, got none")
    for problem in problems:
        if not isinstance(problem, Problem):
            raise TypeError(f"problems: expected Problem objects, got {problem!r}")
    for solver in solvers:
        one_of("solvers", solver, SOLVERS)
    for name, keys in (("problems", [p.name for p in problems]), ("solvers", list(solvers))):
        twice = [key for i, key in enumerate(keys) if key in keys[:i]]
        if twice:
            raise ValueError(f"{name}: {twice[0]!r} is named twice")


def _rows(problem: Problem, runs: Sequence[Run], budget: int, accuracies: tuple[float, ...]) -> list[Row]:
    """Return the rows of one problem, all with the same f*."""
    f0 = float(problem(problem.x0))
    lowest = [run.improvements[-1][1] if run.improvements else f0 for run in runs]
    fstar = best_value(f0, problem.fbest, min(lowest), accuracies[-1])
    return [
        Row(
            problem.suite, problem.name, problem.n, run.solver,
            tuple(
                evaluations_to(run.improvements, f0, fstar, accuracy) if run.evaluations else math.nan
                for accuracy in accuracies
            ),
            f, f0, fstar, run.evaluations, budget, run.seconds, run.failed, run.message,
        )
        for run, f in zip(runs, lowest, strict=True)
    ]  # fmt: skip
