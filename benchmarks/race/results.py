"""The rows of a race, what follows from them, and the text file that they are published in."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steepen._tools.files import write_whole

from .features import family
from .profiles import best_value, evaluations_to, geometric_mean, per_unknown, profile, score

AT = (10, 20, 50, 100)
"""Where the text of a data profile is read: so many times n + 1 evaluations."""
RESAMPLED = 1000
FEW = 12
"""Of so many runs the text has a line each."""


@dataclass(frozen=True)
class Row:
    """One solver on one case with one feature.

    Parameters
    ----------
    set, case, n, feature, solver
        Which solver on what.
    costs : tuple of float
        The evaluations to each accuracy: `inf` where it was not reached, NaN where the solver was left out.
        With noise, the lowest value seen need not be at the lowest point; a solver that ends at a lower one
        has reached it by its last evaluation.
    gap : float
        Where the solver ended: (f − f*)/(f0 − f*), or NaN if it named no point.
    used : int
        The evaluations that it made.
    idle : float
        The part of them after f was within 1e-8 of the lowest, of |f| or of its fall.
    success : bool
        What the solver says.
    there : bool
        Whether its end is at the minimum, by the case's own measure where it has one, else to the tightest
        accuracy.
    word, failed, outside
        How it ended, whether by an exception, and how many evaluations were outside the box.
    """

    set: str
    case: str
    n: int
    feature: str
    solver: str
    costs: tuple[float, ...]
    gap: float
    used: int
    idle: float
    success: bool
    there: bool
    word: str
    failed: bool
    outside: int


class Line(NamedTuple):
    """One solver on one set with one feature, to one accuracy, beside the reference.

    `ratio` is the geometric mean of its evaluations over the reference's on the problems that both solve,
    with an interval of 95 % over these problems; `wins`, `losses` and `ties` are against the reference
    (`profiles.score`).
    """

    set: str
    feature: str
    accuracy: float
    solver: str
    solved: int
    problems: int
    ratio: float
    low: float
    high: float
    both: int
    wins: int
    losses: int
    ties: int


@dataclass(frozen=True)
class Results:
    """All rows of a race, ordered by feature, set, case and solver; and its accuracies, the loosest first."""

    rows: Sequence[Row]
    accuracies: tuple[float, ...]

    @property
    def solvers(self) -> list[str]:
        """The solvers, in their order."""
        return list(dict.fromkeys(row.solver for row in self.rows))

    @property
    def sets(self) -> list[str]:
        """The sets, in their order."""
        return list(dict.fromkeys(row.set for row in self.rows))

    @property
    def features(self) -> list[str]:
        """The features, in their order."""
        return list(dict.fromkeys(row.feature for row in self.rows))

    def of(self, wanted: Callable[[Row], bool] = lambda row: True, **fields: Any) -> Results:
        """Return the rows that are wanted, or that have these fields."""
        kept = (row for row in self.rows if wanted(row))
        return Results(
            [row for row in kept if all(getattr(row, name) == value for name, value in fields.items())],
            self.accuracies,
        )

    def costs(self, accuracy: float) -> NDArray[np.float64]:
        """Return the evaluations to an accuracy: a row for each case, a column for each solver."""
        place = self.accuracies.index(accuracy)
        return np.array([row.costs[place] for row in self.rows]).reshape(-1, len(self.solvers))

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The n of each case."""
        return np.array([row.n for row in self.rows[:: len(self.solvers)]])

    def shares(self, solver: str, accuracy: float, at: Sequence[float] = AT) -> NDArray[np.float64]:
        """Return the part of the cases solved within so many times n + 1 evaluations: the data profile."""
        part = self.of(solver=solver)
        return profile(per_unknown(part.costs(accuracy), part.sizes), at)[0]

    def lines(self, reference: str) -> list[Line]:
        """Compare each solver with the reference, for each set, feature and accuracy."""
        if reference not in self.solvers:
            expected = f"expected one of {', '.join(self.solvers)}; got {reference!r}"
            raise ValueError(f"reference: {expected}")
        found: list[Line] = []
        for feature in self.features:
            for name in self.sets:
                part = self.of(feature=feature, set=name)
                for accuracy in self.accuracies if part.rows else ():
                    costs = dict(zip(self.solvers, part.costs(accuracy).T, strict=True))
                    for solver, own in costs.items():
                        mean, both = geometric_mean(own, costs[reference])
                        solved, interval = int(np.isfinite(own).sum()), confidence(own, costs[reference])
                        matches = score(own, costs[reference])
                        who = name, feature, accuracy, solver
                        found.append(Line(*who, solved, len(own), mean, *interval, both, *matches))
        return found

    def show(self, reference: str | None = None) -> None:
        """Print for each set, feature and accuracy a line for each solver."""
        base = reference or self.solvers[-1]
        print(f"Evaluations over those of {base}: the geometric mean over what both solve, and 95 %.")
        print("w/l/t: won, lost and tied against it. The last columns are the data profile: the part that is")
        print(f"solved within {', '.join(map(str, AT))} times n + 1 evaluations.")
        head = None
        for line in self.lines(base):
            if head != (head := (line.set, line.feature, line.accuracy)):
                title = f"{line.set} ({line.problems}), {line.feature}, to {line.accuracy:g}"
                print(
                    f"\n{title:<44}{'solved':>7}{'ratio':>7}{'':>14}{'w/l/t':>11}"
                    + "".join(f"{k:>6}" for k in AT)
                )
            part = self.of(set=line.set, feature=line.feature)
            shares = "".join(f"{share:6.2f}" for share in part.shares(line.solver, line.accuracy))
            interval = "" if math.isnan(line.low) else f"[{line.low:.3g}, {line.high:.3g}]"
            matches = f"{line.wins}/{line.losses}/{line.ties}"
            print(f"{line.solver:<44}{line.solved:>7}{line.ratio:>7.3g}{interval:>14}{matches:>11}{shares}")
        if len(self.rows) <= FEW:
            self._show_ends()
        for row in self.rows:
            if row.failed or row.outside:
                what = (
                    f"ended by {row.word}"
                    if row.failed
                    else f"evaluated {row.outside} points outside the box"
                )
                print(f"{row.solver} on {row.case}, {row.feature}: {what}")

    def _show_ends(self) -> None:
        """Print how each run ended."""
        print(f"\n{'ends':<44}{'evaluations':>12}{'above f*':>12}  of f0 − f*, by f without its noise")
        for row in self.rows:
            who = f"{row.solver} on {row.case}, {row.feature}"
            success = "success" if row.success else "failure"
            print(f"{who:<44}{row.used:>12}{row.gap:>12.2g}  {success}, {row.word}")

    def save(self, path: Path) -> None:
        """Write the rows as text, whole."""
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*_BEFORE, *(f"to {accuracy:g}" for accuracy in self.accuracies), *_AFTER])
        for row in self.rows:
            before, after = ([getattr(row, name) for name in names] for names in (_BEFORE, _AFTER))
            writer.writerow([_cell(value) for value in (*before, *row.costs, *after)])
        write_whole(path, lambda file: file.write(text.getvalue().encode()))

    @classmethod
    def load(cls, path: Path) -> Results:
        """Read what `save` wrote; numbers have the digits that were written."""
        with path.open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
        levels = [name for name in lines[0] if name.startswith("to ")]
        kinds: dict[str, Callable[[str], Any]] = {
            "n": int, "used": int, "outside": int, "gap": float, "idle": float,
            "success": bool, "there": bool, "failed": bool,
        }  # fmt: skip
        rows = [
            Row(
                **{name: kinds.get(name, str)(line[name]) for name in (*_BEFORE, *_AFTER)},
                costs=tuple(float(line[name]) for name in levels),
            )
            for line in lines
        ]
        return cls(rows, tuple(float(name.removeprefix("to ")) for name in levels))


