"""How many pairs pay: cgd-auto's memory on smooth problems of 50 to 1000 variables.

    python -m benchmarks.memory_by_n [n ...]

Nine kinds of problem with an exact gradient. Printed are the evaluations until f is within 1e-9 of the way
from f(x0) to the lowest value that anyone reaches, and the processor time until then, both as ratios to
cgd-auto with few pairs (15 000/n, from 25 to 200): of the default, of SciPy's L-BFGS-B and BFGS (which takes
minutes at n = 1000, and is left out there). Time is that of one thread, f included; functions take some 10 µs
to 1 ms. A ratio of evaluations is what counts where f takes longer.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import scipy.optimize as so

import steepen as st

SIZES = (50, 100, 200, 400, 1000)
EVALUATIONS = 8000
WITHIN = 1e-9


class Problem(NamedTuple):
    """A function that returns f and ∇f, and a start."""

    both: Callable[[Any], Any]
    x0: Any


def few(n: int) -> int:
    """Return the number of pairs that was the default for every function of n variables."""
    return min(200, max(25, 15_000 // n), 2 * n + 8)


# --- the problems ------------------------------------------------------------------------------------------


def quadratic(n: int, condition: float) -> Problem:
    """Return a quadratic whose axes are turned by two reflections."""
    rng = np.random.default_rng(n)
    mirrors = [v / np.linalg.norm(v) for v in rng.standard_normal((2, n))]
    sizes, minimum = np.geomspace(1.0, condition, n), rng.standard_normal(n)

    def turned(v, order):
        for mirror in order:
            v = v - 2 * (mirror @ v) * mirror
        return v

    def both(x):
        z = x - minimum
        g = turned(sizes * turned(z, mirrors), mirrors[::-1])
        return 0.5 * float(z @ g), g

    return Problem(both, np.zeros(n))


def roughness(x):
    """Return half the sum of squared second differences, and its gradient."""
    bend, g = np.diff(x, 2), np.zeros_like(x)
    g[:-2] += bend
    g[1:-1] -= 2 * bend
    g[2:] += bend
    return 0.5 * float(bend @ bend), g


def spline(n: int) -> Problem:
    rng = np.random.default_rng(n)
    seen = np.sin(np.linspace(0, 9, n)) + 0.3 * rng.standard_normal(n)

    def both(x):
        rough, slope = roughness(x)
        rest = x - seen
        return 0.5 * float(rest @ rest) + 1e4 * rough, rest + 1e4 * slope

    return Problem(both, np.zeros(n))


def counts(n: int) -> Problem:
    """Return the smoothing of counts: Poisson's likelihood with a penalty."""
    rng = np.random.default_rng(n)
    seen = rng.poisson(np.exp(1 + np.sin(np.linspace(0, 9, n)))).astype(float)

    def both(x):
        rough, slope = roughness(x)
        mean = np.exp(x)
        return float(mean.sum() - seen @ x) + 1e3 * rough, mean - seen + 1e3 * slope

    return Problem(both, np.zeros(n))


def logistic(n: int) -> Problem:
    rng = np.random.default_rng(n)
    X = rng.standard_normal((2 * n, n)) * np.geomspace(1.0, 30.0, n)
    Z = X * np.where(X @ rng.standard_normal(n) + 30 * rng.logistic(size=2 * n) > 0, 1.0, -1.0)[:, None]

    def both(x):
        margin = Z @ x
        against = 0.5 * (1 - np.tanh(margin / 2))
        return float(np.logaddexp(0, -margin).sum() + 0.5 * x @ x), x - against @ Z

    return Problem(both, np.zeros(n))


