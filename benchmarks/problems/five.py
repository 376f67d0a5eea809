"""Five smooth functions of 2 to 5 variables, from eight starts each: what noise is put on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ._case import Case

SEEDS = 8


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


FUNCTIONS = {bowl: 5, valley: 3, fit: 3, quartic: 4, logs: 2}


def cases() -> Iterator[Case]:
    for f, n in FUNCTIONS.items():
        for seed in range(SEEDS):
            x0 = np.random.default_rng([seed, 7]).uniform(0, 2, n)
            both = lambda x, f=f: (f(x), slope_of(f, x))  # noqa: E731
            yield Case(f"{f.__name__}-{seed}", f, x0, both, seed=(seed, 7))
