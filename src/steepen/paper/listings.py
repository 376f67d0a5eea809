"""The paper's algorithms in plain NumPy, without any of our code: a reference for our runs.

The items on the algorithms and on Theorem 1 call it, and tests; pure. Algorithms 1 to 3, BFGS and DFP follow
the paper; `kept` adds a test that Algorithm 3 has not, and `theorem1` has formulas. A count c is the number
of gradients evaluated so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Gradient = Callable[[Floats], Floats]
Update = Callable[[Floats, Floats, Floats], Floats]


def linear(a: float, b: float, T: int) -> list[float]:
    """Return the paper's L(a, b), its schedule of λₖ: T evenly spaced values from a to b."""
    return [a + (b - a) * k / (T - 1) for k in range(T)]


def cgd(
    grad: Gradient, hess: Callable[[Floats], Floats], x: ArrayLike, T: int, alpha: float, lam: float
) -> Floats:
    """Return the iterates of Algorithm 1."""
    xs = [np.asarray(x, dtype=float)]
    for k in range(T):
        g = grad(xs[k])
        p = -(np.eye(len(g)) + 2 * lam * hess(xs[k])) @ g
        xs.append(xs[k] + alpha * p if g @ p < 0 else xs[k] - alpha * g)
    return np.array(xs)


def cgd_fd(
    grad: Gradient, x: ArrayLike, T: int, alpha: float, lam: list[float], r: float, b: int
) -> tuple[Floats, list[int]]:
    """Return the iterates of Algorithm 2, with λₖ in place of λ, and c, the gradients evaluated, at each."""
    xs, cs = [np.asarray(x, dtype=float)], [0]
    use_cgd = True
    for k in range(T):
        if cs[k] == T:
            break
        g = grad(xs[k])
        if use_cgd:
            nu = 2 * lam[k] / r
            p = -(1 - nu) * g - nu * grad(xs[k] + r * g)
            cs.append(cs[k] + 2)
            if g @ p < 0:
                xs.append(xs[k] + alpha * p)
            else:
                xs.append(xs[k] - alpha * g)
                use_cgd = False
        else:
            xs.append(xs[k] - alpha * g)
            cs.append(cs[k] + 1)
        if k >= b:
            use_cgd = False
    return np.array(xs), cs


def dfp(M: Floats, s: Floats, y: Floats) -> Floats:
    """Return DFP's Hessian approximation after a pair; with s and y exchanged, BFGS's inverse one."""
    eye, ys = np.eye(len(s)), y @ s  # yᵀs is 1/ρ in Nocedal & Wright
    return (eye - np.outer(y, s) / ys) @ M @ (eye - np.outer(s, y) / ys) + np.outer(y, y) / ys


def bfgs(M: Floats, s: Floats, y: Floats) -> Floats:
    """Return BFGS's Hessian approximation after a pair; with s and y exchanged, DFP's inverse one."""
    return M + np.outer(y, y) / (y @ s) - np.outer(M @ s, s @ M) / (s @ M @ s)


def cgd_qn(grad: Gradient, x: ArrayLike, T: int, alpha: float, lam: float, update: Update) -> Floats:
    """Return the iterates of Algorithm 3, with `bfgs` or `dfp`."""
    xs = [np.asarray(x, dtype=float)]
    matrix = np.eye(len(xs[0]))  # the Hessian
    for k in range(T):
        g = grad(xs[k])
        p = -(np.eye(len(g)) + 2 * lam * matrix) @ g
        xs.append(xs[k] + alpha * p if g @ p < 0 else xs[k] - alpha * g)
        matrix = update(matrix, xs[k + 1] - xs[k], grad(xs[k + 1]) - g)
    return np.array(xs)


def quasi_newton(
    grad: Gradient, x: ArrayLike, T: int, alpha: float, method: Literal["bfgs", "dfp"]
) -> Floats:
    """Return the iterates of BFGS or DFP as in Section 2 of the paper."""
    xs = [np.asarray(x, dtype=float)]
    matrix = np.eye(len(xs[0]))  # the inverse Hessian
    update = {"bfgs": dfp, "dfp": bfgs}[method]  # each is the other's inverse update, with s and y exchanged
    for k in range(T):
        g = grad(xs[k])
        if not g.any():
            return np.array([*xs, *[xs[k]] * (T - k)])
        xs.append(xs[k] - alpha * matrix @ g)
        matrix = update(matrix, grad(xs[k + 1]) - g, xs[k + 1] - xs[k])
    return np.array(xs)


def kept(update: Update) -> Update:
    """Return an update that skips pairs without yᵀs > 0, for which Algorithm 3 has no test."""
    return lambda M, s, y: update(M, s, y) if y @ s > 1e-10 * math.sqrt((y @ y) * (s @ s)) else M


def theorem1(L: float, mu: float, lam: float) -> tuple[float, float, float]:
    """Return Theorem 1's three expressions: the end of the interval, the step, and the rate."""
    end, step = 2 / (L * (1 + 2 * lam * L) ** 2), 1 / (L * (1 + 2 * lam * L) ** 2)
    return end, step, 1 - mu / (L * (1 + 2 * lam * L) ** 2)
