"""Items of `reproduce`: artificial points in n dimensions, Lemma 1's remedy, flat minima; writes no files."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .. import plot
from .._sweep.sweep import draw
from ..budget import Budget
from ..functions import Function, functions
from ..schedules import Perturbed
from ._items import Outcome, claim, in_part, outcome
from ._runs import Floats, in_the_plane, minimize, trace
from .egr import Penalised, kind, pits, stationary_points
from .recover import roots_in_the_plane

LAM, STEP, STARTS, ITERATIONS = 0.3, 0.1, 100, 600  # for the pits
DIMENSIONS = (1, 2, 4, 8, 16)

WAYS = {"GD": "on f", "EGR": "on g", "CGD": "with the guard", "CGD, another λ": "where p vanishes"}
"""The four descents, as `egr.WAYS`, but with a perturbed λ as the last."""

PLANE: tuple[tuple[Function, float, tuple[float, float] | None], ...] = (
    (functions["styblinski-tang"].at(n=2), 0.05, (-4.0, 4.0)),
    (functions["six-hump-camel"], 0.2, None),
)
"""Where all stationary points of g are searched for: f, λ, and a square (low, high) if not f's own box."""


def ends(n: int, way: str) -> dict[str, int]:
    """Count the kinds of points at which the runs in n dimensions end."""
    f = pits(n)
    starts = np.random.default_rng(n).uniform(-4.5, 4.5, (STARTS, n))
    penalty: dict[str, Any] = {"method": "gd"}
    if way.startswith("CGD"):
        penalty = {"method": "cgd", "lam": LAM if way == "CGD" else Perturbed(LAM)}
    fun, budget = Penalised(f, LAM) if way == "EGR" else f, Budget(iters=ITERATIONS)
    made = minimize(fun, starts, step=STEP, gtol=1e-4, trace=False, budget=budget, **penalty)
    return dict(Counter(kind(f, x, LAM) for x in made.x).most_common())


def run() -> Outcome:
    """Find all stationary points of g in the plane, and run all descents in up to 16 dimensions."""
    plane = [_in_the_plane(f, lam, side) for f, lam, side in PLANE]
    separable, lam, side = PLANE[0]
    line = stationary_points(separable.at(n=1), lam, side or (-5.0, 5.0))
    own, new = (sum((p.to_f == "artificial") == artificial for p in line) for artificial in (False, True))
    share = {n: 1 - (own / (own + new)) ** n for n in DIMENSIONS}
    made = {n: {way: ends(n, way) for way in WAYS} for n in DIMENSIONS}
    counts = {
        (n, way): (minimum := found.get("minimum", 0), other := found.get("artificial", 0),
                   STARTS - minimum - other)
        for n, of in made.items()
        for way, found in of.items()
    }  # fmt: skip
    astray = {way: [STARTS - counts[n, way][0] for n in DIMENSIONS] for way in WAYS}
    last, cgd, on_g, other = DIMENSIONS[-1], astray["CGD"], astray["EGR"], sum(astray["CGD, another λ"])
    says = partial(claim, "artificial-points")
    return outcome(
        "artificial-points",
        claims=[
            says("two-cases", all(own + new == both > 0 and new > 0 and off < 1e-5
                                  for _, _, both, own, new, off in plane),
                 points="; ".join(f"{name}: {both} are {own} and {new}"
                                  for name, _, both, own, new, _ in plane)),
            says("guard", in_part(a < b for a, b in zip(cgd, on_g, strict=True)), starts=STARTS,
                 dimensions=", ".join(map(str, DIMENSIONS)), cgd=", ".join(map(str, cgd)),
                 egr=", ".join(map(str, on_g))),
            says("another-lam", other == 0 and _kept() > 0.5, other=other, runs=STARTS * len(DIMENSIONS)),
        ],
        tables={
            "artificial-points-plane": plane,
            "artificial-points-many": [
                (n, own**n, (own + new) ** n - own**n, share[n]) for n in DIMENSIONS
            ],
            "artificial-points": [(*key, *count) for key, count in counts.items()],
        },
        pictures={"artificial-points": _draw(astray)},
        settings={
            "pits": {"lam": LAM, "step": STEP, "starts": STARTS, "iterations": ITERATIONS},
            "plane": {f.name: {"lam": lam, "box": side or "its own"} for f, lam, side in PLANE},
        },
        title=separable.title, own=own, new=new, last=last, astray=cgd[-1],
        in_plane=share[2], at_last=share[last],
    )  # fmt: skip


