"""When the penalty is on: a phase of the training, or a range of steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from .._check import number, whole

__all__ = ["Phase", "When"]

_NEAR = 16  # steps between which the memory of the copies is kept
Phase: TypeAlias = Literal["early", "late", "full"]


@dataclass(frozen=True)
class When:
    """The steps from `first` to before `end` of which every `every`-th is penalised.

    Examples
    --------
    >>> [k for k in range(12) if When(2, 9, 3).covers(k)]
    [2, 5, 8]
    """

    first: int = 0
    end: float = math.inf
    every: int = 1

    def covers(self, k: int) -> bool:
        """Say whether step k is penalised.

        Examples
        --------
        >>> When(first=5).covers(4)
        False
        """
        return self.first <= k < self.end and (k - self.first) % self.every == 0

    def pauses(self, k: int) -> bool:
        """Say whether step k lies between two penalised ones, both near.

        Examples
        --------
        >>> When(every=3).pauses(4), When(first=9).pauses(4)
        (True, False)
        """
        return self.first < k < self.end and self.every <= _NEAR and not self.covers(k)


def when(
    phase: Phase | None,
    fraction: float,
    steps: int | None,
    from_: int | None,
    until: int | None,
    every: int,
    warmup: int,
) -> When:
    """Turn what the user said into steps.

    Examples
    --------
    >>> when("early", 0.25, 1000, None, None, 1, 100)
    When(first=100, end=325, every=1)
    >>> when("late", 0.25, 1000, None, None, 1, 100)
    When(first=750, end=inf, every=1)
    >>> when("early", 0.25, None, None, None, 1, 0)
    Traceback (most recent call last):
    ValueError: steps: phase='early' is a part of the whole training; give the number of its steps
    """
    whole("every", every, 1)
    whole("warmup", warmup, 0)
    if steps is not None:
        whole("steps", steps, 1)
        if warmup >= steps:
            raise ValueError(f"warmup: expected less than the {steps} steps of the training, got {warmup}")
    if from_ is not None or until is not None:
        if phase is not None:
            raise ValueError(f"phase: expected either a phase or from_ and until, got both ({phase!r})")
        whole("from_", 0 if from_ is None else from_, 0)
        first = max(from_ or 0, warmup)
        if steps is not None and first >= steps:
            raise ValueError(f"from_: expected a step before the end of the training, {steps}; got {first}")
        if until is None:
            return When(first, every=every)
        whole("until", until, 0)
        if until <= first:
            raise ValueError(f"until: expected a step after the first penalised one, {first}; got {until}")
        return When(first, until, every)
    if phase is None or phase == "full":
        return When(warmup, every=every)
    if phase not in get_args(Phase):
        raise ValueError(f"phase: expected 'early', 'late' or 'full', got {phase!r}")
    number(
        "fraction",
        fraction,
        "a share of the steps, above 0 and at most 1",
        above=0,
        below=math.nextafter(1, 2),
    )
    if steps is None:
        raise ValueError(
            f"steps: phase={phase!r} is a part of the whole training; give the number of its steps"
        )
    share = round(fraction * (steps - warmup if phase == "early" else steps))
    if share == 0:
        raise ValueError(f"fraction: {fraction} of {steps} steps is less than one")
    if phase == "early":
        return When(warmup, warmup + share, every)
    return When(max(steps - share, warmup), every=every)
