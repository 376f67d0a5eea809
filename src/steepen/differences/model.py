"""A quadratic model of f over the lengths that its noise asks for: it may lead to a lower value.

Where noise hides slopes, the metric that a method has learnt from them is noise, too, and a direction in it
that promises nothing proves nothing. A run that seems to be at its end therefore asks for values that can
contradict: central differences along each variable, and one value for each pair of variables, so far away
that f bends by far more than its noise. The model through them (Conn, Scheinberg and Vicente 2009) has a
minimum, which is tried, and axes along which its curvature is within the error of these values: there f is
followed until it rises.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ..arrays import adopt
from ..questions import Asking, Point, Value, Values, Vector
from . import tuning
from .noise import Floats

if TYPE_CHECKING:
    from .adaptive import AdaptiveDifferences

MOST = 20
"""Up to so many variables, the values for all pairs are no more than those of ten gradients."""
PART = 0.5
"""The model is made over this part of the lengths of central differences: nearer x, f is closer to it."""
WRONG = 4.0
"""A product of the model is wrong by no more than so many errors of a value of f."""
CUTS, DOUBLINGS = 2, 8
"""A step that rises is cut to a quarter so often, one that does not rise is doubled so often."""


class Model(NamedTuple):
    """f(x + Σ zᵢ·unitᵢ·eᵢ) − f(x) ≈ slopeᵀz + ½zᵀ(matrix)z, over the variables `which`."""

    which: NDArray[np.int64]
    unit: Floats
    slope: Floats
    matrix: Floats
    unclear: float
    """Eigenvalues of no more than this are within the error of the values."""

    def along(self, some: NDArray[np.bool_], part: float) -> Model:
        """Return the model over some variables, whose values are wrong by no more than this part."""
        kept = some[self.which]
        which, unit, slope = self.which[kept], self.unit[kept], self.slope[kept]
        return Model(which, unit, slope, self.matrix[np.ix_(kept, kept)], part * self.unclear)

    def steps(self, least: float) -> Iterator[tuple[Floats, float]]:
        """Return steps that may lead down by `least`, each with the decrease that the slope promises."""
        if not len(self.which):
            return
        curvature, axes = np.linalg.eigh(self.matrix)
        along: Floats = axes.T @ self.slope
        newton: Floats = -axes @ (along / np.maximum(np.abs(curvature), self.unclear))
        promised = -float(self.slope @ newton)
        if 0.5 * promised > least:
            yield newton, promised
        length = math.sqrt(2 * least / self.unclear)
        for j in np.flatnonzero(curvature <= self.unclear):
            down: Floats = -math.copysign(length, along[j]) * axes[:, j]
            yield down, length * abs(float(along[j]))
            yield -down, 0.0


def lower_point(differences: AdaptiveDifferences, here: Point) -> Asking[Point | None]:
    """Ask for values where a model of f promises lower ones; return a point that noise does not explain."""
    model = yield from _model(differences, here)
    if model is None:
        return None
    known, f = differences.known, cast(float, here.f)
    noise = tuning.WORTH * known.noise
    found = yield from _lower(differences, here, model, max(noise, tuning.STEPS * known.eps_at_minimum(f)))
    # where variables that are rounded stand still, values of the others are as exact as ever
    exact = known.eps_of_values(f)
    if found is not None or not known.grid.any() or exact == 0:
        return found
    smooth = model.along(known.grid == 0, exact / known.eps_f(f))
    return (yield from _lower(differences, here, smooth, max(noise, tuning.STEPS * exact)))


def _lower(differences: AdaptiveDifferences, here: Point, model: Model, least: float) -> Asking[Point | None]:
    """Ask for f where the model promises `least` less; return a point where it is so much lower."""
    for z, promised in model.steps(least):
        away = np.zeros(here.x.shape[-1])
        away[model.which] = z * model.unit
        found = yield from _followed(differences, here, away, promised, least)
        if found is not None:
            return found
    return None


def _model(differences: AdaptiveDifferences, here: Point) -> Asking[Model | None]:
    """Ask for the values of the model; None where no variable has room, or a value is not finite."""
    h, g, bend = yield from differences.around(here, PART)
    which = np.flatnonzero(bend > 0)
    if len(which) == 0:
        return None
    h, g, bend = h[which], g[which], bend[which]
    pairs = [(i, j) for i in range(len(which)) for j in range(i)]
    points = list[Vector]()
    for pair in pairs:
        away = np.zeros(here.x.shape[-1])
        away[which[[*pair]]] = h[[*pair]]
        points.append(_moved(differences, here.x, away))
    values: list[float] = yield Values(points)
    alone = g * h + 0.5 * bend
    matrix = np.diag(bend)
    for (i, j), value in zip(pairs, values, strict=True):
        matrix[i, j] = matrix[j, i] = value - here.f - alone[i] - alone[j]
    root = np.sqrt(bend)
    matrix /= np.outer(root, root)
    if not np.isfinite(matrix).all():
        return None
    wrong = WRONG * math.sqrt(len(which)) * differences.known.eps_f(here.f) / float(bend.min())
    return Model(which, h / root, g * h / root, matrix, min(wrong, 1.0))


def _moved(differences: AdaptiveDifferences, x: Vector, away: Floats) -> Vector:
    """Return x moved so far, within the box."""
    return differences.space.project(x + adopt(x, away))


def _followed(
    differences: AdaptiveDifferences, here: Point, away: Floats, promised: float, least: float
) -> Asking[Point | None]:
    """Follow a step until f rises; cut one along which it rises at once, if its slope promises a decrease."""
    found, t, cuts = None, 1.0, 0
    for _ in range(1 + DOUBLINGS):
        point = _moved(differences, here.x, t * away)
        value = yield Value(point)
        if value < (here.f - least if found is None else found.f):
            found = Point(point, value)
        elif found is not None:
            break
        elif not value <= here.f + least:
            cuts += 1
            if cuts > CUTS or not 0.25 * t * promised > least:
                break
        t = 0.25 * t if cuts else 2.0 * t
    return found
