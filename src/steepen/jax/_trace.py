"""The user's function, traced at every call.

A program is looked up by the operations of the function, not by its identity: a method may do something
else once its object has changed, and a new function may do the same as an old one. Arrays that the function
reads (of a closure, an attribute or a global) are arguments of the program.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from .._core.backends.traced import alike, apart
from ._jax import core, jax, jnp
from ._points import Shape

ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


OTHERS = tuple(str(Path(place).parent) for place in (jax.__file__, np.__file__, Path(__file__).parent))
"""Directories of code that is not the user's."""


class Traced:
    """A traced function; two with the same operations are equal.

    A custom derivative rule cannot be compared, so a function with one equals only itself.
    """

    def __init__(self, fun: Any, jaxpr: Any):
        self.jaxpr, self._fun = jaxpr, fun  # kept alive, so that no other function gets its id
        forms = _Forms()
        form = forms.of(jaxpr)
        self.longest = forms.longest
        own = fun if isinstance(fun, Hashable) else id(fun)
        self._form = form, own if forms.rules else None
        self._hash = hash(self._form)

    def __call__(self, point: Any, *args: Any) -> Any:
        """Evaluate it; the arrays that it reads are the last arguments."""
        return self._all(point, *args)[0]

    def aux(self, point: Any, *args: Any) -> list[Any]:
        """Evaluate the aux that it returns with the value, if any."""
        return self._all(point, *args)[1:] if len(self.jaxpr.outvars) > 1 else []

    def _all(self, point: Any, *args: Any) -> list[Any]:
        given = len(args) - len(self.jaxpr.constvars)
        whole = core.ClosedJaxpr(self.jaxpr, args[given:])
        return core.jaxpr_as_fun(whole)(*jax.tree.leaves((point, args[:given])))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Traced) and self._form == other._form

    def __hash__(self) -> int:
        return self._hash


class _Forms:
    """Jaxprs as nested tuples, with variables numbered."""

    def __init__(self) -> None:
        self.rules = False
        self.longest = 0
        """The longest axis of any array."""
        self._made: dict[int, Any] = {}

    def of(self, jaxpr: Any) -> Any:
        if id(jaxpr) not in self._made:
            self._made[id(jaxpr)] = self._form(jaxpr)
        return self._made[id(jaxpr)]

    def _form(self, jaxpr: Any) -> Any:
        places: dict[Any, int] = {}

        def atom(a: Any) -> Any:
            # bytes, since NaN ≠ NaN and 0 = −0
            known = np.asarray(a.val).tobytes() if hasattr(a, "val") else places.setdefault(a, len(places))
            self.longest = max(self.longest, *getattr(a.aval, "shape", ()), 0)
            return known, a.aval

        return (
            tuple(map(atom, (*jaxpr.constvars, *jaxpr.invars))),
            tuple(
                (
                    equation.primitive.name,
                    tuple((name, self._part(value)) for name, value in equation.params.items()),
                    tuple(map(atom, (*equation.invars, *equation.outvars))),
                )
                for equation in jaxpr.eqns
            ),
            tuple(map(atom, jaxpr.outvars)),
        )

    def _part(self, value: Any) -> Any:
        if hasattr(value, "jaxpr"):  # constants of inner programs are compared by identity
            return self.of(value.jaxpr), tuple(map(id, value.consts))
        if hasattr(value, "eqns"):
            return self.of(value)
        if isinstance(value, tuple | list):
            return tuple(map(self._part, cast("tuple[Any, ...]", value)))
        if type(value).__name__ == "WrappedFun" or (callable(value) and "<locals>" in _name(value)):
            self.rules = True  # every trace creates a new one
            return type(value).__name__
        return value if isinstance(value, Hashable) else repr(value)


def _name(value: Any) -> str:
    return str(getattr(value, "__qualname__", ""))


def split_args(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Callable[..., tuple[Any, ...]]]:
    """Return the numbers and arrays in args, and a function that rebuilds args from such leaves."""
    leaves, tree = jax.tree.flatten(args)
    places = [i for i, leaf in enumerate(leaves) if _is_numeric(leaf)]

    def rest(*numeric: Any) -> tuple[Any, ...]:
        whole = list(leaves)
        for i, value in zip(places, numeric, strict=True):
            whole[i] = value
        return jax.tree.unflatten(tree, whole)

    return tuple(leaves[i] for i in places), rest


def _is_numeric(leaf: Any) -> bool:
    if isinstance(leaf, np.ndarray | np.generic):
        return cast(Any, leaf).dtype.kind in "biufc"
    return isinstance(leaf, jax.Array | int | float | complex) and not isinstance(leaf, bool)


def varying_with(x: Any, others: Any) -> Any:
    """Return x; inside a `shard_map`, as varying over the devices wherever the others do."""
    if jax.sharding.get_abstract_mesh().manual_axes:
        for other in map(jnp.asarray, jax.tree.leaves(others)):
            x = alike(x, apart(other))
    return x


def traceable(
    fun: Any, shape: Shape, x: Any, numeric: tuple[Any, ...], rest: Any, has_aux: bool = False
) -> tuple[Traced, tuple[Any, ...], Any]:
    """Return the traced function, the arrays that it reads, and the tree of its aux."""
    example, mask = shape.example, apart(x)
    if mask is not None:

        def zeros(leaf: Any) -> Any:
            return alike(jnp.zeros(leaf.shape, leaf.dtype), mask)

        example = jax.eval_shape(partial(jax.tree.map, zeros), example)

    def anew(point: Any, *given: Any) -> Any:  # JAX would reuse its trace of fun itself
        return fun(point, *rest(*given))

    try:
        closed, found = jax.make_jaxpr(anew, return_shape=True)(example, *numeric)
    except ERRORS as error:
        raise TypeError(
            f"fun: JAX cannot trace it{_line(error)}; write it with jax.numpy, without branches on values, "
            'or use engine="eager"'
        ) from error
    if has_aux and not (isinstance(found, tuple) and len(cast("tuple[Any, ...]", found)) == 2):
        raise TypeError(f"fun: expected (f, aux), since has_aux is True, got {found!r}")
    value, aux = cast("tuple[Any, Any]", found if has_aux else (found, None))
    leaves = jax.tree.leaves(value)
    if len(leaves) != 1 or leaves[0].shape != () or not jnp.issubdtype(leaves[0].dtype, jnp.floating):
        raise TypeError(f"fun: expected a real number, got {value!r}")
    if jnp.finfo(leaves[0].dtype).bits < jnp.finfo(shape.dtype).bits:
        raise TypeError(f"fun: expected {shape.dtype} values, as x0 is, got {leaves[0].dtype}; cast x0 or f")
    return Traced(fun, closed.jaxpr), tuple(map(jnp.asarray, closed.consts)), jax.tree.structure(aux)


def named(name: str, schedule: Any) -> None:
    """Raise an error for a schedule that branches on k."""
    try:
        jax.eval_shape(schedule, jax.ShapeDtypeStruct((), jnp.int32))
    except ERRORS as error:
        raise TypeError(
            f"{name}: {schedule!r} cannot be traced{_line(error)}: it branches on k; use jax.numpy.where, "
            "or index an array"
        ) from error


def _line(error: Exception) -> str:
    """Return the line of the user's code where the error occurred."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(OTHERS):
            return f" (line {frame.lineno} of {Path(frame.filename).name}: {frame.line})"
    return ""
