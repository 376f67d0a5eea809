"""What comes out: a record of each run, and a summary of many."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

import numpy as np

_CURVES = ("at", "accuracies", "losses", "times", "held_out")


@dataclass(frozen=True)
class Run:
    """One method with one seed.

    - `steps`, `gradients`: how many steps it took, and how many gradients they cost; an ascent step counts by
      its examples. `perturbed` of the steps had one.
    - `at`, `times`: the gradients and the seconds of training that were spent at each look at the test part.
    - `accuracies`, `losses`: what was seen there: the part that is right, and the mean loss. `held_out` is
      the mean loss on held-out data; empty if there is none.
    - `strength`: its λ, ρ or the like; 0 for the base alone.

    Examples
    --------
    >>> run = Run("base", 0, 2, 2, (0, 2), (0.1, 0.5), (2.3, 1.2))
    >>> run.accuracy, run.loss, run.diverged
    (0.5, 1.2, False)
    """

    optimizer: str
    seed: int
    steps: int
    gradients: float
    at: tuple[float, ...]
    accuracies: tuple[float, ...]
    losses: tuple[float, ...]
    strength: float = 0.0
    seconds: float = 0.0
    times: tuple[float, ...] = ()
    perturbed: int = 0
    held_out: tuple[float, ...] = ()

    @property
    def accuracy(self) -> float:
        """The part of the test data that was right at the end."""
        return self.accuracies[-1]

    @property
    def loss(self) -> float:
        """The mean loss on the test data at the end."""
        return self.losses[-1]

    @property
    def diverged(self) -> bool:
        """Whether that loss is no finite number; the run ended there."""
        return not math.isfinite(self.loss)

    @property
    def stop(self) -> int | None:
        """The look at which the loss on held-out data was lowest: where early stopping ends."""
        return int(np.nanargmin(self.held_out)) if np.isfinite(self.held_out).any() else None

    def record(self) -> dict[str, Any]:
        """Return it as JSON has it: null for what is not finite."""
        curves = {name: getattr(self, name) for name in _CURVES}
        return asdict(self) | {
            name: [x if math.isfinite(x) else None for x in one] for name, one in curves.items()
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Run:
        """Return the run that `record` wrote."""
        given = {one.name: record[one.name] for one in fields(cls)}
        for name in _CURVES:
            given[name] = tuple(math.nan if x is None else x for x in given[name])
        return cls(**given)


class Mean(NamedTuple):
    """A mean with its standard error, s/√n; NaN where there are no values, or one.

    Examples
    --------
    >>> Mean.of([1.0, 2.0, 3.0])
    Mean(value=2.0, error=0.5773502691896258)
    >>> Mean.of([0.5, 0.6]).text(".2f", 100), Mean.of([0.5]).text("+.1f"), Mean.of([]).text(".1f")
    ('55.00 ± 5.00', '+0.5', '–')
    """

    value: float
    error: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Take the mean of values."""
        n = len(values)
        error = float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else math.nan
        return cls(float(np.mean(values)) if n else math.nan, error)

    @property
    def sign(self) -> int:
        """Its sign if it is beyond two standard errors, else 0."""
        return int(math.copysign(1, self.value)) if abs(self.value) > 2 * self.error else 0

    def text(self, form: str, scale: float = 1.0) -> str:
        """Write it, times a scale; a dash for NaN."""
        if math.isnan(self.value):
            return "–"
        error = "" if math.isnan(self.error) else f" ± {scale * self.error:{form.removeprefix('+')}}"
        return f"{scale * self.value:{form}}{error}"


class Line(NamedTuple):
    """One method over all seeds; the means are over the runs that did not diverge.

    `steps`, `perturbed` and `gradients` are those of the longest run. `stopped_accuracy` and `stopped_loss`
    are where the loss on held-out data was lowest: with early stopping. `difference` and `loss_difference`
    are accuracy and loss at the end less those of the first method, paired by seed.

    Examples
    --------
    >>> ends = {"base": 0.5, "sam": 0.75}
    >>> runs = [Run(name, 0, 2, 2, (0, 2), (0.1, end), (2.3, 1.2)) for name, end in ends.items()]
    >>> summarise(runs)[1].difference.value
    0.25
    """

    optimizer: str
    steps: int
    perturbed: int
    gradients: float
    runs: int
    diverged: int
    accuracy: Mean
    loss: Mean
    stopped_accuracy: Mean
    stopped_loss: Mean
    difference: Mean
    loss_difference: Mean
    seconds: float


def summarise(runs: Sequence[Run]) -> list[Line]:
    """Return one line for each method, compared with the first."""
    names = list(dict.fromkeys(run.optimizer for run in runs))
    first = {run.seed: run for run in runs if run.optimizer == names[0] and not run.diverged}
    lines: list[Line] = []
    for name in names:
        own = [run for run in runs if run.optimizer == name]
        fine = [run for run in own if not run.diverged]
        stops = [(run, run.stop) for run in fine if run.stop is not None]
        pairs = [(run, first[run.seed]) for run in fine if run.seed in first]
        longest = max(own, key=lambda run: run.gradients)
        lines.append(
            Line(
                name, longest.steps, longest.perturbed, longest.gradients, len(own),
                len(own) - len(fine),
                Mean.of([run.accuracy for run in fine]), Mean.of([run.loss for run in fine]),
                Mean.of([run.accuracies[stop] for run, stop in stops]),
                Mean.of([run.losses[stop] for run, stop in stops]),
                Mean.of([run.accuracy - base.accuracy for run, base in pairs]),
                Mean.of([run.loss - base.loss for run, base in pairs]),
                Mean.of([run.seconds for run in fine]).value,
            )
        )  # fmt: skip
    return lines
