"""Item of `reproduce`, Fig. 5: EGR oversteps sharp minima; maxima of f, minima of g; writes no files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from .. import plot, theory
from ..result import Result
from ._items import Claim, Outcome, Table, claim, outcome, readable
from ._runs import path, trace
from .egr import SCENES, WAYS, Ends, Stationary, Way, descend, stable_step, stationary_points, two_minima
from .lemma1 import mark

LAM, STEP, START = SCENES["two-wells-1d"].lam, SCENES["two-wells-1d"].step, -0.8
"""λ, α and the start of the first panel, which the paper does not print."""

LEVY_LAM, LEVY_INTERVAL = SCENES["levy-1d"].lam, (-10.0, 0.0)
"""λ and the interval of the second panel, which the paper does not print."""

TRAPS = tuple(name for name in SCENES if not name.startswith("two-wells"))
"""The landscapes where g has minima that are not minima of f."""

SWITCHES = (2, 5, 10, 80)  # other values of b

_WELLS, _LEVY = SCENES["two-wells-1d"].f, SCENES["levy-1d"].f
_Counted = dict[str, dict[Way, Ends]]
_claim = partial(claim, "fig-egr")


def run() -> Outcome:
    """Draw both panels, and compare the paper's reading of EGR with our numbers."""
    runs: dict[Way, Result] = {way: descend(_WELLS, [START], way, lam=LAM, step=STEP) for way in WAYS[:3]}
    points = stationary_points(_LEVY, LEVY_LAM, LEVY_INTERVAL)
    ends: _Counted = {name: {way: scene.ends(way) for way in WAYS} for name, scene in SCENES.items()}
    caught = _caught(ends)
    return outcome(
        "fig-egr",
        claims=_overshoot(runs, ends) + _traps(points, ends) + _cures(ends, caught),
        tables={
            "fig-egr-minima": [
                (n, label, m.f, m.curvature, theory.penalised_curvature(m.curvature, LAM),
                 stable_step(m.curvature), stable_step(m.curvature, LAM))
                for n in (1, 2)
                for label, m in zip(("sharp", "flat"), two_minima(n), strict=True)
            ],
            "fig-egr-ends": [
                (name, way, end.total,
                 *(end.kinds.get(kind, 0) for kind in ("minimum", "saddle", "maximum", "artificial")),
                 end.mean, end.guarded, end.cost)
                for name, of in ends.items()
                for way, end in of.items()
            ],
            "fig-egr-switch-off": _switch_table(),
            "fig-egr-points": [tuple(point) for point in points],
        },
        pictures={"fig-egr": _draw(runs, points)},
        traces={f"fig-egr-{way}": trace(result) for way, result in runs.items()},
        settings={
            "left": {"function": "two wells", "lam": LAM, "step": STEP, "start": START},
            "right": {"function": "levy, n = 1", "lam": LEVY_LAM, "interval": LEVY_INTERVAL},
            **{
                name: {
                    "function": f"{s.f.name}, n = {s.f.n}", "lam": s.lam, "step": s.step,
                    "iterations": s.iters, "b": s.b, "starts": len(s.starts),
                    "from": s.starts.min(axis=0), "to": s.starts.max(axis=0),
                }
                for name, s in SCENES.items()
            },
        },
        start=START, total=caught["egr"].total(), egr=caught["egr"],
        guard=caught["guard"], astray={way: of.total() - of["minimum"] for way, of in caught.items()},
    )  # fmt: skip


def _overshoot(runs: dict[Way, Result], ends: _Counted) -> list[Claim]:
    gd, egr, cgd = (runs[way] for way in WAYS[:3])
    x_gd, x_egr, x_cgd = (path(run)[:, 0] for run in (gd, egr, cgd))
    sharp, flat = two_minima(1)
    grown = [float(theory.penalised_curvature(m.curvature, LAM)) / m.curvature for m in (sharp, flat)]
    sharp_f, sharp_g = stable_step(sharp.curvature), stable_step(sharp.curvature, LAM)
    flat_g = stable_step(flat.curvature, LAM)
    same = min(len(x_egr), len(x_cgd))  # one stops when ‖∇g‖ is small, the other when ‖∇f‖ is
    apart = float(np.abs(x_egr[:same] - x_cgd[:same]).max())
    guarded = int(trace(cgd).guarded.sum())
    means = [
        (ends[name]["gd"].mean, abs(ends[name]["egr"].mean)) for name in ("two-wells-1d", "two-wells-2d")
    ]
    wide_gd, wide_cgd = np.ptp(x_gd), np.ptp(x_cgd)
    at_sharp, at_flat = (abs(run.x[0] - m.x[0]) < 1e-3 for run, m in ((gd, sharp), (egr, flat)))
    return [
        _claim("steepens", grown[0] > 2 * grown[1], sharp=sharp.curvature, flat=flat.curvature, grown=grown),
        _claim("overshoots", sharp_g < STEP < min(sharp_f, flat_g), step=STEP, sharp_f=sharp_f,
               sharp_g=sharp_g, flat_g=flat_g),
        _claim("gd", at_sharp, x=gd.x[0], f=_WELLS(gd.x)),
        _claim("egr", at_flat and flat.f < sharp.f, x=egr.x[0], f=abs(_WELLS(egr.x))),
        _claim("same-steps", apart < 1e-9 and guarded == 0, apart=apart, guarded=guarded),
        _claim("region", wide_cgd > wide_gd, cgd=wide_cgd, gd=wide_gd),
        _claim("many-starts", all(on_g < 1e-3 < on_f for on_f, on_g in means), means=means),
    ]  # fmt: skip


