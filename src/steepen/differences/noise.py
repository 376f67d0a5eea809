"""The error of a value of f (rounding, noise, quantisation), for gradients that are made of values.

Noise is measured by ECnoise (Moré and Wild 2011). Seven values on a short line make a table of differences.
The k-th differences of noise with standard deviation σ have mean square σ²·(2k)!/(k!)², those of a smooth
function vanish: where three columns in a row agree, there is noise, and they give its level. A kink fills the
columns as noise does (79 of 100 do). But its second differences have one sign, and all but two of them
vanish; of noise with seven values one in a hundred looks so.

Two values screen for noise before the other four are taken, since most functions have none: six values at
every start are a tenth of what small problems need.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..arrays import adopt, to_numpy
from ..questions import Asking, Values, Vector
from ..space import Space
from . import tuning

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]

COUNT, AGREE = 7, 4.0  # of Moré and Wild: seven values, columns that agree within a factor of 4
SHARES = [factorial(k) ** 2 / factorial(2 * k) for k in range(1, COUNT)]
VANISHES = 0.05  # a second difference vanishes within this part of the largest
WITHIN = 1e-3  # a change of f is a multiple of a step within this part of it
DISTINCT = 4  # fewer distinct values on a line are those of a quantised f
COARSEST = 0.02  # f is never taken to be quantised more coarsely, relative to its size
LENGTHS = 12  # how often a line is made ten times as long where values stay equal
MOST = 2 + LENGTHS + 3
"""A measurement takes at most so many values."""


@dataclass
class NoiseModel:
    """The error of a value of f, as far as values have shown it.

    Examples
    --------
    >>> model = NoiseModel(eps=2.0**-52, noise=1e-8)
    >>> model.eps_f(5.0), model.noisy(5.0), model.noisy(1e9)
    (1e-08, True, False)
    """

    eps: float
    """The precision of the run's numbers."""
    noise: float = 0.0
    """The standard deviation of a value beyond rounding, by ECnoise."""
    f_scale: float = 0.0
    """The size of f where that was measured; 0: nowhere."""
    resolution: float = 0.0
    """The least difference between two values, relative to |f|; 0: f is not quantised."""
    conditioning: float = 0.0
    """Σ|xᵢ·∂ᵢf|: what the rounding of x does to f, in units of ε."""
    jumps: bool = False
    """Whether f stood still on a short line and then jumped: it is quantised, or x is rounded."""

    close: bool = False
    """Whether noise has shown on a short line: on a longer one, a kink may look like it."""

    def rounding(self, f: float) -> float:
        """Return by how much the rounding of f and of x may change a value."""
        return self.eps * (abs(f) + self.conditioning)

    def eps_f(self, f: float) -> float:
        """Return by how much a value of f may be wrong."""
        return max(self.rounding(f), max(self.resolution * self.scale(f), self.noise))

    def noisy(self, f: float) -> bool:
        """Return whether values are wrong by far more than rounding explains."""
        return self.eps_f(f) > tuning.NOISY * self.rounding(f)

    def changed(self, f: float) -> bool:
        """Return whether noise was measured at values that were far from this one."""
        return self.noise > 0 and self._differs(f, tuning.CHANGED)

    def is_elsewhere(self, f: float) -> bool:
        """Return whether the error of a value was measured where f, and so its slopes, may be others."""
        return self._differs(f, tuning.ELSEWHERE)

    def _differs(self, f: float, factor: float) -> bool:
        size, then = self.scale(f), self.f_scale
        return factor * size < then or size > factor * then

    def scale(self, f: float) -> float:
        """Return what the resolution of f is relative to: its size or, where f = 0, the last one known."""
        if f != 0:
            return abs(f)
        return 1.0 if self.f_scale == 0 else self.f_scale

    def estimate(
        self, space: Space, x: Vector, f: float, gtol: float, step: Floats | None = None, *,
        anew: bool = True, bends: Floats | None = None,
    ) -> Asking[bool]:  # fmt: skip
        """Measure the error of a value near x, and return whether it is more than it was taken to be.

        The line is so short that f is straight there, unless its `step` is given, since slow noise shows only
        on longer ones. A smaller error is believed only if it is measured `anew`. Where `bends`, |f″| along
        each variable, is given, differences of 0 may lie between two values of a quantised f.
        """
        line = Line(space, x, f, self.eps, step)
        if not line.u.any():
            return False
        before, scale = self.eps_f(f), self.scale(f)
        slope = gtol * math.sqrt((line.u * line.u).sum())
        noise, quantum = yield from line.measure(slope, bends)
        self.jumps = line.jumps
        # values that differ by less than a step have none
        resolution = self.resolution if line.least > 0.5 * self.resolution * scale else 0.0
        if quantum > 0:
            resolution = min(quantum, max(COARSEST * scale, self.resolution * self.f_scale)) / scale
        self.close = self.close or (step is None and noise > 0)
        louder = max(noise, resolution * scale) > tuning.CHANGED * before
        if anew or louder:
            self.noise, self.f_scale, self.resolution = noise, scale, resolution
            if quantum > 0:  # what a gradient that was made without knowing has shown
                self.conditioning = 0.0
        return louder


