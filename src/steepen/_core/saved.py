"""Records as named arrays, and back: for checkpoints and the parts of a run they hold; opens no file."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, adopt, is_numpy, to_numpy
from .state import parts_of

NONE = np.array("None")


class Unfit(Exception):
    """What is wrong with a file, in words that follow its name."""


def apart(record: Any, prefix: str = "") -> dict[str, NDArray[Any]]:
    """Return the arrays of a record, by names such as `run.state.k`."""
    arrays: dict[str, NDArray[Any]] = {}
    for part, value in _kept(record).items():
        inner = prefix + part
        if _is_record(value):
            arrays |= apart(value, f"{inner}.")
        else:
            arrays[inner] = NONE if value is None else np.asarray(to_numpy(value))
    return arrays


class Saved:
    """The arrays of a file, taken out one by one until none is left."""

    def __init__(self, arrays: dict[str, NDArray[Any]], x: Array):
        self.arrays, self._x = arrays, x

    def pop(self, name: str) -> NDArray[Any]:
        """Return an array as it was written."""
        if name not in self.arrays:
            raise Unfit(f"lacks a part of the run: {name}")
        return self.arrays.pop(name)

    def take(self, name: str, like: Any = None) -> Any:
        """Return None, a number, or an array; of the shape, dtype and library of `like` if that is an array.

        The number of rows may differ. Other vectors are taken as those of the run; scalars stay on the host.
        """
        value = self.pop(name)
        if not value.ndim:
            return None if value.dtype == NONE.dtype else value.item()
        if not getattr(like, "ndim", 0):
            like = self._x if value.ndim >= self._x.ndim else value
        else:
            rest, kind = slice(self._x.ndim - 1, None), to_numpy(like).dtype
            if value.shape[rest] != like.shape[rest] or value.dtype != kind:
                raise Unfit(
                    f"does not fit the run: {name} has shape {value.shape} and dtype {value.dtype}, "
                    f"not {tuple(like.shape)} and {kind}"
                )
        return value if is_numpy(like) else adopt(like, value)

    def record(self, name: str, like: Any) -> Any:
        """Return a record like this one."""
        kept = _kept(like)
        taken = {
            part: (self.record if _is_record(value) else self.take)(f"{name}.{part}", value)
            for part, value in kept.items()
        }
        return type(like)(**taken) if taken else like


def _kept(record: Any) -> dict[str, Any]:
    """Return what is kept of a record, by name."""
    dropped = {field.name for field in fields(record) if field.metadata} if is_dataclass(record) else ()
    return {name: value for name, value in parts_of(record).items() if name not in dropped}


def _is_record(value: Any) -> bool:
    return isinstance(value, dict | tuple) or is_dataclass(value)
