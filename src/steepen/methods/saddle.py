"""For cgd-auto: escape from a start where ∇f vanishes, along negative curvature, by the Lanczos method."""

from __future__ import annotations

import math

import numpy as np

from ..arrays import namespace, to_numpy
from ..problem import Problem
from ..questions import Asking, Point, Vector
from ..vectors import dot, norm, normals, own

FLAT = 1e-6  # a curvature counts as negative from this fraction of ‖Hv‖ on; less may be rounding
LOOKS = 20  # maximum number of products H·v, each of them one gradient


def way_down(problem: Problem, here: Point) -> Asking[Vector]:
    """Return a unit vector along which f decreases; None if none was found."""
    space, x, g = problem.space, here.x, here.g
    v, basis, T = normals(x), list[Vector](), np.zeros((LOOKS, LOOKS))
    for i in range(LOOKS):
        v = space.free(x, g, v)
        for _ in range(2):  # twice, against rounding
            for unit in basis:
                v = v - dot(unit, v) * unit
        size = norm(v)
        if not (FLAT * abs(T).max() < size < math.inf):
            return None
        basis.append((1 / size) * v)
        v, _ = yield from _bent(problem, here, basis[i])
        T[i, : i + 1] = T[: i + 1, i] = [dot(unit, v) for unit in basis]
        values, vectors = np.linalg.eigh(T[: i + 1, : i + 1])
        if values[0] < -FLAT * abs(values).max():
            way = own(x, to_numpy(namespace(x).stack(basis)).T @ vectors[:, 0])
            way = -way if dot(g, way) > 0 else way
            return (yield from _into_the_box(problem, here, way)) if space.bounded else way
    return None


def _into_the_box(problem: Problem, here: Point, v: Vector) -> Asking[Vector]:
    """Return v or −v, restricted to the box, if the curvature is still negative there; else None."""
    x, measure = here.x, problem.space.measure
    ahead, back = measure(x, -v), measure(x, v)
    v = ahead if norm(ahead) >= norm(back) else back
    size = norm(v)
    if not size > 0:
        return None
    v = (1 / size) * v
    bend, along = yield from _bent(problem, here, v)
    return v if along < -FLAT * norm(bend) else None


def _bent(problem: Problem, here: Point, v: Vector) -> Asking[tuple[Vector, float]]:
    """Return H·v and vᵀHv by a gradient difference."""
    r = problem.difference_length(here.x, v)
    bend = (1.0 / r) * (yield from problem.change(here.x, v, here.g, r))
    return problem.space.free(here.x, here.g, bend), dot(v, bend)
