"""A part of a program that is one kernel, where XLA compiles for a CPU and vectors are short.

XLA makes a kernel of every operation, or of a few that it fuses. To compile one takes some 15 ms, and to start
it longer than the work that short vectors are. A call that is marked as small becomes one kernel, with all its
loops. XLA marks loops itself, if they touch less than a kilobyte. It does so last of all, and knows what they
have become; we do it first, and leave out what it would hand to a library or to several threads.
"""

# what JAX maps over has no types
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from .._tools.optional import load
from ._jax import jax

core: Any = load("jax.extend", "steepen.jax", extra="jax").core

TESTED = ((0, 10), (0, 11))
"""The versions of JAX whose XLA takes such marks as they are meant; with others there are none."""

MARKS = {"inlineable": "false", "xla_cpu_small_call": "true"}

MOST = 512
"""The most numbers of an array in a kernel: longer sums are a library's, from 4096 numbers on."""

WORK = 15_000
"""The most numbers that a function may compute: several threads may share what is 13 times as much."""

ARITHMETIC = frozenset(
    """
    abs acos acosh add add_any and asin asinh atan atan2 atanh broadcast_in_dim cbrt ceil clamp concatenate
    convert_element_type copy cos cosh div dot_general dynamic_slice dynamic_update_slice eq erf erfc exp exp2
    expand_dims expm1 floor ge gt integer_pow iota is_finite le log log1p logistic lt max min mul ne neg
    nextafter not or pad pow reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum rem reshape rev
    round rsqrt select_n sign sin sinh slice sqrt square squeeze stop_gradient sub tan tanh transpose xor
    """.split()
)
"""What a kernel can have: no sorts, scatters, decompositions, random numbers, nor what others have written."""

CALLS = frozenset("cond custom_jvp_call custom_vjp_call custom_vmap_call jit pjit scan while".split())
"""What a kernel can have where it can have all that is inside."""


def in_one(work: Callable[..., Any], *given: Any) -> Any:
    """Return work(*given), made by one kernel if it can be; under `vmap`, where arrays are long, it cannot."""
    if not _offered():
        return work(*given)
    flat, tree = jax.tree.flatten(given)

    def flattened(*flat: Any) -> Any:
        return work(*jax.tree.unflatten(tree, flat))

    traced, shapes = jax.make_jaxpr(flattened, return_shape=True)(*flat)
    fits = all(map(_fits, traced.jaxpr.eqns))
    jaxpr, count, flat = traced.jaxpr, len(traced.consts), [*traced.consts, *flat]

    def plain(*flat: Any) -> list[Any]:
        return core.jaxpr_as_fun(core.ClosedJaxpr(jaxpr, flat[:count]))(*flat[count:])

    @jax.custom_batching.custom_vmap
    def chosen(*flat: Any) -> list[Any]:
        return _marked(plain, flat)

    @chosen.def_vmap
    def _(size: int, batched: Any, *flat: Any) -> Any:
        axes = [0 if b else None for b in batched]
        return jax.vmap(plain, axes, axis_size=size)(*flat), [True] * len(jaxpr.outvars)

    return jax.tree.unflatten(jax.tree.structure(shapes), (chosen if fits else plain)(*flat))


def _marked(plain: Callable[..., list[Any]], flat: Any) -> list[Any]:
    """Evaluate a function in a call that is marked; it returns its arguments, too, so that all are used."""
    from jax.experimental.xla_metadata import set_xla_metadata

    def call(*flat: Any) -> tuple[list[Any], Any]:
        with set_xla_metadata(**dict.fromkeys(MARKS)):  # the call itself is marked, and not what is inside
            return plain(*flat), flat

    with set_xla_metadata(**MARKS):
        return jax.jit(call)(*flat)[0]


def _fits(equation: Any) -> bool:
    """Return whether an operation, with all that is inside, may be part of a kernel."""
    name = equation.primitive.name
    if equation.effects or any(_size(atom) > MOST for atom in (*equation.invars, *equation.outvars)):
        return False
    if name == "dot_general":  # a product of matrices is a library's
        return min(len(atom.aval.shape) for atom in equation.invars) == 1
    parts = [getattr(part, "jaxpr", part) for part in _parts(equation.params.values())]
    if name not in CALLS:
        return name in ARITHMETIC
    if name in ("jit", "pjit") and sum(_size(v) for p in parts for e in p.eqns for v in e.outvars) > WORK:
        return False
    return all(_fits(inner) for part in parts for inner in part.eqns)


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
    version = tuple(map(int, jax.__version__.split(".")[:2]))
    return jax.default_backend() == "cpu" and version in TESTED
