"""Counts, time and limits, per row: the evaluator charges each call; drivers, directions, steps ask first."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from .._core.arrays import Mask, Rows, Whole
from .._core.backends import Backend
from .._core.convergence import RUNNING
from .._core.saved import Saved
from .._core.state import Counts, each
from .._core.status import Status
from ..budget import Budget

MAX_EVALUATIONS, MAX_GRADIENTS = int(Status.MAX_EVALUATIONS), int(Status.MAX_GRADIENTS)


class Cost(NamedTuple):
    """Evaluations of f and of ∇f."""

    evals: Whole = 0
    grads: int = 0

    def plus(self, other: Cost) -> Cost:
        """Return the sum of two costs."""
        return Cost(self.evals + other.evals, self.grads + other.grads)


class OutOfTime(Exception):
    """The time was spent when an evaluation was about to begin; the loop makes a status of it."""


class EvaluationCounter:
    """The counts of a run, charged as evaluations begin, and the limits that they are held against."""

    def __init__(self, backend: Backend, budget: Budget):
        self._select, self._all = backend.select, backend.all
        self.budget = budget
        self.rows = backend.size  # how many are live; None for a single run
        # in a batch these are plain numbers for as long as all rows have the same counts
        self.counts = Counts()
        self.timed = self.budget.seconds is not None
        self.counted = self.budget.grads is not None or self.budget.evals is not None
        self.cut = False  # whether a limit has prevented an evaluation
        self.earlier = 0.0  # seconds of the runs that a checkpoint continues
        self._began = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Wall time, earlier parts of a resumed run included."""
        return self.earlier + time.perf_counter() - self._began

    @property
    def counts(self) -> Counts:
        """The four counts."""
        return Counts(self.nfev, self.njev, self.nhvp, self.nhev)

    @counts.setter
    def counts(self, counts: Counts) -> None:
        self.nfev, self.njev, self.nhvp, self.nhev = counts

    def count(self, only: Mask | None, *names: str, times: int = 1) -> None:
        """Count a call, or several, about to be made for these rows (None: for all)."""
        if self.timed and self.late():
            raise OutOfTime
        ones: Any = 1 if only is None or only is True or self._all(only) else only
        for name in names:
            setattr(self, name, getattr(self, name) + times * ones)

    def late(self) -> bool:
        """Return whether the time is spent."""
        late = self.timed and self.seconds >= (self.budget.seconds or 0.0)
        self.cut = self.cut or late
        return late

    def affords(self, cost: Cost) -> Mask:
        """Return where the limits still cover a cost."""
        covered: Any = True
        if self.budget.evals is not None and not (type(cost.evals) is int and cost.evals == 0):
            covered = covered & (self.nfev + cost.evals <= self.budget.evals)
        if self.budget.grads is not None and cost.grads:
            covered = covered & (self.njev + cost.grads <= self.budget.grads)
        self.cut = self.cut or not self._all(covered)
        return covered if self.rows is None else np.broadcast_to(covered, self.rows)

    def over(self, cost: Cost, more: Cost, on: Mask) -> Whole:
        """Return the status where the limits do not cover a cost, with `more` where the penalty is on."""
        budget, code = self.budget, RUNNING
        if budget.evals is not None:
            evals = self.nfev + cost.evals + on * more.evals
            code = self._select(evals > budget.evals, MAX_EVALUATIONS, code)
        if budget.grads is not None:
            code = self._select(self.njev + cost.grads + on * more.grads > budget.grads, MAX_GRADIENTS, code)
        return code

    def keep(self, rows: Rows) -> None:
        """Continue with these rows of the batch."""
        self.rows = len(rows)
        self.counts = each(lambda count: count[rows], self.counts)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds."""
        return {"seconds": self.seconds, "counts": self.counts}

    def load(self, saved: Saved, name: str) -> None:
        """Restore the state from a checkpoint."""
        self.earlier = saved.take(f"{name}.seconds")
        self.counts = saved.record(f"{name}.counts", Counts())
