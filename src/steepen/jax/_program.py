"""What is compiled: the user's function, traced at every call, its points, and the settings but for numbers.

A program is looked up by the operations of the function, not by its identity: a method may do something
else once its object has changed, and a new function may do the same as an old one. Arrays that the function
reads (of a closure, an attribute or a global) are arguments of the program, and so are λ, α, r, tolerances
and limits: a new number compiles nothing.
"""

# what JAX maps over has no types
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Hashable
from dataclasses import dataclass, is_dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from .._call.arguments import settings_of
from .._core.backends.traced import alike, apart
from .._core.convergence import Tolerances, asked
from .._evaluation.autodiff import inner_constants
from .._solver.problem import Settings
from ..budget import Budget
from ..directions import CGD, CGDAuto, Direction
from ..schedules import Constant, Custom, L
from ..switches import After
from ._jax import core, jax, jnp, ravel_pytree

ERRORS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)

OTHERS = tuple(str(Path(place).parent) for place in (jax.__file__, np.__file__, Path(__file__).parent))
"""Directories of code that is not the user's."""

SHORT, PAIRS = 16, 20
"""The default memory of cgd-auto above SHORT variables: more pairs save iterations, but no time."""

NUMBERS: dict[type, tuple[str, ...]] = {
    Constant: ("value",),
    L: ("start", "end"),
    CGD: ("r",),
    After: ("b",),
    Tolerances: ("g", "f", "x", "rel"),
    Budget: ("grads", "evals", "iters"),
}
"""The fields that are arguments of a program."""

AXES = re.compile(r"(?<=[\[,])\d+(?=[,\]])")
UNPRINTED = re.compile(r" at 0x\w+|\bcustom_\w+(?=\[)")
"""What JAX prints without all that it does: objects, and derivative rules."""


@dataclass(frozen=True)
class Shape:
    """The structure of a point: its size and dtype as a vector, and how a vector becomes a point."""

    size: int
    dtype: Any
    unravel: Any

    @cached_property
    def example(self) -> Any:
        """The shapes and dtypes of a point."""
        return jax.eval_shape(self.unravel, jax.ShapeDtypeStruct((self.size,), self.dtype))

    def point(self, x: Any) -> Any:
        """Return a vector as a point, or a matrix as points with a leading axis."""
        return self.unravel(x) if x.ndim == 1 else jax.vmap(self.unravel)(x)


def vector_of(x0: Any, batch: bool = False) -> tuple[Any, Shape]:
    """Return a point as a vector, or the points of a batch as a matrix, and the shape of a point."""
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
    shapes = [a.shape for a in arrays]
    if batch and (len({shape[:1] for shape in shapes}) != 1 or () in shapes):
        raise ValueError(f"x0: expected one leading axis, the same for all leaves, got shapes {shapes}")
    if any(0 in shape for shape in shapes):
        raise ValueError(f"x0: expected non-empty points, got shapes {shapes}")
    x = jax.tree.unflatten(tree, arrays)
    one = tuple(jax.ShapeDtypeStruct(a.shape[batch:], a.dtype) for a in arrays)
    is_flat = len(arrays) == 1 and arrays[0].ndim == 1 + batch
    x = arrays[0] if is_flat else jax.vmap(_ravel)(x) if batch else _ravel(x)
    return x, _shape_of(tree, one)


def _ravel(point: Any) -> Any:
    return ravel_pytree(point)[0]


@cache
def _shape_of(tree: Any, leaves: tuple[Any, ...]) -> Shape:
    zeros = [jnp.zeros(leaf.shape, leaf.dtype) for leaf in leaves]
    vector, unravel = ravel_pytree(jax.tree.unflatten(tree, zeros))
    return Shape(vector.size, vector.dtype, unravel)


class Traced:
    """A traced function; two with the same operations are equal.

    A custom derivative rule is printed by its name alone, so a function with one equals only itself.
    """

    def __init__(self, fun: Any, jaxpr: Any):
        self.jaxpr, self._fun = jaxpr, fun  # kept alive, so that no other function gets its id
        text = str(jaxpr)
        self.longest = max(map(int, AXES.findall(text)), default=0)
        """The longest axis of any array."""
        printed, own = UNPRINTED.sub("", text), fun if isinstance(fun, Hashable) else id(fun)
        self._key = printed, *map(id, inner_constants(jaxpr)), None if printed == text else own

    def __call__(self, point: Any, *args: Any) -> list[Any]:
        """Evaluate it, and the leaves of its aux; the arrays that it reads are the last arguments."""
        given = len(args) - len(self.jaxpr.constvars)
        whole = core.ClosedJaxpr(self.jaxpr, args[given:])
        return core.jaxpr_as_fun(whole)(*jax.tree.leaves((point, args[:given])))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Traced) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def split_args(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Callable[..., tuple[Any, ...]]]:
    """Return the numbers and arrays in args, and a function that rebuilds args from such leaves."""
    leaves, tree = jax.tree.flatten(args)

    def rest(*numeric: Any) -> tuple[Any, ...]:
        given = iter(numeric)
        return jax.tree.unflatten(tree, [next(given) if _is_numeric(leaf) else leaf for leaf in leaves])

    return tuple(filter(_is_numeric, leaves)), rest


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


