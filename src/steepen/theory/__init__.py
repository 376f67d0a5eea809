"""Convergence theory of CGD, and estimates of its constants from H·v, for users, the paper and plots.

`rates` holds Theorem 1 and the analysis on quadratics, `curvature` the estimates of L and μ, `stationary`
Lemma 1, in one variable and in more. The symbols are the paper's: λ is `lam`; L > 0 the smoothness
of f, the largest eigenvalue of its Hessian over all points; 0 < μ <= L the constant of the PL inequality
½‖∇f‖² >= μ(f − f*) (or of strong convexity, or for least squares ½‖Ax − b‖² the smallest non-zero
eigenvalue of AᵀA); 0 < l <= L the ends of a quadratic's spectrum. Theorem 1 is for λ >= 0; on quadratics λ
may be negative while 1 + 2λL > 0, so that (I + 2λQ)Q stays positive definite.

Examples
--------
A step that Theorem 1 proves safe, with an estimated L:

>>> import numpy as np
>>> from steepen import theory
>>> Q = np.diag([1.0, 2.0])
>>> L = theory.largest_curvature(lambda x, v: Q @ v, np.zeros(2)).value
>>> round(theory.safe_step(L, lam=0.25), 12)
0.125
"""

from .curvature import HVP, Curvature, largest_curvature, pl_constant, smallest_curvature, smoothness
from .rates import condition_number, contraction, linear_rate, optimal_rate, quadratic_step, safe_step
from .stationary import artificial_points, classify, nature, penalised_curvature

__all__ = [
    "HVP", "Curvature", "artificial_points", "classify", "condition_number", "contraction",
    "largest_curvature", "linear_rate", "nature", "optimal_rate", "penalised_curvature", "pl_constant",
    "quadratic_step", "safe_step", "smallest_curvature", "smoothness",
]  # fmt: skip
