"""JAX's errors at code that it cannot trace, in words that name the line."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ._jax import jax

ERRORS = (
    jax.errors.ConcretizationTypeError, jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError, jax.errors.TracerIntegerConversionError,
)  # fmt: skip

OTHERS = tuple(str(Path(place).parent) for place in (jax.__file__, np.__file__, Path(__file__).parent))
"""Directories of code that is not the user's."""


@contextmanager
def readable(what: str, advice: str) -> Iterator[None]:
    """Turn JAX's errors at code that it cannot trace into one that names the line of the user's code."""
    try:
        yield
    except ERRORS as error:
        frames = reversed(traceback.extract_tb(error.__traceback__))
        own = (frame for frame in frames if not frame.filename.startswith(OTHERS))
        line = next((f" (line {f.lineno} of {Path(f.filename).name}: {f.line})" for f in own), "")
        raise TypeError(f"{what}{line}; {advice}, or call steepen.minimize, the eager engine") from error
