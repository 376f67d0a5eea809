"""Items of `reproduce`, Lemma 1, Fig. 2: stationary points of g = f + λ‖∇f‖², the guard; write no files."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .. import plot, theory
from ..functions import functions
from ..result import Result
from ._figures import legend_above
from ._items import Claim, Outcome, claim, outcome, readable
from ._runs import Floats, trace
from .egr import Penalised, Stationary, descend, kind, pit, stationary_points

LAM = 0.2
"""λ on the Levy function of one variable; the paper prints none, but this one has the points it names."""

LAMS = (0.01, 0.03, 0.1, LAM)
"""Values of λ; the larger, the more maxima of f become minima of g."""

INTERVAL = (-10.0, 5.0)
PIT_LAM, PIT_STEP = 0.3, 0.1  # on the pit, a function of two variables with a ring of artificial minima of g
OUTSIDE, INSIDE = (3.5, 1.0), (2.0, 1.5)  # starts on either side of that ring

_LEVY = functions["levy"].at(n=1)
_PIT = pit(2)
_claim = partial(claim, "lemma1")


def run() -> Outcome:
    """Check the lemma on all stationary points of a function, and start runs near artificial ones."""
    points = stationary_points(_LEVY, LAM, INTERVAL)
    own = sum(point.to_f != "artificial" for point in points)
    g = Penalised(_LEVY, LAM)
    radius = max(p.x for p in stationary_points(pit(1), PIT_LAM, (0.5, 5.0)) if p.to_g == "minimum")
    runs = {
        (side, way): descend(_PIT, start, way, lam=PIT_LAM, step=PIT_STEP, iters=1000)
        for side, start in (("outside", OUTSIDE), ("inside", INSIDE))
        for way in ("egr", "guard")
    }
    half, quarter = (
        descend(_PIT, runs["outside", "guard"].x, "guard", lam=PIT_LAM / part, step=PIT_STEP, iters=1000)
        for part in (2, 4)
    )
    names = {"egr": "GD on g", "guard": "CGD"}
    ended = [(names[way], side, result, PIT_LAM) for (side, way), result in runs.items()]
    ended += [(f"CGD, λ/{part}", "where CGD stayed", result, PIT_LAM / part)
              for part, result in ((2, half), (4, quarter))]  # fmt: skip
    return outcome(
        "lemma1",
        claims=_lemma(points) + _pit_claims(runs, half, quarter),
        tables={
            "lemma1": [(p.x, *_levy_at(p.x), p.curvature, float(g.grad([p.x])[0]), p.to_f, p.to_g)
                       for p in points],
            "lemma1-pit": [(method, side, float(np.linalg.norm(end.x)), float(_PIT(end.x)), _slope(end),
                            _kind(end.x, lam)) for method, side, end, lam in ended],
        },
        pictures={"lemma1": _draw_pit(runs, radius)},
        traces={
            **{f"lemma1-{side}-{way}": trace(result) for (side, way), result in runs.items()},
            "lemma1-half-lam": trace(half), "lemma1-quarter-lam": trace(quarter),
        },
        settings={
            "levy": {"lam": LAM, "interval": list(INTERVAL)},
            "pit": {"lam": PIT_LAM, "step": PIT_STEP, "outside": list(OUTSIDE), "inside": list(INSIDE)},
        },
        low=INTERVAL[0], high=INTERVAL[1], points=len(points), own=own, new=len(points) - own,
        radius=radius, outside=OUTSIDE, inside=INSIDE,
    )  # fmt: skip


def _levy_at(x: float) -> tuple[float, float]:
    return float(_LEVY([x])), float(_LEVY.grad([x])[0])


def _lemma(points: list[Stationary]) -> list[Claim]:
    """Compare the roots of g', found without the lemma, with its two cases."""
    x = np.linspace(*INTERVAL, 30_011)
    signs = np.sign(Penalised(_LEVY, LAM).grad(x[:, None])[:, 0])
    roots = int(np.count_nonzero(signs[:-1] * signs[1:] < 0))
    kinds = [
        theory.classify([p.x], _LEVY.grad, _LEVY.hvp, LAM, gtol=1e-8 * (1 + abs(p.curvature))) for p in points
    ]
    own, artificial = kinds.count("stationary"), kinds.count("artificial")
    maxima = [p.x for p in points if p.to_f == "maximum"]
    turned, expected = (
        [sum(test(x, lam) for x in maxima) for lam in LAMS] for test in (_is_low, _is_minimum)
    )
    counts = "; ".join(
        f"{many} of {len(maxima)} at λ = {lam:g}" for lam, many in zip(LAMS, turned, strict=True)
    )
    return [
        _claim("two-cases", roots == len(points) == own + artificial, roots=roots, own=own,
               artificial=artificial),
        _claim("maxima", turned == expected and turned[0] < turned[-1], counts=counts, expected=expected),
    ]  # fmt: skip