def _kept() -> float:
    """Return the fraction of steps that keep λ where it may be perturbed."""
    starts = np.random.default_rng(2).uniform(-4.5, 4.5, (STARTS, 2))
    made = minimize(pits(2), starts, step=STEP, method="cgd", lam=Perturbed(LAM), budget=Budget(iters=20))
    return float((trace(made).lam[:-1] == LAM).mean())


def _in_the_plane(f: Function, lam: float, side: tuple[float, float] | None) -> tuple[Any, ...]:
    """Return a row: the number of stationary points of g, of f, artificial ones, and the lemma's residual."""
    g, shifts = Penalised(f, lam), 1e-5 * np.eye(2)

    def slope(x: Floats) -> Floats:  # from values of g alone
        return np.stack([(g(x + s) - g(x - s)) / 2e-5 for s in shifts], axis=-1)

    found = roots_in_the_plane(slope, np.array([side, side]) if side else f.bounds, within=1e-4)
    kinds = [kind(f, x, lam) for x in found]
    own = sum(kinds.count(name) for name in ("minimum", "maximum", "saddle"))
    off = 0.0
    for x in found[np.array(kinds) == "artificial"]:
        grad = f.grad(x)
        off = max(off, float(np.linalg.norm(f.hvp(x, grad) + grad / (2 * lam)) / np.linalg.norm(grad)))
    return f.title, lam, len(found), own, kinds.count("artificial"), off


def _draw(astray: dict[str, list[int]]) -> Any:
    axes = plot.blank(7, 4).subplots()
    styles = (("gd", "-", "o"), ("cgd", ":", "v"), ("cgd", "-", "s"), ("cgd-fd", "--", "D"))
    for (way, counts), (method, dashes, marker) in zip(astray.items(), styles, strict=True):
        style: dict[str, Any] = {"ls": dashes, "marker": marker, "color": plot.COLOURS[method]}
        axes.plot(DIMENSIONS, counts, label=f"{way}, {WAYS[way]}", lw=1.8, **style)
    axes.set_xscale("log", base=2)
    axes.set_xticks(DIMENSIONS, labels=[str(n) for n in DIMENSIONS])
    axes.set(xlabel="n", ylabel=f"runs not at a minimum, of {STARTS}", ylim=(-3, STARTS + 3))
    axes.legend(frameon=False, loc="center right")
    plot.tidy(axes)
    return axes.figure


# --- flat minima: the curvature where GD and CGD end, from the same starts ------------------------------

SEVERAL = in_the_plane(
    "levy", "rastrigin", "schwefel", "eggholder", "shubert", "holder-table", "styblinski-tang",
    "six-hump-camel",
)  # fmt: skip
"""Functions of two variables with several minima."""

FLAT_STARTS, FLAT_ITERATIONS, SEED = 150, 400, 0
FLAT_STEP, TWICE_LAM_L = 0.5, 1.0  # αL and 2λL; L is the median over the starts of the largest |curvature|


class Pairs(NamedTuple):
    """Runs of two methods from the same starts, both to minima: how the minima of the second differ."""

    minima: int
    flatter: int
    sharper: int
    lower: int
    higher: int

    @property
    def same(self) -> int:
        """The number of minima with the same curvature."""
        return self.minima - self.flatter - self.sharper

    @property
    def odds(self) -> float:
        """The share of flatter ones among those with another curvature."""
        return self.flatter / max(self.flatter + self.sharper, 1)


