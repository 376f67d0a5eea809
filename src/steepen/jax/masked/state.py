"""Records that a run carries from one iteration to the next; only data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...arrays import Array, Mask, MaybeArray, MaybeScalar, Scalar, Whole

NAN = float("nan")

RUNNING = -1  # the status of a row that is still running


@dataclass(slots=True)
class Point:
    """A point and the values known there; None if not evaluated yet."""

    x: Array
    f: MaybeScalar = None
    g: MaybeArray = None
    known: Mask = False
    """Rows for which g has been evaluated."""
    size: Scalar = NAN
    """‖∇f‖."""
    gnorm: Scalar = NAN
    """The optimality measure: ‖∇f‖, or with bounds the norm of the projected gradient."""


@dataclass(slots=True)
class StepInfo:
    """The step that led to a point, or that is about to be taken from it."""

    before: Scalar = NAN
    """f at the start of the step."""
    alpha: Scalar = NAN
    lam: Scalar = NAN
    shown: Scalar = NAN
    """α as reported in the trace and to the callback."""
    moved: Scalar = NAN
    slope: Scalar = NAN
    length: Scalar = NAN
    """‖p‖."""
    penalised: Mask = False
    guarded: Mask = False
    vanished: Mask = False
    noise: Scalar = 0.0
    """The estimated noise of f."""
    trial: Scalar = 0.0
    """The next trial of an unfinished line search, else 0; `tried` is the number of trials so far."""
    tried: Whole = 0


@dataclass(slots=True)
class Best:
    """The lowest point so far."""

    x: Array
    f: Scalar
    k: Whole = 0


class Counts(NamedTuple):
    """Numbers of evaluations of f, gradients, products H·v and Hessians."""

    nfev: Whole = 0
    njev: Whole = 0
    nhvp: Whole = 0
    nhev: Whole = 0


@dataclass(slots=True)
class SolverState:
    """The full state of the solver."""

    k: int
    point: Point
    best: Best
    active: Mask
    """Rows that follow the direction rather than steepest descent."""
    memory: Any
    step_info: StepInfo = field(default_factory=StepInfo)
    first: Scalar = NAN
    """f at the start."""
    max_gnorm: Scalar = 0.0
    """The largest ‖∇f‖ so far, where a tolerance is relative to it."""
    doubts: Whole = 0
    """How often a gradient within gtol was distrusted and a step in the metric of x was tried instead."""
    n_stalled: Whole = 0
    """Number of steps since f last decreased."""

    # these have no meaning between two iterations
    next_point: Any = None
    spent: tuple[Whole, ...] = (0, 0, 0)
    """The numbers of evaluations of f, gradients and products when the point was reached."""
    status: Whole = RUNNING
    """The status of each row; the scalar RUNNING if none has stopped."""
    stalled: Mask = False
    """Rows where f has not decreased for too long; the scalar False if there are none."""
    live: Any = None
    """Rows that take a step; None for all rows."""
    p: MaybeArray = None
    """The search direction; None for −∇f."""
    free_gradient: MaybeArray = None
    """∇f restricted to the free variables; then its norm, and ∇fᵀp."""
    size: Scalar = NAN
    slope: Scalar = NAN

    def advance(self) -> None:
        """Move to the next point."""
        self.step_info.before = self.point.f
        self.point, self.next_point = self.next_point, self.point
        self.point.gnorm = NAN
        self.k += 1
