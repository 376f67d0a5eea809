"""600 convex functions of 2 to 12 variables, of five kinds, that are not differentiable at their minimum.

The minimum is known by construction or from linear programming. No gradient is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.optimize

from ._case import Case

TOTAL = 600


def l1_system(rng: np.random.Generator, n: int, name: str) -> Case:
    M = rng.normal(size=(n, n))
    return Case(name, lambda x: 1 + abs(M @ (x - 1)).sum(), np.zeros(n), known=1.0)


def max_of_quadratics(rng: np.random.Generator, n: int, name: str) -> Case:
    """Return maxᵢ (2 + gᵢᵀd + ½dᵀAᵢd) with d = x − x*: Σλᵢgᵢ = 0 for some λ > 0, so 2 is the minimum."""
    m = n + 1
    G = rng.normal(size=(m, n))
    weights = rng.uniform(0.5, 1.5, m)
    G[-1] = -(weights[:-1] @ G[:-1]) / weights[-1]
    roots = rng.normal(size=(m, n, n)) / np.sqrt(n)
    centre = rng.normal(size=n)

    def f(x: Any) -> Any:
        d = x - centre
        return (2 + G @ d + 0.5 * ((roots @ d) ** 2).sum(axis=-1)).max()

    return Case(name, f, centre + rng.normal(size=n), known=2.0)


def lasso(rng: np.random.Generator, n: int, name: str) -> Case:
    """Return ½‖Ax − b‖² + μ‖x‖₁ with b such that a chosen x*, half of it zero, is the minimiser."""
    A = rng.normal(size=(2 * n, n))
    best = rng.normal(size=n) * (np.arange(n) % 2)
    signs = np.where(best != 0, np.sign(best), rng.uniform(-0.8, 0.8, n))
    mu = 0.5
    b = A @ best + mu * A @ np.linalg.solve(A.T @ A, signs)

    def f(x: Any) -> Any:
        return 0.5 * ((A @ x - b) ** 2).sum() + mu * abs(x).sum()

    return Case(name, f, rng.normal(size=n), known=float(f(best)))


def l1_regression(rng: np.random.Generator, n: int, name: str) -> Case:
    A = rng.normal(size=(3 * n, n))
    b = A @ rng.normal(size=n) + rng.standard_t(2, size=3 * n)
    # minimise Σt with −t ≤ Ax − b ≤ t
    unit = np.eye(len(b))
    x = linear_program(n, np.block([[A, -unit], [-A, -unit]]), np.concatenate([b, -b]))
    return Case(name, lambda w: abs(A @ w - b).sum(), np.zeros(n), known=float(abs(A @ x - b).sum()))


def hinge(rng: np.random.Generator, n: int, name: str) -> Case:
    """Return the hinge loss of a linear classifier whose classes overlap."""
    A = rng.normal(size=(6 * n, n))
    A *= np.sign(A @ rng.normal(size=n) + 1.5 * np.sqrt(n) * rng.normal(size=len(A)))[:, None]

    def f(w: Any) -> Any:
        return np.maximum(0, 1 - A @ w).sum()

    # minimise Σt with t ≥ 1 − Aw and t ≥ 0
    x = linear_program(n, np.hstack([-A, -np.eye(len(A))]), -np.ones(len(A)))
    return Case(name, f, np.zeros(n), known=float(f(x)))


def linear_program(n: int, A: Any, b: Any) -> Any:
    """Return the x of min Σt over (x, t) with A·(x, t) ≤ b and t ≥ 0."""
    slacks = A.shape[1] - n
    cost = np.concatenate([np.zeros(n), np.ones(slacks)])
    found = scipy.optimize.linprog(cost, A, b, bounds=[(None, None)] * n + [(0, None)] * slacks)
    assert found.success, found.message
    return found.x[:n]


FAMILIES: dict[str, Callable[[np.random.Generator, int, str], Case]] = {
    "‖M(x − 1)‖₁": l1_system,
    "max of quadratics": max_of_quadratics,
    "hinge loss": hinge,
    "L1 regression": l1_regression,
    "lasso": lasso,
}


def cases() -> Iterator[Case]:
    for family, make in FAMILIES.items():
        for k in range(TOTAL // len(FAMILIES)):
            yield make(np.random.default_rng([41, k]), 2 + k % 11, f"{family} {k}")
