"""Gradients made of values, over SciPy's intervals or ones adapted to f; for the evaluator; may use workers.

A forward difference over h is wrong by ½h|f″| + 2ε_f/h, ε_f being the error of a value. That is least over
h = 2√(ε_f/|f″|) (Gill, Murray, Saunders and Wright 1983; Moré and Wild 2012). |f″| along each variable comes
from the metric that a method has learnt, and from second differences where differences are central: those are
wrong by ε_f/h and by the third derivative, estimated as |f″| over the size of the variable. Until |f″| is
known, intervals are SciPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import Array, Mask, MaybeArray, Scalar, Whole, adopt, is_numpy, to_numpy
from .._core.state import RUNNING, SolverState
from .._core.status import BY_VALUES, Status
from .._tools.workers import Map
from . import tuning
from .calls import Only, UserCalls
from .counter import Cost
from .noise import COARSEST, FDState, Flags, Floats, NoiseModel, mask_of, size_of
from .noise import COST as NOISE_COST
from .source import GivenGradient

MAX_EVALUATIONS, FLOAT64 = int(Status.MAX_EVALUATIONS), float(np.finfo(np.float64).eps)

POWER = {"2-point": 1 / 2, "3-point": 1 / 3, "cs": 1 / 2}  # of ε, where truncation and rounding balance
COMPLEX = 1e-12  # a complex step is this part of a real one: it suffers no cancellation
STRAIGHT = 0.01  # where f bends by less than this part of what |f″| says, that was wrong
TESTS = 8.0  # a central difference is this many times as long as the best forward one: it resolves f″
RUNGS = 3  # how often a second difference that is not resolved is taken again


@dataclass(frozen=True)
class Differences:
    """SciPy's options of a gradient that is made of differences."""

    eps: NDArray[np.float64] | None = None  # the absolute intervals, one or one per variable
    rel_step: NDArray[np.float64] | None = None  # the same relative to |x|
    workers: Map | None = None  # evaluates f at the points of one gradient, perhaps at the same time

    @property
    def asked(self) -> bool:
        """Whether the user has chosen the intervals."""
        return self.eps is not None or self.rel_step is not None

    def intervals(self, scheme: str, x: NDArray[Any], eps: Any) -> NDArray[Any]:
        """Return SciPy's intervals at x; one that leaves x where it is gets the usual size."""
        away = np.where(x < 0, -1.0, 1.0)
        usual = eps ** POWER[scheme] * np.maximum(np.abs(x), 1.0) * away
        if scheme == "cs":
            usual *= COMPLEX
        if self.eps is not None:
            asked = self.eps + 0.0 * x
        elif self.rel_step is not None:
            asked = self.rel_step * np.abs(x) * away
        else:
            return usual
        return np.where(asked == 0 if scheme == "cs" else x + asked == x, usual, asked)


