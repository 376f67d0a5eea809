"""What the values of f can tell: their noise, how f bends along each variable, and the differences for that.

A one-sided difference over h is wrong by ½·h·|f″| and by 2ε/h, with ε the error of a value: over 2√(ε/|f″|),
where both are least, it is wrong by 2√(ε|f″|). A central one is wrong by ε/h and by the third derivative,
which nobody knows; it is taken to be |f″| over the size of the variable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core.arrays import Array, Mask, Scalar

SMALL = 1e-3
"""A variable that is smaller is taken to have this size, as long as nothing else is known of its scale."""

SHORTEST, LONGEST = 1e-5, 1e5
"""A difference is within these parts of the usual one, √ε·max(|x|, 1), shorter where a variable is small."""

FIRST = 1e-4
"""How f bends is first asked over this part of a variable's size, and over more where values are noisy."""


@dataclass(slots=True)
class Digits:
    """What was found out about the values of f.

    Attributes
    ----------
    noise : the error of a value beyond rounding, as measured
    size : |f| where it was measured
    tilt : Σ|xᵢ·∂ᵢf| at the last gradient: what the rounding of x does to f, in units of ε
    bends : |f″| along each variable; NaN is unknown
    central : where gradients are made of central differences
    """

    noise: Scalar
    size: Scalar
    tilt: Scalar
    bends: Array
    central: Mask

    @property
    def sound(self) -> bool:
        """Whether these are finite and positive, as far as they are known."""
        sizes = (self.noise, self.size, self.tilt)
        bends: Any = self.bends
        return all(np.all((size >= 0) & (size < np.inf)) for size in sizes) and not np.any(
            (bends <= 0) | (bends == np.inf)
        )

    @staticmethod
    def start(shape: tuple[int, ...]) -> Digits:
        """Return what is known at first: nothing."""
        rows = shape[:-1]
        if not rows:
            return Digits(0.0, 0.0, 0.0, np.full(shape, np.nan), False)
        none = np.zeros(rows)
        return Digits(none, none, none, np.full(shape, np.nan), np.zeros(rows, dtype=bool))


def size_of(x: NDArray[Any]) -> NDArray[np.float64]:
    """Return the sizes of the variables, as scales."""
    return np.maximum(np.abs(x), SMALL)


def one_sided(
    bends: NDArray[Any], level: Any, usual: NDArray[Any], size: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the lengths of one-sided differences, the usual ones where nothing is known of f″."""
    best = 2 * np.sqrt(np.asarray(level)[..., None]) / np.sqrt(bends)
    least = SHORTEST * usual * np.minimum(size, 1.0)
    return np.where(np.isfinite(best), np.clip(best, least, LONGEST * usual), usual)


def both_sided(near: NDArray[Any], size: NDArray[Any]) -> NDArray[np.float64]:
    """Return the lengths of central differences where those of one-sided ones are known."""
    return np.maximum(near, near ** (2 / 3) * size ** (1 / 3))


def error_of(
    ahead: NDArray[Any], back: NDArray[Any], bends: NDArray[Any], level: Any, size: NDArray[Any]
) -> NDArray[np.float64]:
    """Return how far each difference over these lengths may be wrong; 0 where there is none."""
    h = np.where(ahead == 0, np.inf, np.abs(ahead))
    ε = np.asarray(level)[..., None]
    bends = np.where(np.isfinite(bends), bends, 4 * ε / h**2)  # as if it had the best length
    sides = np.where(back > 0, ε / h + h * h * bends / (6 * size), 2 * ε / h + 0.5 * h * bends)
    return np.where(ahead == 0, 0.0, sides)
