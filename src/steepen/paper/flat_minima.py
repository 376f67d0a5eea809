"""Flat minima: the curvature where GD and CGD end, from the same starts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .. import plot
from .._minimize import minimize
from ..budget import Budget
from ..functions import Function, functions
from ._claims import Claim, Outcome, Table, resting_on
from .egr import Floats

__all__ = ["FUNCTIONS", "NAME", "SECTION", "TITLE", "Pairs", "compare", "run"]

NAME = "flat-minima"
TITLE = "Does CGD find flatter minima?"
SECTION = "Sections 1 and 5"
SAYS = (
    "CGD has the ability to find flatter minima: at a constant step it overshoots a sharp one, which the "
    "penalty makes sharper still, and settles at a flat one."
)
MATTERS = (
    "Networks at flat minima are said to generalise better. But a longer step of GD overshoots sharp "
    "minima too, at half the price."
)

FUNCTIONS = tuple(
    functions[name] if functions[name].n == 2 else functions[name].at(n=2)
    for name in (
        "levy", "rastrigin", "schwefel", "eggholder", "shubert", "holder-table", "styblinski-tang",
        "six-hump-camel",
    )
)  # fmt: skip
"""Functions of two variables with several minima."""

STARTS, ITERATIONS, SEED = 150, 400, 0
STEP, TWICE_LAM_L = 0.5, 1.0
"""αL and 2λL, L the median over the starts of the largest curvature in size."""


class Pairs(NamedTuple):
    """Ends of two ways from the same starts, both at minima: how many, and where the second is other.

    Examples
    --------
    >>> Pairs(10, 2, 1, 2, 1).same
    7
    """

    minima: int
    flatter: int
    sharper: int
    lower: int
    higher: int

    @property
    def same(self) -> int:
        """How many minima are of the same curvature."""
        return self.minima - self.flatter - self.sharper


def compare(f: Function) -> dict[str, Pairs]:
    """Compare where CGD ends, and GD with a step longer by 1 + 2λL, with where GD does.

    Examples
    --------
    >>> pairs = compare(FUNCTIONS[1])
    >>> pairs["CGD"].minima > 100
    True
    """
    low, high = f.bounds.T
    starts = np.random.default_rng(SEED).uniform(low, high, (STARTS, 2))
    L = float(np.median(np.abs(np.linalg.eigvalsh(f.hess(starts))).max(axis=1)))
    small = 1e-5 * float(np.linalg.norm(f.grad(starts), axis=1).mean())

    def ends(step: float, **method: Any) -> tuple[Floats, Floats, Any]:
        with np.errstate(all="ignore"):
            made = minimize(
                f, starts, step=step / L, gtol=small, budget=Budget(iters=ITERATIONS), trace=False, **method
            )
            x = np.where(np.isfinite(made.x), made.x, starts)
            eigenvalues = np.linalg.eigvalsh(f.hess(x))
            settled = np.linalg.norm(f.grad(x), axis=1) <= 10 * small
        inside = ((x >= low) & (x <= high)).all(axis=1)
        return np.asarray(f(x)), eigenvalues[:, 1], settled & inside & (eigenvalues[:, 0] > 0)

    plain = ends(STEP, method="gd")
    others = {
        "CGD": ends(STEP, method="cgd", lam=TWICE_LAM_L / (2 * L)),
        "GD, longer step": ends(STEP * (1 + TWICE_LAM_L), method="gd"),
    }
    return {name: _pairs(plain, other) for name, other in others.items()}


def _pairs(a: tuple[Floats, Floats, Any], b: tuple[Floats, Floats, Any]) -> Pairs:
    both = a[2] & b[2]
    value, bend, other_value, other_bend = (v[both] for v in (a[0], a[1], b[0], b[1]))
    margin = 1e-3 * np.abs(value)
    counts = (
        other_bend < 0.99 * bend,
        other_bend > 1.01 * bend,
        other_value < value - margin,
        other_value > value + margin,
    )
    return Pairs(int(both.sum()), *(int(count.sum()) for count in counts))


def run() -> Outcome:
    """Compare the curvature at the ends on eight functions.

    Examples
    --------
    >>> pairs = compare(functions["holder-table"])["CGD"]
    >>> pairs.flatter > pairs.sharper
    True
    """
    made = {f.title: compare(f) for f in FUNCTIONS}
    sums = {
        way: Pairs(*np.sum([of[way] for of in made.values()], axis=0).tolist())
        for way in ("CGD", "GD, longer step")
    }
    cgd, longer = sums.values()
    return Outcome(
        claims=resting_on(
            "chosen",
            [
                Claim(
                    f"CGD finds flatter minima than GD ({len(FUNCTIONS)} functions, same starts and α)",
                    "flatter",
                    f"flatter in {cgd.flatter} of {cgd.minima} runs, sharper in {cgd.sharper}, the same in "
                    f"{cgd.same}",
                    cgd.flatter > 2 * cgd.sharper,
                ),
                Claim(
                    "more often than a longer step of GD, α(1 + 2λL), does",
                    "by the penalty",
                    f"flatter in {_share(cgd)} of the runs that end elsewhere, against {_share(longer)}",
                    _odds(cgd) > _odds(longer),
                ),
            ],
        ),
        tables={
            NAME: Table(
                ("function", "way", "both at a minimum", "flatter", "sharper", "f lower", "f higher"),
                [
                    (title, way, p.minima, p.flatter, p.sharper, p.lower, p.higher)
                    for title, of in made.items()
                    for way, p in of.items()
                ],
                f"Of {STARTS} random starts, those from which GD and the other way both end at a minimum "
                "inside the box, and how the other's largest curvature and value differ from GD's.",
            )
        },
        figures={NAME: _draw(made)},
        captions={
            NAME: "Runs that end at another minimum than GD does: at a flatter one (to the right) or at a "
            "sharper one (to the left), for CGD and for GD with a step longer by 1 + 2λL."
        },
        found=[
            f"Yes, though usually both reach the same minimum: in {cgd.same} of {cgd.minima} runs. Where it "
            f"is another, CGD's is flatter {cgd.flatter} times and sharper {cgd.sharper} times. It is not "
            f"only the longer step: GD with α(1 + 2λL) has {longer.flatter} flatter and {longer.sharper} "
            "sharper ones. A sharp minimum, h > L, makes CGD's step longer still.",
            f"Flatter is not lower: f is lower in {cgd.lower} of CGD's runs and higher in {cgd.higher}.",
        ],
        settings={
            "starts": STARTS, "seed": SEED, "iterations": ITERATIONS, "step": f"{STEP:g}/L",
            "2λL": TWICE_LAM_L, "L": "median over the starts of the largest curvature in size",
        },
    )  # fmt: skip


def _odds(pairs: Pairs) -> float:
    return pairs.flatter / max(pairs.flatter + pairs.sharper, 1)


def _share(pairs: Pairs) -> str:
    return f"{_odds(pairs):.0%}"


def _size(value: float, _: object) -> str:
    return f"{abs(value):g}"


def _draw(made: dict[str, dict[str, Pairs]]) -> Any:
    figure = plot.blank(8, 4.4)
    axes = figure.subplots()
    places = np.arange(len(made))[::-1]
    for way, shift, method in (("CGD", 0.2, "cgd"), ("GD, longer step", -0.2, "gd")):
        pairs, colour = [of[way] for of in made.values()], plot.COLOURS[method]
        axes.barh(places + shift, [p.flatter for p in pairs], 0.38, color=colour, label=way)
        axes.barh(places + shift, [-p.sharper for p in pairs], 0.38, color=colour, alpha=0.5)
    axes.set_yticks(places, labels=list(made))
    axes.axvline(0.0, color="black", lw=0.8)
    axes.set_xlabel("← sharper      runs      flatter →")
    axes.xaxis.set_major_formatter(_size)
    figure.legend(frameon=False, loc="outside upper right", ncols=2)
    plot.tidy(axes)
    return figure
