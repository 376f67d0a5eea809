"""The dataclass that `report()` of every optimizer returns to users: numbers only; needs no torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any


def _row(words: str, value: float = math.nan) -> Any:
    return field(default=value, metadata={"words": words})


@dataclass(frozen=True)
class Report:
    """Statistics of the ascent step so far; NaN for what does not apply. Prints as a table.

    `perturbed` counts the steps with an ascent step, `gradients` the passes over a batch: those of ascent
    steps in proportion to their examples, without evaluations of validation data. Losses, rises and `bound`
    are running means; `reason` says why no step was perturbed.

    Examples
    --------
    >>> print(Report(steps=100, perturbed=50, gradients=103.1))
    steps taken                      100
    with an ascent step               50
    cost in gradients              103.1
    """

    steps: int = _row("steps taken", 0)
    perturbed: int = _row("with an ascent step", 0)
    total_steps: float = _row("steps planned")
    gradients: float = _row("cost in gradients", 0.0)
    length: float = _row("length of the ascent step")
    tripped: float = _row("steps the guard turned back")
    validation: float = _row("validation loss")
    error: float = _row("its standard error")
    training: float = _row("training loss")
    gap: float = _row("gap between them")
    opening: float = _row("gate: 0 closed, 1 open")
    target: float = _row("target rise of the loss")
    rise: float = _row("measured rise of the loss")
    bound: float = _row("fraction cut to the limit")
    reason: str = ""

    def __str__(self) -> str:
        rows = [(one.metadata["words"], getattr(self, one.name)) for one in fields(self) if one.metadata]
        lines = [f"{words:27} {value:>8.4g}" for words, value in rows if not math.isnan(value)]
        return "\n".join([*lines, *([f"no ascent step: {self.reason}"] if self.reason else [])])
