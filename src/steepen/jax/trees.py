"""Trees of arrays that vary over devices inside of a `shard_map`, for JAX and optax; pure."""

from __future__ import annotations

from typing import Any

from ._jax import jax, jnp


def apart(arrays: Any) -> Any:
    """Return a mask, False, that varies over devices as the arrays do; None outside of a `shard_map`."""
    if not jax.sharding.get_abstract_mesh().manual_axes:
        return None
    return sum(jnp.zeros_like(a, dtype=bool).any() for a in jax.tree.leaves(arrays)) > 0


def alike(tree: Any, mask: Any) -> Any:
    """Return arrays that vary over devices as the mask does, since loops and branches need matching types."""
    return tree if mask is None else jax.tree.map(lambda a: jnp.where(mask, a, a), tree)
