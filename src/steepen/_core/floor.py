"""Whether f is as low as working precision lets it be."""

from __future__ import annotations

from math import inf

from .arrays import Array, Mask, Scalar
from .context import Context
from .noise import noise_of

FLOOR = 100.0
"""f is at its floor if nothing promises a fall of f, or a move of x, of more than this many roundings."""

ROUGH = 30.0
"""The same for a move of x where gradients are differences, in units of √ε."""

SLIGHT = 1e-8
"""Beside such a small move, the fall of f that is promised must be within this part of |f|."""

LOUD = 10.0
"""The same for the noise of f, as far as it was measured."""

LONGEST = 1e-3
"""Noise makes probes longer, up to this part of the size of x."""

KINK = 3.0
"""A curvature this many times that of a probe ten times as long is that of a kink."""


def at_floor(
    context: Context,
    x: Array,
    f: Scalar,
    g: Array,
    promise: Scalar,
    length: Scalar,
    noise: Scalar,
    mask: Mask,
) -> tuple[Mask, Mask]:
    """Say for which of these rows nothing promises a fall of f, or a move of x, that would show.

    The second mask says for which of them it is the noise of f, and not rounding, that would hide a fall.

    Asked are the last direction, by what it promised and by its length; −∇f; and −∇f in the metric of the
    sizes of the variables: where scales differ, the last direction may know the stiff variables only. The
    last two take two probes each. They are not small, and one is ten times the other: at a kink the curvature
    falls with the length of the probe.
    """
    kit, oracle = context.kit, context.oracle
    part = FLOOR * context.eps
    low = part * abs(f)
    if not oracle.exact:  # the error of its gradient moves x by more
        part = ROUGH * context.eps**0.5
        mask = mask & context.affords(oracle.cost_error)
    near = part * kit.norm(x)
    hushed = kit.num.maximum(low, LOUD * noise)
    level, quiet, still = _within(promise, low), _within(promise, hushed), _within(length, near)
    mask = mask & (quiet | still)
    loudness = kit.ratio(noise, context.eps * abs(f))
    longer = kit.pick(loudness > 1, kit.num.minimum(kit.num.sqrt(loudness), LONGEST / context.eps**0.5), 1.0)
    free, rough = context.space.free(x, g, g), 0.0
    if not oracle.exact and kit.any(mask):  # a slope of its error may be there, unseen
        error = oracle.error(x, f, g, mask)
        rough = kit.norm(context.space.free(x, g, error))
    top = kit.norm(x)
    sizes = kit.times(1 / kit.pick(top > 0, top, 1.0), abs(x))
    for metric in (None, sizes * sizes):
        mask = mask & context.affords(oracle.cost_probe)
        if not kit.any(mask):
            break
        v = free if metric is None else metric * free
        size = kit.norm(v)
        v = kit.times(1 / kit.pick(size > 0, size, 1.0), v)
        slope, r = kit.dot(free, v) + rough, longer * oracle.probe_length(x, v)
        bend = _bend(context, x, g, v, r, mask)
        step = kit.pick(slope == 0, 0.0, kit.ratio(slope, bend))  # to the minimum along v
        if metric is None:
            still = still & _within(step, near)
        else:  # in the sizes of the variables
            moved = kit.pick(size > 0, step * kit.ratio(kit.norm(sizes * free), size * top), 0.0)
            still = still & _within(moved, part)
        fall = 0.5 * slope * step
        level = level & _within(fall, low)
        if not oracle.exact:  # a small move of x is then no proof by itself
            still = still & (_within(fall, SLIGHT * abs(f)) | (f == 0))
        quiet = quiet & _within(fall, hushed)
        if metric is None and kit.any(doubt := kit.without(mask & quiet, level | still)):
            # the noise may have been another where it was measured
            here = noise_of(context, x, f, g, kit.times(-step, v), doubt)
            hushed = kit.num.maximum(low, LOUD * kit.num.minimum(noise, here))
            quiet = quiet & _within(fall, hushed)
        mask = mask & ((bend > 0) | (slope == 0)) & (quiet | still) & context.affords(oracle.cost_probe)
        if not kit.any(mask):
            break
        mask = mask & _within(bend, KINK * _bend(context, x, g, v, 10 * r, mask))
    return mask, kit.without(mask, level | still)


def _within(value: Scalar, limit: Scalar) -> Mask:
    """Say whether a value is no more than a limit, both being numbers: never by inf ≤ inf, nor by NaN."""
    return (value <= limit) & (limit < inf)


def _bend(context: Context, x: Array, g: Array, v: Array, r: Scalar, mask: Mask) -> Scalar:
    kit, oracle = context.kit, context.oracle
    return kit.ratio(kit.dot(v, oracle.change(x, v, g, r, mask)), r)
