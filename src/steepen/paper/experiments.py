"""The runs of the six experiments of Table 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.result import Result
from ..budget import Budget
from ..functions.table1 import TABLE_1, Setting
from ..schedules import L
from ._runs import Floats, minimize, trace

__all__ = ["EXPERIMENTS", "THRESHOLD", "Experiment", "T"]

T = 40  # the paper's budget, in gradient evaluations
THRESHOLD = T // 4  # the paper's b: CGD-FD switches to steepest descent after iteration b


class Experiment(Setting):
    """One row of Table 1, with its runs.

    Examples
    --------
    >>> EXPERIMENTS["branin"].lam, EXPERIMENTS["branin"].start
    (0.07, (-4.751, 12.459))
    """

    @property
    def lam(self) -> float | L:
        """λ, constant or rising."""
        return L(*self.lams) if self.lams[0] < self.lams[1] else self.lams[0]

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
        return f"λ = {self.lam_text}, α = {self.step:g}"

    def run(self, method: str, start: Any = None, **changed: Any) -> Result:
        """Return the paper's run, of T gradients, with these settings changed."""
        own: dict[str, Any] = {"step": self.step, "budget": Budget(grads=T)}
        if method == "cgd-fd":
            own |= {"lam": self.lam, "r": self.r, "b": THRESHOLD}
        return minimize(self.function, self.start if start is None else start, method=method, **own | changed)

    def tried(self, method: str, count: int, **changed: Any) -> Floats:
        """Return f − f* with each of `count` settings, given as arrays; inf where f ever rises."""
        many = self.run(method, np.tile(self.start, (count, 1)), **changed)
        with np.errstate(all="ignore"):
            f = trace(many).f
            rises = (np.diff(f, axis=0) > 1e-12 * abs(f[0])).any(axis=0)
        return np.where(np.isfinite(many.fun) & ~rises, many.fun, np.inf) - self.function.fmin


EXPERIMENTS = {name: Experiment(*setting) for name, setting in TABLE_1.items()}
"""The rows of Table 1, by the name of the function, in the paper's order."""
