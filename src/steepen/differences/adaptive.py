"""Forward or central differences, over intervals that are adapted to f.

A forward difference over h is wrong by ½h|f″| + 2ε_f/h, ε_f being the error of a value. That is least over
h = 2√(ε_f/|f″|) (Gill, Murray, Saunders and Wright 1983; Moré and Wild 2012). |f″| along each variable comes
from the metric that a method has learnt, and from second differences where differences are central: those are
wrong by ε_f/h and by the third derivative, estimated as |f″| over the size of the variable. Until |f″| is
known, intervals are SciPy's.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..arrays import adopt, to_numpy
from ..questions import Asking, Value, Values, Vector
from ..vectors import own
from . import tuning
from .finite_differences import DifferenceGradient
from .noise import COARSEST, Flags, Floats, size_of

STRAIGHT = 0.01  # where f bends by less than this part of what |f″| says, that was wrong
TESTS = 8.0  # a central difference is this many times as long as the best forward one: it resolves f″
RUNGS = 3  # how often a second difference that is not resolved is taken again


class AdaptiveDifferences(DifferenceGradient):
    """Forward or central differences, over the intervals that are best for what is known of f."""

    @property
    def cost(self) -> int:
        if not self.known.central:
            return len(self._movable)
        return len(self._movable) * (2 if self._is_surveyed() else 2 + 2 * (RUNGS + 1))

    # --- intervals -------------------------------------------------------------------------------------

    def intervals(self, x: Vector, f: float, central: bool) -> tuple[Floats, Floats]:
        """Return how far differences go ahead and back from x; only central ones go back."""
        point, root = to_numpy(x), np.sqrt(self.known.curvature)
        usual: Floats = math.sqrt(self._part(f)) * np.maximum(np.abs(point), 1.0)
        size, ideal = self._sizes(point, f, root), 2 * math.sqrt(self.known.eps_f(f)) / root
        best: Floats = np.clip(ideal, usual * np.minimum(size, 1.0) / tuning.RANGE, usual * tuning.RANGE)
        h: Floats = np.where(np.isfinite(best), best, usual)
        both: Floats = np.maximum(TESTS * h, h ** (2 / 3) * size ** (1 / 3))
        return self._fitted(point, both, np.where(point < 0, -h, h), central)

    def _sizes(self, point: NDArray[Any], f: float, root: Floats) -> Floats:
        """Return the sizes of the variables: a small one has that over which f bends by its own size."""
        bends, most = math.sqrt(abs(f) + self.known.conditioning) / root, size_of(point)
        return np.fmin(most, np.maximum(np.abs(point), np.where(bends > 0, bends, most)))

    def _part(self, f: float) -> float:
        """Return the error of a value relative to it."""
        whole, error = abs(f) + self.known.conditioning, self.known.eps_f(f)
        return min(max(error / (whole if whole > 0 else 1.0), self.eps), COARSEST)

    # --- gradients -------------------------------------------------------------------------------------

    def gradient(self, x: Vector, f: float | None = None) -> Asking[tuple[Vector, Vector]]:
        """Ask for ∇f at any point, where f may be known; return it with the error of each component."""
        known, here = self.known, f
        if here is None:
            here = cast(float, (yield Value(x)))
        if not math.isfinite(here):  # no difference can be made
            yield Values([], gradients=1)
            return x * math.nan, x * math.nan
        if known.central and not self._is_surveyed():
            yield from self.survey(x, here)
        ahead, back = self.intervals(x, here, known.central)
        g, second = yield from self._quotients(x, here, ahead, back, gradients=1)
        square = np.where(back > 0, ahead * back, 1.0)
        least = tuning.RESOLVED * known.eps_f(here)
        # where f″ should have been resolved and was not, it is no more than this
        bound = np.where(square * known.curvature > least, least, np.nan)
        two, second = ~np.isnan(second), np.abs(second)
        self._learn(x, g)
        self._learn_curvature(np.where(two, np.where(second > least, second, bound) / square, np.nan))
        return own(x, g), own(x, self._error(x, here, ahead, two))

    def _error(self, x: Vector, f: float, ahead: Floats, two: Flags) -> Floats:
        """Return how far each difference over these lengths may be wrong; 0 where there is none."""
        h: Floats = np.where(ahead == 0, np.inf, np.abs(ahead))
        ε, known = self.known.eps_f(f), self.known.curvature
        curvature: Floats = np.where(np.isfinite(known), known, 4 * ε / (h * h))  # as if h were the best
        error: Floats = 2 * ε / h + 0.5 * h * curvature
        if two.any():
            size = self._sizes(to_numpy(x), f, np.sqrt(known))
            error = np.where(two, ε / h + h * h * curvature / (6 * size), error)
        return np.where(ahead == 0, 0.0, error)

    def error_of(self, x: Vector, f: float, central: bool) -> Floats:
        """Return the error that a gradient at x would have."""
        ahead, back = self.intervals(x, f, central)
        return self._error(x, f, ahead, back > 0)

    def _learn(self, x: Vector, g: Floats) -> None:
        """Keep what a gradient has shown."""
        slopes = float(np.abs(g * to_numpy(x)).sum())
        if math.isfinite(slopes):
            self.known.conditioning = slopes

    # --- second derivatives ----------------------------------------------------------------------------

    @property
    def curvature(self) -> Floats:
        """|f″| along each variable; NaN is unknown."""
        return self.known.curvature

    def set_curvature(self, curvature: Vector) -> None:
        """Take |f″| along each variable from a method; where differences are central, they show it."""
        if not self.known.central:
            self._learn_curvature(to_numpy(curvature))

    def _is_surveyed(self) -> bool:
        """Return whether |f″| is known along every variable."""
        return bool(np.isfinite(self.known.curvature[self._movable]).all())

    def _learn_curvature(self, curvature: Floats) -> None:
        """Keep |f″| along each variable, where it shows."""
        seen = np.isfinite(curvature) & (curvature > 0)
        self.known.curvature = np.where(seen, curvature, self.known.curvature)

    def curvature_at(self, x: Vector, f: float) -> Floats:
        """Return |f″| along each variable; if unknown, that for which the usual intervals are best."""
        curvature = self.known.curvature
        if (known := np.isfinite(curvature)).all():
            return curvature
        usual = 4 * self.known.scale(f) / np.maximum(np.abs(to_numpy(x)), 1.0) ** 2
        return np.where(known, curvature, usual)

    def survey(self, x: Vector, f: float) -> Asking[tuple[Vector, Vector, bool]]:
        """Find |f″| along each variable by central differences, which are made longer until they show it.

        Return the gradient that they make, its error, and whether all of it can be used.
        """
        point, known, size = to_numpy(x), self.known, size_of(to_numpy(x))
        asked = self.intervals(x, f, False)[0] != 0
        known.curvature = np.where(asked, np.nan, known.curvature)
        part = max(tuning.SURVEY, self._part(f) ** 0.25)
        most = np.maximum(part * size, 0.1 * np.maximum(np.abs(point), 1.0))
        found, least = known.curvature, tuning.RESOLVED * known.eps_f(f)
        g, used, open = np.where(asked, np.nan, 0.0), np.zeros_like(found), asked
        for rung in range(1 + RUNGS):
            h = np.minimum(tuning.LONGER**rung * part * size, most)
            ahead, h = self._fitted(point, h, np.where(point < 0, -h, h), True)
            open = open & (h > used)  # a narrow box leaves no room for longer ones, or for any
            if not open.any():
                break
            up, down = yield from self._beside(x, (ahead, open), (-h, open))
            second, square = np.abs(up + down - 2 * f), np.where(open, h * h, 1.0)
            g, used = np.where(open, (up - down) / (2 * h), g), np.where(open, h, used)
            open = open & ~(second > least)
            # where f″ does not show over the longest difference, it is no more than this
            found = np.where(np.isfinite(second), np.maximum(second, least) / square, found)
        # one-sided values show slopes only, and with few digits not even these
        unseen = np.isnan(found) & (known.resolution == 0)
        known.curvature = np.where(unseen, self.curvature_at(x, f), found)
        self._learn(x, np.nan_to_num(g))
        return own(x, g), own(x, self._error(x, f, used, used > 0)), bool(np.isfinite(g).all())

    def is_smooth(self, x: Vector, f: float) -> Asking[bool]:
        """Ask whether f bends nine times as much over three times the way; at a kink it is three times."""
        ahead, back = self.intervals(x, f, True)
        u = np.where(back > 0, ahead, 0.0) * np.random.default_rng(0).choice([-1.0, 1.0], ahead.shape[-1])
        # along a variable at a bound, the values are taken inside the box
        held = (back == 0) & (ahead != 0) & self.space.contains(to_numpy(x) + 6 * ahead)
        points = list[Vector]()
        if held.any():
            u, x = np.where(held, ahead, u), x + adopt(x, np.where(held, 3 * ahead, 0.0))
            points.append(x)
        points += [self.space.project(x + adopt(x, t * u)) for t in (1.0, -1.0, 3.0, -3.0)]
        values: list[float] = yield Values(points)
        middle = values[0] if held.any() else f
        near, far = (a + b - 2 * middle for a, b in (values[-4:-2], values[-2:]))
        least = tuning.RESOLVED * self.known.eps_f(middle)
        known = float((9 * u * u * self.curvature_at(x, middle)).sum())
        return 9 * near <= tuning.SMOOTH * far + 9 * least and far >= STRAIGHT * known - least
