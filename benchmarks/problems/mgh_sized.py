"""The Moré-Garbow-Hillstrom problems of any dimension, in the sizes usual in the literature.

The linear problems have m = 2n residuals.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from steepen.functions._numerics import Array

from ._problem import Problem, Residuals, frozen, sum_of_squares

SUITE = "mgh"


def _stacked(*blocks: Any) -> Array:
    """Return rows under one another, each block a matrix or one row."""
    return np.concatenate([np.atleast_2d(block) for block in blocks])


def _banded(n: int, dtype: Any, **bands: Any) -> Array:
    """Return a tridiagonal matrix from what stands below, on and above its diagonal."""
    J = np.zeros((n, n), dtype)
    for name, values in bands.items():
        offset = {"below": -1, "on": 0, "above": 1}[name]
        np.fill_diagonal(J[max(-offset, 0) :, max(offset, 0) :], values)
    return J


def _rosenbrock(x: Array) -> tuple[Array, Array]:
    odd, even = x[::2], x[1::2]
    r, J = np.empty_like(x), np.zeros((len(x), len(x)), x.dtype)
    r[::2], r[1::2] = 10 * (even - odd * odd), 1 - odd
    np.fill_diagonal(J[::2, ::2], -20 * odd)
    np.fill_diagonal(J[::2, 1::2], 10)
    np.fill_diagonal(J[1::2, ::2], -1)
    return r, J


def _powell_singular(x: Array) -> tuple[Array, Array]:
    a, b, c, d = x.reshape(-1, 4).T
    p, q = np.sqrt(5), np.sqrt(10)
    r, J = np.empty_like(x), np.zeros((len(x), len(x)), x.dtype)
    r[::4], r[1::4], r[2::4], r[3::4] = a + 10 * b, p * (c - d), (b - 2 * c) ** 2, q * (a - d) ** 2
    bend, twist = 2 * (b - 2 * c), 2 * q * (a - d)
    entries = ((0, 0, 1), (0, 1, 10), (1, 2, p), (1, 3, -p), (2, 1, bend), (2, 2, -2 * bend))
    for i, j, values in (*entries, (3, 0, twist), (3, 3, -twist)):
        np.fill_diagonal(J[i::4, j::4], values)
    return r, J


def _watson(x: Array) -> tuple[Array, Array]:
    n = len(x)
    powers = (np.arange(1, 30)[:, None] / 29) ** np.arange(n)
    slopes = np.zeros((29, n))
    slopes[:, 1:] = np.arange(1, n) * powers[:, :-1]
    inner = powers @ x
    r = np.concatenate([slopes @ x - inner**2 - 1, [x[0], x[1] - x[0] ** 2 - 1]])
    first, second = np.eye(2, n)
    return r, _stacked(slopes - 2 * inner[:, None] * powers, first, second - 2 * x[0] * first)


def _penalty_1(x: Array) -> tuple[Array, Array]:
    root = np.sqrt(1e-5)
    return np.append(root * (x - 1), x @ x - 0.25), _stacked(root * np.eye(len(x)), 2 * x)


def _penalty_2(x: Array) -> tuple[Array, Array]:
    n, root, i = len(x), np.sqrt(1e-5), np.arange(1, len(x) + 1)
    grow, known = np.exp(x / 10), np.exp(i / 10)
    weighted = i[::-1] * x
    pairs = root * (grow[1:] + grow[:-1] - known[1:] - known[:-1])
    r = np.concatenate([[x[0] - 0.2], pairs, root * (grow[1:] - np.exp(-0.1)), [weighted @ x - 1]])
    each = root / 10 * np.diag(grow)
    return r, _stacked(np.eye(1, n), each[1:] + each[:-1], each[1:], 2 * weighted)


def _variably_dimensioned(x: Array) -> tuple[Array, Array]:
    i = np.arange(1, len(x) + 1)
    s = i @ (x - 1)
    return np.concatenate([x - 1, [s, s * s]]), _stacked(np.eye(len(x)), i, 2 * s * i)


def _trigonometric(x: Array) -> tuple[Array, Array]:
    i, fall, sin = np.arange(1, len(x) + 1), 2 * np.sin(x / 2) ** 2, np.sin(x)  # fall is 1 - cos(x)
    return fall.sum() + i * fall - sin, sin + np.diag(i * sin + fall - 1)


def _brown_almost_linear(x: Array) -> tuple[Array, Array]:
    n = len(x)
    # products of all but one factor, without dividing by a coordinate that may be zero
    left = np.concatenate([[1.0], np.cumprod(x[:-1])])
    right = np.concatenate([np.cumprod(x[:0:-1])[::-1], [1.0]])
    r = np.append(x[:-1] + x.sum() - (n + 1), left[-1] * x[-1] - 1)
    return r, _stacked(np.eye(n - 1, n) + 1, left * right)


def _boundary_value(x: Array) -> tuple[Array, Array]:
    n, h = len(x), 1 / (len(x) + 1)
    t = x + h * np.arange(1, n + 1) + 1
    r = 2 * x + h * h * t**3 / 2
    r[1:] -= x[:-1]
    r[:-1] -= x[1:]
    return r, _banded(n, x.dtype, below=-1, on=2 + 1.5 * h * h * t * t, above=-1)


def _integral_equation(x: Array) -> tuple[Array, Array]:
    n, h = len(x), 1 / (len(x) + 1)
    t = h * np.arange(1, n + 1)
    kernel = h / 2 * np.minimum.outer(t, t) * (1 - np.maximum.outer(t, t))
    u = x + t + 1
    return x + kernel @ u**3, np.eye(n) + kernel * (3 * u * u)


def _broyden_tridiagonal(x: Array) -> tuple[Array, Array]:
    r = (3 - 2 * x) * x + 1
    r[1:] -= x[:-1]
    r[:-1] -= 2 * x[1:]
    return r, _banded(len(x), x.dtype, below=-1, on=3 - 4 * x, above=-2)


@lru_cache(maxsize=4)
def _neighbours(n: int) -> Array:
    """Return minus one at the five places before the diagonal and the one after it."""
    return frozen(np.tri(n, n, -6) + np.eye(n) - np.tri(n, n, 1))


def _broyden_banded(x: Array) -> tuple[Array, Array]:
    band = _neighbours(len(x))
    J = band * (1 + 2 * x)
    np.fill_diagonal(J, 2 + 15 * x * x)
    return x * (2 + 5 * x * x) + 1 + band @ (x * (1 + x)), J


def _linear_full_rank(x: Array) -> tuple[Array, Array]:
    n = len(x)
    A = np.eye(2 * n, n) - 1 / n
    return A @ x - 1, A


def _linear_rank_1(x: Array) -> tuple[Array, Array]:
    n = len(x)
    A = np.outer(np.arange(1.0, 2 * n + 1), np.arange(1.0, n + 1))
    return A @ x - 1, A


def _linear_rank_1_zeros(x: Array) -> tuple[Array, Array]:
    n = len(x)
    rows, columns = np.arange(0.0, 2 * n), np.arange(1.0, n + 1)
    rows[-1] = columns[0] = columns[-1] = 0
    A = np.outer(rows, columns)
    return A @ x - 1, A


def _chebyquad(x: Array) -> tuple[Array, Array]:
    n, z = len(x), 2 * x - 1
    T, D = np.empty((n + 1, n), x.dtype), np.empty((n + 1, n), x.dtype)
    T[0], T[1], D[0], D[1] = 1, z, 0, 2
    for i in range(1, n):
        T[i + 1] = 2 * z * T[i] - T[i - 1]
        D[i + 1] = 4 * T[i] + 2 * z * D[i] - D[i - 1]
    i = np.arange(1, n + 1)
    means = np.where(i % 2 == 0, -1 / np.maximum(i * i - 1, 1), 0)
    return T[1:].mean(1) - means, D[1:] / n


def _repeated(*values: float) -> Callable[[int], Array]:
    return partial(np.resize, np.array(values))


def _ramp(n: int) -> Array:
    return np.arange(1, n + 1) / (n + 1)


def _arch(n: int) -> Array:
    return _ramp(n) * (_ramp(n) - 1)


def _count(n: int) -> Array:
    return np.arange(1.0, n + 1)


def _falling(n: int) -> Array:
    return 1 - np.arange(1, n + 1) / n


def _level(n: int) -> Array:
    return np.full(n, 1 / n)


def _sized(
    number: int,
    name: str,
    title: str,
    residuals: Residuals,
    start: Callable[[int], Array],
    best: dict[int, float],
    others: dict[int, tuple[float, ...]] | None = None,
) -> list[Problem]:
    """Return the problem in several dimensions, given the best value in each."""
    evaluate, others = sum_of_squares(residuals), others or {}
    return [
        Problem(
            f"{name}-{n}", f"{title} ({number}), n = {n}", SUITE, evaluate, start(n), fbest, others.get(n, ())
        )
        for n, fbest in best.items()
    ]


PROBLEMS = (
    Problem("rosenbrock", "Rosenbrock (1)", SUITE, sum_of_squares(_rosenbrock), [-1.2, 1], 0.0),
    Problem(
        "powell-singular", "Powell singular (13)", SUITE, sum_of_squares(_powell_singular), [3, -1, 0, 1],
        0.0,
    ),
    *_sized(
        20, "watson", "Watson", _watson, np.zeros,
        {6: 2.2876700535524287e-3, 9: 1.3997601380987212e-6, 12: 4.72238110729170e-10},
    ),
    *_sized(
        21, "extended-rosenbrock", "Extended Rosenbrock", _rosenbrock, _repeated(-1.2, 1),
        {10: 0, 100: 0, 500: 0},
    ),
    *_sized(
        22, "extended-powell", "Extended Powell singular", _powell_singular, _repeated(3, -1, 0, 1),
        {12: 0, 100: 0, 500: 0},
    ),
    *_sized(
        23, "penalty-1", "Penalty I", _penalty_1, _count,
        {4: 2.249977500899937e-5, 10: 7.08765146709037e-5, 100: 9.024909768042964e-4},
    ),
    *_sized(
        24, "penalty-2", "Penalty II", _penalty_2, _repeated(0.5),
        {4: 9.376293007355446e-6, 10: 2.93660537456746e-4},
    ),
    *_sized(
        25, "variably-dimensioned", "Variably dimensioned", _variably_dimensioned, _falling,
        {10: 0, 50: 0, 100: 0},
    ),
    *_sized(
        26, "trigonometric", "Trigonometric", _trigonometric, _level, {10: 0, 50: 0, 100: 0},
        {10: (2.795056121879e-5,), 50: (5.451715701609e-6,), 100: (6.040600222589e-8, 1.840962542528e-6)},
    ),
    *_sized(
        27, "brown-almost-linear", "Brown almost-linear", _brown_almost_linear, _repeated(0.5),
        {10: 0, 40: 0},
    ),
    *_sized(28, "boundary-value", "Discrete boundary value", _boundary_value, _arch, {10: 0, 50: 0, 100: 0}),
    *_sized(
        29, "integral-equation", "Discrete integral equation", _integral_equation, _arch, {10: 0, 100: 0},
    ),
    *_sized(
        30, "broyden-tridiagonal", "Broyden tridiagonal", _broyden_tridiagonal, _repeated(-1),
        {10: 0, 100: 0, 500: 0}, {100: (1.723272933410,)},
    ),
    *_sized(
        31, "broyden-banded", "Broyden banded", _broyden_banded, _repeated(-1), {10: 0, 100: 0, 500: 0},
        {10: (3.057278432426,), 100: (3.076218201482,), 500: (3.076218201482, 15.2734283)},
    ),
    *_sized(32, "linear-full-rank", "Linear, full rank", _linear_full_rank, _repeated(1), {10: 10, 100: 100}),
    # m(m - 1)/(2(2m + 1)) and (m² + 3m - 6)/(2(2m - 3)) with m = 20
    *_sized(33, "linear-rank-1", "Linear, rank 1", _linear_rank_1, _repeated(1), {10: 380 / 82}),
    *_sized(
        34, "linear-rank-1-zeros", "Linear, rank 1 with zero rows and columns", _linear_rank_1_zeros,
        _repeated(1), {10: 454 / 74},
    ),
    *_sized(
        35, "chebyquad", "Chebyquad", _chebyquad, _ramp,
        {8: 3.51687372567793e-3, 10: 4.77271369637535e-3, 20: 4.572955186867851e-3},
        {10: (6.503954800882e-3,)},
    ),
)  # fmt: skip
