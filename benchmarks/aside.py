"""cgd-auto and SciPy with gradients on problems kept aside: nothing in the library was tuned on these.

    python -m benchmarks.aside [jobs]

They are the test functions in 2, 10 and 40 variables from two random starts each, logistic regressions that
can and cannot be separated, Lennard-Jones clusters, matrix completions and small networks. Printed are the
evaluations (f and ∇f at one point are one) to 1e-3, 1e-5 and 1e-8 of the way from f(x0) to the lowest value
that anyone reached, as geometric means against L-BFGS-B, and the problems solved.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from benchmarks.bench.measure import measure
from benchmarks.bench.profiles import evaluations_to, geometric_mean
from benchmarks.problems import Problem
from joblib import Parallel, delayed
from scipy import special

from steepen.functions import functions

BUDGET, ACCURACIES = 3000, (1e-3, 1e-5, 1e-8)
SOLVERS = ("L-BFGS-B", "BFGS", "cgd-auto")


class Aside(Problem):
    """A problem from a function that returns f and ∇f at one point."""

    def __init__(self, name: str, both: Callable[[Any], Any], x0: Any):
        super().__init__(name, name, "aside", both, x0, -np.inf)

    def value_and_grad(self, X: Any) -> Any:
        with np.errstate(all="ignore"):
            return self._evaluate(np.asarray(X))


def problems() -> Iterator[Aside]:
    for key, f in sorted(functions.items()):
        sizes = (4, 40) if key == "powell" else (2, 10, 40)  # Powell's variables come in fours
        for n in sizes if f.any_n else (0,):
            h = f.at(n=n) if n else f
            for seed in range(2):
                low, high = h.bounds.T
                x0 = np.random.default_rng([seed, n, len(key)]).uniform(low, high)
                problem = Aside(f"{key}-{n}-{seed}", lambda x, h=h: (h(x), h.grad(x)), x0)
                if all(np.isfinite(part).all() for part in problem.value_and_grad(x0)):
                    yield problem
    rng = np.random.default_rng(7)
    for n in (5, 20, 100):
        for noise in (0, 2):
            X, w = rng.standard_normal((3 * n, n)), rng.standard_normal(n)
            y = np.sign(X @ w + noise * rng.standard_normal(3 * n))
            yield Aside(f"logistic-{n}-{noise}", lambda w, X=X, y=y: logistic(w, X, y), np.zeros(n))
    for atoms in (7, 13, 19):
        for seed in range(2):
            box = 1.3 * 1.4 * (atoms / 13) ** (1 / 3)
            start = np.random.default_rng([atoms, seed]).uniform(-box, box, 3 * atoms)
            yield Aside(f"lennard-jones-{atoms}-{seed}", lennard_jones, start)
    for seed, (a, b, r) in enumerate(((20, 15, 2), (40, 30, 3))):
        rng = np.random.default_rng(seed)
        T, seen = rng.standard_normal((a, r)) @ rng.standard_normal((r, b)), rng.uniform(size=(a, b)) < 0.5
        both = lambda x, T=T, seen=seen, r=r: completion(x, T, seen, r)  # noqa: E731
        yield Aside(f"completion-{seed}", both, 0.1 * rng.standard_normal((a + b) * r))
    for seed in range(3):
        rng = np.random.default_rng(50 + seed)
        X = rng.standard_normal((40, 3))
        both = lambda x, X=X: network(x, X, np.sin(X).sum(axis=1))  # noqa: E731
        yield Aside(f"network-{seed}", both, 0.5 * rng.standard_normal(40))


def logistic(w: Any, X: Any, y: Any) -> Any:
    z = y * (X @ w)
    return float(np.logaddexp(0, -z).sum()), X.T @ (-y * special.expit(-z))


def lennard_jones(x: Any) -> Any:
    d = x.reshape(-1, 1, 3) - x.reshape(1, -1, 3)
    square = (d**2).sum(axis=-1)
    np.fill_diagonal(square, 1.0)
    sixth = square**-3
    np.fill_diagonal(sixth, 0.0)
    pull = 4 * (-12 * sixth**2 + 6 * sixth) / square
    return float(2 * (sixth**2 - sixth).sum()), (pull[..., None] * d).sum(axis=1).ravel()


def completion(x: Any, T: Any, seen: Any, r: int) -> Any:
    a, b = T.shape
    U, V = x[: a * r].reshape(a, r), x[a * r :].reshape(r, b)
    E = seen * (U @ V - T)
    return float(0.5 * (E**2).sum()), np.concatenate([(E @ V.T).ravel(), (U.T @ E).ravel()])


def network(x: Any, X: Any, y: Any) -> Any:
    W, c, v = x[:24].reshape(3, 8), x[24:32], x[32:]
    H = np.tanh(X @ W + c)
    e = H @ v - y
    D = np.outer(e, v) * (1 - H * H)
    return float(0.5 * e @ e), np.concatenate([(X.T @ D).ravel(), D.sum(axis=0), H.T @ e])


def runs(solver: str) -> dict[str, Any]:
    return {p.name: measure(p, solver, BUDGET).improvements for p in problems()}


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else -1
    found = dict(zip(SOLVERS, Parallel(n_jobs=jobs)(delayed(runs)(s) for s in SOLVERS), strict=True))
    first = {p.name: float(p(p.x0)) for p in problems()}
    least = {name: min(run[name][-1][1] for run in found.values() if run[name]) for name in first}
    print(f"{len(first)} problems; evaluations over L-BFGS-B's (solved) to 1e-3, 1e-5, 1e-8")
    for solver in SOLVERS:
        cells = []
        for accuracy in ACCURACIES:
            own, peer = (
                [evaluations_to(found[s][name], first[name], least[name], accuracy) for name in first]
                for s in (solver, SOLVERS[0])
            )
            cells.append(f"{geometric_mean(own, peer)[0]:.3f} ({int(np.isfinite(own).sum())})")
        print(f"{solver:10} " + "  ".join(cells), flush=True)


if __name__ == "__main__":
    main()
