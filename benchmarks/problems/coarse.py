"""Five models whose values have few digits: three in float32, two fits of a differential equation.

The equation is solved with the default tolerances of `solve_ivp`, and judged with small ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from ._case import Case


def in_single(f: Callable[[Any, Any], Any]) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return f(x, kind) in float32 and in float64."""
    return lambda x: float(f(x, np.float32)), lambda x: float(f(x, np.float64))


def logistic(x: Any, kind: Any) -> Any:
    rng = np.random.default_rng(1)
    A = rng.normal(size=(80, 5))
    A *= np.sign(A @ rng.normal(size=5) + rng.normal(size=80))[:, None]
    x = x.astype(kind)
    return np.logaddexp(kind(0), -(A.astype(kind) @ x)).mean() + kind(0.01) * x @ x


def network(x: Any, kind: Any) -> Any:
    t = np.linspace(-1, 1, 30, dtype=kind)
    a, b, c = x.astype(kind).reshape(3, 4)
    hidden = np.tanh(t[:, None] * a + b)
    return ((hidden @ c - np.sin(kind(3) * t)) ** 2).mean() + kind(1e-2) * (x.astype(kind) ** 2).sum()


def process(x: Any, kind: Any) -> Any:
    """Return the negative likelihood of a Gaussian process with three parameters."""
    P = np.random.default_rng(2).uniform(size=25)
    v = (np.sin(6 * P) + 0.1 * np.random.default_rng(3).normal(size=25)).astype(kind)
    with np.errstate(all="ignore"):
        scale, length, noise = np.exp(x.astype(kind))
        K = scale * np.exp(-0.5 * ((P[:, None] - P).astype(kind) / length) ** 2)
        K += (noise + kind(1e-3)) * np.eye(25, dtype=kind)
    if not np.isfinite(K).all():
        return np.inf
    return kind(0.5) * (v @ np.linalg.solve(K, v) + np.linalg.slogdet(K)[1])


def equation(seed: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return the fit of a predator-prey equation to data, with default tolerances and with small ones."""
    times = np.linspace(0, 8, 25)

    def solution(x: Any, **tolerances: float) -> Any:
        def rates(t: float, y: Any) -> Any:
            return [y[0] * (x[0] - x[1] * y[1]), y[1] * (x[2] * y[0] - x[3])]

        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            found = solve_ivp(rates, (0, 8), [1.0, 0.5], t_eval=times, **tolerances)
        return found.y if found.y.shape[-1] == len(times) else np.full((2, len(times)), np.inf)

    fine = {"rtol": 1e-7, "atol": 1e-9}
    data = solution([1.1, 0.6, 0.5, 0.9], **fine)
    data = data * (1 + 0.05 * np.random.default_rng(seed).normal(size=data.shape))

    def fit(**tolerances: float) -> Callable[[Any], Any]:
        def value(x: Any) -> float:
            if (x <= 0).any() or (x > 5).any():  # beyond, the solver may need millions of steps
                return np.inf
            return float(((solution(x, **tolerances) - data) ** 2).sum())

        return value

    return fit(), fit(**fine)


def cases() -> Iterator[Case]:
    rng = np.random.default_rng(5)
    for model, n in ((logistic, 5), (network, 12), (process, 3)):
        value, exact = in_single(model)
        yield Case(f"{model.__name__}, float32", value, 0.5 * rng.normal(size=n), exact=exact)
    for seed in range(2):
        value, exact = equation(seed)
        yield Case(f"solve_ivp fit {seed}", value, np.array([0.8, 0.4, 0.4, 0.7]), exact=exact)
