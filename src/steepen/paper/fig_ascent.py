"""Fig. 2: a function of one variable whose maximum the penalty turns into a minimum."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from .. import plot
from .._core.result import Trace
from ..functions import functions
from ._claims import Claim, Outcome, Table, readable, resting_on
from .egr import Penalised, Stationary, descend, stationary_points

__all__ = ["INTERVAL", "LAM", "NAME", "POINT", "SECTION", "STEP", "TITLE", "run"]

NAME = "fig-ascent"
TITLE = "Fig. 2: new stationary points, and a maximum turned minimum"
SECTION = "Section 3"
SAYS = (
    "On a function of one variable the penalty makes new level points at x ≈ −6.5 and −7.6 and turns the "
    "maximum at −8.1 into a minimum, so that at −7.7 the way down on g is the way up on f."
)
MATTERS = (
    "Descent on a steeper landscape is not always descent on f. It is why CGD has a guard, and why «EGR» "
    "(explicit gradient regularisation), which trains networks with the same penalty and no guard, can climb."
)

LAM = 0.2
"""λ; the paper prints none, and this one gives the points that it names."""

INTERVAL = (-10.0, -5.0)
"""What is drawn."""

POINT = -7.7
"""Where the arrows stand, as printed."""

STEP = 0.004
"""The step of our two runs from there."""

_LEVY = functions["levy"].at(n=1)


def run() -> Outcome:
    """Draw the figure and compare its claims with our numbers.

    Examples
    --------
    >>> all(claim.holds for claim in run().claims)
    True
    """
    points = stationary_points(_LEVY, LAM, INTERVAL)
    artificial = [point.x for point in points if point.to_f == "artificial"]
    top = min(points, key=lambda point: abs(point.x + 8.1))
    downhill, penalised = -float(_LEVY.grad([POINT])[0]), -float(Penalised(_LEVY, LAM).grad([POINT])[0])
    egr, cgd = (descend(_LEVY, [POINT], way, lam=LAM, step=STEP) for way in ("egr", "guard"))
    uphill, guarded = (cast(Trace, result.trace) for result in (egr, cgd))
    start, end_egr, end_cgd = (float(_LEVY(x)) for x in ([POINT], egr.x, cgd.x))
    claims = [
        _named("new stationary point at x ≈ −6.5", -6.5, artificial),
        _named("new stationary point at x ≈ −7.6", -7.6, artificial),
        Claim(
            "the local maximum at x ≈ −8.1 becomes a local minimum",
            "−8.1",
            f"{readable(top.x)}, a {top.to_g} of g: f'' = {readable(top.curvature)}, −1/(2λ) = "
            f"{readable(-0.5 / LAM)}",
            top.turned and round(top.x, 1) == -8.1,
        ),
        Claim(
            "at x = −7.7 the direction −∇g climbs f",
            "climbs",
            f"−f' = {readable(downhill)}, −g' = {readable(penalised)}",
            downhill * penalised < 0,
        ),
        Claim(
            "so descent on g from −7.7 is ascent on f",
            "ascent",
            f"it ends at {readable(float(egr.x[0]))}; f from {start:.2f} to {end_egr:.2f}",
            end_egr > start and abs(float(egr.x[0]) - top.x) < 1e-3,
        ),
        Claim(
            "with the guard CGD moves along −∇f there and descends",
            "descends",
            f"guarded at k = {', '.join(map(str, np.flatnonzero(guarded.guarded)))}; it ends at "
            f"{readable(float(cgd.x[0]))}; f from {start:.2f} to {end_cgd:.2f}",
            bool(guarded.guarded[0]) and bool((np.diff(guarded.f) <= 0).all()) and end_cgd < start,
        ),
    ]
    rows = [
        (p.x, float(_LEVY([p.x])), float(_LEVY.grad([p.x])[0]), p.curvature, p.to_f, p.to_g) for p in points
    ]
    return Outcome(
        claims=resting_on("recovered", claims),
        tables={
            NAME: Table(
                ("x", "f", "f'", "f''", "to f", "to g"),
                rows,
                "All stationary points of g on the interval drawn; those of f are among them.",
            )
        },
        figures={NAME: _draw(points)},
        captions={
            NAME: f"The Levy function of one variable and g = f + λf'², λ = {LAM:g}. Diamonds: stationary "
            "points of g that are none of f. Triangles: maxima of f that are minima of g. Arrows: the ways "
            f"down on f and on g at x = {readable(POINT)}, which are opposite."
        },
        traces={f"{NAME}-egr": uphill, f"{NAME}-cgd": guarded},
        found=[
            f"At {readable(POINT)} the two ways down are opposite. Descent on g ends on the hill at "
            f"{readable(float(egr.x[0]))}, with f up from {start:.2f} to {end_egr:.2f}. With the guard, "
            f"which fires in the first {int(guarded.guarded.sum())} steps, CGD ends in the valley at "
            f"{readable(float(cgd.x[0]))}, with f down to {end_cgd:.2f}."
        ],
        notes=[
            "The paper names neither the function nor λ. The Levy function of one variable with λ = 0.2 has "
            "all three points that it names. On the interval drawn here there are more of either kind; all "
            "the new stationary points are maxima of g."
        ],
        settings={"function": "levy, n = 1", "lam": LAM, "interval": INTERVAL, "point": POINT, "step": STEP},
    )


def _named(text: str, printed: float, found: list[float]) -> Claim:
    nearest = min(found, key=lambda x: abs(x - printed))
    return Claim(text, readable(printed), readable(nearest, ".3f"), round(nearest, 1) == printed)


def _draw(points: list[Stationary]) -> Any:
    figure = plot.blank(8, 4.6)
    axes = figure.subplots()
    plot.landscape(_LEVY, LAM, INTERVAL, ax=axes)
    g = Penalised(_LEVY, LAM)
    x = np.array([p.x for p in points])
    new = np.array([p.to_f == "artificial" for p in points])
    turned = np.array([p.turned for p in points])
    y = g(x[:, None])
    marks: dict[str, Any] = {"lw": 0, "ms": 9, "mec": "black", "zorder": 5}
    axes.plot(x[new], y[new], marker="D", color="white", label="stationary for g only", **marks)
    axes.plot(x[turned], y[turned], marker="v", color="black", label="maximum of f, minimum of g", **marks)
    for p, height in zip(points, y, strict=True):
        if p.to_f == "artificial" or p.turned:
            axes.annotate(
                readable(round(p.x, 2)), (p.x, height), (0, -18 if p.turned else 10), ha="center", zorder=4,
                textcoords="offset points", bbox={"fc": "white", "ec": "none", "pad": 1},
            )  # fmt: skip
    axes.axvline(POINT, color="0.4", ls="--", lw=1)
    for fun in (_LEVY, g):
        # along the curve, as far as it takes to fall by 4
        at, fall = float(fun([POINT])), float(fun.grad([POINT])[0])
        axes.annotate(
            "", (POINT - 4 / fall, at - 4), (POINT, at), zorder=6,
            arrowprops={"arrowstyle": "-|>", "color": "black", "lw": 2, "mutation_scale": 16, "shrinkA": 0},
        )  # fmt: skip
        axes.plot(POINT, at, "o", color="black", ms=5, zorder=6)
    axes.text(
        POINT + 0.04,
        0.99,
        f"x = {readable(POINT)}",
        transform=axes.get_xaxis_transform(),
        va="top",
        color="0.3",
    )
    axes.set_title(f"Levy, n = 1: λ = {LAM:g}", fontsize="medium")
    axes.lines[1].set_label(f"g = f + {LAM:g}‖∇f‖²")
    axes.set_ylim(0, 46)
    plot.legend_above(figure)
    return figure
