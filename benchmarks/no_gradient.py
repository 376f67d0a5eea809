"""Minimising without a gradient, as most people call it: values of f that are needed, and how runs end.

    python -m benchmarks.no_gradient [suites] [aside] [noise] [smooth] [nonsmooth] [wavy] [random]
                                     [--peers[=COBYQA,Nelder-Mead]] [--each]

`suites` are the problems of mgh and nist with n ≤ 20, `aside` others on which nothing was tuned, `noise` runs
whose values are noisy. `smooth`, `nonsmooth` and `wavy` are the 53 problems of Moré and Wild (2009) in the
variants of `more_wild.py`, `random` the smooth ones with values that are wrong by up to 1e-3 of f, at random.

All solvers get f alone and have their own defaults; every value of f counts. Printed for each solver, at
1e-3, 1e-5 and 1e-8 of f0 − f*: its values over those of SciPy's BFGS (the geometric mean over the problems
that both solve), and the problems solved; then the runs that are at the minimum (1e-8) and called failures,
the runs called successes far from any (1e-3, and with a gradient above the tolerance), and the median share
of values that were made after f was within 1e-8 of where it ended. The data profile (Moré and Wild 2009) is
the part of the problems that are solved within 10n … 100n values. f* is the lowest value of any solver here.
With noise (`wavy`, `random`), a run has the exact f of the point with the lowest value that it saw, and f* is
no higher than what cgd-auto, BFGS and L-BFGS-B reach without noise.

`--peers` adds methods that make no gradient: COBYQA, Nelder–Mead and PRIMA's COBYLA, all three from SciPy;
Py-BOBYQA and PRIMA's NEWUOA, if they are installed. They are slow, and get 100n values each.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import scipy.optimize
from benchmarks.bench.profiles import best_value, evaluations_to, geometric_mean, profile
from benchmarks.problems import suite as suite_of

import steepen as st

ACCURACIES = (1e-3, 1e-5, 1e-8)
MOST = 20_000
PROFILE = (10, 20, 30, 50, 100)
RANDOM = 1e-3
NOISES = (0.0, 1e-12, 1e-10, 1e-8, 1e-6)
SEEDS = 8


class Spent(Exception):
    """More values were asked for than a run may have."""


class Values:
    """A function of which every value is counted, and every new lowest one kept.

    `exact` is the function without noise, if that is another one; `noise` is put on every value.
    """

    def __init__(
        self, f: Callable[[Any], Any], most: int = MOST, exact: Any = None, noise: float = 0.0
    ) -> None:
        self._f, self._most, self._exact, self._noise = f, most, exact, noise
        self._rng = np.random.default_rng(2009)
        self.used, self.lowest = 0, np.inf
        self.improvements: list[tuple[int, float]] = []

    def __call__(self, x: Any) -> float:
        if self.used >= self._most:
            raise Spent
        self.used += 1
        value = float(self._f(np.array(x)))
        if self._noise:
            value *= 1 + self._noise * self._rng.uniform(-1, 1)
        if value < self.lowest:
            self.lowest = value
            self.improvements.append((self.used, float(self._exact(x)) if self._exact else value))
        return value


class Ended(NamedTuple):
    """How a solver says it ended."""

    success: bool
    word: str


@dataclass
class Run:
    """What a solver found, after how many values."""

    improvements: list[tuple[int, float]]
    used: int
    end: Ended


def ours(f: Any, x0: Any) -> Ended:
    result = st.minimize(f, x0, trace=False)
    return Ended(bool(result.success), result.status.name)


def scipys(method: str) -> Callable[..., Ended]:
    def solve(f: Any, x0: Any) -> Ended:
        result = scipy.optimize.minimize(f, x0, method=method)
        return Ended(bool(result.success), str(result.status))

    return solve


def nlopts(f: Any, x0: Any) -> Ended:
    import nlopt

    def both(x: Any, grad: Any) -> float:
        value = f(x)
        if grad.size:
            grad[:] = scipy.optimize.approx_fprime(x, f)
        return value

    search = nlopt.opt(nlopt.LD_LBFGS, len(x0))
    search.set_min_objective(both)
    search.set_ftol_rel(1e-12)
    try:
        search.optimize(x0)
    except Exception as error:  # a peer may end by any error, and the record should say so
        return Ended(False, type(error).__name__)
    return Ended(search.last_optimize_result() > 0, str(search.last_optimize_result()))


SOLVERS: dict[str, Callable[..., Ended]] = {
    "cgd-auto": ours,
    "BFGS": scipys("BFGS"),
    "L-BFGS-B": scipys("L-BFGS-B"),
    "NLopt-LBFGS": nlopts,
}


def pybobyqas(f: Any, x0: Any) -> Ended:
    import pybobyqa

    found = pybobyqa.solve(f, x0, maxfun=PROFILE[-1] * len(x0))
    return Ended(found.flag == found.EXIT_SUCCESS, str(found.flag))


def primas(f: Any, x0: Any) -> Ended:
    import prima

    found = prima.minimize(f, x0, method="newuoa")
    return Ended(bool(found.success), str(found.status))


PEERS: dict[str, Callable[..., Ended]] = {
    "COBYQA": scipys("COBYQA"),
    "Nelder-Mead": scipys("Nelder-Mead"),
    "COBYLA": scipys("COBYLA"),
}
for name, module, solver in (("Py-BOBYQA", "pybobyqa", pybobyqas), ("NEWUOA", "prima", primas)):
    if find_spec(module) is not None:
        PEERS[name] = solver


class Case(NamedTuple):
    """A function, a start, the lowest value known, f without its noise, and noise to put on its values."""

    name: str
    f: Callable[[Any], Any]
    x0: Any
    known: float = np.inf
    exact: Callable[[Any], Any] | None = None
    noise: float = 0.0


def suites() -> Iterator[Case]:
    for suite in ("mgh", "nist"):
        for p in suite_of(suite):
            if p.n <= 20:
                yield Case(p.name, lambda x, p=p: p(x), p.x0.copy(), p.fbest)


ASIDE = {
    "booth": 2, "matyas": 2, "mccormick": 2, "zakharov": 6, "three-hump-camel": 2, "six-hump-camel": 2,
    "dixon-price": 8, "rosenbrock": 5, "branin": 2, "colville": 4, "goldstein-price": 2, "hartmann-3": 3,
    "hartmann-6": 6, "powell": 16, "styblinski-tang": 5, "trid": 12, "sum-squares": 20, "levy": 4,
    "rotated-hyper-ellipsoid": 10, "perm-d": 3, "bohachevsky-1": 2,
}  # fmt: skip


def aside() -> Iterator[Case]:
    """Functions from two starts each, and fits of made-up data; the dimensions are 2 to 20."""
    for name, n in ASIDE.items():
        f = st.functions[name]
        f = f.at(n=n) if f.any_n else f
        for seed in range(2):
            low, high = f.bounds.T
            x0 = np.random.default_rng([seed, n]).uniform(low, high)
            yield Case(f"{name}-{seed}", lambda x, f=f: f(x), x0, f.fmin)
    for seed in range(4):
        rng = np.random.default_rng(100 + seed)
        n = (3, 6, 10, 20)[seed]
        X = rng.standard_normal((60, n)) * np.logspace(-1, 1, n)
        y = np.sign(X @ rng.standard_normal(n) + rng.standard_normal(60))
        yield Case(
            f"logistic-{n}",
            lambda w, X=X, y=y: np.logaddexp(0, -y * (X @ w)).sum() + 0.1 * w @ w,
            np.zeros(n),
        )
        counts = rng.poisson(np.exp(0.3 * X[:, : n // 2 + 1] @ np.ones(n // 2 + 1) / 10))
        Z = X[:, : n // 2 + 1] / 10
        yield Case(
            f"poisson-{n}",
            lambda w, Z=Z, c=counts: (np.exp(Z @ w) - c * (Z @ w)).sum(),
            np.zeros(Z.shape[1]),
        )
        yield Case(
            f"robust-{n}",
            lambda w, X=X, y=y: np.log1p((X @ w - 3 * y) ** 2).sum() + 0.01 * w @ w,
            np.full(n, 0.1),
        )
        t = np.linspace(0, 5, 40)
        data = 3 * np.exp(-0.7 * t) + 2 * np.exp(-2.5 * t) + 0.01 * rng.standard_normal(40)
        start = np.array([1.0, 0.3, 1.0, 1.0 + seed])
        yield Case(
            f"exponentials-{seed}",
            lambda b, t=t, d=data: ((b[0] * np.exp(-b[1] * t) + b[2] * np.exp(-b[3] * t) - d) ** 2).sum(),
            start,
        )
        scales = 10.0 ** rng.uniform(-4, 4, n)
        Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
        A = Q @ np.diag(np.logspace(0, 2, n)) @ Q.T
        yield Case(
            f"scaled-{n}",
            lambda x, A=A, s=scales: 1 + 0.5 * (x / s - 1) @ A @ (x / s - 1) + ((x / s) ** 4).sum(),
            3.0 * scales,
        )
        P = rng.uniform(size=(25, 2))
        v = np.sin(4 * P[:, 0]) + P[:, 1] ** 2 + 0.1 * rng.standard_normal(25)

        def likelihood(h: Any, P: Any = P, v: Any = v) -> float:
            with np.errstate(all="ignore"):
                d = ((P[:, None] - P[None]) ** 2 * np.exp(-2 * h[1:3])).sum(axis=-1)
                K = np.exp(2 * h[0]) * np.exp(-0.5 * d) + (np.exp(2 * h[3]) + 1e-8) * np.eye(len(v))
            if not np.isfinite(K).all():
                return np.inf
            return float(0.5 * v @ np.linalg.solve(K, v) + 0.5 * np.linalg.slogdet(K)[1])

        yield Case(f"process-{seed}", likelihood, np.array([0.0, -0.5, -0.5, -1.5]))
        L = rng.standard_normal((n, n)) / np.sqrt(n) + np.eye(n)
        yield Case(
            f"chained-{n}",
            lambda x, L=L: (np.cosh(L @ x) - 1).sum() + 0.1 * (x - 1) @ (x - 1),
            np.full(n, 2.0),
        )


def more_wild(variant: str) -> Iterator[Case]:
    from benchmarks.more_wild import problems

    for p in problems("smooth" if variant == "random" else variant):
        case = Case(p.name, p.f, p.x0)
        if variant in ("wavy", "random"):
            exact = Case(p.name, p.exact, p.x0)
            ends = [solve(exact, solver) for solver in ("cgd-auto", "BFGS", "L-BFGS-B")]
            known = min(run.improvements[-1][1] for run in ends)
            case = Case(p.name, p.f, p.x0, known, p.exact, RANDOM if variant == "random" else 0.0)
        yield case


def solve(case: Case, solver: str) -> Run:
    most = PROFILE[-1] * len(case.x0) if solver in PEERS else MOST
    values = Values(case.f, most, case.exact, case.noise)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            end = (SOLVERS | PEERS)[solver](values, case.x0.copy())
        except Spent:
            end = Ended(False, "spent")
        except Exception as error:  # a peer may end by any error
            if solver not in PEERS:
                raise
            end = Ended(False, type(error).__name__)
    return Run(values.improvements, values.used, end)


def after_the_last_gain(run: Run, f0: float) -> float:
    """Return the share of values made after f was within 1e-8 of where it ended, of |f| or of its fall."""
    last = run.improvements[-1][1]
    near = last + 1e-8 * max(abs(last), f0 - last)
    return 1 - next(k for k, f in run.improvements if f <= near) / run.used


def compare(cases: list[Case], each: bool, peers: list[str]) -> None:
    solvers = [*SOLVERS, *peers]
    runs = {case.name: {solver: solve(case, solver) for solver in solvers} for case in cases}
    costs: dict[tuple[str, float], list[float]] = {(s, a): [] for s in solvers for a in ACCURACIES}
    failures, falsely, shares = (
        {s: [] for s in solvers},
        {s: [] for s in solvers},
        {s: [] for s in solvers},
    )
    for case in cases:
        found = runs[case.name]
        f0 = float((case.exact or case.f)(case.x0))
        lowest = min(f for run in found.values() for _, f in run.improvements)
        fstar = min(case.known, lowest) if case.exact else best_value(f0, case.known, lowest, 1e-8)
        line = f"{case.name:26s}"
        for solver, run in found.items():
            for accuracy in ACCURACIES:
                costs[solver, accuracy].append(evaluations_to(run.improvements, f0, fstar, accuracy))
            there = np.isfinite(costs[solver, 1e-8][-1])
            if there and not run.end.success:
                failures[solver].append(f"{case.name} ({run.end.word})")
            if run.end.success and not np.isfinite(costs[solver, 1e-3][-1]):
                falsely[solver].append(case.name)
            shares[solver].append(after_the_last_gain(run, f0))
            cells = " ".join(f"{costs[solver, a][-1]:5.0f}" for a in ACCURACIES)
            line += f" | {cells} {run.used:5d} {run.end.word[:12]:12s}"
        if each:
            print(line)
    print(f"{len(cases)} problems: values over BFGS's, solved, at the minimum but called failures,")
    print("successes more than 1e-3 above the lowest, median share after the last gain")
    for solver in solvers:
        ratios = "/".join(f"{geometric_mean(costs[solver, a], costs['BFGS', a])[0]:.2f}" for a in ACCURACIES)
        solved = "/".join(str(int(np.isfinite(costs[solver, a]).sum())) for a in ACCURACIES)
        print(
            f"{solver:12s} {ratios:16s} {solved:12s} {len(failures[solver]):3d} {len(falsely[solver]):3d}"
            f"   {np.median(shares[solver]):.2f}{'   (within 100n values)' if solver in PEERS else ''}"
        )
    print("ours at the minimum, called failures:", ", ".join(failures["cgd-auto"]) or "none")
    print("ours called successes above the lowest:", ", ".join(falsely["cgd-auto"]) or "none")
    print("how ours ended:", dict(Counter(run["cgd-auto"].end.word for run in runs.values())))
    print("part solved within " + ", ".join(f"{k}n" for k in PROFILE) + " values, at 1e-3 | 1e-5 | 1e-8")
    sizes = np.array([len(case.x0) for case in cases])
    for solver in solvers:
        parts = [profile(np.array([costs[solver, a]]).T / sizes[:, None], PROFILE)[0] for a in ACCURACIES]
        print(f"{solver:12s} " + " | ".join(" ".join(f"{part:.2f}" for part in row) for row in parts))


# --- noise ---------------------------------------------------------------------------------------------


def bowl(x: Any) -> Any:
    return 1 + 0.5 * (np.logspace(0, 2, x.shape[-1]) * (x - 1) ** 2).sum(axis=-1)


def slope_of(f: Callable[[Any], Any], x: Any) -> Any:
    """Return the gradient of a function of complex numbers."""
    return np.array([f(x + 1e-30j * unit).imag * 1e30 for unit in np.eye(len(x))])


def valley(x: Any) -> Any:
    return 2 + (10 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def fit(x: Any) -> Any:
    t = np.linspace(0, 3, 20)
    return 0.5 + ((x[0] * np.exp(-x[1] * t) + x[2] - 2 * np.exp(-1.3 * t) - 0.5) ** 2).sum()


def quartic(x: Any) -> Any:
    return 1 + ((x - 0.5) ** 2 + (x - 0.5) ** 4).sum() + (x.sum() - 0.5 * len(x)) ** 2


def logs(x: Any) -> Any:
    A = np.array([[1.0, 2.0], [-1.0, 1.0], [0.5, -1.0], [-2.0, -0.5]])
    return np.log1p(np.exp(A @ x)).sum() + 0.05 * (x * x).sum()


NOISY = {bowl: 5, valley: 3, fit: 3, quartic: 4, logs: 2}


def noise() -> None:
    """Print for each noise and kind of gradient how many of forty runs are as they should be."""
    print("noise      gradient  successes  near the minimum  values over those without noise  ends")
    lowest = {f: f(scipy.optimize.minimize(f, np.full(n, 0.9), tol=1e-9).x) for f, n in NOISY.items()}
    quiet: dict[tuple[str, Any, int], int] = {}
    for level in NOISES:
        for kind in ("exact", "noisy", "2-point"):
            ends, near, ratios, fine = Counter[str](), 0, [], 0
            for f, n in NOISY.items():
                for seed in range(SEEDS):
                    rng = np.random.default_rng([seed, 7])
                    x0 = rng.uniform(0, 2, n)

                    def value(x: Any, f: Any = f, rng: Any = rng, level: float = level) -> float:
                        return float(f(x)) * (1 + level * rng.uniform(-1, 1))

                    spoilt = np.sqrt(level) if kind == "noisy" else 0.0

                    def grad(x: Any, f: Any = f, rng: Any = rng, spoilt: float = spoilt) -> Any:
                        return slope_of(f, x) * (1 + spoilt * rng.uniform(-1, 1, len(x)))

                    jac = "2-point" if kind == "2-point" else grad
                    result = st.minimize(value, x0, jac=jac, trace=False)
                    ends[result.status.name] += 1
                    good = f(result.x) - lowest[f] <= max(10 * level, 1e-7) * lowest[f]
                    count = result.nfev if kind == "2-point" else result.nfev + result.njev
                    ratio = count / quiet.setdefault((kind, f, seed), count)
                    near, fine = near + good, fine + (bool(result.success) and good and ratio <= 2)
                    ratios.append(ratio)
            won = sum(count for name, count in ends.items() if st.Status[name].success)
            print(
                f"{level:7.0e} {kind:>10s} {won:8d} {near:12d} {np.median(ratios):12.2f} {max(ratios):8.1f}"
                f"    all three: {fine:2d}   {dict(ends)}"
            )


def main() -> None:
    asked = [word for word in sys.argv[1:] if not word.startswith("-")] or ["suites", "aside", "noise"]
    named = [word.partition("=")[2] for word in sys.argv[1:] if word.startswith("--peers")]
    wanted = (named[0].split(",") if named[0] else [*PEERS, "Py-BOBYQA", "NEWUOA"]) if named else []
    peers = [name for name in dict.fromkeys(wanted) if name in PEERS]
    missing = sorted(set(wanted) - set(peers))
    if missing:
        print(f"not installed, left out: {', '.join(missing)}")
    for word in asked:
        print(f"--- {word}")
        if word == "noise":
            noise()
        else:
            made = {"suites": suites, "aside": aside}
            cases = list(made[word]() if word in made else more_wild(word))
            compare(cases, "--each" in sys.argv, peers)


if __name__ == "__main__":
    main()
