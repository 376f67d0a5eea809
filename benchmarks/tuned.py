"""Does λ > 0 help a gradient descent that is already tuned? The study behind the paper's item `tuned`.

    python -m benchmarks.tuned                    # goes on where an earlier run stopped
    python -m benchmarks.tuned --folder again     # all of it, into a folder of its own
    python -m benchmarks.tuned --jobs 2           # two problems at a time

Every method chooses its settings with the same number of trials, on the same starts, with the same gradients;
then all are judged on other starts. The tables are those that `steepen.paper.tuned` reads.
"""

import argparse
import csv
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steepen._tools.jobs import run
from steepen.functions import functions
from steepen.paper import study
from steepen.paper.study import (
    BUDGETS,
    FOLDER,
    HAPPENED,
    JUDGED,
    PAIRS,
    SEED,
    STAGES,
    TUNING,
    Ends,
    Setting,
    left,
    won,
)

Floats = NDArray[np.float64]
Key = tuple[Any, ...]
Row = tuple[Any, ...]

DECADES = {"step": (-6.0, 1.0), "lam": (-2.0, 3.0), "r": (-3.0, 1.0), "first": (0.0, 3.0)}
"""The ranges in powers of ten: α in units of (size of the box)/(usual slope); |λ|, r and the first α in α."""


@dataclass(frozen=True)
class Family:
    """A method with the settings that it may choose."""

    free: tuple[str, ...] = ("step",)
    sign: int = 1
    shares: tuple[float, ...] = ()  # b as a share of the budget; the first is the paper's


FAMILIES: Mapping[str, Family] = {
    "gd": Family(),
    "cgd-fd": Family(("step", "lam", "r"), 1, (0.25, 0.05, 1.0)),
    "cgd-fd-negative": Family(("step", "lam", "r"), -1, (0.25, 0.05, 1.0)),
    "gd-two": Family(("step", "first"), 1, (0.25, 0.05, 0.5)),
    "bfgs": Family(),
    "cgd-bfgs": Family(("step", "lam")),
    "cgd-auto": Family(()),
}
"""GD, CGD-FD with λ > 0 and with λ < 0, BFGS and CGD-BFGS, all with a constant α; GD with a longer α for its
first b steps, as a control; and cgd-auto, which has no settings.
"""

SETTINGS = ("function", "n", "gradients", "method", *Setting._fields)
RESULTS = (
    "function", "n", "gradients", "plain", "penalised", "won", "lost", "net_low", "net_high",
    "plain_median", "plain_low", "plain_high", "penalised_median", "penalised_low", "penalised_high",
    *(f"{side}_{what}" for side in ("won", "lost") for what in HAPPENED),
)  # fmt: skip
WHY = ("function", "n", "title", "condition", "down", "spread", "best_negative", "path")
"""The columns of the three tables. Of the results: in how many of the judged starts the penalised method ends
lower and higher, 95 % limits of the difference as a share of the starts, the medians of f − f* with such
limits, and what happened in the starts that were won and in those that were lost."""

RESAMPLED = 1000
"""How often the starts are drawn again for the limits."""

PATHS = 40
"""How many of GD's paths are looked at for the reasons."""


class Problem:
    """A function with its starts to tune on and its starts to judge on."""

    def __init__(self, function: Any, tuning: int = TUNING, judged: int = JUDGED) -> None:
        self.function = function
        self.tuning, self.judged = study.starts(function, tuning, judged)
        self.diagonal = float(np.linalg.norm(np.diff(function.bounds)))
        self.slope = float(np.median(np.linalg.norm(function.grad(self.tuning), axis=-1)))

    def run(self, family: str, setting: Setting, starts: Floats, grads: int, **more: Any) -> Any:
        """Run a method from all starts with this many gradients."""
        method = {"cgd-fd-negative": "cgd-fd", "gd-two": "gd"}.get(family, family)
        return study.run(self.function, method, setting, starts, grads, **more)

    def ends(self, family: str, setting: Setting, starts: Floats, grads: int, gtol: float = 0.0) -> Ends:
        """Run a method from all starts and return its last points."""
        over = np.full(len(starts), False)
        if family == "gd-two":
            first = study.ends(self.run("gd", Setting(setting.first), starts, int(setting.b)))
            over, starts, grads = np.isinf(first.f), first.x, grads - int(setting.b)
        x, f = study.ends(self.run(family, setting, starts, grads, gtol=gtol))
        return Ends(x, np.where(over, np.inf, f))


