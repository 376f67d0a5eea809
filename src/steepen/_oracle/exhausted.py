"""When a gradient made of differences is good enough, and when differences have nothing more to say.

A gradient is held against its own error in the metric of f″ along each variable: Σ gᵢ²/f″ᵢ is twice what f
falls by if one variable after the other is moved to where its difference vanishes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.arrays import Array, Mask, Scalar, to_numpy
from .context import Context
from .floor import FLOOR

ROUGH = 0.1
"""A gradient whose error is more than this part of it, both squared, is too rough to go by."""

SOON = 1e3
"""With noise, one-sided differences will be too rough after a step that gained less than so many times what
their error hides."""

FAST = 3.0
"""The same after a gain of no more than so many times the geometric mean of that and |f|: what a run gains
falls by squares at the end, so that the next gain will be hidden."""

CLEAR = 1e-3
"""One-sided differences are good enough again where their error is no more than this part, both squared."""

QUIET = 5.0
"""A fall of f within so many times its noise does not show; within the rounding of f, it is FLOOR times."""

LARGE = 0.25
"""That is no more than this part of f, or its noise itself."""

UNSURE = 4.0
"""Seven values tell the noise within this factor: a run that has been idle may have more of it."""

SEEN = 1e3
"""A gradient is clear in spite of noise where it is more than this part of its error, both squared."""

BLIND = 1e3
"""A gradient is not within gtol if its error is so many times as large."""

LOST = 1.0
"""Where a search finds nothing and the error is more than this part, nothing is left to be found."""


def falls(context: Context, x: Array, f: Scalar, g: Array, central: Mask) -> tuple[Scalar, Scalar, Scalar]:
    """Return Σ gᵢ²/f″ᵢ, the same of the error of such a gradient, and the norm of that error."""
    kit, oracle = context.kit, context.oracle
    free = to_numpy(context.space.free(x, g, kit.xp.ones_like(g)))
    slope, error = free * to_numpy(g), free * oracle.fault(x, f, central)
    weight = np.sqrt(oracle.bends(x, f))
    sums = [((part / weight) ** 2).sum(axis=-1) for part in (slope, error)]
    return kit.scalar(sums[0]), kit.scalar(sums[1]), kit.scalar(np.sqrt((error * error).sum(axis=-1)))


def too_rough(context: Context, x: Array, f: Scalar, g: Array, gtol: Any) -> Mask:
    """Return where one-sided differences are too rough for what is left of the gradient."""
    kit, oracle = context.kit, context.oracle
    fall, hidden, error = falls(context, x, f, g, False)
    near = (context.space.residual(x, g, kit.norm(g)) <= gtol) & (error > gtol)
    # noise hides more in soft directions than these sums show: central differences see further
    rough = ((hidden > ROUGH * fall) | near) & ((hidden > 2 * shown(context, f)) | oracle.noisy(f))
    return kit.without(rough, oracle.digits.central)


def will_be_rough(context: Context, x: Array, f: Scalar, gain: Scalar) -> Mask:
    """Return where they will be so by what the last step has gained: then they need not be made first."""
    kit, oracle = context.kit, context.oracle
    noisy = kit.without(oracle.noisy(f), oracle.digits.central)
    if not kit.any(noisy):
        return noisy
    error = oracle.fault(x, f, False) / np.sqrt(oracle.bends(x, f))
    hidden = kit.scalar((error * error).sum(axis=-1))
    return noisy & (gain < kit.num.maximum(SOON * hidden, FAST * kit.num.sqrt(hidden * abs(f))))


def relax(context: Context, x: Array, f: Scalar, g: Array, gtol: Any, rows: Mask) -> None:
    """Go back to one-sided differences where they would have been good enough."""
    oracle = context.oracle
    rows = rows & oracle.digits.central
    if context.kit.any(rows):
        fall, hidden, error = falls(context, x, f, g, False)
        oracle.refine(rows & (hidden <= CLEAR * fall) & (error <= gtol), False)


def at_bottom(
    context: Context, x: Array, f: Scalar, g: Array, promise: Scalar, mask: Mask, tired: Mask
) -> tuple[Mask, Mask]:
    """Return where nothing promises a fall of f that its values would show, and where noise would hide it."""
    kit, oracle = context.kit, context.oracle
    fall, hidden, _ = falls(context, x, f, g, oracle.digits.central)
    low = 2 * shown(context, f)
    low = kit.pick(oracle.noisy(f) & tired, UNSURE * low, low)
    quiet = mask & oracle.sound(f) & (oracle.grain == 0) & (fall <= low) & (hidden <= low) & (promise <= low)
    noisy = quiet & oracle.noisy(f)
    # what is clear in spite of noise may lead far along a valley, which these sums do not see
    return kit.without(quiet, kit.without(noisy & (fall > SEEN * hidden), tired)), noisy


def shown(context: Context, f: Scalar) -> Scalar:
    """Return the least fall of f that its values would show.

    Noise that is a large part of f may be so only as long as f is large.
    """
    kit, oracle = context.kit, context.oracle
    level = oracle.level(f)
    loud = kit.num.minimum(QUIET * level, kit.num.maximum(level, LARGE * abs(f)))
    return kit.pick(oracle.noisy(f), loud, FLOOR * level)


def unsure(context: Context, x: Array, f: Scalar, gtol: Any) -> Mask:
    """Return where the error of a gradient is far more than gtol, so that to be within it means nothing."""
    oracle = context.oracle
    error = oracle.fault(x, f, oracle.digits.central)
    return context.kit.scalar(np.sqrt((error * error).sum(axis=-1))) > BLIND * gtol


def spent(context: Context, x: Array, f: Scalar, g: Array, mask: Mask) -> Mask:
    """Return where the gradient is no more than its error, and f no kink."""
    oracle = context.oracle
    fall, hidden, _ = falls(context, x, f, g, oracle.digits.central)
    return mask & oracle.sound(f) & (LOST * fall <= hidden) & (hidden < np.inf)
