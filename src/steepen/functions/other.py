"""The functions that fit no other group.

Examples
--------
>>> import steepen as st
>>> f = st.functions["goldstein-price"]
>>> f.minima.tolist(), f.fmin, float(f(f.minima[0]))
([[0.0, -1.0]], 3.0, 3.0)
"""

from functools import partial
from math import pi
from typing import Any

import numpy as np

from steepen.functions._function import Function, scalable
from steepen.functions._numerics import Array, indices, spread, total

GROUP = "other"


def _beale(x: Array) -> Any:
    x1, x2 = x
    power, value = x2, 0.0
    for c in (1.5, 2.25, 2.625):
        residual = c - x1 * (1 - power)
        power, value = power * x2, value + residual * residual
    return value


def _beale_grad(x: Array, g: Array) -> None:
    x1, x2 = x
    power = slope = 1.0
    g[...] = 0
    for i, c in enumerate((1.5, 2.25, 2.625), 1):
        slope, power = i * power, power * x2
        residual = 2 * (c - x1 * (1 - power))
        g[0] -= residual * (1 - power)
        g[1] += residual * x1 * slope


# Branin's 10(1 − t)cos(x1) + 10 is written 20(1 − t)cos²(x1/2) + 10t, with t = 1/(8π).
_B, _C, _S = 5.1 / (4 * pi * pi), 5 / pi, 10 - 1.25 / pi


def _branin(x: Array) -> Any:
    x1, x2 = x
    u, w = x2 + x1 * (_C - _B * x1) - 6, np.cos(x1 / 2)
    return u * u + 2 * _S * w * w + 1.25 / pi


def _branin_grad(x: Array, g: Array) -> None:
    x1, x2 = x
    u = 2 * (x2 + x1 * (_C - _B * x1) - 6)
    g[0] = u * (_C - 2 * _B * x1) - _S * np.sin(x1)
    g[1] = u


def _colville(x: Array) -> Any:
    x1, x2, x3, x4 = x
    a, b, c, d = x1 * x1 - x2, x1 - 1, x3 * x3 - x4, x3 - 1
    s, t = (x2 - 1) + (x4 - 1), x2 - x4
    return 100 * a * a + b * b + 90 * c * c + d * d + 10 * s * s + 0.1 * t * t


def _colville_grad(x: Array, g: Array) -> None:
    x1, x2, x3, x4 = x
    a, c = 200 * (x1 * x1 - x2), 180 * (x3 * x3 - x4)
    s, t = 20 * ((x2 - 1) + (x4 - 1)), 0.2 * (x2 - x4)
    g[0] = 2 * a * x1 + 2 * (x1 - 1)
    g[1] = s + t - a
    g[2] = 2 * c * x3 + 2 * (x3 - 1)
    g[3] = s - t - c


def _forrester(x: Array) -> Any:
    u = 6 * x[0] - 2
    return u * u * np.sin(2 * u)


def _forrester_grad(x: Array, g: Array) -> None:
    u = 6 * x[0] - 2
    g[0] = 12 * u * (np.sin(2 * u) + u * np.cos(2 * u))


# Goldstein-Price is a product of two quartics, one in s = x1 + x2, one in e = 2·x1 − 3·x2.


def _goldstein_price(x: Array) -> Any:
    x1, x2 = x
    s, e = x1 + x2, 2 * x1 - 3 * x2
    a = 1 + (s + 1) ** 2 * (19 + s * (3 * s - 14))
    return a * (30 + e * e * (18 + e * (3 * e - 16)))


def _goldstein_price_grad(x: Array, g: Array) -> None:
    x1, x2 = x
    s, e = x1 + x2, 2 * x1 - 3 * x2
    a = 1 + (s + 1) ** 2 * (19 + s * (3 * s - 14))
    b = 30 + e * e * (18 + e * (3 * e - 16))
    along, across = 12 * (s + 1) * (s - 1) * (s - 2) * b, 12 * e * (e - 1) * (e - 3) * a
    g[0] = along + 2 * across
    g[1] = along - 3 * across


