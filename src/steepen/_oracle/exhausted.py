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

CLEAR = 1e-3
"""One-sided differences are good enough again where their error is no more than this part, both squared."""

QUIET = 5.0
"""A fall of f within so many times its noise does not show; within the rounding of f, it is FLOOR times."""

UNSURE = 4.0
"""Seven values tell the noise within this factor: a run that has been idle may have more of it."""

SEEN = 1e3
"""A gradient is clear in spite of noise where it is more than this part of its error, both squared."""

LOST = 1.0
"""Where a search finds nothing and the error is more than this part, nothing is left to be found."""


def falls(context: Context, x: Array, f: Scalar, g: Array, central: Mask) -> tuple[Scalar, Scalar, Scalar]:
    """Return Σ gᵢ²/f″ᵢ, the same of the error of such a gradient, and the norm of that error."""
    kit, oracle = context.kit, context.oracle
    free = to_numpy(context.space.free(x, g, kit.xp.ones_like(g)))
    slope, error = free * to_numpy(g), free * oracle.fault(x, f, central)
    weight = 1 / oracle.bends(x, f)
    sums = ((slope * slope * weight).sum(axis=-1), (error * error * weight).sum(axis=-1))
    return kit.scalar(sums[0]), kit.scalar(sums[1]), kit.scalar(np.sqrt((error * error).sum(axis=-1)))


def too_rough(context: Context, x: Array, f: Scalar, g: Array, gtol: Any) -> Mask:
    """Return where one-sided differences are too rough for what is left of the gradient."""
    kit, oracle = context.kit, context.oracle
    fall, hidden, error = falls(context, x, f, g, False)
    near = (context.space.residual(x, g, kit.norm(g)) <= gtol) & (error > gtol)
    # noise hides more in soft directions than these sums show: central differences see further
    rough = ((hidden > ROUGH * fall) | near) & ((hidden > _low(context, f)) | oracle.noisy(f))
    return kit.without(rough, oracle.digits.central)


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
    low = _low(context, f)
    low = kit.pick(oracle.noisy(f) & tired, UNSURE * low, low)
    quiet = mask & oracle.known & (oracle.grain == 0) & (fall <= low) & (hidden <= low) & (promise <= low)
    noisy = quiet & oracle.noisy(f)
    # what is clear in spite of noise may lead far along a valley, which these sums do not see
    return kit.without(quiet, kit.without(noisy & (fall > SEEN * hidden), tired)), noisy


def _low(context: Context, f: Scalar) -> Scalar:
    """Return twice the fall of f that its values would not show."""
    oracle = context.oracle
    return 2 * context.kit.pick(oracle.noisy(f), QUIET, FLOOR) * oracle.level(f)


def spent(context: Context, x: Array, f: Scalar, g: Array, mask: Mask) -> Mask:
    """Return where the gradient is no more than its error, and f no kink."""
    oracle = context.oracle
    fall, hidden, _ = falls(context, x, f, g, oracle.digits.central)
    return mask & oracle.known & (LOST * fall <= hidden)