_BEFORE = ("set", "case", "n", "feature", "solver")
_AFTER = ("gap", "used", "idle", "success", "there", "word", "failed", "outside")


def _cell(value: Any) -> str:
    """Return a value as text; False is empty, so that every text that is not is True."""
    if isinstance(value, bool):
        return "yes" if value else ""
    return (
        f"{value:.4g}"
        if isinstance(value, float) and not value.is_integer()
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def confidence(costs: Any, others: Any) -> tuple[float, float]:
    """Return an interval of 95 % for the geometric mean of costs/others: a bootstrap over the problems."""
    a, b = np.asarray(costs, dtype=float), np.asarray(others, dtype=float)
    both = np.isfinite(a) & np.isfinite(b)
    logs = np.log(a[both] / b[both])
    if len(logs) < 3 or not logs.any():
        return math.nan, math.nan
    means = logs[np.random.default_rng(0).integers(len(logs), size=(RESAMPLED, len(logs)))].mean(axis=1)
    low, high = np.exp(np.quantile(means, [0.025, 0.975]))
    return float(low), float(high)


def rows_of(
    records: Iterable[tuple[tuple[str, str, str, str], dict[str, Any]]], accuracies: Sequence[float]
) -> list[Row]:
    """Return the rows of runs; a key is set, case, feature and solver.

    f* of a case is the lowest value, as it is judged, that any run on it saw or ended at, with any feature
    that leaves the minimum where it is. If that is within the tightest accuracy of the lowest value known,
    f* is the lower of the two: a value that no solver reached is not held against any of them.
    """
    runs = list(records)
    lowest: dict[tuple[str, str, str], float] = {}
    for (set_, case, feature, _), record in runs:
        key = set_, case, family(feature)
        values = [f for _, f in record.get("improvements", ())]
        end = record.get("end")
        if end is not None and math.isfinite(end):
            values.append(end)
        lowest[key] = min([lowest.get(key, math.inf), *values])
    rows: list[Row] = []
    for (set_, case, feature, solver), record in runs:
        f0, reached = record["f0"], lowest[set_, case, family(feature)]
        fstar = best_value(f0, record["known"], min(reached, f0), accuracies[-1])
        plain = Row(
            set_, case, record["n"], feature, solver, (math.nan,) * len(accuracies), math.nan, record["used"],
            math.nan, False, False, record["word"], False, 0,
        )  # fmt: skip
        if "improvements" not in record:  # left out
            rows.append(plain)
            continue
        steps: list[tuple[int, float]] = [(k, f) for k, f in record["improvements"]]
        end, allowed, used = record["end"], record["allowed"], record["used"]
        gap = _gap(end, f0, fstar)
        costs = tuple(
            min(evaluations_to(steps, f0, fstar, accuracy), used if gap <= accuracy else math.inf)
            for accuracy in accuracies
        )
        there = end <= allowed if allowed is not None and end is not None else math.isfinite(costs[-1])
        rows.append(
            replace(
                plain,
                costs=costs,
                gap=gap,
                idle=idle_part(steps, f0, used),
                success=record["success"],
                there=bool(there),
                failed=record["failed"],
                outside=record["outside"],
            )
        )
    return rows


def _gap(end: float | None, f0: float, fstar: float) -> float:
    """Return (f − f*)/(f0 − f*), NaN where a solver named no point or one where f is none."""
    if end is None or math.isnan(end):
        return math.nan
    if f0 > fstar:
        return (end - fstar) / (f0 - fstar)
    return 0.0 if end <= fstar else math.inf


def idle_part(steps: Sequence[tuple[int, float]], f0: float, used: int) -> float:
    """Return the part of the evaluations after f was within 1e-8 of where it ended, of |f| or of its fall."""
    if not steps:
        return math.nan
    end, last = steps[-1]
    near = last + 1e-8 * max(abs(last), f0 - last)
    return 1 - next((k for k, f in steps if f <= near), end) / used  # −∞ is near nothing
