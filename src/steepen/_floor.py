"""Whether f is as low as working precision lets it be."""

from __future__ import annotations

import numpy as np

from ._arrays import Array, Mask, Scalar
from .directions._direction import Context

FLOOR = 100.0
"""f is at its floor if nothing promises a fall of f, or a move of x, of more than so many roundings."""

KINK = 3.0
"""A curvature this many times that of a probe ten times as long is that of a kink."""


def at_floor(
    context: Context, x: Array, f: Scalar, g: Array, promise: Scalar, length: Scalar, mask: Mask
) -> Mask:
    """Say for which of these rows nothing promises a fall of f, or a move of x, that would show.

    Asked are the last direction, by what it promised and by its length; −∇f; and −∇f in the metric of the
    sizes of the variables: where scales differ, the last direction may know the stiff variables only. The
    last two take two probes each. They are not small, and one is ten times the other: at a kink the curvature
    falls with the length of the probe.
    """
    kit, oracle = context.kit, context.oracle
    part = FLOOR * context.eps
    low = part * abs(f)
    if not oracle.exact:  # the error of its gradient moves x by more
        part = FLOOR * context.eps**0.5
    near = part * kit.norm(x)
    level, still = promise <= low, length <= near
    mask = mask & (level | still)
    free = context.free(x, g, g)
    with np.errstate(over="ignore"):
        scaled = x * x * free
    for v, size, limit in ((free, kit.norm(free), near), (scaled, kit.norm(x * free), part)):
        mask = mask & context.affords(oracle.cost_probe)
        if not kit.any(mask):
            break
        r = oracle.probe_length(x, v)
        slope = kit.dot(free, v)
        bend = _bend(context, x, g, v, r, mask)
        level = level & (0.5 * slope * slope <= low * bend)
        still = still & (slope * size <= limit * bend)
        mask = mask & ((bend > 0) | (slope == 0)) & (level | still) & context.affords(oracle.cost_probe)
        if not kit.any(mask):
            break
        mask = mask & (bend <= KINK * _bend(context, x, g, v, 10 * r, mask))
    return mask


def _bend(context: Context, x: Array, g: Array, v: Array, r: Scalar, mask: Mask) -> Scalar:
    kit, oracle = context.kit, context.oracle
    return kit.dot(v, oracle.change(x, v, g, r, None if kit.size is None else mask)) / r
