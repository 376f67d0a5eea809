"""Records that the drivers carry from one iteration to the next, and that callbacks receive; only data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple, cast

from .arrays import Array, Mask, MaybeArray, MaybeScalar, Rows, Scalar, Whole

NAN = float("nan")

RUNNING = -1  # the status of a row that is still running
TRANSIENT = {"transient": True}  # marks fields that have no meaning between two iterations


@dataclass(frozen=True)
class State:
    """The argument of a callback after a step: the new iterate, the step that led there, and the counts.

    In a batch the fields have one entry per row still running, and `rows` holds the indices of those rows. A
    callback that returns True ends the run; in a batch, an array of bools ends those rows.

    Examples
    --------
    >>> import steepen as st
    >>> seen = []
    >>> res = st.minimize(
    ...     st.functions["booth"], [0.0, 0.0], method="gd", step=0.05, callback=lambda s: seen.append(s.fun)
    ... )
    >>> len(seen) == res.nit
    True
    """

    k: int
    x: Array
    fun: Scalar
    lam: Scalar
    step: Scalar
    penalised: Mask
    guarded: Mask
    nfev: Scalar
    njev: Scalar
    nhvp: Scalar
    seconds: float
    rows: Rows | None


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
    error: MaybeArray = None
    """The error of each component of g, where it is not negligible."""


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
    """The full state of the solver between iterations; this is what checkpoints store."""

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
    failed: Scalar = NAN
    """f where a line search last failed; only with finite-difference gradients."""
    n_stalled: Whole = 0
    """Number of steps since f last decreased."""

    next_point: Any = field(default=None, metadata=TRANSIENT)
    spent: tuple[Whole, ...] = field(default=(0, 0, 0), metadata=TRANSIENT)
    """The numbers of evaluations of f, gradients and products when the point was reached."""
    status: Whole = field(default=RUNNING, metadata=TRANSIENT)
    """The status of each row; the scalar RUNNING if none has stopped."""
    stalled: Mask = field(default=False, metadata=TRANSIENT)
    """Rows where f has not decreased for too long; the scalar False if there are none."""
    live: Any = field(default=None, metadata=TRANSIENT)
    """Rows that take a step; None for all rows."""
    p: MaybeArray = field(default=None, metadata=TRANSIENT)
    """The search direction; None for −∇f."""
    free_gradient: MaybeArray = field(default=None, metadata=TRANSIENT)
    """∇f restricted to the free variables; then its norm, and ∇fᵀp."""
    size: Scalar = field(default=NAN, metadata=TRANSIENT)
    slope: Scalar = field(default=NAN, metadata=TRANSIENT)

    def advance(self) -> None:
        """Move to the next point."""
        self.step_info.before = self.point.f
        self.point, self.next_point = self.next_point, self.point
        self.point.gnorm = NAN
        self.k += 1


@dataclass
class Ended:
    """Rows that have stopped: their last point and status."""

    rows: Rows | None
    status: Whole
    nit: int
    x: Array
    f: Scalar
    g: Array
    best: Best
    counts: Counts
    error: Scalar = NAN


def each(function: Callable[[Any], Any], record: Any) -> Any:
    """Return a record with a function applied to each of its arrays."""
    if getattr(record, "ndim", 0):
        return function(record)
    if type(record) is tuple:
        return tuple([each(function, part) for part in cast("tuple[Any, ...]", record)])
    changed = {name: each(function, part) for name, part in parts_of(record).items()}
    return cast("type[Any]", type(record))(**changed) if changed else record


def parts_of(record: Any) -> dict[str, Any]:
    """Return the parts of a dataclass, a named tuple or a dict by name; of anything else, none."""
    if isinstance(record, dict):
        return cast("dict[str, Any]", record)
    return {name: getattr(record, name) for name in _names(cast("type[Any]", type(record)))}


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(part.name for part in fields(kind)) if is_dataclass(kind) else getattr(kind, "_fields", ())
