"""The paper's guard: p where ∇fᵀp < 0, else −∇f; applied to each proposed direction; pure."""

from __future__ import annotations

from math import inf

from ...arrays import Array, Mask, Scalar
from .backend import Backend

VANISHED = 1e-3  # a penalised direction this small against ∇f has led to an artificial stationary point
TINY = 1e-300


def guarded(
    backend: Backend, on: Mask, g: Array, size: Scalar, p: Array, trusted: Mask = False, rare: bool = False
) -> tuple[Array, Scalar, Mask, Mask, Mask]:
    """Return p where it is on and descends f (g is ∇f, `size` its norm) with a finite slope, else −∇f.

    Also return ∇fᵀp, and where p is the one proposed, the guard has fired, p is tiny beside ∇f.
    At a `trusted` p the gradient vanishes, and any slope will do; a guard that is `rare` may be deferred.
    """
    slope = backend.dot(g, p)
    # a short direction has a small slope: where none is, p needs no closer look
    if backend.all(on & (slope > -inf) & (slope < -VANISHED * size * size)):
        return p, slope, True, False, False
    good = ((slope < 0) & (slope > -inf)) | trusted
    if backend.any(trusted):
        slope = backend.select(trusted, backend.num.minimum(slope, -TINY), slope)
    if rare and backend.defers(backend.negate(good)):
        return p, slope, True, False, False
    used = on & good
    if not backend.all(used):
        p, slope = backend.select(used, p, -g), backend.select(used, slope, -size * size)
    return p, slope, used, backend.and_not(on, good), used & (backend.norm(p) <= VANISHED * size)
