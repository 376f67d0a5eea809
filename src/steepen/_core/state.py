"""What a run hands on from one iteration to the next: where it is, how it came there, the best so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, NamedTuple, cast

from .arrays import Array, Mask, MaybeArray, MaybeScalar, Rows, Scalar, Whole

NAN = float("nan")

RUNNING = -1
"""The status of a row that goes on."""

TRANSIENT = {"transient": True}
"""Marks what the parts of one iteration hand to each other: between two of them it means nothing."""


@dataclass(frozen=True)
class State:
    """What a callback sees after a step: the new iterate, the step that led there, and the counts.

    In a batch the fields have one entry for each row still running, and `rows` says which these are. A
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
    """A point, and what is known there; None is not evaluated yet."""

    x: Array
    f: MaybeScalar = None
    g: MaybeArray = None
    known: Mask = False
    """For which rows g has been evaluated."""
    size: Scalar = NAN
    """‖∇f‖."""
    gnorm: Scalar = NAN
    """The norm that vanishes at a minimum: ‖∇f‖, or with bounds that of the projected gradient."""
    error: MaybeArray = None
    """Of each component of g, where it has one to speak of."""


@dataclass(slots=True)
class StepInfo:
    """The step that led to a point, or that is about to be made from it."""

    before: Scalar = NAN
    """f where it began."""
    alpha: Scalar = NAN
    lam: Scalar = NAN
    shown: Scalar = NAN
    """α as trace and callback see it."""
    moved: Scalar = NAN
    slope: Scalar = NAN
    length: Scalar = NAN
    """‖p‖."""
    penalised: Mask = False
    guarded: Mask = False
    vanished: Mask = False
    noise: Scalar = 0.0
    """The noise of f, as far as measured."""
    trial: Scalar = 0.0
    """The next trial of a search that goes on; 0 where none does. Then, how many there were."""
    tried: Whole = 0


@dataclass(slots=True)
class Best:
    """The lowest point so far."""

    x: Array
    f: Scalar
    k: Whole = 0


class Counts(NamedTuple):
    """How many values, gradients, products H·v and Hessians were evaluated."""

    nfev: Whole = 0
    njev: Whole = 0
    nhvp: Whole = 0
    nhev: Whole = 0


@dataclass(slots=True)
class SolverState:
    """All that an iteration hands to the next: what drivers carry, checkpoints hold and rows are cut from."""

    k: int
    point: Point
    best: Best
    active: Mask
    """Where the direction is followed, and not steepest descent."""
    memory: Any
    step_info: StepInfo = field(default_factory=StepInfo)
    first: Scalar = NAN
    """f at the start."""
    max_gnorm: Scalar = 0.0
    """The largest ‖∇f‖ so far, where a tolerance is relative to it."""
    doubts: Whole = 0
    """How often a gradient within gtol was doubted, and a step in the metric of x asked for."""
    failed: Scalar = NAN
    """f where a line search last failed; only where gradients cost many values."""
    n_stalled: Whole = 0
    """How many steps f has not fallen for."""

    next_point: Any = field(default=None, metadata=TRANSIENT)
    spent: tuple[Whole, ...] = field(default=(0, 0, 0), metadata=TRANSIENT)
    """The values, gradients and products that had been evaluated when the point was reached."""
    status: Whole = field(default=RUNNING, metadata=TRANSIENT)
    """How each row has ended; RUNNING itself, and no array, where none has."""
    stalled: Mask = field(default=False, metadata=TRANSIENT)
    """Where f has not fallen for too long; False itself where there is no such row."""
    live: Any = field(default=None, metadata=TRANSIENT)
    """Where a step is made; None for every row."""
    p: MaybeArray = field(default=None, metadata=TRANSIENT)
    """The direction about to be followed; None for −∇f."""
    free_gradient: MaybeArray = field(default=None, metadata=TRANSIENT)
    """∇f without what bounds hold, its norm, and ∇fᵀp."""
    size: Scalar = field(default=NAN, metadata=TRANSIENT)
    slope: Scalar = field(default=NAN, metadata=TRANSIENT)

    def advance(self) -> None:
        """Make the step."""
        self.step_info.before = self.point.f
        self.point, self.next_point = self.next_point, self.point
        self.point.gnorm = NAN
        self.k += 1


@dataclass
class Ended:
    """Rows that are done: where they stood, and why."""

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
    """Return a record with a function applied to each of its arrays.

    Examples
    --------
    >>> import numpy as np
    >>> each(lambda a: a[:1], Best(np.array([1.0, 2.0]), 0.0))
    Best(x=array([1.]), f=0.0, k=0)
    """
    if getattr(record, "ndim", 0):
        return function(record)
    if isinstance(record, tuple):
        parts = [each(function, part) for part in cast("tuple[Any, ...]", record)]
        return cast(Any, record)._make(parts) if hasattr(cast(Any, record), "_fields") else tuple(parts)
    if isinstance(record, dict):
        return {name: each(function, part) for name, part in cast("dict[str, Any]", record).items()}
    kind = cast("type[Any]", type(record))
    names = _names(kind)
    return kind(*[each(function, getattr(record, name)) for name in names]) if names else record


@cache
def _names(kind: type) -> tuple[str, ...]:
    """Return the fields of a dataclass; none of anything else."""
    return tuple(part.name for part in fields(kind)) if is_dataclass(kind) else ()
