"""Constant λ for convex functions, rising λ for others: the six functions of Table 1 from many starts."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._minimize import minimize
from ..budget import Budget
from ..schedules import L
from ._claims import Claim, Outcome, Table, resting_on
from .egr import Floats
from .experiments import EXPERIMENTS, RECOVERED, THRESHOLD, Experiment, T

__all__ = ["CONVEX", "FACTORS", "KINDS", "NAME", "SECTION", "TITLE", "best", "run"]

NAME = "lam-schedules"
TITLE = "Constant λ for convex functions, rising λ for others?"
SECTION = "Section 4"
SAYS = (
    "A constant λ works well with convex functions; for some that are not convex a rising schedule, L(a, b), "
    "is preferred. Table 1 has one such: Levy."
)
MATTERS = "It is the one piece of advice on how to choose λ."

CONVEX = ("quadratic", "rotated-hyper-ellipsoid", "matyas")
KINDS = ("constant", "rising", "falling")
"""λ; L(λ/10, λ); L(λ, λ/10)."""

FACTORS = np.geomspace(0.01, 10.0, 13)
"""The λ tried, as multiples of Table 1's (of the end of its schedule on Levy)."""

STARTS, SEED = 120, 0
MARGIN = 0.01
"""One schedule is better than another from a start if its f − f* is lower by this share."""


def best(row: Experiment, kind: str) -> Floats:
    """Return f − f* after T gradients from each start, with the best λ for each; "none" is GD.

    Examples
    --------
    >>> constant, rising = (best(EXPERIMENTS["matyas"], kind) for kind in KINDS[:2])
    >>> bool((constant < rising).mean() > 0.9)
    True
    """
    f = row.function
    low, high = f.bounds.T
    starts = np.random.default_rng(SEED).uniform(low, high, (STARTS, f.n))
    base = row.lam.end if isinstance(row.lam, L) else row.lam
    lowest = np.full(STARTS, np.inf)
    for lam in (base * FACTORS).tolist() if kind != "none" else [0.0]:
        schedule = {"rising": L(lam / 10, lam), "falling": L(lam, lam / 10)}.get(kind, lam)
        penalty: dict[str, Any] = {"method": "gd"}
        if lam:
            penalty = {"method": "cgd-fd", "lam": schedule, "r": row.r, "b": THRESHOLD}
        with np.errstate(all="ignore"):  # a large λ overflows
            made = minimize(
                f, starts, step=row.step, gtol=0.0, budget=Budget(grads=T), trace=False,
                **penalty,
            )  # fmt: skip
        lowest = np.fmin(lowest, np.where(np.isfinite(made.fun), made.fun, np.inf))
    return lowest - f.fmin


def run() -> Outcome:
    """Compare constant, rising and falling λ, each at its best.

    Examples
    --------
    >>> constant, none = (best(EXPERIMENTS["quadratic"], kind) for kind in ("constant", "none"))
    >>> bool((constant < none).all())
    True
    """
    made = {name: {kind: best(row, kind) for kind in KINDS} for name, row in EXPERIMENTS.items()}
    wins = {name: _wins(of) for name, of in made.items()}
    ahead = {
        name: float(np.mean(made[name]["constant"] < 0.9 * best(EXPERIMENTS[name], "none")))
        for name in CONVEX
    }
    preferred = [name for name in made if name not in CONVEX and wins[name][0] > wins[name][1]]
    others = [name for name in made if name not in CONVEX]
    return Outcome(
        claims=resting_on(
            "chosen",
            [
                Claim(
                    "a constant λ works well with convex functions",
                    "works well",
                    "a tenth or more below GD from "
                    + ", ".join(f"{ahead[name]:.0%} of the starts on {_title(name)}" for name in CONVEX),
                    min(ahead[name] for name in CONVEX) > 0.75,
                ),
                Claim(
                    "for some functions that are not convex a rising λ is preferred",
                    "some",
                    "; ".join(
                        f"{_title(name)}: rising is better from {wins[name][0]} of {STARTS} starts, constant "
                        f"from {wins[name][1]}"
                        for name in others
                    ),
                    bool(preferred),
                    known="limit",
                ),
            ],
        ),
        tables={
            NAME: Table(
                ("function", "convex", *(f"median, {kind}" for kind in KINDS), "rising better",
                 "constant better"),
                [
                    (_title(name), name in CONVEX, *(float(np.median(of[kind])) for kind in KINDS),
                     *wins[name])
                    for name, of in made.items()
                ],
                f"f − f* after {T} gradients from {STARTS} random starts, with the best of {len(FACTORS)} λ "
                "for each start and schedule. Better: lower by 1 % or more.",
            )
        },
        found=[
            "A constant λ does well on convex functions, as the paper says. On "
            f"{len(preferred) or 'none'} of the three others is a rising λ better more often than a constant "
            "one, once both are chosen well.",
            f"Only the first {THRESHOLD + 1} of the {T} values of L(a, b) are ever used: the penalty is off "
            "after that, with λ hardly risen.",
        ],
        notes=[RECOVERED],
        settings={"starts": STARTS, "seed": SEED, "lams": "13, from 0.01 to 10 times Table 1's"},
    )  # fmt: skip


def _title(name: str) -> str:
    return EXPERIMENTS[name].function.title


def _wins(of: dict[str, Floats]) -> tuple[int, int]:
    """Return from how many starts rising λ is the better, and from how many constant λ."""
    rising, constant = of["rising"], of["constant"]
    return (
        int((rising < (1 - MARGIN) * constant).sum()),
        int((constant < (1 - MARGIN) * rising).sum()),
    )
