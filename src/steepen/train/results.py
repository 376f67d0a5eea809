"""What comes out: a record of each run, and a summary of many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Line", "Run"]

_CURVES = ("accuracies", "losses", "held_out")


@dataclass(frozen=True)
class Run:
    """One optimizer with one seed.

    Parameters
    ----------
    optimizer, seed
        Which.
    steps, gradients : int, float
        How many steps it took, and how many gradients they cost; a probe counts by its examples.
    at : tuple of float
        The gradients spent at each look at the test part, from 0 on.
    accuracies, losses : tuple of float
        What was seen there: the share that is right, and the mean loss.
    strength : float
        Its λ or ρ; 0 for the base alone.
    seconds : float
        How long the training took; the looks at the test part are not counted.
    times : tuple of float
        The seconds at each look.
    probed : int
        The steps with a probe.
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
    probed: int = 0
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
    def stop(self) -> int | None:
        """The look at which the loss on held-out data was lowest: where early stopping ends."""
        return int(np.nanargmin(self.held_out)) if np.isfinite(self.held_out).any() else None

    @property
    def diverged(self) -> bool:
        """Whether that loss is no finite number; the run ended there."""
        return not math.isfinite(self.loss)


class Line(NamedTuple):
    """One optimizer over all seeds; the means are over the runs that did not diverge.

    Parameters
    ----------
    optimizer, strength
        Which, and with which λ or ρ.
    steps, probed, gradients : int, int, float
        Of one run, the longest.
    runs, diverged : int
        How many runs there are, and how many of them diverged.
    accuracy, accuracy_se, loss, loss_se : float
        The mean and its standard error; NaN where there are too few runs for it.
    stopped_accuracy, stopped_accuracy_se, stopped_loss, stopped_loss_se : float
        The same where the loss on held-out data was lowest: with early stopping.
    difference, difference_se : float
        The accuracy less that of the first optimizer, paired by seed.
    loss_difference, loss_difference_se : float
        The loss less that of the first optimizer, paired by seed.
    seconds : float
        The mean time of the training.

    Examples
    --------
    >>> ends = {"sgd": 0.5, "sam": 0.75}
    >>> runs = [Run(name, 0, 2, 2, (0, 2), (0.1, end), (2.3, 1.2)) for name, end in ends.items()]
    >>> summarise(runs)[1].difference
    0.25
    """

    optimizer: str
    strength: float
    steps: int
    probed: int
    gradients: float
    runs: int
    diverged: int
    accuracy: float
    accuracy_se: float
    loss: float
    loss_se: float
    stopped_accuracy: float
    stopped_accuracy_se: float
    stopped_loss: float
    stopped_loss_se: float
    difference: float
    difference_se: float
    loss_difference: float
    loss_difference_se: float
    seconds: float


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its standard error, s/√n; NaN where there are no values, or one."""
    count = len(values)
    mean = float(np.mean(values)) if count else math.nan
    error = float(np.std(values, ddof=1)) / math.sqrt(count) if count > 1 else math.nan
    return mean, error


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
                name, own[0].strength,
                max(run.steps for run in own), max(run.probed for run in own),
                max(run.gradients for run in own),
                len(own), len(own) - len(fine),
                *mean_and_error([run.accuracy for run in fine]),
                *mean_and_error([run.loss for run in fine]),
                *mean_and_error([run.accuracies[stop] for run, stop in stops]),
                *mean_and_error([run.losses[stop] for run, stop in stops]),
                *mean_and_error([run.accuracy - base.accuracy for run, base in pairs]),
                *mean_and_error([run.loss - base.loss for run, base in pairs]),
                mean_and_error([run.seconds for run in fine])[0],
            )
        )  # fmt: skip
    return lines


def record_of(run: Run) -> dict[str, Any]:
    """Return a run as JSON has it: null for what is not finite."""
    curves = {
        name: [value if math.isfinite(value) else None for value in getattr(run, name)] for name in _CURVES
    }
    return asdict(run) | curves


def run_of(record: dict[str, Any]) -> Run:
    """Return the run that `record_of` wrote."""
    curve: dict[str, Any] = {name: tuple(record.get(name, ())) for name in ("at", "times")}
    for name in _CURVES:
        curve[name] = tuple(math.nan if value is None else value for value in record[name])
    return Run(**record | curve)