def _is_low(x: float, lam: float) -> bool:
    """Return whether g is higher on either side of x."""
    left, middle, right = Penalised(_LEVY, lam)([[x - 1e-3], [x], [x + 1e-3]])
    return bool(middle < min(left, right))


def _is_minimum(x: float, lam: float) -> bool:
    """Return whether, by the curvature of f, the stationary point x is a minimum of g."""
    return theory.nature(_LEVY.hess([x]), lam) == "minimum"


def _kind(x: Floats, lam: float = PIT_LAM) -> str:
    return kind(_PIT, x, lam)


def _slope(result: Result) -> float:
    return float(np.linalg.norm(_PIT.grad(result.x)))


def _end(result: Result) -> str:
    return f"{_kind(result.x)}, ‖∇f‖ = {readable(_slope(result), '.2g')}"


def _pit_claims(runs: dict[tuple[str, str], Result], half: Result, quarter: Result) -> list[Claim]:
    """Return the claims about runs near the ring of artificial minima, and with other λ from there."""
    stuck, passed = runs["outside", "guard"], runs["inside", "guard"]
    halted = [runs[side, "egr"] for side in ("outside", "inside")]
    guards = int(trace(passed).guarded.sum())
    return [
        _claim("stops", all(_kind(result.x) == "artificial" for result in halted),
               ends="; ".join(map(_end, halted))),
        _claim("beyond", _kind(passed.x) == "minimum" and guards > 0, end=_end(passed), guards=guards),
        _claim("before", _kind(stuck.x) != "artificial", end=_end(stuck), status=stuck.status.name),
        _claim("another-lam", half.fun < stuck.fun and _kind(quarter.x) == "minimum",
               stuck=stuck.fun, half=half.fun, half_kind=_kind(half.x, PIT_LAM / 2),
               quarter=quarter.fun, quarter_kind=_kind(quarter.x, PIT_LAM / 4)),
    ]  # fmt: skip


def _draw_pit(runs: dict[tuple[str, str], Result], radius: float) -> Any:
    figure = plot.blank(10, 4.2)
    titles = {"egr": "GD on g", "guard": "CGD on f, guarded"}
    for (way, title), ax in zip(titles.items(), figure.subplots(1, 2), strict=True):
        paths = {f"from {side}": runs[side, way] for side in ("outside", "inside")}
        plot.trajectories(_PIT, paths, [(-1.0, 4.0), (-1.0, 2.8)], points=100, ax=ax)
        for line in [line for line in ax.lines if line.get_label() in paths]:
            line.set(
                marker=".", markevery=slice(0, 60)
            )  # also on a long path, to show that its steps get shorter
        turn = np.linspace(0.0, 2 * np.pi, 300)
        ax.plot(radius * np.cos(turn), radius * np.sin(turn), color="black", ls="--", lw=1)
        ax.annotate(
            "artificial minima of g", (0.0, radius), (-52, -34), textcoords="offset points",
            arrowprops={"arrowstyle": "-", "lw": 0.8}, bbox={"fc": "white", "ec": "none", "pad": 2},
        )  # fmt: skip
        for label, start, shift in (("outside", OUTSIDE, (-20, 9)), ("inside", INSIDE, (-42, 3))):
            ax.annotate(label, start, shift, textcoords="offset points")
        ax.set_title(f"{title}: λ = {PIT_LAM:g}, α = {PIT_STEP:g}", fontsize="medium")
        ax.set_aspect("equal")
        ax.get_legend().remove()  # the starts are labelled
    return figure


# --- Fig. 2: a function of one variable whose maximum the penalty turns into a minimum --------------------

DRAWN = (-10.0, -5.0)  # the interval of the figure
POINT, STEP = -7.7, 0.004  # the place of the arrows, as printed, and the step of our runs from there


