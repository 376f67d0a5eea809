"""The study behind the item `tuned`: its starts and runs, and its stored tables, which it only reads.

`python -m benchmarks.tuned` tunes and judges the methods with it, and writes the three tables.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..budget import Budget
from ..result import Result as Run
from ..status import Status
from ._runs import Floats, minimize

FOLDER = Path(__file__).parent

BUDGETS = (40, 100, 400)  # gradients per run; every method is tuned for each of them
TUNING, JUDGED, SEED = 40, 200, 0  # starts to tune on (half in 10 dimensions), to judge on; the seed of both
STAGES = (64, 48, 32)  # trials: over the whole range, then around the best of the stage before
SHOWN = 100  # the budget in the figures

BOXED = ("eggholder", "forrester", "gramacy-lee", "holder-table", "mccormick", "michalewicz", "schwefel")
"""Functions that are lower outside their box than at their minimum in it: runs on them stay in the box."""

LEVEL = 1e-6  # two ends are level if they differ by at most this share of the decrease
CLEAR = 0.1  # a method is ahead if it wins this share of the starts more than it loses, and beyond chance

HAPPENED = ("diverged", "plateau", "basin", "faster")
"""What the method that lost did: it ended above its start, hardly moved, headed for a higher minimum, or was
behind on the way to one as low."""

PAIRS = (("gd", "cgd-fd"), ("gd", "cgd-fd-negative"), ("gd-two", "cgd-fd"), ("bfgs", "cgd-bfgs"),
         ("gd", "cgd-bfgs"), ("gd", "cgd-auto"))  # fmt: skip
"""What is compared: the plain method, and the one with a penalty."""

NAMES = {
    "gd": "GD", "gd-two": "GD with two step sizes", "cgd-fd": "CGD-FD, λ > 0",
    "cgd-fd-negative": "CGD-FD, λ < 0", "bfgs": "BFGS", "cgd-bfgs": "CGD-BFGS", "cgd-auto": "cgd-auto",
}  # fmt: skip


class Setting(NamedTuple):
    """The settings of a method: α, λ, r, b, and an α for the first b steps; NaN if it has no such setting."""

    step: Any = np.nan
    lam: Any = np.nan
    r: Any = np.nan
    b: Any = np.nan
    first: Any = np.nan

    def keywords(self, method: str) -> dict[str, Any]:
        """Return them as keywords of `minimize`."""
        given = self._asdict() | {"b": self.b if np.isnan(self.b) else int(self.b)}
        free = {"cgd-auto": (), "cgd-bfgs": ("step", "lam"), "cgd-fd": ("step", "lam", "r", "b")}
        return {name: given[name] for name in free.get(method, ("step",))}


_OVERFLOWED = (Status.NONFINITE_VALUE, Status.NONFINITE_GRADIENT, Status.UNBOUNDED, Status.DIVERGED)


class Ends(NamedTuple):
    """The last points of the runs of a method, and f there; infinity if a run overflowed."""

    x: Floats
    f: Floats


def starts(function: Any, tuning: int = TUNING, judged: int = JUDGED) -> tuple[Floats, Floats]:
    """Return the starts to tune on and those to judge on."""
    low, high = function.bounds.T
    points = np.random.default_rng([SEED, function.n]).uniform(low, high, (tuning + judged, len(low)))
    return points[:tuning], points[tuning:]


def run(function: Any, method: str, setting: Setting, starts: Floats, grads: int, **more: Any) -> Run:
    """Run a method from all starts with this many gradients."""
    bounds = function.bounds if function.name in BOXED else None
    more = {"trace": False, "budget": Budget(grads=grads), **setting.keywords(method), **more}
    return minimize(function.__call__, starts, method=method, jac=function.grad, bounds=bounds, **more)


def ends(made: Run) -> Ends:
    """Return the last points of runs, which the paper's listings return."""
    over = np.isin(made.status, _OVERFLOWED)
    return Ends(np.asarray(made.x), np.where(over, np.inf, np.asarray(made.fun, dtype=float)))


