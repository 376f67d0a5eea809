"""What `minimize` compiles: the user's function, its points, settings but for numbers.

The same function, with the same contents of its closure and of the globals that it reads, is traced once.
Where that cannot be told, or it has changed, it is traced again, with its derivatives if it has rules of its
own for them: a program is looked up by these operations. Arrays that the function and its rules read are
arguments of the program, and so are λ, α, r, tolerances and limits: a new number compiles nothing.
"""

from __future__ import annotations

import warnings
import weakref
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from .._tools.identity import identity
from .._tools.traces import has_rules, longest, signature
from ._errors import readable
from ._jax import core, jax, jnp
from ._settings import Settings, with_numbers
from .trees import alike, apart

FEW = 16  # the calls of one function, with points or constants of other kinds, whose traces are kept

OFTEN = 10  # the programs of one function for one kind of points, from which on there is a warning

_KINDS: weakref.WeakKeyDictionary[Any, dict[Any, set[int]]] = weakref.WeakKeyDictionary()
"""The programs of a function's code, by their hashes."""

_SEEN: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()
"""The traces of each function that is alive, by what it read."""


class Inputs(NamedTuple):
    """The arguments of a program: those of fun, the numbers of the settings, and the bounds."""

    args: Any
    numbers: dict[str, Any]
    bounds: tuple[Any, Any] | None = None


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
        if len(arrays) == 1 and arrays[0].shape == (*rows, self.size):  # it is a vector
            return arrays[0].astype(self.dtype)
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
        _check_leaf("x0" + jax.tree_util.keystr(path), leaf)
    arrays = [_promoted(leaf) for _, leaf in named]
    shapes = [a.shape for a in arrays]
    if batch and (len({shape[:1] for shape in shapes}) != 1 or () in shapes):
        raise ValueError(f"x0: expected one leading axis, the same for all leaves, got shapes {shapes}")
    if not sum(a.size for a in arrays):
        raise ValueError(f"x0: expected non-empty points, got shapes {shapes}")
    known = not (batch or any(isinstance(leaf, jax.core.Tracer) for leaf in arrays))
    if known and not all(np.isfinite(a).all() for a in arrays):  # in a batch it is the status of its row
        raise ValueError(f"x0: expected finite numbers, got {x0!r}")
    leaves = tuple(jax.ShapeDtypeStruct(a.shape[batch:], a.dtype) for a in arrays)
    shape = Shape(tree, leaves, sum(leaf.size for leaf in leaves), jnp.result_type(*leaves))
    return shape.vector(arrays), shape


