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

__all__ = ["FILE", "Line", "Results", "Run", "mean_and_error"]

FILE = "results.json"
"""The name of the file that keeps the runs."""


@dataclass(frozen=True)
class Run:
    """One optimizer with one seed.

    Parameters
    ----------
    optimizer, seed
        Which.
    steps, gradients : int
        How many steps it took, and how many gradients they cost.
    at : tuple of int
        The gradients spent at each look at the test part, from 0 on.
    accuracies, losses : tuple of float
        What was seen there: the share that is right, and the mean loss.
    strength : float
        Its λ or ρ; 0 for the base alone.
    seconds : float
        How long it took.

    Examples
    --------
    >>> run = Run("sgd", 0, 2, 2, (0, 2), (0.1, 0.5), (2.3, 1.2))
    >>> run.accuracy, run.loss, run.diverged
    (0.5, 1.2, False)
    """

    optimizer: str
    seed: int
    steps: int
    gradients: int
    at: tuple[int, ...]
    accuracies: tuple[float, ...]
    losses: tuple[float, ...]
    strength: float = 0.0
    seconds: float = 0.0

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
    steps, gradients : int
        Of one run, the longest.
    runs, diverged : int
        How many runs there are, and how many of them diverged.
    accuracy, accuracy_se, loss, loss_se : float
        The mean and its standard error; NaN where there are too few runs for it.
    difference, difference_se : float
        The accuracy less that of the first optimizer, paired by seed.

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
    gradients: int
    runs: int
    diverged: int
    accuracy: float
    accuracy_se: float
    loss: float
    loss_se: float
    difference: float
    difference_se: float


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
        lines: list[Line] = []
        first = {
            run.seed: run.accuracy
            for run in self.runs
            if run.optimizer == self.optimizers[0] and not run.diverged
        }
        for name in self.optimizers:
            runs = self.of(name)
            fine = [run for run in runs if not run.diverged]
            gaps = [run.accuracy - first[run.seed] for run in fine if run.seed in first]
            lines.append(
                Line(
                    name, runs[0].strength,
                    max(run.steps for run in runs), max(run.gradients for run in runs),
                    len(runs), len(runs) - len(fine),
                    *mean_and_error([run.accuracy for run in fine]),
                    *mean_and_error([run.loss for run in fine]),
                    *mean_and_error(gaps),
                )
            )  # fmt: skip
        return lines

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
        runs = ",\n".join(f"  {json.dumps(_record(run), allow_nan=False)}" for run in self.runs)
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
            runs = [_run(record) for record in document["runs"]]
            return cls(Settings(**document["settings"]), runs, dict(document["versions"]))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"text: expected what `to_json` wrote; {type(error).__name__}: {error}"
            ) from error

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write `results.json` into a folder that is there."""
        text = self.to_json().encode()
        write_whole(Path(folder, FILE), lambda file: file.write(text))


def _record(run: Run) -> dict[str, Any]:
    return asdict(run) | {"losses": [value if math.isfinite(value) else None for value in run.losses]}


def _run(record: dict[str, Any]) -> Run:
    curve: dict[str, Any] = {name: tuple(record[name]) for name in ("at", "accuracies")}
    curve["losses"] = tuple(math.nan if value is None else value for value in record["losses"])
    return Run(**record | curve)
