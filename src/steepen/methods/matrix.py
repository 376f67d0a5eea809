"""Quasi-Newton matrices, for BFGS, DFP and CGD with their curvature: rank-two updates in O(n²).

Two formulas make all four updates of the paper's preliminaries, since the Hessian form of one method is the
inverse form of the other with s and y exchanged. With ρ = aᵀb and w = M·b:

    difference form   M + a aᵀ/ρ − w wᵀ/(bᵀw)                     DFP inverse, BFGS Hessian
    product form      M + (1 + bᵀw/ρ)·a aᵀ/ρ − (a wᵀ + w aᵀ)/ρ    BFGS inverse, DFP Hessian

(a, b) is (s, y) for an inverse and (y, s) for a Hessian; the updated M maps b to a.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import is_numpy
from ..arrays import norm as scaled_norm
from ..questions import Vector
from ..vectors import HUGE, TINY, dot, norm

CURVATURE = 1e-10
"""A pair is skipped unless yᵀs > CURVATURE·‖y‖‖s‖: the matrix then stays positive definite."""

LARGE = 64
"""From this length on a matrix is updated in place."""

LEAST, MOST = 1e-290, 1e290
"""It is skipped, too, if yᵀs or the matrix's curvature along it lies outside: it would overflow."""


def updated(matrix: Vector, s: Vector, y: Vector, rule: str, *, inverse: bool) -> Vector:
    """Return the matrix with the pair s = x₊ − x, y = ∇f₊ − ∇f, by the rule "bfgs" or "dfp"."""
    a, b = (s, y) if inverse else (y, s)
    rho = dot(a, b)
    if not (rho > CURVATURE * norm(a) * norm(b) and LEAST < rho < MOST):
        return matrix
    w = matrix @ b
    bw = dot(b, w)
    if not LEAST < bw < MOST:
        return matrix
    if len(a) >= LARGE and is_numpy(matrix):
        return _updated_in_place(matrix, a, w, rho, bw, (rule == "bfgs") == inverse)
    return rank_two(matrix, a, w, rho, bw, (rule == "bfgs") == inverse, _times)


def _updated_in_place(
    matrix: NDArray[Any], a: NDArray[Any], w: NDArray[Any], rho: float, bw: float, product: bool
) -> NDArray[Any]:
    """Update a large matrix where it is, by BLAS."""
    if product:
        v = ((1 + bw / rho) / 2) * a - w
        add_outer(matrix, 1 / rho, a, v)
        add_outer(matrix, 1 / rho, v, a)
    else:
        add_outer(matrix, 1 / rho, a, a)
        add_outer(matrix, -1 / bw, w, w)
    return matrix


def subtract_outer(matrix: Vector, left: Vector, right: Vector) -> None:
    """Subtract left·rightᵀ from a matrix where it is; by BLAS if it is large."""
    if is_numpy(matrix) and matrix.size >= LARGE * LARGE:
        add_outer(matrix, -1.0, left, right)
    else:
        matrix -= left[:, None] * right


def add_outer(matrix: NDArray[Any], number: float, left: NDArray[Any], right: NDArray[Any]) -> None:
    """Add number·left·rightᵀ to a matrix where it is, by BLAS."""
    _ger(matrix.dtype)(number, right, left, a=matrix.T, overwrite_a=1)  # BLAS reads rows as columns


@cache
def _ger(dtype: Any) -> Any:
    """Return BLAS's rank-one update for a dtype."""
    import scipy.linalg.blas as blas  # here, so that `import steepen` stays light

    return blas.sger if dtype == np.float32 else blas.dger  # pyright: ignore


def updated_rows(
    matrices: NDArray[Any], s: NDArray[Any], y: NDArray[Any], rule: str, *, inverse: bool
) -> NDArray[Any]:
    """Return the matrices (B, n, n) of many runs, each with its pair, the same to the bit as `updated`."""
    a, b = (s, y) if inverse else (y, s)
    rho = row_dots(a, b)
    good = (rho > CURVATURE * row_norms(a) * row_norms(b)) & (rho > LEAST) & (rho < MOST)
    w = row_products(matrices, b)
    bw = row_dots(b, w)
    good &= (bw > LEAST) & (bw < MOST)
    found = rank_two(matrices, a, w, rho, bw, (rule == "bfgs") == inverse, row_times)
    skipped = np.flatnonzero(~good)
    found[skipped] = matrices[skipped]
    return found


def rank_two(
    matrix: Vector, a: Vector, w: Vector, rho: Any, bw: Any, product: bool,
    times: Callable[[Any, Vector], Vector],
) -> Vector:  # fmt: skip
    """Return the matrix by the product form or the difference form; `times` multiplies number and vector."""
    if product:  # both terms in one: a vᵀ + v aᵀ with v = (1 + bᵀw/ρ)/2·a − w
        v = times((1 + bw / rho) / 2, a) - w
        a = times(1 / rho, a)
        return matrix + _outer(a, v) + _outer(v, a)
    return matrix + _outer(times(1 / rho, a), a) - _outer(times(1 / bw, w), w)


def _outer(a: Vector, b: Vector) -> Vector:
    return a[..., :, None] * b[..., None, :]


def _times(number: float, v: Vector) -> Vector:
    return number * v


# --- rows of a batch, each the same to the bit as a single vector -----------------------------------------


def row_dots(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """Return the inner products of rows; np.vecdot sums as a.dot(b) does if rows are contiguous."""
    return np.vecdot(a, b).astype(np.float64, copy=False)


def row_norms(v: NDArray[Any]) -> NDArray[np.float64]:
    """Return the Euclidean norms of rows."""
    square = row_dots(v, v)
    size = np.sqrt(square)
    if not (len(square) and square.min() > TINY and square.max() < HUGE):
        odd = np.flatnonzero(~((square > TINY) & (square < HUGE)))
        size[odd] = scaled_norm(v[odd])[:, 0] if len(odd) else 0.0
    return size


def row_products(matrices: NDArray[Any], v: NDArray[Any]) -> NDArray[Any]:
    """Return the product of each matrix with its vector."""
    return np.matmul(matrices, v[:, :, None])[:, :, 0]


def row_times(numbers: Any, v: NDArray[Any]) -> NDArray[Any]:
    """Return each row times its number, or all times the same one."""
    if np.ndim(numbers) == 0:
        return float(numbers) * v
    each = numbers.astype(v.dtype, copy=False).repeat(v.shape[1])  # faster than broadcasting to few columns
    each *= v.reshape(-1)
    return each.reshape(v.shape)
