"""What tells a traced function from another: its operations, its data and its derivative rules; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

UNPRINTED = re.compile(r" at 0x\w+|\bcustom_\w+(?=\[)")  # objects and derivative rules, printed by name alone
FEW = 1024  # the numbers that a derivative rule reads are compared at every call if there are no more of them


def has_rules(jaxpr: Any) -> bool:
    """Return whether a trace has derivative rules of the user's or of JAX."""
    return "custom_" in str(jaxpr)


def key_of(fun: Any, jaxpr: Any, rules: Any = None) -> tuple[Any, ...]:
    """Return what tells a traced function: its operations and their data, and itself if not all is printed.

    `rules` is the trace of its gradient, if it has derivative rules: these are printed by their names alone.
    """
    text, more = str(jaxpr), ()
    printed, constants = UNPRINTED.sub("", text), inner_constants(jaxpr)
    if rules is not None:
        data = map(_contents, (*rules.consts, *inner_constants(rules.jaxpr)))
        more = UNPRINTED.sub("", str(rules)), *data
    own = fun
    try:
        hash(fun)
    except TypeError:  # its fields have no hash
        own = id(fun)
    return printed, *more, *map(id, constants), None if printed == text else own


def _contents(data: Any) -> tuple[Any, ...]:
    """Return what tells the data of a derivative rule, a new object in every trace: its numbers, if few."""
    try:
        numbers = np.asarray(data).tobytes() if data.size <= FEW else b""
    except TypeError:  # it is being traced
        numbers = b""
    return data.shape, str(data.dtype), numbers


def inner_constants(jaxpr: Any) -> Iterator[Any]:
    """Yield the data that functions inside of a function have closed over."""
    for equation in jaxpr.eqns:
        for value in equation.params.values():
            for part in cast("list[Any]", value if isinstance(value, tuple | list) else [value]):
                if hasattr(part, "consts"):
                    yield from part.consts
                    yield from inner_constants(part.jaxpr)
                elif hasattr(part, "eqns"):
                    yield from inner_constants(part)
