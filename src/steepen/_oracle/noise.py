"""How far the values of f can be trusted: the noise that they show at points close to each other."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from .._core.arrays import Array, Mask, Scalar, Whole
from .context import Context

NEAR = 0.1
"""The values are taken at this part of the step in doubt: what bends f there is a hundredth of it."""


def noise_of(context: Context, x: Array, f: Scalar, g: Array, way: Array, mask: Mask) -> Scalar:
    """Return what the values of f near x differ by beyond what the gradient explains; 0 outside the mask.

    Two values are taken, one ahead on the way of a step, one half as far behind (half as far ahead where
    bounds leave no room), and the smaller difference counts. A kink or a jump shows on one side only; noise
    shows on both.
    """
    kit, oracle = context.kit, context.oracle
    none = 0.0 * f
    mask = mask & context.affords(oracle.cost_value.plus(oracle.cost_value))
    if not kit.any(mask) or context.late():
        return none
    ahead = NEAR * way

    def look(s: _Looks) -> _Looks:
        point = context.space.project(x + (1.0 - 1.5 * s.turn) * ahead)
        point = kit.where(kit.same(point, x), context.space.project(x + 0.5 * ahead), point)
        value = oracle.value(point, mask)
        found = kit.num.minimum(s.found, abs(value - f - kit.dot(g, point - x)))
        return _Looks(s.turn + 1, found, s.open)

    found = kit.repeat(look, _Looks(0, none + inf, mask), 2).found
    return kit.pick(mask & (found < inf), found, none)


class _Looks(NamedTuple):
    turn: Whole
    found: Scalar
    open: Mask
