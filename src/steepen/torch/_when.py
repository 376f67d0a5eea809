"""When the penalty is on: a phase of the training, or a range of steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from .._tools.check import number, whole

__all__ = ["Phase", "When"]

_NEAR = 16  # steps between which the memory of the copies is kept
Phase: TypeAlias = Literal["early", "late", "full"]


@dataclass(frozen=True)
class When:
    """Which steps are penalised: a phase of the training, or a range of steps.

    Parameters
    ----------
    phase : "full", "early" or "late"
        All steps (the default), or only the first or last `fraction` of the `steps`.
    fraction, steps
        Of a phase; and the length of the training.
    from_, until
        In the place of a phase: the first step to penalise, and the first not to.
    every : int
        The distance between two penalised steps.
    warmup : int
        Steps at the beginning that are never penalised.

    Examples
    --------
    >>> [k for k in range(12) if When(from_=2, until=9, every=3).covers(k)]
    [2, 5, 8]
    >>> late = When("late", fraction=0.25, steps=1000)
    >>> late.first, late.end
    (750, inf)
    >>> When("early")
    Traceback (most recent call last):
    ValueError: steps: phase='early' is a part of the whole training; give the number of its steps
    """

    phase: Phase | None = None
    fraction: float = 0.25
    steps: int | None = None
    from_: int | None = None
    until: int | None = None
    every: int = 1
    warmup: int = 0
    first: int = field(init=False, repr=False)
    end: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        whole("every", self.every, 1)
        whole("warmup", self.warmup, 0)
        if self.steps is not None:
            whole("steps", self.steps, 1)
            if self.warmup >= self.steps:
                raise ValueError(
                    f"warmup: expected less than the {self.steps} steps of the training, got {self.warmup}"
                )
        given = self.from_ is not None or self.until is not None
        first, end = self._range() if given else self._part()
        object.__setattr__(self, "first", first)
        object.__setattr__(self, "end", end)

    def _range(self) -> tuple[int, float]:
        if self.phase is not None:
            raise ValueError(f"phase: expected either a phase or from_ and until, got both ({self.phase!r})")
        whole("from_", 0 if self.from_ is None else self.from_, 0)
        first = max(self.from_ or 0, self.warmup)
        if self.steps is not None and first >= self.steps:
            raise ValueError(
                f"from_: expected a step before the end of the training, {self.steps}; got {first}"
            )
        if self.until is None:
            return first, math.inf
        whole("until", self.until, 0)
        if self.until <= first:
            raise ValueError(
                f"until: expected a step after the first penalised one, {first}; got {self.until}"
            )
        return first, self.until

    def _part(self) -> tuple[int, float]:
        if self.phase is None or self.phase == "full":
            return self.warmup, math.inf
        if self.phase not in get_args(Phase):
            raise ValueError(f"phase: expected 'early', 'late' or 'full', got {self.phase!r}")
        most = math.nextafter(1, 2)
        number("fraction", self.fraction, "a share of the steps, above 0 and at most 1", above=0, below=most)
        if self.steps is None:
            raise ValueError(
                f"steps: phase={self.phase!r} is a part of the whole training; give the number of its steps"
            )
        early = self.phase == "early"
        share = round(self.fraction * (self.steps - self.warmup if early else self.steps))
        if share == 0:
            raise ValueError(f"fraction: {self.fraction} of {self.steps} steps is less than one")
        if early:
            return self.warmup, self.warmup + share
        return max(self.steps - share, self.warmup), math.inf

    def covers(self, k: int) -> bool:
        """Say whether step k is penalised."""
        return self.first <= k < self.end and (k - self.first) % self.every == 0

    def pauses(self, k: int) -> bool:
        """Say whether step k lies between two penalised ones, both near."""
        return self.first < k < self.end and self.every <= _NEAR and not self.covers(k)
