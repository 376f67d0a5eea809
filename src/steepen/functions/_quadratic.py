"""Strongly convex quadratics, the paper's among them, as `Function` objects for users and the paper; pure."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._tools.check import floats
from ._function import Function
from ._numerics import Array, spread, total


def _formula(Q: Array, b: Array, x: Any, slope: bool) -> Any:
    matrix = Q.astype(x.real.dtype, copy=False)
    product = matrix @ x if x.ndim < 3 else np.tensordot(matrix, x, 1)
    return product - spread(b, x[0]) if slope else total(x * (product / 2 - spread(b, x[0])))


def quadratic(Q: ArrayLike, b: ArrayLike | None = None) -> Function:
    """Return the strongly convex quadratic ½xᵀQx − bᵀx.

    Q is symmetric and positive definite, and b is zero by default. The bounds of the function are a box of
    half-width 10 around the minimiser Q⁻¹b.

    Examples
    --------
    >>> import steepen as st
    >>> f = st.functions.quadratic([[2.0, 0.0], [0.0, 4.0]], b=[2.0, 4.0])
    >>> f.minima.tolist(), f.fmin
    ([[1.0, 1.0]], -3.0)
    """
    matrix = floats("Q", Q, "a matrix of numbers")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"Q: expected a square matrix, got shape {matrix.shape}")
    n = len(matrix)
    linear = np.zeros(n) if b is None else floats("b", b, "a vector of numbers")
    if linear.shape != (n,):
        raise ValueError(f"b: expected shape ({n},) to match Q, got {linear.shape}")
    if np.abs(matrix - matrix.T).max() > 1e-12 * np.abs(matrix).max():
        raise ValueError("Q: expected a symmetric matrix, got an asymmetric one")
    matrix = (matrix + matrix.T) / 2
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest <= 0:
        raise ValueError(f"Q: expected a positive definite matrix, got eigenvalue {smallest:.3g}")
    return _function(matrix, linear, np.linalg.solve(matrix, linear))


def _function(Q: Array, b: Array, minimiser: Array, resize: Any = None) -> Function:
    bounds, fmin = np.stack([minimiser - 10, minimiser + 10], axis=-1), 0.0 - float(b @ minimiser) / 2
    formula = partial(_formula, Q, b)
    return Function("quadratic", "Quadratic", "bowl-shaped", formula, n=len(b), bounds=bounds,
                    minima=minimiser, fmin=fmin, resize=resize)  # fmt: skip


def paper_quadratic(n: int) -> Function:
    """Return the paper's quadratic: the paper prints no matrix, but this one reproduces its first steps."""
    places = np.linspace(-1, 1, n) if n > 1 else np.zeros(1)
    matrix = np.diag(9.90745113 + 0.89965944 * places)
    return _function(matrix, np.zeros(n), np.zeros(n), paper_quadratic)
