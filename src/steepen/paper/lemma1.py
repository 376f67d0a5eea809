"""Lemma 1 and Fig. 2: what is stationary for g = f + λ‖∇f‖², and whether the guard passes it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import plot, theory
from .._core.result import Result
from ..functions import functions
from ._items import Claim, Outcome, Picture, Table, readable, resting_on
from ._runs import Floats, trace
from .egr import Penalised, Stationary, descend, kind, pit, stationary_points

LAM = 0.2
"""λ on the Levy function of one variable; the paper prints none, and this one gives the points it names."""

LAMS = (0.01, 0.03, 0.1, LAM)
"""λ at which the maxima of f are looked at: with the larger ones more of them become minima of g."""

INTERVAL = (-10.0, 5.0)
PIT_LAM, PIT_STEP = 0.3, 0.1  # on the pit, a function of two variables with a ring of artificial minima of g
OUTSIDE, INSIDE = (3.5, 1.0), (2.0, 1.5)  # starts on either side of that ring

_LEVY = functions["levy"].at(n=1)
_PIT = pit(2)


def run() -> Outcome:
    """Check the lemma on all stationary points of a function, and send runs towards artificial ones."""
    points = stationary_points(_LEVY, LAM, INTERVAL)
    own = sum(point.to_f != "artificial" for point in points)
    g = Penalised(_LEVY, LAM)
    outcome = Outcome(
        claims=_lemma(points),
        tables={
            "lemma1": Table(
                ("x", "f", "f'", "f''", "g'", "to f", "to g"),
                [(p.x, *_levy_at(p.x), p.curvature, float(g.grad([p.x])[0]), p.to_f, p.to_g) for p in points],
            )
        },
        settings={
            "levy": {"lam": LAM, "interval": list(INTERVAL)},
            "pit": {"lam": PIT_LAM, "step": PIT_STEP, "outside": list(OUTSIDE), "inside": list(INSIDE)},
        },
    )  # fmt: skip
    radius = _add_pit(outcome)
    return outcome.told(
        "lemma1", low=readable(INTERVAL[0]), high=readable(INTERVAL[1]), points=len(points), own=own,
        new=len(points) - own, radius=radius, outside=OUTSIDE, inside=INSIDE,
    )  # fmt: skip


def _levy_at(x: float) -> tuple[float, float]:
    return float(_LEVY([x])), float(_LEVY.grad([x])[0])


def _lemma(points: list[Stationary]) -> list[Claim]:
    """Check the lemma itself: roots of g', found without it, against its two cases."""
    x = np.linspace(*INTERVAL, 30_011)
    signs = np.sign(Penalised(_LEVY, LAM).grad(x[:, None])[:, 0])
    roots = int(np.count_nonzero(signs[:-1] * signs[1:] < 0))
    kinds = [
        theory.classify([p.x], _LEVY.grad, _LEVY.hvp, LAM, gtol=1e-8 * (1 + abs(p.curvature))) for p in points
    ]
    own, artificial = (
        [p for p, found in zip(points, kinds, strict=True) if found is wanted]
        for wanted in (theory.Stationarity.STATIONARY, theory.Stationarity.ARTIFICIAL)
    )
    maxima = [p.x for p in own if p.to_f == "maximum"]
    turned, said = ([sum(test(x, lam) for x in maxima) for lam in LAMS] for test in (_is_low, _is_minimum))
    counts = (f"{many} of {len(maxima)} at λ = {lam:g}" for lam, many in zip(LAMS, turned, strict=True))
    return [
        Claim("every stationary point of g is (a) one of f or (b) artificial",
              "“one of the following is true”",
              f"{roots} roots of g': {len(own)} of kind (a), {len(artificial)} of kind (b)",
              agrees=roots == len(points) == len(own) + len(artificial)),
        Claim("maxima of f may become minima of g", "“might become local minima”",
              f"{'; '.join(counts)}; {'as' if turned == said else 'not as'} the curvature says",
              agrees=turned == said and turned[-1] > 0 and turned[0] < turned[-1]),
    ]  # fmt: skip


def _is_low(x: float, lam: float) -> bool:
    """Return whether the values of g on either side of x are higher."""
    left, middle, right = Penalised(_LEVY, lam)([[x - 1e-3], [x], [x + 1e-3]])
    return bool(middle < min(left, right))


