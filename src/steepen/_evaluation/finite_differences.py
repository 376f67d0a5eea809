"""Gradients by SciPy's schemes, over SciPy's intervals: forward, central and complex-step differences."""

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
from .calls import Only, UserCalls
from .counter import Cost
from .noise import COST as NOISE_COST
from .noise import FDState, Flags, Floats, NoiseModel
from .source import GivenGradient

MAX_EVALUATIONS, FLOAT64 = int(Status.MAX_EVALUATIONS), float(np.finfo(np.float64).eps)

POWER = {"2-point": 1 / 2, "3-point": 1 / 3, "cs": 1 / 2}  # of ε, where truncation and rounding balance
COMPLEX = 1e-12  # a complex step is this part of a real one: it suffers no cancellation


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
        self.searches_quantum = scheme != "cs" and self.eps <= FLOAT64
        # a variable that bounds fix needs no derivative
        self.free: list[int] = np.flatnonzero(~to_numpy(self.space.fixed(x0))).tolist()
        self.noise = NoiseModel(evaluator, FDState.start(tuple(x0.shape)))
        self._column: Callable[[Any], Any] = lambda s: s
        if self.backend.size is not None:
            self._column = lambda s: np.asarray(s)[..., None]

    @property
    def exact(self) -> bool:
        return self.scheme == "cs"

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
        return self.backend.own(self._quotients(x, f, only, *self._intervals(to_numpy(x)))), None

    def _intervals(self, point: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return how far differences go ahead and back from x; only central ones go back."""
        scheme, eps = self.scheme, self._column(self.backend.num.maximum(self.eps, self.state.resolution))
        h = self._how.intervals(scheme, point, eps)
        if scheme == "cs":  # a fixed variable has no interval
            return np.where(to_numpy(self.space.fixed(point)), 0.0, h), 0 * h
        near = h if scheme == "2-point" else self._how.intervals("2-point", point, eps)
        ahead, back = self.space.differences(point, h, near, scheme == "3-point")
        return taken(point, ahead), -taken(point, -back)

    def _quotients(self, x: Array, f: Scalar, only: Only, ahead: Floats, back: Floats) -> Floats:
        """Return the quotients, 0 for fixed variables."""
        moves, h = ahead != 0, np.where(ahead == 0, 1.0, ahead)
        if self.scheme == "3-point":
            up, down = self._beside(x, only, (ahead, moves), (-back, moves))
            return np.where(moves, (up - down) / (h + back), 0.0)
        (up,) = self._beside(x, only, (1j * ahead if self.scheme == "cs" else ahead, moves))
        return np.where(moves, (up if self.scheme == "cs" else up - self._column(f)) / h, 0.0)

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
        again = self._quotients(x, f, self._only(rows), other, -taken(point, -0.5 * back))
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


def taken(point: NDArray[Any], h: Any) -> NDArray[np.float64]:
    """Return the differences that are really taken, in the precision of the point."""
    return ((point + np.asarray(h, dtype=point.dtype)) - point).astype(np.float64)