def compare(f: Function) -> dict[str, Pairs]:
    """Compare the minima that CGD and GD with a step 1 + 2λL times as long reach with GD's."""
    low, high = f.bounds.T
    starts = draw(f.bounds, FLAT_STARTS, SEED)
    L = float(np.median(np.abs(np.linalg.eigvalsh(f.hess(starts))).max(axis=1)))
    small = 1e-5 * float(np.linalg.norm(f.grad(starts), axis=1).mean())

    def ends(step: float, **method: Any) -> tuple[Floats, Floats, Any]:
        budget = Budget(iters=FLAT_ITERATIONS)
        made = minimize(f, starts, step=step / L, gtol=small, budget=budget, trace=False, **method)
        with np.errstate(all="ignore"):
            x = np.where(np.isfinite(made.x), made.x, starts)
            eigenvalues = np.linalg.eigvalsh(f.hess(x))
            settled = np.linalg.norm(f.grad(x), axis=1) <= 10 * small
        inside = ((x >= low) & (x <= high)).all(axis=1)
        return np.asarray(f(x)), eigenvalues[:, 1], settled & inside & (eigenvalues[:, 0] > 0)

    value, bend, minimum = ends(FLAT_STEP, method="gd")

    def pairs(other_value: Floats, other_bend: Floats, other_minimum: Any) -> Pairs:
        both, margin = minimum & other_minimum, 1e-3 * np.abs(value)
        counts = (
            other_bend < 0.99 * bend, other_bend > 1.01 * bend,
            other_value < value - margin, other_value > value + margin,
        )  # fmt: skip
        return Pairs(int(both.sum()), *(int((count & both).sum()) for count in counts))

    return {
        "CGD": pairs(*ends(FLAT_STEP, method="cgd", lam=TWICE_LAM_L / (2 * L))),
        "GD, longer step": pairs(*ends(FLAT_STEP * (1 + TWICE_LAM_L), method="gd")),
    }


def flat_minima() -> Outcome:
    """Compare the curvature of the minima that are reached on eight functions."""
    made = {f.title: compare(f) for f in SEVERAL}
    cgd, longer = (
        Pairs(*np.sum([of[way] for of in made.values()], axis=0).tolist())
        for way in ("CGD", "GD, longer step")
    )
    says = partial(claim, "flat-minima")
    return outcome(
        "flat-minima",
        claims=[
            says("flatter", cgd.flatter > cgd.sharper, functions=len(SEVERAL), cgd=cgd),
            says("mostly", cgd.flatter > cgd.minima / 2, cgd=cgd),
            says("twice", cgd.flatter > 2 * cgd.sharper, cgd=cgd),
            says("longer-step", cgd.odds > longer.odds, cgd=cgd, longer=longer),
        ],
        tables={
            "flat-minima": [(title, way, *pairs) for title, of in made.items() for way, pairs in of.items()]
        },
        pictures={"flat-minima": _draw_pairs(made)},
        settings={
            "starts": FLAT_STARTS, "seed": SEED, "iterations": FLAT_ITERATIONS, "step": f"{FLAT_STEP:g}/L",
            "2λL": TWICE_LAM_L, "L": "median over the starts of the largest curvature in size",
        },
        cgd=cgd, longer=longer,
    )  # fmt: skip


def _size(value: float, _: object) -> str:
    return f"{abs(value):g}"


def _draw_pairs(made: dict[str, dict[str, Pairs]]) -> Any:
    axes = plot.blank(8, 4.4).subplots()
    places = np.arange(len(made))[::-1]
    for way, shift, method in (("CGD", 0.2, "cgd"), ("GD, longer step", -0.2, "gd")):
        pairs, colour = [of[way] for of in made.values()], plot.COLOURS[method]
        axes.barh(places + shift, [p.flatter for p in pairs], 0.38, color=colour, label=way)
        axes.barh(places + shift, [-p.sharper for p in pairs], 0.38, color=colour, alpha=0.5)
    axes.set_yticks(places, labels=list(made))
    axes.axvline(0.0, color="black", lw=0.8)
    axes.set_xlabel("← sharper      runs      flatter →")
    axes.xaxis.set_major_formatter(_size)
    axes.figure.legend(frameon=False, loc="outside upper right", ncols=2)
    plot.tidy(axes)
    return axes.figure
