"""The report of an optimizer with an ascent step."""

from __future__ import annotations

import math
from dataclasses import dataclass

_ROWS = {
    "steps": "steps taken", "perturbed": "with an ascent step", "total_steps": "steps planned",
    "gradients": "cost in gradients", "length": "length of the ascent step",
    "tripped": "steps the guard turned back", "validation": "validation loss", "error": "its standard error",
    "training": "training loss", "gap": "gap between them", "opening": "gate: 0 closed, 1 open",
    "target": "target rise of the loss", "rise": "measured rise of the loss",
    "bound": "fraction cut to the limit",
}  # fmt: skip


@dataclass(frozen=True)
class Report:
    """Statistics of the ascent step so far; NaN for what does not apply. Prints as a table.

    `gradients` counts passes over a batch, those of ascent steps in proportion to their examples, without
    evaluations of validation data. Losses, rises and `bound` are running means; `reason` says why no step was
    perturbed.

    Examples
    --------
    >>> print(Report(steps=100, perturbed=50, gradients=103.1, length=0.25))
    steps taken                      100
    with an ascent step               50
    cost in gradients              103.1
    length of the ascent step       0.25
    """

    steps: int = 0
    perturbed: int = 0
    gradients: float = 0.0
    length: float = math.nan
    tripped: float = math.nan
    validation: float = math.nan
    error: float = math.nan
    training: float = math.nan
    opening: float = math.nan
    target: float = math.nan
    rise: float = math.nan
    bound: float = math.nan
    total_steps: float = math.nan
    reason: str = ""

    @property
    def gap(self) -> float:
        """The gap between validation and training loss."""
        return self.validation - self.training

    def __str__(self) -> str:
        rows = [(words, getattr(self, name)) for name, words in _ROWS.items()]
        wide = max(map(len, _ROWS.values()))
        lines = [f"{words:{wide}} {value:>8.4g}" for words, value in rows if not math.isnan(value)]
        return "\n".join([*lines, *([f"no ascent step: {self.reason}"] if self.reason else [])])