class DifferenceGradient(GivenGradient):
    """Differences over intervals that are chosen once, by SciPy's rule or by the user."""

    def __init__(self, evaluator: UserCalls, gtol: Any, scheme: str, how: Differences):
        super().__init__(evaluator, gtol)
        self.scheme, self.eps, self._how, x0 = scheme, evaluator.eps, how, evaluator.like
        self.exact = scheme == "cs"
        self.searches_quantum = not self.exact and self.eps <= FLOAT64
        # a variable that bounds fix needs no derivative
        self.free: list[int] = np.flatnonzero(~to_numpy(self.space.fixed(x0))).tolist()
        self.noise = NoiseModel(evaluator, FDState.start(tuple(x0.shape)))
        self._column: Callable[[Any], Any] = lambda s: s
        if self.backend.size is not None:
            self._column = lambda s: np.asarray(s)[..., None]

    @property
    def gradient_eps(self) -> Scalar:
        if self.exact:
            return self.eps
        return self.backend.num.maximum(self.eps, self.state.resolution) ** (2 / 3)

    @property
    def coarse(self) -> Mask:
        return (not self.exact) & ((self.eps > FLOAT64) | (self.state.resolution > 0))

    @property
    def cost_error(self) -> Cost:
        return Cost(self.cost)

    @property
    def state(self) -> FDState:
        """What is known of f."""
        return self.noise.state

    @property
    def cost(self) -> Any:
        """How many values a gradient takes beyond f itself."""
        return len(self.free) * (2 if self.scheme == "3-point" else 1)

    def difference(self, x: Array, f: Scalar, only: Only) -> tuple[Array, MaybeArray]:
        """Return ∇f at x, where f is known, and the error of each component; None where it is unknown."""
        return self.backend.own(self._quotients(x, f, only, *self._intervals(to_numpy(x)))[0]), None

    def _intervals(self, point: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return how far differences go ahead and back from x; only central ones go back."""
        scheme, eps = self.scheme, self._column(self.backend.num.maximum(self.eps, self.state.resolution))
        h = self._how.intervals(scheme, point, eps)
        if scheme == "cs":  # a fixed variable has no interval
            return np.where(to_numpy(self.space.fixed(point)), 0.0, h), 0 * h
        near = h if scheme == "2-point" else self._how.intervals("2-point", point, eps)
        return self._fitted(point, h, near, scheme == "3-point")

    def _fitted(self, point: NDArray[Any], h: Any, near: Any, both: Any) -> tuple[Floats, Floats]:
        """Return how far to go ahead and back for these lengths, as the box lets us."""
        ahead, back = self.space.differences(point, h, near, both)
        return taken(point, ahead), -taken(point, -back)

    def _quotients(
        self, x: Array, f: Scalar, only: Only, ahead: Floats, back: Floats
    ) -> tuple[Floats, Floats]:
        """Return the quotients (0 for fixed variables), and the second differences of the central ones."""
        moves, h, unknown = ahead != 0, np.where(ahead == 0, 1.0, ahead), np.full(ahead.shape, np.nan)
        if self.scheme == "cs":
            (up,) = self._beside(x, only, (1j * ahead, moves))
            return np.where(moves, up / h, 0.0), unknown
        if self.scheme == "3-point":  # f itself is not known
            up, down = self._beside(x, only, (ahead, moves), (-back, moves))
            return np.where(moves, (up - down) / (h + back), 0.0), unknown
        two, here = back > 0, self._column(f)
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
        two = two & np.isfinite(up) & np.isfinite(down)
        slope = np.where(two, (up - down) / (h + back), slope)
        return np.where(moves, slope, 0.0), np.where(two, (up - here) - (here - down), np.nan)

    def _beside(self, x: Array, only: Only, *sides: tuple[Any, Flags]) -> list[Floats]:
        """Return f with each variable moved by itself, once for each of `sides`; NaN where not wanted."""
        found, calls = [np.full(way.shape, np.nan) for way, _ in sides], self.evaluator
        read = calls.imaginary if self.scheme == "cs" else calls.scalar
        if self.backend.size is None:
            which = [(k, i) for i in self.free for k, (_, wanted) in enumerate(sides) if wanted[i]]
            points = (self._shifted(x, i, sides[k][0][i]) for k, i in which)
            values = calls.values(points, len(which), read, self._how.workers) if which else ()
            for (k, i), value in zip(which, values, strict=True):
                found[k][i] = value
            return found
        for i in self.free:
            for part, (way, wanted) in zip(found, sides, strict=True):
                mask = wanted[:, i] if only is None else wanted[:, i] & only
                if mask.any():
                    value = calls.value_at(self._shifted(x, i, way[:, i]), mask, read)
                    part[:, i] = np.where(mask, value, np.nan)
        return found

    def _shifted(self, x: Array, i: int, h: Any) -> Array:
        """Return x with one variable moved, by a complex number or within the bounds."""
        if np.iscomplexobj(h):
            point = to_numpy(x).astype(np.complex128)
            point[..., i] += h
            return point
        if is_numpy(x):
            point = x.copy(order="K")
            point[..., i] += h
        else:
            unit = np.zeros(x.shape[-1])
            unit[i] = 1.0
            point = x + adopt(x, np.asarray(h)[..., None] * unit)
        return self.space.project(point)

    def error(self, x: Array, f: Scalar, g: Array, noise: Scalar, rows: Mask) -> Array:
        """Estimate the error of g by what another interval changes, and by the error of f."""
        point, maximum = to_numpy(x), self.backend.num.maximum
        ahead, back = self._intervals(point)
        other = 0.5 * ahead  # always inside the box
        if self.scheme == "2-point":
            other = np.where(self.space.contains(point - ahead), -ahead, other)
        other = taken(point, other)
        other = np.where(other == 0, ahead, other)  # there is no float between: the blur below says enough
        again, _ = self._quotients(x, f, self._only(rows), other, -taken(point, -0.5 * back))
        # the bias of a one-sided difference grows with its length, that of a central one with the square
        length = np.where(ahead == 0, 1.0, ahead)
        ratio = other / length
        part = np.abs(1 - np.where(back == 0, ratio, ratio**2))
        bias = np.abs(to_numpy(g) - again) / np.where(part == 0, 1.0, part)
        least = maximum(maximum(self.eps * abs(f), self.state.resolution * self.noise.scale(f)), noise)
        return self.backend.own(bias + self._column(least) / np.abs(length + back))

    def reported(self, g: Array) -> Array:
        # as in SciPy, NaN where a fixed variable had no difference
        return self.backend.xp.where(self.space.fixed(g), g * float("nan"), g)

    def sentence(self, status: Status) -> str:
        return BY_VALUES if status is Status.LINE_SEARCH_FAILED else status.sentence

    def recheck(self, c: SolverState) -> Whole:
        """Where ‖∇f‖ ≤ gtol and a difference is exactly 0, look for quantised values; if so, repeat ∇f."""
        backend, point, code = self.backend, c.point, RUNNING
        if not self.searches_quantum:
            return code
        flat = backend.some((point.g == 0) & ~self.space.fixed(point.x))
        flat = flat & (point.gnorm <= self.gtol) & (c.status == RUNNING)
        if backend.any(flat):
            rows = flat & self._affords(NOISE_COST)
            code = backend.select(backend.and_not(flat, rows), MAX_EVALUATIONS, RUNNING)
            if backend.any(rows):
                rows = self.noise.estimate(point.x, point.f, rows, self.gtol, flat=True)
            if backend.any(rows):
                g, error = self.evaluator.grad_and_error(point.x, self._only(rows))
                point.g = backend.where(rows, g, point.g)
                point.error = None if point.error is None else backend.where(rows, error, point.error)
                point.size = backend.norm(point.g)
                point.gnorm = self.space.residual(point.x, point.g, point.size)
        return code

    def _only(self, rows: Mask) -> Any:
        return None if self.backend.size is None or rows is True else rows

    def _affords(self, more: Cost = Cost()) -> Mask:  # noqa: B008  it is immutable
        """Return where the budget covers another gradient and this cost."""
        return self.evaluator.counter.affords(self.evaluator.cost_grad.plus(more))


class AdaptiveDifferences(DifferenceGradient):
    """Forward or central differences, over the intervals that are best for what is known of f."""

    @property
    def known(self) -> Mask:
        """Where |f″| is known along every variable."""
        return mask_of(self.backend, np.isfinite(self.state.curvature[..., self.free]).all(axis=-1))

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
        both: Floats = np.maximum(TESTS * h, h ** (2 / 3) * size ** (1 / 3))
        return self._fitted(point, both, np.where(point < 0, -h, h), column(central))

    def _sizes(self, point: NDArray[Any], f: Scalar, root: Floats) -> Floats:
        """Return the sizes of the variables: a small one has that over which f bends by its own size."""
        own, most = np.sqrt(self._column(abs(f) + self.state.conditioning)) / root, size_of(point)
        return np.fmin(most, np.maximum(np.abs(point), np.where(own > 0, own, most)))

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
        g, second = self._quotients(x, f, only, ahead, back)
        square = np.where(back > 0, ahead * back, 1.0)
        least = tuning.RESOLVED * self._column(self.noise.eps_f(f))
        # where f″ should have been resolved and was not, it is no more than this
        bound = np.where(square * state.curvature > least, least, np.nan)
        two, second = ~np.isnan(second), np.abs(second)
        curvature = np.where(two, np.where(second > least, second, bound) / square, np.nan)
        self._learn(x, g, curvature, rows)
        return self.backend.own(g), self.backend.own(self._error(x, f, ahead, two))

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
        shown = rows & np.isfinite(slopes)
        state.conditioning = backend.select(shown, backend.scalar(slopes), state.conditioning)

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
        g, used, open = np.where(asked, np.nan, 0.0), np.zeros_like(found), asked
        for longer in tuning.LONGER ** np.arange(1.0 + RUNGS):
            h = np.minimum(longer * part * size, most)
            ahead, h = self._fitted(point, h, np.where(point < 0, -h, h), True)
            open = open & (h > used)  # a narrow box leaves no room for longer ones, or for any
            if not open.any():
                break
            up, down = self._beside(x, self._only(rows), (ahead, open), (-h, open))
            second, square = np.abs(up + down - 2 * column(f)), np.where(open, h * h, 1.0)
            g, used = np.where(open, (up - down) / (2 * h), g), np.where(open, h, used)
            open = open & ~(second > least)
            # where f″ does not show over the longest difference, it is no more than this
            found = np.where(np.isfinite(second), np.maximum(second, least) / square, found)
        # one-sided values show slopes only, and with few digits not even these
        unseen = np.isnan(found) & column(rows & (state.resolution == 0))
        state.curvature = np.where(unseen, self.curvature_at(x, f), found)
        self._learn(x, np.nan_to_num(g), np.full(g.shape, np.nan), rows)
        error, fine = self._error(x, f, used, used > 0), np.isfinite(g).all(axis=-1)
        return self.backend.own(g), self.backend.own(error), mask_of(self.backend, fine)

    def is_smooth(self, x: Array, f: Scalar, rows: Mask) -> Mask:
        """Return where f bends nine times as much over three times the way; at a kink it is three times."""
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
        return rows & (9 * second[0] <= tuning.SMOOTH * second[1] + 9 * least) & bends


def taken(point: NDArray[Any], h: Any) -> NDArray[np.float64]:
    """Return the differences that are really taken, in the precision of the point."""
    return ((point + np.asarray(h, dtype=point.dtype)) - point).astype(np.float64)
