"""For cgd-auto: escape from a start where ∇f vanishes, along negative curvature, by the Lanczos method.

It costs one gradient per iteration.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...arrays import Array, Mask, Scalar, Whole, device
from .context import Context
from .state import Point

FLAT = 1e-6  # a curvature counts as negative from this fraction of ‖Hv‖ on; less may be rounding
LOOKS = 20  # maximum number of products H·v


class _Lanczos(NamedTuple):
    i: Whole
    v: Array
    basis: Array
    T: Any
    found: Mask
    way: Array
    open: Mask


def way_down(context: Context, point: Point, still: Mask, zero: Whole) -> tuple[Array, Mask]:
    """Return a unit vector along which f decreases, and for which of the rows `still` there is one."""
    backend, x, g = context.backend, point.x, point.g
    v = backend.own(x * 0 + backend.own(np.random.default_rng(0).standard_normal(int(x.shape[-1]))))
    shape = (*x.shape[:-1], LOOKS, x.shape[-1])
    basis = backend.xp.zeros(shape, dtype=x.dtype, device=device(x))
    T = backend.table.zeros((*np.shape(zero), LOOKS, LOOKS))
    start = _Lanczos(zero, v, basis, T, still & False, v, still)
    end = backend.repeat(partial(_look, context, x, g), start, LOOKS)
    v, found = backend.times(backend.select(backend.dot(g, end.way) > 0, -1.0, 1.0), end.way), end.found
    if context.space.bounded and backend.any(found):
        v, found = _into_the_box(context, x, g, v, found)
    return v, found


def _look(context: Context, x: Array, g: Array, s: _Lanczos) -> _Lanczos:
    """Extend the basis by one vector, and check for negative curvature in its span."""
    backend, xp, v = context.backend, context.backend.table, context.space.free(x, g, s.v)
    for _ in range(2):  # twice, against rounding
        v = v - backend.mix(backend.dots(s.basis, v), s.basis)
    size, largest = backend.norm(v), abs(s.T).max(axis=(-2, -1))
    todo = s.open & backend.select(s.i > 0, size > FLAT * largest, size > 0) & (size < np.inf)
    todo = todo & context.affords(context.evaluator.cost_difference)
    if not backend.any(todo):
        return s._replace(open=todo & False)
    unit = backend.times(1 / backend.select(size > 0, size, 1.0), v)
    basis = backend.put(s.basis, s.i, unit, todo)
    v, _ = _bend(context, x, g, unit, todo)
    row = backend.dots(basis, v)
    here = (xp.arange(LOOKS) == xp.asarray(s.i)[..., None]) & xp.asarray(todo)[..., None]
    whole = xp.where(here[..., :, None], row[..., None, :], s.T)
    T = xp.where(here[..., None, :], row[..., :, None], whole)
    k = backend.used(s.i + 1, LOOKS)
    values, vectors = xp.linalg.eigh(T[..., :k, :k])
    down = todo & (values[..., 0] < -FLAT * abs(values).max(axis=-1))
    best = backend.mix(backend.own(vectors[..., 0]), basis[..., :k, :])
    way, open = backend.select(down, best, s.way), backend.and_not(todo, down)
    return _Lanczos(s.i + 1, v, basis, T, s.found | down, way, open)


def _into_the_box(context: Context, x: Array, g: Array, v: Array, found: Mask) -> tuple[Array, Mask]:
    """Restrict v or −v to the box, and check whether the curvature is still negative there."""
    backend, measure = context.backend, context.space.measure
    ahead, back = measure(x, -v), measure(x, v)
    v = backend.select(backend.norm(ahead) >= backend.norm(back), ahead, back)
    found = found & (backend.norm(v) > 0) & context.affords(context.evaluator.cost_difference)
    if not backend.any(found):
        return v, found
    size = backend.norm(v)
    v = backend.times(1 / backend.select(size > 0, size, 1.0), v)
    bend, along = _bend(context, x, g, v, found)
    return v, found & (along < -FLAT * backend.norm(bend))


def _bend(context: Context, x: Array, g: Array, v: Array, rows: Mask) -> tuple[Array, Scalar]:
    """Return H·v and vᵀHv by a gradient difference."""
    backend, evaluator = context.backend, context.evaluator
    r = evaluator.difference_length(x, v)
    bend = backend.times(backend.ratio(1.0, r), evaluator.change(x, v, g, r, rows))
    return context.space.free(x, g, bend), backend.dot(v, bend)
