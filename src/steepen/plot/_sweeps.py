"""Plots of the tables that `sweep` returns, for users, benchmarks and the command `sweep`; writes no file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._tools.check import is_number, number
from .._tools.optional import load
from ..theory import safe_step
from ._canvas import COLOURS, canvas_of, finish, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats: TypeAlias = NDArray[np.float64]
Frame: TypeAlias = Any
"""A pandas DataFrame; pandas is optional, so its types are unavailable."""

SETTINGS = ("method", "step", "lam", "r", "b", "penalty", "memory", "switch")
_OVER = ("NONFINITE_VALUE", "NONFINITE_GRADIENT", "UNBOUNDED", "DIVERGED")


def settings_map(
    table: Frame, *, fmin: float | None = None, L: float | None = None, ax: Axes | None = None
) -> Figure:
    """Plot the median final f over the starts for every pair of λ and α of one function and one method.

    Rows whose λ or α is no number, but a schedule, are left out. Pairs for which at least half of the runs
    diverge (overflow, or end above their start) are hatched. The ring is the best pair.

    Parameters
    ----------
    table : DataFrame
        A result of `sweep` with several values of λ and of α.
    fmin : float, optional
        Plot f − fmin on a log scale; by default f itself.
    L : float, optional
        The smoothness constant (see `theory.smoothness`). The line is then the upper end of the steps that
        Theorem 1 proves safe on a convex function.

    Examples
    --------
    >>> import numpy as np, steepen as st
    >>> f = st.functions["booth"]
    >>> table = st.sweep(f, 5, method="cgd", lam=np.geomspace(1e-3, 1, 8), step=np.geomspace(1e-4, 1, 8),
    ...                  budget=st.Budget(grads=20))
    >>> figure = settings_map(table, fmin=f.fmin, L=18.0)
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['diverges', 'safe by Theorem 1, below', 'best']
    """
    _one_of_each(table, ("function", "method"))
    table = mapped(table)
    for name in ("lam", "step"):
        if name not in table or table[name].nunique() < 2:
            raise ValueError(f"table: expected two or more numbers in {name}; run the sweep with more")
    _one_of_each(table, tuple(name for name in SETTINGS[3:] if name in table and table[name].notna().any()))
    grid = cells(table)
    canvas = canvas_of(ax)
    over = grid.diverged.to_numpy() >= 0.5
    z = np.where(over | ~np.isfinite(grid.f), np.nan, grid.f - (fmin or 0.0))
    known = z[np.isfinite(z)]
    best = int(np.nanargmin(z)) if known.size else None
    look: dict[str, Any] = {"cmap": "cividis"}  # dark is low; its lightness alone tells the levels apart
    if fmin is not None and known.size and known.max() > 0:
        z = np.maximum(z, float(known[known > 0].min()))
        look["norm"] = load("matplotlib.colors", "plotting", extra="plot").LogNorm()
    lam, step = np.sort(grid.lam.unique()), np.sort(grid.step.unique())
    if len(grid) != len(lam) * len(step):
        raise ValueError("table: expected a full grid, every λ with every α")
    x, y = _edges(lam), _edges(step)
    cell = np.full((len(step), len(lam)), np.nan)
    cell[np.searchsorted(step, grid.step), np.searchsorted(lam, grid.lam)] = z
    mesh = canvas.pcolormesh(x, y, np.ma.masked_invalid(cell), rasterized=True, **look)
    handles: list[Any] = []
    if over.any():
        patches = load("matplotlib.patches", "plotting", extra="plot")
        look = {"fc": "white", "ec": "0.5", "hatch": "////", "lw": 0}
        under = {"transform": canvas.transAxes, "zorder": -1}  # the cells, of which these are empty
        canvas.add_patch(patches.Rectangle((0, 0), 1, 1, **under, **look))
        handles.append(patches.Patch(label="diverges", **look))
    canvas.figure.colorbar(mesh, ax=canvas, label="median of f" if fmin is None else "median of f − f*")
    if L is not None:
        number("L", L, "a positive number", above=0)
    if L is not None and x[-1] > 0:  # the theorem is for λ >= 0
        low, high = max(float(x[0]), 0.0), float(x[-1])
        ends = np.geomspace(low, high, 200) if low > 0 else np.linspace(low, high, 200)
        top = 2 * np.asarray(safe_step(L, ends))
        canvas.plot(ends, top, color="white", lw=4)
        handles += canvas.plot(ends, top, color="black", lw=1.8, ls="--", label="safe by Theorem 1, below")
    if best is not None:
        ring: dict[str, Any] = {"lw": 0, "marker": "o", "ms": 9, "mfc": "none", "zorder": 4}
        for edge in ({"mec": "white", "mew": 3.5}, {"mec": "black", "mew": 1.4, "label": "best"}):
            rings = canvas.plot(grid.lam[best], grid.step[best], **ring, **edge)  # seen on dark and on light
        handles += rings
    canvas.set(xscale="log" if lam[0] > 0 else "linear", yscale="log")
    if lam[0] <= 0:
        canvas.locator_params("x", nbins=5)  # more labels such as −0.0225 would overlap
    canvas.set(xlabel="λ", ylabel="α", xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    canvas.set_title(f"{table.method.iloc[0]} on {table.function.iloc[0]}", fontsize="medium")
    tidy(canvas, grid=False)
    # below the axes, where it hides no cell
    canvas.legend(handles=handles, ncols=3, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    return canvas.figure


def profiles(
    table: Frame, *, fmin: Mapping[str, float] | None = None, accuracy: float = 1e-3, ax: Axes | None = None
) -> Figure:
    """Plot the fraction of runs solved against gradients (compare the data profiles of Moré & Wild, 2009).

    `table` is a result of `sweep` with `at`. A run is solved when (f − f*)/(f0 − f*) is at most `accuracy`;
    `fmin` maps function names to f*, by default the lowest value in the table. Each method is shown with the
    setting that has the lowest median f per function: for a fair comparison, choose it on other starts.

    Examples
    --------
    >>> import steepen as st
    >>> table = st.sweep(["booth", "branin"], 20, method=["gd", "cgd-auto"], step=[0.001, 0.01],
    ...                  at=[5, 10, 20], budget=st.Budget(grads=40))
    >>> [line.get_label() for line in profiles(table).axes[0].lines]
    ['gd', 'cgd-auto']
    """
    number("accuracy", accuracy, "a number between 0 and 1", above=0, below=1)
    looks = sorted(int(name[2:]) for name in table if name.startswith("f_"))
    if not looks:
        raise ValueError("table: expected columns f_5, f_10, …; run the sweep with at=[5, 10, 20]")
    lowest = table.groupby("function", observed=True).best.min() if fmin is None else fmin
    missing = [name for name in table.function.unique() if not is_number(lowest.get(name))]
    if missing:
        raise ValueError(f"fmin: expected a value for every function; {missing[0]!r} has none")
    star = np.array([lowest[name] for name in table.function], dtype=float)
    key = ["function", *(name for name in SETTINGS if name in table)]
    best = cells(table).sort_values("f", kind="stable").drop_duplicates(["function", "method"])
    chosen = table[key].merge(best[key], how="left", on=key, indicator=True)["_merge"].to_numpy() == "both"
    canvas = canvas_of(ax)
    for i, method in enumerate(table.method.unique()):
        mine = chosen & (table.method == method).to_numpy()
        part, low = table[mine], star[mine]
        near = np.where(np.isfinite(part.f0), accuracy * np.maximum(part.f0 - low, 0.0), -np.inf)
        shares = [(part[f"f_{look}"].to_numpy() - low <= near).mean() for look in looks]
        style: dict[str, Any] = {"color": COLOURS.get(method, "0.2"), "ls": ("-", "--", ":", "-.")[i % 4]}
        canvas.plot(looks, shares, marker="o", ms=4, lw=1.8, label=method, **style)
    canvas.set(xlabel="gradient evaluations", ylabel=f"share of runs within {accuracy:g}", ylim=(-0.02, 1.02))
    finish(canvas)
    return canvas.figure


def mapped(table: Frame) -> Frame:
    """Return the rows whose λ and α are numbers."""
    for name in table.columns.intersection(["lam", "step"]):
        values = load("pandas", "a map", extra="sweep").to_numeric(table[name].astype(str), errors="coerce")
        table = table.assign(**{name: values})[values.notna()]
    return table


def cells(table: Frame) -> Frame:
    """Return the median f over the starts and the fraction diverged, one row per function and setting."""
    columns = ["function", *(name for name in SETTINGS if name in table)]
    ranked = table.f.where(np.isfinite(table.f), np.inf)  # a median with overflow is infinite
    scored = table.assign(f=ranked, diverged=diverged(table).astype(float))
    groups = scored.groupby(columns, dropna=False, observed=True, sort=False)
    return groups.agg(f=("f", "median"), diverged=("diverged", "mean"), njev=("njev", "median")).reset_index()


def diverged(table: Frame) -> NDArray[np.bool_]:
    """Return a mask of the runs that overflowed or ended above their starting value."""
    return (table.status.isin(_OVER) | ~(table.f <= table.f0)).to_numpy()


def _one_of_each(table: Any, names: tuple[str, ...]) -> None:
    for name in ("f", "f0", *names):
        if name not in table:
            raise ValueError(f"table: expected a result of `sweep`, with a column {name}")
    for name in names:
        if table[name].nunique() != 1:
            found = ", ".join(map(str, table[name].unique()))
            raise ValueError(
                f"table: expected one {name}, got {found}; select one, as in table[table.{name} == …]"
            )


def _edges(values: Floats) -> Floats:
    """Return the edges of cells around values, half-way between them on the plotted scale."""
    logs = values[0] > 0
    at = np.log(values) if logs else values
    inner = (at[1:] + at[:-1]) / 2
    ends = np.concatenate([[2 * at[0] - inner[0]], inner, [2 * at[-1] - inner[-1]]])
    return np.exp(ends) if logs else ends
