"""The nonlinear regression problems of NIST's Statistical Reference Datasets, each with both starts.

The objective is the residual sum of squares. The data, starts and certified values lie in `nist.json`
beside this file, as NIST published them (public domain), with `fbest`: the sum of squares at the
minimiser, found from the certified parameters by Newton steps with gradients in extended precision.
"""

import json
from collections.abc import Callable
from functools import partial
from importlib import resources
from typing import Any

import numpy as np

from steepen.functions._numerics import Array, absolute

from ._problem import Evaluate, Problem, frozen, jacobian, sum_of_squares

Model = Callable[[Array, Array], tuple[Array, Array]]


class Regression(Problem):
    """A least-squares fit with certified parameters.

    Parameters
    ----------
    name, title, suite, evaluate, x0, fbest
        As for `Problem`.
    certified : array_like
        NIST's parameters, to eleven digits.
    rss : float
        NIST's residual sum of squares, to eleven digits.
    """

    def __init__(self, *args: Any, certified: Any, rss: float) -> None:
        super().__init__(*args)
        self.certified = frozen(certified)
        self.rss = rss


def _exponential_rise(x: Array, b: Array) -> tuple[Array, Array]:
    rise = -np.expm1(-b[1] * x)
    return b[0] * rise, jacobian(len(x), rise, b[0] * x * (1 - rise))


def _misra1b(x: Array, b: Array) -> tuple[Array, Array]:
    q = 1 / (1 + b[1] * x / 2)
    return b[0] * (1 - q * q), jacobian(len(x), 1 - q * q, b[0] * x * q**3)


def _misra1c(x: Array, b: Array) -> tuple[Array, Array]:
    q = 1 / np.sqrt(1 + 2 * b[1] * x)
    return b[0] * (1 - q), jacobian(len(x), 1 - q, b[0] * x * q**3)


def _misra1d(x: Array, b: Array) -> tuple[Array, Array]:
    q = x / (1 + b[1] * x)
    return b[0] * b[1] * q, jacobian(len(x), b[1] * q, b[0] * q / (1 + b[1] * x))


def _bennett5(x: Array, b: Array) -> tuple[Array, Array]:
    log = np.log(b[1] + x)
    q = np.exp(-log / b[2])
    fit = b[0] * q
    return fit, jacobian(len(x), q, -fit / (b[2] * (b[1] + x)), fit * log / b[2] ** 2)


def _chwirut(x: Array, b: Array) -> tuple[Array, Array]:
    q = 1 / (b[1] + b[2] * x)
    fit = np.exp(-b[0] * x) * q
    return fit, jacobian(len(x), -x * fit, -fit * q, -x * fit * q)


def _danwood(x: Array, b: Array) -> tuple[Array, Array]:
    q = x ** b[1]
    return b[0] * q, jacobian(len(x), q, b[0] * q * np.log(x))


def _enso(x: Array, b: Array) -> tuple[Array, Array]:
    fit, columns = b[0], [np.ones_like(x)]
    for period, a, c in ((12.0, b[1], b[2]), (b[3], b[4], b[5]), (b[6], b[7], b[8])):
        angle = 2 * np.pi * x / period
        cos, sin = np.cos(angle), np.sin(angle)
        fit = fit + a * cos + c * sin
        if len(columns) > 1:  # only the first period is fixed
            columns.append(angle / period * (a * sin - c * cos))
        columns += [cos, sin]
    return fit, jacobian(len(x), *columns)


def _eckerle4(x: Array, b: Array) -> tuple[Array, Array]:
    z = (x - b[2]) / b[1]
    bell = np.exp(-z * z / 2) / b[1]
    fit = b[0] * bell
    return fit, jacobian(len(x), bell, fit * (z * z - 1) / b[1], fit * z / b[1])


def _gauss(x: Array, b: Array) -> tuple[Array, Array]:
    decay = np.exp(-b[1] * x)
    fit, columns = b[0] * decay, [decay, -b[0] * x * decay]
    for height, centre, width in (b[2:5], b[5:8]):
        z = (x - centre) / width
        bell = np.exp(-z * z)
        fit = fit + height * bell
        slope = 2 * height * bell * z / width
        columns += [bell, slope, slope * z]
    return fit, jacobian(len(x), *columns)


