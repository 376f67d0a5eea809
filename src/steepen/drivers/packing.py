"""What a run keeps, as bytes: a tree that JSON knows, and arrays, which stand in the tree by their place.

A checkpoint and a run that is told keep the same two things: the fields of the run at an iterate (`saved`),
and the answers since, each with what tells its question (`digest`). There is no pickle, and everything has
a checksum.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np

from .._tools.database import Unfit, opened, sealed
from ..arrays import is_numpy, to_numpy
from ..questions import Point, Product, Values, Vector
from ..run import Run
from ..space import Everywhere
from ..vectors import own
from .caller import Meter

PARTS = ("problem", "method", "step", "switch", "tolerances", "start", "watched", "checked")
"""The fields of a run that are not its state."""

Inner: TypeAlias = Callable[[Any], Any]
"""Packs, or unpacks, a part of a value."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be resumed: damaged, not a checkpoint, or from a different run.

    Examples
    --------
    >>> issubclass(CheckpointError, ValueError)
    True
    """


UNREADABLE = Unfit, LookupError, TypeError, ValueError, AttributeError
"""The errors of a file that is not what it should be."""


def digest(ask: Any) -> bytes:
    """Return what tells a question."""
    vectors = ask.points if type(ask) is Values else (ask.x, ask.v) if type(ask) is Product else (ask.x,)
    found = hashlib.blake2b(type(ask).__name__.encode(), digest_size=16)
    for vector in vectors:
        found.update(np.ascontiguousarray(to_numpy(vector)).data)
    return found.digest()


# --- bytes -------------------------------------------------------------------------------------------------


def framed(*parts: bytes) -> bytes:
    """Return several pieces of bytes as one."""
    return b"".join([piece for part in parts for piece in (len(part).to_bytes(8, "little"), part)])


def unframed(content: bytes) -> list[bytes]:
    """Return the pieces of `framed`."""
    parts, at = list[bytes](), 0
    while at < len(content):
        end = at + 8 + int.from_bytes(content[at : at + 8], "little")
        parts.append(content[at + 8 : end])
        at = end
    return parts


def pack(value: Any, other: Callable[[Any, Inner], Any] | None = None) -> bytes:
    """Return a value as bytes; `other` packs what is no number, text or array, nor made of such."""
    arrays = list[Any]()
    tree = packed(value, arrays, other or _refuse)
    return sealed(framed(json.dumps(tree).encode(), *map(_array_bytes, arrays)))


def unpack(content: bytes, like: Vector = None, other: Callable[[str, Any, Inner], Any] | None = None) -> Any:
    """Return a value from its bytes; vectors are of the type of `like`."""
    tree, *arrays = unframed(opened(content))
    return unpacked(json.loads(tree), list(map(_array_of, arrays)), like, other or _unknown)


def _array_bytes(array: Any) -> bytes:
    """Return an array as its type, order of memory, shape and numbers."""
    numbers = to_numpy(array)
    order = "F" if numbers.flags.fnc else "C"
    head = " ".join((numbers.dtype.str, order, *map(str, numbers.shape)))
    return head.encode() + b"\n" + numbers.tobytes(order)


def _array_of(content: bytes) -> Any:
    """Return the array of such bytes."""
    head, _, numbers = content.partition(b"\n")
    kind, order, *shape = head.decode().split(" ")
    flat = np.frombuffer(numbers, kind).copy()
    return flat.reshape(tuple(map(int, shape)), order=cast(Any, order))


# --- values as JSON and arrays -----------------------------------------------------------------------------


def packed(value: Any, arrays: list[Any], other: Callable[[Any, Inner], Any]) -> Any:
    """Return a value as JSON has it; arrays are appended to the list, and named by their place."""
    if isinstance(value, np.generic):
        return cast(Any, value).item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    inner = partial(packed, arrays=arrays, other=other)
    if isinstance(value, Point):
        return {"point": list(map(inner, value))}
    if isinstance(value, tuple | list):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: list(map(inner, cast("list[Any]", value)))}
    if isinstance(value, Mapping):
        named = cast("Mapping[Any, Any]", value)
        return {"dict": {str(name): inner(one) for name, one in named.items()}}
    if hasattr(value, "__array__") and hasattr(value, "dtype") and to_numpy(value).dtype.kind in "biufcSU":
        arrays.append(value)
        return {"array" if is_numpy(value) else "vector": len(arrays) - 1}
    return other(value, inner)


def unpacked(tree: Any, arrays: list[Any], like: Vector, other: Callable[[str, Any, Inner], Any]) -> Any:
    """Return a value from JSON and arrays."""
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = cast("dict[str, Any]", tree).items()
    inner = partial(unpacked, arrays=arrays, like=like, other=other)
    if kind == "array":
        return arrays[content]
    if kind == "vector":
        return own(like, arrays[content])
    if kind == "dict":
        return {name: inner(one) for name, one in cast("dict[str, Any]", content).items()}
    if kind == "list":
        return list(map(inner, content))
    if kind == "tuple":
        return tuple(map(inner, content))
    return Point(*map(inner, content)) if kind == "point" else other(kind, content, inner)


def _refuse(value: Any, _: Inner) -> Any:
    raise TypeError(f"expected numbers, texts, arrays, and lists or dicts of them; got {value!r}")


def _unknown(kind: str, *_: Any) -> Any:
    raise Unfit(f"has a value of the unknown kind {kind!r}")


# --- the state of a run ------------------------------------------------------------------------------------


def saved(run: Run, meter: Meter) -> bytes:
    """Return the state of a run at an iterate, and its counts."""
    state: dict[str, Any] = {
        "run": {field.name: getattr(run, field.name) for field in fields(run) if field.name not in PARTS},
        "counts": [*meter.counts, meter.seconds],
        **{name: _fields_of(part) for name, part in _parts(run).items()},
    }
    return pack(state, _fields)


def restore(run: Run, meter: Meter, content: bytes) -> None:
    """Put a new run, and its counts, into a saved state."""
    state = unpack(content, run.start, _of_fields)
    for name, value in state["run"].items():
        setattr(run, name, value)
    meter.nfev, meter.njev, meter.nhvp, meter.nhev, meter.earlier = state["counts"]
    if run.begun:  # its memory is made, and then filled
        run.method.begin(run.problem, run.here)
    for name, part in _parts(run).items():
        _fill(part, state[name])


def _parts(run: Run) -> dict[str, Any]:
    return {"method": run.method, "step": run.step, "gradients": run.problem.gradients}


class Fields(dict[str, Any]):
    """The fields of an object within a method or step: those of the same object of the new run are set."""


SETTING = object()
"""A setting, such as a schedule: it is the same in the run that goes on, and is not kept."""


def _fields(value: Any, inner: Inner) -> Any:
    """Return an object by its fields, as far as they may change during a run."""
    if isinstance(value, set | frozenset | bytes | bytearray) or hasattr(value, "__array__"):
        kept = "numbers, texts, arrays, and tuples, lists, dicts or objects of them"
        kind = type(cast(Any, value)).__name__
        raise CheckpointError(f"checkpoint: a field of the method or step is a {kind}; it keeps {kept}")
    if not _has_state(value):
        return {"setting": None}
    return {"fields": {name: inner(one) for name, one in _fields_of(value).items()}}


def _of_fields(kind: str, content: Any, inner: Inner) -> Any:
    """Return what `_fields` has packed."""
    if kind == "fields":
        return Fields({name: inner(one) for name, one in cast("dict[str, Any]", content).items()})
    return SETTING if kind == "setting" else _unknown(kind)


def _fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of an object, if they may change during a run."""
    return cast("dict[str, Any]", vars(value)) if _has_state(value) else {}


def _has_state(value: Any) -> bool:
    """Return whether the fields of an object may change during a run."""
    frozen = is_dataclass(value) and getattr(type(value), "__dataclass_params__").frozen  # noqa: B009
    fixed = frozen or isinstance(value, Everywhere)  # or a box
    return hasattr(value, "__dict__") and not fixed and not callable(value) and not isinstance(value, type)


def _fill(thing: Any, named: Mapping[str, Any]) -> None:
    """Set the fields of an object; objects within it are filled in their turn."""
    for name in _fields_of(thing).keys() - named.keys():  # it had its default yet
        delattr(thing, name)
    for name, value in named.items():
        if isinstance(value, Fields):
            inner = getattr(thing, name, None)
            if inner is not None:
                _fill(inner, value)
        elif not _holds_setting(value):
            setattr(thing, name, value)


def _holds_setting(value: Any) -> bool:
    """Return whether this is a setting, or a tuple or the like with one."""
    if isinstance(value, tuple | list):
        return any(map(_holds_setting, cast("list[Any]", value)))
    return value is SETTING or (isinstance(value, dict) and _holds_setting([*cast(Any, value).values()]))
