"""A function of the user's on a grid, as the coefficients of a cubic spline in each variable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def sampled(fun: Callable[[Floats], Any], box: Floats, samples: int) -> dict[str, Any]:
    """Return knots and coefficients of the spline through fun's values, so many in each variable.

    Examples
    --------
    >>> spline = sampled(lambda x: x[0] ** 2, np.array([[0.0, 1.0]]), 5)
    >>> spline["knots"]
    [[0.0, 0.0, 0.0, 0.0, 0.5, 1.0, 1.0, 1.0, 1.0]]
    """
    import scipy.interpolate  # here, so that `import steepen` stays light

    interpolated = cast("Callable[..., Any]", vars(scipy.interpolate)["make_interp_spline"])
    sides: list[Floats] = [np.linspace(low, high, samples) for low, high in box]
    values = np.empty([samples] * len(sides))
    for place in np.ndindex(values.shape):
        x: Floats = np.array([side[i] for side, i in zip(sides, place, strict=True)])
        values[place] = _value(fun(x.copy()), x)
    knots: list[list[float]] = []
    for axis, side in enumerate(sides):
        spline = interpolated(side, values, k=3, axis=axis)
        knots.append(spline.t.tolist())
        values = np.moveaxis(spline.c, 0, axis)
    return {"knots": knots, "coefficients": values.ravel().tolist()}


def _value(returned: Any, x: Floats) -> float:
    value = np.asarray(returned)
    if value.size != 1 or value.dtype.kind not in "fiu":
        raise TypeError(f"fun: expected a number, got {returned!r} at x = {x.tolist()}")
    if not np.isfinite(value).all():
        raise ValueError(f"fun: expected finite values in the box, got {value.item()!r} at x = {x.tolist()}")
    return float(value.item())
