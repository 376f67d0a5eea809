"""Checks of arguments: which one, what was expected, what came."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_number(value: object) -> bool:
    """Say whether this is one real number."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_whole(value: object) -> bool:
    """Say whether this is a whole number."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def number(
    name: str,
    value: Any,
    expected: str,
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    below: float = math.inf,
) -> None:
    """Refuse what is not a number in [least, below) and (above, below).

    Examples
    --------
    >>> number("delta", -1.0, "a positive number", above=0)
    Traceback (most recent call last):
    ValueError: delta: expected a positive number, got -1.0
    """
    if not is_number(value):
        raise TypeError(f"{name}: expected {expected}, got {value!r}")
    if not (least <= value < below and value > above):
        raise ValueError(f"{name}: expected {expected}, got {value!r}")


def whole(name: str, value: Any, least: int) -> None:
    """Refuse what is not a whole number, `least` or more."""
    if not (is_whole(value) and value >= least):
        raise ValueError(f"{name}: expected a whole number, {least} or more, got {value!r}")


def floats(name: str, value: Any, expected: str) -> NDArray[np.float64]:
    """Turn numbers into float64, or refuse what is not finite and real."""
    try:
        array = np.asarray(value)
    except ValueError:  # ragged
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name}: expected {expected}, got {value!r}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: expected {expected}, all finite; got {value!r}")
    return array.astype(np.float64)


def one_of(option: str, name: str, names: Iterable[str]) -> str:
    """Check a name, or suggest the nearest.

    Examples
    --------
    >>> one_of("--method", "cgd_fd", ["gd", "cgd-fd"])
    Traceback (most recent call last):
    ValueError: --method: 'cgd_fd' is not known; did you mean 'cgd-fd'?
    """
    known = list(names)
    if name in known:
        return name
    near = difflib.get_close_matches(name.lower().replace("_", "-"), known, n=1)
    listed = f"there are {', '.join(known)}" if len(known) < 20 else "see `steepen functions`"
    hint = f"did you mean {near[0]!r}?" if near else listed
    raise ValueError(f"{option}: {name!r} is not known; {hint}")
