"""Checks of arguments, for all folders. Errors name the argument, the expected value and the actual one."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_number(value: object) -> bool:
    """Return whether this is one real number."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_whole(value: object) -> bool:
    """Return whether this is an integer."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def number(
    name: str, value: Any, expected: str, *, least: float = -math.inf, above: float = -math.inf,
    below: float = math.inf,
) -> None:  # fmt: skip
    """Raise unless value is a finite number with least ≤ value < below and value > above."""
    if not is_number(value):
        raise TypeError(f"{name}: expected {expected}, got {value!r}")
    if not (least <= value < below and value > above):
        raise ValueError(f"{name}: expected {expected}, got {value!r}")


def whole(name: str, value: Any, least: int) -> None:
    """Raise unless value is an integer, `least` or more."""
    if not (is_whole(value) and value >= least):
        raise ValueError(f"{name}: expected a whole number, {least} or more, got {value!r}")


def floats(name: str, value: Any, expected: str) -> NDArray[np.float64]:
    """Return numbers as float64; raise if any is not finite and real."""
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name}: expected {expected}, got {value!r}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: expected {expected}, all finite; got {value!r}")
    return array.astype(np.float64)


def rectangle(name: str, value: Any) -> NDArray[np.float64]:
    """Return a box in the plane: two rows (low, high) of finite numbers."""
    expected = "two rows (low, high) of finite numbers"
    box = floats(name, value, expected)
    if box.shape != (2, 2) or not (box[:, 0] < box[:, 1]).all():
        raise ValueError(f"{name}: expected {expected}, got {value!r}")
    return box


def one_of(argument: str, name: str, names: Iterable[str], listed: str | None = None) -> str:
    """Return the name if it is one of these; otherwise raise and suggest a similar one."""
    known = list(names)
    if name not in known:
        raise ValueError(f"{argument}: {name!r} is not known; {meant(name, known, listed)}")
    return name


def meant(name: object, known: Sequence[str], listed: str | None = None) -> str:
    """Return "did you mean …?" or, if no name is similar, `listed` (by default all names)."""
    said, *folded = (one.lower().replace("_", "-") for one in (str(name), *known))
    near = difflib.get_close_matches(said, folded, n=1)
    if near:
        return f"did you mean {known[folded.index(near[0])]!r}?"
    return listed or f"there are {', '.join(known)}"
