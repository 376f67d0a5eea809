"""Values that change with the iteration, α_k and λ_k: directions, steps and training ask for them.

Wherever `minimize` takes a step or a λ, it takes a number, one of these schedules, a callable of k, or an
array with one value per row of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._tools.check import floats, is_number, number, whole
from .arrays import Scalar, namespace

VANISHED = 1e-3
"""A penalised direction this small against ∇f has led to an artificial stationary point."""

__all__ = [
    "Auto", "ByCurvature", "Constant", "Custom", "L", "Perturbed", "Schedule", "ScheduleLike",
    "Signed", "as_schedule", "of_row",
]  # fmt: skip


@runtime_checkable
class Schedule(Protocol):
    """Interface of schedules: a value at k, and `fit`, which sets the length of the run.

    Examples
    --------
    >>> isinstance(L(0.01, 0.1), Schedule)
    True
    """

    def fit(self, total: int | None) -> Any:
        """Return the schedule for a run of `total` iterations (None: unknown)."""
        return self

    def __call__(self, k: int, /) -> Scalar: ...


ScheduleLike: TypeAlias = float | Schedule | Callable[[int], float] | ArrayLike


@dataclass(frozen=True)
class Constant(Schedule):
    """The same value at every k: a number, or one per row of a batch.

    Examples
    --------
    >>> Constant(0.4)(7)
    0.4
    """

    value: float | NDArray[np.float64]

    def __post_init__(self) -> None:
        value = floats("value", self.value, "a number, or one per row")
        object.__setattr__(self, "value", value if value.ndim else float(value))

    def __call__(self, k: int, /) -> Scalar:
        return self.value


@dataclass(frozen=True)
class L(Schedule):
    """The paper's L(a, b): T equally spaced values from a to b, and b from then on.

    T is by default the length of the run: the limit on gradients or iterations.

    Examples
    --------
    >>> lam = L(0.01, 0.1, T=4)
    >>> [round(lam(k), 2) for k in range(4)]
    [0.01, 0.04, 0.07, 0.1]
    """

    start: float
    end: float
    T: int | None = None

    def __post_init__(self) -> None:
        number("start", self.start, "a finite number")
        number("end", self.end, "a finite number")
        if self.T is not None:
            whole("T", self.T, 1)

    def fit(self, total: int | None) -> Any:
        if self.T is not None:
            return self
        if total is None:
            raise ValueError(
                f"L({self.start}, {self.end}): the run has no limit on iterations or gradients over which to "
                "spread the values; give T or a budget"
            )
        return replace(self, T=total)

    def __call__(self, k: int, /) -> float:
        if self.T is None:
            raise ValueError("T: not set; pass T, or let minimize set it from the budget")
        share = 1.0 * k / max(self.T - 1, 1)  # a traced k is a short whole number
        share = min(share, 1.0) if isinstance(k, int) else namespace(k).minimum(share, 1.0)
        return _number(k, self.start + (self.end - self.start) * share)


@dataclass(frozen=True)
class Custom(Schedule):
    """Any callable of k.

    Examples
    --------
    >>> Custom(lambda k: 1 / (k + 1))(3)
    0.25
    """

    function: Callable[[int], float]

    def __call__(self, k: int, /) -> float:
        value = self.function(k)
        if isinstance(k, int) and not (is_number(value) and math.isfinite(value)):
            raise ValueError(f"{self!r}: expected a finite number at k = {k}, got {value!r}")
        return _number(k, value)

    def __repr__(self) -> str:
        # no address: the text must be the same in the process that resumes a checkpoint
        return f"Custom({getattr(self.function, '__qualname__', type(self.function).__name__)})"


class ByCurvature:
    """A λ that depends on H·v, v = ∇h/scale.

    Examples
    --------
    >>> isinstance(Auto(), ByCurvature)
    True
    """

    def at(self, lam: Scalar, along: Scalar, square: Scalar, scale: float) -> Scalar:
        """Return λ_k from the schedule's value, gᵀHv, ‖Hv‖² and the penalty's scale."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Following(ByCurvature, Schedule):
    """A schedule of λ that the curvature modifies."""

    lam: ScheduleLike

    def __post_init__(self) -> None:
        if isinstance(self.lam, type) or not isinstance(self.lam, Schedule):
            rows = None if callable(self.lam) or np.ndim(self.lam) == 0 else len(np.asarray(self.lam))
            object.__setattr__(self, "lam", as_schedule(self.lam, "lam", rows))

    def fit(self, total: int | None) -> Any:
        return replace(self, lam=cast(Schedule, self.lam).fit(total))

    def __call__(self, k: int, /) -> Scalar:
        return cast(Schedule, self.lam)(k)

    def at(self, lam: Scalar, along: Scalar, square: Scalar, scale: float) -> Scalar:
        return self.lam.at(lam, along, square, scale) if isinstance(self.lam, ByCurvature) else lam


