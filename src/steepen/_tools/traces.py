"""What tells one trace of JAX's from another: its operations and their data; pure, imports no JAX."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, cast

import numpy as np

RULES = ("custom_jvp_call", "custom_vjp_call")
"""Operations with derivative rules of their own."""


class Same:
    """An object that equals itself alone, and is kept alive.

    Examples
    --------
    >>> one, other = [1], [1]
    >>> Same(one) == Same(one), Same(one) == Same(other)
    (True, False)
    """

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def signature(jaxpr: Any) -> Hashable:
    """Return what the operations of a trace are, whatever its variables are called.

    The trace is to be evaluated, and not differentiated: of an operation with derivative rules only the
    value counts. Arrays that the trace itself has closed over are its arguments, and count by their type;
    those of functions inside count by identity.
    """
    places: dict[Any, int] = {}

    def new(variables: Any) -> tuple[Any, ...]:
        for variable in variables:
            places[variable] = len(places)
        return tuple(variable.aval for variable in variables)

    def used(atom: Any) -> Hashable:
        return _constant(atom.val) if hasattr(atom, "val") else places[atom]

    given = new((*jaxpr.constvars, *jaxpr.invars))
    steps = tuple(
        (one.primitive, _settings(one), tuple(map(used, one.invars)), new(one.outvars)) for one in jaxpr.eqns
    )
    return len(jaxpr.constvars), given, steps, tuple(map(used, jaxpr.outvars))


def contents(data: Any) -> Hashable:
    """Return what tells an array that a trace has closed over: its numbers, or itself while it is traced."""
    try:
        return _constant(np.asarray(data))
    except TypeError:
        return Same(data)


def has_rules(jaxpr: Any) -> bool:
    """Return whether a trace has operations with derivative rules of their own."""
    return any(
        equation.primitive.name in RULES or any(map(has_rules, inner(equation))) for equation in jaxpr.eqns
    )


def inner(equation: Any) -> list[Any]:
    """Return the traces inside of an operation, such as the body of a loop."""
    found: list[Any] = []
    for value in equation.params.values():
        for part in cast("list[Any]", value if isinstance(value, tuple | list) else [value]):
            part = getattr(part, "jaxpr", part)
            if hasattr(part, "eqns"):
                found.append(part)
    return found


def longest(jaxpr: Any) -> int:
    """Return the length of the longest axis of any array."""
    atoms = [atom for one in jaxpr.eqns for atom in (*one.invars, *one.outvars)] + [*jaxpr.invars]
    axes = [axis for atom in atoms for axis in getattr(atom.aval, "shape", ())]
    deeper = [longest(part) for one in jaxpr.eqns for part in inner(one)]
    return max((axis for axis in (*axes, *deeper) if isinstance(axis, int)), default=0)


def _settings(equation: Any) -> Hashable:
    if equation.primitive.name in RULES:
        return _constant(equation.params["call_jaxpr"])
    return tuple((name, _constant(value)) for name, value in equation.params.items())


def _constant(value: Any) -> Hashable:
    """Return what tells a constant of a trace."""
    if hasattr(value, "eqns") and hasattr(value, "jaxpr"):  # a closed one
        return signature(value.jaxpr), tuple(map(Same, value.consts))
    if hasattr(value, "eqns"):
        return signature(value)
    if isinstance(value, tuple | list):
        return tuple(map(_constant, cast("list[Any]", value)))
    if isinstance(value, dict):
        return tuple((key, _constant(one)) for key, one in cast("dict[Any, Any]", value).items())
    if isinstance(value, float | complex | np.ndarray | np.generic):
        array = np.asarray(cast(Any, value))
        if array.dtype.kind != "O":
            return _kind(value), array.shape, array.dtype, array.tobytes()
    constant = cast(Any, value)
    try:
        hash(constant)
    except TypeError:
        return Same(constant)
    return _kind(constant), constant


def _kind(value: Any) -> type[Any]:
    return cast("type[Any]", type(value))
