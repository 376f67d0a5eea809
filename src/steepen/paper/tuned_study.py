"""Does λ > 0 help a gradient descent that is already tuned? The study behind the item `tuned`.

Every method chooses its settings with the same number of trials, on the same starts, with the same gradients;
then all are judged on other starts. `python benchmarks/tuned.py` runs all of it and writes the tables that
`tuned` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from .. import theory
from .._core.result import Result, Status, Trace
from .._minimize import minimize
from ..budget import Budget
from ..functions import functions

__all__ = [
    "BOXED",
    "BUDGETS",
    "FAMILIES",
    "HAPPENED",
    "JUDGED",
    "PAIRS",
    "RESULTS",
    "SETTINGS",
    "STAGES",
    "TUNING",
    "WHY",
    "Ends",
    "Family",
    "Problem",
    "Setting",
    "compare",
    "happened",
    "judge",
    "left",
    "problems",
    "settings_of",
    "spread",
    "tune",
    "why",
]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

BUDGETS = (40, 100, 400)
"""Gradients that a run may take; every method is tuned for each of them."""

TUNING, JUDGED, SEED = 40, 200, 0
"""Starts to tune on (half of them in 10 dimensions), others to judge on, and the seed of both."""

STAGES = (64, 48, 32)
"""Trials: over the whole range, then around the best of the stage before."""

BOXED = ("eggholder", "forrester", "gramacy-lee", "holder-table", "mccormick", "michalewicz", "schwefel")
"""Functions that are lower outside of their box than their minimum in it: runs on them stay in the box."""

LEVEL = 1e-6
"""Two ends are level if they differ by no more than this part of the fall."""

DECADES = {"step": (-6.0, 1.0), "lam": (-2.0, 3.0), "r": (-3.0, 1.0), "first": (0.0, 3.0)}
"""The ranges in powers of ten: α in units of (size of the box)/(usual slope); |λ|, r and the first α in α."""


@dataclass(frozen=True)
class Family:
    """A method with the settings that it may choose.

    Examples
    --------
    >>> FAMILIES["cgd-fd"].free
    ('step', 'lam', 'r')
    """

    method: str
    free: tuple[str, ...] = ("step",)
    sign: int = 1
    shares: tuple[float, ...] = ()  # b as a share of the budget; the first is the paper's


FAMILIES: Mapping[str, Family] = {
    "gd": Family("gd"),
    "cgd-fd": Family("cgd-fd", ("step", "lam", "r"), 1, (0.25, 0.05, 1.0)),
    "cgd-fd-negative": Family("cgd-fd", ("step", "lam", "r"), -1, (0.25, 0.05, 1.0)),
    "gd-two": Family("gd", ("step", "first"), 1, (0.25, 0.05, 0.5)),
    "bfgs": Family("bfgs"),
    "cgd-bfgs": Family("cgd-bfgs", ("step", "lam")),
    "cgd-auto": Family("cgd-auto", ()),
}
"""GD, CGD-FD with λ > 0 and with λ < 0, BFGS and CGD-BFGS, all with a constant α; GD with a longer α for its
first b steps, as a control; and cgd-auto, which has no settings.
"""

PAIRS = (
    ("gd", "cgd-fd"),
    ("gd", "cgd-fd-negative"),
    ("gd-two", "cgd-fd"),
    ("bfgs", "cgd-bfgs"),
    ("gd", "cgd-bfgs"),
    ("gd", "cgd-auto"),
)
"""What is compared: the plain method, and the one with a penalty."""

HAPPENED = ("diverged", "plateau", "basin", "faster")
"""What happened to the method that lost: it ended above its start; it hardly moved; it will end in a higher
minimum; or it is on its way to the same minimum, or to one as low, and behind."""


class Setting(NamedTuple):
    """The settings of a method: α, λ, r, b, and an α for the first b steps; NaN is what it does not have.

    Examples
    --------
    >>> Setting(0.1).keywords("gd")
    {'step': 0.1}
    """

    step: Any = np.nan
    lam: Any = np.nan
    r: Any = np.nan
    b: Any = np.nan
    first: Any = np.nan

    @property
    def small(self) -> bool:
        """Whether next to nothing is left of the penalty: |λ| below α/10, or at most three steps of it."""
        return bool(abs(self.lam) < 0.1 * self.step or self.b < 3)

    def keywords(self, method: str) -> dict[str, Any]:
        """Return them as `minimize` takes them."""
        if method == "cgd-auto":
            return {}
        given: dict[str, Any] = {"step": self.step}
        if method.startswith("cgd"):
            given["lam"] = self.lam
        if method == "cgd-fd":
            given |= {"r": self.r, "b": int(self.b)}
        return given


class Ends(NamedTuple):
    """Where the runs of one method ended, and f there: infinity where a run overflowed.

    Examples
    --------
    >>> problem = Problem(functions["sphere"].at(2))
    >>> bool(problem.ends("gd", Setting(0.25), problem.judged, 40).f.max() < 1e-20)
    True
    >>> bool(problem.ends("gd", Setting(1e9), problem.judged, 40).f.min() < np.inf)
    False
    """

    x: Floats
    f: Floats


OVERFLOWED = (Status.NONFINITE_VALUE, Status.NONFINITE_GRADIENT, Status.UNBOUNDED, Status.DIVERGED)


class Problem:
    """A function, its starts to tune on and its starts to judge on.

    A point at which the function raises, or is not finite, is no start: another is drawn, and `refused`
    counts them. In the middle of a run such a point ends the run of its row, as NaN does, and of no other.

    Parameters
    ----------
    function : the function
    tuning, judged : how many starts
    seed : of the starts

    Examples
    --------
    >>> problem = Problem(functions["branin"])
    >>> problem.tuning.shape, problem.judged.shape, problem.refused
    ((40, 2), (200, 2), 0)
    """

    def __init__(self, function: Any, tuning: int = TUNING, judged: int = JUDGED, seed: int = SEED) -> None:
        self.function = function
        self.key = f"{function.name}-{function.n}"
        self.bounds = function.bounds if function.name in BOXED else None
        self.refused = 0
        rng = np.random.default_rng([seed, function.n])
        starts = self._starts(rng, tuning + judged)
        self.tuning, self.judged = starts[:tuning], starts[tuning:]
        low, high = function.bounds.T
        slopes = np.linalg.norm(self.grad(self.tuning), axis=-1)
        self.diagonal = float(np.linalg.norm(high - low))
        self.slope = float(np.median(slopes))
        self.unit = self.diagonal / max(self.slope, 1e-300)

    def _starts(self, rng: np.random.Generator, count: int) -> Floats:
        low, high = self.function.bounds.T
        kept = np.empty((0, len(low)))
        while len(kept) < count:
            x = rng.uniform(low, high, (count - len(kept), len(low)))
            fine = np.isfinite(self.fun(x)) & np.isfinite(self.grad(x)).all(axis=-1)
            self.refused += int((~fine).sum())
            kept = np.concatenate([kept, x[fine]])
            if self.refused > 100 * count:
                raise ValueError(f"function: {self.key} has no finite value and gradient at any point tried")
        return kept

    def fun(self, x: Floats) -> Any:
        """Return f, NaN where it raises."""
        return self._rows(self.function, x, ())

    def grad(self, x: Floats) -> Any:
        """Return ∇f, NaN where it raises."""
        return self._rows(self.function.grad, x, (x.shape[-1],))

    def _rows(self, call: Callable[[Floats], Any], x: Floats, shape: tuple[int, ...]) -> Any:
        with np.errstate(all="ignore"):
            try:
                return call(x)
            except Exception:  # whatever a function raises at a point, the other points go on
                if x.ndim == 1:
                    return np.full(shape, np.nan)
                return np.stack([np.asarray(self._rows(call, row, shape)) for row in x])

    def run(self, family: str, setting: Setting, starts: Floats, grads: int, **more: Any) -> Result:
        """Run a method from all starts with so many gradients."""
        method = FAMILIES[family].method
        more = {"gtol": 0.0, "trace": False, **setting.keywords(method), **more}
        return minimize(
            self.fun,
            starts,
            method=method,
            jac=self.grad,
            bounds=self.bounds,
            budget=Budget(grads=grads),
            **more,
        )

    def ends(self, family: str, setting: Setting, starts: Floats, grads: int, gtol: float = 0.0) -> Ends:
        """Run a method from all starts and return where it ends, as the listings do: at the last point."""
        over = np.full(len(starts), False)
        if family == "gd-two":
            made = self.run("gd", Setting(setting.first), starts, int(setting.b))
            over = np.isin(made.status, OVERFLOWED)
            starts, grads = np.asarray(made.x), grads - int(setting.b)
        made = self.run(family, setting, starts, grads, gtol=gtol)
        over |= np.isin(made.status, OVERFLOWED)
        return Ends(np.asarray(made.x), np.where(over, np.inf, np.asarray(made.fun, dtype=float)))

    def settle(self, x: Floats) -> Floats:
        """Return the value of the minimum that a descent with a line search reaches from each point."""
        made = self.run("cgd-auto", Setting(), x, 60, gtol=1e-4 * self.slope)
        return np.minimum(made.best.fun, self.fun(x))


def problems(only: Sequence[str] | None = None) -> Iterator[Problem]:
    """Yield every function in 2 dimensions and in 10, or in those nearest to these that it has.

    Examples
    --------
    >>> [problem.key for problem in problems(["levy", "powell", "shekel"])]
    ['levy-2', 'levy-10', 'powell-4', 'powell-12', 'shekel-4']
    """
    for name, function in functions.items():
        if only is None or name in only:
            sizes = (function.n,) if not function.any_n else (4, 12) if name == "powell" else (2, 10)
            yield from (Problem(function.at(n), TUNING if n < 10 else TUNING // 2) for n in sizes)


def spread(trials: int, d: int) -> Floats:
    """Return points that fill the unit cube evenly: the additive sequence of the generalised golden ratio.

    Examples
    --------
    >>> spread(4, 1).round(3).ravel().tolist()
    [0.118, 0.736, 0.354, 0.972]
    """
    ratio = 2.0
    for _ in range(60):
        ratio = (1.0 + ratio) ** (1.0 / (d + 1))
    return (0.5 + np.outer(np.arange(1, trials + 1), ratio ** -np.arange(1.0, d + 1))) % 1.0


def left(f: Any, first: Any, lowest: float) -> Floats:
    """Return what is left of f − f*, as a share of the start's, between `LEVEL` and 1.

    Examples
    --------
    >>> left(np.array([1.0, np.inf, 0.0]), np.array([2.0, 2.0, 2.0]), 0.0).tolist()
    [0.5, 1.0, 1e-06]
    """
    return np.clip((f - lowest) / np.maximum(first - lowest, 1e-300), LEVEL, 1.0)


def tune(problem: Problem, family: str, grads: int, stages: Sequence[int] = STAGES) -> Setting:
    """Return the best settings of a method: most digits of f − f* gained, on average over the tuning starts.

    The first stage spreads its trials over the whole range of α and λ, with the paper's b and a short r; the
    second around the best of these, with other r and b as well; the third around the best of those.

    Examples
    --------
    >>> problem = Problem(functions["sphere"].at(2))
    >>> 0.49 < tune(problem, "gd", 1).step < 0.51
    True
    """
    of = FAMILIES[family]
    names = [name for name in of.free if name != "r"]
    half = {name: (DECADES[name][1] - DECADES[name][0]) / 2 for name in of.free}
    centre = {name: sum(DECADES[name]) / 2 for name in of.free} | {"r": DECADES["r"][0]}
    best, b = (np.inf, centre), of.shares[0] if of.shares else np.nan
    for stage, trials in enumerate(stages):
        if stage == 1:
            names = list(of.free)
        points = 2 * spread(trials, len(names)) - 1
        shares = of.shares if stage == 1 and of.shares else (b,)
        for i, share in enumerate(shares):
            mine = points[i :: len(shares)]
            logs = {name: np.full(len(mine), value) for name, value in best[1].items()}
            for j, name in enumerate(names):
                logs[name] = _around(name, best[1][name], half[name], mine[:, j])
            scores = _scores(problem, family, _setting(problem, of, logs, share, grads), grads)
            k = int(np.argmin(scores))
            if scores[k] < best[0]:
                best, b = (float(scores[k]), {name: float(logs[name][k]) for name in logs}), share
        shrink = trials ** (-1.0 / len(names))
        half = {name: 2 * width * shrink if name in names else width for name, width in half.items()}
    logs = {name: np.array(value) for name, value in best[1].items()}
    return Setting(*(float(value) for value in _setting(problem, of, logs, b, grads)))


def _around(name: str, centre: float, half: float, at: Floats) -> Floats:
    low, high = DECADES[name]
    return np.clip(centre + half * at, low, high)


def _setting(problem: Problem, of: Family, logs: Mapping[str, Floats], share: float, grads: int) -> Setting:
    step = problem.unit * 10 ** logs["step"]
    lam = of.sign * step * 10 ** logs["lam"] if "lam" in of.free else np.nan
    r = step * 10 ** logs["r"] if "r" in of.free else np.nan
    first = step * 10 ** logs["first"] if "first" in of.free else np.nan
    return Setting(step, lam, r, float(int(share * grads)) if of.shares else np.nan, first)


def _scores(problem: Problem, family: str, setting: Setting, grads: int) -> Floats:
    """Return the mean log of what is left, for each trial; all runs of all trials are one batch."""
    starts = problem.tuning
    trials = len(setting.step)
    rows = Setting(*(np.repeat(v, len(starts)) if np.ndim(v) else v for v in setting))
    # to go on below this changes no score
    ends = problem.ends(family, rows, np.tile(starts, (trials, 1)), grads, gtol=1e-10 * problem.slope)
    return np.log10(
        left(ends.f.reshape(trials, len(starts)), problem.fun(starts), problem.function.fmin)
    ).mean(axis=1)


Row = tuple[Any, ...]

SETTINGS = ("function", "n", "gradients", "method", *Setting._fields)
"""The columns of the stored settings."""


def settings_of(problem: Problem, done: Collection[tuple[str, ...]] = ()) -> Iterator[Row]:
    """Tune every method for every budget on a problem, but for those done; yield rows for the table.

    Examples
    --------
    >>> done = {("sphere", "2", str(grads), name) for name in FAMILIES for grads in BUDGETS}
    >>> done.remove(("sphere", "2", "40", "gd"))
    >>> [row[:4] for row in settings_of(Problem(functions["sphere"].at(2)), done)]
    [('sphere', '2', '40', 'gd')]
    """
    for family, of in FAMILIES.items():
        for grads in BUDGETS if of.free else ():
            key = (problem.function.name, str(problem.function.n), str(grads), family)
            if key not in done:
                yield *key, *(f"{value:.6g}" for value in tune(problem, family, grads))


RESULTS = (
    "function", "n", "gradients", "plain", "penalised", "won", "lost", "net_low", "net_high",
    "plain_median", "plain_low", "plain_high", "penalised_median", "penalised_low", "penalised_high",
    *(f"{side}_{what}" for side in ("won", "lost") for what in HAPPENED),
)  # fmt: skip
"""The columns of the stored results: in how many of the judged starts the penalised method ends lower and
higher, 95 % limits of the difference as a share of the starts, the medians of f − f* with such limits, and
what happened in the starts that were won and in those that were lost."""


def compare(problem: Problem, plain: Ends, penalised: Ends) -> Row:
    """Compare two methods start by start; return the columns of `RESULTS` after the names.

    Examples
    --------
    >>> problem = Problem(functions["sphere"].at(2))
    >>> slow, fast = (problem.ends("gd", Setting(step), problem.judged, 40) for step in (0.01, 0.4))
    >>> compare(problem, slow, fast)[:4]
    (200, 0, '1', '1')
    """
    lowest, first = problem.function.fmin, problem.fun(problem.judged)
    near = LEVEL * np.maximum(first - np.minimum(plain.f, penalised.f), 0.0)
    won, lost = plain.f > penalised.f + near, penalised.f > plain.f + near
    counts: list[int] = []
    for rows, winner, loser in ((won, penalised, plain), (lost, plain, penalised)):
        words = happened(problem, winner, loser, rows)
        counts += [words.count(word) for word in HAPPENED]
    rng = np.random.default_rng(SEED)
    again = rng.integers(0, len(first), (RESAMPLED, len(first)))
    net = (won.astype(float) - lost)[again].mean(axis=1)
    figures: list[float] = [*_limits(net)]
    for ends in (plain, penalised):
        gap = np.maximum(ends.f - lowest, 0.0)  # the minimum itself is rounded
        figures += [float(np.median(gap)), *_limits(np.median(gap[again], axis=1))]
    return int(won.sum()), int(lost.sum()), *(f"{figure:.4g}" for figure in figures), *counts


RESAMPLED = 1000
"""How often the starts are drawn again for the limits."""


def _limits(values: Any) -> tuple[float, float]:
    low, high = np.quantile(values, (0.025, 0.975), method="inverted_cdf")  # no mean of two infinities
    return float(low), float(high)


def judge(
    problem: Problem, tuned: Mapping[tuple[str, ...], Setting], done: Collection[tuple[str, ...]] = ()
) -> Iterator[Row]:
    """Run the methods from the judged starts with the settings tuned for them; yield rows for the results.

    Examples
    --------
    >>> tuned = {("sphere", "2", str(t), m): Setting(0.1, 0.1, 0.1, 5, 1) for m in FAMILIES for t in BUDGETS}
    >>> next(judge(Problem(functions["sphere"].at(2)), tuned))[:5]
    ('sphere', '2', '40', 'gd', 'cgd-fd')
    """
    name, n = problem.function.name, str(problem.function.n)
    for grads in BUDGETS:
        made: dict[str, Ends] = {}
        for plain, penalised in PAIRS:
            key = (name, n, str(grads), plain, penalised)
            if key in done:
                continue
            for method in {plain, penalised} - made.keys():
                setting = tuned.get((name, n, str(grads), method), Setting())  # cgd-auto has none
                made[method] = problem.ends(method, setting, problem.judged, grads)
            yield *key, *compare(problem, made[plain], made[penalised])


def happened(problem: Problem, winner: Ends, loser: Ends, rows: Bools) -> list[str]:
    """Say for each of these starts why the loser is higher: a word of `HAPPENED`.

    Examples
    --------
    >>> problem = Problem(functions["sphere"].at(2))
    >>> settings = (Setting(step) for step in (0.01, 0.4, 1.1))
    >>> slow, fast, wild = (problem.ends("gd", setting, problem.judged, 40) for setting in settings)
    >>> set(happened(problem, fast, slow, np.full(200, True)))
    {'faster'}
    >>> set(happened(problem, fast, wild, np.full(200, True)))
    {'diverged'}
    """
    start, ends = problem.judged[rows], (loser.x[rows], winner.x[rows])
    first, low, high = problem.fun(start), winner.f[rows], loser.f[rows]
    words = np.full(len(start), HAPPENED[3], dtype=object)
    words[high > first] = HAPPENED[0]
    moved = np.linalg.norm(ends[0] - start, axis=-1)
    still = (high <= first) & (moved < 0.01 * problem.diagonal) & (first - high < 0.01 * (first - low))
    words[still] = HAPPENED[1]
    rest = words == HAPPENED[3]
    if rest.any():
        theirs, ours = (problem.settle(x[rest]) for x in ends)
        words[np.flatnonzero(rest)[theirs - ours > 1e-3 * (first - low)[rest]]] = HAPPENED[2]
    return words.tolist()


WHY = ("function", "n", "condition", "down", "spread", "best_negative", "path")
"""The columns of the stored reasons."""


def why(problem: Problem, setting: Setting) -> Row:
    """Return what the landscape is like: at its minimum, and along the paths of tuned GD.

    That is the condition number at the minimum; the share of the points of the paths at which f bends down
    along its gradient; how many times as large that curvature is at nine tenths of the points as at one tenth
    (sizes alone); and the share of the points at which the λ that is best for the quadratic model on ∇f and
    H·∇f (`steepen.theory.best_lam`) is negative, of those where there is one.

    Examples
    --------
    >>> condition, down, spread, negative, points = why(Problem(functions["booth"]), Setting(0.1))
    >>> condition, down, negative
    ('9', '0', '1')
    """
    f = problem.function
    t = np.linalg.eigvalsh(f.hess(f.minima[0]))
    condition = float(t[-1] / t[0]) if t[0] > 1e-12 * abs(t[-1]) else np.inf
    made = problem.run("gd", setting, problem.judged[:PATHS], BUDGETS[1], trace="x")
    x = cast(Floats, cast(Trace, made.trace).x)[: BUDGETS[1] : 5].reshape(-1, f.n)
    low, high = f.bounds.T
    with np.errstate(all="ignore"):
        x = x[((x >= low) & (x <= high)).all(axis=-1)]  # some runs leave, never to come back
        x = x[np.linalg.norm(f.grad(x), axis=-1) > 1e-6 * problem.slope]  # and some have arrived
        g = f.grad(x)
        g /= np.linalg.norm(g, axis=-1, keepdims=True)
        once, twice = f.hvp(x, g), f.hvp(x, f.hvp(x, g))
        along = np.einsum("ij,ij->i", g, once)
    fine = np.isfinite(along) & np.isfinite(twice).all(axis=-1)
    size = np.quantile(np.abs(along[fine]), (0.1, 0.9))
    best = np.array([theory.best_lam(*row) for row in zip(g[fine], once[fine], twice[fine], strict=True)])
    known = best[np.isfinite(best)]
    return (
        *(f"{v:.4g}" for v in (condition, (along[fine] < 0).mean(), size[1] / max(size[0], 1e-300))),
        f"{(known < 0).mean() if len(known) else np.nan:.4g}",
        int(fine.sum()),
    )


PATHS = 40
"""How many of GD's paths are looked at for the reasons."""