@dataclass(frozen=True)
class Signed(_Following):
    """λ with the sign of the curvature along g: the paper's negative λ at negative curvature.

    There gᵀHg < 0, so λ < 0 keeps gᵀp < 0 and the guard never fires.

    Examples
    --------
    >>> float(Signed(0.4).at(0.4, along=-3.0, square=9.0, scale=2.0))
    -0.4
    """

    def at(self, lam: Scalar, along: Scalar, square: Scalar, scale: float) -> Scalar:
        signed = namespace(along).copysign(super().at(lam, along, square, scale), along)
        return float(signed) if isinstance(along, float) else signed


@dataclass(frozen=True)
class Perturbed(_Following):
    """Lemma 1's remedy: λ, but `factor · λ` for a step where the direction nearly vanishes (0 ≤ factor < 1).

    At an artificial stationary point Hv = −g/(scale·λ): p is zero, the guard does not fire, and the run would
    get stuck. With another λ it continues to descend, and once past the point the guard keeps it from
    returning. p vanishes only if λ·scale·‖Hv‖² = −gᵀHv, which is the condition tested.

    Examples
    --------
    >>> Perturbed(0.25).at(0.25, along=-2.0, square=4.0, scale=2.0)  # Hg = −2g
    0.125
    >>> Perturbed(0.25).at(0.25, along=-2.0, square=9.0, scale=2.0)
    0.25
    """

    factor: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        number("factor", self.factor, "a number, 0 or more and less than 1", least=0, below=1)

    def at(self, lam: Scalar, along: Scalar, square: Scalar, scale: float) -> Scalar:
        lam = super().at(lam, along, square, scale)
        # so that it acts before the loop takes note
        vanishing = abs(along + scale * lam * square) <= 2 * VANISHED * abs(along)
        other: Any = 1.0 - (1.0 - self.factor) * (vanishing & (along != 0))
        return lam * other


@dataclass(frozen=True)
class Auto(ByCurvature, Schedule):
    """A parameter-free λ: −½·gᵀHv/(scale·‖Hv‖²), the default of the CGD methods.

    With the paper's penalty the direction is that of a memoryless BFGS step, invariant to the scales of f and
    x, and gᵀp ≤ −½‖g‖², so the guard never fires. λ is negative where f is convex: λ > 0 compensates for a
    step that is too small, which a line search avoids.

    Examples
    --------
    >>> Auto().at(1.0, along=4.0, square=8.0, scale=2.0)
    -0.125
    """

    def __call__(self, k: int, /) -> float:
        return 1.0

    def at(self, lam: Scalar, along: Scalar, square: Scalar, scale: float) -> Scalar:
        return -along / (2 * scale * (square + (square == 0))) * (square != 0)


def as_schedule(value: ScheduleLike, name: str, rows: int | None = None) -> Schedule:
    """Turn a number, a callable or an array with one value per row of a batch into a schedule.

    Error messages refer to it by `name`.

    Examples
    --------
    >>> as_schedule(0.4, "lam")
    Constant(value=0.4)
    """
    if callable(value) and not isinstance(value, Schedule | type):
        return Custom(value)
    if isinstance(value, type) or not isinstance(value, Schedule):
        value = Constant(floats(name, value, "a number, a schedule, a callable of k, or one value per row"))
    shape = _shape(value)
    if shape and rows is None:
        raise ValueError(
            f"{name}: expected a number for a single run, got an array of shape {shape}; "
            "for one value per iteration pass a function of k, such as steepen.L(a, b)"
        )
    if shape and shape != (rows,):
        raise ValueError(f"{name}: expected one value for each of the {rows} rows, got shape {shape}")
    return value


def of_row(schedule: Schedule, row: int | None) -> Schedule:
    """Return the schedule of one row of a batch; of a single run, the schedule itself.

    Examples
    --------
    >>> of_row(Constant([0.1, 0.2]), 1)
    Constant(value=0.2)
    """
    if row is None:
        return schedule
    if isinstance(schedule, _Following):
        return replace(schedule, lam=of_row(cast(Schedule, schedule.lam), row))
    if isinstance(schedule, Constant) and np.ndim(schedule.value):
        return Constant(float(cast(Any, schedule.value)[row]))
    return schedule


def _number(k: int, value: Any) -> Any:
    """Return the value at k as a Python number; unchanged if k, and so the value, is traced."""
    return float(value) if isinstance(k, int) else value


def _shape(schedule: Schedule) -> tuple[int, ...]:
    if isinstance(schedule, _Following):
        return _shape(cast(Schedule, schedule.lam))
    return np.shape(schedule.value) if isinstance(schedule, Constant) else ()
