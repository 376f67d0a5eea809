"""The problem object: a start, a function with its gradient, and the best value known."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from steepen.functions._numerics import Array, points

Evaluate = Callable[[Array], tuple[Any, Array]]
Residuals = Callable[[Array], tuple[Array, Array]]


class Problem:
    """A function to minimise from a standard start, with the best value known.

    Parameters
    ----------
    name, title, suite : str
        The key in `benchmarks.problems`, the printed name, and the suite it belongs to.
    evaluate : callable
        ``evaluate(x)`` returns value and gradient for coordinates-first x of shape (n, ...).
    x0 : array_like
        The standard start. Its length is the dimension `n`.
    fbest : float
        The least value known; where it is not attained, the infimum.
    other_ends : sequence of float
        Values of worse places where descent from x0 has been seen to end: local minima, saddles entered
        along a symmetry, limits at infinity.

    Notes
    -----
    Value and gradient share their work, so the value alone costs as much as the pair. They are analytic
    in x: complex points give exact second derivatives by complex step. float32 points are evaluated in
    double and answered in float32. Where the function overflows or is not defined, what comes back is
    infinite or NaN, without a warning.
    """

    def __init__(
        self,
        name: str,
        title: str,
        suite: str,
        evaluate: Evaluate,
        x0: ArrayLike,
        fbest: float,
        other_ends: Sequence[float] = (),
    ) -> None:
        self.name = name
        self.title = title
        self.suite = suite
        self.x0 = frozen(x0)
        self.n = len(self.x0)
        self.fbest = float(fbest)
        self.other_ends = tuple(other_ends)
        self._evaluate = evaluate

    def __call__(self, X: ArrayLike) -> Any:
        """Return the values at X of shape (..., n): shape (...), a scalar for one point."""
        return self.value_and_grad(X)[0]

    def grad(self, X: ArrayLike) -> Array:
        """Return the gradients at X, in its shape."""
        return self.value_and_grad(X)[1]

    def value_and_grad(self, X: ArrayLike) -> tuple[Any, Array]:
        """Return the values and the gradients at X, as one evaluation."""
        x = points("X", X, self.name, self.n)
        with np.errstate(all="ignore"):
            value, grad = self._evaluate(x.T.astype(np.result_type(x, float), copy=False))
            return value.T.astype(x.dtype, copy=False), grad.T.astype(x.dtype, copy=False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, n={self.n}, fbest={self.fbest:.6g})"


def frozen(values: ArrayLike) -> Array:
    """Return a read-only copy in double precision."""
    array = np.array(values, dtype=float)
    array.setflags(write=False)
    return array


def _one_by_one(point: Evaluate, x: Array) -> tuple[Any, Array]:
    if x.ndim == 1:
        return point(x)
    values, grads = np.empty(x.shape[1:], x.dtype), np.empty_like(x)
    for place in np.ndindex(x.shape[1:]):
        values[place], grads[:, *place] = point(x[:, *place])
    return values, grads


def one_by_one(point: Evaluate) -> Evaluate:
    """Return a function of many points from one written for a single point."""
    return partial(_one_by_one, point)


def _sum_of_squares(residuals: Residuals, x: Array) -> tuple[Any, Array]:
    r, J = residuals(x)
    return r @ r, 2 * (r @ J)


def sum_of_squares(residuals: Residuals) -> Evaluate:
    """Return Σ rᵢ² and its gradient 2Jᵀr, for a function giving r and J at one point."""
    return one_by_one(partial(_sum_of_squares, residuals))


def jacobian(rows: int, *columns: Any) -> Array:
    """Return the matrix with these columns; a number stands for a constant column."""
    J = np.empty((rows, len(columns)), np.result_type(float, *columns))
    for j, column in enumerate(columns):
        J[:, j] = column
    return J
