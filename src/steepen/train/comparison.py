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
from .results import Line, Mean, Run, record_of, run_of, summarise
from .tuning import Choice

__all__ = ["Comparison"]

FILE = "results.json"
_HEAD = (
    "method", "lr", "weight decay", "strength", "perturbed steps", "accuracy %", "loss", "accuracy vs base",
    "loss vs base", "stopped early: accuracy %", "loss", "gradients", "seconds",
)  # fmt: skip


class Trial(NamedTuple):
    """One try of a method, and its score on held-out data; NaN if it diverged."""

    method: str
    choice: Choice
    score: float


_WORDS = {-1: "behind", 0: "level", 1: "ahead"}


def _beyond(mean: Mean) -> int:
    """Return the sign of a mean that is beyond two standard errors, else 0."""
    return int(math.copysign(1, mean.value)) if abs(mean.value) > 2 * mean.error else 0


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
    method  lr  weight decay  strength  perturbed steps  accuracy %   loss  accuracy vs base  loss vs base ...
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

        Ahead and behind are beyond two standard errors, seed by seed.

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
        lines, said = self.summary(), list[str]()
        for line in lines[1:]:
            first = lines[0]
            better = _beyond(line.loss_difference), _beyond(line.difference)
            parts = [f"{_WORDS[-better[0]]} in loss ({line.loss_difference.text('+.3f')})"]
            if math.isfinite(line.difference.value):
                points = line.difference.text("+.2f", 100)
                parts.append(f"{_WORDS[better[1]]} in accuracy ({points} points)")
            parts.append(f"with {line.gradients:.0f} gradients of {first.gradients:.0f}")
            if first.seconds > 0:
                parts.append(f"in {line.seconds / first.seconds:.2f} × the time")
            said.append(f"{line.optimizer}: {', '.join(parts)}.")
        return "\n".join(said)

    def __str__(self) -> str:
        rows = self.rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        form = "  ".join([f"{{:<{widths[0]}}}", *(f"{{:>{width}}}" for width in widths[1:])])
        table = "\n".join(form.format(*row).rstrip() for row in rows)
        return "\n\n".join(filter(None, (table, self.verdict())))

    def save(self, folder: str | os.PathLike[str] | None) -> None:
        """Write `results.json` into a folder that is there."""
        if folder is None:
            return
        document = {
            "settings": self.settings,
            "trials": [(name, choice, None if math.isnan(one) else one) for name, choice, one in self.trials],
            "runs": [record_of(run) for run in self.runs],
            "choices": self.choices,
            "failures": self.failures,
        }
        text = json.dumps(document, allow_nan=False, indent=1).encode()
        write_whole(Path(folder, FILE), lambda file: file.write(text))


def _same(one: Any, other: Any) -> bool:
    """Compare settings; a loss may differ in its last digits where a GPU adds in another order."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-4)
    return one == other


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
        trials = [
            Trial(name, Choice(*values), math.nan if score is None else score)
            for name, values, score in document["trials"]
        ]
        runs = [run_of(record) for record in document["runs"]]
        choices = {name: Choice(*values) for name, values in document["choices"].items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"out: {str(path)!r} is not a file of results, and is left as it is") from error
    other = [
        f"{name} {there.get(name)}, not {value}"
        for name, value in settings.items()
        if not _same(there.get(name), value)
    ]
    for name, choice in [*choices.items(), *((one.method, one.choice) for one in trials)]:
        if choice not in squares.get(name, [choice]):
            other.append(f"{name} with lr, weight decay and strength {tuple(choice)}")
            break
    if other:
        raise ValueError(
            f"out: {str(path)!r} holds runs with {'; '.join(other)}. Give another folder for these"
        )
    return Comparison(settings, names, trials, runs, choices)
