"""What comes out: a record of each run, their summary, and the file that keeps them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import __version__
from .._tools.files import write_whole
from .settings import Settings

__all__ = ["FILE", "Line", "Results", "Run", "mean_and_error", "record_of", "run_of", "summarise"]

FILE = "results.json"
"""The name of the file that keeps the runs."""


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
    def diverged(self) -> bool:
        """Whether that loss is no finite number; the run ended there."""
        return not math.isfinite(self.loss)


class Line(NamedTuple):
    """One optimizer over all seeds; the means are over the runs that did not diverge.

    Parameters
    ----------
    optimizer, strength
        Which, and with which λ or ρ.
    steps, gradients : int, float
        Of one run, the longest.
    runs, diverged : int
        How many runs there are, and how many of them diverged.
    accuracy, accuracy_se, loss, loss_se : float
        The mean and its standard error; NaN where there are too few runs for it.
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
    >>> Results(Settings.of("digits"), runs).summary()[1].difference
    0.25
    """

    optimizer: str
    strength: float
    steps: int
    gradients: float
    runs: int
    diverged: int
    accuracy: float
    accuracy_se: float
    loss: float
    loss_se: float
    difference: float
    difference_se: float
    loss_difference: float
    loss_difference_se: float
    seconds: float


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Give the mean and its standard error, s/√n; NaN where there are no values, or one.

    Examples
    --------
    >>> mean_and_error([1.0, 2.0, 3.0])
    (2.0, 0.5773502691896258)
    >>> mean_and_error([1.0])
    (1.0, nan)
    """
    count = len(values)
    mean = float(np.mean(values)) if count else math.nan
    error = float(np.std(values, ddof=1)) / math.sqrt(count) if count > 1 else math.nan
    return mean, error


def summarise(runs: Sequence[Run]) -> list[Line]:
    """Return one line for each optimizer, compared with the first.

    Examples
    --------
    >>> runs = [Run(name, 0, 2, 2, (0, 2), (0.1, 0.5), (2.3, 1.2)) for name in ("sgd", "sam")]
    >>> [line.optimizer for line in summarise(runs)]
    ['sgd', 'sam']
    """
    names = list(dict.fromkeys(run.optimizer for run in runs))
    first = {run.seed: run for run in runs if run.optimizer == names[0] and not run.diverged}
    lines: list[Line] = []
    for name in names:
        own = [run for run in runs if run.optimizer == name]
        fine = [run for run in own if not run.diverged]
        pairs = [(run, first[run.seed]) for run in fine if run.seed in first]
        lines.append(
            Line(
                name, own[0].strength,
                max(run.steps for run in own), max(run.gradients for run in own),
                len(own), len(own) - len(fine),
                *mean_and_error([run.accuracy for run in fine]),
                *mean_and_error([run.loss for run in fine]),
                *mean_and_error([run.accuracy - base.accuracy for run, base in pairs]),
                *mean_and_error([run.loss - base.loss for run, base in pairs]),
                mean_and_error([run.seconds for run in fine])[0],
            )
        )  # fmt: skip
    return lines


@dataclass(frozen=True)
class Results:
    """Runs with the same settings.

    Parameters
    ----------
    settings : Settings
        What they were made with.
    runs : sequence of Run
        In any order.
    versions : dict
        Of the packages they were made with; by default those here.

    Examples
    --------
    >>> Results(Settings.of("digits"), []).optimizers
    []
    """

    settings: Settings
    runs: Sequence[Run]
    versions: dict[str, str] = field(
        default_factory=lambda: {"steepen": __version__, "torch": version("torch")}
    )

    @property
    def optimizers(self) -> list[str]:
        """The optimizers, in their order."""
        return list(dict.fromkeys(run.optimizer for run in self.runs))

    def of(self, optimizer: str) -> list[Run]:
        """Give the runs of one optimizer."""
        return [run for run in self.runs if run.optimizer == optimizer]

    def chosen(self, optimizers: Sequence[str], seeds: Iterable[int]) -> Results:
        """Give the part of it with these optimizers, in this order, and these seeds."""
        wanted = set(seeds)
        return replace(self, runs=[run for name in optimizers for run in self.of(name) if run.seed in wanted])

    def summary(self) -> list[Line]:
        """Give one line for each optimizer, compared with the first."""
        return summarise(self.runs)

    def differences(self, other: Results) -> list[str]:
        """Say in words which settings and versions of the other differ from those here.

        Examples
        --------
        >>> here, there = (Results(Settings.of("digits", lr=lr), []) for lr in (0.1, 0.2))
        >>> here.differences(there)
        ['lr 0.2, not 0.1']
        """
        mine, its = (
            {name: "default" if value is None else value for name, value in asdict(one.settings).items()}
            | one.versions
            for one in (self, other)
        )
        return [
            f"{name} {its.get(name)}, not {value}" for name, value in mine.items() if its.get(name) != value
        ]

    def to_json(self) -> str:
        """Write it as JSON, a line for each run; null for what is not finite."""
        head = {"settings": asdict(self.settings), "versions": self.versions}
        text = json.dumps(head, indent=1, allow_nan=False).removesuffix("\n}")
        runs = ",\n".join(f"  {json.dumps(record_of(run), allow_nan=False)}" for run in self.runs)
        return f'{text},\n "runs": [\n{runs}\n ]\n}}\n'

    @classmethod
    def from_json(cls, text: str) -> Results:
        """Read what `to_json` wrote.

        Examples
        --------
        >>> run = Run("sgd", 0, 2, 2, (0, 2), (0.1, 0.5), (2.3, 1.2))
        >>> results = Results(Settings.of("digits"), [run])
        >>> Results.from_json(results.to_json()) == results
        True
        """
        try:
            document = json.loads(text)
            runs = [run_of(record) for record in document["runs"]]
            return cls(Settings(**document["settings"]), runs, dict(document["versions"]))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"text: expected what `to_json` wrote; {type(error).__name__}: {error}"
            ) from error

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write `results.json` into a folder that is there."""
        text = self.to_json().encode()
        write_whole(Path(folder, FILE), lambda file: file.write(text))


def record_of(run: Run) -> dict[str, Any]:
    """Return a run as JSON has it: null for what is not finite.

    Examples
    --------
    >>> record_of(Run("sgd", 0, 2, 2, (0, 2), (0.1, 0.5), (2.3, math.nan)))["losses"]
    [2.3, None]
    """
    curves = {
        name: [value if math.isfinite(value) else None for value in getattr(run, name)]
        for name in ("accuracies", "losses")
    }
    return asdict(run) | curves


def run_of(record: dict[str, Any]) -> Run:
    """Return the run that `record_of` wrote.

    Examples
    --------
    >>> run = Run("sgd", 0, 2, 2, (0, 2), (0.1, 0.5), (2.3, 1.2))
    >>> run_of(record_of(run)) == run
    True
    """
    curve: dict[str, Any] = {name: tuple(record.get(name, ())) for name in ("at", "times", "held_out")}
    for name in ("accuracies", "losses"):
        curve[name] = tuple(math.nan if value is None else value for value in record[name])
    return Run(**record | curve)
