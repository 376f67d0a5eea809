"""Arithmetic on trees of parameters, their checks, and running means, for all of steepen.optax; pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from .._core.ascent import ACCURATE

Mask = Any  # a tree of booleans, a prefix of one, or a callable of the parameters that returns either
Selection = list[bool]  # which leaves are perturbed, in the order of the leaves


class Mean(NamedTuple):
    """A running mean: an exponentially weighted sum of values, and the sum of the weights."""

    total: jax.Array
    weight: jax.Array

    @property
    def value(self) -> jax.Array:
        """The mean; NaN without values."""
        return self.total / self.weight

    def updated(self, value: Any, weight: float, when: Any = True) -> Mean:
        """Return the mean with a new value; values that are not finite are ignored."""
        use = jnp.logical_and(when, jnp.isfinite(value))
        total = jnp.where(use, self.total + weight * (value - self.total), self.total)
        return Mean(total, jnp.where(use, self.weight + weight * (1 - self.weight), self.weight))


def check(params: Any) -> None:
    """Raise an error for parameters without a gradient, with the name of the first."""
    if not jax.tree.leaves(params):
        raise ValueError(f"params: expected at least one array, got {params!r}")
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if not (isinstance(leaf, float) or jnp.issubdtype(getattr(leaf, "dtype", object), jnp.floating)):
            what = f"an array of {leaf.dtype}" if hasattr(leaf, "dtype") else repr(leaf)
            raise TypeError(
                f"params: expected arrays of real numbers, got {what} at "
                f"{jax.tree_util.keystr(path) or 'the root'}; split it off, with equinox.partition(model, "
                "equinox.is_inexact_array) or nnx.split(model, nnx.Param, ...)"
            )


def select(mask: Mask, params: Any) -> Selection:
    """Return which leaves are perturbed."""
    mask = mask(params) if callable(mask) else mask
    if mask is None:
        return [True] * len(jax.tree.leaves(params))
    try:
        chosen = jax.tree.leaves(jax.tree.map(lambda m, part: jax.tree.map(lambda _: m, part), mask, params))
    except ValueError as error:
        raise ValueError(
            f"mask: expected a tree of booleans like the parameters, or a prefix of it; {error}"
        ) from None
    if not all(isinstance(m, bool) for m in chosen):
        raise TypeError(f"mask: expected True or False for each parameter, got {mask!r}")
    if not any(chosen):
        raise ValueError("mask: expected at least one parameter to perturb, got none")
    return chosen


def perturbed(params: Any, mask: Mask = None) -> list[str]:
    """Return the names of the parameters that an ascent step moves.

    Examples
    --------
    >>> params = {"actor": {"w": jnp.ones(2)}, "critic": {"w": jnp.ones(2)}}
    >>> perturbed(params, mask={"actor": True, "critic": False})
    ["['actor']['w']"]
    """
    leaves = zip(jax.tree_util.tree_leaves_with_path(params), select(mask, params), strict=True)
    return [jax.tree_util.keystr(path) for (path, _), chosen in leaves if chosen]


def _is_hole(node: Any) -> bool:
    return isinstance(node, optax.MaskedNode)


def around(params: Any, all_params: Any) -> Callable[[Any], Any]:
    """Return a function from the parameters that a transformation sees to all of them.

    `optax.masked` and `optax.partition` show it a part of them, with holes.
    """
    if not any(map(_is_hole, jax.tree.leaves(params, is_leaf=_is_hole))):
        return lambda part: part
    if all_params is None:
        raise ValueError(
            "all_params: a transformation inside optax.masked or optax.partition sees a part of the "
            "parameters; pass all of them, update(g, state, params, …, all_params=params)"
        )

    def filled(part: Any) -> Any:
        return jax.tree.map(lambda a, b: b if _is_hole(a) else a, part, all_params, is_leaf=_is_hole)

    return filled


def part_of(tree: Any, params: Any) -> Any:
    """Return a tree like all parameters with the holes that these have."""
    return jax.tree.map(lambda a, b: a if _is_hole(a) else b, params, tree, is_leaf=_is_hole)


def wide(params: Any) -> Any:
    """Return the dtype of norms: the widest of the parameters' dtypes, at least float32."""
    return jnp.result_type(jnp.float32, *jax.tree.leaves(params))


def accuracy(params: Any, dtype: Any = None) -> float:
    """Return the length, relative to ‖x‖, at which a difference is accurate for the least precise leaf."""
    kinds = [dtype] if dtype is not None else [jnp.result_type(leaf) for leaf in jax.tree.leaves(params)]
    names = [jnp.dtype(kind).name for kind in kinds]
    if not set(names) <= set(ACCURATE):
        raise ValueError(f"dtype: expected the precision of the passes, {', '.join(ACCURATE)}; got {kinds}")
    return max(ACCURATE[name] for name in names)


def vdot(a: Any, b: Any, selection: Selection | None = None) -> jax.Array:
    """Return the inner product of two trees, over all leaves or those selected: sums, which XLA fuses."""
    kind, leaves = wide(a), jax.tree.leaves(a)
    chosen = zip(leaves, jax.tree.leaves(b), selection or [True] * len(leaves), strict=True)
    products = [jnp.asarray(x, kind) * jnp.asarray(y, kind) for x, y, m in chosen if m]
    return sum((product.sum() for product in products), jnp.zeros((), kind))


def norm(tree: Any, selection: Selection | None = None) -> jax.Array:
    """Return the Euclidean norm of all leaves, or of those selected."""
    return jnp.sqrt(vdot(tree, tree, selection))


def add(params: Any, c: Any, along: Any, selection: Selection | None = None) -> Any:
    """Return params + c·along, in the precision of each leaf; leaves not selected are unchanged."""
    leaves, tree = jax.tree.flatten(params)
    chosen = selection or [True] * len(leaves)
    moved = [
        x + jnp.asarray(c * s, jnp.result_type(x)) if m else x
        for x, s, m in zip(leaves, jax.tree.leaves(along), chosen, strict=True)
    ]
    return jax.tree.unflatten(tree, moved)
