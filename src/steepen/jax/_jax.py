"""JAX for all files here, without its types, most of which are unknown; and `jit` with options of XLA."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache, partial, wraps
from typing import Any

from .._tools.optional import load

jax: Any = load("jax", "steepen.jax", extra="jax")
jnp: Any = load("jax.numpy", "steepen.jax", extra="jax")
core: Any = load("jax.extend", "steepen.jax", extra="jax").core
cg: Any = load("jax.scipy.sparse.linalg", "steepen.jax", extra="jax").cg


@contextmanager
def plain() -> Iterator[None]:
    """Allow implicit promotion of dtypes and ranks, also where the user has forbidden it."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


QUICK = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_copy_insertion_use_region_analysis": True,
    "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED",
}
"""XLA options for a CPU: half the compile time, fewer copies of the loop state, and operations in order: they
are too short to be worth a second thread."""

SHORT, LONGEST = QUICK | {"xla_disable_hlo_passes": "tree_reduction_rewriter"}, 1024
"""Options if no axis is longer than LONGEST: sums are not split into blocks, which only long ones need."""


PROGRAMS = 64
"""The number of programs of each kind that are kept."""


def compiled(static: int) -> Callable[[Any], Any]:
    """Return a decorator like `jax.jit`, with the options above in calls outside of other programs.

    The first `static` arguments, of which the first is a `Program`, tell one program from another.
    """

    def decorate(fun: Any) -> Any:
        @lru_cache(maxsize=PROGRAMS)
        def kept(options: Any, *known: Any) -> Any:
            return jax.jit(partial(fun, *known), compiler_options=dict(options) or None)

        @wraps(fun)
        def call(*args: Any) -> Any:
            return kept(_options(args), *args[:static])(*args[static:])

        return call

    return decorate


def _options(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the options for a call."""
    if is_traced(args) or jax.config.read("jax_disable_most_optimizations") or not _is_quick():
        return ()
    return tuple((SHORT if args[0].fun.longest <= LONGEST else QUICK).items())


def is_traced(args: Any) -> bool:
    """Return whether JAX is tracing a program that these are part of."""
    return any(isinstance(a, jax.core.Tracer) for a in jax.tree.leaves(args))


@cache
def _is_quick() -> bool:
    """Return whether XLA still has these options."""
    if jax.default_backend() != "cpu":
        return False
    try:
        jax.jit(abs, compiler_options=SHORT).lower(0.0).compile()
    except RuntimeError:
        return False
    return True