_ALPHA = np.array([1.0, 1.2, 3.0, 3.2])
_A3 = np.array([[3.0, 10, 30], [0.1, 10, 35], [3.0, 10, 30], [0.1, 10, 35]])
_P3 = np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
_A6 = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
_P6 = np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def _hartmann(A: Array, P: Array, shift: float, scale: float, x: Array) -> Any:
    """Return (shift − the sum of four Gaussian wells) / scale."""
    d = x - spread(P, x[0])
    wells = np.exp(-total(spread(A, x[0]) * d * d, axis=1))
    return (shift - total(spread(_ALPHA, x[0]) * wells)) / scale


def _hartmann_grad(A: Array, P: Array, scale: float, x: Array, g: Array) -> None:
    d = x - spread(P, x[0])
    pull = spread(A, x[0]) * d
    wells = spread(_ALPHA, x[0]) * np.exp(-total(pull * d, axis=1))
    g[...] = total(pull * wells[:, None]) * (2 / scale)


def _hartmann_function(
    A: Array, P: Array, minima: tuple[float, ...], fmin: float, shift: float = 0.0, scale: float = 1.0
) -> Function:
    n = len(minima)
    steepness, centres = A[:, :n], P[:, :n] / 10000
    return Function(
        f"hartmann-{n}",
        f"Hartmann {n}-D",
        GROUP,
        partial(_hartmann, steepness, centres, shift, scale),
        partial(_hartmann_grad, steepness, centres, scale),
        n=n,
        bounds=(0, 1),
        minima=minima,
        fmin=fmin,
    )


# Perm d, β with β = 0.5: squares of the sums of (jⁱ + β)·((x_j/j)ⁱ − 1).


def _perm_d(x: Array) -> Any:
    j = indices(x)
    ratio = x / j
    power = weight = np.ones_like(j)
    value: Any = 0.0
    for _ in range(len(x)):
        power, weight = power * ratio, weight * j
        residual = total((weight + 0.5) * (power - 1))
        value = value + residual * residual
    return value


def _perm_d_grad(x: Array, g: Array) -> None:
    j = indices(x)
    ratio = x / j
    power = weight = np.ones_like(j)
    g[...] = 0
    for i in range(1, len(x) + 1):
        slope, power, weight = i * power / j, power * ratio, weight * j
        g += 2 * total((weight + 0.5) * (power - 1)) * (weight + 0.5) * slope


def _perm_d_at(n: int) -> Function:
    return Function(
        "perm-d",
        "Perm d, β",
        GROUP,
        _perm_d,
        _perm_d_grad,
        n=n,
        bounds=(-n, n),
        # In the plane the two conditions are a line and an ellipse, which meet twice. Beyond it
        # the designed minimiser has companions too, whose number grows with n: not listed.
        minima=[(1.0, 2.0), (23 / 13, 14 / 13)] if n == 2 else np.arange(1.0, n + 1),
        fmin=0.0,
        resize=_perm_d_at,
    )


def _powell(x: Array) -> Any:
    a, b, c, d = x[0::4], x[1::4], x[2::4], x[3::4]
    p, q, r, s = a + 10 * b, c - d, (b - 2 * c) ** 2, (a - d) ** 2
    return total(p * p + 5 * q * q + r * r + 10 * s * s)


def _powell_grad(x: Array, g: Array) -> None:
    a, b, c, d = x[0::4], x[1::4], x[2::4], x[3::4]
    p, q = 2 * (a + 10 * b), 10 * (c - d)
    r, s = 4 * (b - 2 * c) * (b - 2 * c) ** 2, 40 * (a - d) * (a - d) ** 2
    g[0::4] = p + s
    g[1::4] = 10 * p + r
    g[2::4] = q - 2 * r
    g[3::4] = -q - s


