"""What `compare` returns, also read by benchmarks: runs, choices, table and verdict; NumPy only, no files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._tools.aligned import aligned
from .._tools.check import one_of

_CURVES = ("at", "accuracies", "losses", "times", "held_out", "held_out_accuracies")
_HEAD = (
    "method", "lr", "weight decay", "strength", "ascent steps", "accuracy %", "loss",
    "stopped early: accuracy %", "loss", "gradients", "seconds",
)  # fmt: skip
_WORDS = {-1: "behind", 0: "level", 1: "ahead"}


class Choice(NamedTuple):
    """The hyperparameters tuned on held-out data: learning rate, weight decay, and strength (λ, ρ, …)."""

    lr: float
    decay: float
    strength: float = 0.0


def square(lr: Sequence[float], decay: Sequence[float], strengths: Sequence[float]) -> list[Choice]:
    """Return k² trials by a Latin square, each pair of two values once; k trials if there is one decay."""
    pairs = [(i, j) for i in range(len(lr)) for j in range(len(decay))]
    return [Choice(lr[i], decay[j], strengths[(i + j) % len(strengths)]) for i, j in pairs]


def best(scores: Sequence[float]) -> int | None:
    """Return the index of the highest score, the first of equals; None if none is finite."""
    fine = [i for i, score in enumerate(scores) if math.isfinite(score)]
    return max(fine, key=lambda i: scores[i]) if fine else None


@dataclass(frozen=True)
class Run:
    """One method with one seed.

    `perturbed` of its `steps` had an ascent step. `at` has the gradients and `times` the seconds up to each
    evaluation, `accuracies` and `losses` those on the test data; `held_out` and
    `held_out_accuracies` those on the held-out data, if any. It may be stopped from the part `since` on.

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
    held_out_accuracies: tuple[float, ...] = ()
    since: float = 0.0

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
        first = self.since * self.at[-1]
        read = [loss if at >= first else math.nan for at, loss in zip(self.at, self.held_out, strict=False)]
        return int(np.nanargmin(read)) if np.isfinite(read).any() else None

    @property
    def stopped_accuracy(self) -> float:
        """The accuracy at `stop`; NaN without held-out data."""
        return math.nan if self.stop is None else self.accuracies[self.stop]

    @property
    def stopped_loss(self) -> float:
        """The loss at `stop`; NaN without held-out data."""
        return math.nan if self.stop is None else self.losses[self.stop]

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


def _judgement(loss: Mean, accuracy: Mean) -> list[str]:
    """Return what to say of two differences."""
    words = dict.fromkeys(_WORDS, "undecided") if math.isnan(loss.error) else _WORDS
    small = 0 < abs(loss.value) < 0.01  # then two digits of it
    digits = 1 - math.floor(math.log10(abs(loss.value))) if small else 3
    parts = [f"{words[-loss.sign]} in loss ({loss.text(f'+.{digits}f')})"]
    if math.isfinite(accuracy.value):
        parts.append(f"{words[accuracy.sign]} in accuracy ({accuracy.text('+.2f', 100)} points)")
        if loss.sign < 0 and accuracy.sign < 0:
            parts.append("so less confident, but not more often right")
    return parts


