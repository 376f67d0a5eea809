"""Conversion between points, which may be pytrees, and vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ._jax import jax, jnp


@dataclass(frozen=True)
class Shape:
    """The structure of a point: its tree, and the shapes and dtypes of its leaves."""

    tree: Any
    leaves: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]

    @property
    def dtype(self) -> Any:
        """The dtype of a point as a vector: the widest of its leaves."""
        return jnp.result_type(*self.dtypes)

    @property
    def size(self) -> int:
        """The number of variables of a point."""
        return sum(math.prod(shape) for shape in self.leaves)

    @property
    def example(self) -> Any:
        """The shapes and dtypes of a point."""
        types = map(jax.ShapeDtypeStruct, self.leaves, self.dtypes)
        return jax.tree.unflatten(self.tree, list(types))

    def vector(self, point: Any, rows: int | None = None) -> Any:
        """Return a point as a vector; with `rows`, points with a leading axis as a matrix."""
        lead, leaves = () if rows is None else (rows,), jax.tree.leaves(point)
        if len(leaves) == 1 and isinstance(leaves[0], jax.Array) and leaves[0].ndim == len(lead) + 1:
            return leaves[0]
        flat = [
            jnp.reshape(jnp.asarray(leaf, dtype), (*lead, -1)).astype(self.dtype)
            for leaf, dtype in zip(leaves, self.dtypes, strict=True)
        ]
        return flat[0] if len(flat) == 1 else jnp.concatenate(flat, axis=-1)

    def point(self, x: Any) -> Any:
        """Return a vector as a point, or a matrix as points with a leading axis."""
        leaves: list[Any] = []
        begin = 0
        for shape, dtype in zip(self.leaves, self.dtypes, strict=True):
            end = begin + math.prod(shape)
            leaves.append(jnp.reshape(x[..., begin:end], (*x.shape[:-1], *shape)).astype(dtype))
            begin = end
        return jax.tree.unflatten(self.tree, leaves)


def shape_of(x0: Any, batch: bool) -> Shape:
    """Return the shape of a point, or of the points of a batch; raise an error unless leaves are floats."""
    named, tree = jax.tree_util.tree_flatten_with_path(x0)
    if not named:
        raise ValueError(f"x0: expected a point, got a tree without leaves, {x0!r}")
    arrays: list[Any] = []
    for path, leaf in named:
        name = "x0" + jax.tree_util.keystr(path)
        try:
            array = jnp.asarray(leaf)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: expected an array, got {leaf!r}; pass it in args") from error
        if str(array.dtype) not in ("float32", "float64"):
            raise TypeError(f"{name}: expected float32 or float64 numbers, got dtype {array.dtype}")
        arrays.append(array)
    shapes = [tuple(a.shape) for a in arrays]
    if batch:
        rows = {shape[:1] for shape in shapes}
        if len(rows) != 1 or rows == {()}:
            raise ValueError(f"x0: expected one leading axis, the same for all leaves, got shapes {shapes}")
        shapes = [shape[1:] for shape in shapes]
    if any(0 in a.shape for a in arrays):
        raise ValueError(f"x0: expected non-empty points, got shapes {shapes}")
    return Shape(tree, tuple(shapes), tuple(a.dtype for a in arrays))
