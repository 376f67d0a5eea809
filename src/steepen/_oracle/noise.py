"""The error of a value of f: rounding, noise, or the resolution of quantised values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import Array, Mask, Scalar, Whole, adopt, to_numpy
from . import tuning
from .calls import Calling
from .ecnoise import SHORTER, Flags, Floats, measure

COARSEST = 0.02
"""f is never taken to be quantised more coarsely, relative to its size."""

NEAR = 0.1
"""With a given gradient, noise is looked for at this part of the step in doubt."""


@dataclass(slots=True)
class FDState:
    """What differences know of f: all that they hand from one gradient to the next.

    Attributes
    ----------
    noise : the standard deviation of a value beyond rounding, by ECnoise
    f_scale : |f| where that was measured
    resolution : the least difference between two values, relative to |f|; 0 where f is not quantised
    conditioning : Σ|xᵢ·∂ᵢf|: what the rounding of x does to f, in units of ε
    curvature : |f″| along each variable; NaN is unknown
    central : where gradients are made of central differences
    """

    noise: Scalar
    f_scale: Scalar
    resolution: Scalar
    conditioning: Scalar
    curvature: Array
    central: Mask

    @property
    def sound(self) -> bool:
        """Whether these are finite and positive, as far as they are known."""
        sizes = (self.noise, self.f_scale, self.conditioning, self.resolution)
        curvature: Any = self.curvature
        unsound = np.any((curvature <= 0) | (curvature == np.inf)) or np.any(self.resolution > COARSEST)
        return not unsound and all(np.all((size >= 0) & (size < np.inf)) for size in sizes)

    @staticmethod
    def start(shape: tuple[int, ...]) -> FDState:
        """Return what is known at first: nothing."""
        none: Any = np.zeros(shape[:-1]) if len(shape) > 1 else 0.0
        return FDState(none, none, none, none, np.full(shape, np.nan), none > 0)


class NoiseModel:
    """The error ε_f of a value of f, as far as values have shown it."""

    def __init__(self, calls: Calling, state: FDState):
        self._kit, self._space, self._value = calls.kit, calls.space, calls.value_at
        self.eps, self.state = calls.eps, state

    def rounding(self, f: Scalar) -> Scalar:
        """Return by how much the rounding of f and of x may change a value."""
        return self.eps * (abs(f) + self.state.conditioning)

    def eps_f(self, f: Scalar) -> Scalar:
        """Return by how much a value of f may be wrong."""
        state, maximum = self.state, self._kit.num.maximum
        return maximum(self.rounding(f), maximum(state.resolution * self.scale(f), state.noise))

    def noisy(self, f: Scalar) -> Mask:
        """Return where values are wrong by far more than rounding explains."""
        return self.eps_f(f) > tuning.NOISY * self.rounding(f)

    def changed(self, f: Scalar) -> Mask:
        """Return where noise was measured at values that were far from this one."""
        size, then = abs(f), self.state.f_scale
        return (self.state.noise > 0) & ((tuning.CHANGED * size < then) | (size > tuning.CHANGED * then))

    def scale(self, f: Scalar) -> Scalar:
        """Return what the resolution of f is relative to."""
        return self._kit.pick(f == 0, 1.0, abs(f))

    def estimate(
        self, x: Array, f: Scalar, rows: Mask, intervals: Any = None, *, anew: bool = True, gtol: float = 0.0, flat: bool = False
    ) -> Mask:
        """Measure the error of a value near x, and return where it is more than it was taken to be.

        The line is so short that f is straight there, unless the intervals of differences are given: noise
        may be too slow to show on a line shorter than a part of them. Only what is more than before is
        believed unless it is measured `anew`.
        """
        kit, state, point, here = self._kit, self.state, to_numpy(x), np.asarray(f)
        length = tuning.LINE * size_of(point) if intervals is None else np.abs(intervals[0]) / 30
        u = self._line(point, length)
        asked = np.broadcast_to(rows, here.shape) & u.any(axis=-1)
        if not asked.any():
            return kit.without(rows, rows)
        part = np.abs(point / np.where(u == 0, np.inf, u)).max(axis=-1)

        def values(t: float, rows: Flags) -> Floats:
            there = self._space.project(x + adopt(x, np.asarray(t)[..., None] * u))
            return np.asarray(self._value(there, None if kit.size is None else rows))

        def rounding(changes: Floats) -> Floats:
            steps = np.abs(np.diff(changes, axis=0)).max(axis=0)
            return self.eps * (np.abs(here) + np.abs(changes).max(axis=0) + part * steps)

        before, (noise, quantum) = (
            self.eps_f(f),
            measure(
                values,
                here,
                asked,
                rounding,
                gtol * np.sqrt((u * u).sum(axis=-1)),
                part=self._shorter(point, u), flat=flat,
                reach=(np.maximum(np.abs(point), 1.0) / np.where(u == 0, np.inf, np.abs(u))).max(axis=-1),
            ),
        )
        resolution = np.minimum(quantum / np.asarray(self.scale(f)), COARSEST)
        noise = np.where(asked, noise, state.noise)
        resolution = np.where(asked & (quantum > 0), resolution, state.resolution)
        level = np.maximum(noise, resolution * np.asarray(self.scale(f)))
        louder = asked & (level > tuning.CHANGED * np.asarray(before))
        taken = asked if anew else louder
        state.noise = kit.scalar(np.where(taken, noise, state.noise))
        state.f_scale = kit.scalar(np.where(taken, np.abs(here), state.f_scale))
        state.resolution = kit.scalar(np.where(taken, resolution, state.resolution))
        # what a gradient that was made without knowing has shown
        state.conditioning = kit.scalar(np.where(taken & (quantum > 0), 0.0, state.conditioning))
        return bool(louder) if kit.size is None else louder

    def _shorter(self, point: NDArray[Any], u: Floats) -> Floats:
        """Return the part of a line on which noise has to persist: not below the shortest line."""
        least = (2 * tuning.LINE * size_of(point) / np.where(u == 0, np.inf, np.abs(u))).max(axis=-1)
        return np.clip(least, SHORTER, 1.0)

    def _line(self, point: NDArray[Any], length: Floats) -> Floats:
        """Return a step along a line from x into the box, 0 where there is no room."""
        rng: Any = np.random.default_rng(0)
        ahead: Floats = length * rng.uniform(1, 2, point.shape[-1])
        inside: Any = self._space.contains(point + 6 * ahead)
        turned: Floats = np.where(inside, ahead, -ahead)
        room: Any = self._space.contains(point + 6 * turned)
        return np.where(room, turned, 0.0)


def size_of(x: NDArray[Any]) -> Floats:
    """Return the sizes of the variables, as scales."""
    return np.maximum(np.abs(x), tuning.SIZE)


class _Looks(NamedTuple):
    turn: Whole
    found: Scalar
    open: Mask


def noise_of(context: Any, x: Array, f: Scalar, g: Array, way: Array, mask: Mask) -> Scalar:
    """Return what values near x differ by beyond what a given gradient explains; 0 outside the mask.

    Two values are taken, one ahead on the way of a step, one half as far behind (half as far ahead where
    bounds leave no room), and the smaller difference counts. A kink or a jump shows on one side only; noise
    shows on both.
    """
    kit, oracle = context.kit, context.oracle
    none = 0.0 * f
    mask = mask & context.affords(oracle.cost_value.plus(oracle.cost_value))
    if not kit.any(mask) or context.late():
        return none
    ahead = NEAR * way

    def look(s: _Looks) -> _Looks:
        point = context.space.project(x + (1.0 - 1.5 * s.turn) * ahead)
        point = kit.where(kit.same(point, x), context.space.project(x + 0.5 * ahead), point)
        value = oracle.value(point, mask)
        found = kit.num.minimum(s.found, abs(value - f - kit.dot(g, point - x)))
        return _Looks(s.turn + 1, found, s.open)

    found = kit.repeat(look, _Looks(0, none + np.inf, mask), 2).found
    return kit.pick(mask & (found < np.inf), found, none)
