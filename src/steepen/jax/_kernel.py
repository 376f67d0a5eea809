"""A loop that is one kernel, where XLA compiles for a CPU and vectors are short.

XLA makes a kernel of every operation, or of a few that it fuses. To compile one takes some 15 ms, and to
start it longer than the work that short vectors are. A call that is marked as small becomes one kernel, with
all its loops. XLA marks loops itself, if they touch less than a kilobyte. It does so last of all, and knows
what they have become; we do it first, and leave out what it would hand to a library or to several threads.
"""

# what JAX maps over has no types
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from .._tools.optional import load
from ._jax import jax

core: Any = load("jax.extend", "steepen.jax", extra="jax").core

TESTED = ((0, 10), (0, 11)), ("Linux", "x86_64")
"""The versions of JAX, and the machines, where XLA takes such marks as they are meant; elsewhere are none."""

SWITCH = "STEEPEN_ONE_KERNEL"
"""The variable of the environment that says 0 where there are to be none at all."""

MARKS = {"inlineable": "false", "xla_cpu_small_call": "true"}

MOST, SUM = 32_768, 32
"""The most numbers of an array in a kernel, and of one that is summed: longer ones take long to compile."""

WORK = 18_000
"""The most operations of a function. XLA shares 200 000 units of work among threads, where operations are
more than bytes; an operation is one unit then, and a byte ten."""

ARITHMETIC = frozenset({
    "abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2", "atanh",
    "broadcast_in_dim", "cbrt", "ceil", "clamp", "concatenate", "convert_element_type", "copy", "cos",
    "cosh", "div", "dot_general", "dynamic_slice", "dynamic_update_slice", "eq", "erf", "erfc", "exp",
    "exp2", "expand_dims", "expm1", "floor", "ge", "gt", "integer_pow", "iota", "is_finite", "le",
    "log", "log1p", "log2", "logistic", "lt", "max", "min", "mul", "ne", "neg", "nextafter", "not",
    "or", "pad", "pow", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod",
    "reduce_sum", "rem", "reshape", "rev", "round", "rsqrt", "select_n", "sign", "sin", "sinh", "slice",
    "sqrt", "square", "squeeze", "stop_gradient", "sub", "tan", "tanh", "transpose", "xor",
})  # fmt: skip
"""What a kernel can have: no sorts, scatters, decompositions, random numbers, nor calls of other code."""

MOVES = frozenset({
    "broadcast_in_dim", "concatenate", "convert_element_type", "copy", "dynamic_slice",
    "dynamic_update_slice", "expand_dims", "iota", "neg", "pad", "reshape", "rev", "select_n", "slice",
    "squeeze", "stop_gradient", "transpose",
})  # fmt: skip
MANY = frozenset({
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cosh", "erf", "erfc", "expm1",
    "log1p", "log2", "logistic", "nextafter", "pow", "sinh", "tan",
})  # fmt: skip
"""What is no operation, and what XLA makes of several."""

CALLS = frozenset({
    "cond", "custom_jvp_call", "custom_vjp_call", "custom_vmap_call", "jit", "pjit", "scan", "while",
})  # fmt: skip
"""What a kernel can have where it can have all that is inside."""


def in_one(more: Callable[[Any], Any], body: Callable[[Any], Any], state: Any) -> Any:
    """Return what `while_loop` does, by one kernel if it can be; under `vmap` it cannot."""
    if not _offered():
        return jax.lax.while_loop(more, body, state)
    flat, tree = jax.tree.flatten(state)

    def looped(*flat: Any) -> list[Any]:
        return jax.tree.leaves(jax.lax.while_loop(more, body, jax.tree.unflatten(tree, flat)))

    traced = jax.make_jaxpr(looped)(*flat)
    jaxpr, count, given = traced.jaxpr, len(traced.consts), (*traced.consts, *flat)

    def plain(*flat: Any) -> list[Any]:
        return core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, flat[:count]))(*flat[count:])

    @jax.custom_batching.custom_vmap
    def chosen(*flat: Any) -> list[Any]:
        return _marked(plain, flat)

    @chosen.def_vmap
    def _(size: int, batched: Any, *flat: Any) -> Any:
        axes = [0 if b else None for b in batched]
        return jax.vmap(plain, axes, axis_size=size)(*flat), [True] * len(jaxpr.outvars)

    return jax.tree.unflatten(tree, (chosen if all(map(_fits, jaxpr.eqns)) else plain)(*given))


def _marked(plain: Callable[..., list[Any]], flat: Any) -> list[Any]:
    """Evaluate a function in a call that is marked; it returns its arguments, too, so that all are used."""
    marked: Any = load("jax.experimental.xla_metadata", "steepen.jax", extra="jax").set_xla_metadata

    def call(*flat: Any) -> tuple[list[Any], Any]:
        with marked(**dict.fromkeys(MARKS)):  # the call itself is marked, and not what is inside
            return plain(*flat), flat

    with marked(**MARKS):
        return jax.jit(call)(*flat)[0]


def _fits(equation: Any) -> bool:
    """Return whether an operation, with all that is inside, may be part of a kernel."""
    name = equation.primitive.name
    if equation.effects or any(_size(atom) > MOST for atom in (*equation.invars, *equation.outvars)):
        return False
    if name.startswith("reduce_") and _size(equation.invars[0]) > SUM:
        return False
    if name == "dot_general":  # a product of matrices is a library's
        return min(len(atom.aval.shape) for atom in equation.invars) == 1
    parts = [getattr(part, "jaxpr", part) for part in _parts(equation.params.values())]
    if name not in CALLS:
        return name in ARITHMETIC
    if name in ("jit", "pjit") and sum(map(_work, parts)) > WORK:
        return False
    return all(_fits(inner) for part in parts for inner in part.eqns)


def _work(jaxpr: Any) -> int:
    """Return how many operations a program has, of which each loop and each branch counts once."""
    total = 0
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        inner = [getattr(part, "jaxpr", part) for part in _parts(equation.params.values())]
        if name in CALLS:
            total += sum(map(_work, inner))
        elif name not in MOVES:  # of a sum or a product, what goes in counts
            total += (50 if name in MANY else 1) * max(map(_size, (*equation.invars, *equation.outvars)))
    return total


def _parts(params: Iterable[Any]) -> Iterator[Any]:
    for value in params:
        if isinstance(value, tuple):
            yield from _parts(value)
        elif hasattr(value, "eqns") or hasattr(value, "jaxpr"):
            yield value


def _size(atom: Any) -> int:
    return math.prod(getattr(atom.aval, "shape", ()))


@cache
def _offered() -> bool:
    versions, machine = TESTED
    here = tuple(map(int, jax.__version__.split(".")[:2])) in versions
    here = here and (platform.system(), platform.machine()) == machine
    return here and jax.default_backend() == "cpu" and os.environ.get(SWITCH) != "0"