def _is_minimum(x: float, lam: float) -> bool:
    """Return whether the curvature of f says that the stationary point x is a minimum of g."""
    return theory.nature(_LEVY.hess([x]), lam) is theory.Nature.MINIMUM


def _kind(x: Floats, lam: float = PIT_LAM) -> str:
    return kind(_PIT, x, lam)


def _slope(result: Result) -> float:
    return float(np.linalg.norm(_PIT.grad(result.x)))


def _end(result: Result) -> str:
    return f"{_kind(result.x)}, ‖∇f‖ = {readable(_slope(result), '.2g')}"


def _add_pit(outcome: Outcome) -> float:
    """Send GD on g and CGD to the ring of artificial minima in the plane, and return its radius."""
    radius = max(p.x for p in stationary_points(pit(1), PIT_LAM, (0.5, 5.0)) if p.to_g == "minimum")
    runs = {
        (side, way): descend(_PIT, start, way, lam=PIT_LAM, step=PIT_STEP, iters=1000)
        for side, start in (("outside", OUTSIDE), ("inside", INSIDE))
        for way in ("egr", "guard")
    }
    stuck, passed = runs["outside", "guard"], runs["inside", "guard"]
    halted = [runs[side, "egr"] for side in ("outside", "inside")]
    half, quarter = (
        descend(_PIT, stuck.x, "guard", lam=PIT_LAM / part, step=PIT_STEP, iters=1000) for part in (2, 4)
    )
    outcome.traces = {f"lemma1-{side}-{way}": trace(result) for (side, way), result in runs.items()}
    outcome.traces |= {"lemma1-half-lam": trace(half), "lemma1-quarter-lam": trace(quarter)}
    guards = int(trace(passed).guarded.sum())
    outcome.claims += resting_on("chosen", [
        Claim("descent on g alone stops at artificial points", "“could also be local minima”",
              "from either side: " + "; ".join(map(_end, halted)),
              agrees=all(_kind(result.x) == "artificial" for result in halted)),
        Claim("the guard keeps CGD from stopping: start beyond the point", "“helps us to avoid stopping”",
              f"{_end(passed)}; {guards} guarded steps", agrees=_kind(passed.x) == "minimum" and guards > 0),
        Claim("the guard keeps CGD from stopping: start before the point", "“helps us to avoid stopping”",
              f"{_end(stuck)}; status {stuck.status.name}", agrees=_kind(stuck.x) != "artificial",
              known="limit"),
        Claim("another λ then descends further", "“results in the iterate to descend further”",
              f"f = {readable(stuck.fun)}; with λ/2 {readable(half.fun)}, {_kind(half.x, PIT_LAM / 2)}; with "
              f"λ/4 {readable(quarter.fun)}, {_kind(quarter.x, PIT_LAM / 4)}",
              agrees=half.fun < stuck.fun and _kind(quarter.x) == "minimum"),
    ])  # fmt: skip
    names = {"egr": "GD on g", "guard": "CGD"}
    ended = [(names[way], side, result, PIT_LAM) for (side, way), result in runs.items()]
    ended += [(f"CGD, λ/{part}", "where CGD stayed", result, PIT_LAM / part)
              for part, result in ((2, half), (4, quarter))]  # fmt: skip
    outcome.tables["lemma1-pit"] = Table(
        ("method", "start", "‖x‖ at the end", "f", "‖∇f‖", "what it is"),
        [(method, side, float(np.linalg.norm(end.x)), float(_PIT(end.x)), _slope(end), _kind(end.x, lam))
         for method, side, end, lam in ended],
    )  # fmt: skip
    outcome.pictures["lemma1"] = Picture(_draw_pit(runs, radius))
    return radius


def _draw_pit(runs: dict[tuple[str, str], Result], radius: float) -> Any:
    figure = plot.blank(10, 4.2)
    titles = {"egr": "GD on g", "guard": "CGD on f, guarded"}
    for (way, title), ax in zip(titles.items(), figure.subplots(1, 2), strict=True):
        paths = {f"from {side}": runs[side, way] for side in ("outside", "inside")}
        plot.trajectories(_PIT, paths, [(-1.0, 4.0), (-1.0, 2.8)], points=100, ax=ax)
        for line in [line for line in ax.lines if line.get_label() in paths]:
            line.set(marker=".", markevery=slice(0, 60))  # also on a long path: its steps get shorter
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
        ax.get_legend().remove()  # the starts are named in the picture
    return figure