def won(first: Any, plain: Ends, penalised: Ends) -> tuple[Any, Any]:
    """Return masks of the starts, with these f, from which the penalised method ends lower, and higher."""
    fall = np.maximum(first - np.minimum(plain.f, penalised.f), 0.0)
    return plain.f > penalised.f + LEVEL * fall, penalised.f > plain.f + LEVEL * fall


def left(f: Any, first: Any, lowest: float) -> Floats:
    """Return f − f* as a share of the start's, between `LEVEL` and 1."""
    return np.clip((f - lowest) / np.maximum(first - lowest, 1e-300), LEVEL, 1.0)


# --- the stored tables ----------------------------------------------------------------------------------


class Result(NamedTuple):
    """A comparison of a plain method with a penalised one, on one function with one budget.

    `won` and `lost` count the judged starts from which the penalised one ends lower and higher; `low` and
    `high` are 95 % limits of won − lost as a share of the starts. The medians of f − f* have such limits too,
    and `happened` counts `HAPPENED`, first for the starts won and then for those lost.
    """

    function: str
    n: int
    gradients: int
    plain: str
    penalised: str
    won: int
    lost: int
    low: float
    high: float
    plain_median: tuple[float, ...]
    penalised_median: tuple[float, ...]
    happened: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def net(self) -> float:
        """The share of starts won minus the share lost."""
        return (self.won - self.lost) / JUDGED

    @property
    def verdict(self) -> int:
        """1 if the penalised method is ahead, by `CLEAR` and beyond chance; −1 if it is behind; or 0."""
        if abs(self.net) < CLEAR or self.low <= 0 <= self.high:
            return 0
        return 1 if self.net > 0 else -1

    @property
    def why(self) -> Why:
        """The title of the function, and the properties of its landscape."""
        return reasons()[self.function, self.n]


class Why(NamedTuple):
    """A function's title, and properties of its landscape, as `why` in benchmarks/tuned.py defines them."""

    title: str
    condition: float
    down: float
    spread: float
    best_negative: float
    points: float


def _rows(name: str) -> list[list[str]]:
    with (FOLDER / f"tuned_{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


@cache
def results() -> list[Result]:
    """Return the stored comparisons."""
    made: list[Result] = []
    for name, n, grads, plain, penalised, won, lost, *rest in _rows("results"):
        f, counts = [float(v) for v in rest[:8]], [int(v) for v in rest[8:]]
        happened = tuple(counts[: len(HAPPENED)]), tuple(counts[len(HAPPENED) :])
        made.append(Result(name, int(n), int(grads), plain, penalised, int(won), int(lost), low=f[0],
                           high=f[1], plain_median=tuple(f[2:5]), penalised_median=tuple(f[5:8]),
                           happened=happened))  # fmt: skip
    return made


@cache
def settings() -> dict[tuple[str, int, int, str], Setting]:
    """Return the tuned settings by function, dimension, budget and method."""
    return {
        (row[0], int(row[1]), int(row[2]), row[3]): Setting(*map(float, row[4:])) for row in _rows("settings")
    }


@cache
def reasons() -> dict[tuple[str, int], Why]:
    """Return the stored reasons by function and dimension."""
    return {(row[0], int(row[1])): Why(row[2], *map(float, row[3:])) for row in _rows("why")}


def of(plain: str, penalised: str, grads: int) -> list[Result]:
    """Return the comparisons of two methods with one budget."""
    return [
        row for row in results() if (row.plain, row.penalised, row.gradients) == (plain, penalised, grads)
    ]


def counted(rows: Iterable[Result]) -> tuple[int, int, int]:
    """Count the functions on which the penalised method is ahead, behind, and neither."""
    verdicts = [row.verdict for row in rows]
    return verdicts.count(1), verdicts.count(-1), verdicts.count(0)


def happened(rows: Iterable[Result], side: int) -> dict[str, int]:
    """Add up what happened from the starts won (0) or lost (1) by the penalised method."""
    every = np.array([row.happened[side] for row in rows])
    return dict(zip(HAPPENED, every.sum(axis=0).tolist(), strict=True))


def rank_correlation(a: Floats, b: Floats) -> float:
    """Return Spearman's coefficient, which averages the ranks of equal values."""
    from scipy.stats import rankdata  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    matrix: Any = np.corrcoef([rankdata(a), rankdata(b)])
    return float(matrix[0, 1])
