"""JAX, without its types: most of them are unknown."""

from __future__ import annotations

from typing import Any

from .._tools.optional import load

jax: Any = load("jax", "steepen.jax", extra="jax")
jnp: Any = load("jax.numpy", "steepen.jax", extra="jax")
cg: Any = load("jax.scipy.sparse.linalg", "steepen.jax", extra="jax").cg
