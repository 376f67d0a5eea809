"""What a comparison found: its trials, its runs, the table and the verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .._tools.aligned import aligned
from .results import Line, Run, summarise
from .tuning import Choice

_HEAD = (
    "method", "lr", "weight decay", "strength", "perturbed steps", "accuracy %", "loss", "accuracy vs base",
    "loss vs base", "stopped early: accuracy %", "loss", "gradients", "seconds",
)  # fmt: skip
_WORDS = {-1: "behind", 0: "level", 1: "ahead"}


class Trial(NamedTuple):
    """One try of a method, and its score on held-out data; NaN if it diverged."""

    method: str
    choice: Choice
    score: float


@dataclass
class Comparison:
    """What `compare` found. Printed, it is a table and a verdict.

    - `settings`: what all methods shared.
    - `methods`: the rows; the others are compared with the first.
    - `trials`: the tries on held-out data; `choices` has what was chosen by them.
    - `runs`: those that are judged by the test data.
    - `failures`: methods that could not be run, and why.

    Examples
    --------
    >>> run = Run("base", 0, 2, 2, (0, 2), (0.1, 0.5), (2.3, 1.2))
    >>> print(Comparison({}, ["base"], [], [run]))
    method  lr  weight decay  strength  perturbed steps  accuracy %   loss  accuracy vs base  loss vs base ...
    base     –             –         –        0 of 2       50.00  1.200                 –             – ...
    """

    settings: dict[str, Any]
    methods: Sequence[str]
    trials: list[Trial] = field(default_factory=list[Trial])
    runs: list[Run] = field(default_factory=list[Run])
    choices: dict[str, Choice] = field(default_factory=dict[str, Choice])
    failures: dict[str, str] = field(default_factory=dict[str, str])

    def summary(self) -> list[Line]:
        """Return one line for each method with runs, compared with the first."""
        return summarise(sorted(self.runs, key=lambda run: self.methods.index(run.optimizer)))

    def rows(self) -> list[list[str]]:
        """Return the table as text, its head first; methods that failed have a row too."""
        rows: list[list[str]] = [list(_HEAD)]
        lines = {line.optimizer: line for line in self.summary()}
        for name in self.methods:
            chosen, line = self.choices.get(name), lines.get(name)
            values = ["–"] * 3 if chosen is None else [f"{value:g}" if value else "–" for value in chosen]
            if line is None:
                rows.append([name, *values, self.failures.get(name, "no run"), *[""] * 8])
                continue
            gaps = line.difference.text("+.2f", 100), line.loss_difference.text("+.3f")
            rows.append([
                name, *values, f"{line.perturbed} of {line.steps}",
                line.accuracy.text(".2f", 100), line.loss.text(".3f"),
                *(("–", "–") if name == self.methods[0] else gaps),
                line.stopped_accuracy.text(".2f", 100), line.stopped_loss.text(".3f"),
                f"{line.gradients:.0f}", f"{line.seconds:.1f}",
            ])  # fmt: skip
        return rows

    def verdict(self) -> str:
        """Say for each method whether it is ahead of the first in loss and accuracy, and at what cost.

        Ahead and behind are beyond two standard errors, seed by seed; one seed decides nothing. A lower loss
        with a lower accuracy is that of a network that is less sure of itself, and not right more often.

        Examples
        --------
        >>> ends = {"base": (1.25, 1.2, 1.3), "sam": (1.0, 0.9, 1.1)}
        >>> runs = [
        ...     Run(name, seed, 9, 9, (0, 9), (0.1, 0.5), (2.3, loss))
        ...     for name, losses in ends.items() for seed, loss in enumerate(losses)
        ... ]
        >>> print(Comparison({}, ["base", "sam"], runs=runs).verdict())
        sam: ahead in loss (-0.250 ± 0.029), level in accuracy (+0.00 ± 0.00 points), with 9 gradients of 9.
        """
        lines = self.summary()
        return "\n".join(_sentence(line, lines[0]) for line in lines[1:])

    def __str__(self) -> str:
        return "\n\n".join(filter(None, ("\n".join(aligned(self.rows(), 1)), self.verdict())))


def _sentence(line: Line, first: Line) -> str:
    """Return the verdict on one method."""
    loss, accuracy = -line.loss_difference.sign, line.difference.sign
    words = dict.fromkeys(_WORDS, "undecided") if math.isnan(line.loss_difference.error) else _WORDS
    parts = [f"{words[loss]} in loss ({line.loss_difference.text('+.3f')})"]
    if math.isfinite(line.difference.value):
        parts.append(f"{words[accuracy]} in accuracy ({line.difference.text('+.2f', 100)} points)")
        if loss > 0 > accuracy:
            parts.append("so less sure of itself, and not right more often")
    parts.append(f"with {line.gradients:.0f} gradients of {first.gradients:.0f}")
    if first.seconds > 0:
        parts.append(f"in {line.seconds / first.seconds:.2f} × the time")
    return f"{line.optimizer}: {', '.join(parts)}."
