"""The rows of the tables: methods, with what is varied about a run, and whose values they take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from steepen._core import ascent
from steepen.torch import GapSAM
from steepen.train.training import BASE, Method, last
from steepen.train.training import METHODS as NAMED

RETURNED = 0.75
"""The part of a run after which GapSAM reads its validation data no more, and they are trained on too."""
LENGTHS = (0.75, 0.5, 0.375, 0.25)
"""Parts of the base's steps: where a network overfits, fewer steps are themselves a cure."""
BETA = 0.99
"""Of the mean of the weights that is taken without a trial."""


def first(part: float) -> Callable[[int], range]:
    """Return what names the first part of the steps."""
    return lambda steps: range(round(part * steps))


def warm(steps: int) -> range:
    """Return the steps after the warm-up: a young momentum and a long ascent step destroy."""
    return range(round(0.05 * steps), steps)


def last_rows(examples: int) -> range:
    """Return the validation rows by default: the last 2 %, or 200, and at most a tenth."""
    return range(examples - min(max(200, round(0.02 * examples)), examples // 10), examples)


def _fraction(part: int, when: Callable[[int], range] = range) -> Method:
    return replace(NAMED["sam16-late"], ascent_fraction=1 / part, when=when)


class EarlyGapSAM(GapSAM):
    """GapSAM that answers an early gap early: the part of the gap is at least its ratio to the loss."""

    def __init__(self, base: Any, model: Any, **options: Any) -> None:
        super().__init__(base, model, **options)
        self._first = 0.1 * self.total_steps

    def _perturbation(self, n: Any, x: Any) -> tuple[Any, Any]:
        now = self._means.now()
        gap, opening = self._gap(now)
        ratio = (gap / now["validation"]).clamp(0, 1).nan_to_num(0.0)
        part = self.strength * ratio.clamp(min=self.k / self.total_steps)
        target = (part * gap * opening).clamp(min=0)
        length, bound = ascent.gap_length(target, self._gain, n, now["square"], x(), torch)
        self._wanted = {"target": target, "length": length, "bound": bound, "square": n * n}
        return length / n, None


class Early(Method):
    """GapSAM in that class."""

    def wrap(self, base: Any, model: Any, strength: float, steps: int, **options: Any) -> Any:
        return EarlyGapSAM(base, model, total_steps=steps, **dict(self.options) | options)


@dataclass(frozen=True)
class Row:
    """A row of the tables. Without `like`, its values are chosen by trials of its own.

    `held_out` rows have validation data, which they do not train on, or only from `method.returned` on.
    """

    title: str
    method: Method = BASE
    like: str = ""  # the row whose learning rate, weight decay and strength it takes
    held_out: bool = False
    smoothing: bool = False  # its strength is the ε of smoothed labels

    @property
    def tuned(self) -> bool:
        """Whether it has trials of its own."""
        return not self.like


def _like_base(title: str, method: Method = BASE, *, held_out: bool = False) -> Row:
    return Row(title, method, "base", held_out)


GAP = replace(NAMED["gap"], returned=RETURNED)


def _early(strength: float = 1.0, **given: Any) -> Method:
    return Early("GapSAM", ascent_fraction=1 / 16, options={"strength": strength}, **given)


LATE16 = _fraction(16, last(0.5))

ROWS: dict[str, Row] = {
    "base": Row("{base}"),
    "base-less": _like_base("{base}, validation data held out", held_out=True),
    "base-returned": _like_base(
        "{base}, validation data held out and returned", Method(returned=RETURNED), held_out=True
    ),
    **{
        f"base-{part:g}": _like_base(f"{{base}}, {part:g} of the steps", Method(length=part))
        for part in LENGTHS
    },
    "base-long": _like_base("{base}, a tenth more gradients", Method(length=1.1)),
    "base-longer": _like_base("{base}, a quarter more gradients", Method(length=1.25)),
    "ema-stopped": _like_base(
        f"{{base}} + EMA, β = {BETA:g}, validation data held out", Method(mean=BETA), held_out=True
    ),
    "ema": Row("{base} + EMA, β tuned", Method(symbol="β")),
    "smooth": Row("{base} + label smoothing", smoothing=True),
    "sam": Row("SAM throughout", NAMED["sam"]),
    "sam-late": Row("SAM, last quarter", NAMED["sam-late"]),
    "cgd-early": Row("CGD-FD, first quarter (the paper)", replace(NAMED["cgd"], when=first(0.25))),
    "cgd-late": Row("CGD-FD, last quarter", replace(NAMED["cgd"], when=last(0.25))),
    "share4": Row("SAM, 1/4 of the batch, throughout", _fraction(4)),
    "share4-late": Row("SAM, 1/4 of the batch, last half", _fraction(4, last(0.5))),
    "share16": Row("SAM, 1/16 of the batch, throughout", _fraction(16)),
    "share16-late": Row("SAM, 1/16 of the batch, last half", LATE16),
    "share16-ema": Row(
        f"SAM, 1/16 of the batch, throughout + EMA, β = {BETA:g}, validation data held out",
        replace(_fraction(16), mean=BETA), "share16", held_out=True,
    ),
    "msam": Row("MSAM", Method("MSAM", "ρ", (0.1, 0.3, 1.0), warm, 0.0)),
    "gate": _like_base("GapSAM, settings of the base", GAP, held_out=True),
    "gate-half": _like_base("the same, watching until the half", replace(GAP, returned=0.5), held_out=True),
    "gate-kept": _like_base("the same, watching to the end", replace(GAP, returned=1.0), held_out=True),
    "gate-0.75": _like_base("the same, 0.75 of the steps", replace(GAP, length=0.75), held_out=True),
    "gate-0.5": _like_base("the same, 0.5 of the steps", replace(GAP, length=0.5), held_out=True),
    "gate-ema": _like_base(
        f"GapSAM + EMA, β = {BETA:g}, watching to the end",
        replace(GAP, mean=BETA, returned=1.0, since=0.5), held_out=True,
    ),
    "early": _like_base("GapSAM, the part by the ratio", _early(returned=RETURNED), held_out=True),
    "early-2": _like_base(
        "GapSAM, twice the part by the ratio", _early(returned=RETURNED, strength=2.0), held_out=True
    ),
    "early-ema": _like_base(
        f"GapSAM, the part by the ratio + EMA, β = {BETA:g}", _early(mean=BETA, since=0.5), held_out=True
    ),
    "gap": _like_base(
        "GapSAM before its gate, settings of the base",
        replace(NAMED["gap"], options={"gate": None}), held_out=True,
    ),
}  # fmt: skip
"""The rows by name, in the order of the tables.

gate is GapSAM around the base as the base's own trials left it: what a user has who adds it to a network that
trains well already. What it gains or loses cannot come from another lr or weight decay. base-long has about
as many seconds as share16-late, base-longer no fewer than any. gap is gate before there was one.
"""
CLOSED = Row(
    "a GapSAM whose gate never opens", replace(NAMED["gap"], options={"gate": (1.0, 2.0)}), "base", True
)
"""Timed only: no gap exceeds the validation loss."""
