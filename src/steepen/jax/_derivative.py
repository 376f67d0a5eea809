"""The derivative of a minimiser, by the implicit function theorem.

At a minimum ∇f(x, θ) = 0 in the free variables F; the others, A, are at an active bound. So dx_A is the
change of the bound, and dx_F = −H_FF⁻¹(∂∇f_F/∂θ·dθ + H_FA·dx_A). The system is solved by conjugate gradients
on exact products H·v; it is symmetric, which gives both modes of differentiation, and all orders.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from ._jax import cg, jax, jnp

TOLERANCE = {"float64": 1e-12, "float32": 1e-6}
"""The relative residual of conjugate gradients."""


class Held(NamedTuple):
    """Masks of the variables at their lower and upper bounds, and 1 for those held there by a multiplier.

    `clear` is False if a variable is at a bound with a multiplier of zero: x then has only one-sided
    derivatives.
    """

    low: Any
    high: Any
    held: Any
    clear: Any

    @classmethod
    def at(cls, x: Any, g: Any, bounds: tuple[Any, Any], tol: Any) -> Held:
        """Return the masks at x, where ∇f is g; multipliers within the tolerance count as zero."""
        lower, upper = bounds
        high = (upper - x <= tol) & (g < -tol)
        low = ((x - lower <= tol) & (g > tol)) | ((lower == upper) & ~high)
        idle = ((x <= lower) | (x >= upper)) & ~low & ~high
        held = (low | high).astype(x.dtype)
        return cls(low | (idle & (x <= lower)), high | (idle & (x >= upper)), held, ~idle.any(axis=-1))

    def edge(self, x: Any, bounds: tuple[Any, Any]) -> Any:
        """Return x, with variables at a bound replaced by the bound."""
        return jnp.where(self.low, bounds[0], jnp.where(self.high, bounds[1], x))


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def follow(
    fun: Any, x: Any, f: Any, theta: Any, edge: Any, held: Any, sound: Any, clear: Any
) -> tuple[Any, Any]:
    """Return x and f, with their derivatives by θ and the bounds.

    `edge` is x with variables at a bound replaced by the bound, or None without bounds. The derivative of f
    is NaN unless the point is `sound`, a minimum; that of x unless it is `clear`, too.
    """
    return x, f


@follow.defjvp
def _follow(fun: Any, primals: Any, tangents: Any) -> Any:
    x, f, theta, edge, held, sound, clear = primals
    change, shift = tangents[2], tangents[3]
    # for derivatives of higher order
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
        return jnp.where(jnp.isfinite(found).all(), found, jnp.nan)  # H is singular

    def at(function: Any) -> Any:
        """Return the change of a function of x and θ with θ and the held variables."""
        if edge is None:
            return jax.jvp(partial(function, x), (theta,), (change,))[1]
        return jax.jvp(function, (x, theta), (held * shift, change))[1]

    # factors before and after the solve, which would turn NaN into 0 in one of the modes
    told, known = (jnp.where(mask, 1.0, jnp.nan).astype(x.dtype) for mask in (sound, sound & clear))
    right = -known * at(grad)
    moved = jax.lax.custom_linear_solve(
        product, right if edge is None else (1 - held) * right, solve, symmetric=True
    )
    moved = moved if edge is None else moved + held * shift
    return (x, f), (known * moved, told * at(fun))  # ∇f is 0 in the free variables
