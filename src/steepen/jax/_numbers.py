"""Norms, products and ratios of traced vectors."""

from __future__ import annotations

from typing import Any

from ._jax import jax, jnp
from .trees import alike, apart


def dot(a: Any, b: Any) -> Any:
    """Return the inner product."""
    return jnp.sum(a * b)


def times(matrix: Any, v: Any) -> Any:
    """Return a matrix times a vector, or a vector times a matrix, in full precision on any device."""
    return jnp.matmul(matrix, v, precision="highest")


def norm(v: Any) -> Any:
    """Return the Euclidean norm."""
    return jnp.sqrt(dot(v, v))


def safe_norm(v: Any) -> Any:
    """Return the Euclidean norm, also where its square is out of range."""
    size = jnp.max(jnp.abs(v))
    unit = v / jnp.where(size > 0, size, 1.0)
    return size * norm(unit)


def finite(v: Any) -> Any:
    """Return whether all entries are finite."""
    return jnp.isfinite(v).all()


SMALL = 4096  # an array of more numbers is updated in place; to write all of a smaller one is faster


def put(rows: Any, place: Any, row: Any, wanted: Any) -> Any:
    """Return an array with another row at a place, if it is wanted."""
    row = jnp.asarray(row, rows.dtype)
    if rows.size > SMALL:
        old = jax.lax.dynamic_index_in_dim(rows, place, keepdims=False)
        return jax.lax.dynamic_update_index_in_dim(rows, jnp.where(wanted, row, old), place, 0)
    here = (jnp.arange(rows.shape[0]) == place) & wanted
    return jnp.where(here.reshape(-1, *(1,) * (rows.ndim - 1)), row, rows)


def same_types(new: Any, old: Any) -> Any:
    """Return a state with the types of another one, as loops ask for."""
    found = jax.tree.map(lambda a, b: jnp.asarray(a, jnp.asarray(b).dtype), new, old)
    return alike(found, apart(old))
