"""The results of a run: a row for each solver on each problem, and a summary."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steepen import load_results
from steepen._tools.jobs import JobFile

from .profiles import geometric_mean, score

_KEY = ("suite", "problem", "solver")


@dataclass(frozen=True)
class Row:
    """One solver on one problem.

    Parameters
    ----------
    suite, problem, n, solver
        Which solver on which problem.
    costs : tuple of float
        The evaluations to each accuracy: `inf` where it was not reached, NaN where the solver was left out.
    f, f0, fstar : float
        The lowest value found, the value at the start, and f* of the problem in this run.
    evaluations, budget : int
        How many were used, and how many were allowed.
    seconds, failed, message
        How long it took, whether it ended with an exception, and the solver's message.
    """

    suite: str
    problem: str
    n: int
    solver: str
    costs: tuple[float, ...]
    f: float
    f0: float
    fstar: float
    evaluations: int
    budget: int
    seconds: float
    failed: bool
    message: str


class Line(NamedTuple):
    """One solver in one group of problems, to one accuracy.

    Parameters
    ----------
    group : str
        The suite, or "mgh, n ≤ 10".
    accuracy, solver
        Which solver, and to which accuracy.
    solved, problems : int
        How many it solved, and how many there are.
    ratio, both : float, int
        Its evaluations over those of the reference, as a geometric mean over the problems that both solve,
        and how many these are.
    wins, losses, ties : int
        Against the reference; see `benchmarks.bench.profiles.score`.
    subject_ratio : float
        The subject's evaluations over those of this solver, as `ratio`.
    """

    group: str
    accuracy: float
    solver: str
    solved: int
    problems: int
    ratio: float
    both: int
    wins: int
    losses: int
    ties: int
    subject_ratio: float


@dataclass(frozen=True)
class Results:
    """All rows of a run, ordered by problem and then by solver.

    Parameters
    ----------
    rows : sequence of Row
        A row for each solver on each problem.
    accuracies : tuple of float
        The accuracies τ, the loosest first.
    """

    rows: Sequence[Row]
    accuracies: tuple[float, ...]

    @property
    def solvers(self) -> list[str]:
        """The solvers, in their order."""
        return list(dict.fromkeys(row.solver for row in self.rows))

    @property
    def suites(self) -> list[str]:
        """The suites, in their order."""
        return list(dict.fromkeys(row.suite for row in self.rows))

    def of(self, suite: str, most: float = math.inf) -> Results:
        """Return the rows for the problems of one suite with n ≤ most."""
        return Results([r for r in self.rows if r.suite == suite and r.n <= most], self.accuracies)

    def costs(self, accuracy: float) -> NDArray[np.float64]:
        """Return the evaluations to an accuracy: a row for each problem, a column for each solver."""
        place = self.accuracies.index(accuracy)
        flat = np.array([row.costs[place] for row in self.rows])
        return flat.reshape(-1, len(self.solvers))

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The n of each problem."""
        return np.array([row.n for row in self.rows[:: len(self.solvers)]])

    def summary(self, reference: str = "L-BFGS-B", subject: str | None = None) -> list[Line]:
        """Compare each solver with the reference, and the subject (by default the first solver) with each.

        The groups are the suites; for "mgh" there is one more, of its problems with n ≤ 10.
        """
        solvers = self.solvers
        for name, solver in (("reference", reference), ("subject", subject)):
            if solver is not None and solver not in solvers:
                raise ValueError(f"{name}: expected one of the solvers {', '.join(solvers)}; got {solver!r}")
        groups: dict[str, Results] = {}
        for suite in self.suites:
            groups[suite] = self.of(suite)
            if suite == "mgh":
                groups["mgh, n ≤ 10"] = self.of(suite, most=10)
        lines: list[Line] = []
        for group, part in groups.items():
            for accuracy in self.accuracies if part.rows else ():
                costs = dict(zip(solvers, part.costs(accuracy).T, strict=True))
                base, chosen = costs[reference], costs[subject or solvers[0]]
                lines.extend(
                    Line(
                        group, accuracy, solver, int(np.isfinite(own).sum()), len(own),
                        *geometric_mean(own, base), *score(own, base), geometric_mean(chosen, own)[0],
                    )
                    for solver, own in costs.items()
                )  # fmt: skip
        return lines

    def save(
        self, folder: str | os.PathLike[str], reference: str = "L-BFGS-B", subject: str | None = None
    ) -> None:
        """Write `results.jsonl` (for `steepen.load_results`) and `summary.csv` into an existing folder."""
        path = Path(folder, "results.jsonl")
        path.unlink(missing_ok=True)
        file = JobFile(path, _KEY, {"results": "evaluations", "accuracies": self.accuracies})
        for row in self.rows:
            fields = asdict(row)
            file.add(tuple(fields.pop(name) for name in _KEY), fields)
        with Path(folder, "summary.csv").open("w", newline="", encoding="utf-8") as summary:
            csv.writer(summary, lineterminator="\n").writerows(
                [Line._fields, *self.summary(reference, subject)]
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Results:
        """Read what `save` wrote."""
        table = load_results(path)
        rows = [Row(**{**row, "costs": tuple(row["costs"])}) for row in table.to_dict("records")]
        return cls(rows, tuple(table.attrs["about"]["accuracies"]))
