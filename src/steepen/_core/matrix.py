"""Quasi-Newton matrices: rank-two updates in O(n²), and the product with a vector.

Two formulas make all four updates of the paper's preliminaries, since the Hessian form of one method is the
inverse form of the other with s and y exchanged. With ρ = aᵀb and w = M·b:

    difference form   M + a aᵀ/ρ − w wᵀ/(bᵀw)                     DFP inverse, BFGS Hessian
    product form      M + (1 + bᵀw/ρ)·a aᵀ/ρ − (a wᵀ + w aᵀ)/ρ    BFGS inverse, DFP Hessian

(a, b) is (s, y) for an inverse and (y, s) for a Hessian; the updated M maps b to a.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Array, Kit, Scalar, is_numpy

CURVATURE = 1e-10
"""A pair is skipped unless yᵀs > CURVATURE·‖y‖‖s‖: the matrix then stays positive definite."""

LEAST, MOST = 1e-290, 1e290
"""A pair is skipped, too, if yᵀs or the curvature of the matrix along it lies outside: it would overflow."""

LARGE = 32
"""From this n on a single run is worth BLAS; below it, its arithmetic is that of a batch."""


def identity(x: Array, kit: Kit) -> Array:
    """Give the starting matrix, one for each row of a batch."""
    n = x.shape[-1]
    if _on_blas(x, kit):
        return np.eye(n, dtype=x.dtype, order="F")
    eye = kit.xp.eye(n, dtype=x.dtype)
    return eye if kit.size is None else x[..., None] * 0 + eye


def apply(matrix: Array, v: Array, kit: Kit) -> Array:
    """Multiply: M·v."""
    if _on_blas(v, kit):
        return _blas(v, "symv")(1.0, matrix, v, lower=1)
    return (matrix * v[..., None, :]).sum(axis=-1)


def update(matrix: Array, a: Array, b: Array, kit: Kit, *, product_form: bool) -> Array:
    """Update M so that M·b = a; the pair is skipped, row by row, where its curvature is not positive."""
    rho = kit.dot(a, b)
    useful = (rho > CURVATURE * kit.norm(a) * kit.norm(b)) & (rho > LEAST) & (rho < MOST)
    if not kit.any(useful):
        return matrix
    w = apply(matrix, b, kit)
    bw = kit.dot(b, w)
    useful = useful & (bw > LEAST) & (bw < MOST)
    if not kit.any(useful):
        return matrix
    if _on_blas(b, kit):
        _in_place(matrix, a, w, rho, bw, product_form)
        return matrix
    rho, bw = kit.pick(useful, rho, 1.0), kit.pick(useful, bw, 1.0)
    new = generic(matrix, a, w, rho, bw, kit, product_form)
    return new if kit.size is None else kit.where(useful, new, matrix)


def generic(
    matrix: Array, a: Array, w: Array, rho: Scalar, bw: Scalar, kit: Kit, product_form: bool
) -> Array:
    """Give the updated matrix as a new array, for batches and any array library."""
    scaled = kit.times(1 / rho, a)
    if product_form:
        v = kit.times((1 + bw / rho) / 2, a) - w
        return matrix + _outer(scaled, v) + _outer(v, scaled)
    return matrix + _outer(scaled, a) - _outer(kit.times(1 / bw, w), w)


def _in_place(matrix: Array, a: Array, w: Array, rho: float, bw: float, product_form: bool) -> None:
    """Update the lower triangle of a NumPy matrix where it stands."""
    if product_form:
        # both terms are one symmetric rank-two update: a vᵀ + v aᵀ with v = (1 + bᵀw/ρ)/2·a − w
        v = ((1 + bw / rho) / 2) * a - w
        _blas(a, "syr2")(1 / rho, a, v, lower=1, a=matrix, overwrite_a=1)
    else:
        _blas(a, "syr")(1 / rho, a, lower=1, a=matrix, overwrite_a=1)
        _blas(a, "syr")(-1 / bw, w, lower=1, a=matrix, overwrite_a=1)


def _on_blas(v: Array, kit: Kit) -> bool:
    return kit.size is None and len(v) >= LARGE and is_numpy(v)


def _blas(v: Array, name: str) -> Any:
    import scipy.linalg.blas as blas  # here, so that `import steepen` stays light

    return getattr(blas, ("s" if v.dtype == np.float32 else "d") + name)


def _outer(a: Array, b: Array) -> Array:
    return a[..., :, None] * b[..., None, :]
