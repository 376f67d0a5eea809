"""Item of `reproduce`, Fig. 1: f₁ = x₁² + 2x₂², f₂ = f₁ + λ‖∇f₁‖², five steps on each; writes no files."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .. import plot
from ..budget import Budget
from ..functions import quadratic
from ..result import Result
from ._items import Outcome, claim, outcome
from ._runs import Floats, minimize, path, trace
from .egr import Penalised

LAM, STEP, STEPS = 0.4, 0.05, 5  # λ, α and the number of steps, as printed
START = (4.0, 3.0)  # the start; the paper prints none, so this one is ours
_claim = partial(claim, "fig-surfaces")


F1 = quadratic(np.diag([2.0, 4.0]))
F2 = quadratic(np.diag([2 * (1 + 4 * LAM), 4 * (1 + 8 * LAM)]))
"""x₁² + 2x₂², and the closed form (1+4λ)x₁² + 2(1+8λ)x₂² of the steeper function."""


def run() -> Outcome:
    """Run GD and CGD on f₁ and GD on f₂, and draw the figure."""
    common: dict[str, Any] = {"step": STEP, "budget": Budget(iters=STEPS), "trace": "x"}
    made = {
        "GD": minimize(F1, START, method="gd", **common),
        "CGD": minimize(F1, START, method="cgd", lam=LAM, **common),
        "GD on f₂": minimize(F2, START, method="gd", **common),
    }
    gd, cgd, steep = map(trace, made.values())
    x_gd, x_cgd, x_steep = map(path, made.values())
    equal = {**common, "budget": Budget(grads=2 * STEPS)}  # a step of CGD costs two gradients
    x_equal = path(minimize(F1, START, method="gd", **equal))
    far_gd, far_cgd, far_equal = (float(np.linalg.norm(x[-1])) for x in (x_gd, x_cgd, x_equal))
    grid = np.stack(np.meshgrid(*[np.linspace(-4.5, 4.5, 61)] * 2), axis=-1)
    closed, apart = (
        float(np.abs(a - b).max()) for a, b in ((F2(grid), Penalised(F1, LAM)(grid)), (x_cgd, x_steep))
    )
    ratios = zip(("distance", "slope"), _ratios().max(axis=-1).T, strict=True)
    return outcome(
        "fig-surfaces",
        claims=[
            _claim("closed-form", closed <= 1e-12, apart=closed),
            _claim("iterates", apart <= 1e-13, apart=apart),
            *(_claim(name, worst.max() < 1, most=worst.max(), last=worst[-1], steps=STEPS)
              for name, worst in ratios),
        ],
        tables={
            "fig-surfaces": [(k, *x_gd[k], gd.f[k], gd.gnorm[k], *x_cgd[k], cgd.f[k], cgd.gnorm[k])
                             for k in range(STEPS + 1)],
        },
        pictures={"fig-surfaces-cut": _cut(x_equal, x_cgd), "fig-surfaces": _draw(made)},
        traces={"fig-surfaces-gd": gd, "fig-surfaces-cgd": cgd, "fig-surfaces-gd-on-f2": steep},
        settings={"lam": LAM, "step": STEP, "steps": STEPS, "start": START},
        longer=(1 + 4 * LAM, 1 + 8 * LAM), cost=2 * STEPS, x_gd=x_equal[-1, 0], x_cgd=x_cgd[-1, 0],
        far_gd=far_gd, far_cgd=far_cgd, far_equal=far_equal,
    )  # fmt: skip


def _ratios() -> Floats:
    """Return CGD's distance and gradient norm over GD's, by number of steps and start.

    A step is linear in the start, so starts on half a circle represent all.
    """
    turn = np.linspace(0.0, np.pi, 60)
    starts = np.stack([np.cos(turn), np.sin(turn)], axis=-1)
    methods: tuple[dict[str, Any], ...] = ({"method": "cgd", "lam": LAM}, {"method": "gd"})
    ratios: list[Floats] = []
    for steps in range(1, STEPS + 1):
        common: dict[str, Any] = {"step": STEP, "budget": Budget(iters=steps), "trace": False}
        ends = [np.asarray(minimize(F1, starts, **method, **common).x) for method in methods]
        cgd, gd = (np.linalg.norm([x, F1.grad(x)], axis=-1) for x in ends)
        ratios.append(cgd / gd)
    return np.array(ratios)


def _cut(x_gd: Floats, x_cgd: Floats) -> Any:
    """Draw the section x₂ = 0, where f₁ is x², with the iterates of as many gradients on each.

    On f₁ the coordinates are independent.
    """
    axes = plot.blank(8, 3.4).subplots()
    x = np.linspace(-2.2, START[0] + 0.2, 300)
    axes.axhline(0, color="0.85", lw=1, zorder=0)
    for lam in np.linspace(0, LAM, 5)[1:-1]:
        axes.plot(x, (1 + 4 * lam) * x**2, color=plot.COLOURS["cgd"], lw=1, alpha=0.35, zorder=1)
    for method, lam, walk, text in (("cgd", LAM, x_cgd, f"f + {LAM:g}‖∇f‖²"), ("gd", 0.0, x_gd, "f")):
        colour, high, steps = plot.COLOURS[method], 1 + 4 * lam, walk[:, 0]
        axes.plot(x, high * x**2, color=colour, lw=2, ls="--" if method == "gd" else "-")
        label = f"{text}: {len(steps) - 1} steps of {method.upper()}"
        axes.plot(steps, high * steps**2, "o", color=colour, mec="white", ms=8, zorder=4, label=label)
    axes.set(xlabel="x", ylabel="height", title=f"{2 * STEPS} gradients on each, α = {STEP:g}")
    axes.title.set_fontsize("medium")
    axes.margins(x=0)
    plot.tidy(axes)
    axes.legend(frameon=False, loc="upper center")
    return axes.figure


def _draw(made: dict[str, Result]) -> Any:
    figure = plot.blank(10, 4.2)
    figure.get_layout_engine().set(w_pad=0.2)
    left, right = figure.add_gridspec(1, 2, width_ratios=[1, 1.25])
    surfaces = figure.add_subplot(left, projection="3d", computed_zorder=False)
    x, y = np.meshgrid(*[np.linspace(-4.0, 4.0, 41)] * 2)
    # the steep one first and transparent: the other is inside it
    for f, label, method, alpha in ((F2, "f₂, steeper", "cgd", 0.4), (F1, "f₁", "gd", 0.7)):
        surfaces.plot_surface(
            x, y, f(np.stack([x, y], axis=-1)), rcount=13, ccount=13, label=label, alpha=alpha, linewidth=0.3,
            color=plot.COLOURS[method], edgecolor=plot.COLOURS[method],
        )  # fmt: skip
    surfaces.view_init(elev=14, azim=-62)
    surfaces.set(xlabel="x₁", ylabel="x₂")
    surfaces.legend(loc="upper left", frameon=False)
    paths = figure.add_subplot(right)
    walks = {label: made[label] for label in ("GD", "CGD")}
    plot.trajectories(F1, walks, [(-1.0, 4.5), (-1.0, 3.7)], heat=True, points=100, ax=paths)
    paths.legend(loc="upper left", framealpha=0.85)
    paths.set_title(f"λ = {LAM:g}, α = {STEP:g}, {STEPS} steps", fontsize="medium")
    paths.collections[0].set_clim(0.0, None)  # use the shades where the paths are
    return figure
