"""Is a function still the same? Told by what it reads, without tracing it again; imports no JAX."""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections.abc import Hashable
from typing import Any, cast

import numpy as np

LIBRARIES = {*sys.stdlib_module_names, "jax", "jaxlib", "numpy", "optax", "equinox", "steepen"}
"""Packages whose functions do not change."""

RULE = ("fun", "jvp", "fwd", "bwd", "nondiff_argnums", "symbolic_zeros")
"""What a function with derivative rules has of the user's."""

FEW = 4096
"""An array of NumPy's, which may change, is compared if it has no more numbers."""


class Unknown(Exception):
    """What a function reads cannot be told from what it may read at its next call."""


class Alive:
    """An object that equals itself alone, while it lives."""

    def __init__(self, value: Any):
        self._place, self._value = id(value), weakref.ref(value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Alive):
            return False
        value = self._value()
        return value is not None and value is other._value()

    def __hash__(self) -> int:
        return self._place


def identity(*values: Any) -> Hashable | None:
    """Return what tells functions and their constants from those of another call; None if nothing does.

    A function is its code, its defaults, and all that it reads from its closure and from the globals of its
    module. Attributes of objects of one's own classes are not followed.

    Examples
    --------
    >>> def scaled(by):
    ...     return lambda x: by * x
    >>> identity(scaled(2.0)) == identity(scaled(2.0)), identity(scaled(2.0)) == identity(scaled(3.0))
    (True, False)
    """
    try:
        return tuple(_contents(value, frozenset()) for value in values)
    except (Unknown, RecursionError):
        return None


def _contents(value: Any, above: frozenset[int]) -> Hashable:
    kind = cast("type[Any]", type(value))
    if value is None or kind in (bool, int, str, bytes, types.BuiltinFunctionType, types.CodeType):
        return kind, value
    if kind in (float, complex):
        return kind, repr(value)
    if isinstance(value, np.ndarray | np.generic):
        array = cast("np.ndarray[Any, Any]", value)
        if array.size > FEW or array.dtype.kind == "O":
            raise Unknown
        return kind, array.shape, array.dtype, array.tobytes()
    if _is_array(kind):
        return Alive(value)
    if id(value) in above:  # it reads itself
        return "above"
    follow = functools.partial(_contents, above=above | {id(value)})
    if kind in (tuple, list, set, frozenset):
        return kind, tuple(map(follow, value))
    if kind is dict:
        return kind, tuple((follow(key), follow(one)) for key, one in value.items())
    if kind is types.ModuleType:
        if _is_library(value.__name__):
            return kind, value.__name__
    elif kind is types.FunctionType:
        return _function(value, follow)
    elif kind is types.MethodType:
        return kind, follow(value.__func__), follow(value.__self__)
    elif kind is functools.partial:
        return kind, follow(value.func), follow(value.args), follow(value.keywords)
    elif kind.__name__ == "PjitFunction":
        return Alive(value), follow(value.__wrapped__)
    elif kind.__name__ in ("custom_jvp", "custom_vjp") and _is_library(kind.__module__):
        return kind, follow([getattr(value, name, None) for name in RULE])
    elif isinstance(value, type) and _is_library(value.__module__):
        return Alive(value)
    raise Unknown


def _function(fun: Any, follow: Any) -> Hashable:
    """Return the code of a function, and what it reads."""
    try:
        cells = tuple(cell.cell_contents for cell in fun.__closure__ or ())
    except ValueError:  # a cell that is still empty
        raise Unknown from None
    reads: dict[str, Any] = {}
    if not _is_library(fun.__globals__.get("__name__", "")):
        reads = {name: fun.__globals__[name] for name in _names(fun.__code__) if name in fun.__globals__}
    own = {name: one for name, one in cast("dict[str, Any]", vars(fun)).items() if name != "__wrapped__"}
    return fun.__code__, follow((fun.__defaults__, fun.__kwdefaults__, cells, reads, own))


@functools.lru_cache(maxsize=256)
def _names(code: types.CodeType) -> tuple[str, ...]:
    """Return the names that a function and those inside of it may read."""
    inner = (one for one in code.co_consts if isinstance(one, types.CodeType))
    return tuple(dict.fromkeys((*code.co_names, *(name for one in inner for name in _names(one)))))


def _is_array(kind: type[Any]) -> bool:
    """Return whether this is JAX's type of arrays, which do not change; not that of its tracers."""
    return kind.__name__ == "ArrayImpl" and _is_library(kind.__module__)


def _is_library(module: str) -> bool:
    return module.partition(".")[0] in LIBRARIES
