"""Fits whose values are noisy: 48 Gaussian processes of scikit-learn, by cgd-auto and by SciPy's L-BFGS-B.

The likelihood comes from a Cholesky factor, so its values are spoilt in the ninth to the fourth digit.
Printed are the evaluations of both (f and ∇f come together), how each run ended, and how far f ends above the
lower of the two.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, RationalQuadratic, WhiteKernel

import steepen as st

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


def fits() -> Iterator[tuple[str, Any, Any, Any]]:
    """Return the name, the function (f, ∇f), the start and the bounds of every fit."""
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

                yield f"{kernel}-{data.__name__}-{seed}", pair, theta, bounds


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    print("fit                 cgd-auto                 L-BFGS-B       f − lower of both")
    ratios: list[float] = []
    ends, peers, above = Counter[str](), Counter[str](), [0, 0]
    for name, fun, theta, bounds in fits():
        ours = st.minimize(fun, theta, jac=True, bounds=bounds)
        peer = minimize(fun, theta, jac=True, bounds=bounds, method="L-BFGS-B")
        ratios.append(ours.nfev / peer.nfev)
        ends[ours.status.name] += 1
        peers["success" if peer.success else "no success"] += 1
        least = min(ours.fun, peer.fun)
        gaps = ours.fun - least, peer.fun - least
        above = [a + (gap > 1e-3) for a, gap in zip(above, gaps, strict=True)]
        print(
            f"{name:18s} {ours.nfev:4d}  {ours.status.name:12s} {peer.nfev:4d}  {peer.success!s:6s}"
            f" {gaps[0]:8.1e} {gaps[1]:8.1e}"
        )
    print(f"\ncgd-auto: {dict(ends)}; more than 1e-3 above the other in {above[0]} fits")
    print(f"L-BFGS-B: {dict(peers)}; more than 1e-3 above the other in {above[1]} fits")
    print(f"evaluations, cgd-auto over L-BFGS-B: geometric mean {np.exp(np.mean(np.log(ratios))):.2f}")


if __name__ == "__main__":
    main()
