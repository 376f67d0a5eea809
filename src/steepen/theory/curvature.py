"""Estimates of L and μ, for users and the paper; calls the functions given, outside of any budget."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._core.lanczos import Which, lanczos
from .._tools.check import number, whole
from ._check import Array, finite, vector

HVP = Callable[[Array, Array], ArrayLike]
_EPS = float(np.finfo(np.float64).eps)


class Curvature(NamedTuple):
    """An eigenvalue estimate, its error and its cost.

    The value is a Rayleigh quotient: never above the largest eigenvalue of H nor below the smallest, up to
    rounding. The error is the residual norm ‖Hu − value·u‖: some eigenvalue of H lies within this distance.
    `converged` is true if the error met the tolerance within the limit on H·v products.

    Examples
    --------
    >>> largest_curvature(lambda x, v: 3 * v, [0.0, 0.0]).n_hvp
    1
    """

    value: float
    n_hvp: int
    error: float
    converged: bool


def largest_curvature(
    hvp: HVP, x: ArrayLike, *, tol: float = 1e-6, max_hvp: int = 300, seed: int = 0
) -> Curvature:
    """Return the largest eigenvalue of H(x), by Lanczos iteration.

    A value that has not converged is too small, so a step derived from it may be too long: add `error`.

    `hvp(x, v)` returns H(x)·v. The iteration starts from a random vector (`seed`), and stops once `error` <=
    tol·|value|, or is below rounding error; the value itself is usually far more accurate, since its error is
    of the order of the square of the residual. It takes at most `max_hvp` products (n always suffice), each
    with memory for n floats.

    Examples
    --------
    >>> Q = np.diag([1.0, 4.0, 9.0])
    >>> found = largest_curvature(lambda x, v: Q @ v, np.zeros(3))
    >>> round(found.value, 12), found.n_hvp, found.converged
    (9.0, 3, True)
    """
    return _extreme(hvp, x, "largest", tol, max_hvp, seed)


def smallest_curvature(
    hvp: HVP, x: ArrayLike, *, tol: float = 1e-6, max_hvp: int = 300, seed: int = 0
) -> Curvature:
    """Return the smallest (most negative) eigenvalue of H(x), by Lanczos iteration.

    Arguments as in `largest_curvature`. A value that has not converged is too large.

    Examples
    --------
    >>> Q = np.diag([-2.0, 4.0, 9.0])
    >>> round(smallest_curvature(lambda x, v: Q @ v, np.zeros(3)).value, 12)
    -2.0
    """
    return _extreme(hvp, x, "smallest", tol, max_hvp, seed)


def smoothness(
    hvp: HVP, points: ArrayLike, *, tol: float = 1e-6, max_hvp: int = 300, seed: int = 0
) -> Curvature:
    """Return the largest |eigenvalue| of H over the rows of `points`: an estimate of L.

    The magnitude is taken because L-smooth means ‖H‖ <= L; for convex functions it makes no difference.
    Between the points ‖H‖ may be larger: only for quadratics is one point enough. `max_hvp` applies to
    each row; the result has the total `n_hvp`, and is `converged` if every row is.

    Examples
    --------
    >>> found = smoothness(lambda x, v: 12 * x**2 * v, [[1.0], [2.0], [-3.0]])
    >>> found.value, found.n_hvp
    (108.0, 3)
    """
    rows = _rows(points)
    found = [_extreme(hvp, row, "magnitude", tol, max_hvp, seed) for row in rows]
    top = max(found, key=lambda c: abs(c.value))
    return Curvature(abs(top.value), sum(c.n_hvp for c in found), top.error, all(c.converged for c in found))


def pl_constant(
    fun: Callable[[Array], ArrayLike], grad: Callable[[Array], ArrayLike], points: ArrayLike, fmin: float
) -> float:
    """Return the largest μ with ½‖∇f‖² >= μ(f − f*) at all `points`: an estimate of the μ of Theorem 1.

    It is the constant of the Polyak–Łojasiewicz inequality, which `linear_rate` takes. Between the points the
    inequality may need a smaller μ, so the estimate is never too small: take many points, above all near the
    minimum. It is 0 if a point is stationary and no minimum; then no rate is linear. For ½xᵀQx − bᵀx and for
    least squares no estimate is needed: μ is the smallest eigenvalue of the Hessian that is not zero.

    `fun(x)` and `grad(x)` are called at each row of `points`, of shape (m, n), and `fmin` is f*. Points where
    f is f* to rounding say nothing about μ, and are passed over.

    Examples
    --------
    >>> points = np.random.default_rng(0).normal(size=(1000, 2))
    >>> mu = pl_constant(lambda x: x[0] ** 2 + 2 * x[1] ** 2, lambda x: [2, 4] * x, points, fmin=0.0)
    >>> round(mu, 3)
    2.0
    """
    rows = _rows(points)
    number("fmin", fmin, "a finite number")
    ratios: list[float] = []
    for row in rows:
        value, g = finite("fun(x)", fun(row.copy())), vector("grad(x)", grad(row.copy()), row.size)
        if value.size != 1:
            raise ValueError(f"fun(x): expected a number, got shape {value.shape}")
        above, slack = float(value.item()) - fmin, 1e4 * _EPS * max(abs(float(value.item())), abs(fmin))
        if above < -slack:
            raise ValueError(
                f"fmin: expected the minimum, {fmin!r} is above f = {value.item()!r} at {row.tolist()}"
            )
        if above > slack:
            ratios.append(0.5 * float(g @ g) / above)
    if not ratios:
        raise ValueError("points: expected some where f is above fmin, found none")
    return min(ratios)


def _rows(points: ArrayLike) -> Array:
    rows = finite("points", points)
    if rows.ndim != 2 or rows.size == 0:
        raise ValueError(f"points: expected shape (m, n) with m, n >= 1, got shape {rows.shape}")
    return rows


def _extreme(hvp: HVP, x: ArrayLike, which: Which, tol: float, max_hvp: int, seed: int) -> Curvature:
    """Return an extreme eigenvalue of H(x), from a random start."""
    point = vector("x", x)
    n = point.size
    number("tol", tol, "a number between 0 and 1", above=0, below=1)
    whole("max_hvp", max_hvp, 1)
    whole("seed", seed, 0)
    # The second number keeps the start apart from data drawn with the same seed: were it, say, a
    # row of A, all of Lanczos on AᵀA would stay in the row space and never see the null space.
    start = np.random.default_rng([seed, 1_618_033_988]).standard_normal(n)

    def product(v: Array) -> Array:
        return vector("hvp(x, v)", hvp(point, v), n)

    def norm(v: Array) -> float:
        unit = float(np.abs(v).max())  # squares of v/unit neither overflow nor vanish
        return unit * float(np.linalg.norm(v / unit)) if unit else 0.0

    found = Curvature(*lanczos(product, start, which=which, tol=tol, most=max_hvp, norm=norm, eps=_EPS))
    return found._replace(converged=found.converged and found.error < np.inf)
