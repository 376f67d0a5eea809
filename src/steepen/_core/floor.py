"""Whether f is as low as working precision lets it be."""

from __future__ import annotations

from math import inf

from .arrays import Array, Mask, Scalar
from .context import Context
from .kits import Kit
from .noise import noise_of

FLOOR = 30.0
"""f is at its floor if nothing promises a fall of f, or a move of x, of more than this many roundings."""

ROUGH = 30.0
"""The same for a move of x where gradients are differences, in units of √ε."""

SLIGHT = 1e-8
"""There, a fall of f within this part of |f| does not count either."""

LOUD = 10.0
"""The same for the noise of f, as far as it was measured."""

LONGEST = 1e-3
"""Noise makes probes longer, up to this part of the size of x."""

KINK = 3.0
"""A curvature this many times that of a probe ten times as long is that of a kink; with probes that noise has
made longer, one this many times smaller shows that they are too long."""

DEEP = 5
"""The most directions that are asked in each metric."""


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
    """Return for which of these rows nothing promises a fall of f, or a move of x, that would show.

    The second mask says for which of them it is the noise of f, and not rounding, that would hide a fall.

    Asked are the last direction, by what it promised and by its length, and then the first directions of
    conjugate gradients, from −∇f on, in two metrics: the plain one and that of the sizes of the variables.
    The last direction may know the stiff variables only; these find the soft ones. Where a curvature is not
    positive, or lost in its rounding, nothing is proved. The first probe of each metric is repeated ten times
    as long: at a kink the curvature falls with the length of the probe.
    """
    kit, oracle = context.kit, context.oracle
    part = FLOOR * context.eps
    low = part * abs(f)
    if not oracle.exact:  # the error of its gradient moves x by more, and hides more
        part = ROUGH * context.eps**0.5
        low = kit.num.maximum(low, SLIGHT * abs(f))
        mask = mask & context.affords(oracle.cost_error)
    top = kit.norm(x)
    hushed = kit.num.maximum(low, LOUD * noise)
    level, quiet, still = _within(promise, low), _within(promise, hushed), _within(length, part * top)
    mask = mask & (quiet | still)
    free, rough = context.space.free(x, g, g), 0.0
    if not oracle.exact and kit.any(mask):  # a slope of its error may be there, unseen
        error = oracle.error(x, f, g, noise, mask)
        certain = kit.xp.where(abs(g) > error, g, 0.0 * g)  # only these can be held by a bound
        rough = kit.norm(context.space.free(x, certain, error))
    rounding = context.eps * abs(f)
    loud = noise > rounding
    longest = LONGEST / context.eps**0.5
    stretch = kit.pick(loud, kit.num.minimum(kit.num.sqrt(kit.ratio(noise, rounding)), longest), 1.0)
    size = kit.norm(free)
    unit = _unit(kit, size, free)

    def unless(held: Mask, fine: Mask) -> Mask:
        """Return a mask without the rows that are being asked and are not fine."""
        return kit.without(held, kit.without(asked, fine))

    for metric in (1.0, _unit(kit, top, abs(x))):
        asked = mask
        left, way, before = metric * unit, 0.0 * x, 0.0  # in y = x/metric
        to, fall, least = 0.0 * x, 0.0, context.eps * kit.dot(left, left)
        for deep in range(DEEP):
            square = kit.dot(left, left)
            way = left + kit.times(kit.pick(before > 0, kit.ratio(square, before), 0.0), way)
            before = square
            y = _unit(kit, kit.norm(metric * way), way)
            slope = size * kit.dot(left, y)
            # later, what is within the errors of the gradient and of a probe is nothing
            seen = kit.pick((slope <= rough) | (square <= least), 0.0, slope)
            slope = seen if deep else slope + rough
            mask = unless(mask, context.affords(oracle.cost_probe) & (slope >= 0))
            asked = asked & mask & (slope > 0)
            if not kit.any(asked):
                break
            v = metric * y
            r = stretch * oracle.probe_length(x, v)
            change = context.space.free(x, g, _change(context, x, g, v, r, asked))
            bend = kit.dot(v, change)
            step = kit.pick(asked, kit.ratio(slope, bend), 0.0)
            to, fall = to + kit.times(step, y), fall + 0.5 * slope * step
            still = unless(still, _within(kit.norm(to), part * top))
            if not oracle.exact:  # a small move of x is then no proof by itself
                still = unless(still, f == 0)
            level, quiet = unless(level, _within(fall, low)), unless(quiet, _within(fall, hushed))
            if deep == 0 and kit.any(doubt := kit.without(asked & quiet, level | still)):
                # the noise may have been another where it was measured
                here = noise_of(context, x, f, g, kit.times(-step, v), doubt)
                lower = kit.num.maximum(low, LOUD * kit.num.minimum(noise, here))
                hushed = kit.pick(doubt, lower, hushed)
                quiet = unless(quiet, _within(fall, hushed))
            mask = unless(mask, (bend > kit.ratio(rough, r)) & (quiet | still))
            if deep == 0:
                mask = unless(mask, context.affords(oracle.cost_probe))
                asked = asked & mask
                if not kit.any(asked):
                    break
                longer = kit.dot(v, _change(context, x, g, v, 10 * r, asked))
                kink = loud & (longer > KINK * bend)
                mask = unless(mask, kit.without(_within(bend, KINK * longer), kink))
            asked = asked & mask
            left = left - kit.times(kit.pick(asked, kit.ratio(step, size), 0.0), metric * change)
    return mask, kit.without(mask, level | still)


def _unit(kit: Kit, size: Scalar, v: Array) -> Array:
    return kit.times(1 / kit.pick(size > 0, size, 1.0), v)


def _within(value: Scalar, limit: Scalar) -> Mask:
    """Return whether a value is no more than a limit, both being numbers: never by inf ≤ inf, nor by NaN."""
    return (value <= limit) & (limit < inf)


def _change(context: Context, x: Array, g: Array, v: Array, r: Scalar, mask: Mask) -> Array:
    """Return H·v, by a difference of length r."""
    kit = context.kit
    return kit.scaled(kit.ratio(1.0, r), context.oracle.change(x, v, g, r, mask))