# --- Fig. 2: a function of one variable whose maximum the penalty turns into a minimum --------------------

DRAWN = (-10.0, -5.0)  # what is drawn
POINT, STEP = -7.7, 0.004  # where the arrows stand, as printed, and the step of our two runs from there


def ascent() -> Outcome:
    """Draw the figure and compare its claims with our numbers."""
    points = stationary_points(_LEVY, LAM, DRAWN)
    artificial = [point.x for point in points if point.to_f == "artificial"]
    top = min(points, key=lambda point: abs(point.x + 8.1))
    downhill, penalised = (-float(fun.grad([POINT])[0]) for fun in (_LEVY, Penalised(_LEVY, LAM)))
    egr, cgd = (descend(_LEVY, [POINT], way, lam=LAM, step=STEP) for way in ("egr", "guard"))
    guarded = trace(cgd).guarded
    start, end_egr, end_cgd = (float(_LEVY(x)) for x in ([POINT], egr.x, cgd.x))
    at_egr, at_cgd = (readable(float(result.x[0])) for result in (egr, cgd))

    def named(printed: float) -> Claim:
        nearest = min(artificial, key=lambda x: abs(x - printed))
        text, at = f"new stationary point at x ≈ {readable(printed)}", readable(nearest, ".3f")
        return Claim(text, readable(printed), at, round(nearest, 1) == printed)

    return Outcome(
        claims=resting_on("recovered", [
            named(-6.5),
            named(-7.6),
            Claim("the local maximum at x ≈ −8.1 becomes a local minimum", "−8.1",
                  f"{readable(top.x)}, a {top.to_g} of g: f'' = {readable(top.curvature)}, −1/(2λ) = "
                  f"{readable(-0.5 / LAM)}", top.turned and round(top.x, 1) == -8.1),
            Claim("at x = −7.7 the direction −∇g climbs f", "“would actually cause an ascent”",
                  f"−f' = {readable(downhill)}, −g' = {readable(penalised)}", downhill * penalised < 0),
            Claim("so descent on g from −7.7 is ascent on f", "“might actually cause ascent”",
                  f"it ends at {at_egr}; f from {start:.2f} to {end_egr:.2f}",
                  end_egr > start and abs(float(egr.x[0]) - top.x) < 1e-3),
            Claim("with the guard CGD moves along −∇f there and descends", "“To fix this behaviour”",
                  f"guarded at k = {', '.join(map(str, np.flatnonzero(guarded)))}; it ends at "
                  f"{at_cgd}; f from {start:.2f} to {end_cgd:.2f}",
                  bool(guarded[0]) and bool((np.diff(trace(cgd).f) <= 0).all()) and end_cgd < start),
        ]),
        tables={
            "fig-ascent": Table(
                ("x", "f", "f'", "f''", "to f", "to g"),
                [(p.x, *_levy_at(p.x), p.curvature, p.to_f, p.to_g) for p in points],
            )
        },
        pictures={"fig-ascent": Picture(_draw_levy(points))},
        traces={"fig-ascent-egr": trace(egr), "fig-ascent-cgd": trace(cgd)},
        settings={"function": "levy, n = 1", "lam": LAM, "interval": DRAWN, "point": POINT, "step": STEP},
    ).told(
        "fig-ascent", point=readable(POINT), start=start, at_egr=at_egr, end_egr=end_egr,
        at_cgd=at_cgd, end_cgd=end_cgd, guarded=guarded.sum(),
    )  # fmt: skip


def _draw_levy(points: list[Stationary]) -> Any:
    axes = plot.blank(8, 4.6).subplots()
    plot.landscape(_LEVY, LAM, DRAWN, ax=axes)
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
    above = axes.get_xaxis_transform()
    axes.text(POINT + 0.04, 0.99, f"x = {readable(POINT)}", transform=above, va="top", color="0.3")
    axes.set_title(f"Levy, n = 1: λ = {LAM:g}", fontsize="medium")
    axes.lines[1].set_label(f"g = f + {LAM:g}‖∇f‖²")
    axes.set_ylim(0, 46)
    plot.legend_above(axes.figure)
    return axes.figure
