"""What a comparison found: its trials, its runs, the table, and the file that keeps them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from .._tools.files import write_whole
from .results import Line, Run, record_of, run_of, summarise
from .tuning import Choice

__all__ = ["Comparison"]

FILE = "results.json"
"""The name of the file that keeps a comparison."""

_HEAD = (
    "method", "lr", "weight decay", "strength", "probed steps", "accuracy %", "loss", "accuracy vs base",
    "loss vs base", "stopped early: accuracy %", "loss", "gradients", "seconds",
)  # fmt: skip


class Trial(NamedTuple):
    """One try of a method on held-out data."""

    method: str
    trial: int
    lr: float
    decay: float
    strength: float
    accuracy: float
    loss: float

    @property
    def choice(self) -> Choice:
        """The values that were tried."""
        return Choice(self.lr, self.decay, self.strength)

    @property
    def score(self) -> float:
        """The accuracy; where there are no classes, the loss with its sign turned."""
        return -self.loss if math.isnan(self.accuracy) else self.accuracy


@dataclass
class Comparison:
    """What `compare` or `run` found.

    Parameters
    ----------
    settings : dict
        What all methods shared.
    methods : sequence of str
        The rows; the others are compared with the first.
    trials : list of Trial
        The tries on held-out data.
    runs : list of Run
        The runs that are judged by the test part.
    choices : dict
        What was chosen for each method.
    failures : dict
        Methods that could not be run, and why.

    Examples
    --------
    >>> run = Run("base", 0, 2, 2, (0, 2), (0.1, 0.5), (2.3, 1.2))
    >>> print(Comparison({}, ["base"], [], [run]))
    method  lr  weight decay  strength  probed steps  accuracy %   loss  accuracy vs base  loss vs base ...
    base     –             –         –        0 of 2       50.00  1.200                 –             – ...
    """

    settings: dict[str, Any]
    methods: Sequence[str]
    trials: list[Trial] = field(default_factory=list[Trial])
    runs: list[Run] = field(default_factory=list[Run])
    choices: dict[str, Choice] = field(default_factory=dict[str, Choice])
    failures: dict[str, str] = field(default_factory=dict[str, str])

    def missing(self, seeds: int) -> list[tuple[str, int]]:
        """Return the runs that are not there, seed by seed, so that an interrupt leaves pairs."""
        have = {(run.optimizer, run.seed) for run in self.runs}
        every = [(name, seed) for seed in range(seeds) for name in self.methods]
        return [one for one in every if one not in have]

    def only(self, seeds: int) -> Comparison:
        """Return it without the runs of other methods and seeds that its file holds."""
        runs = [run for run in self.runs if run.optimizer in self.methods and run.seed < seeds]
        return replace(self, runs=runs)

    def summary(self) -> list[Line]:
        """Return one line for each method with runs, compared with the first."""
        order = {name: i for i, name in enumerate(self.methods)}
        return summarise(
            sorted((run for run in self.runs if run.optimizer in order), key=lambda run: order[run.optimizer])
        )

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
            base = name == self.methods[0]
            rows.append([
                name, *values, f"{line.probed} of {line.steps}",
                _cell(100 * line.accuracy, 100 * line.accuracy_se, ".2f"),
                _cell(line.loss, line.loss_se, ".3f"),
                "–" if base else _cell(100 * line.difference, 100 * line.difference_se, "+.2f"),
                "–" if base else _cell(line.loss_difference, line.loss_difference_se, "+.3f"),
                _cell(100 * line.stopped_accuracy, 100 * line.stopped_accuracy_se, ".2f"),
                _cell(line.stopped_loss, line.stopped_loss_se, ".3f"),
                f"{line.gradients:.0f}", f"{line.seconds:.1f}",
            ])  # fmt: skip
        return rows

    def __str__(self) -> str:
        rows = self.rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                [
                    row[0].ljust(widths[0]),
                    *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)),
                ]
            )
            for row in rows
        ]
        return "\n".join(line.rstrip() for line in lines)

    def save(self, folder: str | os.PathLike[str] | None) -> None:
        """Write `results.json` into a folder that is there."""
        if folder is None:
            return
        document = {
            "settings": self.settings,
            "trials": [[_finite(value) for value in trial] for trial in self.trials],
            "runs": [record_of(run) for run in self.runs],
            "choices": self.choices,
            "failures": self.failures,
        }
        text = json.dumps(document, allow_nan=False, indent=1).encode()
        write_whole(Path(folder, FILE), lambda file: file.write(text))


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(mean: float, error: float, form: str) -> str:
    if math.isnan(mean):
        return "–"
    return f"{mean:{form}}" if math.isnan(error) else f"{mean:{form}} ± {error:{form.removeprefix('+')}}"


def _same(one: Any, other: Any) -> bool:
    """Compare settings; a loss may differ in its last digits where a GPU adds in another order."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-4)
    return one == other


def _trial(values: list[Any]) -> Trial:
    method, index, *numbers = values
    return Trial(method, index, *(math.nan if value is None else value for value in numbers))


def kept(
    settings: dict[str, Any], names: Sequence[str], squares: Mapping[str, list[Choice]], out: Any
) -> Comparison:
    """Return what the folder holds; ValueError if that was made in another way."""
    path = None if out is None else Path(out, FILE)
    if path is not None and not path.parent.is_dir():
        raise ValueError(f"out: there is no folder {str(out)!r}")
    if path is None or not path.exists():
        return Comparison(settings, names)
    try:
        document = json.loads(path.read_text("utf-8"))
        there = document["settings"]
        trials = [_trial(one) for one in document["trials"]]
        runs = [run_of(record) for record in document["runs"]]
        choices = {name: Choice(*values) for name, values in document["choices"].items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"out: {str(path)!r} is not a file of results, and is left as it is") from error
    other = [
        f"{name} {there.get(name)}, not {value}"
        for name, value in settings.items()
        if not _same(there.get(name), value)
    ]
    for name, choice in choices.items():
        if name in squares and choice not in squares[name]:
            other.append(f"{name} with lr, weight decay and strength {tuple(choice)}")
    for one in trials:
        if one.method in squares and one.choice not in squares[one.method][one.trial :][:1]:
            other.append(f"{one.method} tried with lr, weight decay and strength {tuple(one.choice)}")
            break
    if other:
        raise ValueError(
            f"out: {str(path)!r} holds runs with {'; '.join(other)}. Give another folder for these"
        )
    return Comparison(settings, names, trials, runs, choices)
