"""The benchmark set of Moré and Wild (SIAM J. Optimization 20, 2009): 22 functions, 53 problems.

There are three variants: `smooth` is f = Σrᵢ², `nonsmooth` Σ|rᵢ|, and `wavy` (1 + 1e-3·φ)·f, with a φ(x) in
[−1, 1] that oscillates and has derivatives: what they call noisy. The functions are 18 of Moré, Garbow and
Hillstrom (1981), and bdqrtic, cube, mancino and heart8 of CUTEr.

    >>> from benchmarks.problems.more_wild import cases
    >>> len(list(cases()))
    53
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ._case import Case

NOISE = 1e-3


def numbers(text: str) -> Any:
    return np.array(text.split(), dtype=float)


def linear_full_rank(x: Any, m: int) -> Any:
    r = np.full(m, -2 * x.sum() / m - 1)
    r[: len(x)] += x
    return r


def linear_rank_1(x: Any, m: int) -> Any:
    return np.arange(1, m + 1) * (np.arange(1, len(x) + 1) @ x) - 1


def linear_rank_1_with_zeros(x: Any, m: int) -> Any:
    rows = np.append(np.arange(m - 1), 0)
    return rows * (np.arange(2, len(x)) @ x[1:-1]) - 1


def rosenbrock(x: Any, m: int) -> Any:
    return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def helical_valley(x: Any, m: int) -> Any:
    turn = 0.25 if x[0] == 0 else np.arctan(x[1] / x[0]) / (2 * np.pi) + 0.5 * (x[0] < 0)
    return np.array([10 * (x[2] - 10 * turn), 10 * (np.hypot(x[0], x[1]) - 1), x[2]])


def powell_singular(x: Any, m: int) -> Any:
    a, b, c, d = x
    return np.array([a + 10 * b, 5**0.5 * (c - d), (b - 2 * c) ** 2, 10**0.5 * (a - d) ** 2])


def freudenstein_roth(x: Any, m: int) -> Any:
    a, b = x
    return np.array([a - 13 + ((5 - b) * b - 2) * b, a - 29 + ((b + 1) * b - 14) * b])


BARD = numbers("0.14 0.18 0.22 0.25 0.29 0.32 0.35 0.39 0.37 0.58 0.73 0.96 1.34 2.10 4.39")


def bard(x: Any, m: int) -> Any:
    u = np.arange(1, 16)
    return BARD - x[0] - u / ((16 - u) * x[1] + np.minimum(u, 16 - u) * x[2])


KOWALIK = numbers("0.1957 0.1947 0.1735 0.16 0.0844 0.0627 0.0456 0.0342 0.0323 0.0235 0.0246")
KOWALIK_AT = numbers("4 2 1 0.5 0.25 0.167 0.125 0.1 0.0833 0.0714 0.0625")


def kowalik_osborne(x: Any, m: int) -> Any:
    u = KOWALIK_AT
    return KOWALIK - x[0] * u * (u + x[1]) / (u * (u + x[2]) + x[3])


MEYER = numbers("34780 28610 23650 19630 16370 13720 11540 9744 8261 7030 6005 5147 4427 3820 3307 2872")


def meyer(x: Any, m: int) -> Any:
    return x[0] * np.exp(x[1] / (45 + 5 * np.arange(1, 17) + x[2])) - MEYER


def watson(x: Any, m: int) -> Any:
    powers = (np.arange(1, 30)[:, None] / 29) ** np.arange(len(x))
    slopes = powers[:, :-1] @ (np.arange(1, len(x)) * x[1:])
    return np.concatenate([slopes - (powers @ x) ** 2 - 1, [x[0], x[1] - x[0] ** 2 - 1]])


def box_3d(x: Any, m: int) -> Any:
    t = np.arange(1, m + 1) / 10
    return np.exp(-t * x[0]) - np.exp(-t * x[1]) - x[2] * (np.exp(-t) - np.exp(-10 * t))


def jennrich_sampson(x: Any, m: int) -> Any:
    i = np.arange(1, m + 1)
    return 2 + 2 * i - np.exp(i * x[0]) - np.exp(i * x[1])


def brown_dennis(x: Any, m: int) -> Any:
    t = np.arange(1, m + 1) / 5
    return (x[0] + t * x[1] - np.exp(t)) ** 2 + (x[2] + x[3] * np.sin(t) - np.cos(t)) ** 2


def chebyquad(x: Any, m: int) -> Any:
    """Return the means of the Chebyshev polynomials T₁ … Tₘ on [0, 1], less their integrals."""
    means = np.polynomial.chebyshev.chebvander(2 * x - 1, m).mean(axis=0)[1:]
    even = np.arange(2, m + 1, 2)
    means[1::2] += 1 / (even**2 - 1)
    return means


def brown_almost_linear(x: Any, m: int) -> Any:
    return np.append(x[:-1] + x.sum() - (len(x) + 1), x.prod() - 1)


OSBORNE_1 = numbers(
    """0.844 0.908 0.932 0.936 0.925 0.908 0.881 0.850 0.818 0.784 0.751 0.718 0.685 0.658 0.628 0.603 0.580
    0.558 0.538 0.522 0.506 0.490 0.478 0.467 0.457 0.448 0.438 0.431 0.424 0.420 0.414 0.411 0.406"""
)


def osborne_1(x: Any, m: int) -> Any:
    t = 10 * np.arange(33)
    return OSBORNE_1 - x[0] - x[1] * np.exp(-t * x[3]) - x[2] * np.exp(-t * x[4])


OSBORNE_2 = numbers(
    """1.366 1.191 1.112 1.013 0.991 0.885 0.831 0.847 0.786 0.725 0.746 0.679 0.608 0.655 0.616 0.606 0.602
    0.626 0.651 0.724 0.649 0.649 0.694 0.644 0.624 0.661 0.612 0.558 0.533 0.495 0.500 0.423 0.395 0.375
    0.372 0.391 0.396 0.405 0.428 0.429 0.523 0.562 0.607 0.653 0.672 0.708 0.633 0.668 0.645 0.632 0.591
    0.559 0.597 0.625 0.739 0.710 0.729 0.720 0.636 0.581 0.428 0.292 0.162 0.098 0.054"""
)


def osborne_2(x: Any, m: int) -> Any:
    t = np.arange(65) / 10
    bells = np.exp(-((t[:, None] - x[8:]) ** 2) * x[5:8])
    return OSBORNE_2 - x[0] * np.exp(-t * x[4]) - bells @ x[1:4]


def bdqrtic(x: Any, m: int) -> Any:
    s = x * x
    quartic = s[:-4] + 2 * s[1:-3] + 3 * s[2:-2] + 4 * s[3:-1] + 5 * s[-1]
    return np.concatenate([3 - 4 * x[:-4], quartic])


def cube(x: Any, m: int) -> Any:
    return np.append(x[0] - 1, 10 * (x[1:] - x[:-1] ** 3))


def mancino_sums(square: Any) -> Any:
    """Return Σⱼ vᵢⱼ(sin⁵ log vᵢⱼ + cos⁵ log vᵢⱼ) with vᵢⱼ = √(xᵢ² + i/j)."""
    i = np.arange(1, len(square) + 1)
    v = np.sqrt(square[:, None] + i[:, None] / i)
    return (v * (np.sin(np.log(v)) ** 5 + np.cos(np.log(v)) ** 5)).sum(axis=1)


def mancino(x: Any, m: int) -> Any:
    return 1400 * x + (np.arange(1, len(x) + 1) - 50.0) ** 3 + mancino_sums(x * x)


def heart8(x: Any, m: int) -> Any:
    a, b, c, d, t, u, v, w = x
    return np.array(
        [
            a + b + 0.69,
            c + d + 0.044,
            t * a + u * b - v * c - w * d + 1.57,
            v * a + w * b + t * c + u * d + 1.31,
            a * (t * t - v * v) - 2 * c * t * v + b * (u * u - w * w) - 2 * d * u * w + 2.65,
            c * (t * t - v * v) + 2 * a * t * v + d * (u * u - w * w) + 2 * b * u * w - 2,
            a * t * (t * t - 3 * v * v)
            + c * v * (v * v - 3 * t * t)
            + b * u * (u * u - 3 * w * w)
            + d * w * (w * w - 3 * u * u)
            + 12.6,
            c * t * (t * t - 3 * v * v)
            - a * v * (v * v - 3 * t * t)
            + d * u * (u * u - 3 * w * w)
            - b * w * (w * w - 3 * u * u)
            - 9.48,
        ]
    )


def mancino_start(n: int) -> Any:
    return -8.710996e-4 * ((np.arange(1, n + 1) - 50.0) ** 3 + mancino_sums(np.zeros(n)))


Start = Callable[[int], Any]
SET: tuple[tuple[Callable[[Any, int], Any], Start, str], ...] = (
    # the residuals, the start, and n:m of each problem; × for the one that also begins at ten times the start
    (linear_full_rank, np.ones, "9:45×"),
    (linear_rank_1, np.ones, "7:35×"),
    (linear_rank_1_with_zeros, np.ones, "7:35×"),
    (rosenbrock, lambda n: numbers("-1.2 1"), "2:2×"),
    (helical_valley, lambda n: numbers("-1 0 0"), "3:3×"),
    (powell_singular, lambda n: numbers("3 -1 0 1"), "4:4×"),
    (freudenstein_roth, lambda n: numbers("0.5 -2"), "2:2×"),
    (bard, np.ones, "3:15×"),
    (kowalik_osborne, lambda n: numbers("0.25 0.39 0.415 0.39"), "4:11"),
    (meyer, lambda n: numbers("0.02 4000 250"), "3:16"),
    (watson, lambda n: np.full(n, 0.5), "6:31× 9:31× 12:31×"),
    (box_3d, lambda n: numbers("0 10 20"), "3:10"),
    (jennrich_sampson, lambda n: numbers("0.3 0.4"), "2:10"),
    (brown_dennis, lambda n: numbers("25 5 -5 -1"), "4:20×"),
    (chebyquad, lambda n: np.arange(1, n + 1) / (n + 1), "6:6 7:7 8:8 9:9 10:10 11:11"),
    (brown_almost_linear, lambda n: np.full(n, 0.5), "10:10"),
    (osborne_1, lambda n: numbers("0.5 1.5 1 0.01 0.02"), "5:33"),
    (osborne_2, lambda n: numbers("1.3 0.65 0.65 0.7 0.6 3 5 7 2 4.5 5.5"), "11:65×"),
    (bdqrtic, np.ones, "8:8 10:12 11:14 12:16"),
    (cube, lambda n: np.full(n, 0.5), "5:5 6:6 8:8"),
    (mancino, mancino_start, "5:5× 8:8 10:10 12:12×"),
    (heart8, lambda n: numbers("-0.3 -0.39 0.3 -0.344 -1.2 2.69 1.59 -1.5"), "8:8×"),
)


def waves(x: Any) -> float:
    """Return φ(x): the third Chebyshev polynomial of 0.9·sin(100‖x‖₁)·cos(100‖x‖∞) + 0.1·cos(‖x‖₂)."""
    size = abs(x)
    t = 0.9 * np.sin(100 * size.sum()) * np.cos(100 * size.max()) + 0.1 * np.cos(np.sqrt(x @ x))
    return t * (4 * t * t - 3)


def cases(variant: str = "smooth") -> Iterator[Case]:
    for residuals, start, sizes in SET:
        for size in sizes.split():
            n, m = (int(number) for number in size.rstrip("×").split(":"))
            for factor in (1, 10) if size.endswith("×") else (1,):
                name = f"{residuals.__name__.replace('_', '-')}-{n}" + ("-far" if factor == 10 else "")
                value, exact = function(residuals, m, variant)
                yield Case(name, value, factor * start(n), exact=exact if variant == "wavy" else None)


def function(residuals: Any, m: int, variant: str) -> tuple[Callable[[Any], float], Callable[[Any], float]]:
    """Return f as the solver sees it, and without noise."""

    def exact(x: Any) -> float:
        with np.errstate(all="ignore"):
            r = residuals(np.asarray(x, dtype=float), m)
            f = abs(r).sum() if variant == "nonsmooth" else r @ r
        return float(f) if f == f else np.inf

    return (lambda x: (1 + NOISE * waves(x)) * exact(x)) if variant == "wavy" else exact, exact
