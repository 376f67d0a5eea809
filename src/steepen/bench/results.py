"""What comes out of a run: a row for each solver on each problem, and their summary."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._tools.files import write_whole
from .profiles import geometric_mean, score

__all__ = ["Line", "Results", "Row"]

_HEAD = ("suite", "problem", "n", "solver")
_TAIL = ("f", "f0", "fstar", "evaluations", "budget", "seconds", "failed", "message")


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
        The least value found, that at the start, and the f* of the problem in this run.
    evaluations, budget : int
        How many were used, and how many there were.
    seconds, failed, message
        How long it took, whether it ended by an error, and the last words.

    Examples
    --------
    >>> import steepen as st
    >>> from steepen import bench
    >>> results = bench.run([st.problems["beale"]], ["BB"], budget=3, jobs=1)
    >>> results.rows[0].evaluations, results.rows[0].message
    (3, 'budget spent')
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
        Against the reference; see `steepen.bench.profiles.score`.
    subject_ratio : float
        The subject's evaluations over those of this solver, as `ratio`.

    Examples
    --------
    >>> import steepen as st
    >>> from steepen import bench
    >>> results = bench.run([st.problems["beale"]], ["BB", "L-BFGS-B"], budget=500, jobs=1)
    >>> line = results.summary()[1]
    >>> line.solver, line.ratio, line.ties
    ('L-BFGS-B', 1.0, 1)
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
    """All rows of a run, in the order of the problems, and of the solvers within.

    Parameters
    ----------
    rows : sequence of Row
        A row for each solver on each problem.
    accuracies : tuple of float
        The accuracies τ, the loosest first.

    Examples
    --------
    >>> import steepen as st
    >>> from steepen import bench
    >>> results = bench.run([st.problems["beale"]], ["BB", "L-BFGS-B"], budget=500, jobs=1)
    >>> results.solvers, results.suites
    (['BB', 'L-BFGS-B'], ['mgh'])
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
        """Give the part of it on the problems of a suite with n ≤ most.

        Examples
        --------
        >>> import steepen as st
        >>> from steepen import bench
        >>> results = bench.run([st.problems["beale"], st.problems["misra1a-1"]], ["BB"], budget=9, jobs=1)
        >>> [row.problem for row in results.of("nist").rows]
        ['misra1a-1']
        """
        return Results([r for r in self.rows if r.suite == suite and r.n <= most], self.accuracies)

    def costs(self, accuracy: float) -> NDArray[np.float64]:
        """Give the evaluations to an accuracy: a row for each problem, a column for each solver.

        Examples
        --------
        >>> import steepen as st
        >>> from steepen import bench
        >>> results = bench.run([st.problems["beale"]], ["BB", "L-BFGS-B"], budget=3, jobs=1)
        >>> results.costs(1e-8).shape
        (1, 2)
        """
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

        Examples
        --------
        >>> import steepen as st
        >>> from steepen import bench
        >>> results = bench.run([st.problems["beale"]], ["BB", "L-BFGS-B"], budget=500, jobs=1)
        >>> [(line.accuracy, line.solver, line.wins, line.losses) for line in results.summary()][:2]
        [(0.001, 'BB', 0, 1), (0.001, 'L-BFGS-B', 0, 0)]
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

    def to_csv(self) -> str:
        """Write the rows as CSV; an accuracy that was not reached is an empty cell.

        Examples
        --------
        >>> import steepen as st
        >>> from steepen import bench
        >>> print(bench.run([st.problems["beale"]], ["BB"], budget=3, jobs=1).to_csv().splitlines()[0])
        suite,problem,n,solver,to 0.001,to 1e-05,to 1e-08,f,f0,fstar,evaluations,budget,seconds,failed,message
        """
        columns = [*_HEAD, *(f"to {accuracy:g}" for accuracy in self.accuracies), *_TAIL]
        lines = (
            (
                *(getattr(row, name) for name in _HEAD),
                *(int(cost) if math.isfinite(cost) else "" for cost in row.costs),
                *(getattr(row, name) for name in _TAIL),
            )
            for row in self.rows
        )
        return _csv([columns, *lines])

    @classmethod
    def from_csv(cls, text: str) -> Results:
        """Read what `to_csv` wrote.

        Examples
        --------
        >>> import steepen as st
        >>> from steepen import bench
        >>> results = bench.run([st.problems["beale"]], ["BB"], budget=3, jobs=1)
        >>> Results.from_csv(results.to_csv()) == results
        True
        """
        table = list(csv.DictReader(io.StringIO(text, newline="")))
        names = [name for name in table[0] if name.startswith("to ")] if table else []
        if not names or not {*_HEAD, *_TAIL} <= set(table[0]):
            raise ValueError("text: expected the rows of `to_csv`, with its first line")
        rows: list[Row] = []
        for cells in table:
            missing = math.inf if int(cells["evaluations"]) else math.nan
            rows.append(
                Row(
                    cells["suite"], cells["problem"], int(cells["n"]), cells["solver"],
                    tuple(float(cells[name]) if cells[name] else missing for name in names),
                    float(cells["f"]), float(cells["f0"]), float(cells["fstar"]),
                    int(cells["evaluations"]), int(cells["budget"]), float(cells["seconds"]),
                    cells["failed"] == "True", cells["message"],
                )
            )  # fmt: skip
        return cls(rows, tuple(float(name.removeprefix("to ")) for name in names))

    def save(
        self, folder: str | os.PathLike[str], reference: str = "L-BFGS-B", subject: str | None = None
    ) -> None:
        """Write `results.csv` and `summary.csv` into a folder that is there.

        Examples
        --------
        >>> import tempfile, steepen as st
        >>> from steepen import bench
        >>> results = bench.run([st.problems["beale"]], ["BB"], budget=3, jobs=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     results.save(folder, reference="BB")
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['results.csv', 'summary.csv']
        """
        lines = [["" if cell != cell else cell for cell in line] for line in self.summary(reference, subject)]
        for name, text in (("results", self.to_csv()), ("summary", _csv([Line._fields, *lines]))):
            write_whole(Path(folder, f"{name}.csv"), lambda file, text=text: file.write(text.encode()))


def _csv(lines: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()
