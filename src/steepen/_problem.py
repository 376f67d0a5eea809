"""The two halves of a run: what is minimised, and how. Arguments become these once; drivers take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._core.arrays import Array
from ._core.judge import Tolerances
from ._core.kits import Kit
from ._core.space import Space
from ._oracle.finite_differences import Differences
from ._oracle.ledger import Ledger
from ._oracle.oracle import Oracle
from .budget import Budget
from .directions import Direction
from .steps import Step
from .switches import Switch


@dataclass(frozen=True)
class Problem:
    """What is minimised: the function with its derivatives, where the run begins, and where x may be."""

    fun: Any
    args: tuple[Any, ...]
    jac: Any
    hvp: Any
    hess: Any
    differences: Differences
    x: Array
    kit: Kit
    space: Space
    like: Any = None
    """A tensor such as the functions take, where x lies on the host all the same."""

    def oracle(self, settings: Settings) -> Oracle:
        """Return the function as a method sees it, its calls counted and limited."""
        return Oracle(
            self.fun, self.x, self.kit, jac=self.jac, hvp=self.hvp, hess=self.hess, args=self.args,
            space=self.space, ledger=Ledger(self.kit, settings.budget), differences=self.differences,
            adaptive=settings.direction.by_values and settings.step.searches, gtol=settings.tolerances.g,
            like=self.like,
        )  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """How a run goes: what it is made of, when it has converged, and what it may spend."""

    direction: Direction
    step: Step
    switch: Switch
    tolerances: Tolerances
    budget: Budget
    follows: bool = False
    """Whether the switch is the method's own, which may follow from the budget."""