def _traps(points: list[Stationary], ends: _Counted) -> list[Claim]:
    maxima = [point for point in points if point.to_f == "maximum"]
    turned = [point for point in maxima if point.turned]
    # the neighbours of the turned maxima
    beside = [points[i + d].to_f for i, point in enumerate(points) if point.turned for d in (-1, 1)]
    levy, pits = ends["levy-1d"]["egr"], [ends[name]["egr"] for name in ("pit-1d", "pit-2d")]
    flat = ends["rastrigin-2d"]["egr"]
    tops = [end.kinds.get("maximum", 0) for end in (levy, flat)]
    artificial = beside.count("artificial")
    return [
        _claim("turned", 0 < len(turned) < len(maxima), turned=len(turned), maxima=len(maxima),
               places=", ".join(readable(round(p.x, 2)) for p in turned)),
        _claim("between", artificial == 2 * len(turned), artificial=artificial, neighbours=len(beside)),
        _claim("maxima", min(tops) > 0, tops=tops, levy=levy, rastrigin=flat,
               saddles=flat.kinds.get("saddle", 0)),
        _claim("fictitious", all(end.kinds.keys() == {"artificial"} for end in pits), pits=pits),
    ]  # fmt: skip


def _caught(ends: _Counted) -> dict[Way, Counter[str]]:
    """Count the runs of each way on the landscapes with traps by the kind of their last point."""
    return {way: sum((Counter(ends[name][way].kinds) for name in TRAPS), Counter[str]()) for way in WAYS}


def _cures(ends: _Counted, found: dict[Way, Counter[str]]) -> list[Claim]:
    total = found["guard"].total()
    astray = total - found["switch-off"]["minimum"]
    chosen = [SCENES[name].b for name in TRAPS]
    cost = {way: float(np.mean([ends[name][way].cost for name in TRAPS])) for way in WAYS}
    levy = {way: end.mean for way, end in ends["levy-1d"].items()}

    def guarded(kind: str, holds: Callable[[int, int], bool]) -> Claim:
        guard, egr = (found[way][kind] for way in ("guard", "egr"))
        return _claim(f"guard-{kind}", holds(guard, egr), guard=guard, egr=egr, total=total, traps=len(TRAPS))

    return [
        guarded("maximum", lambda guard, egr: guard == 0 < egr),
        guarded("saddle", lambda guard, egr: guard == 0),
        guarded("artificial", lambda guard, egr: guard < egr),
        _claim("switch-off", astray == 0, astray=astray, total=total, low=min(chosen), high=max(chosen)),
        _claim("switch-off-cost", cost["gd"] < cost["switch-off"] < 0.8 * cost["guard"], cost=cost),
        _claim("lower", max(levy["guard"], levy["switch-off"]) < levy["gd"] < levy["egr"], levy=levy),
    ]


def _switch_table() -> Table:
    scenes = {name: SCENES[name] for name in TRAPS}
    return Table(
        ("landscape", "starts", "b chosen", *(f"b = {b}" for b in SWITCHES)),
        [(name, len(s.starts), s.b, *(replace(s, b=b).ends("switch-off").astray for b in SWITCHES))
         for name, s in scenes.items()],
    )  # fmt: skip


def _draw(runs: dict[Way, Result], points: list[Stationary]) -> Any:
    figure = plot.blank(10, 4.2)
    left, right = figure.subplots(1, 2)
    plot.landscape(_WELLS, LAM, (-0.9, 3.0), ax=left)
    steeper = SCENES["two-wells-1d"].g
    walks: tuple[tuple[Way, Any, str, str], ...] = (
        ("gd", _WELLS, "gd", "GD, on f"), ("guard", steeper, "cgd", "CGD, on g")
    )  # fmt: skip
    for way, fun, method, label in walks:
        x, colour = path(runs[way])[:, 0], plot.COLOURS[method]
        y = fun(x[:, None])
        left.plot(x, y, "o-", color=colour, mec="black", mew=0.6, ms=5.5, lw=1, label=label, zorder=3)
        left.plot(x[-1], y[-1], "X", color=colour, mec="black", ms=10, zorder=4)
    for text, x, fun, offset in (
        ("start", START, steeper, (30, 6)),
        ("GD", float(runs["gd"].x[0]), _WELLS, (-46, -22)),
        ("CGD", float(runs["guard"].x[0]), _WELLS, (0, 30)),
    ):
        left.annotate(
            text, (x, float(fun([x]))), offset, textcoords="offset points", ha="center", va="center",
            arrowprops={"arrowstyle": "-", "color": "0.5", "shrinkB": 6}, zorder=6,
        )  # fmt: skip
    left.set_ylim(-0.35, None)
    left.set_title(f"A sharp minimum, stepped over: λ = {LAM:g}, α = {STEP:g}", fontsize="medium")
    plot.landscape(_LEVY, LEVY_LAM, LEVY_INTERVAL, ax=right)
    mark(right, points, SCENES["levy-1d"].g, size=4.5)
    right.set_title(f"Maxima turned into minima: λ = {LEVY_LAM:g}", fontsize="medium")
    left.lines[1].set_label(f"g = f + {LAM:g}‖∇f‖²")
    for axes in (left, right):
        axes.legend(frameon=False, loc="upper right")
    return figure
