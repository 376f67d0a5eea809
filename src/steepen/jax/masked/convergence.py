"""Tolerances, and the tests that give a point its status; pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

from ...arrays import Scalar, Whole
from ...status import Status
from .backend import Backend
from .state import RUNNING, Point, StepInfo

CONVERGED, FTOL, XTOL, RELATIVE = map(int, (Status.CONVERGED, Status.FTOL, Status.XTOL, Status.RELATIVE))
UNBOUNDED, NONFINITE_VALUE, NONFINITE_GRADIENT = map(
    int, (Status.UNBOUNDED, Status.NONFINITE_VALUE, Status.NONFINITE_GRADIENT)
)


@dataclass(frozen=True)
class Tolerances:
    """When a run has converged (0 is off), and below which value f is taken to have no minimum."""

    g: float
    f: float = 0.0
    x: float = 0.0
    bottom: float = -inf
    rel: float = 0.0
    assumed: bool = False
    """Whether g is the default, which means little where f is small."""


def asked(tolerance: Any) -> bool:
    """Return whether a tolerance is on: 0 is off, a traced one is on."""
    return not (isinstance(tolerance, float) and tolerance == 0.0)


def status_of_step(backend: Backend, point: Point, last: StepInfo, tolerances: Tolerances) -> Whole:
    """Return the status that follows from f at a point and the step that led there."""
    num, select, f = backend.num, backend.select, point.f
    code: Any = RUNNING
    if asked(tolerances.x):
        near = last.moved <= tolerances.x * num.maximum(backend.norm(point.x), 1.0)
        code = select(near & (last.moved < inf) & (last.alpha > 0), XTOL, code)
    if asked(tolerances.f):
        fall, scale = last.before - f, num.maximum(num.maximum(abs(last.before), abs(f)), 1.0)
        small = (fall >= 0) & (fall <= tolerances.f * scale) & (last.alpha > 0)
        code = select(small, FTOL, code)
    code = select(num.isfinite(f), code, NONFINITE_VALUE)
    return select(f < tolerances.bottom, UNBOUNDED, code)


def status_of_gradient(backend: Backend, point: Point, tolerances: Tolerances, top: Scalar = 0.0) -> Whole:
    """Return the status that follows from ∇f at a point; `top` is the largest norm so far."""
    near = point.gnorm <= tolerances.rel * top if asked(tolerances.rel) else False
    code = backend.select(point.gnorm <= tolerances.g, CONVERGED, backend.select(near, RELATIVE, RUNNING))
    return backend.select(backend.num.isfinite(point.size), code, NONFINITE_GRADIENT)
