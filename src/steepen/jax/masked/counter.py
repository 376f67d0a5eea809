"""Counts and limits: `_loop` charges each call; the iteration, directions and steps ask first."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...arrays import Mask, Whole
from ...budget import Budget
from ...status import Status
from .backend import Backend
from .state import RUNNING, Counts

MAX_EVALUATIONS, MAX_GRADIENTS = int(Status.MAX_EVALUATIONS), int(Status.MAX_GRADIENTS)


class Cost(NamedTuple):
    """Evaluations of f and of ∇f."""

    evals: Whole = 0
    grads: int = 0

    def plus(self, other: Cost) -> Cost:
        """Return the sum of two costs."""
        return Cost(self.evals + other.evals, self.grads + other.grads)


class EvaluationCounter:
    """The counts of a run, charged as evaluations begin, and the limits that they are held against."""

    def __init__(self, backend: Backend, budget: Budget):
        self._select, self._all = backend.select, backend.all
        self.budget = budget
        self.counts = Counts()
        self.counted = self.budget.grads is not None or self.budget.evals is not None

    @property
    def counts(self) -> Counts:
        """The four counts."""
        return Counts(self.nfev, self.njev, self.nhvp, self.nhev)

    @counts.setter
    def counts(self, counts: Counts) -> None:
        self.nfev, self.njev, self.nhvp, self.nhev = counts

    def count(self, only: Mask | None, name: str) -> None:
        """Count a call for these rows (None: for all)."""
        ones: Any = 1 if only is None or only is True or self._all(only) else only
        setattr(self, name, getattr(self, name) + ones)

    def affords(self, cost: Cost) -> Mask:
        """Return where the limits still cover a cost."""
        covered: Any = True
        if self.budget.evals is not None and not (type(cost.evals) is int and cost.evals == 0):
            covered = covered & (self.nfev + cost.evals <= self.budget.evals)
        if self.budget.grads is not None and cost.grads:
            covered = covered & (self.njev + cost.grads <= self.budget.grads)
        return covered

    def over(self, cost: Cost, more: Cost, on: Mask) -> Whole:
        """Return the status where the limits do not cover a cost, with `more` where the penalty is on."""
        budget, code = self.budget, RUNNING
        if budget.evals is not None:
            evals = self.nfev + cost.evals + on * more.evals
            code = self._select(evals > budget.evals, MAX_EVALUATIONS, code)
        if budget.grads is not None:
            code = self._select(self.njev + cost.grads + on * more.grads > budget.grads, MAX_GRADIENTS, code)
        return code
