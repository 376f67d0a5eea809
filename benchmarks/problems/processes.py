"""48 fits of Gaussian processes of scikit-learn, with gradients and bounds.

The likelihood comes from a Cholesky factor, so its values are spoilt in the ninth to the fourth digit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, RationalQuadratic, WhiteKernel

from ._case import Case

KERNELS: dict[str, Any] = {
    "rbf": lambda d: ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(1e-2),
    "ard": lambda d: ConstantKernel(1.0) * RBF(np.ones(d)) + WhiteKernel(1e-2),
    "matern": lambda d: ConstantKernel(1.0) * Matern(np.ones(d), nu=1.5),
    "rq": lambda d: ConstantKernel(1.0) * RationalQuadratic() + WhiteKernel(1e-3),
}


def waves(rng: np.random.Generator) -> Any:
    X = rng.uniform(size=(60, 1))
    return X, np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(60)


def smooth(rng: np.random.Generator) -> Any:
    X = rng.uniform(size=(50, 2))
    return X, np.exp(-X[:, 0]) * np.cos(3 * X[:, 1])


def linear(rng: np.random.Generator) -> Any:
    X = rng.standard_normal((80, 4))
    return X, X @ np.arange(1, 5) + 0.3 * rng.standard_normal(80)


def friedman(rng: np.random.Generator) -> Any:
    X = rng.uniform(size=(100, 5))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, y + rng.standard_normal(100)


def cases() -> Iterator[Case]:
    for kernel, make in KERNELS.items():
        for data in (waves, smooth, linear, friedman):
            for seed in range(3):
                X, y = data(np.random.default_rng(seed))
                caught: list[Any] = []

                def catch(objective: Any, theta: Any, bounds: Any, caught: list[Any] = caught) -> Any:
                    caught.extend((objective, theta.copy(), bounds))
                    return theta, 0.0

                GaussianProcessRegressor(
                    make(X.shape[1]), optimizer=catch, normalize_y=True, alpha=1e-10
                ).fit(X, y)
                objective, theta, bounds = caught

                def pair(t: Any, objective: Any = objective) -> Any:
                    value, slope = objective(t, eval_gradient=True)
                    return float(value), np.asarray(slope)

                name = f"{kernel}-{data.__name__}-{seed}"
                yield Case(name, lambda t, pair=pair: pair(t)[0], theta, pair, bounds=np.array(bounds))
