"""The state of a batch with fixed steps: the fields of `Run`, in arrays with an entry for each row."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..questions import Point


@dataclass
class Rows:
    """The rows that have not ended: the fields of `Run`, with an entry for each row, or a number for all."""

    index: NDArray[np.intp]
    """Which rows of the batch they are."""
    here: Point
    best: Point
    """Its k is an array, since rows have them at different iterations; f is inf where it has none."""
    follows: NDArray[np.bool_]
    nfev: Any = 0
    njev: Any = 0
    nhvp: Any = 0
    nhev: Any = 0
    f_start: Any = math.nan
    gradient_norm: Any = math.nan
    gnorm: Any = math.nan
    largest_gnorm: Any = 0.0
    before: Point | None = None
    p: Any = None
    alpha: Any = math.nan
    lam: Any = math.nan
    penalised: Any = False
    guarded: Any = False
    vanished: Any = False
    there: Any = None
    """The next iterate."""
    arrived: tuple[Any, ...] = (0, 0, 0)
    """The counts when it was chosen."""
    noted: int = -1
    """The last iterate in the trace."""
    at_hand: Any = None
    """∇f here, if it came with f."""
    matrix: Any = None
    """The quasi-Newton matrices."""
    hessian: tuple[Any, Any] | None = None
    """x and H where H was last evaluated."""

    def __len__(self) -> int:
        return len(self.index)

    def own(self, value: Any, which: Any = slice(None)) -> Any:
        """Return what the batch has one of for each row, for these of its rows; a number as it is."""
        if np.ndim(value) == 0:
            return float(value)
        value = np.asarray(value, np.float64)
        return (value if len(self) == len(value) else value[self.index])[which]

    def cut(self, rows: NDArray[np.intp]) -> Rows:
        """Return these rows alone."""
        if len(rows) == len(self):
            return self
        few = copy.copy(self)
        for name, value in vars(self).items():
            setattr(few, name, taken(value, rows))
        return few


def taken(value: Any, rows: NDArray[np.intp]) -> Any:
    """Return what a field has for these rows; what it has for all of them, as it is."""
    if isinstance(value, np.ndarray):
        return cast("NDArray[Any]", value).take(rows, axis=0)
    if isinstance(value, Point):
        return Point(*(taken(part, rows) for part in value))
    if isinstance(value, tuple):
        return tuple(taken(part, rows) for part in cast("tuple[Any, ...]", value))
    return value


def all_or(mask: Any) -> Any:
    """Return the rows where it is True, as a slice if that is all of them."""
    return slice(None) if mask.all() else np.flatnonzero(mask)


def one_or(mask: Any) -> Any:
    """Return 1 if it is True everywhere: counts that are the same for all rows stay numbers."""
    return 1 if mask.all() else mask


def merged(where: Any, new: Any, old: Any) -> Any:
    """Return the new numbers where it is True, and the old ones elsewhere."""
    return cast(Any, np).where(where, new, old)


def chosen(where: Any, new: Any, old: Any) -> Any:
    """Return the new vectors where it is True, and the old ones elsewhere."""
    found, rest = new.copy(), np.flatnonzero(~where)
    found[rest] = old[rest]
    return found


def spread(value: Any, which: Any, count: int) -> Any:
    """Return the values of some rows among zeros for the others."""
    found = np.zeros(count, np.asarray(value).dtype)
    found[which] = value
    return found