FLOATS = ("float", "float32", "float64")
WHOLES = ("int", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def _kind(leaf: Any) -> str:
    return str(getattr(leaf, "dtype", type(leaf).__name__))


def _promoted(leaf: Any) -> Any:
    """Return a leaf as an array of floating-point numbers."""
    known = _kind(leaf) in FLOATS
    return leaf if known and isinstance(leaf, jax.Array) else jnp.asarray(leaf, None if known else float)


def _check_leaf(name: str, leaf: Any) -> None:
    kind = _kind(leaf)
    if kind not in (*FLOATS, *WHOLES):
        raise TypeError(f"{name}: expected an array of float32 or float64 numbers, got {kind}, {leaf!r}")
    if kind == "float64" and not jax.config.jax_enable_x64:
        raise TypeError(
            f"{name}: got float64, which is disabled in JAX; enable it with "
            'jax.config.update("jax_enable_x64", True), or start from float32'
        )


def product_of(grad: Any) -> Any:
    """Return H·v as a function of x and v."""

    def product(x: Any, v: Any) -> Any:
        return jax.linearize(grad, x)[1](v)

    return product


DERIVATIVES: dict[str, Any] = {
    "both": jax.value_and_grad,
    "gradient": jax.grad,
    "product": lambda fun: product_of(jax.grad(fun)),
    "hessian": lambda fun: jax.jacfwd(jax.grad(fun)),
}
"""What a run evaluates besides f: f and ∇f, ∇f, H·v, H."""


def needed(settings: Settings) -> tuple[str, ...]:
    """Return which of these a run evaluates."""
    more = {"newton": ("hessian",), "cgd": ("product",)}
    return ("both", "gradient", *more.get(settings.direction.name, ()))


class TracedFunction:
    """A function of a vector, traced, with its derivatives if it has rules of its own for them.

    Two with the same operations are equal. The arrays that it reads are arguments.
    """

    def __init__(self, jaxpr: Any, given: int, derived: dict[str, tuple[int, Any]]):
        self._value, self._given, self._derived = jaxpr, given, derived
        self.ruled, self.longest = has_rules(jaxpr), longest(jaxpr)
        self.adds = len(jaxpr.outvars) > 1  # an aux
        self._key = tuple(map(signature, (self._value, *(jaxpr for _, jaxpr in self._derived.values()))))
        self._hash = hash(self._key)

    def value(self, x: Any, args: Any) -> list[Any]:
        """Return f and the leaves of its aux."""
        reads = args[self._given : self._given + len(self._value.constvars)]
        return evaluated(self._value, reads, (x, *args[: self._given]))

    def derivative(self, name: str, at: tuple[Any, ...], args: Any) -> Any:
        """Return f and ∇f ("both"), H·v ("product") or H ("hessian")."""
        if name not in self._derived:
            return DERIVATIVES[name](lambda x: self.value(x, args)[0])(*at)
        first, jaxpr = self._derived[name]
        reads = args[first : first + len(jaxpr.constvars)]
        found = evaluated(jaxpr, reads, (*at, *args[: len(jaxpr.invars) - len(at)]))
        return found if name == "both" else found[0]

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, TracedFunction) and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash


def evaluated(jaxpr: Any, consts: Any, args: Any) -> list[Any]:
    """Evaluate a trace."""
    return core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, consts))(*args)


def is_numeric(leaf: Any) -> bool:
    """Return whether a part of args is a number or an array; anything else is a constant of the program."""
    if isinstance(leaf, jax.Array | int | float | complex):
        return not isinstance(leaf, bool)
    return isinstance(leaf, np.ndarray | np.generic) and cast(Any, leaf).dtype.kind in "biufc"


def traceable(
    fun: Any,
    shape: Shape,
    x: Any,
    args: tuple[Any, ...],
    numeric: Any,
    needed: tuple[str, ...],
    has_aux: bool,
) -> tuple[TracedFunction, list[Any], Any]:  # fmt: skip
    """Return the traced function, the arrays that it reads, and the tree of its aux.

    They are those of an earlier call if fun is the same.
    """
    within = jax.sharding.get_abstract_mesh()
    told = None
    if within.empty:
        kinds = tuple(jax.typeof(leaf) for leaf in jax.tree.leaves(numeric))
        constants = [a for a, b in _pairs(args, numeric) if b is None]
        told = identity(fun, constants)
        told = told and (told, shape, jax.tree.structure(args), kinds, needed, has_aux, _precision())
    try:
        known = _SEEN.setdefault(fun, {})
    except TypeError:  # no hash, or no weak references
        known = {}
    if told is None or told not in known:
        made = _traced(fun, shape, x, args, numeric, needed, has_aux)
        if told is None:
            return made
        if len(known) == FEW:
            del known[next(iter(known))]
        known[told] = made
    return known[told]


def _pairs(args: Any, numeric: Any) -> list[tuple[Any, Any]]:
    """Return the leaves of args, each with itself if it is numeric and with None otherwise."""
    return list(
        zip(jax.tree.leaves(args), jax.tree.leaves(numeric, is_leaf=lambda a: a is None), strict=True)
    )


def _precision() -> tuple[Any, ...]:
    """Return the settings of JAX that a trace depends on."""
    return (
        jax.config.jax_enable_x64,
        jax.config.jax_default_matmul_precision,
        jax.config.jax_default_prng_impl,
    )