def _powell_at(n: int) -> Function:
    if n % 4:
        raise ValueError(f"n: powell joins coordinates in fours and needs a multiple of 4, got {n}")
    return Function(
        "powell",
        "Powell",
        GROUP,
        _powell,
        _powell_grad,
        n=n,
        bounds=(-4, 5),
        minima=0.0,
        fmin=0.0,
        resize=_powell_at,
    )


_BETA = np.array([0.1, 0.2, 0.2, 0.4, 0.4, 0.6, 0.3, 0.7, 0.5, 0.5])
_CENTRES = np.array([[4, 1, 8, 6, 3, 2, 5, 8, 6, 7], [4, 1, 8, 6, 7, 9, 3, 1, 2, 3.6]] * 2).T


def _shekel(x: Array) -> Any:
    d = x - spread(_CENTRES, x[0])
    return -total(1 / (total(d * d, axis=1) + spread(_BETA, x[0])))


def _shekel_grad(x: Array, g: Array) -> None:
    d = x - spread(_CENTRES, x[0])
    share = 1 / (total(d * d, axis=1) + spread(_BETA, x[0]))
    g[...] = 2 * total(d * (share * share)[:, None])


def _styblinski_tang(x: Array) -> Any:
    return total(x * (2.5 + x * (x * x / 2 - 8)))


def _styblinski_tang_grad(x: Array, g: Array) -> None:
    np.add(x * (2 * x * x - 16), 2.5, out=g)


FUNCTIONS = (
    Function(
        "beale", "Beale", GROUP, _beale, _beale_grad, n=2, bounds=(-4.5, 4.5), minima=(3, 0.5), fmin=0.0,
    ),
    Function(
        "branin", "Branin", GROUP, _branin, _branin_grad, n=2, bounds=[(-5, 10), (0, 15)],
        minima=[(-pi, 12.275), (pi, 2.275), (3 * pi, 2.475)], fmin=1.25 / pi,
    ),
    Function(
        "colville", "Colville", GROUP, _colville, _colville_grad, n=4, bounds=(-10, 10), minima=1.0, fmin=0.0,
    ),
    Function(
        "forrester", "Forrester et al. (2008)", GROUP, _forrester, _forrester_grad, n=1, bounds=(0, 1),
        minima=0.75724875784185587, fmin=-6.0207400557670828,
    ),
    Function(
        "goldstein-price", "Goldstein-Price", GROUP, _goldstein_price, _goldstein_price_grad, n=2,
        bounds=(-2, 2), minima=(0, -1), fmin=3.0,
    ),
    _hartmann_function(
        _A3, _P3, minima=(0.11458887665506897, 0.55564889461693004, 0.85254698468667744),
        fmin=-3.8627797873326625,
    ),
    _hartmann_function(
        _A6, _P6,
        minima=(0.18739527297346669, 0.19415152930244072, 0.55791778006256900, 0.26477962417039715),
        fmin=-3.1344941412223992, shift=1.1, scale=0.839,
    ),
    _hartmann_function(
        _A6, _P6,
        minima=(
            0.20168951100670542, 0.15001069182345797, 0.47687397422189699,
            0.27533243049405607, 0.31165161660011324, 0.65730053406562031,
        ),
        fmin=-3.3223680114155148,
    ),
    _perm_d_at(2),
    _powell_at(4),
    Function(
        "shekel", "Shekel", GROUP, _shekel, _shekel_grad, n=4, bounds=(0, 10),
        minima=(4.0007468682706344, 3.9995094800857736, 4.0007468682706344, 3.9995094800857736),
        fmin=-10.536443153483528,
    ),
    scalable(
        "styblinski-tang", "Styblinski-Tang", GROUP, _styblinski_tang, _styblinski_tang_grad, bounds=(-5, 5),
        coordinate=-2.9035340277711771, fmin_per_coordinate=-39.166165703771415,
    ),
)  # fmt: skip
