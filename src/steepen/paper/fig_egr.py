"""Fig. 5: EGR reinterpreted. Overshooting a sharp minimum; maxima of f that are minima of g."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from .. import plot, theory
from .._core.result import Result, Trace
from ..functions import functions
from ._claims import Claim, Outcome, Table, readable, resting_on
from .egr import (
    SCENES,
    WAYS,
    Ends,
    Floats,
    Minimum,
    Penalised,
    Stationary,
    Way,
    descend,
    minimum_near,
    stable_step,
    stationary_points,
    two_wells,
)

__all__ = ["LAM", "LEVY_LAM", "NAME", "SECTION", "START", "STEP", "TITLE", "run"]

NAME = "fig-egr"
TITLE = "Fig. 5: over sharp minima, and into traps"
SECTION = "Section 5"
SAYS = (
    "EGR works because the penalty makes a sharp minimum so steep that a fixed "
    "step jumps out of it; it fails where maxima of f become minima of g. Two cures: the guard, or the "
    "penalty in the first steps only."
)
MATTERS = (
    "It is the paper's link to training, where people look for flat minima, and the place where its cures "
    "can be counted."
)

LAM, STEP, START = SCENES["two-wells-1d"].lam, SCENES["two-wells-1d"].step, -0.8
"""λ, α and the start of the first panel; the paper prints none, these are ours."""

LEVY_LAM, LEVY_INTERVAL = 0.075, (-10.0, 0.0)
"""λ and the interval of the second panel; the paper prints none, these are ours."""

TRAPS = tuple(name for name in SCENES if not name.startswith("two-wells"))
"""The landscapes where g has minima that f has not."""

SWITCHES = (2, 5, 10, 80)
"""Values of b, to see how much it matters."""

_ASTRAY = ("maximum", "saddle", "artificial")
_WELLS = two_wells()
_LEVY = functions["levy"].at(n=1)


def run() -> Outcome:
    """Draw both panels, and compare the paper's reading of EGR with our numbers.

    Examples
    --------
    >>> [round(point.x, 2) for point in stationary_points(_LEVY, LEVY_LAM, LEVY_INTERVAL) if point.turned]
    [-8.12, -6.06, -4.25]
    """
    runs: dict[Way, Result] = {way: descend(_WELLS, [START], way, lam=LAM, step=STEP) for way in WAYS[:3]}
    sharp, flat = minimum_near(_WELLS, [0.1]), minimum_near(_WELLS, [2.1])
    points = stationary_points(_LEVY, LEVY_LAM, LEVY_INTERVAL)
    ends: dict[str, dict[Way, Ends]] = {
        name: {way: scene.ends(way) for way in WAYS} for name, scene in SCENES.items()
    }
    return Outcome(
        claims=resting_on(
            "chosen", _overshoot(runs, sharp, flat, ends) + _traps(points, ends) + _cures(ends)
        ),
        tables={
            f"{NAME}-minima": _minima_table(),
            f"{NAME}-ends": _ends_table(ends),
            f"{NAME}-switch-off": _switch_table(),
            f"{NAME}-points": Table(
                ("x", "f''", "to f", "to g"),
                [tuple(point) for point in points],
                "The stationary points of g in the second panel; those of f are among them.",
            ),
        },
        figures={NAME: _draw(runs, points)},
        captions={
            NAME: "First panel: a sharp minimum in the side of a flat one, f = ½(x − 2)² − 1.2 exp(−8x²), "
            f"and g = f + λf'², λ = {LAM:g}. With α = {STEP:g} from {readable(START)}, GD stays in the "
            "sharp one; CGD, which is GD on g here since its guard never fires, steps over it. Second: the "
            f"Levy function of one variable with λ = {LEVY_LAM:g}; triangles are maxima of f that are "
            "minima of g, diamonds stationary points of g that are none of f."
        },
        traces={f"{NAME}-{way}": cast(Trace, result.trace) for way, result in runs.items()},
        found=[
            _caught(ends),
            "The guard asks whether ∇fᵀp < 0, and on one side of an artificial point that "
            "holds up to the point itself: with a short step CGD creeps up to it from there, and the guard "
            "never fires. In two dimensions one coordinate can keep ∇fᵀp < 0 while the other climbs, so that "
            "a run settles at a saddle (the Rastrigin rows with the long step).",
            "The early switch-off cures both only if it comes in time: b was chosen for each landscape, "
            "and the table over b shows what other values do. On Levy b = 10 is already too late.",
        ],
        notes=[
            "The paper names neither the functions nor the settings of this figure; ours are made to show "
            "what it describes. steepen.paper.egr has the landscapes and the runs as functions.",
        ],
        settings={
            "left": {"function": "two wells", "lam": LAM, "step": STEP, "start": START},
            "right": {"function": "levy, n = 1", "lam": LEVY_LAM, "interval": LEVY_INTERVAL},
            **{
                name: {
                    "function": f"{s.f.name}, n = {s.f.n}",
                    "lam": s.lam,
                    "step": s.step,
                    "iterations": s.iters,
                    "b": s.b,
                    "starts": len(s.starts),
                    "from": s.starts.min(axis=0),
                    "to": s.starts.max(axis=0),
                }
                for name, s in SCENES.items()
            },
        },
    )


def _overshoot(
    runs: dict[Way, Result], sharp: Minimum, flat: Minimum, ends: dict[str, dict[Way, Ends]]
) -> list[Claim]:
    gd, egr, cgd = (runs[way] for way in WAYS[:3])
    x_gd, x_egr, x_cgd = (_path(run) for run in (gd, egr, cgd))
    grown = [float(theory.penalised_curvature(m.curvature, LAM)) / m.curvature for m in (sharp, flat)]
    sharp_f, sharp_g = stable_step(sharp.curvature), stable_step(sharp.curvature, LAM)
    flat_g = stable_step(flat.curvature, LAM)
    same = min(len(x_egr), len(x_cgd))  # they stop by the slopes of g and of f
    apart = float(np.abs(x_egr[:same] - x_cgd[:same]).max())
    guarded = int(cast(Trace, cgd.trace).guarded.sum())
    means = [(of["gd"].mean, of["egr"].mean) for of in (ends["two-wells-1d"], ends["two-wells-2d"])]
    return [
        Claim(
            "the penalty steepens a sharp minimum much more than a flat one",
            "much more",
            f"curvature {sharp.curvature:.1f} times {grown[0]:.2f}, and {flat.curvature:.1f} times "
            f"{grown[1]:.2f}",
            grown[0] > 2 * grown[1],
        ),
        Claim(
            "so a constant step overshoots the sharp one and still converges at the flat one",
            "overshoots; converges",
            f"α = {STEP:g}; stable up to {sharp_f:.3f} on f but {sharp_g:.3f} on g at the sharp one, and up "
            f"to {flat_g:.2f} on g at the flat one",
            sharp_g < STEP < min(sharp_f, flat_g),
        ),
        Claim(
            "GD ends in the worse minimum",
            "stuck",
            f"at x = {gd.x[0]:.3f}, f = {float(_WELLS(gd.x)):.3f}",
            abs(float(gd.x[0] - sharp.x[0])) < 1e-3,
        ),
        Claim(
            "GD on g passes it and ends in the better one",
            "better",
            f"at x = {egr.x[0]:.3f}, f = {abs(float(_WELLS(egr.x))):.3f}",
            abs(float(egr.x[0] - flat.x[0])) < 1e-3 and flat.f < sharp.f,
        ),
        Claim(
            "CGD takes the same steps here: its guard does not fire",
            "GD over g",
            f"at most {readable(apart, '.0e')} apart; {guarded} guarded steps",
            apart < 1e-9 and guarded == 0,
        ),
        Claim(
            "CGD explores a broader region than GD",
            "broader",
            f"{np.ptp(x_cgd):.2f} against {np.ptp(x_gd):.2f} wide",
            bool(np.ptp(x_cgd) > np.ptp(x_gd)),
            "alt text",
        ),
        Claim(
            "the same from many starts (mean of f at the end, GD and EGR)",
            "likely",
            "; ".join(f"{a:.2f} and {abs(b):.2f} in {n}-D" for n, (a, b) in enumerate(means, start=1)),
            all(egr_mean < 1e-3 < gd_mean for gd_mean, egr_mean in means),
        ),
    ]


def _traps(points: list[Stationary], ends: dict[str, dict[Way, Ends]]) -> list[Claim]:
    maxima = [point for point in points if point.to_f == "maximum"]
    turned = [point for point in maxima if point.turned]
    # what lies next to a turned maximum, on either side
    beside = [points[i + d].to_f for i, point in enumerate(points) if point.turned for d in (-1, 1)]
    levy, pit = ends["levy-1d"]["egr"], [ends[name]["egr"] for name in ("pit-1d", "pit-2d")]
    flat = ends["rastrigin-2d"]["egr"]
    return [
        Claim(
            "some local maxima of f turn into local minima of g",
            "some",
            f"{len(turned)} of {len(maxima)}: x = {', '.join(readable(round(p.x, 2)) for p in turned)}",
            0 < len(turned) < len(maxima),
        ),
        Claim(
            "artificial stationary points appear between the minima and the maxima of f",
            "between them",
            f"{beside.count('artificial')} of their {len(beside)} neighbours are artificial",
            beside.count("artificial") == 2 * len(turned),
        ),
        Claim(
            "descent on g may converge at a local maximum of f",
            "likely",
            f"{levy.kinds.get('maximum', 0)} of {levy.total} starts on Levy in 1-D; on Rastrigin in 2-D "
            f"{flat.kinds.get('maximum', 0)} of {flat.total}, and {flat.kinds.get('saddle', 0)} at saddles",
            levy.kinds.get("maximum", 0) > 0 and flat.kinds.get("maximum", 0) > 0,
        ),
        Claim(
            "descent on g may stop where ∇g = 0 but ∇f is not",
            "fictitious minima",
            f"at the pit's edge: {pit[0].astray} of {pit[0].total} starts in 1-D, {pit[1].astray} of "
            f"{pit[1].total} in 2-D",
            all(end.kinds.keys() == {"artificial"} for end in pit),
        ),
    ]


def _count(ends: dict[str, dict[Way, Ends]], way: Way, kind: str) -> int:
    """Count the runs on the landscapes with traps that end at points of a kind."""
    return sum(ends[name][way].kinds.get(kind, 0) for name in TRAPS)


def _caught(ends: dict[str, dict[Way, Ends]]) -> str:
    counts = [[_count(ends, way, kind) for kind in _ASTRAY] for way in ("egr", "guard")]
    total = sum(ends[name]["guard"].total for name in TRAPS)
    at = "{} at maxima of f, {} at saddles, {} at artificial points"
    return (
        "A descent on g = f + λ‖∇f‖² can end where f has no minimum, even at an «artificial point», where "
        "g is level and f is not. CGD's «guard» steps along −∇f wherever −∇g would lead uphill on f. Of "
        f"{total} descents among such traps {sum(counts[0])} end astray without the guard "
        f"({at.format(*counts[0])}), and {sum(counts[1])} with it ({at.format(*counts[1])})."
    )


def _cures(ends: dict[str, dict[Way, Ends]]) -> list[Claim]:
    def count(way: Way, kind: str) -> int:
        return _count(ends, way, kind)

    total = sum(ends[name]["guard"].total for name in TRAPS)
    astray = sum(ends[name]["switch-off"].astray for name in TRAPS)
    chosen = [SCENES[name].b for name in TRAPS]
    cost = {way: float(np.mean([ends[name][way].cost for name in TRAPS])) for way in WAYS}
    levy = ends["levy-1d"]
    return [
        Claim(
            f"first cure, the guard: no run ends at a maximum of f ({len(TRAPS)} landscapes with traps)",
            "a fix",
            f"{count('guard', 'maximum')} of {total} do, against {count('egr', 'maximum')} without",
            count("guard", "maximum") == 0 < count("egr", "maximum"),
        ),
        Claim(
            "first cure, the guard: no run ends at a saddle (the same landscapes)",
            "a fix",
            f"{count('guard', 'saddle')} of {total} do, against {count('egr', 'saddle')} without",
            count("guard", "saddle") == 0,
            known="limit",
        ),
        Claim(
            "first cure, the guard: fewer runs end at artificial points (the same landscapes)",
            "a fix",
            f"{count('guard', 'artificial')} of {total} do, against {count('egr', 'artificial')} without",
            count("guard", "artificial") < count("egr", "artificial"),
        ),
        Claim(
            "second cure: EGR for the first b steps only, b chosen for each landscape (the same ones)",
            "a fix",
            f"{astray} of {total} runs astray, with b from {min(chosen)} to {max(chosen)}",
            astray == 0,
        ),
        Claim(
            "the second cure leaves more of the budget, though its b steps cost two gradients each",
            "not exhausting the budget",
            f"{cost['switch-off']:.0f} gradients a run, against {cost['guard']:.0f} with the guard and "
            f"{cost['gd']:.0f} for GD, mean over these landscapes",
            cost["gd"] < cost["switch-off"] < 0.8 * cost["guard"],
        ),
        Claim(
            "with a cure, the overshooting leads to lower minima than GD (Levy in 1-D, mean of f)",
            "better",
            f"guard {levy['guard'].mean:.2f}, switch-off {levy['switch-off'].mean:.2f}; GD "
            f"{levy['gd'].mean:.2f}, EGR alone {levy['egr'].mean:.2f}",
            max(levy["guard"].mean, levy["switch-off"].mean) < levy["gd"].mean < levy["egr"].mean,
        ),
    ]


def _switch_table() -> Table:
    rows = [
        (name, len(s.starts), s.b, *(replace(s, b=b).ends("switch-off").astray for b in SWITCHES))
        for name, s in ((name, SCENES[name]) for name in TRAPS)
    ]
    columns = ("landscape", "starts", "b chosen", *(f"b = {b}" for b in SWITCHES))
    return Table(columns, rows, "EGR switched off after b steps: how many runs do not end at a minimum of f.")


def _path(run: Result) -> Floats:
    return cast(Floats, cast(Trace, run.trace).x)[:, 0]


def _minima_table() -> Table:
    rows: list[tuple[Any, ...]] = []
    for n in (1, 2):
        f = two_wells(n)
        rest = [0.0] * (n - 1)
        for label, near in (("sharp", 0.1), ("flat", 2.1)):
            m = minimum_near(f, [near, *rest])
            limits = (stable_step(m.curvature), stable_step(m.curvature, LAM))
            rows.append((n, label, m.f, m.curvature, theory.penalised_curvature(m.curvature, LAM), *limits))
    columns = ("n", "minimum", "f", "curvature h", "h(1+2λh)", "largest step on f", "largest step on g")
    return Table(columns, rows, f"The two minima of the first panel's function, λ = {LAM:g}.")


def _ends_table(ends: dict[str, dict[Way, Ends]]) -> Table:
    kinds = ("minimum", "saddle", "maximum", "artificial")
    rows = [
        (name, way, end.total, *(end.kinds.get(kind, 0) for kind in kinds), end.mean, end.guarded, end.cost)
        for name, of in ends.items()
        for way, end in of.items()
    ]
    columns = (
        "landscape",
        "way",
        "starts",
        "minima",
        "saddles",
        "maxima",
        "artificial",
        "mean of f",
        "guarded steps",
        "gradients a run",
    )
    return Table(
        columns, rows, "Where the runs end: GD on f, GD on g, CGD with its guard, EGR switched off early."
    )


def _draw(runs: dict[Way, Result], points: list[Stationary]) -> Any:
    figure = plot.blank(10, 4.2)
    left, right = figure.subplots(1, 2)
    plot.landscape(_WELLS, LAM, (-0.9, 3.0), ax=left)
    steeper = Penalised(_WELLS, LAM)
    _walk(left, _path(runs["gd"]), _WELLS, "gd", "GD, on f")
    _walk(left, _path(runs["guard"]), steeper, "cgd", "CGD, on g")
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
    for label, marker, colour, chosen in (
        ("stationary for g only", "D", "white", [p.x for p in points if p.to_f == "artificial"]),
        ("maximum of f, minimum of g", "v", "black", [p.x for p in points if p.turned]),
    ):
        x = np.array(chosen)
        y = Penalised(_LEVY, LEVY_LAM)(x[:, None])
        right.plot(x, y, marker, color=colour, label=label, lw=0, ms=4.5, mec="black", zorder=5)
    right.set_title(f"Maxima turned into minima: λ = {LEVY_LAM:g}", fontsize="medium")
    for axes, lam in ((left, LAM), (right, LEVY_LAM)):
        axes.lines[1].set_label(f"g = f + {lam:g}‖∇f‖²")
        axes.legend(frameon=False, loc="upper right")
    return figure


def _walk(axes: Any, x: Floats, fun: Any, method: str, label: str) -> None:
    y, colour = fun(x[:, None]), plot.COLOURS[method]
    axes.plot(x, y, "o-", color=colour, mec="black", mew=0.6, ms=5.5, lw=1, label=label, zorder=3)
    axes.plot(x[-1], y[-1], "X", color=colour, mec="black", ms=10, zorder=4)
