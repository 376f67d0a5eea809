"""The six experiments of Table 1, for the paper's items and explorer: settings, printed results, runs.

The paper prints the function, n, λ and α. It prints no start point, no r and no matrix for the quadratic.
These were recovered (recover.py): they reproduce both printed improvements, but are not the only values
that do. Nothing here writes files.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._core.result import Result
from ..budget import Budget
from ..functions import Function, functions
from ..schedules import L
from ._runs import Floats, minimize, trace

__all__ = ["EXPERIMENTS", "THRESHOLD", "Experiment", "T"]

T = 40  # the paper's budget, in gradient evaluations
THRESHOLD = T // 4  # the paper's b: CGD-FD switches to steepest descent after iteration b


class Experiment(NamedTuple):
    """One row of Table 1, with its runs; λ rises linearly from its first value to its last.

    `gd` and `cgd_fd` are the printed improvements of the first step, in percent. With `any_r` every r gives
    the same, since differences of gradients are exact on a quadratic.

    Examples
    --------
    >>> EXPERIMENTS["branin"].lam, EXPERIMENTS["branin"].start
    (0.07, (-4.751, 12.459))
    """

    function: Function
    lams: tuple[float, float]
    step: float
    start: tuple[float, ...]
    r: float
    gd: float
    cgd_fd: float
    any_r: bool = False

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


_ROWS = (
    Experiment(functions["quadratic"].at(10), (0.4, 0.4), 0.01, (1.0,) * 10, 0.01, 18.89, 97.91, any_r=True),
    Experiment(functions["rotated-hyper-ellipsoid"].at(5), (0.5, 0.5), 0.01, (12.0, 5.0, 1.0, 5.0, 12.0),
               0.01, 15.94, 82.76, any_r=True),
    Experiment(functions["levy"].at(2), (0.01, 0.1), 0.05, (-9.4186315, -5.2738909), 0.01, 23.73, 63.21),
    Experiment(functions["branin"], (0.07, 0.07), 0.01, (-4.751, 12.459), 0.2, 37.53, 87.07),
    Experiment(functions["griewank"].at(2), (40.0, 40.0), 0.01, (440.0436, 312.7357), 0.01, 0.01, 0.08),
    Experiment(functions["matyas"], (10.0, 10.0), 0.01, (1.4267, 6.8533), 0.01, 1.83, 34.40, any_r=True),
)  # fmt: skip

EXPERIMENTS = {row.function.name: row for row in _ROWS}
"""The rows of Table 1, by the name of the function, in the paper's order."""
