"""Points that are pytrees, as vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ._jax import jax, jnp


@dataclass(frozen=True)
class Shape:
    """The structure of a point: its tree, and the shapes of its leaves."""

    tree: Any
    leaves: tuple[tuple[int, ...], ...]
    dtype: Any

    @property
    def size(self) -> int:
        """How many numbers a point has."""
        return sum(math.prod(shape) for shape in self.leaves)

    def vector(self, point: Any, rows: int | None = None) -> Any:
        """Return a point as a vector, or points with a leading axis as rows."""
        lead = () if rows is None else (rows,)
        flat = [jnp.reshape(jnp.asarray(leaf, self.dtype), (*lead, -1)) for leaf in jax.tree.leaves(point)]
        return flat[0] if len(flat) == 1 else jnp.concatenate(flat, axis=-1)

    def point(self, x: Any) -> Any:
        """Return a vector (or the rows of a batch) as a point."""
        leaves: list[Any] = []
        begin = 0
        for shape in self.leaves:
            end = begin + math.prod(shape)
            leaves.append(jnp.reshape(x[..., begin:end], (*x.shape[:-1], *shape)))
            begin = end
        return jax.tree.unflatten(self.tree, leaves)


def shape_of(x0: Any, batch: bool) -> Shape:
    """Return the shape of a point, or of the points of a batch, and refuse what is none."""
    leaves, tree = jax.tree.flatten(x0)
    if not leaves:
        raise ValueError(f"x0: expected a point, got a tree without leaves, {x0!r}")
    try:
        arrays: list[Any] = [jnp.asarray(leaf) for leaf in leaves]
    except (TypeError, ValueError) as error:
        raise ValueError(f"x0: expected an array, or a pytree of them, got {x0!r}") from error
    dtype = jnp.result_type(*arrays)
    if jnp.issubdtype(dtype, jnp.integer):
        dtype = jnp.result_type(float)
    if str(dtype) not in ("float32", "float64"):
        raise TypeError(f"x0: expected float32 or float64 numbers, got dtype {dtype}")
    shapes = [tuple(a.shape) for a in arrays]
    if batch:
        rows = {shape[:1] for shape in shapes}
        if len(rows) != 1 or rows == {()}:
            raise ValueError(f"x0: expected one leading axis, the same for all leaves, got shapes {shapes}")
        shapes = [shape[1:] for shape in shapes]
    if any(0 in a.shape for a in arrays):
        raise ValueError(f"x0: expected points that are not empty, got shapes {shapes}")
    return Shape(tree, tuple(shapes), dtype)
