"""What a run carries from one iteration to the next, and what it leaves when it ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .arrays import Array, Many, Mask, Rows, Scalar, Whole
from .result import Status

if TYPE_CHECKING:
    from ..directions._direction import Memory

NAN = float("nan")


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
class Carry:
    """What an iteration hands to the next; with counts and trace, all that a resumed run needs."""

    k: int
    x: Array
    memory: Memory
    on: Mask
    best_x: Array
    best_f: Scalar
    best_k: Whole
    f: Scalar = None  # None: not evaluated yet
    g: Array = None
    gnorm: Scalar = NAN
    # of the step that led here
    before: Scalar = NAN
    lam: Scalar = NAN
    alpha: Scalar = NAN
    shown: Scalar = NAN  # α as trace and callback see it
    moved: Scalar = NAN
    penalised: Mask = False
    guarded: Mask = False
    vanished: Mask = False
    slope: Scalar = NAN
    unit: Scalar = NAN  # the length of p
    idle: Whole = 0  # steps since f last fell
    error: Scalar = NAN  # of a rough gradient
    leaving: Mask = False  # from a start where the gradient vanishes
    noise: Scalar = 0.0  # of f, as far as measured
    # of the step about to be made
    to_x: Array = None
    to_f: Scalar = None
    to_g: Array = None
    to_known: Mask = False
    # where g was evaluated on the way here
    known: Mask = False
    # what had been evaluated when x was reached
    spent: tuple[Scalar, Scalar, Scalar] = (0, 0, 0)

    def advance(self) -> None:
        """Make the step."""
        self.before, self.x, self.f = self.f, self.to_x, self.to_f
        self.g, self.gnorm, self.known = self.to_g, NAN, self.to_known
        self.k += 1

    def keep(self, rows: Rows, kit: Many) -> None:
        """Go on with these rows of a batch."""

        def kept(value: Any) -> Any:
            return kit.take(value, rows) if getattr(value, "ndim", 0) else value

        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if isinstance(value, dict):
                kept_value: Any = {key: kept(item) for key, item in self.memory.items()}
            elif isinstance(value, tuple):
                kept_value = tuple(map(kept, self.spent))
            else:
                kept_value = kept(value)
            setattr(self, name, kept_value)


@dataclass(frozen=True)
class Tolerances:
    """When a run has converged; 0 is off."""

    g: float
    f: float = 0.0
    x: float = 0.0


@dataclass
class Ended:
    """Rows that are done: where they stood, and why."""

    rows: Rows | None
    status: Status
    nit: int
    x: Array
    f: Scalar
    g: Array
    best_x: Array
    best_f: Scalar
    best_k: Whole
    counts: tuple[Scalar, Scalar, Scalar, Scalar]
    error: Scalar = NAN
