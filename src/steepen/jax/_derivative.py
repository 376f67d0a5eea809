"""The derivative of a minimiser, by the implicit function theorem.

At a minimum ∇f(x, θ) = 0 in the variables F that no bound holds; those that one holds, A, are equal to it.
So x follows θ and the bounds: dx_A is the change of the bound, and dx_F = −H_FF⁻¹(∂∇f_F/∂θ·dθ + H_FA·dx_A).
The system is solved by conjugate gradients on exact products H·v; it is symmetric, so that it serves both
modes of differentiation, and as often as one likes.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from ._jax import cg, jax, jnp

TOLERANCE = {"float64": 1e-12, "float32": 1e-6}
"""What may be left of the right-hand side."""


class Held(NamedTuple):
    """Which variables are at their lower and at their upper bound, and 1 for those that are held there.

    `clear` tells that all others are free. They are not where one is at a bound with a multiplier of zero: x
    has no derivative there, since it follows θ to one side alone.
    """

    low: Any
    high: Any
    held: Any
    clear: Any

    @classmethod
    def at(cls, x: Any, g: Any, bounds: tuple[Any, Any], tol: Any) -> Held:
        """Look at a point where ∇f is g; a run has ended there with a tolerance, which multipliers exceed."""
        lower, upper = bounds
        high = (upper - x <= tol) & (g < -tol)
        low = ((x - lower <= tol) & (g > tol)) | ((lower == upper) & ~high)
        idle = ((x <= lower) | (x >= upper)) & ~low & ~high
        held = (low | high).astype(x.dtype)
        return cls(low | (idle & (x <= lower)), high | (idle & (x >= upper)), held, ~idle.any(axis=-1))

    def edge(self, x: Any, bounds: tuple[Any, Any]) -> Any:
        """Return the bounds that x is at, and x itself where it is at none."""
        return jnp.where(self.low, bounds[0], jnp.where(self.high, bounds[1], x))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def follow(
    fun: Any, x: Any, f: Any, theta: Any, edge: Any, held: Any, sound: Any, clear: Any
) -> tuple[Any, Any]:
    """Return x and f, which follow θ and the bounds.

    `edge` has the bounds that x is at, among them those of the variables for which `held` is 1; it is None
    where there are no bounds. f has no derivative unless the point is `sound`, a minimum, and x none unless
    it is `clear`, too.
    """
    return x, f


@follow.defjvp
def _follow(fun: Any, primals: Any, tangents: Any) -> Any:
    x, f, theta, edge, held, sound, clear = primals
    change, shift = tangents[2], tangents[3]
    # so that derivatives of this see x follow, too
    x, f = follow(fun, x, f, theta, edge, held, sound, clear)
    grad = jax.grad(fun)

    def slope(y: Any) -> Any:
        return grad(y, theta)

    def product(v: Any) -> Any:
        if edge is None:
            return jax.jvp(slope, (x,), (v,))[1]
        return jnp.where(held > 0, v, jax.jvp(slope, (x,), ((1 - held) * v,))[1])

    def solve(matvec: Any, b: Any) -> Any:
        found = cg(matvec, b, tol=TOLERANCE[str(b.dtype)], maxiter=10 * b.size)[0]
        return jnp.where(jnp.isfinite(found).all(), found, jnp.nan)  # infinite where H is singular

    def at(function: Any) -> Any:
        """Return how a function of x and θ changes with θ and with the variables that are held."""
        if edge is None:
            return jax.jvp(partial(function, x), (theta,), (change,))[1]
        return jax.jvp(function, (x, theta), (held * shift, change))[1]

    # a factor on both sides of the solve, which would make 0 of NaN: so it is NaN in both modes
    told, known = (jnp.where(mask, 1.0, jnp.nan).astype(x.dtype) for mask in (sound, sound & clear))
    right = -known * at(grad)
    moved = jax.lax.custom_linear_solve(
        product, right if edge is None else (1 - held) * right, solve, symmetric=True
    )
    moved = moved if edge is None else moved + held * shift
    return (x, f), (known * moved, told * at(fun))  # ∇f is 0 in what is free
