"""Artificial points in n dimensions: how many there are, who is caught by them, and Lemma 1's remedy."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from .. import plot
from .._minimize import minimize
from ..budget import Budget
from ..functions import Function, functions
from ..schedules import Perturbed
from ._claims import Claim, Outcome, Table, resting_on
from .egr import Floats, Penalised, kind, pits, stationary_points
from .recover import roots_in_the_plane

__all__ = ["DIMENSIONS", "NAME", "SECTION", "TITLE", "WAYS", "ends", "run"]

NAME = "artificial-points"
TITLE = "Artificial points in n dimensions, and another λ"
SECTION = "Section 3"
SAYS = (
    "Lemma 1 holds in n dimensions: where g has a stationary point that f has not, ∇f is an eigenvector of "
    "the Hessian with eigenvalue −1/(2λ). Such points are easily detected, and a perturbed λ leads on."
)
MATTERS = (
    "The pictures of the paper are of one variable. Losses of networks have millions, and a trap that is "
    "rare in one dimension need not be so in many."
)

LAM, STEP, STARTS, ITERATIONS = 0.3, 0.1, 100, 600
"""Of the runs on the pits."""

DIMENSIONS = (1, 2, 4, 8, 16)

WAYS = {"GD": "on f", "EGR": "on g", "CGD": "with the guard", "CGD, another λ": "where p vanishes"}
"""Who goes down, and how."""

PLANE: tuple[tuple[Function, float, tuple[float, float] | None], ...] = (
    (functions["styblinski-tang"].at(n=2), 0.05, (-4.0, 4.0)),
    (functions["six-hump-camel"], 0.2, None),
)
"""Where all stationary points of g are looked for: f, λ, and the side of a square if not f's own box."""


def ends(n: int, way: str) -> dict[str, int]:
    """Return at which kinds of point the runs in n dimensions end.

    Examples
    --------
    >>> ends(1, "GD")
    {'minimum': 100}
    """
    f = pits(n)
    starts = np.random.default_rng(n).uniform(-4.5, 4.5, (STARTS, n))
    penalty: dict[str, Any] = {"method": "gd"}
    if way.startswith("CGD"):
        penalty = {"method": "cgd", "lam": LAM if way == "CGD" else Perturbed(LAM)}
    made = minimize(
        Penalised(f, LAM) if way == "EGR" else f, starts, step=STEP, gtol=1e-4, trace=False,
        budget=Budget(iters=ITERATIONS), **penalty,
    )  # fmt: skip
    return dict(Counter(kind(f, x, LAM) for x in made.x).most_common())


def run() -> Outcome:
    """Find all stationary points of g in the plane, and send runs down in up to 16 dimensions.

    Examples
    --------
    >>> ends(2, "CGD, another λ")
    {'minimum': 100}
    """
    plane = [_in_the_plane(f, lam, side) for f, lam, side in PLANE]
    separable, lam, side = PLANE[0]
    line = stationary_points(separable.at(n=1), lam, side or (-5.0, 5.0))
    own, new = (sum((p.to_f == "artificial") == artificial for p in line) for artificial in (False, True))
    share = {n: 1 - (own / (own + new)) ** n for n in DIMENSIONS}
    made = {n: {way: ends(n, way) for way in WAYS} for n in DIMENSIONS}
    last = DIMENSIONS[-1]
    astray = {way: [STARTS - made[n][way].get("minimum", 0) for n in DIMENSIONS] for way in WAYS}
    return Outcome(
        claims=_claims(plane, astray),
        tables={
            f"{NAME}-plane": Table(
                ("function", "λ", "stationary points of g", "of f", "artificial", "‖Hg + g/(2λ)‖/‖g‖ there"),
                plane,
                "Found from values of g alone, by a grid and Newton's method, without the lemma.",
            ),
            f"{NAME}-many": Table(
                ("n", "stationary points of f", "artificial", "share"),
                [(n, own**n, (own + new) ** n - own**n, share[n]) for n in DIMENSIONS],
                f"{separable.title} is a sum over its variables. With {own} stationary points of f and {new} "
                f"artificial ones in each, there are ({own} + {new})ⁿ − {own}ⁿ artificial ones in n "
                "dimensions.",
            ),
            NAME: Table(
                ("n", "way", "minimum", "artificial", "other"),
                [(n, way, *_counts(found)) for n in DIMENSIONS for way, found in made[n].items()],
                f"Where {STARTS} runs from random starts end, on a sum of pits.",
            ),
        },
        figures={NAME: _draw(astray)},
        captions={
            NAME: f"Of {STARTS} runs on a sum of n pits, how many do not come to a minimum of f, against n. "
            f"λ = {LAM:g}, α = {STEP:g}. The check alone is of less and less help; another λ where p "
            "vanishes brings every run to a minimum."
        },
        found=[
            "Where f is a sum over its variables, one caught variable is enough to hold a run. With "
            f"n = {last} the check never helps: {astray['CGD'][-1]} of {STARTS} runs of CGD do not come to a "
            "minimum.",
            "The paper's other remedy is the better one. With another λ for the one step in which the "
            "direction vanishes (steepen.schedules.Perturbed) every run comes to a minimum, in every "
            "dimension.",
            "Artificial points soon outnumber the others: of the stationary points of g on Styblinski–Tang, "
            f"{share[2]:.0%} are artificial in the plane and {share[last]:.2%} for n = {last}.",
        ],
        settings={
            "pits": {"lam": LAM, "step": STEP, "starts": STARTS, "iterations": ITERATIONS},
            "plane": {f.name: {"lam": lam, "box": side or "its own"} for f, lam, side in PLANE},
        },
    )


