"""What JAX cannot trace, said in the user's terms before anything is compiled."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import numpy as np

from ._jax import jax, jnp
from ._points import Shape

ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


OTHERS = tuple(str(Path(place).parent) for place in (jax.__file__, np.__file__, Path(__file__).parent))
"""Where the code is that is not the user's."""


def traceable(fun: Any, shape: Shape, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """Return the function, and what it closes over that is traced; refuse one that has no values.

    A function that closes over something traced is made anew, with that as further arguments.
    """
    x = jax.ShapeDtypeStruct((shape.size,), shape.dtype)
    example = jax.eval_shape(shape.point, x)
    try:
        found = jax.eval_shape(fun, example, *args)
        hoisted, consts = jax.closure_convert(fun, jax.tree.map(jnp.zeros_like, example), *args)
    except ERRORS as error:
        raise TypeError(
            f"fun: JAX cannot trace it{_line(error)}; write it with jax.numpy, without branches on values, "
            'or use engine="eager"'
        ) from error
    leaves = jax.tree.leaves(found)
    if len(leaves) != 1 or leaves[0].shape != () or not jnp.issubdtype(leaves[0].dtype, jnp.floating):
        raise TypeError(f"fun: expected a real number, got {found!r}")
    if jnp.finfo(leaves[0].dtype).bits < jnp.finfo(shape.dtype).bits:
        raise TypeError(f"fun: expected {shape.dtype} values, as x0 is, got {leaves[0].dtype}; cast x0 or f")
    return (hoisted, tuple(consts)) if consts else (fun, ())


def named(name: str, schedule: Any) -> None:
    """Refuse a schedule that branches on k."""
    try:
        jax.eval_shape(schedule, jax.ShapeDtypeStruct((), jnp.int32))
    except ERRORS as error:
        raise TypeError(
            f"{name}: {schedule!r} cannot be traced{_line(error)}: it branches on k; use jax.numpy.where, "
            "or schedules.Table"
        ) from error


def _line(error: Exception) -> str:
    """Return where the user's own code was left."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(OTHERS):
            return f" (line {frame.lineno} of {Path(frame.filename).name}: {frame.line})"
    return ""
