"""Plots of runs (convergence, landscapes, trajectories) and sweeps (maps, profiles), for users and the paper.

matplotlib is imported by the first plot. Figures are created without pyplot: no display is needed, and no
figure has to be closed.

Examples
--------
>>> import steepen as st
>>> f = st.functions["branin"]
>>> budget = st.Budget(grads=40)
>>> runs = {m: st.minimize(f, [4.0, 4.0], method=m, budget=budget) for m in ("gd", "cgd-fd")}
>>> figure = st.plot.convergence(runs, fmin=f.fmin)
>>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
['gd', 'cgd-fd']
"""

from __future__ import annotations

from ._canvas import COLOURS
from ._canvas import blank as blank
from ._canvas import tidy as tidy
from ._files import SUFFIXES, save
from ._runs import convergence, landscape, overview, trajectories
from ._sweeps import profiles, settings_map

__all__ = [
    "COLOURS", "SUFFIXES", "convergence", "landscape", "overview", "profiles", "save", "settings_map",
    "trajectories",
]  # fmt: skip