def _in_the_plane(f: Function, lam: float, side: tuple[float, float] | None) -> tuple[Any, ...]:
    """Return a row: stationary points of g, those of f, artificial ones, and how far off the lemma is."""
    box = np.array([side, side]) if side else f.bounds
    found = roots_in_the_plane(_slope_by_values(f, lam), box, within=1e-4)
    kinds = Counter(kind(f, x, lam) for x in found)
    residual = max((_residual(f, lam, x) for x in found if kind(f, x, lam) == "artificial"), default=0.0)
    own = sum(kinds[name] for name in ("minimum", "maximum", "saddle"))
    return f.title, lam, len(found), own, kinds["artificial"], residual


def _counts(found: dict[str, int]) -> tuple[int, int, int]:
    minimum, artificial = found.get("minimum", 0), found.get("artificial", 0)
    return minimum, artificial, STARTS - minimum - artificial


def _claims(plane: list[tuple[Any, ...]], astray: dict[str, list[int]]) -> list[Claim]:
    last = DIMENSIONS[-1]
    return [
        Claim(
            "in the plane too, every stationary point of g is (a) one of f or (b) artificial",
            "(a) or (b)",
            "; ".join(f"{name}: {both} are {own} and {new}" for name, _, both, own, new, _ in plane),
            all(own + new == both > 0 and new > 0 and off < 1e-5 for _, _, both, own, new, off in plane),
        ),
        *resting_on(
            "chosen",
            [
                Claim(
                    f"the check helps to avoid stopping at artificial points, n = 1 to {last}",
                    "helps",
                    f"{astray['CGD'][0]} of {STARTS} runs do not get to a minimum for n = 1, "
                    f"{astray['CGD'][-1]} for n = {last}; on g alone {astray['EGR'][0]} and "
                    f"{astray['EGR'][-1]}",
                    astray["CGD"][-1] < STARTS / 2,
                    known="limit",
                ),
                Claim(
                    "a perturbed λ then descends further, to a minimum",
                    "descends further",
                    f"{sum(astray['CGD, another λ'])} of {STARTS * len(DIMENSIONS)} runs do not get to one",
                    sum(astray["CGD, another λ"]) == 0,
                ),
            ],
        ),
    ]


def _slope_by_values(f: Function, lam: float) -> Any:
    g, h = Penalised(f, lam), 1e-5
    shifts = h * np.eye(2)

    def slope(x: Floats) -> Floats:
        return np.stack([(g(x + s) - g(x - s)) / (2 * h) for s in shifts], axis=-1)

    return slope


def _residual(f: Function, lam: float, x: Floats) -> float:
    slope = f.grad(x)
    return float(np.linalg.norm(f.hvp(x, slope) + slope / (2 * lam)) / np.linalg.norm(slope))


def _draw(astray: dict[str, list[int]]) -> Any:
    figure = plot.blank(7, 4)
    axes = figure.subplots()
    styles = (("gd", "-", "o"), ("cgd", ":", "v"), ("cgd", "-", "s"), ("cgd-fd", "--", "D"))
    for (way, counts), (method, dashes, marker) in zip(astray.items(), styles, strict=True):
        style: dict[str, Any] = {"ls": dashes, "marker": marker, "color": plot.COLOURS[method]}
        axes.plot(DIMENSIONS, counts, label=f"{way}, {WAYS[way]}", lw=1.8, **style)
    axes.set_xscale("log", base=2)
    axes.set_xticks(DIMENSIONS, labels=[str(n) for n in DIMENSIONS])
    axes.set(xlabel="n", ylabel=f"runs not at a minimum, of {STARTS}", ylim=(-3, STARTS + 3))
    axes.legend(frameon=False, loc="center right")
    plot.tidy(axes)
    return figure
