"""Ten functions of two to four variables that round x to 2 … 10 digits, as a simulator that reads text.

Their minimisers are no round numbers; 180 cases from two starts each. At the minimum is a point that is no
higher than a hundred times what a move of one unit in the last digits does there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.optimize as so

from ._case import Case

DIGITS = range(2, 11)
NEAR = 100.0

Function = Callable[[Any], float]


def rosen(x):
    return float(so.rosen(x))


def bowl(condition: float) -> Function:
    axes = np.linalg.qr(np.random.default_rng(4).standard_normal((4, 4)))[0]
    H = axes @ np.diag(np.geomspace(1, condition, 4)) @ axes.T
    return lambda x: float(0.5 * x @ H @ x)


def beale(x):
    a, b = x[0] + 3.0, x[1] + 0.5
    return float((1.5 - a + a * b) ** 2 + (2.25 - a + a * b**2) ** 2 + (2.625 - a + a * b**3) ** 2)


def logistic(x):
    Z = np.random.default_rng(5).standard_normal((40, 3))
    return float(np.logaddexp(0, -Z @ x).sum() + 0.5 * x @ x)


MINIMUM = np.array([np.pi / 2, -np.e / 3, np.sqrt(5) / 2, -np.log(3)])
KINDS: dict[str, tuple[Function, int, Any]] = {
    "rosenbrock": (rosen, 2, [1.0, 1.0]),
    "rosenbrock 4": (rosen, 4, np.ones(4)),
    "bowl 1": (bowl(1.0), 4, np.zeros(4)),
    "bowl 100": (bowl(1e2), 4, np.zeros(4)),
    "bowl 1e4": (bowl(1e4), 4, np.zeros(4)),
    "beale": (beale, 2, np.zeros(2)),
    "logistic": (logistic, 3, None),
    "quartic": (lambda x: float((x**2).sum() + (x**4).sum()), 3, np.zeros(3)),
    "cosh": (lambda x: float(np.cosh(x).sum() - 3), 3, np.zeros(3)),
    "offset": (lambda x: float(10 + x @ x), 3, np.zeros(3)),
}


def rounded(x: Any, digits: int) -> Any:
    return np.array([float(f"{v:.{digits - 1}e}") for v in x])


def cases() -> Iterator[Case]:
    for name, (kind, n, least) in KINDS.items():
        if least is None:
            least = so.minimize(kind, np.zeros(n), method="BFGS", options={"gtol": 1e-9}).x
        shift = MINIMUM[:n]

        def exact(x, kind=kind, away=shift - least):
            return kind(x - away)

        for digits in DIGITS:

            def few(x, digits=digits, exact=exact):
                return exact(rounded(x, digits))

            unit = 10.0 ** (np.floor(np.log10(np.abs(shift))) + 1 - digits)
            corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * n)).reshape(n, -1).T
            lowest = exact(shift)
            allowed = lowest + NEAR * max(exact(shift + c * unit) - lowest for c in corners) + 1e-9
            for seed in range(2):
                start = shift + np.random.default_rng(seed).uniform(-1.5, 1.5, n)
                yield Case(f"{name}, {digits} digits, {seed}", few, start, allowed=allowed)