def _traced(
    fun: Any,
    shape: Shape,
    x: Any,
    args: tuple[Any, ...],
    numeric: Any,
    needed: tuple[str, ...],
    has_aux: bool,
) -> tuple[TracedFunction, list[Any], Any]:  # fmt: skip
    def anew(x: Any, numeric: Any) -> Any:  # JAX would reuse its trace of fun itself
        rest = jax.tree.map(lambda a, b: a if b is None else b, args, numeric, is_leaf=lambda a: a is None)
        return fun(shape.point(x), *rest)

    example = alike(np.zeros(shape.size, shape.dtype), apart(x))
    with readable("fun: JAX cannot trace it", "write it with jax.numpy, without branches on values"):
        closed, found = jax.make_jaxpr(anew, return_shape=True)(example, numeric)
    if has_aux and not (isinstance(found, tuple) and len(cast("tuple[Any, ...]", found)) == 2):
        raise TypeError(f"fun: expected (f, aux), since has_aux is True, got {found!r}")
    value, aux = cast("tuple[Any, Any]", found if has_aux else (found, None))
    leaves = jax.tree.leaves(value)
    if len(leaves) != 1 or leaves[0].shape != () or not jnp.issubdtype(leaves[0].dtype, jnp.floating):
        raise TypeError(f"fun: expected a real number, got {value!r}")
    if jnp.finfo(leaves[0].dtype).bits < jnp.finfo(shape.dtype).bits:
        raise TypeError(f"fun: expected {shape.dtype} values, as x0 is, got {leaves[0].dtype}; cast x0 or f")
    given: list[Any] = jax.tree.leaves(numeric)
    reads: list[Any] = list(map(jnp.asarray, closed.consts))
    plain, derived = TracedFunction(closed.jaxpr, len(given), {}), {}
    for name in needed if plain.ruled else ():
        derivative, at = partial(plain.derivative, name), (example,) * (1 + (name == "product"))
        rules = jax.make_jaxpr(derivative)(at, (*given, *reads[: len(closed.consts)]))
        derived[name] = len(given) + len(reads), rules.jaxpr
        reads += map(jnp.asarray, rules.consts)
    traced = TracedFunction(closed.jaxpr, len(given), derived) if derived else plain
    _note(fun, shape, traced)
    return traced, reads, jax.tree.structure(aux)


def _note(fun: Any, shape: Shape, traced: TracedFunction) -> None:
    """Warn once of a function that is another program at every call."""
    code = getattr(fun, "__code__", None)
    known = _KINDS.setdefault(code, {}).setdefault(shape, set()) if code is not None else set[int]()
    if len(known) < OFTEN and hash(traced) not in known:
        known.add(hash(traced))
        if len(known) == OFTEN:
            warnings.warn(
                f"fun: {fun!r} has been another program in {OFTEN} calls, each of which is compiled; pass "
                "the numbers that change in args, or as arrays (docs/jax.md#what-compiles-and-when)",
                stacklevel=7,
            )


@dataclass(frozen=True)
class Program:
    """What is compiled: a function, the shape of its points, the settings, and the length of the trace."""

    fun: Any
    shape: Shape
    settings: Settings
    trace: int | None = None

    def __call__(self, x: Any, args: Any) -> Any:
        """Evaluate f at a vector."""
        return jnp.asarray(self.fun.value(x, args)[0], x.dtype)

    def both(self, x: Any, args: Any) -> tuple[Any, Any]:
        """Evaluate f and ∇f."""
        f, g = self.fun.derivative("both", (x,), args)
        return jnp.asarray(f, x.dtype), g

    def gradient(self, x: Any, args: Any) -> Any:
        """Evaluate ∇f."""
        return self.fun.derivative("gradient", (x,), args)

    def product(self, x: Any, v: Any, args: Any) -> Any:
        """Evaluate H·v."""
        return self.fun.derivative("product", (x, v), args)

    def hessian(self, x: Any, args: Any) -> Any:
        """Evaluate H."""
        return self.fun.derivative("hessian", (x,), args)

    def aux(self, x: Any, args: Any) -> list[Any]:
        """Evaluate the aux of f at a vector."""
        return self.fun.value(x, args)[1:] if self.fun.adds else []

    def parts(self, numbers: dict[str, Any]) -> Settings:
        """Return the settings with these numbers."""
        return with_numbers(self.settings, lambda name, _: numbers[name])
