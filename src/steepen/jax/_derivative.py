"""The derivative of a minimiser, by the implicit function theorem.

At a minimum ∇f(x, θ) = 0 in the variables that no bound holds, so a change of θ moves them by
−H⁻¹·∂∇f/∂θ·dθ. The system is solved by conjugate gradients on exact products H·v; it is symmetric, so that it
serves both ways of differentiation, and as often as one likes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ._jax import cg, jax, jnp

TOLERANCE = {"float64": 1e-12, "float32": 1e-6}
"""What may be left of the right-hand side."""


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def follow(fun: Any, x: Any, f: Any, theta: Any, free: Any, sound: Any) -> tuple[Any, Any]:
    """Return x and f, which follow θ; `free` is 1 for a variable that may move, `sound` tells a minimum."""
    return x, f


@follow.defjvp
def _follow(fun: Any, primals: Any, tangents: Any) -> Any:
    x, f, theta, free, sound = primals
    change = tangents[2]
    x, f = follow(fun, x, f, theta, free, sound)  # so that derivatives of this see x follow θ, too
    grad = jax.grad(fun)

    def slope(y: Any) -> Any:
        return grad(y, theta)

    def product(v: Any) -> Any:
        return jnp.where(free > 0, jax.jvp(slope, (x,), (free * v,))[1], v)

    def solve(matvec: Any, b: Any) -> Any:
        found = cg(matvec, b, tol=TOLERANCE[str(b.dtype)], maxiter=10 * b.size)[0]
        return jnp.where(jnp.isfinite(found).all(), found, jnp.nan)  # infinite where H is singular

    def at(function: Any) -> Any:
        """Return how a function of x and θ changes with θ."""
        return jax.jvp(partial(function, x), (theta,), (change,))[1]

    # a factor on both sides of the solve, which would make 0 of NaN: so it is NaN in both modes
    told = jnp.where(sound, 1.0, jnp.nan).astype(x.dtype)
    moved = jax.lax.custom_linear_solve(product, -told * free * at(grad), solve, symmetric=True)
    return (x, f), (told * moved, told * at(fun))  # ∇f is 0 in what moves
