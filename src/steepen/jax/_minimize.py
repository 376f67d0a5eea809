"""`steepen.jax.minimize`: check the arguments, and run the program, which is compiled if it is new."""

# what JAX maps over has no types
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple, Unpack, cast

import numpy as np

from .._call.keywords import RunSettings, complete, spelled_out
from .._core.space import limits_of, rounded
from .._tools.check import whole
from ..directions import Direction
from ._derivative import differentiable
from ._jax import compiled, is_traced, jax, jnp, plain, ravel_pytree
from ._loop import Inputs
from ._program import Program, Shape, filled, split_args, traceable, varying_with, vector_of
from ._slots import solve, solve_many
from ._solution import Solution

NAME, NO_MESH = "steepen.jax.minimize", jax.sharding.AbstractMesh((), ())


class Bounds(NamedTuple):
    """Limits on the variables: numbers, or trees of arrays like x0; they may be traced.

    Examples
    --------
    >>> Bounds(lb=0.0)
    Bounds(lb=0.0, ub=inf)
    """

    lb: Any = -np.inf
    ub: Any = np.inf


@plain()
@spelled_out(RunSettings)
def minimize(
    fun: Any,
    x0: Any,
    args: Any = (),
    method: str | Direction = "cgd-auto",
    *,
    bounds: Any = None,
    trace: int | None = None,
    batch: bool | None = None,
    slots: int | None = None,
    mesh: Any = None,
    unsound: bool = False,
    has_aux: bool = False,
    **settings: Unpack[RunSettings],
) -> Solution:
    """Minimise a function that JAX can trace, in one compiled program.

    It may be called inside `jit`, `vmap` and `scan`, and differentiated with respect to `args`, to what fun
    closes over, and to the bounds. A derivative that does not exist is NaN. fun is traced at every call, and
    compiled if it has changed: arrays that it reads, and all numbers below, may change without that.

    Parameters
    ----------
    fun : callable
        f(x, *args), for one point.
    x0 : array or pytree
        A start point (n,), or a batch (B, n) of independent runs; any other pytree is one point, or with
        `batch=True` many, along a leading axis of every leaf. A leaf keeps its dtype, float32 or float64.
    args : tuple
        Pytrees of arrays and numbers; anything else in them, such as a function or a string, is a constant.
    method, step, lam, penalty, r, b, memory, switch, budget, tol, gtol, ftol, xtol, gtol_rel
        As in `steepen.minimize`; `lam`, `step`, `r` and the tolerances may be traced. A budget cannot have
        `seconds`. From 17 variables on, the default `memory` of cgd-auto is 20.
    bounds : Bounds, sequence of (low, high), or scipy.optimize.Bounds, optional
        Limits on the variables: `Bounds(low, high)`, two trees like x0, or a pair for each variable.
    trace : int, optional
        How many of the last iterates to keep.
    slots : int, optional
        How many runs of a batch are active at a time; by default 128 on a CPU and 131 072 elsewhere.
    mesh : jax.sharding.Mesh, optional
        The devices that share a batch: each does its part of the runs, in its own slots.
    unsound : bool
        Differentiate runs without success, too.
    has_aux : bool
        Whether fun returns (f, aux); the solution has the `aux` at x, which is differentiated through x.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, steepen.jax as sj
    >>> def fun(x, a):
    ...     return ((x - a) ** 2).sum() + (x**4).sum()
    >>> sol = sj.minimize(fun, jnp.zeros(2), (jnp.array([1.0, 2.0]),), method="bfgs")
    >>> bool(sol.success)
    True
    """
    if not callable(fun):
        raise TypeError(f"fun: expected a callable, got {fun!r}")
    x0 = _start(x0)
    batch = bool(getattr(x0, "ndim", None) == 2 if batch is None else batch)
    x, shape = vector_of(x0, batch)
    rows = int(x.shape[0]) if batch else None
    numeric, rest = split_args(args if isinstance(args, tuple) else (args,))
    static, numbers = filled(x.shape, shape.dtype, method, **complete(settings, RunSettings, NAME))
    for name, value in (("trace", trace), ("slots", slots)):
        whole(name, 1 if value is None else value, 1)
    if mesh is not None and not isinstance(mesh, jax.sharding.Mesh):
        raise TypeError(f"mesh: expected a jax.sharding.Mesh, got {mesh!r}")
    sides = sides_of(bounds, shape)
    x = varying_with(x, (numeric, numbers, sides))
    mesh = (_mesh_of(x) if mesh is None else mesh) if batch else None
    with nullcontext() if mesh is None else jax.sharding.use_abstract_mesh(NO_MESH):  # it runs on each device
        traced, reads, aux = traceable(fun, shape, x, numeric, rest, has_aux)
    program = Program(traced, shape, static, trace)
    inputs = Inputs((*numeric, *reads), numbers, sides)
    still, still_inputs = x, inputs
    if is_traced((x, inputs)):
        still, still_inputs = jax.tree.map(jax.lax.stop_gradient, (x, inputs))
    if rows is None:
        found = solve(program, still, still_inputs)
    else:
        found = solve_many(program, still, still_inputs, slots, mesh)
        if mesh is not None and mesh.explicit_axes and is_traced(inputs) and not is_traced(still_inputs):
            # a direct call is differentiated: JAX maps no solve over explicit axes
            found = jax.tree.map(np.asarray, found)
    found = _finished(program, rows, unsound, found, inputs)
    return found._replace(aux=jax.tree.unflatten(aux, found.aux) if has_aux else None)


