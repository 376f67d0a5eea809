"""The six experiments of Table 1: what the paper prints, and what had to be recovered.

The paper prints the function, n, λ, α and the two improvements of the first step. It prints no start point,
no r and no matrix for the quadratic. Those were recovered, not published: they are values with which both
printed numbers come out, found with `steepen.paper.recover`. Others would do as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from .._core.result import Result
from .._minimize import minimize
from ..budget import Budget
from ..functions import Function, functions
from ..schedules import L

__all__ = ["EXPERIMENTS", "RECOVERED", "THRESHOLD", "Experiment", "T"]

T = 40
"""The paper's budget, in gradient evaluations."""

THRESHOLD = T // 4
"""The paper's b: CGD-FD switches to steepest descent after iteration b."""

RECOVERED = (
    "Recovered, not published: for Table 1 the paper prints no start points, no r and no matrix for the "
    "quadratic. Ours are values that give both printed improvements, and not the only ones; "
    "steepen.paper.recover finds them."
)
"""The statement that goes with every number made from these settings."""


@dataclass(frozen=True)
class Experiment:
    """One row of Table 1.

    Attributes
    ----------
    function : Function
        f, in the paper's dimension.
    lam : float or L
        λ, a number or the paper's rising schedule.
    step : float
        α.
    gd, cgd_fd : float
        The improvements of the first step that the paper prints, in percent.
    start : tuple of float
        x₀; recovered.
    r : float
        The probe of CGD-FD is at x + r·∇f; recovered.
    any_r : bool
        Whether every r gives the same, as the difference is exact on a quadratic.

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

    def run(
        self, method: Literal["gd", "cgd-fd"], trace: Literal[True, "x"] = True, b: int | None = THRESHOLD
    ) -> Result:
        """Make the paper's run: T gradients, whatever the gradient norm; None is the library's own b."""
        penalty: dict[str, Any] = {}
        if method == "cgd-fd":
            penalty = {"lam": self.lam, "r": self.r, "b": b}
        budget = Budget(grads=T)
        return minimize(
            self.function, self.start, method=method, step=self.step, budget=budget, gtol=0.0, trace=trace,
            **penalty,
        )  # fmt: skip


_TABLE_1 = (
    Experiment(
        functions["quadratic"].at(n=10), 0.4, 0.01, 18.89, 97.91, start=(1.0,) * 10, r=0.01, any_r=True
    ),
    Experiment(
        functions["rotated-hyper-ellipsoid"].at(n=5), 0.5, 0.01, 15.94, 82.76,
        start=(12.0, 5.0, 1.0, 5.0, 12.0), r=0.01, any_r=True,
    ),
    Experiment(
        functions["levy"].at(n=2), L(0.01, 0.1), 0.05, 23.73, 63.21, start=(-9.4186315, -5.2738909), r=0.01
    ),
    Experiment(functions["branin"], 0.07, 0.01, 37.53, 87.07, start=(-4.751, 12.459), r=0.2),
    Experiment(functions["griewank"].at(n=2), 40.0, 0.01, 0.01, 0.08, start=(440.0436, 312.7357), r=0.01),
    Experiment(
        functions["matyas"], 10.0, 0.01, 1.83, 34.40, start=(1.4267, 6.8533), r=0.01, any_r=True
    ),
)  # fmt: skip

EXPERIMENTS = {experiment.function.name: experiment for experiment in _TABLE_1}
"""The rows of Table 1, by the name of the function, in the paper's order."""
