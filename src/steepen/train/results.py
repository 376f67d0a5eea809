"""What comes out: a record of each run, and a summary of many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Line", "Mean", "Run"]

_CURVES = ("at", "accuracies", "losses", "times", "held_out")


@dataclass(frozen=True)
class Run:
    """One optimizer with one seed.

    Parameters
    ----------
    optimizer, seed
        Which.
    steps, gradients : int, float
        How many steps it took, and how many gradients they cost; an ascent step counts by its examples.
    at : tuple of float
        The gradients spent at each look at the test part, from 0 on.
    accuracies, losses : tuple of float
        What was seen there: the share that is right, and the mean loss.
    strength : float
        Its λ or ρ; 0 for the base alone.
    seconds, times : float, tuple of float
        How long the training took, and had taken at each look; the looks themselves are not counted.
    perturbed : int
        The steps with an ascent step.
    held_out : tuple of float
        The mean loss on held-out data at each look; empty if there are none.

    Examples
    --------
    >>> run = Run("sgd", 0, 2, 2, (0, 2), (0.1, 0.5), (2.3, 1.2))
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
        """The share of the test part that was right at the end."""
        return self.accuracies[-1]

    @property
    def loss(self) -> float:
        """The mean loss on the test part at the end."""
        return self.losses[-1]

    @property
    def diverged(self) -> bool:
        """Whether that loss is no finite number; the run ended there."""
        return not math.isfinite(self.loss)

    @property
    def stop(self) -> int | None:
        """The look at which the loss on held-out data was lowest: where early stopping ends."""
        return int(np.nanargmin(self.held_out)) if np.isfinite(self.held_out).any() else None


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

    def text(self, form: str, scale: float = 1.0) -> str:
        """Write it, times a scale; a dash for NaN."""
        if math.isnan(self.value):
            return "–"
        error = "" if math.isnan(self.error) else f" ± {scale * self.error:{form.removeprefix('+')}}"
        return f"{scale * self.value:{form}}{error}"


class Line(NamedTuple):
    """One optimizer over all seeds; the means are over the runs that did not diverge.

    Parameters
    ----------
    optimizer, strength
        Which, and with which λ or ρ.
    steps, perturbed, gradients : int, int, float
        Of one run, the longest.
    runs, diverged : int
        How many runs there are, and how many of them diverged.
    accuracy, loss : Mean
        At the end.
    stopped_accuracy, stopped_loss : Mean
        Where the loss on held-out data was lowest: with early stopping.
    difference, loss_difference : Mean
        Accuracy and loss at the end less those of the first optimizer, paired by seed.
    seconds : float
        The mean time of the training.

    Examples
    --------
    >>> ends = {"sgd": 0.5, "sam": 0.75}
    >>> runs = [Run(name, 0, 2, 2, (0, 2), (0.1, end), (2.3, 1.2)) for name, end in ends.items()]
    >>> summarise(runs)[1].difference.value
    0.25
    """

    optimizer: str
    strength: float
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
    """Return one line for each optimizer, compared with the first."""
    names = list(dict.fromkeys(run.optimizer for run in runs))
    first = {run.seed: run for run in runs if run.optimizer == names[0] and not run.diverged}
    lines: list[Line] = []
    for name in names:
        own = [run for run in runs if run.optimizer == name]
        fine = [run for run in own if not run.diverged]
        stops = [(run, run.stop) for run in fine if run.stop is not None]
        pairs = [(run, first[run.seed]) for run in fine if run.seed in first]
        lines.append(
            Line(
                name, own[0].strength, max(run.steps for run in own), max(run.perturbed for run in own),
                max(run.gradients for run in own), len(own), len(own) - len(fine),
                Mean.of([run.accuracy for run in fine]), Mean.of([run.loss for run in fine]),
                Mean.of([run.accuracies[stop] for run, stop in stops]),
                Mean.of([run.losses[stop] for run, stop in stops]),
                Mean.of([run.accuracy - base.accuracy for run, base in pairs]),
                Mean.of([run.loss - base.loss for run, base in pairs]),
                Mean.of([run.seconds for run in fine]).value,
            )
        )  # fmt: skip
    return lines


def record_of(run: Run) -> dict[str, Any]:
    """Return a run as JSON has it: null for what is not finite."""
    curves = {name: [one if math.isfinite(one) else None for one in getattr(run, name)] for name in _CURVES}
    return asdict(run) | curves


def run_of(record: dict[str, Any]) -> Run:
    """Return the run that `record_of` wrote."""
    for name in _CURVES:
        record = record | {name: tuple(math.nan if one is None else one for one in record[name])}
    return Run(**record)
