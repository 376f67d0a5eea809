"""Is f as low as precision allows? Asked once, after a failed search; see `steepen.roundoff`."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..roundoff import DEEP, FLOOR, KINK
from ._box import difference, difference_length
from ._jax import jax, jnp
from ._numbers import dot, norm

MOST = 2 * (DEEP + 1)
"""The most gradients that the question takes."""


class _Probe(NamedTuple):
    turn: Any
    residual: Any
    way: Any
    to: Any
    decrease: Any
    """What the directions so far predict, and the largest move of x among them."""
    move: Any
    proved: Any
    open: Any


def at_roundoff(both: Any, space: Any, eps: float, x: Any, f: Any, g: Any, slope: Any, length: Any) -> Any:
    """Return whether no decrease of f or move of x is predicted that could be seen; and what that took.

    The prediction is that of the last direction, by its slope and its length, and then of the first
    directions of conjugate gradients in two metrics: the plain one, and that of the sizes of the variables.
    """
    top, part = norm(x), FLOOR * eps
    still, low = part * top, part * abs(f)
    free = space.free(x, g, g)
    size = norm(free)
    unit = free / jnp.where(size > 0, size, 1.0)

    def hides(decrease: Any, move: Any) -> Any:
        return (decrease <= low) & (low < jnp.inf) | (move <= still) & (still < jnp.inf)

    def probed(metric: Any) -> tuple[Any, Any, Any, Any]:
        start = metric * unit
        least = eps * dot(start, start)

        def turn(s: _Probe) -> _Probe:
            y = s.way / jnp.where(norm(metric * s.way) > 0, norm(metric * s.way), 1.0)
            slope, v = size * dot(s.residual, y), metric * y
            r = difference_length(eps, x, v)
            pair = [difference(space, x, v, by) for by in (r, 10 * r)]
            there = jax.lax.map(lambda point: both(point)[1], jnp.stack([point for point, _ in pair]))
            near, far = (sign * (there[i] - g) / (r, 10 * r)[i] for i, (_, sign) in enumerate(pair))
            change = space.free(x, g, near)
            bend, again = dot(v, change), dot(v, far)
            step = slope / bend
            to, decrease = s.to + step * y, s.decrease + 0.5 * slope * step
            move = jnp.maximum(s.move, norm(to))
            straight = (s.turn > 0) | (bend <= KINK * again) & (again <= KINK * bend)
            good = (bend > 0) & hides(decrease, move) & straight
            residual = s.residual - (step / size) * (metric * change)
            before, square = dot(s.residual, s.residual), dot(residual, residual)
            flat = slope == 0  # what is left is nothing
            return _Probe(
                s.turn + 1, residual, residual + jnp.where(before > 0, square / before, 0.0) * s.way, to,
                jnp.where(flat, s.decrease, decrease), jnp.where(flat, s.move, move), flat | good,
                good & ~flat & (square > least) & (s.turn + 1 < DEEP),
            )  # fmt: skip

        zero = jnp.zeros_like(f)
        s = _Probe(
            jnp.zeros((), jnp.int32), start, start, 0 * x, zero, zero, zero == 0, hides(-slope, length)
        )
        s = jax.lax.while_loop(lambda s: s.open, turn, s)
        return s.proved, s.decrease, s.move, s.turn

    metrics = jnp.stack([jnp.ones_like(x), abs(x) / jnp.where(top > 0, top, 1.0)])
    proved, decrease, move, turns = jax.lax.map(probed, metrics)
    found = hides(jnp.maximum(-slope, decrease.max()), jnp.maximum(length, move.max()))
    return found & proved.all(), (turns + (turns > 0)).sum()