def ascent() -> Outcome:
    """Draw the figure and compare its claims with our numbers."""
    points = stationary_points(_LEVY, LAM, DRAWN)
    artificial = [point.x for point in points if point.to_f == "artificial"]
    top = min(points, key=lambda point: abs(point.x + 8.1))
    downhill, penalised = (-float(fun.grad([POINT])[0]) for fun in (_LEVY, Penalised(_LEVY, LAM)))
    egr, cgd = (descend(_LEVY, [POINT], way, lam=LAM, step=STEP) for way in ("egr", "guard"))
    guarded = trace(cgd).guarded
    start, end_egr, end_cgd = (float(_LEVY(x)) for x in ([POINT], egr.x, cgd.x))
    at_egr, at_cgd = (float(result.x[0]) for result in (egr, cgd))
    nearest = {printed: min(artificial, key=lambda x: abs(x - printed)) for printed in (-6.5, -7.6)}
    says = partial(claim, "fig-ascent")
    return outcome(
        "fig-ascent",
        claims=[
            *(says("new-point", round(x, 1) == printed, printed=printed, nearest=x)
              for printed, x in nearest.items()),
            says("turned", top.turned and round(top.x, 1) == -8.1, top=top, limit=-0.5 / LAM),
            says("opposite", downhill * penalised < 0, on_f=downhill, on_g=penalised),
            says("ascent", end_egr > start and abs(at_egr - top.x) < 1e-3, at=at_egr, start=start,
                 end=end_egr),
            says("guard", guarded[0] and (np.diff(trace(cgd).f) <= 0).all() and end_cgd < start,
                 guarded=", ".join(map(str, np.flatnonzero(guarded))), at=at_cgd, start=start, end=end_cgd),
        ],
        tables={"fig-ascent": [(p.x, *_levy_at(p.x), p.curvature, p.to_f, p.to_g) for p in points]},
        pictures={"fig-ascent": _draw_levy(points)},
        traces={"fig-ascent-egr": trace(egr), "fig-ascent-cgd": trace(cgd)},
        settings={"function": "levy, n = 1", "lam": LAM, "interval": DRAWN, "point": POINT, "step": STEP},
        start=start, at_egr=at_egr, end_egr=end_egr, at_cgd=at_cgd, end_cgd=end_cgd, guarded=guarded.sum(),
    )  # fmt: skip


def mark(axes: Any, points: list[Stationary], g: Penalised, size: float) -> None:
    """Mark the stationary points of g that are artificial, and those that are maxima of f and minima of g."""
    for label, marker, colour, chosen in (
        ("stationary for g only", "D", "white", [p.x for p in points if p.to_f == "artificial"]),
        ("maximum of f, minimum of g", "v", "black", [p.x for p in points if p.turned]),
    ):
        x = np.array(chosen)
        axes.plot(x, g(x[:, None]), marker, color=colour, label=label, lw=0, ms=size, mec="black", zorder=5)
    axes.lines[1].set_label(f"g = f + {g.lam:g}‖∇f‖²")


def _draw_levy(points: list[Stationary]) -> Any:
    axes = plot.blank(8, 4.6).subplots()
    plot.landscape(_LEVY, LAM, DRAWN, ax=axes)
    g = Penalised(_LEVY, LAM)
    mark(axes, points, g, size=9)
    for p in points:
        if p.to_f == "artificial" or p.turned:
            axes.annotate(
                readable(round(p.x, 2)), (p.x, float(g([p.x]))), (0, -18 if p.turned else 10), ha="center",
                zorder=4, textcoords="offset points", bbox={"fc": "white", "ec": "none", "pad": 1},
            )  # fmt: skip
    axes.axvline(POINT, color="0.4", ls="--", lw=1)
    for fun in (_LEVY, g):
        # along the tangent until it has fallen by 4
        at, fall = float(fun([POINT])), float(fun.grad([POINT])[0])
        axes.annotate(
            "", (POINT - 4 / fall, at - 4), (POINT, at), zorder=6,
            arrowprops={"arrowstyle": "-|>", "color": "black", "lw": 2, "mutation_scale": 16, "shrinkA": 0},
        )  # fmt: skip
        axes.plot(POINT, at, "o", color="black", ms=5, zorder=6)
    above = axes.get_xaxis_transform()
    axes.text(POINT + 0.04, 0.99, f"x = {readable(POINT)}", transform=above, va="top", color="0.3")
    axes.set_title(f"Levy, n = 1: λ = {LAM:g}", fontsize="medium")
    axes.set_ylim(0, 46)
    legend_above(axes.figure)
    return axes.figure
