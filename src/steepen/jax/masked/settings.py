"""Settings: how is minimised; built by `translate`, never changed."""

from __future__ import annotations

from dataclasses import dataclass

from ...budget import Budget
from ...switches import Switch
from .convergence import Tolerances
from .direction import Direction
from .step import Step


@dataclass(frozen=True)
class Settings:
    """How it is minimised: the parts of the method, the tolerances and the budget."""

    direction: Direction
    step: Step
    switch: Switch
    tolerances: Tolerances
    budget: Budget
