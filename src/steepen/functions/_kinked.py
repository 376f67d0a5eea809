"""The functions with many local minima that have kinks, where |·| meets zero.

On a kink the derivative of the term that has it is taken as zero, between its two sides. The sign
of a product is taken factor by factor, so that a complex step from a kink stays on the kink.
"""

from math import pi
from typing import Any

import numpy as np

from steepen.functions._function import Function, scalable
from steepen.functions._numerics import Array, absolute, nonzero, sign, total

GROUP = "many local minima"


def _bukin_6(x: Array) -> Any:
    x1, x2 = x
    return 100 * np.sqrt(absolute(x2 - x1 * x1 / 100)) + 0.01 * absolute(x1 + 10)


def _bukin_6_grad(x: Array, g: Array) -> None:
    x1, x2 = x
    ridge = x2 - x1 * x1 / 100
    slope = 50 * sign(ridge) / nonzero(np.sqrt(absolute(ridge)))
    g[0] = 0.01 * sign(x1 + 10) - slope * x1 / 50
    g[1] = slope


# Cross-in-Tray has exp(100) inside a tenth power. With u = |s| + exp(−E), the same number is
# −1e-4·(u·exp(E))^0.1, which float32 can hold.


def _cross_in_tray(x: Array) -> Any:
    x1, x2 = x
    far = absolute(100 - np.sqrt(x1 * x1 + x2 * x2) / pi)
    u = absolute(np.sin(x1)) * absolute(np.sin(x2)) + np.exp(-far)
    return -1e-4 * np.exp(0.1 * far) * u**0.1


def _cross_in_tray_grad(x: Array, g: Array) -> None:
    x1, x2 = x
    r = np.sqrt(x1 * x1 + x2 * x2)
    s1, s2 = np.sin(x1), np.sin(x2)
    a1, a2, far = absolute(s1), absolute(s2), 100 - r / pi
    height, level = absolute(far), a1 * a2
    u = level + np.exp(-height)
    common = -1e-5 * np.exp(0.1 * height) * u**0.1 / u
    inward = -sign(far) * level / (pi * nonzero(r))
    g[0] = common * (sign(s1) * np.cos(x1) * a2 + inward * x1)
    g[1] = common * (sign(s2) * np.cos(x2) * a1 + inward * x2)


def _eggholder(x: Array) -> Any:
    x1, x2 = x
    a = x2 + 47
    u, w = np.sqrt(absolute(a + x1 / 2)), np.sqrt(absolute(x1 - a))
    return -a * np.sin(u) - x1 * np.sin(w)


def _eggholder_grad(x: Array, g: Array) -> None:
    x1, x2 = x
    a = x2 + 47
    p, q = a + x1 / 2, x1 - a
    u, w = np.sqrt(absolute(p)), np.sqrt(absolute(q))
    along_u = a * np.cos(u) * sign(p) / (2 * nonzero(u))
    along_w = x1 * np.cos(w) * sign(q) / (2 * nonzero(w))
    g[0] = -along_u / 2 - np.sin(w) - along_w
    g[1] = -along_u - np.sin(u) + along_w


def _holder_table(x: Array) -> Any:
    x1, x2 = x
    far = absolute(1 - np.sqrt(x1 * x1 + x2 * x2) / pi)
    return -absolute(np.sin(x1)) * absolute(np.cos(x2)) * np.exp(far)


def _holder_table_grad(x: Array, g: Array) -> None:
    x1, x2 = x
    r = np.sqrt(x1 * x1 + x2 * x2)
    s1, c2 = np.sin(x1), np.cos(x2)
    a1, a2, far = absolute(s1), absolute(c2), 1 - r / pi
    height = np.exp(absolute(far))
    outward = sign(far) * a1 * a2 / (pi * nonzero(r))
    g[0] = height * (outward * x1 - sign(s1) * np.cos(x1) * a2)
    g[1] = height * (outward * x2 + sign(c2) * np.sin(x2) * a1)


def _schwefel(x: Array) -> Any:
    return total(418.9829 - x * np.sin(np.sqrt(absolute(x))))


def _schwefel_grad(x: Array, g: Array) -> None:
    r = np.sqrt(absolute(x))
    np.negative(np.sin(r) + r * np.cos(r) / 2, out=g)


BUKIN_6 = Function(
    "bukin-6", "Bukin N. 6", GROUP, _bukin_6, _bukin_6_grad, n=2, bounds=[(-15, -5), (-3, 3)],
    minima=(-10, 1), fmin=0.0,
)  # fmt: skip
_CROSS = 1.3494066171539108
CROSS_IN_TRAY = Function(
    "cross-in-tray", "Cross-in-Tray", GROUP, _cross_in_tray, _cross_in_tray_grad, n=2, bounds=(-10, 10),
    minima=[(a, b) for a in (_CROSS, -_CROSS) for b in (_CROSS, -_CROSS)], fmin=-2.0626118708227369,
)  # fmt: skip
EGGHOLDER = Function(
    "eggholder", "Eggholder", GROUP, _eggholder, _eggholder_grad, n=2, bounds=(-512, 512),
    minima=(512, 404.23180511375781), fmin=-959.64066272085080,
)  # fmt: skip
_HOLDER_1, _HOLDER_2 = 8.0550234757365634, 9.6645900192412729
HOLDER_TABLE = Function(
    "holder-table", "Holder Table", GROUP, _holder_table, _holder_table_grad, n=2, bounds=(-10, 10),
    minima=[(a, b) for a in (_HOLDER_1, -_HOLDER_1) for b in (_HOLDER_2, -_HOLDER_2)],
    fmin=-19.208502567886732,
)  # fmt: skip
SCHWEFEL = scalable(
    "schwefel", "Schwefel", GROUP, _schwefel, _schwefel_grad, bounds=(-500, 500),
    coordinate=420.96874635998203, fmin_per_coordinate=1.2727566293725214e-05,
)  # fmt: skip
