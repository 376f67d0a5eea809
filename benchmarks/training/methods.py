"""More methods than `steepen.train` names: phases of a run, shares of the batch, published methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from steepen.train.training import BASE, Method, last
from steepen.train.training import METHODS as NAMED

BACK = 0.75
"""The part of a run after which GapSAM reads its validation data no more, and they are trained on too."""


def first(part: float) -> Callable[[int], range]:
    """Return what names the first part of the steps."""
    return lambda steps: range(round(part * steps))


def warm(steps: int) -> range:
    """Return the steps after the warm-up: a young momentum and a long ascent step destroy."""
    return range(round(0.05 * steps), steps)


def last_rows(examples: int) -> range:
    """Return the rows that GapSAM is given to watch: the last 2 %, or 200, and at most a tenth."""
    return range(examples - min(max(200, round(0.02 * examples)), examples // 10), examples)


def _share(part: int, when: Callable[[int], range] = range) -> Method:
    return replace(NAMED["sam16-late"], ascent_fraction=1 / part, when=when)


METHODS: dict[str, Method] = NAMED | {
    "sam-early": replace(NAMED["sam"], when=first(0.25)),
    "share4": _share(4),
    "share4-late": _share(4, last(0.5)),
    "share16": _share(16),
    "share16-late": NAMED["sam16-late"],  # as the files of results have it
    "cgd-early": replace(NAMED["cgd"], when=first(0.25)),
    "cgd-late": replace(NAMED["cgd"], when=last(0.25)),
    "fgr": Method("CGD", "λ", options={"r": 0.05, "guard": False}),
    "msam": Method("MSAM", "ρ", (0.1, 0.3, 1.0), warm, 0.0),
    "ema": BASE,  # these two by `rivals`
    "smooth": BASE,
}
