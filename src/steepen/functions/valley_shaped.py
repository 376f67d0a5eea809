"""The valley-shaped functions.

Examples
--------
>>> import steepen as st
>>> st.functions["dixon-price"].at(n=3).minima.round(3).tolist()
[[1.0, 0.707, 0.595], [1.0, 0.707, -0.595]]
"""

from typing import Any

import numpy as np

from steepen.functions._function import Function
from steepen.functions._numerics import Array, indices, total

GROUP = "valley-shaped"


def _three_hump_camel(x: Array) -> Any:
    x1, x2 = x
    q = x1 * x1
    return q * (2 + q * (q / 6 - 1.05)) + x1 * x2 + x2 * x2


def _three_hump_camel_grad(x: Array, g: Array) -> None:
    x1, x2 = x
    q = x1 * x1
    g[0] = x1 * (4 + q * (q - 4.2)) + x2
    g[1] = x1 + 2 * x2


def _six_hump_camel(x: Array) -> Any:
    x1, x2 = x
    q1, q2 = x1 * x1, x2 * x2
    return q1 * (4 + q1 * (q1 / 3 - 2.1)) + x1 * x2 + 4 * q2 * (q2 - 1)


def _six_hump_camel_grad(x: Array, g: Array) -> None:
    x1, x2 = x
    q1, q2 = x1 * x1, x2 * x2
    g[0] = x1 * (8 + q1 * (2 * q1 - 8.4)) + x2
    g[1] = x1 + x2 * (16 * q2 - 8)


def _dixon_price(x: Array) -> Any:
    first = x[0] - 1
    links = 2 * x[1:] * x[1:] - x[:-1]
    return first * first + total(indices(x)[1:] * links * links)


def _dixon_price_grad(x: Array, g: Array) -> None:
    pull = 2 * indices(x)[1:] * (2 * x[1:] * x[1:] - x[:-1])
    g[0] = 2 * (x[0] - 1)
    np.multiply(4 * x[1:], pull, out=g[1:])
    g[:-1] -= pull


def _dixon_price_at(n: int) -> Function:
    minimiser = 2.0 ** (2.0 ** (1 - np.arange(1.0, n + 1)) - 1)
    mirrored = np.append(minimiser[:-1], -minimiser[-1])
    return Function(
        "dixon-price",
        "Dixon-Price",
        GROUP,
        _dixon_price,
        _dixon_price_grad,
        n=n,
        bounds=(-10, 10),
        minima=[minimiser, mirrored] if n > 1 else minimiser,
        fmin=0.0,
        resize=_dixon_price_at,
    )


def _rosenbrock(x: Array) -> Any:
    head = x[:-1]
    bend, rest = x[1:] - head * head, head - 1
    return total(100 * bend * bend + rest * rest)


def _rosenbrock_grad(x: Array, g: Array) -> None:
    head = x[:-1]
    pull = 200 * (x[1:] - head * head)
    g[0] = 0
    g[1:] = pull
    g[:-1] += 2 * (head - 1) - 2 * head * pull


def _rosenbrock_at(n: int) -> Function:
    if n < 2:
        raise ValueError(f"n: rosenbrock links neighbouring coordinates and needs n >= 2, got {n}")
    return Function(
        "rosenbrock",
        "Rosenbrock",
        GROUP,
        _rosenbrock,
        _rosenbrock_grad,
        n=n,
        bounds=(-5, 10),
        minima=1.0,
        fmin=0.0,
        resize=_rosenbrock_at,
    )


FUNCTIONS = (
    Function(
        "three-hump-camel", "Three-Hump Camel", GROUP, _three_hump_camel, _three_hump_camel_grad, n=2,
        bounds=(-5, 5), minima=0.0, fmin=0.0,
    ),
    Function(
        "six-hump-camel", "Six-Hump Camel", GROUP, _six_hump_camel, _six_hump_camel_grad, n=2,
        bounds=[(-3, 3), (-2, 2)],
        minima=[(0.089842013100318062, -0.71265640302073963), (-0.089842013100318062, 0.71265640302073963)],
        fmin=-1.0316284534898774,
    ),
    _dixon_price_at(2),
    _rosenbrock_at(2),
)  # fmt: skip
