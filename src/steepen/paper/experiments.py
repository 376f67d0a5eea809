"""The six experiments of Table 1, for the paper's items and explorer: `steepen.table1`, with runs.

The start points, r and the quadratic's matrix were recovered (recover.py): they reproduce both printed
improvements, but are not the only values that do. Nothing here writes files.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from .._table1 import Table1Row, table1
from ..budget import Budget
from ..result import Result
from ..schedules import L
from ._runs import Floats, minimize, trace

__all__ = ["EXPERIMENTS", "THRESHOLD", "Experiment", "T"]

T = table1["quadratic"].T  # the paper's budget, in gradient evaluations
THRESHOLD = table1["quadratic"].b  # the paper's b: CGD-FD switches to steepest descent after iteration b


class Experiment(Table1Row):
    """One row of Table 1, with its runs.

    Examples
    --------
    >>> EXPERIMENTS["levy"].settings
    'λ = L(0.01, 0.1), α = 0.05'
    """

    @property
    def any_r(self) -> bool:
        """Whether every r gives the same, since differences of gradients are exact on a quadratic."""
        return "r" not in self.recovered

    @property
    def lams(self) -> tuple[float, float]:
        """λ at the first step and at the last."""
        return (self.lam.start, self.lam.end) if isinstance(self.lam, L) else (self.lam, self.lam)

    @property
    def lam0(self) -> float:
        """The λ of the first step."""
        return self.lams[0]

    @property
    def lam_text(self) -> str:
        """λ as the paper prints it."""
        return f"L({self.lam.start:g}, {self.lam.end:g})" if isinstance(self.lam, L) else f"{self.lam:g}"

    @property
    def settings(self) -> str:
        """λ and α, for a figure."""
        return f"λ = {self.lam_text}, α = {self.alpha:g}"

    def run(self, method: str, start: Any = None, **changed: Any) -> Result:
        """Return the paper's run, of T gradients, with these settings changed."""
        own: dict[str, Any] = {"step": self.alpha, "budget": Budget(grads=T)}
        if method == "cgd-fd":
            own |= {"lam": self.lam, "r": self.r, "b": THRESHOLD}
        return minimize(self.function, self.x0 if start is None else start, method=method, **own | changed)

    def tried(self, method: str, count: int, **changed: Any) -> Floats:
        """Return f − f* with each of `count` settings, given as arrays; inf where f ever rises."""
        many = self.run(method, np.tile(self.x0, (count, 1)), **changed)
        with np.errstate(all="ignore"):
            f = trace(many).f
            rises = (np.diff(f, axis=0) > 1e-12 * abs(f[0])).any(axis=0)
        return np.where(np.isfinite(many.fun) & ~rises, many.fun, np.inf) - self.function.fmin


EXPERIMENTS = {
    name: Experiment(*(getattr(row, one.name) for one in fields(row))) for name, row in table1.items()
}
"""The rows of Table 1, by the name of the function, in the paper's order."""
