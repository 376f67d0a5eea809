"""The Moré-Garbow-Hillstrom problems of fixed dimension, as sums of squares.

Their numbers in the collection (ACM Trans. Math. Software 7, 1981) are in the titles; those of any
dimension are in `mgh_sized`. The Meyer, Kowalik-Osborne and first Osborne problems are NIST's MGH10,
MGH09 and MGH17 from their second starts.
"""

from typing import Any

import numpy as np

from steepen.functions._numerics import Array, absolute, nonzero

from . import nist
from ._problem import Problem, Residuals, jacobian, sum_of_squares

SUITE = "mgh"


def _freudenstein_roth(x: Array) -> tuple[Array, Array]:
    a, b = x
    r = np.array([a - 13 + ((5 - b) * b - 2) * b, a - 29 + ((b + 1) * b - 14) * b])
    return r, np.array([[1, (10 - 3 * b) * b - 2], [1, (3 * b + 2) * b - 14]])


def _powell_badly_scaled(x: Array) -> tuple[Array, Array]:
    a, b = x
    r = np.array([1e4 * a * b - 1, np.exp(-a) + np.exp(-b) - 1.0001])
    return r, np.array([[1e4 * b, 1e4 * a], [-np.exp(-a), -np.exp(-b)]])


def _brown_badly_scaled(x: Array) -> tuple[Array, Array]:
    a, b = x
    return np.array([a - 1e6, b - 2e-6, a * b - 2]), np.array([[1, 0], [0, 1], [b, a]])


def _beale(x: Array) -> tuple[Array, Array]:
    a, b = x
    i = np.arange(1, 4)
    r = np.array([1.5, 2.25, 2.625]) - a * (1 - b**i)
    return r, jacobian(3, b**i - 1, a * i * b ** (i - 1))


def _jennrich_sampson(x: Array) -> tuple[Array, Array]:
    i = np.arange(1, 11)
    grow = np.exp(np.outer(i, x))
    return 2 + 2 * i - grow.sum(1), -i[:, None] * grow


def _helical_valley(x: Array) -> tuple[Array, Array]:
    a, b, c = x
    # the angle of (a, b) in turns, analytic on either side of a = 0
    turn = np.sign(b.real) / 4 if a == 0 else np.arctan(b / a) / (2 * np.pi) + 0.5 * (a.real < 0)
    square = a * a + b * b
    radius, spin = np.sqrt(square), 50 / (np.pi * square)
    r = np.array([10 * (c - 10 * turn), 10 * (radius - 1), c])
    return r, np.array([[spin * b, -spin * a, 10], [10 * a / radius, 10 * b / radius, 0], [0, 0, 1]])


_BARD = [0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34, 2.10, 4.39]


def _bard(x: Array) -> tuple[Array, Array]:
    u = np.arange(1, 16)
    v = 16 - u
    w = np.minimum(u, v)
    below = v * x[1] + w * x[2]
    slope = u / below**2
    return np.array(_BARD) - x[0] - u / below, jacobian(15, -1, v * slope, w * slope)


_GAUSSIAN = [0.0009, 0.0044, 0.0175, 0.0540, 0.1295, 0.2420, 0.3521, 0.3989]


def _gaussian(x: Array) -> tuple[Array, Array]:
    away = (7 - np.arange(15)) / 2 - x[2]
    bell = np.exp(-x[1] * away**2 / 2)
    fit = x[0] * bell
    r = fit - np.array(_GAUSSIAN + _GAUSSIAN[-2::-1])
    return r, jacobian(15, bell, -fit * away**2 / 2, fit * x[1] * away)


def _gulf(x: Array) -> tuple[Array, Array]:
    t = np.arange(1, 100) / 100
    away = 25 + (-50 * np.log(t)) ** (2 / 3) - x[1]
    log = np.log(nonzero(absolute(away)))
    power = np.exp(x[2] * log) * (away != 0) / x[0]
    fit = np.exp(-power)
    slope = fit * power
    return fit - t, jacobian(99, slope / x[0], slope * x[2] / nonzero(away), -slope * log)


def _box_3d(x: Array) -> tuple[Array, Array]:
    t = np.arange(1, 11) / 10
    one, two, known = np.exp(-t * x[0]), np.exp(-t * x[1]), np.exp(-t) - np.exp(-10 * t)
    return one - two - x[2] * known, jacobian(10, -t * one, t * two, -known)


def _wood(x: Array) -> tuple[Array, Array]:
    a, b, c, d = x
    p, q = np.sqrt(90), np.sqrt(10)
    r = np.array([10 * (b - a * a), 1 - a, p * (d - c * c), 1 - c, q * (b + d - 2), (b - d) / q])
    J = [[-20 * a, 10, 0, 0], [-1, 0, 0, 0], [0, 0, -2 * p * c, p], [0, 0, -1, 0]]
    return r, np.array([*J, [0, q, 0, q], [0, 1 / q, 0, -1 / q]])


