"""Draw the pictures of the README, of CGD step by step and of the study: `python docs/picture.py`."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import steepen as st
from steepen.paper import tuned

HERE = Path(__file__).parent


def branin() -> Figure:
    """Run GD and CGD-FD on Branin with the settings of Table 1, and draw both."""
    f = st.functions["branin"]
    start, settings = [-4.751, 12.459], {"step": 0.01, "budget": st.Budget(grads=40), "trace": "x"}
    runs = {
        "gd": st.minimize(f, start, method="gd", **settings),
        "cgd-fd": st.minimize(f, start, method="cgd-fd", lam=0.07, r=0.2, **settings),
    }
    return st.plot.overview(f, runs)


def steeper() -> Figure:
    """Draw f = x²/2, the steeper landscape above it, and what six gradients reach on each."""

    def f(x):
        return (x**2).sum(-1) / 2

    lam, step, start = 2.0, 0.1, 3.0
    settings = {"jac": lambda x: x, "step": step, "budget": st.Budget(grads=6), "trace": "x", "gtol": 0}
    gd = st.minimize(f, [start], method="gd", **settings).trace
    cgd = st.minimize(f, [start], method="cgd-fd", lam=lam, r=0.1, b=3, **settings).trace

    figure = Figure(figsize=(7.2, 3.9), layout="constrained")
    ax = figure.subplots()
    grey, orange = st.plot.COLOURS["gd"], st.plot.COLOURS["cgd-fd"]
    x = np.linspace(-1.35, 3.3, 400)
    ax.plot(x, x**2 / 2, color=grey, lw=2.5)
    ax.plot(x, x**2 / 2 + lam * x**2, color=orange, lw=2.5)
    for trace, colour, height in ((gd, grey, 1 / 2), (cgd, orange, 1 / 2 + lam)):
        at = trace.x[:, 0]
        ax.plot(at, height * at**2, "o", color=colour, ms=9, mec="white", zorder=3)
    ax.text(2.25, 1.3, "f", color=grey, fontsize=17, va="top", fontweight="bold")
    ax.text(0.75, 11.5, "f + λ‖∇f‖²", color=orange, fontsize=17, fontweight="bold", ha="left")
    ax.set_xticks([0, 1, 2, 3])
    ax.set_yticks([])
    ax.set_ylim(-1, 25)
    ax.set_xlabel("x", fontsize=14)
    ax.tick_params(labelsize=14)
    ax.spines[["left", "right", "top"]].set_visible(False)
    return figure


def artificial() -> Figure:
    """Draw Levy's function in one variable and the penalised landscape above it."""
    return st.plot.landscape(st.functions["levy"].at(n=1), 0.2, (-10.0, -5.0))


def settings() -> Figure:
    """Run a grid of α and λ from 50 starts on Booth's function, and draw the median of f − f*."""
    booth = st.functions["booth"]
    alpha, lam = np.geomspace(1e-4, 1, 30), np.geomspace(1e-3, 1, 30)
    table = st.sweep(booth, 50, method="cgd-fd", step=alpha, lam=lam, budget=st.Budget(grads=40))
    L = st.theory.smoothness(booth.hvp, [[0.0, 0.0]]).value  # a quadratic: one point is enough
    return st.plot.settings_map(table, fmin=booth.fmin, L=L)


def main() -> None:
    """Write all beside this file."""
    pictures = {
        "branin": branin, "steeper": steeper, "artificial": artificial, "settings": settings,
        "tuned": tuned.bars, "tuned-maps": tuned.maps,
    }  # fmt: skip
    for name, draw in pictures.items():
        st.plot.save(draw(), HERE / f"{name}.svg")


if __name__ == "__main__":
    main()
