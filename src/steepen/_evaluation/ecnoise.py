"""What equally spaced values on a line show: noise, a kink, or the step between quantised values.

Noise is measured by ECnoise (Moré and Wild 2011). Seven values on a short line make a table of differences.
The k-th differences of noise with standard deviation σ have mean square σ²·(2k)!/(k!)², those of a smooth
function vanish: where three columns in a row agree, there is noise, and they give its level. A kink fills the
columns as noise does (79 of 100 do). But its second differences have one sign, and all but two of them
vanish; of noise with seven values one in a hundred looks so.
"""

from __future__ import annotations

from math import factorial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import tuning

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]

COUNT, AGREE = 7, 4.0  # of Moré and Wild: seven values, columns that agree within a factor of 4
VANISHES = 0.05  # a second difference vanishes within this part of the largest
WITHIN = 1e-3  # a change of f is a multiple of a step within this part of it
SHARES = [factorial(k) ** 2 / factorial(2 * k) for k in range(1, COUNT)]


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


def is_kink(values: Floats) -> Flags:
    """Return where values on a line are those of a kink: they bend to one side, or at one place.

    Examples
    --------
    >>> bool(is_kink(np.abs(np.arange(7) - 2.3))), bool(is_kink(np.array([1.0, 3, 2, 5, 1, 4, 2])))
    (True, False)
    """
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