def _brown_dennis(x: Array) -> tuple[Array, Array]:
    t = np.arange(1, 21) / 5
    one, two = x[0] + t * x[1] - np.exp(t), x[2] + x[3] * np.sin(t) - np.cos(t)
    return one * one + two * two, 2 * jacobian(20, one, one * t, two, two * np.sin(t))


def _biggs_exp6(x: Array) -> tuple[Array, Array]:
    t = np.arange(1, 14) / 10
    one, two, three = np.exp(-np.outer(x[[0, 1, 4]], t))
    y = np.exp(-t) - 5 * np.exp(-10 * t) + 3 * np.exp(-4 * t)
    r = x[2] * one - x[3] * two + x[5] * three - y
    return r, jacobian(13, -t * x[2] * one, t * x[3] * two, one, -two, -t * x[5] * three, three)


_OSBORNE_2 = """
1.366 1.191 1.112 1.013 0.991 0.885 0.831 0.847 0.786 0.725 0.746 0.679 0.608 0.655 0.616 0.606 0.602
0.626 0.651 0.724 0.649 0.649 0.694 0.644 0.624 0.661 0.612 0.558 0.533 0.495 0.500 0.423 0.395 0.375
0.372 0.391 0.396 0.405 0.428 0.429 0.523 0.562 0.607 0.653 0.672 0.708 0.633 0.668 0.645 0.632 0.591
0.559 0.597 0.625 0.739 0.710 0.729 0.720 0.636 0.581 0.428 0.292 0.162 0.098 0.054
"""


def _osborne_2(x: Array) -> tuple[Array, Array]:
    t = np.arange(65) / 10
    J = np.empty((65, 11), x.dtype)
    decay = np.exp(-t * x[4])
    away = t[:, None] - x[8:]
    bells = np.exp(-(away**2) * x[5:8])
    J[:, 0], J[:, 1:4] = -decay, -bells
    J[:, 4], J[:, 5:8] = x[0] * t * decay, x[1:4] * away**2 * bells
    J[:, 8:] = -2 * x[1:4] * x[5:8] * away * bells
    return np.array(_OSBORNE_2.split(), float) + J[:, :4] @ x[:4], J


def _fixed(
    number: int, name: str, title: str, residuals: Residuals, x0: Any, fbest: float, *others: float
) -> Problem:
    return Problem(name, f"{title} ({number})", SUITE, sum_of_squares(residuals), x0, fbest, others)


def _from_nist(number: int, name: str, title: str, dataset: str) -> Problem:
    twin = next(p for p in nist.PROBLEMS if p.name == f"{dataset.lower()}-2")
    return Problem(name, f"{title} ({number})", SUITE, nist.fit(dataset), twin.x0, twin.fbest)


# Values that are no closed forms: long BFGS and trust-region runs, then Newton steps in extended precision.
PROBLEMS = (
    _fixed(
        2, "freudenstein-roth", "Freudenstein-Roth", _freudenstein_roth, [0.5, -2], 0.0, 48.98425367924002,
    ),
    _fixed(3, "powell-badly-scaled", "Powell badly scaled", _powell_badly_scaled, [0, 1], 0.0),
    _fixed(4, "brown-badly-scaled", "Brown badly scaled", _brown_badly_scaled, [1, 1], 0.0),
    _fixed(5, "beale", "Beale", _beale, [1, 1], 0.0),
    _fixed(6, "jennrich-sampson", "Jennrich-Sampson", _jennrich_sampson, [0.3, 0.4], 124.36218235561485),
    _fixed(7, "helical-valley", "Helical valley", _helical_valley, [-1, 0, 0], 0.0),
    _fixed(8, "bard", "Bard", _bard, [1, 1, 1], 8.21487730657898e-3),
    _fixed(9, "gaussian", "Gaussian", _gaussian, [0.4, 1, 0], 1.127932769619011e-8),
    _from_nist(10, "meyer", "Meyer", "MGH10"),
    _fixed(11, "gulf", "Gulf research and development", _gulf, [5, 2.5, 0.15], 0.0),
    _fixed(12, "box-3d", "Box three-dimensional", _box_3d, [0, 10, 20], 0.0),
    _fixed(14, "wood", "Wood", _wood, [-3, -1, -3, -1], 0.0),
    _from_nist(15, "kowalik-osborne", "Kowalik-Osborne", "MGH09"),
    _fixed(16, "brown-dennis", "Brown-Dennis", _brown_dennis, [25, 5, -5, -1], 85822.20162635631),
    _from_nist(17, "osborne-1", "Osborne 1", "MGH17"),
    _fixed(18, "biggs-exp6", "Biggs EXP6", _biggs_exp6, [1, 2, 1, 1, 1, 1], 0.0, 5.655649925499949e-3),
    _fixed(
        19, "osborne-2", "Osborne 2", _osborne_2, [1.3, 0.65, 0.65, 0.7, 0.6, 3, 5, 7, 2, 4.5, 5.5],
        4.0137736293547758e-2,
    ),
)  # fmt: skip
