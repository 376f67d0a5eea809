"""For scikit-learn to call: `GaussianProcessRegressor(optimizer=optimizer)`; NumPy only, keeps no state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._call.minimize import minimize
from .._call.multistart import descend
from .._tools.check import whole

__all__ = ["Optimizer", "optimizer"]

FTOL = 2.2e-9  # that of SciPy's L-BFGS-B, scikit-learn's default optimizer


@dataclass(frozen=True)
class Optimizer:
    """Fit the hyperparameters θ of a scikit-learn Gaussian process, from one start or from several.

    scikit-learn calls an optimizer once per restart. So leave its `n_restarts_optimizer` at 0 and set
    `restarts` here: the runs then advance together, and those that are too far behind, or converge to the
    end point of a better one, stop early.

    Parameters
    ----------
    restarts : int
        The number of starts: the kernel's own, and others drawn uniformly within the bounds of θ.
    seed : int
        The seed of these draws.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> from steepen.integrations.sklearn import Optimizer, optimizer
    >>> X = np.linspace(0, 1, 9)[:, None]
    >>> y = np.sin(6 * X[:, 0])
    >>> one = GaussianProcessRegressor(optimizer=optimizer).fit(X, y)
    >>> many = GaussianProcessRegressor(optimizer=Optimizer(restarts=8)).fit(X, y)
    >>> bool(many.log_marginal_likelihood_value_ >= one.log_marginal_likelihood_value_ - 1e-6)
    True
    """

    restarts: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        whole("restarts", self.restarts, 1)
        whole("seed", self.seed, 0)

    def __call__(
        self, obj_func: Callable[..., Any], initial_theta: Any, bounds: Any
    ) -> tuple[NDArray[np.float64], float]:
        """Return the best θ, and the value of `obj_func` there."""
        box = np.asarray(bounds, dtype=float).reshape(-1, 2)
        start = np.asarray(initial_theta, dtype=float)
        if self.restarts == 1:
            fun = partial(_both, obj_func)
            found = minimize(fun, start, jac=True, bounds=box.tolist(), ftol=FTOL, trace=False)
            return np.asarray(found.x), float(found.fun)
        if not np.isfinite(box).all():
            raise ValueError(f"restarts: to draw starts, expected finite bounds, got {bounds!r}")
        draws = np.random.default_rng(self.seed).uniform(*box.T, size=(self.restarts - 1, len(box)))

        def rows(x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
            f, g = zip(*(_both(obj_func, row) for row in x), strict=True)
            return np.array(f), np.stack(g)

        found = descend(rows, np.vstack([start, draws]), *box.T, race=True)
        f = np.where(np.isfinite(found.fun), found.fun, np.inf)
        best = int(np.argmin(f))
        return np.asarray(found.x)[best], float(f[best])


def _both(obj_func: Callable[..., Any], theta: NDArray[Any]) -> tuple[float, NDArray[Any]]:
    f, g = obj_func(np.array(theta), eval_gradient=True)
    return float(f), np.asarray(g)


optimizer = Optimizer()
"""An `Optimizer` with one start."""