@dataclass
class Comparison:
    """The result of `compare`. Prints as a table and a verdict.

    `settings` are common to all `methods`; `trials` has the score of each method and choice on held-out data,
    NaN if it diverged, and `choices` the best; `runs` are evaluated on the test data. `controls` are the
    methods that are the base in another way, such as with fewer steps.

    Examples
    --------
    >>> losses = {"base": (1.25, 1.2, 1.3), "sam": (1.0, 0.9, 1.1)}
    >>> runs = [
    ...     Run(name, seed, 9, 9, (0, 9), (0.1, 0.5), (2.3, loss), perturbed=4)
    ...     for name, ends in losses.items() for seed, loss in enumerate(ends)
    ... ]
    >>> found = Comparison({}, ["base", "sam"], runs=runs)
    >>> found.mean("sam", "loss").value
    1.0
    >>> print(found.verdict())
    sam: ahead in loss (-0.250 ± 0.029), level in accuracy (+0.00 ± 0.00 points), with 9 gradients of 9.
    """

    settings: dict[str, Any]
    methods: Sequence[str]
    trials: dict[tuple[str, Choice], float] = field(default_factory=dict[tuple[str, Choice], float])
    runs: list[Run] = field(default_factory=list[Run])
    choices: dict[str, Choice] = field(default_factory=dict[str, Choice])
    controls: Sequence[str] = ()

    def of(self, method: str) -> list[Run]:
        """Return the runs of a method."""
        one_of("method", method, self.methods)
        return [run for run in self.runs if run.optimizer == method]

    def mean(self, method: str, quantity: str) -> Mean:
        """Return the mean of a quantity of `Run`, such as "loss", over the runs that did not diverge."""
        return Mean.of([getattr(run, quantity) for run in self.of(method) if not run.diverged])

    def difference(self, method: str, quantity: str, other: str | None = None) -> Mean:
        """Return the mean difference, paired by seed, to the first method or another; no diverged runs."""
        to, own = (
            {run.seed: getattr(run, quantity) for run in self.of(name) if not run.diverged}
            for name in (self.methods[0] if other is None else other, method)
        )
        return Mean.of([own[seed] - to[seed] for seed in own if seed in to])

    @property
    def rival(self) -> str | None:
        """The best of the base and its controls, by their lowest held-out losses; None without these."""
        lowest = {
            name: Mean.of([min(run.held_out) for run in self.of(name) if not run.diverged]).value
            for name in (self.methods[0], *self.controls)
            if self._stops_early(name)
        }
        return min(lowest, key=lambda name: lowest[name]) if lowest else None

    def _stops_early(self, method: str) -> bool:
        """Whether the held-out loss was read to the end of each run."""
        runs = [run for run in self.of(method) if not run.diverged]
        return bool(runs) and all(run.held_out and np.isfinite(run.held_out).all() for run in runs)

    def rows(self) -> list[list[str]]:
        """Return the table as text, header first."""
        rows: list[list[str]] = [list(_HEAD)]
        for name in self.methods:
            chosen, own = self.choices.get(name), self.of(name)
            values = ["–"] * 3 if chosen is None else [f"{value:g}" if value else "–" for value in chosen]
            if not own:
                rows.append([name, *values, "every trial diverged", *[""] * 6])
                continue
            longest = max(own, key=lambda run: run.gradients)
            mean, lost = partial(self.mean, name), sum(run.diverged for run in own)
            told = f", {lost} of {len(own)} diverged" if lost else ""
            rows.append([
                name, *values, f"{longest.perturbed} of {longest.steps}{told}",
                mean("accuracy").text(".2f", 100), mean("loss").text(".3f"),
                mean("stopped_accuracy").text(".2f", 100), mean("stopped_loss").text(".3f"),
                f"{longest.gradients:.0f}", f"{mean('seconds').value:.1f}",
            ])  # fmt: skip
        return rows

    def verdict(self) -> str:
        """Return a sentence per method: ahead of the first, by more than two standard errors, or not.

        With held-out data a second one compares it with the best of the base and its controls, both stopped
        early where the held-out loss was lowest.
        """
        names = [name for name in self.methods[1:] if self.of(name)]
        return "\n".join(self._sentence(name) + self._second_sentence(name) for name in names)

    def _sentence(self, name: str) -> str:
        """Return the verdict on one method."""
        if not self.of(self.methods[0]):
            return f"{name}: every trial of {self.methods[0]} diverged, so there is nothing to compare with."
        parts = _judgement(*(self.difference(name, one) for one in ("loss", "accuracy")))
        most, least = (max(run.gradients for run in self.of(one)) for one in (name, self.methods[0]))
        if not any(run.perturbed for run in self.of(name)):
            parts.append("without an ascent step")
        parts.append(f"with {most:.0f} gradients of {least:.0f}")
        seconds, base = (self.mean(one, "seconds").value for one in (name, self.methods[0]))
        if base > 0:
            parts.append(f"in {seconds / base:.2f} × the time")
        lost = {one: [run.diverged for run in self.of(one)] for one in (self.methods[0], name)}
        told = [f"{sum(own)} of {len(own)} runs of {one}" for one, own in lost.items() if any(own)]
        if told:
            parts.append(f"but {' and '.join(told)} diverged")
        return f"{name}: {', '.join(parts)}."

    def _second_sentence(self, name: str) -> str:
        """Return the verdict on one method against the best of the base and its controls."""
        rival = self.rival
        if rival is None or name in self.controls or not self._stops_early(name):
            return ""
        found = (self.difference(name, f"stopped_{one}", rival) for one in ("loss", "accuracy"))
        return f" Both stopped early, against {rival}: {', '.join(_judgement(*found))}."

    def __str__(self) -> str:
        return "\n\n".join(filter(None, ("\n".join(aligned(self.rows(), 1)), self.verdict())))