def _start(x0: Any) -> Any:
    """Return the start, as an array if it is a list of numbers; raise an error if JAX has float64 off."""
    if isinstance(x0, list | int | float) and all(isinstance(a, int | float) for a in jax.tree.leaves(x0)):
        try:
            x0 = np.asarray(x0, dtype=np.float64).astype(jnp.result_type(float))
        except (TypeError, ValueError) as error:
            raise ValueError(f"x0: expected an array of numbers, or a pytree, got {x0!r}") from error
    double = "float64" in {str(getattr(leaf, "dtype", "")) for leaf in jax.tree.leaves(x0)}
    if double and not jax.config.jax_enable_x64:
        raise TypeError(
            "x0: got float64, which is disabled in JAX; enable it with "
            'jax.config.update("jax_enable_x64", True), or start from float32'
        )
    return cast(Any, x0)


def _mesh_of(starts: Any) -> Any:
    """Return the mesh with explicit axes over which the starts are sharded, if any."""
    mesh = jax.typeof(starts).sharding.mesh
    return None if mesh.empty or mesh.manual_axes or not mesh.explicit_axes else mesh


@compiled(0, 1, 2)
def _finished(program: Program, rows: int | None, unsound: bool, found: Solution, inputs: Inputs) -> Solution:
    """Return the solution without the padding of a batch, with x and f differentiable by the inputs."""
    if rows is not None:
        found = jax.tree.map(lambda a: a[:rows], found)
    point, tied, aux = program.shape.point, partial(differentiable, program), program.aux
    if rows is not None:
        tied, aux = jax.vmap(tied, (0, 0, 0, None, None, None, 0)), jax.vmap(aux, (0, None))
    gtol, sound = program.parts(inputs.numbers).tolerances.g, found.success | unsound
    gtol = jax.lax.stop_gradient(jnp.asarray(gtol))
    x, f = tied(found.x, found.fun, found.jac, inputs.args, inputs.bounds, gtol, sound)
    return found._replace(
        x=point(x), fun=f, jac=point(found.jac), best_x=point(found.best_x), aux=aux(x, inputs.args)
    )


def sides_of(bounds: Any, shape: Shape) -> tuple[Any, Any] | None:
    """Return the bounds as two vectors, checked unless they are traced."""
    if bounds is None:
        return None
    if not isinstance(bounds, Bounds):
        sides = cast("list[Any]", bounds if isinstance(bounds, tuple | list) else [])
        if len(sides) == 2 and any(isinstance(s, dict) or getattr(s, "ndim", 0) for s in sides):
            raise ValueError(
                "bounds: expected Bounds(low, high) or pairs of numbers; got two arrays or trees, which is "
                f"ambiguous: {bounds!r}"
            )
        return tuple(
            jnp.asarray(s, shape.dtype) for s in rounded(*limits_of(bounds, shape.size), shape.dtype)
        )
    sides = [_side(name, side, shape) for name, side in bounds._asdict().items()]
    if any(isinstance(side, jax.core.Tracer) for side in sides):
        return sides[0], sides[1]
    pairs = list(zip(*(np.asarray(side, float).tolist() for side in sides), strict=True))
    return sides_of(pairs, shape)


def _side(name: str, side: Any, shape: Shape) -> Any:
    leaves, tree = jax.tree.flatten(side)
    if jax.tree_util.treedef_is_leaf(tree) and not np.ndim(leaves[0]):
        return jnp.full(shape.size, leaves[0], shape.dtype)
    point = shape.example
    if tree != (expected := jax.tree.structure(point)):
        raise ValueError(f"bounds: expected {name} to be a number or a tree like x0, {expected}; got {tree}")
    wide = jax.tree.map(lambda a, like: jnp.broadcast_to(jnp.asarray(a, like.dtype), like.shape), side, point)
    return ravel_pytree(wide)[0]