class Line:
    """Changes of f at multiples of a step u from x into the box; u is 0 where there is no room."""

    def __init__(self, space: Space, x: Vector, f: float, eps: float, step: Floats | None = None):
        self._space, self._x, self._f, self._eps, point = space, x, f, eps, to_numpy(x)
        self._short, self.jumps = step is None, False
        self.least = math.inf
        """The least difference between two values that differ."""
        usual: Floats = tuning.LINE * size_of(point) if step is None else step
        rng: Any = np.random.default_rng(0)
        ahead: Floats = usual * rng.uniform(1, 2, point.shape[-1])
        turned = np.where(space.contains(point + 6 * ahead), ahead, -ahead)
        self.u: Floats = np.where(space.contains(point + 6 * turned), turned, 0.0)
        steps = np.where(self.u == 0, np.inf, np.abs(self.u))
        self._conditioning = float(np.abs(point / steps).max())
        self._longest = float((np.maximum(np.abs(point), 1.0) / steps).max())

    def _changes(self, *multiples: float) -> Asking[list[float]]:
        """Ask for the changes of f at these multiples of u."""
        points = [self._space.project(self._x + adopt(self._x, t * self.u)) for t in multiples]
        values: list[float] = yield Values(points)
        return [value - self._f for value in values]

    def _rounding(self, changes: Floats) -> float:
        """Return what rounding explains of these changes."""
        steps, most = float(np.abs(np.diff(changes)).max()), float(np.abs(changes).max())
        return self._eps * (abs(self._f) + most + self._conditioning * steps)

    def measure(self, slope: float, bends: Floats | None = None) -> Asking[tuple[float, float]]:
        """Ask for the standard deviation of a value, and the least difference of two; `slope` counts as 0."""
        first, second = yield from self._changes(1.0, 2.0)
        changes = np.array([0.0, first, second])
        bent, explained = abs(second - 2 * first), self._rounding(changes)
        if first == 0 and second == 0:
            return 0.0, (yield from self._quantum(explained, slope))
        noise = quantum = 0.0
        if math.isfinite(bent) and bent > tuning.SCREEN * explained:
            others = yield from self._changes(*map(float, range(3, COUNT)))
            noise, quantum = self._judged(np.append(changes, others))
        if bends is not None and quantum + noise == 0:
            bend = 4 * float((np.nan_to_num(bends) * self.u * self.u).sum())
            if abs(second) > 2 * slope + bend + tuning.SCREEN * explained:
                quantum = step_between(changes, explained)
        return noise, quantum

    def _judged(self, changes: Floats) -> tuple[float, float]:
        """Return the noise and the quantum that seven values show."""
        rounding, apart = self._rounding(changes), np.diff(np.sort(changes))
        self.least = float(np.min(apart[apart > rounding], initial=math.inf))
        distinct = np.count_nonzero(apart) + 1
        if distinct < DISTINCT:
            return 0.0, step_between(changes, rounding)
        level = ecnoise(changes)
        if not (math.isfinite(level) and level > tuning.LEVEL * rounding):
            return 0.0, 0.0
        # on a short line f is straight; on a longer one its own curvature has one sign, too
        kink = self._short and is_kink(changes)
        return (0.0 if kink else level), 0.0

    def _quantum(self, rounding: float, slope: float) -> Asking[float]:
        """Ask for the least difference of values that are equal on a line, by lines ten times as long."""
        for rung in range(1, LENGTHS + 1):
            t = 10.0**rung
            if t > self._longest:
                break
            (change,) = yield from self._changes(t)
            # a smooth f that did not change over a tenth of the way changes by few roundings over it
            if math.isfinite(change) and abs(change) > max(tuning.JUMP * rounding, t * slope):
                others = yield from self._changes(0.25 * t, 0.5 * t, 0.75 * t)
                self.jumps = True
                return step_between([change, *others], rounding)
            if change != 0:
                break
        return 0.0


