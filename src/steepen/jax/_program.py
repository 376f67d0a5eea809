"""What `minimize` compiles: the user's function, traced at every call, its points, settings but for numbers.

A program is looked up by the operations of the function, not by its identity: a method may do something
else once its object has changed, and a new function may do the same as an old one. Arrays that the function
reads (of a closure, an attribute or a global) are arguments of the program, and so are λ, α, r, tolerances
and limits: a new number compiles nothing.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..budget import Budget
from ..methods import Method
from ..schedules import Constant, Custom, L
from ..switches import After
from ._jax import core, jax, jnp
from ._rules import has_rules, key_of
from .masked.auto import CGDAuto
from .masked.cgd import CGD
from .masked.convergence import Tolerances, asked
from .masked.settings import Settings
from .masked.translate import settings_of
from .trees import alike, apart

ERRORS = (
    jax.errors.ConcretizationTypeError, jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError, jax.errors.TracerIntegerConversionError,
)  # fmt: skip

OTHERS = tuple(str(Path(place).parent) for place in (jax.__file__, np.__file__, Path(__file__).parent))
"""Directories of code that is not the user's."""

SHORT, PAIRS = 16, 20  # the pairs of cgd-auto above SHORT variables: more save iterations, but no time

NUMBERS: dict[type, tuple[str, ...]] = {
    Constant: ("value",),
    L: ("start", "end"),
    CGD: ("r",),
    After: ("b",),
    Tolerances: ("g", "f", "x", "rel"),
    Budget: ("grads", "evals", "iters"),
}
"""The fields that are arguments of a program."""

PLACES = {
    "lam": "direction.lam.value", "step": "step.schedule.value", "r": "direction.r", "tol": "tolerances.g",
    "gtol": "tolerances.g", "ftol": "tolerances.f", "xtol": "tolerances.x", "gtol_rel": "tolerances.rel",
}  # fmt: skip
"""Where the settings have the keywords that may be traced."""

AXES = re.compile(r"(?<=[\[,])\d+(?=[,\]])")


@dataclass(frozen=True)
class Shape:
    """The structure of a point: a tree of arrays, which lie one after another in a vector."""

    tree: Any
    leaves: tuple[Any, ...]
    """The shape and dtype of each array."""
    size: int
    dtype: Any
    """Those of the vector."""

    def vector(self, point: Any) -> Any:
        """Return a point as a vector, or points with a leading axis as a matrix."""
        arrays = jax.tree.leaves(point)
        rows = arrays[0].shape[: arrays[0].ndim - len(self.leaves[0].shape)]
        return jnp.concatenate([a.astype(self.dtype).reshape(*rows, -1) for a in arrays], axis=-1)

    def point(self, x: Any) -> Any:
        """Return a vector as a point, or a matrix as points with a leading axis."""
        parts = jnp.split(x, np.cumsum([leaf.size for leaf in self.leaves])[:-1], axis=-1)
        pairs = zip(parts, self.leaves, strict=True)
        arrays = (part.reshape(*x.shape[:-1], *leaf.shape).astype(leaf.dtype) for part, leaf in pairs)
        return jax.tree.unflatten(self.tree, arrays)


def vector_of(x0: Any, batch: bool | None) -> tuple[Any, Shape]:
    """Return a start as a vector, or a batch, by default two axes, as a matrix; and the shape of a point."""
    if isinstance(x0, list | int | float) and all(isinstance(a, int | float) for a in jax.tree.leaves(x0)):
        try:
            x0 = np.asarray(x0, dtype=jnp.result_type(float))
        except (TypeError, ValueError) as error:
            raise ValueError(f"x0: expected an array of numbers, or a pytree, got {x0!r}") from error
    batch = getattr(x0, "ndim", None) == 2 if batch is None else batch
    named, tree = jax.tree_util.tree_flatten_with_path(x0)
    if not named:
        raise ValueError(f"x0: expected a point, got a tree without leaves, {x0!r}")
    for path, leaf in named:
        name, kind = "x0" + jax.tree_util.keystr(path), getattr(leaf, "dtype", type(leaf).__name__)
        if str(kind) not in ("float", "float32", "float64"):
            raise TypeError(f"{name}: expected an array of float32 or float64 numbers, got {kind}, {leaf!r}")
        if str(kind) == "float64" and not jax.config.jax_enable_x64:
            raise TypeError(
                f"{name}: got float64, which is disabled in JAX; enable it with "
                'jax.config.update("jax_enable_x64", True), or start from float32'
            )
    arrays = [jnp.asarray(leaf) for _, leaf in named]
    shapes = [a.shape for a in arrays]
    if batch and (len({shape[:1] for shape in shapes}) != 1 or () in shapes):
        raise ValueError(f"x0: expected one leading axis, the same for all leaves, got shapes {shapes}")
    if any(0 in shape for shape in shapes):
        raise ValueError(f"x0: expected non-empty points, got shapes {shapes}")
    leaves = tuple(jax.ShapeDtypeStruct(a.shape[batch:], a.dtype) for a in arrays)
    shape = Shape(tree, leaves, sum(leaf.size for leaf in leaves), jnp.result_type(*leaves))
    return shape.vector(arrays), shape


