"""The error of a value of f: its noise by ECnoise (Moré and Wild 2011), or its resolution where f is quantised.

Seven values on a short line make a table of differences. The k-th differences of noise with standard
deviation σ have mean square σ²·(2k)!/(k!)², those of a smooth function vanish: where three columns in a row
agree, there is noise, and they tell its level. Here two of the values screen for noise first, since most
functions have none. A kink fills the columns as noise does (79 of 100 do). But its second differences have
one sign, and all but two of them vanish; of noise with seven values one in a thousand looks so. And noise
must persist on a line a hundredth as long, on which a kink shrinks, unless the line is the shortest anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import Array, Mask, Scalar, Whole, adopt, to_numpy
from . import tuning
from .calls import Calling
from .ledger import Cost

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Values: TypeAlias = Callable[[Any, Flags], Floats]
"""(t, rows) ↦ f(x + t·u) for these rows of a batch, u being a step of the line."""

COUNT, DISTINCT, AGREE, VANISHES = 7, 4, 4.0, 0.05
"""Of Moré and Wild: seven values, columns that agree within a factor of 4. Fewer than four distinct values
are those of a quantised f. A second difference vanishes within this part of the largest."""

SHORTER, PERSISTS = 0.01, 0.1
"""The length of the shorter line; second differences there of less than a tenth of σ are chance once in a
thousand times."""

SHARES = [factorial(k) ** 2 / factorial(2 * k) for k in range(1, COUNT)]

COARSEST = 0.02
"""f is never taken to be quantised more coarsely, relative to its size."""

RUNGS = 12
"""How often a line is made ten times as long where values stay equal."""

COST = Cost(2 + RUNGS + 3)
"""What a measurement costs at most."""

NEAR = 0.1
"""With a given gradient, noise is looked for at this part of the step in doubt."""


class Measured(NamedTuple):
    """The standard deviation of a value, and the least difference between two; 0 where there is none."""

    noise: Floats
    quantum: Floats


def ecnoise(values: Floats) -> Floats:
    """Return the noise level that equally spaced values show, 0 where their differences do not level off.

    Examples
    --------
    >>> values = np.random.default_rng(0).normal(size=7) + 5 * np.arange(7)
    >>> bool(0.3 < ecnoise(values) < 2), float(ecnoise(np.arange(7.0) ** 3))
    (True, 0.0)
    """
    sigma, turns, column = [], [], values
    for share in SHARES:
        column = np.diff(column, axis=0)
        sigma.append(np.sqrt(share * (column * column).sum(axis=0) / len(column)))
        turns.append((column.min(axis=0) < 0) & (column.max(axis=0) > 0))
    level = np.zeros(values.shape[1:])
    for k in reversed(range(COUNT - 3)):
        three = np.array(sigma[k : k + 3])
        level = np.where((three.max(axis=0) <= AGREE * three.min(axis=0)) & turns[k], sigma[k], level)
    return level


def measure(
    values: Values, f: Floats, rows: Flags, rounding: Callable[[Floats], Floats], slope: Floats, part: Floats,
    reach: Floats,
) -> Measured:  # fmt: skip
    """Return what is wrong with values of f on a line, in these rows.

    `rounding` returns what explains such changes; a change by `slope` a step is none to speak of. Noise must
    persist on a line that is `part` as long.
    """
    changes = [0.0 * f, *(values(t, rows) - f for t in (1.0, 2.0))]
    noise, quantum = 0.0 * f, 0.0 * f
    bent = np.abs(changes[2] - 2 * changes[1])
    loud = rows & np.isfinite(bent) & (bent > tuning.SCREEN * rounding(np.array(changes)))
    still = rows & (changes[1] == 0) & (changes[2] == 0)
    if loud.any():
        changes += [values(float(t), loud) - f for t in range(3, COUNT)]
        level, gaps = ecnoise(np.array(changes)), np.diff(np.sort(changes, axis=0), axis=0)
        few = loud & ((gaps > 0).sum(axis=0) + 1 < DISTINCT)
        quantum = np.where(few, np.where(gaps > 0, gaps, np.inf).min(axis=0), quantum)
        loud = loud & ~few & np.isfinite(level) & (level > tuning.LEVEL * rounding(np.array(changes)))
        noise = np.where(loud & ~is_kink(np.array(changes)), level, noise)
    asked = (noise > 0) & (part < 1)
    if asked.any():
        short = [0.0 * f, *(values(t * part, asked) - f for t in (1.0, 2.0, 3.0))]
        second = np.abs(np.diff(np.array(short), 2, axis=0)).max(axis=0)
        noise = np.where(asked & (second <= PERSISTS * noise), 0.0, noise)
    if still.any():
        quantum = np.where(still, find_quantum(values, f, still, rounding(np.array(changes[:3])), slope, reach), quantum)
    return Measured(noise, quantum)


def is_kink(values: Floats) -> Flags:
    """Return where values on a line are those of a kink: they bend to one side, or at one place.

    Examples
    --------
    >>> bool(is_kink(np.abs(np.arange(7) - 2.3))), bool(is_kink(np.array([1.0, 3, 2, 5, 1, 4, 2])))
    (True, False)
    """
    second = np.diff(values, 2, axis=0)
    size = np.sort(np.abs(second), axis=0)
    return (second.min(axis=0) >= 0) | (second.max(axis=0) <= 0) | (size[-3] <= VANISHES * size[-1])


def find_quantum(
    values: Values, f: Floats, rows: Flags, rounding: Floats, slope: Floats, reach: Floats
) -> Floats:
    """Return the least difference between values that are equal on a line, by lines ten times as long.

    The longest one has `reach` steps.

    Where f is smooth, and did not change over a tenth of the way, it changes by few roundings over the whole.
    """
    quantum, seeking = 0.0 * f, rows
    for power in range(1, RUNGS + 1):
        t = 10.0**power
        seeking = seeking & (t <= reach)
        if not seeking.any():
            break
        change = values(t, seeking) - f
        moved = seeking & (change != 0)
        jumped = moved & (np.abs(change) > np.maximum(tuning.JUMP * rounding, t * slope)) & np.isfinite(change)
        if jumped.any():
            between = [0.0 * f, change, *(values(part * t, jumped) - f for part in (0.25, 0.5, 0.75))]
            gaps = np.diff(np.sort(between, axis=0), axis=0)
            gaps = np.where((gaps > 0) & np.isfinite(gaps), gaps, np.inf)
            quantum = np.where(jumped, np.minimum(gaps.min(axis=0), np.abs(change)), quantum)
        seeking = seeking & ~moved
    return quantum


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
        self, x: Array, f: Scalar, rows: Mask, intervals: Any = None, *, anew: bool = True, gtol: float = 0.0
    ) -> Mask:
        """Measure the error of a value near x, and return where it is more than it was taken to be.

        The line is so short that f is straight there, unless the intervals of differences are given: noise
        may be too slow to show on a line shorter than a part of them. Only what is more than before is
        believed unless it is measured `anew`.
        """
        kit, state, point, here = self._kit, self.state, to_numpy(x), np.asarray(f)
        if intervals is None:
            length = tuning.LINE * size_of(point)
        else:
            length = np.abs(intervals[0]) / 30
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

        before, (noise, quantum) = self.eps_f(f), measure(
            values, here, asked, rounding, gtol * np.sqrt((u * u).sum(axis=-1)),
            part=self._shorter(point, u),
            reach=(np.maximum(np.abs(point), 1.0) / np.where(u == 0, np.inf, np.abs(u))).max(axis=-1),
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
        u = length * np.random.default_rng(0).uniform(1, 2, point.shape[-1])
        u = np.where(self._space.contains(point + 6 * u), u, -u)
        return np.where(self._space.contains(point + 6 * u), u, 0.0)


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
