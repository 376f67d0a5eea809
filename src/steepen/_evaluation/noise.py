"""The error of a value of f (rounding, noise, quantisation), for difference gradients; evaluates f near x.

Noise is measured by ECnoise (Moré and Wild 2011). Seven values on a short line make a table of differences.
The k-th differences of noise with standard deviation σ have mean square σ²·(2k)!/(k!)², those of a smooth
function vanish: where three columns in a row agree, there is noise, and they give its level. A kink fills the
columns as noise does (79 of 100 do). But its second differences have one sign, and all but two of them
vanish; of noise with seven values one in a hundred looks so.

Two values screen for noise before the other four are taken, since most functions have none: six values at
every start are a tenth of what small problems need.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import Array, Mask, Scalar, adopt, to_numpy
from .._core.backends import Backend
from . import tuning
from .calls import UserCalls
from .counter import Cost

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]

COUNT, AGREE = 7, 4.0  # of Moré and Wild: seven values, columns that agree within a factor of 4
SHARES = [factorial(k) ** 2 / factorial(2 * k) for k in range(1, COUNT)]
VANISHES = 0.05  # a second difference vanishes within this part of the largest
WITHIN = 1e-3  # a change of f is a multiple of a step within this part of it
DISTINCT = 4  # fewer distinct values on a line are those of a quantised f
COARSEST = 0.02  # f is never taken to be quantised more coarsely, relative to its size
RUNGS = 12  # how often a line is made ten times as long where values stay equal
COST = Cost(2 + RUNGS + 3)  # of a measurement, at most


@dataclass(slots=True)
class FDState:
    """What differences know of f: all that they hand from one gradient to the next."""

    noise: Scalar  # the standard deviation of a value beyond rounding, by ECnoise
    f_scale: Scalar  # the size of f where that was measured; 0: nowhere
    resolution: Scalar  # the least difference between two values, relative to |f|; 0: f is not quantised
    conditioning: Scalar  # Σ|xᵢ·∂ᵢf|: what the rounding of x does to f, in units of ε
    curvature: Array  # |f″| along each variable; NaN is unknown
    central: Mask  # where gradients are made of central differences

    @staticmethod
    def start(shape: tuple[int, ...]) -> FDState:
        """Return what is known at first: nothing."""
        none: Any = np.zeros(shape[:-1]) if len(shape) > 1 else 0.0
        return FDState(none, none, none, none, np.full(shape, np.nan), none > 0)


class NoiseModel:
    """The error ε_f of a value of f, as far as values have shown it."""

    def __init__(self, calls: UserCalls, state: FDState):
        self.backend, self.space, self.value = calls.backend, calls.space, calls.value_at
        self.eps, self.state = calls.eps, state

    def rounding(self, f: Scalar) -> Scalar:
        """Return by how much the rounding of f and of x may change a value."""
        return self.eps * (abs(f) + self.state.conditioning)

    def eps_f(self, f: Scalar) -> Scalar:
        """Return by how much a value of f may be wrong."""
        state, maximum = self.state, self.backend.num.maximum
        return maximum(self.rounding(f), maximum(state.resolution * self.scale(f), state.noise))

    def noisy(self, f: Scalar) -> Mask:
        """Return where values are wrong by far more than rounding explains."""
        return self.eps_f(f) > tuning.NOISY * self.rounding(f)

    def changed(self, f: Scalar) -> Mask:
        """Return where noise was measured at values that were far from this one."""
        size, then = self.scale(f), self.state.f_scale
        return (self.state.noise > 0) & ((tuning.CHANGED * size < then) | (size > tuning.CHANGED * then))

    def scale(self, f: Scalar) -> Scalar:
        """Return what the resolution of f is relative to: its size or, where f = 0, the last one known."""
        last = self.state.f_scale
        return self.backend.select(f == 0, self.backend.select(last == 0, 1.0, last), abs(f))

    def estimate(
        self, x: Array, f: Scalar, rows: Mask, gtol: float, step: Any = None, *, anew: bool = True,
        flat: bool = False,
    ) -> Mask:  # fmt: skip
        """Measure the error of a value near x, and return where it is more than it was taken to be.

        The line is so short that f is straight there, unless its step is given, since slow noise shows only
        on longer ones. A smaller error is believed only if it is measured `anew`. `flat`: differences of 0
        may lie between two values of a quantised f.
        """
        backend, state, here, scale = self.backend, self.state, np.asarray(f), np.asarray(self.scale(f))
        line = _Line(self, x, here, step)
        asked = np.broadcast_to(rows, here.shape) & line.u.any(axis=-1)
        if not asked.any():
            return backend.and_not(rows, rows)
        before = np.asarray(self.eps_f(f))
        noise, quantum = line.measure(asked, gtol * np.sqrt((line.u * line.u).sum(axis=-1)), flat)
        most = np.maximum(COARSEST * scale, state.resolution * state.f_scale)
        resolution = np.where(quantum > 0, np.minimum(quantum, most) / scale, state.resolution)
        louder = asked & (np.maximum(noise, resolution * scale) > tuning.CHANGED * before)
        taken = asked if anew else louder
        state.noise = backend.scalar(np.where(taken, noise, state.noise))
        state.f_scale = backend.scalar(np.where(taken, scale, state.f_scale))
        state.resolution = backend.scalar(np.where(taken, resolution, state.resolution))
        # what a gradient that was made without knowing has shown
        state.conditioning = backend.scalar(np.where(taken & (quantum > 0), 0.0, state.conditioning))
        return mask_of(backend, louder)


class _Line:
    """Changes of f at multiples of a step u from x into the box; u is 0 where there is no room."""

    def __init__(self, model: NoiseModel, x: Array, f: Floats, step: Any):
        self._model, self._x, self._f, point = model, x, f, to_numpy(x)
        self._short = step is None
        step = tuning.LINE * size_of(point) if self._short else step
        rng: Any = np.random.default_rng(0)
        ahead: Floats = step * rng.uniform(1, 2, point.shape[-1])
        turned = np.where(model.space.contains(point + 6 * ahead), ahead, -ahead)
        self.u = np.where(model.space.contains(point + 6 * turned), turned, 0.0)
        steps = np.where(self.u == 0, np.inf, np.abs(self.u))
        self._conditioning = np.abs(point / steps).max(axis=-1)
        self._longest = (np.maximum(np.abs(point), 1.0) / steps).max(axis=-1)

    def _change(self, t: Any, rows: Flags) -> Floats:
        model = self._model
        there = model.space.project(self._x + adopt(self._x, np.asarray(t)[..., None] * self.u))
        return np.asarray(model.value(there, None if model.backend.size is None else rows)) - self._f

    def _rounding(self, changes: list[Floats]) -> Floats:
        """Return what rounding explains of these changes."""
        steps, most = np.abs(np.diff(changes, axis=0)).max(axis=0), np.abs(changes).max(axis=0)
        return self._model.eps * (np.abs(self._f) + most + self._conditioning * steps)

    def measure(self, rows: Flags, slope: Floats, flat: bool) -> tuple[Floats, Floats]:
        """Return the standard deviation of a value, and the least difference of two; `slope` counts as 0."""
        none = 0.0 * self._f
        changes = [none, *(self._change(t, rows) for t in (1.0, 2.0))]
        bent, explained = np.abs(changes[2] - 2 * changes[1]), self._rounding(changes)
        noise = quantum = none
        loud = rows & np.isfinite(bent) & (bent > tuning.SCREEN * explained)
        still = rows & (changes[1] == 0) & (changes[2] == 0)
        if loud.any():
            changes += [self._change(float(t), loud) for t in range(3, COUNT)]
            level, rounding = ecnoise(np.array(changes)), self._rounding(changes)
            few = loud & ((np.diff(np.sort(changes, axis=0), axis=0) > 0).sum(axis=0) + 1 < DISTINCT)
            quantum = np.where(few, step_between(changes, rounding), quantum)
            loud = loud & ~few & np.isfinite(level) & (level > tuning.LEVEL * rounding)
            # on a short line f is straight; on a longer one its own curvature has one sign, too
            noise = np.where(loud & ~(self._short & is_kink(np.array(changes))), level, noise)
        if flat:
            bend = 4 * (np.nan_to_num(self._model.state.curvature) * self.u * self.u).sum(axis=-1)
            steep = rows & (np.abs(changes[2]) > 2 * slope + bend + tuning.SCREEN * explained)
            steep = steep & (quantum + noise == 0)
            quantum = np.where(steep, step_between(changes[:3], explained), quantum)
        return noise, np.where(still, self._quantum(still, explained, slope), quantum)

    def _quantum(self, rows: Flags, rounding: Floats, slope: Floats) -> Floats:
        """Return the least difference between values that are equal on a line, by lines ten times as long."""
        quantum = 0.0 * self._f
        for t in 10.0 ** np.arange(1, RUNGS + 1):
            rows = rows & (t <= self._longest)
            if not rows.any():
                break
            change = self._change(t, rows)
            # a smooth f that did not change over a tenth of the way changes by few roundings over it
            least = np.maximum(tuning.JUMP * rounding, t * slope)
            jumped = rows & np.isfinite(change) & (np.abs(change) > least)
            if jumped.any():
                between = [change, *(self._change(part * t, jumped) for part in (0.25, 0.5, 0.75))]
                quantum = np.where(jumped, step_between(between, rounding), quantum)
            rows = rows & (change == 0)
        return quantum


def mask_of(backend: Backend, rows: Any) -> Mask:
    """Return what NumPy says of rows as a mask: of a single run, as a bool."""
    return bool(rows) if backend.size is None else rows


def size_of(x: NDArray[Any]) -> Floats:
    """Return the sizes of the variables, as scales."""
    return np.maximum(np.abs(x), tuning.SIZE)


def ecnoise(values: Floats) -> Floats:
    """Return the noise level that equally spaced values show, 0 where their differences do not level off."""
    sigma: list[Any] = []
    turns: list[Any] = []
    column: Any = values
    for share in SHARES:
        column = np.diff(column, axis=0)
        sigma.append(np.sqrt(share * (column * column).sum(axis=0) / len(column)))
        turns.append((column.min(axis=0) < 0) & (column.max(axis=0) > 0))
    level = np.zeros(values.shape[1:])
    for k in reversed(range(COUNT - 3)):
        three = np.array(sigma[k : k + 3])
        level = np.where((three.max(axis=0) <= AGREE * three.min(axis=0)) & turns[k], sigma[k], level)
    return level


def is_kink(values: Floats) -> Flags:
    """Return where values on a line are those of a kink: they bend to one side, or at one place."""
    second = np.diff(values, 2, axis=0)
    size, low, high = np.sort(np.abs(second), axis=0), second.min(axis=0), second.max(axis=0)
    return (-low <= VANISHES * high) | (high <= -VANISHES * low) | (size[-3] <= VANISHES * size[-1])


def step_between(changes: list[Floats], rounding: Floats) -> Floats:
    """Return the step of which all these changes of f are multiples, by Euclid's algorithm; 0: there is none.

    Examples
    --------
    >>> changes = [np.array(c) for c in (0.09, 0.46, 1.07, 1.91)]
    >>> round(float(step_between(changes, np.array(1e-14))), 6)
    0.01
    >>> float(step_between([*changes, np.array(2**0.5)], np.array(1e-14)))
    0.0
    """
    least, found = 0.1 * tuning.JUMP * rounding, 0.0 * changes[0]
    for change in changes:
        whole, rest = np.where(np.isfinite(change), np.abs(change), 0.0), found
        while (more := rest > least).any():
            left = np.mod(whole, np.where(more, rest, 1.0))
            left = np.minimum(left, rest - left)
            whole, rest = np.where(more, rest, whole), np.where(more & (left > WITHIN * rest), left, 0.0)
        found = whole
    return np.where(found > tuning.JUMP * rounding, found, 0.0)