class TracedFunction:
    """A function of a vector, traced; two with the same operations are equal.

    Derivative rules are printed by name alone: with one, it equals only itself, with the same trace `rules`.
    """

    def __init__(self, fun: Any, jaxpr: Any, rules: Any):
        self.jaxpr, self._kept = jaxpr, (fun, rules)  # alive, so that nothing else gets their ids
        self._key = key_of(fun, jaxpr, rules)
        self.longest = max(map(int, AXES.findall(self._key[0])), default=0)  # axis of any array

    def __call__(self, x: Any, *args: Any) -> list[Any]:
        """Evaluate it, and the leaves of its aux; the arrays that it reads are the last arguments."""
        given = len(args) - len(self.jaxpr.constvars)
        return core.jaxpr_as_fun(core.ClosedJaxpr(self.jaxpr, args[given:]))(x, *args[:given])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TracedFunction) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def is_numeric(leaf: Any) -> bool:
    """Return whether a part of args is a number or an array; anything else is a constant of the program."""
    if isinstance(leaf, jax.Array | int | float | complex):
        return not isinstance(leaf, bool)
    return isinstance(leaf, np.ndarray | np.generic) and cast(Any, leaf).dtype.kind in "biufc"


def traceable(
    fun: Any, shape: Shape, x: Any, args: tuple[Any, ...], numeric: Any, has_aux: bool = False
) -> tuple[TracedFunction, tuple[Any, ...], Any]:
    """Return the traced function, the arrays that it reads, and the tree of its aux."""

    def anew(x: Any, numeric: Any) -> Any:  # JAX would reuse its trace of fun itself
        rest = jax.tree.map(lambda a, b: a if b is None else b, args, numeric, is_leaf=lambda a: a is None)
        return fun(shape.point(x), *rest)

    example = alike(np.zeros(shape.size, shape.dtype), apart(x))
    with _readable("fun: JAX cannot trace it", "write it with jax.numpy, without branches on values"):
        closed, found = jax.make_jaxpr(anew, return_shape=True)(example, numeric)
    if has_aux and not (isinstance(found, tuple) and len(cast("tuple[Any, ...]", found)) == 2):
        raise TypeError(f"fun: expected (f, aux), since has_aux is True, got {found!r}")
    value, aux = cast("tuple[Any, Any]", found if has_aux else (found, None))
    leaves = jax.tree.leaves(value)
    if len(leaves) != 1 or leaves[0].shape != () or not jnp.issubdtype(leaves[0].dtype, jnp.floating):
        raise TypeError(f"fun: expected a real number, got {value!r}")
    if jnp.finfo(leaves[0].dtype).bits < jnp.finfo(shape.dtype).bits:
        raise TypeError(f"fun: expected {shape.dtype} values, as x0 is, got {leaves[0].dtype}; cast x0 or f")
    reads, rules = cast("tuple[Any, ...]", tuple(map(jnp.asarray, closed.consts))), None
    if has_rules(closed):
        rules = jax.make_jaxpr(jax.grad(lambda *at: jax.tree.leaves(anew(*at))[0]))(example, numeric)
    return TracedFunction(fun, closed.jaxpr, rules), reads, jax.tree.structure(aux)


@contextmanager
def _readable(what: str, advice: str) -> Iterator[None]:
    """Turn JAX's errors at code that it cannot trace into one that names the line of the user's code."""
    try:
        yield
    except ERRORS as error:
        frames = reversed(traceback.extract_tb(error.__traceback__))
        own = (frame for frame in frames if not frame.filename.startswith(OTHERS))
        line = next((f" (line {f.lineno} of {Path(f.filename).name}: {f.line})" for f in own), "")
        raise TypeError(f'{what}{line}; {advice}, or use engine="eager"') from error


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
    rows: tuple[int, ...], dtype: Any, method: str | Method, **given: Any
) -> tuple[Settings, dict[str, Any]]:
    """Return the settings with names in place of numbers, and the numbers; raise if they do not compile."""
    settings = settings_of(rows, dtype, method, **{name: _known(value) for name, value in given.items()})
    if settings.budget.seconds is not None:
        raise ValueError("budget: a compiled program cannot read the clock; use evals, grads or iters")
    for name, part in (("lam", settings.direction), ("step", settings.step)):
        schedule = getattr(part, "schedule" if name == "step" else "lam", None)
        if isinstance(schedule, Custom):
            with _readable(f"{name}: JAX cannot trace {schedule!r}", "it branches on k: use jax.numpy.where"):
                jax.eval_shape(schedule, jax.ShapeDtypeStruct((), jnp.int32))
    if settings.direction == CGDAuto() and rows[-1] > SHORT:
        settings = replace(settings, direction=CGDAuto(min(PAIRS, CGDAuto().capacity(rows[-1]))))
    traced = {PLACES[name]: value for name, value in given.items() if isinstance(value, jax.core.Tracer)}
    numbers: dict[str, Any] = {}

    def taken(name: str, value: Any) -> str:
        array: Any = traced.get(name, value)
        array = array if isinstance(array, jax.Array) else np.asarray(array)
        numbers[name] = array.astype(jnp.int32 if array.dtype.kind == "i" else dtype)
        return name

    return with_numbers(settings, taken), numbers


def _known(value: Any) -> Any:
    """Return a number, and 1 for one that is traced."""
    if isinstance(value, jax.Array):
        value = np.ones(value.shape) if isinstance(value, jax.core.Tracer) else np.asarray(value)
        return value if value.ndim else value.item()
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
        return jnp.asarray(self.fun(x, *args)[0], x.dtype)

    def aux(self, x: Any, args: Any) -> list[Any]:
        """Evaluate the aux of f at a vector."""
        return self.fun(x, *args)[1:] if len(self.fun.jaxpr.outvars) > 1 else []

    def parts(self, numbers: dict[str, Any]) -> Settings:
        """Return the settings with these numbers."""
        return with_numbers(self.settings, lambda name, _: numbers[name])
