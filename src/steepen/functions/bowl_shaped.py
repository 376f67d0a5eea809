"""The bowl-shaped functions.

Examples
--------
>>> import steepen as st
>>> f = st.functions["rotated-hyper-ellipsoid"].at(n=5)
>>> float(f([12.0, 5.0, 1.0, 5.0, 12.0])), f.grad([1.0, 1.0, 1.0, 1.0, 1.0]).tolist()
(1017.0, [10.0, 8.0, 6.0, 4.0, 2.0])
"""

from functools import partial
from math import pi
from typing import Any

import numpy as np

from steepen.functions._function import Function, scalable
from steepen.functions._numerics import Array, absolute, indices, sign, total

GROUP = "bowl-shaped"


# Bohachevsky 1, 2, 3: 1 − cos is written as 2sin² so that nothing cancels at the minimum.


def _bohachevsky_1(x: Array) -> Any:
    x1, x2 = x
    s1, s2 = np.sin(1.5 * pi * x1), np.sin(2 * pi * x2)
    return x1 * x1 + 2 * x2 * x2 + 0.6 * s1 * s1 + 0.8 * s2 * s2


def _bohachevsky_1_grad(x: Array, g: Array) -> None:
    x1, x2 = x
    g[0] = 2 * x1 + 0.9 * pi * np.sin(3 * pi * x1)
    g[1] = 4 * x2 + 1.6 * pi * np.sin(4 * pi * x2)


def _bohachevsky_2(x: Array) -> Any:
    x1, x2 = x
    s1, s2 = np.sin(1.5 * pi * x1), np.sin(2 * pi * x2)
    return x1 * x1 + 2 * x2 * x2 + 0.6 * (s1 * s1 + np.cos(3 * pi * x1) * s2 * s2)


def _bohachevsky_2_grad(x: Array, g: Array) -> None:
    x1, x2 = x
    a, b = 3 * pi * x1, 4 * pi * x2
    g[0] = 2 * x1 + 0.9 * pi * np.sin(a) * np.cos(b)
    g[1] = 4 * x2 + 1.2 * pi * np.cos(a) * np.sin(b)


def _bohachevsky_3(x: Array) -> Any:
    x1, x2 = x
    s = np.sin(pi * (1.5 * x1 + 2 * x2))
    return x1 * x1 + 2 * x2 * x2 + 0.6 * s * s


def _bohachevsky_3_grad(x: Array, g: Array) -> None:
    x1, x2 = x
    s = pi * np.sin(pi * (3 * x1 + 4 * x2))
    g[0] = 2 * x1 + 0.9 * s
    g[1] = 4 * x2 + 1.2 * s


# Perm 0, d, β with β = 10: squares of the weighted sums of x_jⁱ − (1/j)ⁱ, weights j + β.


def _perm_0(x: Array) -> Any:
    j = indices(x)
    power = target = np.ones_like(j)
    value: Any = 0.0
    for _ in range(len(x)):
        power, target = power * x, target * (1 / j)
        residual = total((j + 10) * (power - target))
        value = value + residual * residual
    return value


def _perm_0_grad(x: Array, g: Array) -> None:
    j = indices(x)
    power = target = np.ones_like(j)
    g[...] = 0
    for i in range(1, len(x) + 1):
        slope, power, target = i * power, power * x, target * (1 / j)
        g += 2 * total((j + 10) * (power - target)) * (j + 10) * slope


def _perm_0_at(n: int) -> Function:
    return Function(
        "perm-0",
        "Perm 0, d, β",
        GROUP,
        _perm_0,
        _perm_0_grad,
        n=n,
        bounds=(-n, n),
        # In the plane the two conditions are a line and an ellipse, which meet twice. Beyond it
        # the designed minimiser has companions too, whose number grows with n: not listed.
        minima=[(1.0, 0.5), (11 / 23, 45 / 46)] if n == 2 else 1 / np.arange(1.0, n + 1),
        fmin=0.0,
        resize=_perm_0_at,
    )


def _rotated_hyper_ellipsoid(x: Array) -> Any:
    return total((len(x) + 1 - indices(x)) * x * x)


def _rotated_hyper_ellipsoid_grad(x: Array, g: Array) -> None:
    np.multiply(2 * (len(x) + 1 - indices(x)), x, out=g)


def _sphere(x: Array) -> Any:
    return total(x * x)


def _sphere_grad(x: Array, g: Array) -> None:
    np.multiply(x, 2, out=g)


def _sum_of_different_powers(x: Array) -> Any:
    return total(absolute(x) ** (indices(x) + 1))


def _sum_of_different_powers_grad(x: Array, g: Array) -> None:
    i = indices(x)
    np.multiply((i + 1) * sign(x), absolute(x) ** i, out=g)


def _sum_squares(x: Array) -> Any:
    return total(indices(x) * x * x)


def _sum_squares_grad(x: Array, g: Array) -> None:
    np.multiply(2 * indices(x), x, out=g)


def _trid(x: Array) -> Any:
    shifted = x - 1
    return total(shifted * shifted) - total(x[1:] * x[:-1])


def _trid_grad(x: Array, g: Array) -> None:
    g[...] = 2 * (x - 1)
    g[1:] -= x[:-1]
    g[:-1] -= x[1:]


def _trid_at(n: int) -> Function:
    i = np.arange(1.0, n + 1)
    return Function(
        "trid",
        "Trid",
        GROUP,
        _trid,
        _trid_grad,
        n=n,
        bounds=(-n * n, n * n),
        minima=i * (n + 1 - i),
        fmin=-n * (n + 4) * (n - 1) / 6,
        resize=_trid_at,
    )


_bohachevsky = partial(Function, n=2, bounds=(-100, 100), minima=0.0, fmin=0.0)

FUNCTIONS = (
    _bohachevsky("bohachevsky-1", "Bohachevsky 1", GROUP, _bohachevsky_1, _bohachevsky_1_grad),
    _bohachevsky("bohachevsky-2", "Bohachevsky 2", GROUP, _bohachevsky_2, _bohachevsky_2_grad),
    _bohachevsky("bohachevsky-3", "Bohachevsky 3", GROUP, _bohachevsky_3, _bohachevsky_3_grad),
    _perm_0_at(2),
    scalable(
        "rotated-hyper-ellipsoid", "Rotated Hyper-Ellipsoid", GROUP, _rotated_hyper_ellipsoid,
        _rotated_hyper_ellipsoid_grad, bounds=(-65.536, 65.536), coordinate=0.0,
    ),
    scalable("sphere", "Sphere", GROUP, _sphere, _sphere_grad, bounds=(-5.12, 5.12), coordinate=0.0),
    scalable(
        "sum-of-different-powers", "Sum of Different Powers", GROUP, _sum_of_different_powers,
        _sum_of_different_powers_grad, bounds=(-1, 1), coordinate=0.0,
    ),
    scalable(
        "sum-squares", "Sum Squares", GROUP, _sum_squares, _sum_squares_grad, bounds=(-10, 10),
        coordinate=0.0,
    ),
    _trid_at(2),
)  # fmt: skip
