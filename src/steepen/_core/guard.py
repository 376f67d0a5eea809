"""The paper's guard: ∇fᵀp < 0, or else −∇f."""

from __future__ import annotations

from math import inf
from typing import TypeAlias

from .arrays import Array, Mask, Scalar
from .kits import Kit

VANISHED = 1e-3
"""A penalised direction this small against ∇f has led to an artificial stationary point."""

TINY = 1e-300


Guarded: TypeAlias = tuple[Array, Scalar, Mask, Mask, Mask]
"""p, which descends f; ∇fᵀp; where p is the one proposed, the guard has fired, p is tiny beside ∇f."""


def guarded(kit: Kit, on: Mask, g: Array, size: Scalar, p: Array, trusted: Mask = False) -> Guarded:
    """Return p where it is on and descends f, whose gradient is g of this size; −∇f elsewhere.

    Where p is `trusted`, the gradient vanishes and any lower point will do. The guard also fires where ∇fᵀp
    is not finite.
    """
    slope = kit.dot(g, p)
    # a short direction has a small slope: where none is, p needs no closer look
    if kit.all(on & (slope > -inf) & (slope < -VANISHED * size * size)):
        return p, slope, True, False, False
    good = ((slope < 0) & (slope > -inf)) | trusted
    if kit.any(trusted):
        slope = kit.pick(trusted, kit.num.minimum(slope, -TINY), slope)
    used = on & good
    if not kit.all(used):
        p, slope = kit.where(used, p, -g), kit.pick(used, slope, -size * size)
    return p, slope, used, kit.without(on, good), used & (kit.norm(p) <= VANISHED * size)
