"""Effect of the penalty on stationary points (Lemma 1), for users, the paper; calls the given derivatives."""

from collections.abc import Callable
from typing import Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from .._tools.check import number, whole
from ._check import Array, finite, plain, vector
from .curvature import HVP


def penalised_curvature(t: ArrayLike, lam: ArrayLike) -> float | Array:
    """Return t(1+2λt), the curvature of the penalised function where f has curvature t and ∇f = 0.

    Examples
    --------
    >>> penalised_curvature([10.0, 1.0, -4.0], lam=0.25)
    array([60. ,  1.5,  4. ])
    """
    bend = finite("t", t)
    return plain(bend * (1.0 + 2.0 * finite("lam", lam) * bend))


def classify(
    x: ArrayLike, grad: Callable[[Array], ArrayLike], hvp: HVP, lam: float, tol: float = 1e-6,
    gtol: float = 1e-8,
) -> Literal["stationary", "artificial", "neither"]:  # fmt: skip
    """Classify the point x by Lemma 1, from `grad(x)` and one `hvp(x, v)`, for λ of either sign.

    It is "stationary" for f and for f + λ‖∇f‖² if ‖∇f‖ <= gtol (absolute, since a gradient has no natural
    scale). It is "artificial", stationary for f + λ‖∇f‖² only, if ‖∇f + 2λH∇f‖ <= tol·‖∇f‖: then ∇f is an
    eigenvector of H with eigenvalue −1/(2λ), and another λ leaves the point.

    Examples
    --------
    >>> saddle = np.array([1.0, -1.0])  # f = (x₁² − x₂²)/2
    >>> classify([0.0, 3.0], lambda x: saddle * x, lambda x, v: saddle * v, lam=0.5)
    'artificial'
    """
    for name, value in (("tol", tol), ("gtol", gtol)):
        number(name, value, "a number, 0 or more", least=0)
    number("lam", lam, "a finite number")
    point = vector("x", x)
    g = vector("grad(x)", grad(point), point.size)
    along = vector("hvp(x, v)", hvp(point, g), point.size)
    unit = float(np.abs(g).max())  # squares of g/unit do not overflow
    size = float(np.linalg.norm(g / unit)) if unit else 0.0
    if unit * size <= gtol:
        return "stationary"
    return "artificial" if np.linalg.norm((g + 2.0 * lam * along) / unit) <= tol * size else "neither"


def artificial_points(
    df: Callable[[Array], ArrayLike], d2f: Callable[[Array], ArrayLike], lam: float,
    interval: tuple[float, float], *, samples: int = 4001, tol: float = 1e-9,
) -> Array:  # fmt: skip
    """Return the artificial stationary points of a function of one variable on an interval.

    They are the roots of 1 + 2λf''(x) where f' is not zero, in increasing order. `df` and `d2f` are f' and a
    continuous f'', elementwise on arrays. Sign changes are sought at `samples` evenly spaced points, so roots
    closer together, and roots where 1 + 2λf'' touches 0 without crossing it, can be missed. f' counts as zero
    where |f'| <= tol times the largest |f'| over the samples.

    Examples
    --------
    >>> artificial_points(np.cos, lambda x: -np.sin(x), lam=1.0, interval=(0, 3)) / np.pi * 6
    array([1., 5.])
    """
    from scipy.optimize import brentq  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    ends = vector("interval", interval, 2)
    if ends[0] >= ends[1]:
        raise ValueError(f"interval: expected (a, b) with a < b, got {interval!r}")
    whole("samples", samples, 2)
    number("lam", lam, "a finite number")
    number("tol", tol, "a number, 0 or more", least=0)

    def factor(x: Array) -> Array:
        return 1.0 + 2.0 * lam * vector("d2f(x)", d2f(x), x.size)

    grid = np.linspace(float(ends[0]), float(ends[1]), samples)
    sign = np.sign(factor(grid))
    on_grid = sign == 0
    if (on_grid[1:] & on_grid[:-1]).any():
        raise ValueError("d2f: 1 + 2*lam*d2f is zero on a whole interval, where every point is artificial")
    crossings = np.flatnonzero(sign[:-1] * sign[1:] < 0)
    sides = np.stack([grid[crossings], grid[crossings + 1]], axis=-1).tolist()
    factor_at: Callable[[float], float] = lambda x: float(factor(np.array([x]))[0])  # noqa: E731
    between = [cast(float, brentq(factor_at, a, b, xtol=1e-12 * (b - a))) for a, b in sides]
    roots = np.sort(np.concatenate([grid[on_grid], between]))
    steepest = np.abs(vector("df(x)", df(grid), samples)).max()
    slope = np.abs(finite("df(x)", df(roots)))
    return roots[slope > tol * steepest]


def nature(
    H: ArrayLike, lam: float = 0.0, tol: float = 1e-10
) -> Literal["minimum", "maximum", "saddle", "degenerate"]:
    """Return the type of a stationary point of f for f + λ‖∇f‖², from the Hessian (or f″) of f there.

    Where ∇f = 0 the third derivatives drop out and the penalised Hessian is H + 2λH², so that a curvature t
    becomes `penalised_curvature`: a maximum with every t < −1/(2λ) becomes a minimum; a minimum stays one for
    every λ >= 0. Curvatures within tol times the largest in magnitude count as zero, and so does 1 + 2λt
    within tol·(1 + 2|λt|).

    Examples
    --------
    >>> nature([[2.0, 0.0], [0.0, -1.0]])
    'saddle'
    >>> nature(-4.0, lam=0.1), nature(-4.0, lam=0.2)
    ('maximum', 'minimum')
    """
    number("lam", lam, "a finite number")
    number("tol", tol, "a number, 0 or more", least=0)
    t = _eigenvalues(H)
    twice = 2.0 * lam * t
    # Sign by sign: the products t(1+2λt) spread over twice the decades of t.
    factor = np.where(np.abs(1.0 + twice) <= tol * (1.0 + np.abs(twice)), 0.0, 1.0 + twice)
    signs = np.where(np.abs(t) <= tol * np.abs(t).max(), 0.0, np.sign(t)) * np.sign(factor)
    if (signs > 0).all():
        return "minimum"
    if (signs < 0).all():
        return "maximum"
    return "saddle" if (signs > 0).any() and (signs < 0).any() else "degenerate"


def _eigenvalues(matrix: ArrayLike) -> Array:
    H = np.atleast_2d(finite("H", matrix))
    if H.ndim != 2 or H.shape[0] != H.shape[1] or H.size == 0:
        raise ValueError(f"H: expected a square matrix, got shape {H.shape}")
    if np.abs(H - H.T).max() > 1e-6 * np.abs(H).max():
        raise ValueError("H: expected a symmetric matrix, to 1e-6 of its largest entry")
    return np.linalg.eigvalsh(0.5 * (H + H.T)).astype(np.float64)
