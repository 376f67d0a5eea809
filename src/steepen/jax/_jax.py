"""JAX, without its types: most of them are unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any

from .._tools.optional import load

jax: Any = load("jax", "steepen.jax", extra="jax")
jnp: Any = load("jax.numpy", "steepen.jax", extra="jax")
cg: Any = load("jax.scipy.sparse.linalg", "steepen.jax", extra="jax").cg


@contextmanager
def plain() -> Iterator[None]:
    """Let numbers of different types and ranks meet, also where the user's own programs forbid it."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


QUICK = {"xla_cpu_use_fusion_emitters": False}
"""What makes XLA compile a program for a CPU in about half the time; its loops are some 10 % slower."""


def compiled(*static: int) -> Callable[[Any], Any]:
    """Return a decorator like `jax.jit`, quick to compile where it is not part of another program."""

    def decorate(fun: Any) -> Any:
        plain = jax.jit(fun, static_argnums=static)

        @wraps(fun)
        def call(*args: Any) -> Any:
            return (plain if is_traced(args) or not _is_quick() else quick)(*args)

        quick = jax.jit(fun, static_argnums=static, compiler_options=QUICK)
        call.programs = lambda: plain._cache_size() + quick._cache_size()  # pyright: ignore
        return call

    return decorate


def is_traced(args: Any) -> bool:
    """Return whether these are part of another program, which JAX is tracing."""
    return any(isinstance(a, jax.core.Tracer) for a in jax.tree.leaves(args))


@cache
def _is_quick() -> bool:
    """Return whether XLA knows the option, which is one of its own and may go."""
    if jax.default_backend() != "cpu":
        return False
    try:
        jax.jit(abs, compiler_options=QUICK).lower(0.0).compile()
    except Exception:
        return False
    return True
