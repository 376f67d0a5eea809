"""Gradients made of values, over intervals that follow the noise and the curvature of f.

A forward difference over h is wrong by ½h|f″| + 2ε_f/h, ε_f being the error of a value. That is least over
h = 2√(ε_f/|f″|) (Gill, Murray, Saunders and Wright 1983; Moré and Wild 2012). |f″| along each variable comes
from the metric that a method has learnt, and from second differences where differences are central: those are
wrong by ε_f/h and by the third derivative, estimated as |f″| over the size of the variable. Until |f″| is
known, intervals are SciPy's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import Array, Mask, MaybeArray, Scalar, adopt, to_numpy
from . import tuning
from .calls import Only
from .counter import Cost
from .finite_differences import DifferenceGradient, taken
from .noise import COARSEST, Flags, Floats, size_of

STRAIGHT = 0.01  # where f bends by less than this part of what |f″| says, that was wrong
TESTS = (
    8.0  # a central difference is at least this many times as long as the best forward one: it resolves f″
)
RUNGS = 3  # how often a second difference that is not resolved is taken again


class AdaptiveDifferences(DifferenceGradient):
    """Forward or central differences, over the intervals that are best for what is known of f."""

    @property
    def known(self) -> Mask:
        """Where |f″| is known along every variable."""
        return self.mask(np.isfinite(self.state.curvature[..., self.free]).all(axis=-1))

    @property
    def cost(self) -> Any:
        survey = self.backend.and_not(self.state.central, self.known)
        return len(self.free) * (1 + self.state.central + 2 * (RUNGS + 1) * survey)

    @property
    def cost_survey(self) -> Cost:
        """What a survey costs beyond a gradient by forward differences."""
        return Cost(2 * (RUNGS + 1) * len(self.free))

    # --- intervals -----------------------------------------------------------------------------------

    def intervals(self, x: Array, f: Scalar, central: Mask) -> tuple[Floats, Floats]:
        """Return how far differences go ahead and back from x; only central ones go back."""
        point, column, root = to_numpy(x), self._column, np.sqrt(self.state.curvature)
        usual: Floats = np.sqrt(self._part(f)) * np.maximum(np.abs(point), 1.0)
        size, ideal = self._sizes(point, f, root), 2 * np.sqrt(column(self.noise.eps_f(f))) / root
        best: Floats = np.clip(ideal, usual * np.minimum(size, 1.0) / tuning.RANGE, usual * tuning.RANGE)
        h: Floats = np.where(np.isfinite(best), best, usual)
        both: Floats = h
        if self.backend.any(central):
            both = np.maximum(TESTS * h, h ** (2 / 3) * size ** (1 / 3))
        return self._fitted(point, both, h, column(central))

    def _sizes(self, point: NDArray[Any], f: Scalar, root: Floats) -> Floats:
        """Return the sizes of the variables: a small one has that over which f bends by its own size."""
        own, most = np.sqrt(self._column(abs(f) + self.state.conditioning)) / root, size_of(point)
        return np.fmin(most, np.maximum(np.abs(point), np.where(own > 0, own, most)))

    def _fitted(self, point: NDArray[Any], h: Floats, near: Floats, both: Any) -> tuple[Floats, Floats]:
        """Return how far to go ahead and back for these lengths, as the box lets us."""
        ahead, back = self.space.differences(point, h, np.where(point < 0, -near, near), both)
        return taken(point, ahead), -taken(point, -back)

    def _part(self, f: Scalar) -> Any:
        """Return the error of a value relative to it, as a column."""
        whole, error = self._column(abs(f) + self.state.conditioning), self._column(self.noise.eps_f(f))
        return np.clip(error / np.where(whole > 0, whole, 1.0), self.eps, COARSEST)

    # --- gradients -----------------------------------------------------------------------------------

    def difference(self, x: Array, f: Scalar, only: Only) -> tuple[Array, MaybeArray]:
        rows, state = True if only is None else only, self.state
        unknown = self.backend.and_not(state.central, self.known) & rows
        if self.backend.any(unknown):
            self.survey(x, f, unknown)
        ahead, back = self.intervals(x, f, state.central)
        g, curvature, two = self._slopes(x, f, only, ahead, back)
        self._learn(x, g, curvature, rows)
        return self.backend.own(g), self.backend.own(self._error(x, f, ahead, two))

    def _slopes(
        self, x: Array, f: Scalar, only: Only, ahead: Floats, back: Floats
    ) -> tuple[Floats, Floats, Flags]:
        """Return the quotients (0 for fixed variables), |f″| where it shows, and where both sides count."""
        moves, two, h, here = ahead != 0, back > 0, np.where(ahead == 0, 1.0, ahead), self._column(f)
        up, down = self._beside(x, only, (ahead, moves), (-back, two))
        slope: Floats = (up - here) / h
        if not (np.isfinite(slope) | ~moves).all():
            # where f is not finite on one side, a quotient is taken on the other one
            lost = ~np.isfinite(up) & np.isfinite(here) & moves & ~two
            lost = lost & self.space.contains(to_numpy(x) - ahead)
            lost = lost & self._column(self.evaluator.counter.affords(Cost(len(self.free))))
            (other,) = self._beside(x, only, (-ahead, lost))
            down, back = np.where(lost, other, down), np.where(lost, h, back)
            behind: Floats = (here - down) / np.where(back == 0, 1.0, back)
            slope = np.where(np.isfinite(down) & ~np.isfinite(up), behind, slope)
        g: Floats = np.where(moves, slope, 0.0)
        two = two & np.isfinite(up) & np.isfinite(down)
        if not two.any():
            return g, np.full(g.shape, np.nan), two
        second = np.abs((up - here) - (here - down))
        least = tuning.RESOLVED * self._column(self.noise.eps_f(f))
        square = np.where(two, h * back, 1.0)
        # where f″ should have been resolved and was not, it is no more than this
        bound = np.where(square * self.state.curvature > least, least, np.nan)
        curvature = np.where(two, np.where(second > least, second, bound) / square, np.nan)
        return np.where(two, (up - down) / (h + back), g), curvature, two

    def _error(self, x: Array, f: Scalar, ahead: Floats, two: Flags) -> Floats:
        """Return how far each difference over these lengths may be wrong; 0 where there is none."""
        h: Floats = np.where(ahead == 0, np.inf, np.abs(ahead))
        ε, known = self._column(self.noise.eps_f(f)), self.state.curvature
        curvature: Floats = np.where(np.isfinite(known), known, 4 * ε / (h * h))  # as if h were the best
        error: Floats = 2 * ε / h + 0.5 * h * curvature
        if two.any():
            size = self._sizes(to_numpy(x), f, np.sqrt(known))
            error = np.where(two, ε / h + h * h * curvature / (6 * size), error)
        return np.where(ahead == 0, 0.0, error)

    def error_of(self, x: Array, f: Scalar, central: Mask) -> Floats:
        """Return the error that a gradient at x would have."""
        ahead, back = self.intervals(x, f, central)
        return self._error(x, f, ahead, back > 0)

    def _learn(self, x: Array, g: Floats, curvature: Floats, rows: Mask) -> None:
        """Keep what a gradient has shown."""
        state, backend = self.state, self.backend
        self._learn_curvature(curvature, rows)
        slopes = np.abs(g * to_numpy(x)).sum(axis=-1)
        state.conditioning = backend.select(
            rows & np.isfinite(slopes), backend.scalar(slopes), state.conditioning
        )

    # --- second derivatives --------------------------------------------------------------------------

    @property
    def curvature(self) -> Array:
        return self.state.curvature

    def set_curvature(self, curvature: Array, rows: Mask) -> None:
        rows = self.backend.and_not(rows, self.state.central)  # there, second differences show it
        if self.backend.any(rows):
            self._learn_curvature(to_numpy(curvature), rows)

    def _learn_curvature(self, curvature: Floats, rows: Mask) -> None:
        """Keep |f″| along each variable in these rows, where it shows."""
        seen = np.isfinite(curvature) & (curvature > 0) & self._column(rows)
        self.state.curvature = np.where(seen, curvature, self.state.curvature)

    def curvature_at(self, x: Array, f: Scalar) -> Floats:
        """Return |f″| along each variable; if unknown, that for which the usual intervals are best."""
        curvature = self.state.curvature
        if (known := np.isfinite(curvature)).all():
            return curvature
        scale = self._column(self.noise.scale(f))
        return np.where(known, curvature, 4 * scale / np.maximum(np.abs(to_numpy(x)), 1.0) ** 2)

    def survey(self, x: Array, f: Scalar, rows: Mask) -> tuple[Array, Array, Mask]:
        """Find |f″| along each variable by central differences, which are made longer until they show it.

        Return the gradient that they make, its error, and where all of it can be used.
        """
        point, state, column, size = to_numpy(x), self.state, self._column, size_of(to_numpy(x))
        asked = column(rows) & (self.intervals(x, f, False)[0] != 0)
        state.curvature = np.where(asked, np.nan, state.curvature)
        part = np.maximum(tuning.SURVEY, self._part(f) ** 0.25)
        most = np.maximum(part * size, 0.1 * np.maximum(np.abs(point), 1.0))
        found, least = state.curvature, tuning.RESOLVED * column(self.noise.eps_f(f))
        g, used, open = np.where(asked, np.nan, 0.0), 0.0 * found, asked
        for longer in tuning.LONGER ** np.arange(1.0 + RUNGS):
            ahead, back = self._fitted(point, h := np.minimum(longer * part * size, most), h, True)
            open = open & (back > 0)
            if not open.any():
                break
            up, down = self._beside(x, self._only(rows), (ahead, open), (-back, open))
            second, square = np.abs(up + down - 2 * column(f)), np.where(open, h * h, 1.0)
            g, used = np.where(open, (up - down) / (2 * h), g), np.where(open, h, used)
            open = open & ~(second > least)
            # where f″ does not show over the longest difference, it is no more than this
            found = np.where(np.isfinite(second), np.maximum(second, least) / square, found)
        # one-sided values show slopes only, and with few digits not even these
        unseen = np.isnan(found) & column(rows & (state.resolution == 0))
        state.curvature = np.where(unseen, self.curvature_at(x, f), found)
        self._learn(x, np.nan_to_num(g), np.full(g.shape, np.nan), rows)
        fine = np.isfinite(g)
        error = self._error(x, f, used, used > 0)
        return self.backend.own(g), self.backend.own(error), self.mask(fine.all(axis=-1))

    def is_smooth(self, x: Array, f: Scalar, rows: Mask) -> Mask:
        """Return where f bends nine times as much over three times the way; at a kink it is three times.

        Where it bends by far less than |f″| says, that is forgotten.
        """
        backend, only, value = self.backend, self._only(rows), self.evaluator.value_at
        ahead, back = self.intervals(x, f, True)
        u = np.where(back > 0, ahead, 0.0) * np.random.default_rng(0).choice([-1.0, 1.0], ahead.shape[-1])
        # along a variable at a bound, the values are taken inside the box
        held = (back == 0) & (ahead != 0) & self.space.contains(to_numpy(x) + 6 * ahead)
        if held.any():
            u, x = np.where(held, ahead, u), x + adopt(x, np.where(held, 3 * ahead, 0.0))
            f = value(x, only)
        second: list[Any] = []
        for way in (u, 3 * u):
            ends = [self.space.project(x + adopt(x, sign * way)) for sign in (1.0, -1.0)]
            second.append(value(ends[0], only) + value(ends[1], only) - 2 * f)
        least = tuning.RESOLVED * self.noise.eps_f(f)
        known = backend.scalar((9 * u * u * self.curvature_at(x, f)).sum(axis=-1))
        bends = second[1] >= STRAIGHT * known - least
        forgotten = self._column(backend.and_not(rows, bends))
        self.state.curvature = np.where(forgotten, np.nan, self.state.curvature)
        return rows & (9 * second[0] <= tuning.SMOOTH * second[1] + 9 * least) & bends

    def mask(self, rows: Any) -> Mask:
        """Return what NumPy says of rows as a mask: of a single run, as a bool."""
        return bool(rows) if self.backend.size is None else rows
