"""`steepen.jax.minimize`: check the arguments, and run the program, which is compiled if it is new."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple, Unpack, cast

import numpy as np

from .._call.arguments import tuple_of
from .._call.keywords import RunSettings, complete, spelled_out
from .._tools.check import whole
from .._tools.traces import Same
from ..methods import Method
from ..space import limits_of, rounded
from ..status import Status
from ._continued import continued
from ._derivative import differentiable
from ._jax import compiled, is_traced, jax, jnp, plain
from ._program import Inputs, Program, Shape, is_numeric, needed, traceable, vector_of
from ._settings import filled
from ._slots import solve
from ._solution import Solution
from .trees import alike, apart

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
    fun: Any, x0: Any, args: Any = (), method: str | Method = "cgd-auto", *, bounds: Any = None,
    trace: int | None = None, batch: bool | None = None, slots: int | None = None, mesh: Any = None,
    unsound: bool = False, has_aux: bool = False, throw: bool = False, **settings: Unpack[RunSettings],
) -> Solution:  # fmt: skip
    """Minimise a function that JAX can trace, in one compiled program.

    It may be called inside `jit`, `vmap` and `scan`, and differentiated with respect to `args`, to what fun
    closes over, and to the bounds. A derivative that does not exist is NaN. fun is compiled again if it has
    changed; arrays that it reads, and all numbers below, may change without that.

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
    throw : bool
        Raise a RuntimeError if a run ends without success; inside of `jit`, when the program has run.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, steepen.jax as sj
    >>> def fun(x, a):
    ...     return ((x - a) ** 2).sum() + (x**4).sum()
    >>> sol = sj.minimize(fun, jnp.zeros(2), (jnp.array([1.0, 2.0]),), method="bfgs")
    >>> bool(sol.success)
    True
    """
    asked = prepared(fun, x0, args, method, bounds, trace, batch, mesh, has_aux, settings)
    whole("slots", 1 if slots is None else slots, 1)
    program, x, inputs, mesh = asked.program, asked.x, asked.inputs, asked.mesh
    rows = int(x.shape[0]) if x.ndim == 2 else None
    still_x, still_inputs = still = held((x, inputs)) if is_traced((x, inputs)) else (x, inputs)
    found = solve(program, still_x, still_inputs, slots, mesh)
    if not is_traced((still, found)):
        found = continued(program, still_x, still_inputs, found)
    if mesh is not None and mesh.explicit_axes and is_traced(inputs) and not is_traced(still):
        # a direct call is differentiated: JAX maps no solve over explicit axes
        found = jax.tree.map(np.asarray, found)
    # a derivative reads the rules of the user's themselves
    rules = Same(program.fun) if program.fun.ruled and is_traced(inputs) else None
    found = _finished(program, rows, unsound, is_traced(inputs), rules, found, inputs)
    if throw:
        thrown(found.status)
    return found._replace(aux=jax.tree.unflatten(asked.aux, found.aux) if has_aux else None)


def held(arrays: Any) -> Any:
    """Return arrays through which no derivative passes."""
    return jax.tree.map(jax.lax.stop_gradient, arrays)


class Prepared(NamedTuple):
    """What a call asks for: a program, the starts, its arguments; the tree of the aux; the devices."""

    program: Program
    x: Any
    inputs: Inputs
    aux: Any
    mesh: Any


def prepared(
    fun: Any, x0: Any, args: Any, method: str | Method, bounds: Any, trace: int | None, batch: bool | None,
    mesh: Any, has_aux: bool, settings: RunSettings,
) -> Prepared:  # fmt: skip
    """Check the arguments, and trace fun if it is new."""
    if not callable(fun):
        raise TypeError(f"fun: expected a callable, got {fun!r}")
    x, shape = vector_of(x0, batch)
    numeric = jax.tree.map(lambda leaf: leaf if is_numeric(leaf) else None, args := tuple_of(args))
    static, numbers = filled(x.shape, shape.dtype, method, **complete(settings, RunSettings, NAME))
    whole("trace", 1 if trace is None else trace, 1)
    if mesh is not None and not isinstance(mesh, jax.sharding.Mesh):
        raise TypeError(f"mesh: expected a jax.sharding.Mesh, got {mesh!r}")
    sides = sides_of(bounds, shape)
    x = alike(x, apart((x, numeric, numbers, sides)))  # inside a `shard_map` it varies as the others do
    mesh = None if x.ndim == 1 else _mesh_of(x) if mesh is None else mesh
    with nullcontext() if mesh is None else jax.sharding.use_abstract_mesh(NO_MESH):  # it runs on each device
        traced, reads, aux = traceable(fun, shape, x, args, numeric, needed(static), has_aux)
    inputs = Inputs((*jax.tree.leaves(numeric), *reads), numbers, sides)
    return Prepared(Program(traced, shape, static, trace), x, inputs, aux, mesh)


def thrown(status: Any) -> None:
    """Raise an error if a run has ended without success; from a program, as soon as it has run."""
    if is_traced(status):
        jax.debug.callback(_raise, status)
    else:
        _raise(status)


def _raise(status: Any) -> None:
    for row, code in enumerate(np.ravel(status).tolist()):
        if not (end := Status(code)).success:
            where = f" of start {row}" if np.ndim(status) else ""
            raise RuntimeError(f"minimize: the run{where} ended with {end.name}. {end.message}")


def _mesh_of(starts: Any) -> Any:
    """Return the mesh with explicit axes over which the starts are sharded, if any."""
    mesh = jax.typeof(starts).sharding.mesh
    return None if mesh.empty or mesh.manual_axes or not mesh.explicit_axes else mesh


@compiled(5)
def _finished(
    program: Program, rows: int | None, unsound: bool, differentiated: bool, rules: Any, found: Solution,
    inputs: Inputs,
) -> Solution:  # fmt: skip
    """Return the solution without the padding of a batch, with x and f differentiable by the inputs."""
    point, tied, aux = program.shape.point, partial(differentiable, program), program.aux
    if rows is not None:
        found = jax.tree.map(lambda a: a[:rows], found)
        tied, aux = jax.vmap(tied, (0, 0, 0, None, None, None, 0)), jax.vmap(aux, (0, None))
    x, f = found.x, found.fun
    if differentiated:
        gtol = jax.lax.stop_gradient(jnp.asarray(program.parts(inputs.numbers).tolerances.g))
        x, f = tied(x, f, found.jac, inputs.args, inputs.bounds, gtol, found.success | unsound)
    return found._replace(
        x=point(x), fun=f, jac=point(found.jac), best_x=point(found.best_x), aux=aux(x, inputs.args)
    )


def sides_of(bounds: Any, shape: Shape) -> tuple[Any, Any] | None:
    """Return the bounds as two vectors, checked unless they are traced."""
    if bounds is None:
        return None
    if isinstance(bounds, Bounds):
        low, high = (_side(name, side, shape) for name, side in bounds._asdict().items())
        if is_traced((low, high)):
            return low, high
        bounds = np.stack([low, high], axis=-1)
    sides = cast("list[Any]", bounds if isinstance(bounds, tuple | list) else [])
    if len(sides) == 2 and any(isinstance(side, dict) or getattr(side, "ndim", 0) for side in sides):
        raise ValueError(
            "bounds: expected Bounds(low, high) or pairs of numbers; got two arrays or trees, which is "
            f"ambiguous: {bounds!r}"
        )
    low, high = rounded(*limits_of(bounds, shape.size), shape.dtype)
    return jnp.asarray(low, shape.dtype), jnp.asarray(high, shape.dtype)


def _side(name: str, side: Any, shape: Shape) -> Any:
    if jax.tree_util.all_leaves([side]) and not np.ndim(side):
        return jnp.full(shape.size, side, shape.dtype)
    if (tree := jax.tree.structure(side)) != shape.tree:
        raise ValueError(
            f"bounds: expected {name} to be a number or a tree like x0, {shape.tree}; got {tree}"
        )
    arrays = zip(jax.tree.leaves(side), shape.leaves, strict=True)
    return shape.vector([jnp.broadcast_to(jnp.asarray(a, like.dtype), like.shape) for a, like in arrays])
