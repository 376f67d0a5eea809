"""The noise of values on a line by ECnoise (Moré and Wild 2011), or their resolution where f is quantised.

Seven values on a short line make a table of differences. The k-th differences of noise with standard
deviation σ have mean square σ²·(2k)!/(k!)², those of a smooth function vanish: where three columns in a row
agree, there is noise, and they tell its level. Here two of the values screen for noise first, since most
functions have none. A kink fills the columns as noise does (79 of 100 do). But its second differences have
one sign, and all but two of them vanish; of noise with seven values one in a hundred looks so. On a longer
line, where curvature does so too, noise must persist on a line a hundredth as long; a kink shrinks with it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import tuning
from .ledger import Cost

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Values: TypeAlias = Callable[[Any, Flags], Floats]
"""(t, rows) ↦ f(x + t·u) for these rows of a batch, u being a step of the line."""

COUNT, AGREE, VANISHES = 7, 4.0, 0.05
"""Of Moré and Wild: seven values, columns that agree within a factor of 4. A second difference vanishes within this part of the largest."""

SHORTER, SHORT, PERSISTS = 0.01, 0.03, 0.1
"""The length of the shorter line, that below which it tells a kink from noise; second differences there of
less than a tenth of σ are chance once in a thousand times."""

SHARES = [factorial(k) ** 2 / factorial(2 * k) for k in range(1, COUNT)]

RUNGS = 12
"""How often a line is made ten times as long where values stay equal."""

COST = Cost(2 + RUNGS + 3)
"""What a measurement costs at most."""


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


def measure(
    values: Values, f: Floats, rows: Flags, rounding: Callable[[Floats], Floats], slope: Floats, part: Floats,
    reach: Floats, flat: bool,
) -> Measured:  # fmt: skip
    """Return what is wrong with values of f on a line, in these rows.

    `rounding` returns what explains such changes; a change by `slope` a step is none to speak of. Noise must
    persist on a line that is `part` as long. Where differences say that f is `flat`, and it is not, they lie
    between two of its quantised values.
    """
    changes = [0.0 * f, *(values(t, rows) - f for t in (1.0, 2.0))]
    noise, quantum = 0.0 * f, 0.0 * f
    bent = np.abs(changes[2] - 2 * changes[1])
    loud = rows & np.isfinite(bent) & (bent > tuning.SCREEN * rounding(np.array(changes)))
    still = rows & (changes[1] == 0) & (changes[2] == 0)
    if loud.any():
        changes += [values(float(t), loud) - f for t in range(3, COUNT)]
        level, explained = ecnoise(np.array(changes)), rounding(np.array(changes))
        quantum = np.where(loud, step_between(changes, explained), quantum)
        loud = loud & (quantum == 0) & np.isfinite(level) & (level > tuning.LEVEL * explained)
        # on a short line f is straight; on a longer one its own curvature has one sign, too
        noise = np.where(loud & ~(is_kink(np.array(changes)) & (part > SHORT)), level, noise)
    asked = (noise > 0) & (part <= SHORT)
    if asked.any():
        short = [0.0 * f, *(values(t * part, asked) - f for t in (1.0, 2.0, 3.0))]
        second = np.abs(np.diff(np.array(short), 2, axis=0)).max(axis=0)
        noise = np.where(asked & (second <= PERSISTS * noise), 0.0, noise)
    if flat:
        explained = rounding(np.array(changes[:3]))
        steep = rows & (np.abs(changes[2]) > 2 * slope + tuning.SCREEN * explained) & (quantum + noise == 0)
        quantum = np.where(steep, step_between(changes[:3], explained), quantum)
    if still.any():
        quantum = np.where(
            still, find_quantum(values, f, still, rounding(np.array(changes[:3])), slope, reach), quantum
        )
    return Measured(noise, quantum)


def is_kink(values: Floats) -> Flags:
    """Return where values on a line are those of a kink: they bend to one side, or at one place.

    Examples
    --------
    >>> bool(is_kink(np.abs(np.arange(7) - 2.3))), bool(is_kink(np.array([1.0, 3, 2, 5, 1, 4, 2])))
    (True, False)
    """
    second = np.diff(values, 2, axis=0)
    size, low, high = np.sort(np.abs(second), axis=0), second.min(axis=0), second.max(axis=0)
    one_sided = (-low <= VANISHES * high) | (high <= -VANISHES * low)
    return one_sided | (size[-3] <= VANISHES * size[-1])


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
            whole, rest = np.where(more, rest, whole), np.where(more, np.minimum(left, rest - left), rest)
        found = whole
    return np.where(found > tuning.JUMP * rounding, found, 0.0)


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
        jumped = (
            moved & (np.abs(change) > np.maximum(tuning.JUMP * rounding, t * slope)) & np.isfinite(change)
        )
        if jumped.any():
            between = [change, *(values(part * t, jumped) - f for part in (0.25, 0.5, 0.75))]
            quantum = np.where(jumped, step_between(between, rounding), quantum)
        seeking = seeking & ~moved
    return quantum