def rosenbrock(n: int) -> Problem:
    def both(x):
        bend, rest, g = x[1:] - x[:-1] ** 2, 1 - x[:-1], np.empty_like(x)
        g[-1] = 0.0
        g[:-1] = -400 * x[:-1] * bend - 2 * rest
        g[1:] += 200 * bend
        return float(100 * bend @ bend + rest @ rest), g

    return Problem(both, np.tile([-1.2, 1.0], n // 2))


def factors(n: int) -> Problem:
    """Return the factorisation of a noisy matrix of rank 2."""
    rng, rows = np.random.default_rng(n), n // 4
    target = rng.standard_normal((rows, 2)) @ rng.standard_normal((2, rows))
    target += 0.1 * rng.standard_normal((rows, rows))

    def both(x):
        left, right = x.reshape(2, rows, 2)
        rest = left @ right.T - target
        g = np.concatenate([(rest @ right).ravel(), (rest.T @ left).ravel()])
        return 0.5 * float((rest * rest).sum()) + 0.005 * float(x @ x), g + 0.01 * x

    return Problem(both, rng.standard_normal(4 * rows))


KINDS: dict[str, Callable[[int], Problem]] = {
    "condition 1e2": lambda n: quadratic(n, 1e2),
    "condition 1e4": lambda n: quadratic(n, 1e4),
    "condition 1e6": lambda n: quadratic(n, 1e6),
    "condition 1e8": lambda n: quadratic(n, 1e8),
    "spline": spline,
    "counts": counts,
    "logistic": logistic,
    "Rosenbrock": rosenbrock,
    "factors": factors,
}


# --- the race ----------------------------------------------------------------------------------------------


def ours(memory: Callable[[int], int | None]) -> Callable[[Any, Any], object]:
    def run(both, x0):
        budget = st.Budget(evals=EVALUATIONS)
        return st.minimize(both, x0, jac=True, memory=memory(len(x0)), gtol=0.0, trace=False, budget=budget)

    return run


def scipy(method: str, **options: Any) -> Callable[[Any, Any], object]:
    def run(both, x0):
        return so.minimize(both, x0, jac=True, method=method, options={"gtol": 0, **options})

    return run


SOLVERS: dict[str, Callable[[Any, Any], object]] = {
    "few": ours(few),
    "default": ours(lambda n: None),
    "L-BFGS-B": scipy("L-BFGS-B", ftol=0, maxfun=EVALUATIONS, maxiter=EVALUATIONS),
    "BFGS": scipy("BFGS", maxiter=EVALUATIONS),
}


class Done(Exception):
    """f is low enough, or the evaluations are used up."""


class Watched:
    """A function that notes the lowest value, the evaluations and the processor time."""

    def __init__(self, both: Callable[[Any], Any], level: float):
        self.both, self.level = both, level
        self.lowest, self.evaluations, self.seconds = np.inf, 0, np.inf
        self.began = time.process_time()

    def __call__(self, x):
        self.evaluations += 1
        f, g = self.both(x)
        self.lowest = min(self.lowest, f)
        if f <= self.level or self.evaluations >= EVALUATIONS:
            self.seconds = time.process_time() - self.began
            raise Done
        return f, g


def race(problem: Problem, solver: Callable[[Any, Any], object], level: float) -> Watched:
    watched = Watched(problem.both, level)
    try:
        with np.errstate(all="ignore"):
            solver(watched, problem.x0)
    except Done:
        pass
    return watched


def lowest(problem: Problem) -> float:
    """Return the lowest value that is easily found."""
    return min(
        race(problem, SOLVERS["L-BFGS-B"], -np.inf).lowest,
        race(problem, ours(lambda n: n + 8), -np.inf).lowest,
    )


def main() -> None:
    sizes = [int(word) for word in sys.argv[1:]] or SIZES
    print(
        f"{'':21}{'few pairs':>16}   {'default':>14}{'L-BFGS-B':>16}{'BFGS':>16}   evaluations, time (ratios)"
    )
    for name, make in KINDS.items():
        for n in sizes:
            problem = make(n)
            f0, best = problem.both(problem.x0)[0], lowest(problem)
            level, cells = best + WITHIN * (f0 - best), []
            base = race(problem, SOLVERS["few"], level)
            for solver in list(SOLVERS)[1 : 3 if n > 400 else None]:
                found = race(problem, SOLVERS[solver], level)
                solved = found.lowest <= level
                part, slow = found.evaluations / base.evaluations, found.seconds / base.seconds
                cells.append(f"{part:7.2f}, {slow:5.2f}" if solved else f"{'not solved':>14}")
            first = f"{base.evaluations:6}, {1e3 * base.seconds:5.0f} ms"
            print(f"{name:14}{n:6} {first:>17}   " + "  ".join(cells), flush=True)


if __name__ == "__main__":
    main()
