"""Quasi-Newton matrices, for BFGS, DFP and CGD with their curvature: rank-two updates in O(n²), in place.

Two formulas make all four updates of the paper's preliminaries, since the Hessian form of one method is the
inverse form of the other with s and y exchanged. With ρ = aᵀb and w = M·b:

    difference form   M + a aᵀ/ρ − w wᵀ/(bᵀw)                     DFP inverse, BFGS Hessian
    product form      M + (1 + bᵀw/ρ)·a aᵀ/ρ − (a wᵀ + w aᵀ)/ρ    BFGS inverse, DFP Hessian

(a, b) is (s, y) for an inverse and (y, s) for a Hessian; the updated M maps b to a.
"""

from __future__ import annotations

from ...arrays import Array
from .backend import Backend

CURVATURE = 1e-10  # a pair is skipped unless yᵀs > CURVATURE·‖y‖‖s‖: the matrix then stays positive definite
LEAST, MOST = 1e-290, 1e290  # or if yᵀs or the matrix's curvature along it lies outside: it would overflow


def update(matrix: Array, a: Array, b: Array, backend: Backend, *, product_form: bool) -> Array:
    """Return M with M·b = a, in place; rows where the curvature of the pair is not positive are skipped."""
    rho, most = backend.dot(a, b), backend.at_most(MOST)
    useful = (rho > CURVATURE * backend.norm(a) * backend.norm(b)) & (rho > LEAST) & (rho < most)
    if not backend.any(useful):
        return matrix
    w = backend.product(matrix, b)
    bw = backend.dot(b, w)
    useful = useful & (bw > LEAST) & (bw < most)
    if not backend.any(useful):
        return matrix
    rho, bw = backend.select(useful, rho, 1.0), backend.select(useful, bw, 1.0)
    if product_form:  # both terms in one: a vᵀ + v aᵀ with v = (1 + bᵀw/ρ)/2·a − w
        new = backend.rank_two(matrix, 1 / rho, a, backend.times((1 + bw / rho) / 2, a) - w)
    else:
        new = backend.rank_one(backend.rank_one(matrix, 1 / rho, a), -1 / bw, w)
    return backend.select(useful, new, matrix)
