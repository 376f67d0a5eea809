"""What a compiled program is made of, counted in its jaxpr before XLA sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

jax = pytest.importorskip("jax")
jnp = jax.numpy
import steepen.jax as sj  # noqa: E402


def primitives(jaxpr: Any, seen: set[int]) -> Iterator[str]:
    """Yield the names of all primitives; a part that is called from several places counts once."""
    if id(jaxpr) in seen:
        return
    seen.add(id(jaxpr))
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for value in equation.params.values():
            for part in value if isinstance(value, tuple) else (value,):
                inner = getattr(part, "jaxpr", None)
                if inner is not None:
                    yield from primitives(getattr(inner, "jaxpr", inner), seen)


def places(method: str, x0: Any, bounded: bool) -> int:
    """Count the arc tangents in the program of a function that has one, and whose gradient has none."""

    def fun(x: Any) -> Any:
        return jnp.arctan(x).sum() + (x * x).sum()

    bounds = [(-2.0, 2.0)] * 2 if bounded else None
    program = jax.make_jaxpr(lambda x: sj.minimize(fun, x, method=method, bounds=bounds))(x0)
    return list(primitives(program.jaxpr, set())).count("atan")


@pytest.mark.parametrize("method", ["gd", "bfgs", "cgd-auto"])
@pytest.mark.parametrize("bounded", [False, True], ids=("free", "bounded"))
def test_a_function_is_in_the_program_at_two_places(method: str, bounded: bool) -> None:
    """The trials of the search have it, and all that is seldom run has one together."""
    assert places(method, jnp.array([-1.2, 1.0]), bounded) == 2


@pytest.mark.parametrize("method", ["gd", "bfgs", "cgd-auto"])
def test_lanes_have_it_at_four(method: str) -> None:
    """f and ∇f apart in the trials; what is seldom run; and the starts, which are fewer at a time."""
    assert places(method, jnp.ones((3, 2)), True) == 4
