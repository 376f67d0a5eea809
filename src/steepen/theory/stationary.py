"""Effect of the penalty on stationary points (Lemma 1), for users, the paper; calls the given derivatives."""

from collections.abc import Callable
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from .._tools.check import number, whole
from ._check import Array, finite, plain, vector
from .curvature import HVP

Derivative = Callable[[Array], ArrayLike]


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
    x: ArrayLike, grad: Derivative, hvp: HVP, lam: float, tol: float = 1e-6,
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
    df: Derivative, d2f: Derivative, lam: float, interval: ArrayLike, *, samples: int | None = None,
    tol: float = 1e-9,
) -> Array:  # fmt: skip
    """Return the artificial stationary points of a function on an interval, or in a box of n variables.

    They are the points where ∇f is not zero, but an eigenvector of H with the eigenvalue −1/(2λ) (Lemma 1).
    For λ > 0 they are also where the constraint of the paper's constrained form, f minimised subject to
    ‖∇f‖² <= ε, is active with the multiplier λ: with ε = ‖∇f‖² at the point, ∇f + λ∇‖∇f‖² = 0.

    On an interval (a, b), `df` and `d2f` are f' and a continuous f'', elementwise on arrays. The roots of
    1 + 2λf'' are returned in increasing order. Sign changes are sought at `samples` (4001 by default) evenly
    spaced points, so roots closer together, and roots where 1 + 2λf'' touches 0 without crossing it, can be
    missed. f' counts as zero where |f'| <= tol times the largest |f'| over the samples.

    In a box of rows (low, high), `df(x)` is the gradient and `d2f(x)` the Hessian at a point x of shape (n,),
    such as `f.grad` and `f.hess` of a test function. (I + 2λH)∇f/‖∇f‖ = 0 is solved from `samples` (300·n by
    default) starts that fill the box evenly, and what is found is returned in rows, sorted by the first
    coordinate. Points can be missed, and more samples find more. Where they form a curve, as for f(‖x‖),
    points of it are returned.

    Examples
    --------
    >>> artificial_points(np.cos, lambda x: -np.sin(x), lam=1.0, interval=(0, 3)) / np.pi * 6
    array([1., 5.])

    f = x₁² + sin x₂ has them where x₁ = 0 and sin x₂ = 1/(2λ):

    >>> grad, hess = lambda x: [2 * x[0], np.cos(x[1])], lambda x: np.diag([2.0, -np.sin(x[1])])
    >>> artificial_points(grad, hess, 1.0, [(-1, 1), (0, 3)])[:, 1] / np.pi * 6
    array([1., 5.])
    """
    box = finite("interval", interval)
    if box.shape[-1:] != (2,) or box.ndim > 2 or not (box[..., 0] < box[..., 1]).all():
        raise ValueError(
            f"interval: expected (a, b) with a < b, or such a row for each variable; got {interval!r}"
        )
    number("lam", lam, "a finite number")
    number("tol", tol, "a number, 0 or more", least=0)
    if samples is None:
        samples = 4001 if box.ndim == 1 else 300 * len(box)
    whole("samples", samples, 2)
    return (_on_interval if box.ndim == 1 else _in_box)(df, d2f, lam, box, samples, tol)


def _on_interval(df: Derivative, d2f: Derivative, lam: float, ends: Array, samples: int, tol: float) -> Array:
    """Return the roots of 1 + 2λf'', by sign changes and Brent's method."""
    from scipy.optimize import brentq  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

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


_SAME = 1e-6  # points closer together than this part of the box are one
_RESIDUAL = 1e-8  # of a root, where ∇f has length 1


def _in_box(df: Derivative, d2f: Derivative, lam: float, box: Array, samples: int, tol: float) -> Array:
    """Return the roots of (I + 2λH)∇f/‖∇f‖, by Powell's hybrid method from points that fill the box.

    Divided by its length, ∇f draws no run to the stationary points of f.
    """
    from scipy.optimize import root  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    n, low, size = len(box), box[:, 0], box[:, 1] - box[:, 0]

    def slope_at(u: Array) -> Array:
        g = np.asarray(df(low + size * u), dtype=np.float64)
        if g.shape != (n,):
            raise ValueError(f"df(x): expected the gradient, of shape ({n},), got shape {g.shape}")
        return g

    def residual(u: Array) -> Array:
        g, H = slope_at(u), np.asarray(d2f(low + size * u), dtype=np.float64)
        if H.shape != (n, n):
            raise ValueError(f"d2f(x): expected the Hessian, of shape {(n, n)}, got shape {H.shape}")
        length = float(np.linalg.norm(g))
        defined = length > 0 and bool(np.isfinite(g).all() and np.isfinite(H).all())
        return (g + 2.0 * lam * (H @ g)) / length if defined else np.ones(n)  # a run may leave the domain

    starts = _spread(samples, n)
    lengths = np.array([np.linalg.norm(slope_at(u)) for u in starts])
    if not np.isfinite(lengths).any():
        raise ValueError("df(x): expected finite gradients in the box, found none")
    steepest = float(lengths[np.isfinite(lengths)].max())
    found: list[Array] = []
    for start in starts:
        u = cast(Array, cast(Any, root(residual, start, options={"xtol": 1e-12})).x)
        if not (np.abs(u - 0.5) <= 0.5 + _SAME).all() or any(np.abs(u - v).max() <= _SAME for v in found):
            continue
        if np.linalg.norm(residual(u)) <= _RESIDUAL and np.linalg.norm(slope_at(u)) > tol * steepest:
            found.append(u)
    points = low + size * np.array(found).reshape(-1, n)
    return points[np.lexsort(points.T[::-1])]


def _spread(count: int, n: int) -> Array:
    """Return points that fill the unit cube evenly: multiples of powers of the generalised golden ratio."""
    ratio = 2.0
    for _ in range(60):  # the root of r**(n + 1) = r + 1 above 1
        ratio = (1.0 + ratio) ** (1.0 / (n + 1))
    steps = ratio ** -np.arange(1.0, n + 1)
    return (0.5 + np.arange(1, count + 1)[:, None] * steps) % 1.0


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
