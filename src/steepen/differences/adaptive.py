"""Forward or central differences, over intervals that are adapted to f.

A forward difference over h is wrong by ½h|f″| + 2ε_f/h, ε_f being the error of a value. That is least over
h = 2√(ε_f/|f″|) (Gill, Murray, Saunders and Wright 1983; Moré and Wild 2012). |f″| along each variable comes
from the metric that a method has learnt, and from second differences where differences are central: those are
wrong by ε_f/h and by the third derivative, estimated as |f″| over the size of the variable. Until |f″| is
known, intervals are SciPy's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from ..arrays import adopt, to_numpy
from ..questions import Asking, Point, Value, Values, Vector
from ..vectors import own
from . import tuning
from .finite_differences import DifferenceGradient, taken
from .noise import COARSEST, Flags, Floats, size_of, step_between

if TYPE_CHECKING:
    from ..run import Run

STRAIGHT = 0.01  # where f bends by less than this part of what |f″| says, that was wrong
TESTS = 8.0  # a central difference is this many times as long as the best forward one: it resolves f″
CELLS = 2.0  # where x is rounded, a difference is at least so many times as long as the step of its variable
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
        size, ideal = self._sizes(point, f, root), 2 * np.sqrt(self.known.eps_along(f)) / root
        best: Floats = np.clip(ideal, usual * np.minimum(size, 1.0) / tuning.RANGE, usual * tuning.RANGE)
        h: Floats = np.maximum(np.where(np.isfinite(best), best, usual), CELLS * self.known.grid)
        both: Floats = np.maximum(TESTS * h, h ** (2 / 3) * size ** (1 / 3))
        if self.options.rounded:
            h, both = (np.exp2(np.round(np.log2(length))) for length in (h, both))
        return self._fitted(point, both, np.where(point < 0, -h, h), central)

    def _sizes(self, point: NDArray[Any], f: float, root: Floats) -> Floats:
        """Return the sizes of the variables: a small one has that over which f bends by its own size."""
        bends, most = math.sqrt(abs(f) + self.known.conditioning) / root, size_of(point)
        return np.fmin(most, np.maximum(np.abs(point), np.where(bends > 0, bends, most)))

    def _part(self, f: float) -> float:
        """Return the error of a value relative to it."""
        whole, error = abs(f) + self.known.conditioning, self.known.eps_f(f)
        return min(max(error / (whole if whole > 0 else 1.0), self.eps), COARSEST)

    def foreseen(self, run: Run, x: Vector) -> list[Vector]:
        f = run.here.f
        if f is None:  # at the start the noise of f is measured first
            return []
        guess = f + 0.5 * run.slope  # what a quadratic falls by on the way to its minimum
        if not math.isfinite(guess):
            return []
        return self._points(x, *self.intervals(x, guess, self.known.central))

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
        stands = (g == 0) & ((second == 0) | np.isnan(second))  # two values that are equal may show a bend
        # along a rounded variable it does so where x is rounded more coarsely than where that was found
        known.sought = known.sought & ~((second == 0) & (known.grid > 0))
        still = np.where(stands, np.abs(ahead), 0.0)
        if (yield from self._finds_grid(x, here, still, g * (ahead + back))):
            ahead, back = self.intervals(x, here, known.central)
            g, second = yield from self._quotients(x, here, ahead, back, gradients=1)
        square = np.where(back > 0, ahead * back, 1.0)
        least = tuning.RESOLVED * known.eps_along(here)
        # where f″ should have been resolved and was not, it is no more than this
        bound = np.where(square * known.curvature > least, least, np.nan)
        two, second = ~np.isnan(second), np.abs(second)
        self._learn(x, g)
        self._learn_curvature(np.where(two, np.where(second > least, second, bound) / square, np.nan))
        return own(x, g), own(x, self._error(x, here, ahead, two))

    def around(self, here: Point, part: float) -> Asking[tuple[Floats, Floats, Floats]]:
        """Return lengths along the variables that are free, the slopes, and by how much f bends over them.

        All are 0 along the other variables. A length is this part of a central difference. Slopes and bends
        are those of the last gradient, unless its lengths let the third derivative into the slope: then f is
        evaluated on both sides, farther away where it would not bend visibly, or as far as the box lets us.
        """
        x, f = here.x, cast(float, here.f)
        point, least = to_numpy(x), tuning.RESOLVED * self.known.eps_along(f)
        limits, ahead = self.space.limits, part * self.intervals(x, f, True)[0]
        way, room = np.copysign(1.0, ahead), np.full(ahead.shape, np.inf)
        if limits is not None:
            room = np.minimum(point - limits[0], limits[1] - point)
        free = to_numpy(self.space.free(x, here.g, own(x, np.ones(ahead.shape)))) != 0
        full = self.intervals(x, f, True)[0]
        ε, curvature = self.known.eps_along(f), self.known.curvature
        truncation = np.abs(full) ** 3 * curvature / (6 * self._sizes(point, f, np.sqrt(curvature)))
        open = free & (truncation > ε)
        most = np.minimum(np.maximum(np.abs(ahead), 0.1 * np.maximum(np.abs(point), 1.0)), room)
        length = np.minimum(np.abs(ahead), room)
        h = np.where(free & ~open, ahead, 0.0)
        g, bend = to_numpy(here.g).copy(), np.where(h != 0, curvature * h * h, 0.0)
        for _ in range(1 + RUNGS):
            ahead, back = taken(point, way * length), -taken(point, -way * length)
            open = open & (np.abs(ahead) > np.abs(h))
            if not open.any():
                break
            slope, second = yield from self._quotients(
                x, f, np.where(open, ahead, 0.0), np.where(open, back, 0.0)
            )
            second = np.abs(second)
            h, g = np.where(open, ahead, h), np.where(open, slope, g)
            bend = np.where(open, np.maximum(second, least), bend)
            open = open & (second < least)
            length = np.minimum(tuning.LONGER * np.abs(ahead), most)
        return h, g, bend

    def _error(self, x: Vector, f: float, ahead: Floats, two: Flags) -> Floats:
        """Return how far each difference over these lengths may be wrong; 0 where there is none."""
        h: Floats = np.where(ahead == 0, np.inf, np.abs(ahead))
        ε, known = self.known.eps_along(f), self.known.curvature
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
        known, r = self.known, self.known.grid
        if math.isfinite(slopes):
            known.conditioning = slopes
            if r.any():
                known.blur = np.where(r > 0, 0.5 * np.abs(g) * r + known.least_blur, 0.0)

    def _finds_grid(self, x: Vector, f: float, still: Floats, changes_seen: Floats) -> Asking[bool]:
        """Find how far variables have to move before f changes; return whether that is news.

        f stands still along a variable that is rounded, and then jumps; a smooth f that has not changed over
        a tenth of the way changes by few roundings over it. Each variable is looked at once, from the length
        on over which f stood still. Where all changes of f, those along other variables too, are multiples of
        one step, f is quantised, and not x.
        """
        known, point = self.known, to_numpy(x)
        if known.jumps:
            known.jumps, still = False, np.where(still > 0, still, tuning.LINE * size_of(point))
            still = np.where(self.intervals(x, f, False)[0] != 0, still, 0.0)
        h, open = still, (still > 0) & ~known.sought
        if not open.any():
            return False
        known.sought = known.sought | open
        grid, blur, jumps = np.zeros_like(h), np.zeros_like(h), list[float]()
        while open.any():
            h = 10 * h
            changes = yield from self._changes(x, f, h, open)
            least, most = np.fmin(*changes), np.fmax(*changes)
            # x may lie beside a jump: the other side shows how far it is to the next one
            jumped = open & (least > tuning.JUMP * known.rounding(f))
            grid, blur = np.where(jumped, h, grid), np.where(jumped, most, blur)
            jumps += changes[:, jumped].ravel().tolist()
            open = open & (least == 0) & (10 * h <= np.maximum(np.abs(point), 1.0))
        if not grid.any():
            return False
        quantum = step_between([*jumps, *changes_seen[changes_seen != 0].tolist()], self.eps * abs(f))
        if quantum > 0:
            known.resolution = known.resolution or quantum / known.scale(f)
            return False
        for part in (0.5, 0.25):  # from within a factor of ten to less than two
            near = yield from self._changes(x, f, grid / 10**part, grid > 0)
            grid = np.where(np.fmin(*near) > 0, grid / 10**part, grid)
        known.grid, known.blur = np.where(grid > 0, grid, known.grid), np.where(grid > 0, blur, known.blur)
        known.resolution = 0.0
        return True

    def _changes(self, x: Vector, f: float, h: Floats, wanted: Flags) -> Asking[Floats]:
        """Ask for the changes of f ahead and back, NaN where they are not wanted or there is no room."""
        ahead, back = self._fitted(to_numpy(x), h, h, True)
        both = yield from self._beside(x, (ahead, wanted & (ahead != 0)), (-back, wanted & (back > 0)))
        return np.nan_to_num(np.abs(np.array(both) - f), nan=np.nan)

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

    def is_smooth(self, x: Vector, f: float, turned: bool = False) -> Asking[bool]:
        """Ask whether f bends nine times as much over three times the way; at a kink it is three times.

        The way is a diagonal one, `turned` where f may not bend along the first, as on the floor of a valley.
        """
        ahead, back = self.intervals(x, f, True)
        u = np.where(back > 0, ahead, 0.0) * np.random.default_rng(0).choice([-1.0, 1.0], ahead.shape[-1])
        if turned:
            u[::2] = -u[::2]
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
