"""How the state of a run lies in a file: records taken apart into named arrays, and put together again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, adopt, is_numpy, to_numpy
from .backends import Backend

KINDS: dict[str, Any] = {
    "Scalar": np.float64, "MaybeScalar": np.float64, "Whole": np.int64, "int": np.int64, "Mask": np.bool_,
}  # fmt: skip
"""The dtype of what is annotated so in a record; an Array keeps its own."""

NONE = np.empty(0)
"""What stands for None."""

EACH = ("point.f", "best.f", "state.active")
"""What has one value a row in every batch; other scalars may have one for all."""


class Unfit(Exception):
    """What is wrong with a file, in words that follow its name."""


def require(true: Any, what: str) -> None:
    """Raise Unfit unless all is true."""
    if not np.all(true):
        raise Unfit(f"does not fit the run: {what}")


def parts(record: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield the name, the kind and the value of what is kept of a record, or of what a dict holds."""
    if isinstance(record, dict):
        yield from ((name, "", value) for name, value in cast("dict[str, Any]", record).items())
    elif is_dataclass(record):
        for field in fields(record):
            if not field.metadata.get("transient"):
                yield field.name, str(field.type), getattr(record, field.name)
    else:
        kinds: dict[str, Any] = getattr(record, "__annotations__", {})  # an empty tuple has none
        for name, kind in kinds.items():
            yield name, getattr(kind, "__forward_arg__", ""), getattr(record, name)


def is_record(value: Any) -> bool:
    """Return whether this is a record, or a dict, and no single value."""
    return isinstance(value, dict | tuple) or is_dataclass(value)


def apart(name: str, record: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays of a record by name."""
    arrays: dict[str, NDArray[Any]] = {}
    for part, kind, value in parts(record):
        inner = f"{name}.{part}"
        if is_record(value):
            arrays |= apart(inner, value)
        else:
            arrays[inner] = NONE if value is None else np.asarray(to_numpy(value), dtype=KINDS.get(kind))
    return arrays


class Saved:
    """The arrays of a file, taken out one by one as the run has them until none is left."""

    def __init__(self, arrays: dict[str, NDArray[Any]], backend: Backend, like: Array):
        self.arrays, self._backend, self._like = arrays, backend, like
        self.live: int | None = backend.size
        """How many rows are left."""
        self.k = 0
        """How many iterations were made."""

    def pop(self, name: str) -> NDArray[Any]:
        """Return an array, in the layout that it was written in."""
        if name not in self.arrays:
            raise Unfit(f"lacks a part of the run: {name}")
        return self.arrays.pop(name)

    def take(self, name: str, dtype: Any, *shapes: tuple[int, ...], none: bool = False) -> Any:
        """Return what has this dtype and one of these shapes; a plain number where the shape is ()."""
        value = self.pop(name)
        if none and value.shape == NONE.shape:
            return None
        if value.dtype != dtype or value.shape not in shapes:
            raise Unfit(
                f"does not fit the run: {name} has shape {value.shape} and dtype {value.dtype}, "
                f"not {' or '.join(map(str, shapes))} and {np.dtype(dtype)}"
            )
        return value if value.ndim else value.item()

    def value(self, name: str, kind: str, rows: int | None, like: Any = None) -> Any:
        """Return a vector (or what has the shape of `like`), or what has one value a row or one for all.

        What has no kind that is known belongs to a direction of the user's own, and need only be numbers.
        """
        if kind.removeprefix("Maybe") not in ("Array", *KINDS):
            return self._numbers(name, rows)
        lead, none = () if rows is None else (rows,), kind.startswith("Maybe")
        if kind.endswith("Array"):
            like = self._like if like is None else like
            shape = (*lead, *like.shape[len(lead) :])
            value = self.take(name, to_numpy(like).dtype, shape, none=none)
            return value if value is None or is_numpy(like) else adopt(like, value)
        shapes = [lead] if name.endswith(EACH) else [(), lead]
        return self.take(name, KINDS[kind], *shapes, none=none)

    def record(self, name: str, like: Any, rows: int | None) -> Any:
        """Return a record such as this one."""
        if isinstance(like, dict):
            return self._free(name, cast("dict[str, Any]", like), rows)
        found: dict[str, Any] = {}
        for part, kind, value in parts(like):
            inner = f"{name}.{part}"
            if is_record(value):
                found[part] = self.record(inner, value, rows)
            else:
                found[part] = self.value(inner, kind, rows, value)
        return type(like)(**found) if found else like

    def _free(self, name: str, like: dict[str, Any], rows: int | None) -> dict[str, Any]:
        """Return what a direction keeps in a dict: what it had at the start, and maybe more."""
        found = {key for key in self.arrays if key.startswith(f"{name}.")}
        keys = sorted(found | {f"{name}.{part}" for part in like})
        return {key.removeprefix(f"{name}."): self._numbers(key, rows) for key in keys}

    def _numbers(self, name: str, rows: int | None) -> Any:
        value = self.pop(name)
        require(value.dtype.kind in "biuf", f"{name} has dtype {value.dtype}")
        require(value.ndim == 0 or rows in (None, len(value)), f"{name} has shape {value.shape}")
        # scalars of a run live on the host, whatever library its vectors belong to
        return value if is_numpy(self._like) or value.ndim < self._like.ndim else adopt(self._like, value)
