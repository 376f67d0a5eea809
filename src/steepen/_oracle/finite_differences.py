"""Gradients made of values: forward, central and complex-step differences.

A forward difference over h is wrong by ½h|f″| + 2ε_f/h, ε_f being the error of a value. That is least, and
2√(ε_f|f″|), over h = 2√(ε_f/|f″|) (Gill, Murray, Saunders and Wright 1983; Moré and Wild 2012). |f″| along
each variable comes from the metric that a method has learnt, for nothing, and from second differences where
differences are central: those are wrong by ε_f/h and by the third derivative, which is taken to be |f″| over
the size of the variable. Until |f″| is known, and with fixed intervals, they are SciPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import Array, Mask, Scalar, adopt, is_numpy, to_numpy
from . import tuning
from .calls import Calling, Only
from .differences import Differences, can_widen, taken, widened
from .ledger import Cost, OutOfTime
from .noise import COARSEST, FDState, Flags, Floats, NoiseModel, size_of

ODD = 1.1
"""Differences in float64 for a float32 run go this part further: to points that float32 cannot hold."""

STRAIGHT = 0.01
"""Where f bends by less than this part of what |f″| says, that was wrong."""

TESTS = 8.0
"""A central difference is at least this many times as long as the best forward one: then it resolves f″, and
one that was learnt elsewhere and is far too large shows."""

BEYOND = 1e3
"""Over a difference that changes f by this many times |f| there is no slope to be seen."""

RUNGS = 3
"""How often a second difference that is not resolved is taken again."""


class FiniteDifferences:
    """Gradients by one of SciPy's schemes; `adaptive` ones have intervals that follow noise and curvature."""

    def __init__(self, calls: Calling, scheme: str, how: Differences, adaptive: bool):
        self._calls, self._value, self._scheme, self._how = calls, calls.value_at, scheme, how
        self._kit, self._space, self._ledger, self.eps = calls.kit, calls.space, calls.ledger, calls.eps
        x0 = calls.like
        double = self.eps <= np.finfo(np.float64).eps
        self.adaptive = adaptive and scheme == "2-point" and double and not how.asked
        self.searches_quantum = scheme != "cs" and double
        # of a float32 run: whether its differences are taken in float64; None: not known yet
        self.wide: bool | None = None if scheme != "cs" and can_widen(x0) else False
        # a variable that bounds fix is asked for no derivative
        self.free: list[int] = np.flatnonzero(~to_numpy(self._space.fixed(x0))).tolist()
        self.state = FDState.start(tuple(x0.shape))
        self.noise = NoiseModel(calls, self.state)
        self._column: Callable[[Any], Any] = _plain if self._kit.size is None else _as_column

    @property
    def known(self) -> Mask:
        """Where |f″| is known along every variable."""
        known = np.isfinite(self.state.curvature[..., self.free]).all(axis=-1)
        return bool(known) if self._kit.size is None else known

    @property
    def cost(self) -> Any:
        """How many values a gradient takes beyond f itself."""
        n, state = len(self.free), self.state
        if not self.adaptive:
            # the first time, two values tell whether there is float64, and f is evaluated there
            return n * (2 if self._scheme == "3-point" else 1) + (3 if self.wide is None else 0)
        survey = self._kit.without(state.central, self.known)
        return n + n * (state.central + 2 * (RUNGS + 1) * survey)

    @property
    def cost_survey(self) -> Cost:
        """What a survey costs beyond a gradient by forward differences."""
        return Cost(2 * (RUNGS + 1) * len(self.free))

    # --- intervals -----------------------------------------------------------------------------------

    def intervals(self, x: Array, f: Scalar, central: Mask) -> tuple[Floats, Floats]:
        """Return how far differences go ahead and back from x; only central ones go back."""
        point, state, column = to_numpy(x), self.state, self._column
        if not self.adaptive:
            return self._fixed_intervals(point)
        root, eps_f = np.sqrt(state.curvature), self.noise.eps_f(f)
        usual: Floats = np.sqrt(self._part(f)) * np.maximum(np.abs(point), 1.0)
        size, ideal = self._sizes(point, f, root), 2 * np.sqrt(column(eps_f)) / root
        best: Floats = np.clip(ideal, usual * np.minimum(size, 1.0) / tuning.RANGE, usual * tuning.RANGE)
        h: Floats = np.where(np.isfinite(best), best, usual)
        both: Floats = np.maximum(TESTS * h, h ** (2 / 3) * size ** (1 / 3)) if self._kit.any(central) else h
        return self._fitted(point, both, h, column(central))

    def _sizes(self, point: NDArray[Any], f: Scalar, root: Floats) -> Floats:
        """Return the sizes of the variables: a small one has that over which f bends by its own size."""
        own = np.sqrt(self._column(abs(f) + self.state.conditioning)) / root
        most = size_of(point)
        return np.fmin(most, np.maximum(np.abs(point), np.where(own > 0, own, most)))

    def _fixed_intervals(self, point: NDArray[Any]) -> tuple[Floats, Floats]:
        scheme, eps = self._scheme, float(np.finfo(point.dtype).eps)
        odd = ODD if eps < self.eps and not self._how.asked else 1.0
        eps = self._column(self._kit.num.maximum(eps, self.state.resolution))
        h = odd * self._how.intervals(scheme, point, eps)
        if scheme == "cs":  # a fixed variable has no interval
            free = np.isin(np.arange(h.shape[-1]), self.free)
            return np.where(free, h, 0.0), 0 * h
        near = h if scheme == "2-point" else odd * self._how.intervals("2-point", point, eps)
        ahead, back = self._space.differences(point, h, near, scheme == "3-point")
        return taken(point, ahead), -taken(point, -back)

    def _fitted(self, point: NDArray[Any], h: Floats, near: Floats, both: Any) -> tuple[Floats, Floats]:
        """Return how far to go ahead and back for these lengths, as the box lets us."""
        ahead, back = self._space.differences(point, h, np.where(point < 0, -near, near), both)
        return taken(point, ahead), -taken(point, -back)

    # --- gradients -----------------------------------------------------------------------------------

    def gradient(self, x: Array, f: Scalar, only: Only) -> tuple[Array, Floats | None]:
        """Return ∇f at x, where f is known, and the error of each component; None where nobody knows."""
        if not self.adaptive:
            x = widened(x) if self.wide else x
            g, _, _ = self._quotients(x, f, only, *self._fixed_intervals(to_numpy(x)))
            return self._kit.own(g), None
        rows = True if only is None else only
        unknown = self._kit.without(self.state.central, self.known) & rows
        if self._kit.any(unknown):
            self.survey(x, f, unknown)
        return self._by_intervals(x, f, rows)

    def _by_intervals(self, x: Array, f: Scalar, rows: Mask) -> tuple[Array, Floats]:
        ahead, back = self.intervals(x, f, self.state.central)
        g, curvature, two = self._quotients(x, f, self._only(rows), ahead, back)
        self._learn(x, g, curvature, rows)
        return self._kit.own(g), self._error(x, f, ahead, two)

    def _error(self, x: Array, f: Scalar, ahead: Floats, two: Flags) -> Floats:
        """Return how far each difference over these lengths may be wrong; 0 where there is none."""
        h: Floats = np.where(ahead == 0, np.inf, np.abs(ahead))
        ε, known = self._column(self.noise.eps_f(f)), self.state.curvature
        curvature: Floats = np.where(np.isfinite(known), known, 4 * ε / (h * h))  # as if h were the best
        one: Floats = 2 * ε / h + 0.5 * h * curvature
        if not two.any():
            return np.where(ahead == 0, 0.0, one)
        size = self._sizes(to_numpy(x), f, np.sqrt(self.state.curvature))
        return np.where(ahead == 0, 0.0, np.where(two, ε / h + h * h * curvature / (6 * size), one))

    def error_of(self, x: Array, f: Scalar, central: Mask) -> Floats:
        """Return the error that a gradient at x would have."""
        ahead, back = self.intervals(x, f, central)
        return self._error(x, f, ahead, back > 0)

    def _learn(self, x: Array, g: Floats, curvature: Floats, rows: Mask) -> None:
        """Keep what a gradient has shown."""
        state, kit = self.state, self._kit
        if not np.isnan(curvature).all():
            seen = np.isfinite(curvature) & (curvature > 0) & self._column(rows)
            state.curvature = np.where(seen, curvature, state.curvature)
        slopes = np.abs(g * to_numpy(x)).sum(axis=-1)
        state.conditioning = kit.pick(rows & np.isfinite(slopes), kit.scalar(slopes), state.conditioning)

    def set_curvature(self, curvature: Array, rows: Mask) -> None:
        """Take |f″| along each variable from a metric, unless second differences show it."""
        rows = self._kit.without(rows, self.state.central)
        if self._kit.any(rows):
            self.state.curvature = np.where(self._column(rows), to_numpy(curvature), self.state.curvature)

    def _quotients(
        self, x: Array, f: Scalar, only: Only, ahead: Floats, back: Floats
    ) -> tuple[Floats, Floats, Flags]:
        """Return the quotients (0 for fixed variables), |f″| where it shows, and where there are two sides.

        Where f is not finite on one side, adaptive differences take the other one.
        """
        moves, two, h = ahead != 0, back > 0, np.where(ahead == 0, 1.0, ahead)
        unknown = np.full(ahead.shape, np.nan)
        if not self.adaptive:
            if self._scheme == "3-point":
                up, down = self._beside(x, only, (ahead, moves), (-back, moves))
                return np.where(moves, (up - down) / (h + back), 0.0), unknown, two
            (up,) = self._beside(x, only, (1j * ahead if self._scheme == "cs" else ahead, moves))
            change = up if self._scheme == "cs" else up - self._column(f)
            return np.where(moves, change / h, 0.0), unknown, two
        here = self._column(f)
        up, down = self._beside(x, only, (ahead, moves), (-back, two))
        slope: Floats = (up - here) / h
        if not (np.isfinite(slope) | ~moves).all():
            lost = ~np.isfinite(up) & np.isfinite(here) & moves & ~two
            lost = lost & self._space.contains(to_numpy(x) - ahead)
            lost = lost & self._column(self._ledger.affords(Cost(len(self.free))))
            (other,) = self._beside(x, only, (-ahead, lost))
            down, back = np.where(lost, other, down), np.where(lost, h, back)
            behind: Floats = (here - down) / np.where(back == 0, 1.0, back)
            slope = np.where(np.isfinite(down) & ~np.isfinite(up), behind, slope)
        g: Floats = np.where(moves, slope, 0.0)
        two = two & np.isfinite(up) & np.isfinite(down)
        if not two.any():
            return g, unknown, two
        second = np.abs((up - here) - (here - down))
        least = tuning.RESOLVED * self._column(self.noise.eps_f(f))
        square = np.where(two, h * back, 1.0)
        # where f″ should have been resolved and was not, it is no more than this
        bound = np.where(square * self.state.curvature > least, least, np.nan)
        curvature = np.where(two, np.where(second > least, second, bound) / square, np.nan)
        return np.where(two, (up - down) / (h + back), g), curvature, two

    def _beside(self, x: Array, only: Only, *sides: tuple[Any, Flags]) -> list[Floats]:
        """Return f with each variable moved by itself, once for each of `sides`; NaN where not wanted."""
        found, calls = [np.full(way.shape, np.nan) for way, _ in sides], self._calls
        read = calls.imaginary if self._scheme == "cs" else calls.scalar
        if self._kit.size is None:
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
        return self._space.project(point)

    def has_float64(self, x: Array, only: Only) -> bool:
        """Find out whether `fun` computes in float64 if it is asked to.

        It may refuse such points, cast them to float32, or compute in float32 all the same. So a point that
        float32 cannot hold must have a value that float32 cannot hold, and not that of its neighbour.
        """
        wide = widened(x)
        point = wide + adopt(wide, self._fixed_intervals(to_numpy(wide))[0])
        try:
            f = np.asarray(self._value(point, only), dtype=np.float64)
            other = self._value(widened(self._kit.own(point)), only)
        except OutOfTime:
            raise
        except Exception:
            return False  # it was never said to take float64: any refusal will do
        with np.errstate(over="ignore"):
            longer = np.isfinite(f) & (f.astype(np.float32).astype(np.float64) != f)
        return bool(np.any(longer & (f != other)))

    def measured_error(self, x: Array, f: Scalar, g: Array, noise: Scalar, only: Only = None) -> Array:
        """Estimate the error of fixed differences: what another interval changes, and the error of f."""
        point = to_numpy(x)
        ahead, back = self._fixed_intervals(point)
        other = 0.5 * ahead  # always inside the box
        if self._scheme == "2-point":
            other = np.where(self._space.contains(point - ahead), -ahead, other)
        other = taken(point, other)
        other = np.where(other == 0, ahead, other)  # there is no float between: the blur below says enough
        again, _, _ = self._quotients(x, f, only, other, -taken(point, -0.5 * back))
        # the bias of a one-sided difference grows with its length, that of a central one with the square
        length = np.where(ahead == 0, 1.0, ahead)
        ratio = other / length
        part = np.abs(1 - np.where(back == 0, ratio, ratio**2))
        bias = np.abs(to_numpy(g) - again) / np.where(part == 0, 1.0, part)
        least = self._kit.num.maximum(self.eps * abs(f), self.state.resolution * self.noise.scale(f))
        least = self._column(self._kit.num.maximum(least, noise))
        return self._kit.own(bias + least / np.abs(length + back))

    # --- second derivatives --------------------------------------------------------------------------

    def survey(self, x: Array, f: Scalar, rows: Mask) -> tuple[Array, Floats, Mask]:
        """Find |f″| along each variable by central differences, which are made longer until they show it.

        Return the gradient that they make, its error, and where all of it is there, and f changes by no more
        than its size over them: beyond, there is f″ to be seen, and no slope.
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
        state.curvature = np.where(np.isnan(found) & column(rows), self.curvature(x, f), found)
        self._learn(x, np.nan_to_num(g), np.full(g.shape, np.nan), rows)
        fine = (np.isfinite(g) & (used * used * state.curvature <= BEYOND * column(abs(f)))).all(axis=-1)
        return self._kit.own(g), self._error(x, f, used, used > 0), bool(fine) if self._kit.size is None else fine

    def curvature(self, x: Array, f: Scalar) -> Floats:
        """Return |f″| along each variable; if unknown, that for which the usual intervals are best."""
        curvature = self.state.curvature
        if (known := np.isfinite(curvature)).all():
            return curvature
        scale = self._column(self.noise.scale(f))
        return np.where(known, curvature, 4 * scale / np.maximum(np.abs(to_numpy(x)), 1.0) ** 2)

    def is_smooth(self, x: Array, f: Scalar, rows: Mask) -> Mask:
        """Return where f bends as a smooth function does: over three times the way by nine times as much.

        At a kink it is three times as much. Where it bends by far less than |f″| says, that is forgotten.
        """
        kit, only, column = self._kit, self._only(rows), self._column
        ahead, back = self.intervals(x, f, True)
        u = np.where(back > 0, ahead, 0.0) * np.random.default_rng(0).choice([-1.0, 1.0], ahead.shape[-1])
        # a variable at a bound is looked at from inside the box
        held = (back == 0) & (ahead != 0) & self._space.contains(to_numpy(x) + 6 * ahead)
        if held.any():
            u, x = np.where(held, ahead, u), x + adopt(x, np.where(held, 3 * ahead, 0.0))
            f = self._value(x, only)
        second: list[Any] = []
        for way in (u, 3 * u):
            ends = [self._space.project(x + adopt(x, sign * way)) for sign in (1.0, -1.0)]
            second.append(self._value(ends[0], only) + self._value(ends[1], only) - 2 * f)
        least = tuning.RESOLVED * self.noise.eps_f(f)
        expected = kit.scalar((9 * u * u * self.curvature(x, f)).sum(axis=-1))
        bends = second[1] >= STRAIGHT * expected - least
        forgotten = column(kit.without(rows, bends))
        self.state.curvature = np.where(forgotten, np.nan, self.state.curvature)
        return rows & (9 * second[0] <= tuning.SMOOTH * second[1] + 9 * least) & bends

    # --- parts ---------------------------------------------------------------------------------------

    def _part(self, f: Scalar) -> Any:
        """Return the error of a value relative to it, as a column."""
        whole = self._column(abs(f) + self.state.conditioning)
        return np.clip(
            self._column(self.noise.eps_f(f)) / np.where(whole > 0, whole, 1.0), self.eps, COARSEST
        )

    def _only(self, rows: Mask) -> Only:
        return None if self._kit.size is None or rows is True else rows


def _plain(s: Any) -> Any:
    return s


def _as_column(s: Any) -> Any:
    return np.asarray(s)[..., None]
