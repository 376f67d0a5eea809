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
    kit = context.kit
    rows = _Rows(context, x, f, g, noise, mask)
    rows.heard(promise, length)
    rows.prepare()
    for metric in (1.0, _unit(kit, rows.top, abs(x))):
        rows.ask(metric)
    return rows.mask, kit.without(rows.mask, rows.level | rows.still)


class _Rows:
    """The rows of a run at one point, and what is known of them so far.

    `mask` are those that may be at their floor, `asked` those that are being asked. Of these f is `level` if
    its fall would be lost in rounding, `quiet` if in noise, and x is `still` if its move would be.
    """

    def __init__(self, context: Context, x: Array, f: Scalar, g: Array, noise: Scalar, mask: Mask) -> None:
        kit = context.kit
        self.context, self.x, self.f, self.g, self.noise = context, x, f, g, noise
        self.part = FLOOR * context.eps
        self.low = self.part * abs(f)
        if not context.oracle.exact:  # the error of its gradient moves x by more, and hides more
            self.part = ROUGH * context.eps**0.5
            self.low = kit.num.maximum(self.low, SLIGHT * abs(f))
            mask = mask & context.affords(context.oracle.cost_error)
        self.top = kit.norm(x)
        self.hushed = kit.num.maximum(self.low, LOUD * noise)
        self.mask = self.asked = mask

    def heard(self, promise: Scalar, length: Scalar) -> None:
        """Take note of what the last direction promised, and of its length."""
        self.level, self.quiet = _within(promise, self.low), _within(promise, self.hushed)
        self.still = _within(length, self.part * self.top)
        self.mask = self.mask & (self.quiet | self.still)

    def prepare(self) -> None:
        """Find the gradient without what a bound holds, its error, and the length of a probe."""
        context, kit, x, g, noise = self.context, self.context.kit, self.x, self.g, self.noise
        free, self.rough = context.space.free(x, g, g), 0.0
        if not context.oracle.exact and kit.any(self.mask):  # a slope of its error may be there, unseen
            error = context.oracle.error(x, self.f, g, noise, self.mask)
            certain = kit.xp.where(abs(g) > error, g, 0.0 * g)  # only these can be held by a bound
            self.rough = kit.norm(context.space.free(x, certain, error))
        rounding = context.eps * abs(self.f)
        self.loud = noise > rounding
        longest = LONGEST / context.eps**0.5
        longer = kit.num.minimum(kit.num.sqrt(kit.ratio(noise, rounding)), longest)
        self.stretch = kit.pick(self.loud, longer, 1.0)
        self.size = kit.norm(free)
        self.unit = _unit(kit, self.size, free)

    def ask(self, metric: Scalar | Array) -> None:
        """Ask the first directions of conjugate gradients in a metric."""
        context, kit, oracle, x = self.context, self.context.kit, self.context.oracle, self.x
        self.asked = self.mask
        left, way, before = metric * self.unit, 0.0 * x, 0.0  # in y = x/metric
        to, fall, least = 0.0 * x, 0.0, context.eps * kit.dot(left, left)
        for deep in range(DEEP):
            square = kit.dot(left, left)
            way = left + kit.times(kit.pick(before > 0, kit.ratio(square, before), 0.0), way)
            before = square
            y = _unit(kit, kit.norm(metric * way), way)
            slope = self.size * kit.dot(left, y)
            # later, what is within the errors of the gradient and of a probe is nothing
            seen = kit.pick((slope <= self.rough) | (square <= least), 0.0, slope)
            slope = seen if deep else slope + self.rough
            self.mask = self._unless(self.mask, context.affords(oracle.cost_probe) & (slope >= 0))
            self.asked = self.asked & self.mask & (slope > 0)
            if not kit.any(self.asked):
                return
            v = metric * y
            r = self.stretch * oracle.probe_length(x, v)
            change = context.space.free(x, self.g, self._change(v, r))
            bend = kit.dot(v, change)
            step = kit.pick(self.asked, kit.ratio(slope, bend), 0.0)
            to, fall = to + kit.times(step, y), fall + 0.5 * slope * step
            self._judge(to, fall)
            if deep == 0:
                self._doubt(kit.times(-step, v), fall)
            self.mask = self._unless(self.mask, (bend > kit.ratio(self.rough, r)) & (self.quiet | self.still))
            if deep == 0:
                self._ask_longer(v, r, bend)
            self.asked = self.asked & self.mask
            left = left - kit.times(kit.pick(self.asked, kit.ratio(step, self.size), 0.0), metric * change)

    def _unless(self, held: Mask, fine: Mask) -> Mask:
        """Return a mask without the rows that are being asked and are not fine."""
        kit = self.context.kit
        return kit.without(held, kit.without(self.asked, fine))

    def _change(self, v: Array, r: Scalar) -> Array:
        """Return H·v, by a difference of length r."""
        kit = self.context.kit
        return kit.scaled(kit.ratio(1.0, r), self.context.oracle.change(self.x, v, self.g, r, self.asked))

    def _judge(self, to: Array, fall: Scalar) -> None:
        """Take note of where the directions lead, and of the fall of f on the way."""
        self.still = self._unless(self.still, _within(self.context.kit.norm(to), self.part * self.top))
        if not self.context.oracle.exact:  # a small move of x is then no proof by itself
            self.still = self._unless(self.still, self.f == 0)
        self.level = self._unless(self.level, _within(fall, self.low))
        self.quiet = self._unless(self.quiet, _within(fall, self.hushed))

    def _doubt(self, way: Array, fall: Scalar) -> None:
        """Where noise alone hides the fall, measure it here: it was perhaps measured somewhere else."""
        kit = self.context.kit
        doubt = kit.without(self.asked & self.quiet, self.level | self.still)
        if kit.any(doubt):
            here = noise_of(self.context, self.x, self.f, self.g, way, doubt)
            lower = kit.num.maximum(self.low, LOUD * kit.num.minimum(self.noise, here))
            self.hushed = kit.pick(doubt, lower, self.hushed)
            self.quiet = self._unless(self.quiet, _within(fall, self.hushed))

    def _ask_longer(self, v: Array, r: Scalar, bend: Scalar) -> None:
        """Repeat a probe ten times as long: the curvature must not be that of a kink, nor of noise."""
        context, kit = self.context, self.context.kit
        self.mask = self._unless(self.mask, context.affords(context.oracle.cost_probe))
        self.asked = self.asked & self.mask
        if kit.any(self.asked):
            longer = kit.dot(v, self._change(v, 10 * r))
            kink = self.loud & (longer > KINK * bend)
            self.mask = self._unless(self.mask, kit.without(_within(bend, KINK * longer), kink))


def _unit(kit: Kit, size: Scalar, v: Array) -> Array:
    return kit.times(1 / kit.pick(size > 0, size, 1.0), v)


def _within(value: Scalar, limit: Scalar) -> Mask:
    """Return whether a value is no more than a limit, both being numbers: never by inf ≤ inf, nor by NaN."""
    return (value <= limit) & (limit < inf)
