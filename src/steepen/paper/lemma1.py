"""Lemma 1, checked: what is stationary for g = f + λ‖∇f‖², and whether the guard passes it."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .. import plot, theory
from .._core.result import Result, Trace
from ..functions import functions
from ._claims import Claim, Outcome, Table, readable, resting_on
from .egr import Penalised, Stationary, descend, kind, pit, stationary_points

__all__ = ["INTERVAL", "LAM", "NAME", "SECTION", "TITLE", "run"]

NAME = "lemma1"
TITLE = "Lemma 1: artificial stationary points"
SECTION = "Section 3"
SAYS = (
    "Every point where f is level is also one where g = f + λ‖∇f‖² is level. But g can be level at other "
    "points too, where ∇f is an eigenvector of f's Hessian with eigenvalue −1/(2λ): the artificial points."
)
MATTERS = (
    "A descent on g may stop at an artificial point, halfway down f. The paper's guard is meant to prevent "
    "it: where the step along −∇g would not lead downhill on f, CGD takes the step along −∇f instead."
)

Floats = NDArray[np.float64]

LAM = 0.2
"""λ on the Levy function of one variable; with it the points named in the paper come out."""

LAMS = (0.01, 0.03, 0.1, LAM)
"""λ at which the maxima of f are looked at: with the larger ones more of them become minima of g."""

INTERVAL = (-10.0, 5.0)

PIT_LAM, PIT_STEP = 0.3, 0.1
"""λ and α on the pit, a function of two variables with a ring of artificial minima of g."""

OUTSIDE, INSIDE = (3.5, 1.0), (2.0, 1.5)
"""Starts on either side of that ring."""

_LEVY = functions["levy"].at(n=1)
_PIT = pit(2)


def run() -> Outcome:
    """Check the lemma on all stationary points of a function, and send runs towards artificial ones.

    Examples
    --------
    >>> all(claim.holds for claim in run().claims)
    True
    """
    outcome = Outcome()
    points = stationary_points(_LEVY, LAM, INTERVAL)
    outcome.claims += _lemma(points)
    own = sum(point.to_f != "artificial" for point in points)
    outcome.found = [
        f"On Levy's function of one variable, between {readable(INTERVAL[0])} and {readable(INTERVAL[1])}, g "
        f"has {len(points)} level points for λ = {LAM:g}: {own} are f's own, and {len(points) - own} are "
        "artificial."
    ]
    outcome.tables[NAME] = Table(
        ("x", "f", "f'", "f''", "g'", "to f", "to g"),
        [
            (p.x, float(_LEVY([p.x])), _slope(p.x), p.curvature, _penalised_slope(p.x), p.to_f, p.to_g)
            for p in points
        ],
        f"Every stationary point of g on [{readable(INTERVAL[0])}, {readable(INTERVAL[1])}], Levy function "
        f"of one variable, λ = {LAM:g}.",
    )
    _pit_outcome(outcome)
    outcome.settings = {
        "levy": {"lam": LAM, "interval": list(INTERVAL)},
        "pit": {"lam": PIT_LAM, "step": PIT_STEP, "outside": list(OUTSIDE), "inside": list(INSIDE)},
    }
    outcome.found.append(
        "The guard looks at the sign of ∇fᵀ∇g only. It sends on a run that starts beyond an artificial point "
        "or steps over it, but a run that comes from the side where ∇fᵀ∇g > 0 takes ever shorter steps and "
        "stays: minimize then ends with the status ARTIFICIAL. The cure is the paper's other one, another λ."
    )
    outcome.notes = [
        "Another λ has artificial points of its own: on the pit half of λ goes on to its own ring and no "
        "further. A λ below −1/(2t), t the least curvature, has none; a quarter will do.",
        "The new points that the paper names are maxima of g, where no descent ends. On Levy those at −1.993 "
        "and 3.993 are minima.",
    ]
    return outcome


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
    return [
        Claim(
            "every stationary point of g is (a) one of f or (b) artificial",
            "(a) or (b)",
            f"{roots} roots of g': {len(own)} of kind (a), {len(artificial)} of kind (b)",
            agrees=roots == len(points) == len(own) + len(artificial),
        ),
        Claim(
            "maxima of f may become minima of g",
            "depending on λ",
            "; ".join(
                f"{many} of {len(maxima)} at λ = {lam:g}" for lam, many in zip(LAMS, turned, strict=True)
            )
            + f"; {'as' if turned == said else 'not as'} the curvature says",
            agrees=turned == said and turned[-1] > 0 and turned[0] < turned[-1],
        ),
    ]


def _pit_outcome(outcome: Outcome) -> None:
    """Send GD on g and CGD to the ring of artificial minima in the plane, from both sides."""
    radius = max(p.x for p in stationary_points(pit(1), PIT_LAM, (0.5, 5.0)) if p.to_g == "minimum")

    runs = {
        (side, way): descend(_PIT, start, way, lam=PIT_LAM, step=PIT_STEP, iters=1000)
        for side, start in (("outside", OUTSIDE), ("inside", INSIDE))
        for way in ("egr", "guard")
    }
    stuck = runs["outside", "guard"]
    half, quarter = (
        descend(_PIT, stuck.x, "guard", lam=PIT_LAM / part, step=PIT_STEP, iters=1000) for part in (2, 4)
    )
    for (side, way), result in runs.items():
        outcome.traces[f"{NAME}-{side}-{way}"] = cast(Trace, result.trace)
    outcome.traces[f"{NAME}-half-lam"] = cast(Trace, half.trace)
    outcome.traces[f"{NAME}-quarter-lam"] = cast(Trace, quarter.trace)

    halted = [runs[side, "egr"] for side in ("outside", "inside")]
    passed = runs["inside", "guard"]
    guards = int(cast(Trace, passed.trace).guarded.sum())
    made = [
        Claim(
            "descent on g alone stops at artificial points",
            "∇g = 0, ∇f ≠ 0",
            "from either side: " + "; ".join(map(_end, halted)),
            agrees=all(_kind(result.x) == "artificial" for result in halted),
        ),
        Claim(
            "the guard keeps CGD from stopping there: start beyond the point",
            "moves on",
            f"{_end(passed)}; {guards} guarded steps",
            agrees=_kind(passed.x) == "minimum" and guards > 0,
        ),
        Claim(
            "the guard keeps CGD from stopping there: start before the point",
            "moves on",
            f"{_end(stuck)}; status {stuck.status.name}",
            agrees=_kind(stuck.x) != "artificial",
            known="limit",
        ),
        Claim(
            "another λ then descends further",
            "descends",
            f"f = {readable(stuck.fun)}; with λ/2 {readable(half.fun)}, {_kind(half.x, PIT_LAM / 2)}; with "
            f"λ/4 {readable(quarter.fun)}, {_kind(quarter.x, PIT_LAM / 4)}",
            agrees=half.fun < stuck.fun and _kind(quarter.x) == "minimum",
        ),
    ]
    outcome.claims += resting_on("chosen", made)
    rows = [
        _row({"egr": "GD on g", "guard": "CGD"}[way], side, result, PIT_LAM)
        for (side, way), result in runs.items()
    ]
    rows += [
        _row("CGD, λ/2", "where CGD stayed", half, PIT_LAM / 2),
        _row("CGD, λ/4", "where CGD stayed", quarter, PIT_LAM / 4),
    ]
    outcome.tables[f"{NAME}-pit"] = Table(
        ("method", "start", "‖x‖ at the end", "f", "‖∇f‖", "what it is"),
        rows,
        f"Runs on the pit in the plane, λ = {PIT_LAM:g}, α = {PIT_STEP:g}; g has a ring of artificial minima "
        f"at ‖x‖ = {radius:.4f}. Outside is {OUTSIDE}, inside {INSIDE}.",
    )
    outcome.figures[NAME] = _figure(runs, radius)
    outcome.captions[NAME] = (
        "A pit in a bowl, f = ‖x‖²/10 + tanh(‖x‖²/2 − 2). On the dashed ring g has artificial minima. GD on "
        "g ends on it from both sides. Started inside, CGD escapes; outside, it sticks."
    )


def _figure(runs: dict[tuple[str, str], Result], radius: float) -> Any:
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


def _is_low(x: float, lam: float) -> bool:
    """Return whether the values of g on either side of x are higher."""
    left, middle, right = Penalised(_LEVY, lam)([[x - 1e-3], [x], [x + 1e-3]])
    return bool(middle < min(left, right))


def _is_minimum(x: float, lam: float) -> bool:
    """Return whether the curvature of f says that the stationary point x is a minimum of g."""
    return theory.penalised_nature(_LEVY.hess([x]), lam) is theory.Nature.MINIMUM


def _slope(x: float) -> float:
    return float(_LEVY.grad([x])[0])


def _penalised_slope(x: float) -> float:
    return float(Penalised(_LEVY, LAM).grad([x])[0])


def _gradient(result: Result) -> float:
    return float(np.linalg.norm(_PIT.grad(result.x)))


def _kind(x: Floats, lam: float = PIT_LAM) -> str:
    return kind(_PIT, x, lam)


def _end(result: Result) -> str:
    return f"{_kind(result.x)}, ‖∇f‖ = {readable(_gradient(result), '.2g')}"


def _row(method: str, start: str, result: Result, lam: float) -> tuple[Any, ...]:
    x = result.x
    return method, start, float(np.linalg.norm(x)), float(_PIT(x)), _gradient(result), _kind(x, lam)
