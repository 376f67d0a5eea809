"""The columns of a trace, and their values at an iterate."""

from __future__ import annotations

from typing import Any

from .state import SolverState

COLUMNS = {
    "f": "d", "gnorm": "d", "lam": "d", "step": "d",
    "nfev": "q", "njev": "q", "nhvp": "q", "penalised": "?", "guarded": "?",
}  # fmt: skip


def entry(c: SolverState) -> tuple[Any, ...]:
    """Return the columns of an iterate, and of the step taken from it."""
    point, step = c.point, c.step_info
    return point.f, point.gnorm, step.lam, step.shown, *c.spent, step.penalised, step.guarded