def problems(only: Sequence[str] | None = None) -> Iterator[Problem]:
    """Yield every function in 2 and 10 dimensions, or in the nearest in which it is defined."""
    for name, function in functions.items():
        if only is None or name in only:
            sizes = (function.n,) if not function.any_n else (4, 12) if name == "powell" else (2, 10)
            yield from (Problem(function.at(n), TUNING if n < 10 else TUNING // 2) for n in sizes)


def spread(trials: int, d: int) -> Floats:
    """Return points that fill the unit cube evenly: the additive sequence of the generalised golden ratio."""
    ratio = 2.0
    for _ in range(60):
        ratio = (1.0 + ratio) ** (1.0 / (d + 1))
    return (0.5 + np.outer(np.arange(1, trials + 1), ratio ** -np.arange(1.0, d + 1))) % 1.0


def tune(problem: Problem, family: str, grads: int, stages: Sequence[int] = STAGES) -> Setting:
    """Return the best settings of a method: most digits of f − f* gained, on average over the tuning starts.

    The first stage spreads its trials over the whole range of α and λ, with the paper's b and a short r; the
    second around the best of these, with other r and b as well; the third around the best of those.
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
    step = problem.diagonal / max(problem.slope, 1e-300) * 10 ** logs["step"]
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
        left(ends.f.reshape(trials, len(starts)), problem.function(starts), problem.function.fmin)
    ).mean(axis=1)


def settings_of(problem: Problem, done: Collection[tuple[str, ...]] = ()) -> Iterator[Row]:
    """Tune every method for every budget on a problem, but for those done; yield rows for the table."""
    for family, of in FAMILIES.items():
        for grads in BUDGETS if of.free else ():
            key = (problem.function.name, str(problem.function.n), str(grads), family)
            if key not in done:
                yield *key, *(f"{value:.6g}" for value in tune(problem, family, grads))


def compare(problem: Problem, plain: Ends, penalised: Ends) -> Row:
    """Compare two methods start by start; return the columns of `RESULTS` after the names."""
    lowest, count = problem.function.fmin, len(problem.judged)
    lower, higher = won(problem.function(problem.judged), plain, penalised)
    counts: list[int] = []
    for rows, winner, loser in ((lower, penalised, plain), (higher, plain, penalised)):
        words = happened(problem, winner, loser, rows)
        counts += [words.count(word) for word in HAPPENED]
    rng = np.random.default_rng(SEED)
    again = rng.integers(0, count, (RESAMPLED, count))
    net = (lower.astype(float) - higher)[again].mean(axis=1)
    figures: list[float] = [*_limits(net)]
    for ends in (plain, penalised):
        gap = np.maximum(ends.f - lowest, 0.0)  # the minimum itself is rounded
        figures += [float(np.median(gap)), *_limits(np.median(gap[again], axis=1))]
    return int(lower.sum()), int(higher.sum()), *(f"{figure:.4g}" for figure in figures), *counts


def _limits(values: Any) -> tuple[float, float]:
    low, high = np.quantile(values, (0.025, 0.975), method="inverted_cdf")  # no mean of two infinities
    return float(low), float(high)


def judge(
    problem: Problem, tuned: Mapping[tuple[str, ...], Setting], done: Collection[tuple[str, ...]] = ()
) -> Iterator[Row]:
    """Run the methods from the judged starts with the settings tuned for them; yield rows for the results."""
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


def settle(problem: Problem, x: Floats) -> Floats:
    """Return the value of the minimum that a descent with a line search reaches from each point."""
    made = problem.run("cgd-auto", Setting(), x, 60, gtol=1e-4 * problem.slope)
    return np.minimum(made.best.fun, problem.function(x))


def happened(problem: Problem, winner: Ends, loser: Ends, rows: Any) -> list[str]:
    """Say for each of these starts why the loser is higher: a word of `HAPPENED`."""
    start, ends = problem.judged[rows], (loser.x[rows], winner.x[rows])
    first, low, high = problem.function(start), winner.f[rows], loser.f[rows]
    diverged, plateau, basin, faster = HAPPENED
    words = np.full(len(start), faster, dtype=object)
    words[high > first] = diverged
    moved = np.linalg.norm(ends[0] - start, axis=-1)
    still = (high <= first) & (moved < 0.01 * problem.diagonal) & (first - high < 0.01 * (first - low))
    words[still] = plateau
    rest = words == faster
    if rest.any():
        theirs, ours = (settle(problem, x[rest]) for x in ends)
        words[np.flatnonzero(rest)[theirs - ours > 1e-3 * (first - low)[rest]]] = basin
    return words.tolist()


def best_lam(g: Floats, Hg: Floats, HHg: Floats) -> float:
    """Return the λ whose direction −(g + 2λHg) points at the minimum of the model on span{g, Hg}.

    With θ₁, θ₂ the eigenvalues of H restricted to that plane it is −1/(2(θ₁+θ₂)). If g is an eigenvector with
    positive curvature, every λ gives the same line and the result is 0; without a minimum it is nan.
    """
    length = float(np.linalg.norm(g))
    # H in the orthonormal basis of the plane that g begins is [[a, b], [b, c]]
    first = g / length
    a = float(first @ Hg) / length
    rest = Hg - (first @ Hg) * first
    rest -= (first @ rest) * first
    height = float(np.linalg.norm(rest))
    if height <= 8 * np.finfo(np.float64).eps * float(np.linalg.norm(Hg)):
        return 0.0 if a > 0 else float("nan")
    b = height / length
    c = float(rest @ (HHg - a * Hg)) / height**2
    return -0.5 / (a + c) if a > 0 and a * c > b * b else float("nan")


def why(problem: Problem, setting: Setting) -> Row:
    """Return what the landscape is like: at its minimum, and along the paths of tuned GD.

    That is the condition number at the minimum; the share of the points of the paths at which f bends down
    along its gradient; how many times as large that curvature is at nine tenths of the points as at one tenth
    (sizes alone); and the share of the points at which the λ that is best for the quadratic model on ∇f and
    H·∇f (`best_lam`) is negative, of those where there is one.
    """
    f = problem.function
    t = np.linalg.eigvalsh(f.hess(f.minima[0]))
    condition = float(t[-1] / t[0]) if t[0] > 1e-12 * abs(t[-1]) else np.inf
    made = problem.run("gd", setting, problem.judged[:PATHS], BUDGETS[1], trace="x")
    x = made.trace.x[: BUDGETS[1] : 5].reshape(-1, f.n)
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
    best = np.array([best_lam(*row) for row in zip(g[fine], once[fine], twice[fine], strict=True)])
    known = best[np.isfinite(best)]
    return (
        f.title,
        *(f"{v:.4g}" for v in (condition, (along[fine] < 0).mean(), size[1] / max(size[0], 1e-300))),
        f"{(known < 0).mean() if len(known) else np.nan:.4g}",
        int(fine.sum()),
    )


def read(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """Return the rows of a table; a new one gets its head."""
    if not path.exists():
        add(path, [columns])
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


def add(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """Append rows to a table, each as it comes."""
    for row in rows:
        with path.open("a", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerow(row)


def made(
    name: str, n: int, done: Sequence[Key], judged: Sequence[Key], explained: bool, tuned: dict[Key, Any]
) -> dict[str, list[Any]]:
    """Tune what is not tuned yet on one problem, and judge what is not judged yet; return the new rows."""
    problem = next(one for one in problems([name]) if one.function.n == n)
    settings = list(settings_of(problem, done))
    tuned = tuned | {tuple(row[:4]): Setting(*map(float, row[4:])) for row in settings}
    reasons = () if explained else [(name, str(n), *why(problem, tuned[name, str(n), "100", "gd"]))]
    return {"settings": settings, "results": list(judge(problem, tuned, judged)), "why": list(reasons)}


def main() -> None:
    """Make what is missing, problem by problem; the rows of one are appended together when it is done."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the tables are")
    parser.add_argument("--jobs", type=int, help="processes; one by default")
    parser.add_argument("--only", help="these functions only, by name with commas between")
    given = parser.parse_args()
    folder: Path = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    columns = {"settings": SETTINGS, "results": RESULTS, "why": WHY}
    paths = {name: folder / f"tuned_{name}.csv" for name in columns}
    rows = {name: read(paths[name], columns[name]) for name in columns}
    tuned = {tuple(row[:4]): Setting(*map(float, row[4:])) for row in rows["settings"]}
    judged = [tuple(row[:5]) for row in rows["results"]]
    explained = {tuple(row[:2]) for row in rows["why"]}
    found = problems(given.only.split(",") if given.only else None)
    keys = sorted(((one.function.name, one.function.n) for one in found), key=lambda key: key[1])

    def send(key: Key) -> tuple[Any, ...]:
        mine = (key[0], str(key[1]))
        own = {one: setting for one, setting in tuned.items() if one[:2] == mine}
        return *key, list(own), [one for one in judged if one[:2] == mine], mine in explained, own

    began = time.perf_counter()
    for done in run(made, keys, send=send, workers=given.jobs, strict=True):
        for name, new in done.value.items():
            add(paths[name], new)
        print(f"{done.key[0]}-{done.key[1]}: done after {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
