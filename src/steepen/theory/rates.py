"""Convergence rates of CGD, for users, the paper and plots: Theorem 1, and the analysis on quadratics; pure.

All functions take numbers or arrays that broadcast, and return a float if every argument is a
number. Along an eigenvector of curvature t, CGD sees the penalised curvature t(1 + 2λt).
"""
# ruff: noqa: E741 (l is the paper's symbol)

import numpy as np
from numpy.typing import ArrayLike

from ._check import Array, finite, plain
from .stationary import penalised_curvature


def _positive(name: str, value: ArrayLike) -> Array:
    array = finite(name, value)
    if (array <= 0).any():
        raise ValueError(f"{name}: expected numbers above 0, got {value!r}")
    return array


def safe_step(L: ArrayLike, lam: ArrayLike) -> float | Array:
    """Return 1/(L(1+2λL)²), the step of Theorem 1's linear rate.

    For a convex L-smooth f that is bounded below (which the paper's proof uses without saying so), and any
    constant step strictly between 0 and twice this one, f never increases and ∇f tends to 0. For λ = 0 the
    upper end is sharp (2/L); for λ > 0 larger steps may also converge: see `contraction`.

    Examples
    --------
    >>> safe_step(L=2.0, lam=0.25)
    0.125
    """
    smooth, penalty = _positive("L", L), finite("lam", lam)
    if (penalty < 0).any():
        raise ValueError(f"lam: expected 0 or more, got {lam!r}")
    return plain(1.0 / (smooth * (1.0 + 2.0 * penalty * smooth) ** 2))


def linear_rate(L: ArrayLike, mu: ArrayLike, lam: ArrayLike) -> float | Array:
    """Return 1 − μ/(L(1+2λL)²), the factor by which f − f* shrinks per iteration at `safe_step`.

    μ is the constant of the Polyak–Łojasiewicz inequality; `pl_constant` estimates it.

    Examples
    --------
    >>> linear_rate(L=2.0, mu=1.0, lam=0.25)
    0.875
    """
    pl = _positive("mu", mu)
    if (pl > finite("L", L)).any():
        raise ValueError(f"mu: expected mu <= L, got mu={mu!r} and L={L!r}")
    return plain(1.0 - pl * safe_step(L, lam))


def _penalised_range(
    l: ArrayLike, L: ArrayLike, lam: ArrayLike, *, definite: bool = True
) -> tuple[Array, Array]:
    """Return the least and the greatest t(1+2λt) over l <= t <= L.

    For λ < 0 the parabola may have its maximum, at t = −1/(4λ), inside; either end may be the least.
    """
    low, high, penalty = _positive("l", l), _positive("L", L), finite("lam", lam)
    if (low > high).any():
        raise ValueError(f"l: expected l <= L, got l={l!r} and L={L!r}")
    # For λ >= 0 this puts the turning point far above L, and the top is at L as it should be.
    turning = -0.25 / np.minimum(penalty, -np.finfo(np.float64).tiny)
    top = np.clip(turning, low, high)
    at_low, at_high, at_top = (np.asarray(penalised_curvature(t, penalty)) for t in (low, high, top))
    least = np.minimum(at_low, at_high)
    if definite and (least <= 0).any():
        raise ValueError(f"lam: expected 1 + 2*lam*L > 0, or no step contracts; got lam={lam!r} and L={L!r}")
    return least, at_top


def quadratic_step(l: ArrayLike, L: ArrayLike, lam: ArrayLike) -> float | Array:
    """Return the constant step that contracts fastest on quadratics with eigenvalues in [l, L].

    It is 2 over the sum of the least and the greatest t(1+2λt) for t in [l, L]. For λ >= 0 these are at the
    ends, as in the paper's 2/((1+2λL)L + (1+2λl)l); for λ < 0 the greatest may be inside, at t = −1/(4λ).

    Examples
    --------
    >>> quadratic_step(l=1.0, L=3.0, lam=0.5)
    0.14285714285714285
    """
    least, greatest = _penalised_range(l, L, lam)
    return plain(2.0 / (least + greatest))


def contraction(step: ArrayLike, l: ArrayLike, L: ArrayLike, lam: ArrayLike) -> float | Array:
    """Return the worst-case factor by which ‖x − x*‖ shrinks in one step on a quadratic.

    It is the largest |1 − αt(1+2λt)| for t in [l, L], for any real λ. If it is 1 or more, the iteration does
    not converge for every spectrum in [l, L].

    Examples
    --------
    >>> contraction(step=0.125, l=1.0, L=3.0, lam=0.5)
    0.75
    """
    alpha = finite("step", step)
    least, greatest = _penalised_range(l, L, lam, definite=False)
    return plain(np.maximum(np.abs(1.0 - alpha * least), np.abs(1.0 - alpha * greatest)))


def condition_number(l: ArrayLike, L: ArrayLike, lam: ArrayLike) -> float | Array:
    """Return κ of (I + 2λQ)Q: the greatest over the least t(1+2λt) for t in [l, L].

    For λ >= 0 it is the paper's κ(B)κ(Q) with B = I + 2λQ; if also λ > 0 and l < L, then κ(B) > 1, and the
    penalty worsens the conditioning (the paper prints κ(B) > 0, which is not enough). A negative λ improves
    it: at best, at λ = −1/(2(l+L)), to (κ(Q)+1)²/(4κ(Q)), about a quarter of κ(Q).

    Examples
    --------
    >>> condition_number(l=1.0, L=3.0, lam=[0.0, 0.5, -0.125])
    array([3. , 6. , 1.33333333])
    """
    least, greatest = _penalised_range(l, L, lam)
    return plain(greatest / least)


def optimal_rate(l: ArrayLike, L: ArrayLike, lam: ArrayLike) -> float | Array:
    """Return (κ−1)/(κ+1), the contraction at `quadratic_step`, with κ = `condition_number`.

    Examples
    --------
    >>> optimal_rate(l=1.0, L=3.0, lam=0.0)
    0.5
    """
    kappa = condition_number(l, L, lam)
    return plain((kappa - 1.0) / (kappa + 1.0))
