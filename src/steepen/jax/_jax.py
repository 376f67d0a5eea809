"""JAX, without its types: most of them are unknown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._tools.optional import load

jax: Any = load("jax", "steepen.jax", extra="jax")
jnp: Any = load("jax.numpy", "steepen.jax", extra="jax")
cg: Any = load("jax.scipy.sparse.linalg", "steepen.jax", extra="jax").cg


@contextmanager
def plain() -> Iterator[None]:
    """Let numbers of different types and ranks meet, also where the user's own programs forbid it."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield
