"""The user's function sampled on a grid for the explorer's page, as coefficients of a cubic spline; pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def sampled(fun: Callable[[Floats], Any], box: Floats, samples: int) -> Floats:
    """Return the coefficients of the cubic spline through fun's values, `samples` + 2 per variable.

    Examples
    --------
    >>> sampled(lambda x: x[0] ** 2, np.array([[0.0, 3.0]]), 4).round(12).tolist()
    [0.666666666667, -0.333333333333, 0.666666666667, 3.666666666667, 8.666666666667, 15.666666666667]
    """
    sides: list[Floats] = [np.linspace(low, high, samples) for low, high in box]
    values: Floats = np.empty([samples] * len(sides))
    for place in np.ndindex(values.shape):
        x: Floats = np.array([side[i] for side, i in zip(sides, place, strict=True)])
        values[place] = _value(fun(x.copy()), x)
    # the spline interpolates the values; its third derivative is continuous at the knots next to the ends
    system = np.zeros((samples + 2, samples + 2))
    system[0, :5] = system[-1, -5:] = 1, -4, 6, -4, 1
    for row in range(samples):
        system[row + 1, row : row + 3] = 1 / 6, 4 / 6, 1 / 6
    for axis in range(len(sides)):
        known = np.moveaxis(values, axis, 0)
        ends = np.zeros((1, *known.shape[1:]))
        right = np.concatenate([ends, known, ends]).reshape(samples + 2, -1)
        solved = np.linalg.solve(system, right).reshape(samples + 2, *known.shape[1:])
        values = np.asarray(np.moveaxis(solved, 0, axis), dtype=float)
    return values


def _value(returned: Any, x: Floats) -> float:
    value = np.asarray(returned)
    if value.size != 1 or value.dtype.kind not in "fiu":
        raise TypeError(f"fun: expected a number, got {returned!r} at x = {x.tolist()}")
    if not np.isfinite(value).all():
        raise ValueError(f"fun: expected finite values in the box, got {value.item()!r} at x = {x.tolist()}")
    return float(value.item())
