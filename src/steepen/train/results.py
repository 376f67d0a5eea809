"""Results: the trials and choices, a record of each run, the table and the verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from .._tools.aligned import aligned

_CURVES = ("at", "accuracies", "losses", "times", "held_out")


_HEAD = (
    "method", "lr", "weight decay", "strength", "perturbed steps", "accuracy %", "loss", "accuracy vs base",
    "loss vs base", "stopped early: accuracy %", "loss", "gradients", "seconds",
)  # fmt: skip
_WORDS = {-1: "behind", 0: "level", 1: "ahead"}


class Choice(NamedTuple):
    """The hyperparameters tuned on held-out data: learning rate, weight decay, and strength (λ, ρ, …)."""

    lr: float
    decay: float
    strength: float = 0.0


def square(lr: Sequence[float], decay: Sequence[float], strengths: Sequence[float]) -> list[Choice]:
    """Return k² trials from k values each, by a Latin square: each pair of any two values occurs once.

    A method without a strength has all pairs of lr and weight decay.
    """
    levels = range(len(lr))
    return [Choice(lr[i], decay[j], strengths[(i + j) % len(lr)]) for i in levels for j in levels]


def best(scores: Sequence[float]) -> int | None:
    """Return the index of the highest score, the first of equals; None if none is finite."""
    fine = [i for i, score in enumerate(scores) if math.isfinite(score)]
    return max(fine, key=lambda i: scores[i]) if fine else None


@dataclass(frozen=True)
class Run:
    """One method with one seed.

    It took `steps`, of which `perturbed` had an ascent step, and `gradients`, an ascent step counted in
    proportion to its examples. `at` has the gradients and `times` the seconds up to each evaluation,
    `accuracies` and `losses` those on the test data, `held_out` the loss on held-out data, if any.

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
        """The accuracy on the test data at the end."""
        return self.accuracies[-1]

    @property
    def loss(self) -> float:
        """The mean loss on the test data at the end."""
        return self.losses[-1]

    @property
    def diverged(self) -> bool:
        """Whether that loss is not finite; the run ended there."""
        return not math.isfinite(self.loss)

    @property
    def stop(self) -> int | None:
        """The index of the evaluation with the lowest held-out loss, for early stopping."""
        return int(np.nanargmin(self.held_out)) if np.isfinite(self.held_out).any() else None

    def record(self) -> dict[str, Any]:
        """Return the run as a dict for JSON: None for values that are not finite."""
        curves = {name: [x if math.isfinite(x) else None for x in getattr(self, name)] for name in _CURVES}
        return asdict(self) | curves

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Run:
        """Return the run that `record` wrote."""
        given = {one.name: record[one.name] for one in fields(cls)}
        for name in _CURVES:
            given[name] = tuple(math.nan if x is None else x for x in given[name])
        return cls(**given)


class Mean(NamedTuple):
    """A mean with its standard error, s/√n; NaN if there are no values, or only one for the error.

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
        """Its sign if it exceeds two standard errors, else 0."""
        return int(math.copysign(1, self.value)) if abs(self.value) > 2 * self.error else 0

    def text(self, form: str, scale: float = 1.0) -> str:
        """Format it, multiplied by a scale; a dash for NaN."""
        if math.isnan(self.value):
            return "–"
        error = "" if math.isnan(self.error) else f" ± {scale * self.error:{form.removeprefix('+')}}"
        return f"{scale * self.value:{form}}{error}"


class Line(NamedTuple):
    """One method over all seeds; the means are over the runs that did not diverge.

    `steps`, `perturbed` and `gradients` are those of the longest run; `stopped_…` is with early stopping on
    held-out data; differences are to the first method, at the end, paired by seed.

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


class Trial(NamedTuple):
    """One tuning trial of a method, and its score on held-out data; NaN if it diverged."""

    method: str
    choice: Choice
    score: float


@dataclass
class Comparison:
    """The result of `compare`. Prints as a table and a verdict.

    `settings` are common to all `methods`; `trials` are scored on held-out data, and `choices` are the best;
    `runs` are evaluated on the test data; `failures` says why a method could not be run.

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
        """Return the table as text, header first; methods that failed have a row too."""
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
        """Return a sentence per method: ahead of the first in loss and accuracy or not, and at what cost.

        Ahead and behind mean by more than two standard errors, paired by seed; one seed decides nothing.

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
            parts.append("so less confident, but not more often right")
    parts.append(f"with {line.gradients:.0f} gradients of {first.gradients:.0f}")
    if first.seconds > 0:
        parts.append(f"in {line.seconds / first.seconds:.2f} × the time")
    return f"{line.optimizer}: {', '.join(parts)}."
