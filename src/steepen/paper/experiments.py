"""The six experiments of Table 1: their settings with the results that the paper prints, and their runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core.result import Result
from ..budget import Budget
from ..functions import Function
from ..functions.table1 import TABLE_1
from ..schedules import L
from ._runs import Floats, minimize, trace

__all__ = ["EXPERIMENTS", "THRESHOLD", "Experiment", "T"]

T = 40  # the paper's budget, in gradient evaluations
THRESHOLD = T // 4  # the paper's b: CGD-FD switches to steepest descent after iteration b


@dataclass(frozen=True)
class Experiment:
    """One row of Table 1.

    `gd` and `cgd_fd` are the improvements of the first step that the paper prints, in percent. The start and
    r are recovered; with `any_r` every r gives the same, as the difference is exact on a quadratic.

    Examples
    --------
    >>> EXPERIMENTS["branin"].lam, EXPERIMENTS["branin"].start
    (0.07, (-4.751, 12.459))
    """

    function: Function
    lam: float | L
    step: float
    gd: float
    cgd_fd: float
    start: tuple[float, ...]
    r: float
    any_r: bool = False

    @property
    def lam0(self) -> float:
        """The λ of the first step."""
        return self.lam.start if isinstance(self.lam, L) else self.lam

    @property
    def lam_text(self) -> str:
        """Return λ as the paper prints it."""
        return f"L({self.lam.start:g}, {self.lam.end:g})" if isinstance(self.lam, L) else f"{self.lam:g}"

    @property
    def settings(self) -> str:
        """λ and α, for a picture."""
        return f"λ = {self.lam_text}, α = {self.step:g}"

    def run(self, method: str, start: Any = None, **changed: Any) -> Result:
        """Make the paper's run, T gradients, with what is changed of its settings."""
        own: dict[str, Any] = {"step": self.step, "budget": Budget(grads=T)}
        if method == "cgd-fd":
            own |= {"lam": self.lam, "r": self.r, "b": THRESHOLD}
        return minimize(self.function, self.start if start is None else start, method=method, **own | changed)

    def tried(self, method: str, count: int, **changed: Any) -> Floats:
        """Return f − f* with each of so many settings, given as arrays; inf where f ever rises."""
        many = self.run(method, np.tile(self.start, (count, 1)), **changed)
        with np.errstate(all="ignore"):
            f = trace(many).f
            rises = (np.diff(f, axis=0) > 1e-12 * abs(f[0])).any(axis=0)
        return np.where(np.isfinite(many.fun) & ~rises, many.fun, np.inf) - self.function.fmin


def _experiment(name: str, gd: float, cgd_fd: float, *, any_r: bool = False) -> Experiment:
    used = TABLE_1[name]
    first, last = used.lam
    lam = first if first == last else L(first, last)
    return Experiment(used.function, lam, used.step, gd, cgd_fd, used.start, used.r, any_r)


EXPERIMENTS = {
    "quadratic": _experiment("quadratic", 18.89, 97.91, any_r=True),
    "rotated-hyper-ellipsoid": _experiment("rotated-hyper-ellipsoid", 15.94, 82.76, any_r=True),
    "levy": _experiment("levy", 23.73, 63.21),
    "branin": _experiment("branin", 37.53, 87.07),
    "griewank": _experiment("griewank", 0.01, 0.08),
    "matyas": _experiment("matyas", 1.83, 34.40, any_r=True),
}
"""The rows of Table 1, by the name of the function, in the paper's order."""