def size_of(x: NDArray[Any]) -> Floats:
    """Return the sizes of the variables, as scales."""
    return np.maximum(np.abs(x), tuning.SIZE)


def ecnoise(values: Floats) -> float:
    """Return the noise level that equally spaced values show, 0 where their differences do not level off.

    Examples
    --------
    >>> ecnoise(np.arange(7.0) ** 2)
    0.0
    >>> round(ecnoise(np.array([0.0, 1.0, -1.0, 1.0, 0.0, -1.0, 0.0])), 2)
    1.0
    """
    column, sigma, turns = values, np.zeros(COUNT - 1), list[bool]()
    for k, share in enumerate(SHARES):
        column = np.diff(column)
        sigma[k] = np.sqrt(share * (column * column).sum() / len(column))
        turns.append(bool(column.min() < 0 < column.max()))
    for k in range(COUNT - 3):
        three = sigma[k : k + 3]
        if three.max() <= AGREE * three.min() and turns[k]:
            return float(sigma[k])
    return 0.0


def is_kink(values: Floats) -> bool:
    """Return whether values on a line are those of a kink: they bend to one side, or at one place.

    Examples
    --------
    >>> is_kink(np.abs(np.arange(7.0) - 2.5)), is_kink(np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0]))
    (True, False)
    """
    second = np.diff(values, 2)
    size, low, high = np.sort(np.abs(second)), second.min(), second.max()
    one_side = -low <= VANISHES * high or high <= -VANISHES * low
    return bool(one_side or size[-3] <= VANISHES * size[-1])


def step_between(changes: Sequence[float] | Floats, rounding: float) -> float:
    """Return the step of which all these changes of f are multiples, by Euclid's algorithm; 0: there is none.

    Examples
    --------
    >>> round(step_between([0.09, 0.46, 1.07, 1.91], 1e-14), 6)
    0.01
    >>> step_between([0.09, 0.46, 1.07, 1.91, 2**0.5], 1e-14)
    0.0
    >>> step_between([0.09, 0.46, 1.07, 1.91, 1e-6], 1e-14)
    0.0
    """
    least, found = 0.1 * tuning.JUMP * rounding, 0.0
    for change in map(float, changes):
        whole, rest = abs(change) if math.isfinite(change) else 0.0, found
        if least < whole < WITHIN * found:  # it is neither a step nor rounding
            return 0.0
        while rest > least:
            left = whole % rest
            left = min(left, rest - left)
            whole, rest = rest, left if left > WITHIN * rest else 0.0
        found = whole
    return found if found > tuning.JUMP * rounding else 0.0
