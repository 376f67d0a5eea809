"""NIST's models a second time, as its pages print them, for parameters of mpmath numbers."""

import json
import math
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import Any

from mpmath import atan, cos, fsum, log, mpf, pi, sin

from .problems import One, exp

Model = Callable[[Any, One], Any]


def lanczos(x: Any, b: One) -> Any:
    return b[1] * exp(-b[2] * x) + b[3] * exp(-b[4] * x) + b[5] * exp(-b[6] * x)


def gauss(x: Any, b: One) -> Any:
    bells = b[3] * exp(-((x - b[4]) ** 2) / b[5] ** 2) + b[6] * exp(-((x - b[7]) ** 2) / b[8] ** 2)
    return b[1] * exp(-b[2] * x) + bells


def chwirut(x: Any, b: One) -> Any:
    return exp(-b[1] * x) / (b[2] + b[3] * x)


def cubic_over_cubic(x: Any, b: One) -> Any:
    return (b[1] + b[2] * x + b[3] * x**2 + b[4] * x**3) / (1 + b[5] * x + b[6] * x**2 + b[7] * x**3)


def enso(x: Any, b: One) -> Any:
    year = b[2] * cos(2 * pi * x / 12) + b[3] * sin(2 * pi * x / 12)
    first = b[5] * cos(2 * pi * x / b[4]) + b[6] * sin(2 * pi * x / b[4])
    return b[1] + year + first + b[8] * cos(2 * pi * x / b[7]) + b[9] * sin(2 * pi * x / b[7])


MODELS: dict[str, Model] = {
    "Misra1a": lambda x, b: b[1] * (1 - exp(-b[2] * x)),
    "Misra1b": lambda x, b: b[1] * (1 - (1 + b[2] * x / 2) ** -2),
    "Misra1c": lambda x, b: b[1] * (1 - (1 + 2 * b[2] * x) ** mpf(-0.5)),
    "Misra1d": lambda x, b: b[1] * b[2] * x * (1 + b[2] * x) ** -1,
    "BoxBOD": lambda x, b: b[1] * (1 - exp(-b[2] * x)),
    "DanWood": lambda x, b: b[1] * x ** b[2],
    "Kirby2": lambda x, b: (b[1] + b[2] * x + b[3] * x**2) / (1 + b[4] * x + b[5] * x**2),
    "Nelson": lambda x, b: b[1] - b[2] * x[0] * exp(-b[3] * x[1]),
    "MGH09": lambda x, b: b[1] * (x**2 + x * b[2]) / (x**2 + x * b[3] + b[4]),
    "MGH10": lambda x, b: b[1] * exp(b[2] / (x + b[3])),
    "MGH17": lambda x, b: b[1] + b[2] * exp(-x * b[4]) + b[3] * exp(-x * b[5]),
    "Rat42": lambda x, b: b[1] / (1 + exp(b[2] - b[3] * x)),
    "Rat43": lambda x, b: b[1] / (1 + exp(b[2] - b[3] * x)) ** (1 / b[4]),
    "Roszman1": lambda x, b: b[1] - b[2] * x - atan(b[3] / (x - b[4])) / pi,
    "Eckerle4": lambda x, b: (b[1] / b[2]) * exp(-((x - b[3]) ** 2) / (2 * b[2] ** 2)),
    "Bennett5": lambda x, b: b[1] * (b[2] + x) ** (-1 / b[3]),
    "ENSO": enso,
    **dict.fromkeys(("Hahn1", "Thurber"), cubic_over_cubic),
    **dict.fromkeys(("Chwirut1", "Chwirut2"), chwirut),
    **dict.fromkeys(("Gauss1", "Gauss2", "Gauss3"), gauss),
    **dict.fromkeys(("Lanczos1", "Lanczos2", "Lanczos3"), lanczos),
}


@cache
def _data() -> dict[str, Any]:
    return json.loads(resources.files("benchmarks.problems").joinpath("nist.json").read_text("utf-8"))


def regression(dataset: str) -> Callable[[Sequence[Any]], Any]:
    """Return the residual sum of squares of a dataset as a function of its parameters."""
    model, data = MODELS[dataset], _data()[dataset]
    y = [mpf(t) for t in data["y"]]
    x = list(zip(*data["x"], strict=True)) if dataset == "Nelson" else [mpf(t) for t in data["x"]]

    def value(parameters: Sequence[Any]) -> Any:
        b = One(parameters)
        seen = (log(t) for t in y) if dataset == "Nelson" else y
        return fsum((model(at, b) - t) ** 2 for at, t in zip(x, seen, strict=True))

    return value


def size(dataset: str) -> float:
    """Return the norm of the observations."""
    return math.hypot(*_data()[dataset]["y"])