def _line(error: Exception) -> str:
    """Return the line of the user's code where the error occurred."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(OTHERS):
            return f" (line {frame.lineno} of {Path(frame.filename).name}: {frame.line})"
    return ""


def with_numbers(part: Any, change: Callable[[str, Any], Any], name: str = "") -> Any:
    """Return a part of the settings with its numbers changed, each by its name; nothing is checked again."""
    kind = cast("type[Any]", type(part))
    if kind is tuple:
        return tuple(with_numbers(one, change, f"{name}{i}.") for i, one in enumerate(part))
    if not is_dataclass(kind):
        return part
    new = object.__new__(kind)
    for key, value in cast("dict[str, Any]", vars(part)).items():
        if key in NUMBERS.get(kind, ()) and value is not None and asked(value):
            object.__setattr__(new, key, change(name + key, value))
        elif key[0] != "_":
            object.__setattr__(new, key, with_numbers(value, change, f"{name}{key}."))
    return new


def filled(
    rows: tuple[int, ...], dtype: Any, method: str | Direction, **given: Any
) -> tuple[Settings, dict[str, Any]]:
    """Return the settings with names in place of numbers, and the numbers; raise if they do not compile."""
    gtol = given.get("tol") if given.get("gtol") is None else given.get("gtol")
    places = {
        "direction.lam.value": given.get("lam"), "step.schedule.value": given.get("step"),
        "direction.r": given.get("r"), "tolerances.g": gtol, "tolerances.f": given.get("ftol"),
        "tolerances.x": given.get("xtol"), "tolerances.rel": given.get("gtol_rel"),
    }  # fmt: skip
    traced = {name: value for name, value in places.items() if isinstance(value, jax.core.Tracer)}
    settings = settings_of(rows, dtype, method, **{name: _known(value) for name, value in given.items()})
    if settings.budget.seconds is not None:
        raise ValueError("budget: a compiled program cannot read the clock; use evals, grads or iters")
    for name, schedule in (("lam", getattr(settings.direction, "lam", None)),
                           ("step", getattr(settings.step, "schedule", None))):  # fmt: skip
        if isinstance(schedule, Custom):
            _check_branches(name, schedule)
    if settings.direction == CGDAuto() and rows[-1] > SHORT:
        settings = replace(settings, direction=CGDAuto(min(PAIRS, CGDAuto().capacity(rows[-1]))))
    numbers: dict[str, Any] = {}

    def taken(name: str, value: Any) -> str:
        array: Any = traced.get(name, value)
        array = array if isinstance(array, jax.Array) else np.asarray(array)
        numbers[name] = array.astype(jnp.int32 if array.dtype.kind == "i" else dtype)
        return name

    return with_numbers(settings, taken), numbers


def _check_branches(name: str, schedule: Any) -> None:
    """Raise an error for a schedule that branches on k."""
    try:
        jax.eval_shape(schedule, jax.ShapeDtypeStruct((), jnp.int32))
    except ERRORS as error:
        raise TypeError(
            f"{name}: {schedule!r} cannot be traced{_line(error)}: it branches on k; use jax.numpy.where, "
            "or index an array"
        ) from error


def _known(value: Any) -> Any:
    """Return a number, and 1 for one that is traced."""
    if isinstance(value, jax.core.Tracer):
        return np.ones(value.shape) if value.ndim else 1.0
    if isinstance(value, jax.Array):
        return np.asarray(value) if value.ndim else value.item()
    return value


@dataclass(frozen=True)
class Program:
    """What is compiled: a function, the shape of its points, the settings, and the length of the trace."""

    fun: Any
    shape: Shape
    settings: Settings
    trace: int | None = None

    def __call__(self, x: Any, args: Any) -> Any:
        """Evaluate f at a vector."""
        return jnp.asarray(self.fun(self.shape.point(x), *args)[0], x.dtype)

    def aux(self, x: Any, args: Any) -> list[Any]:
        """Evaluate the aux of f at a vector."""
        return self.fun(self.shape.point(x), *args)[1:] if len(self.fun.jaxpr.outvars) > 1 else []

    def parts(self, numbers: dict[str, Any]) -> Settings:
        """Return the settings with these numbers."""
        return with_numbers(self.settings, lambda name, _: numbers[name])
