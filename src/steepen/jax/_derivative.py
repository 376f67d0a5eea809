"""The derivative of a minimiser by the implicit function theorem, for `minimize` and optimistix's adjoint.

At a minimum ∇f(x, θ) = 0 in the free variables F; the others, A, are at an active bound. So dx_A is the
change of the bound, and dx_F = −H_FF⁻¹(∂∇f_F/∂θ·dθ + H_FA·dx_A). The system is solved by conjugate gradients
on exact products H·v; it is symmetric, which gives both modes of differentiation, and all orders.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ._jax import cg, jax, jnp

TOLERANCE, SOLVED = {"float64": 1e-12, "float32": 1e-6}, {"float64": 1e-6, "float32": 1e-2}
"""The relative residual of conjugate gradients, and the largest that is a solution."""


def differentiable(
    fun: Any, x: Any, f: Any, g: Any, theta: Any, bounds: tuple[Any, Any] | None, tol: Any, sound: Any
) -> tuple[Any, Any]:
    """Return x and f of a minimum, where ∇f is g, with their derivatives by θ and the bounds.

    They are NaN unless the point is `sound`, a minimum; those of x also if a variable is at a bound with a
    multiplier that is zero, up to the tolerance: x then has only one-sided derivatives.
    """
    if bounds is None:
        return _follow(fun, x, f, theta, x, jnp.zeros_like(x), sound, sound)
    lower, upper = jax.tree.map(jax.lax.stop_gradient, bounds)
    high = (upper - x <= tol) & (g < -tol)
    low = ((x - lower <= tol) & (g > tol)) | ((lower == upper) & ~high)
    free = ~(low | high)
    edge = jnp.where(low | (free & (x <= lower)), bounds[0], x)
    edge = jnp.where(high | (free & (x >= upper)), bounds[1], edge)
    clear = ~(free & ((x <= lower) | (x >= upper))).any()
    return _follow(fun, x, f, theta, edge, (~free).astype(x.dtype), sound, sound & clear)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _follow(
    fun: Any, x: Any, f: Any, theta: Any, edge: Any, held: Any, sound: Any, clear: Any
) -> tuple[Any, Any]:
    """Return x and f; `edge` is x with the bound in place of variables at one, `held` is 1 where they stay.

    f has a derivative if the point is `sound`, and x if it is `clear`.
    """
    return x, f


@_follow.defjvp
def _jvp(fun: Any, primals: Any, tangents: Any) -> Any:
    x, f, theta, _, held, sound, clear = primals
    change, shift, free = tangents[2], held * tangents[3], 1 - held
    x, f = _follow(fun, *primals)  # for derivatives of higher order
    grad = jax.grad(fun)

    def product(v: Any) -> Any:
        return jnp.where(held > 0, v, jax.jvp(lambda y: grad(y, theta), (x,), (free * v,))[1])

    def solve(matvec: Any, b: Any) -> Any:
        kind = str(b.dtype)
        found = cg(matvec, b, tol=TOLERANCE[kind], maxiter=10 * b.size)[0]
        rest = jnp.linalg.norm(matvec(found) - b)  # large, or NaN, where H is singular or nearly so
        return jnp.where(rest <= SOLVED[kind] * jnp.linalg.norm(b), found, jnp.nan)

    def at(function: Any) -> Any:
        """Return the change of a function of x and θ with θ and the held variables."""
        return jax.jvp(function, (x, theta), (shift, change))[1]

    # factors before and after the solve, which would turn NaN into 0 in one of the modes
    told, known = (jnp.where(mask, 1.0, jnp.nan).astype(x.dtype) for mask in (sound, clear))
    right = -free * known * at(grad)
    moved = jax.lax.custom_linear_solve(product, right, solve, symmetric=True) + shift
    return (x, f), (known * moved, told * at(fun))  # ∇f is 0 in the free variables