def _rational(x: Array, b: Array) -> tuple[Array, Array]:
    """Fit a quotient of polynomials of one degree, the lower one with constant term 1."""
    powers = x[:, None] ** np.arange(len(b) // 2 + 1)
    below = 1 + powers[:, 1:] @ b[len(b) // 2 + 1 :]
    fit = powers @ b[: len(b) // 2 + 1] / below
    return fit, np.hstack([powers, -fit[:, None] * powers[:, 1:]]) / below[:, None]


def _lanczos(x: Array, b: Array) -> tuple[Array, Array]:
    decays = np.exp(-np.outer(x, b[1::2]))
    J = np.empty((len(x), 6), b.dtype)
    J[:, ::2], J[:, 1::2] = decays, -x[:, None] * decays * b[::2]
    return decays @ b[::2], J


def _mgh09(x: Array, b: Array) -> tuple[Array, Array]:
    above, below = x * (x + b[1]), x * (x + b[2]) + b[3]
    fit = b[0] * above / below
    return fit, jacobian(len(x), above / below, b[0] * x / below, -fit * x / below, -fit / below)


def _mgh10(x: Array, b: Array) -> tuple[Array, Array]:
    q = 1 / (x + b[2])
    grow = np.exp(b[1] * q)
    fit = b[0] * grow
    return fit, jacobian(len(x), grow, fit * q, -fit * b[1] * q * q)


def _mgh17(x: Array, b: Array) -> tuple[Array, Array]:
    one, two = np.exp(-b[3] * x), np.exp(-b[4] * x)
    fit = b[0] + b[1] * one + b[2] * two
    return fit, jacobian(len(x), 1, one, two, -b[1] * x * one, -b[2] * x * two)


def _nelson(x: Array, b: Array) -> tuple[Array, Array]:
    time, temperature = x
    decay = np.exp(-b[2] * temperature)
    loss = b[1] * time * decay
    return b[0] - loss, jacobian(len(time), 1, -time * decay, temperature * loss)


def _rat42(x: Array, b: Array) -> tuple[Array, Array]:
    share = 1 / (1 + np.exp(b[1] - b[2] * x))
    slope = b[0] * share * (1 - share)
    return b[0] * share, jacobian(len(x), share, -slope, x * slope)


def _rat43(x: Array, b: Array) -> tuple[Array, Array]:
    u = b[1] - b[2] * x
    size = absolute(u)
    log = (u + size) / 2 + np.log1p(np.exp(-size))  # log(1 + exp(u)), without overflow
    share = np.exp(-log / b[3])
    fit = b[0] * share
    slope = -fit / (b[3] * (1 + np.exp(-u)))
    return fit, jacobian(len(x), share, slope, -x * slope, fit * log / b[3] ** 2)


def _roszman1(x: Array, b: Array) -> tuple[Array, Array]:
    t = x - b[3]
    slope = 1 / (np.pi * (t * t + b[2] * b[2]))
    return b[0] - b[1] * x - np.arctan(b[2] / t) / np.pi, jacobian(len(x), 1, -x, -t * slope, -b[2] * slope)


# In the order of the archive: lower, average and higher difficulty.
_MODELS: dict[str, Model] = {
    "Misra1a": _exponential_rise,
    "Chwirut2": _chwirut,
    "Chwirut1": _chwirut,
    "Lanczos3": _lanczos,
    "Gauss1": _gauss,
    "Gauss2": _gauss,
    "DanWood": _danwood,
    "Misra1b": _misra1b,
    "Kirby2": _rational,
    "Hahn1": _rational,
    "Nelson": _nelson,
    "MGH17": _mgh17,
    "Lanczos1": _lanczos,
    "Lanczos2": _lanczos,
    "Gauss3": _gauss,
    "Misra1c": _misra1c,
    "Misra1d": _misra1d,
    "Roszman1": _roszman1,
    "ENSO": _enso,
    "MGH09": _mgh09,
    "Thurber": _rational,
    "BoxBOD": _exponential_rise,
    "Rat42": _rat42,
    "MGH10": _mgh10,
    "Eckerle4": _eckerle4,
    "Rat43": _rat43,
    "Bennett5": _bennett5,
}


def _misfit(model: Model, x: Array, y: Array, b: Array) -> tuple[Array, Array]:
    fit, J = model(x, b)
    return fit - y, J


def _read() -> dict[str, dict[str, Any]]:
    text = resources.files("benchmarks.problems").joinpath("nist.json").read_text("utf-8")
    return json.loads(text)


_SETS = _read()


def fit(dataset: str) -> Evaluate:
    """Return the residual sum of squares of a dataset, with its gradient."""
    y, x = frozen(_SETS[dataset]["y"]), frozen(_SETS[dataset]["x"])
    if dataset == "Nelson":
        y = np.log(y)
    return sum_of_squares(partial(_misfit, _MODELS[dataset], x, y))


def _problem(dataset: str, start: int) -> Regression:
    known = _SETS[dataset]
    return Regression(
        f"{dataset.lower()}-{start}",
        f"{dataset}, start {start}",
        "nist",
        fit(dataset),
        known["starts"][start - 1],
        known["fbest"],
        certified=known["certified"],
        rss=known["rss"],
    )


PROBLEMS = tuple(_problem(dataset, start) for dataset in _MODELS for start in (1, 2))
