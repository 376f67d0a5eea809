"""Plots of the tables that `sweep` returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .._tools.check import number
from .._tools.optional import load
from ..theory import safe_interval
from ._canvas import COLOURS, blank, canvas_of, finish, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats: TypeAlias = NDArray[np.float64]
Frame: TypeAlias = Any
"""A pandas DataFrame; pandas is optional, so its types are unavailable."""

SETTINGS = ("method", "step", "lam", "r", "b", "penalty", "memory")
_OVER = ("NONFINITE_VALUE", "NONFINITE_GRADIENT", "UNBOUNDED", "DIVERGED")
_INK, _HATCH = "0.35", "////"


def settings_map(
    table: Frame, *, fmin: float | None = None, L: float | None = None, ax: Axes | None = None
) -> Figure:
    """Plot the median final f over the starts for every pair of λ and α of one function and one method.

    Pairs for which at least half of the runs diverge (overflow, or end above their start) are hatched.
    Settings that form no grid are drawn as dots, or as crosses if they diverge. The ring is the best pair.

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
    for name in ("lam", "step"):
        if name not in table or table[name].dtype.kind != "f" or table[name].nunique() < 2:
            raise ValueError(f"table: expected at least two values of {name}; run the sweep with more")
    grid = cells(table)
    canvas = canvas_of(ax)
    over = grid.diverged.to_numpy() >= 0.5
    z = np.where(over | ~np.isfinite(grid.f), np.nan, grid.f - (fmin or 0.0))
    known = z[np.isfinite(z)]
    look: dict[str, Any] = {"cmap": "cividis"}  # dark is low; its lightness alone tells the levels apart
    if fmin is not None and known.size and known.max() > 0:
        z = np.maximum(z, float(known[known > 0].min()))
        look["norm"] = load("matplotlib.colors", "plotting", extra="plot").LogNorm()
    lam, step = np.sort(grid.lam.unique()), np.sort(grid.step.unique())
    x, y = _edges(lam), _edges(step)
    handles: list[Any] = []
    if len(grid) == len(lam) * len(step):
        cell = np.full((len(step), len(lam)), np.nan)
        cell[np.searchsorted(step, grid.step), np.searchsorted(lam, grid.lam)] = z
        mesh = canvas.pcolormesh(x, y, np.ma.masked_invalid(cell), rasterized=True, **look)
        if over.any():
            canvas.add_patch(_hatched(canvas))  # under the cells, of which these are empty
            handles.append(_square("white", "diverges", _HATCH))
    else:
        mesh = canvas.scatter(grid.lam, grid.step, c=z, s=28, edgecolors=_INK, linewidths=0.4, **look)
        if over.any():
            handles += canvas.plot(grid.lam[over], grid.step[over], "x", color=_INK, label="diverges")
    canvas.figure.colorbar(mesh, ax=canvas, label="median of f" if fmin is None else "median of f − f*")
    if L is not None:
        number("L", L, "a positive number", above=0)
        low, high = max(float(x[0]), 0.0), float(x[-1])
        ends = np.geomspace(low, high, 200) if low > 0 else np.linspace(low, high, 200)
        top = np.asarray(safe_interval(L, ends)[1])
        canvas.plot(ends, top, color="white", lw=4)
        handles += canvas.plot(ends, top, color="black", lw=1.8, ls="--", label="safe by Theorem 1, below")
    if known.size:
        best = int(np.nanargmin(z))
        ring: dict[str, Any] = {"lw": 0, "marker": "o", "ms": 9, "mfc": "none", "zorder": 4}
        for edge in ({"mec": "white", "mew": 3.5}, {"mec": "black", "mew": 1.4, "label": "best"}):
            rings = canvas.plot(grid.lam[best], grid.step[best], **ring, **edge)  # seen on dark and on light
        handles += rings
    for values, set_scale in ((lam, canvas.set_xscale), (step, canvas.set_yscale)):
        if values[0] > 0:
            set_scale("log")
    canvas.set(xlabel="λ", ylabel="α", xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    canvas.set_title(f"{table.method.iloc[0]} on {table.function.iloc[0]}", fontsize="medium")
    tidy(canvas, grid=False)
    # below the axes, where it hides no cell
    canvas.legend(handles=handles, ncols=3, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14))
    return canvas.figure


def basins(table: Frame, *, radius: float = 0.04, most: int = 8) -> Figure:
    """Plot basins of attraction: one panel per setting, one pixel per start, one shade per group of ends.

    `table` is a result of `sweep` with `points=True`, one function of two variables, and starts on a grid.
    End points are binned in squares `radius` times as wide as the box of the starts; adjacent squares form a
    group. The `most` largest groups are shown, the lowest darkest; runs that diverge or end elsewhere are
    hatched. The titles say how many runs end in the lowest group.

    Examples
    --------
    >>> import numpy as np, steepen as st
    >>> f = st.functions["branin"]
    >>> x, y = np.meshgrid(*(np.linspace(*side, 30) for side in f.bounds))
    >>> starts = np.stack([x.ravel(), y.ravel()], axis=1)
    >>> table = st.sweep(f, starts, method=["gd", "cgd-fd"], step=0.01, lam=0.02, points=True,
    ...                  budget=st.Budget(grads=60))
    >>> [axes.get_title().split(":")[0] for axes in basins(table).axes]
    ['gd, step 0.01', 'cgd-fd, step 0.01, lam 0.02']
    """
    number("radius", radius, "a fraction of the box, above 0 and below 1", above=0, below=1)
    _one_of_each(table, ("function",))
    if "x1" not in table or "x2" in table:
        raise ValueError("table: expected end points in two variables; run the sweep with points=True")
    table = table.reset_index(drop=True)
    first, second = np.sort(table.start0.unique()), np.sort(table.start1.unique())
    columns = [name for name in SETTINGS if name in table]
    groups = list(table.groupby(columns, dropna=False, observed=True, sort=False))
    if any(len(part) != len(first) * len(second) for _, part in groups):
        raise ValueError("table: expected starts on a full grid, every x with every y")
    which, places, lows = _ends(table, radius, most)
    fall = float((table.f0 - min(lows, default=0.0)).median())
    lowest = [i for i, low in enumerate(lows) if low - lows[0] <= 1e-3 * fall]
    figure = blank(4.2 * len(groups) + 0.4, 4.6)
    panels = figure.subplots(1, len(groups), squeeze=False)[0]
    cm = load("matplotlib", "plotting", extra="plot").colormaps["cividis"]
    shades = cm(np.linspace(0.05, 0.95, max(len(places), 2)))
    box = (first[0], first[-1], second[0], second[-1])
    for canvas, (_, part) in zip(panels, groups, strict=True):
        own = which[part.index]
        image = np.full((len(second), len(first)), -1)
        image[np.searchsorted(second, part.start1), np.searchsorted(first, part.start0)] = own
        pixels = shades[np.maximum(image, 0)]
        pixels[image < 0, 3] = 0.0  # the hatching shows through
        canvas.imshow(pixels, origin="lower", extent=box, aspect="auto", interpolation="nearest")
        canvas.add_patch(_hatched(canvas))
        canvas.plot(*places.T, lw=0, marker="*", ms=13, color="white", mec="black")
        canvas.set(xlabel="x₁", ylabel="x₂", xlim=box[:2], ylim=box[2:])
        share = np.mean(np.isin(own, lowest))
        canvas.set_title(f"{_said(part.iloc[0], columns)}: {share:.0%} lowest", fontsize="medium")
        tidy(canvas, grid=False)
    handles = [_square(shade, f"f = {low:.4g}") for shade, low in zip(shades, lows, strict=False)]
    handles.append(_square("white", "elsewhere", _HATCH))
    figure.legend(handles=handles, loc="outside lower center", ncols=min(5, len(handles)), frameon=False)
    return figure


def profiles(
    table: Frame,
    *,
    fmin: Mapping[str, float] | None = None,
    accuracy: float = 1e-3,
    ax: Axes | None = None,
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
    missing = [name for name in table.function.unique() if name not in lowest]
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
        near = accuracy * np.maximum(part.f0.to_numpy() - low, 0.0)
        shares = [(part[f"f_{look}"].to_numpy() - low <= near).mean() for look in looks]
        style: dict[str, Any] = {"color": COLOURS.get(method, "0.2"), "ls": ("-", "--", ":", "-.")[i % 4]}
        canvas.plot(looks, shares, marker="o", ms=4, lw=1.8, label=method, **style)
    canvas.set(xlabel="gradient evaluations", ylabel=f"share of runs within {accuracy:g}", ylim=(-0.02, 1.02))
    finish(canvas)
    return canvas.figure


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
                f'table: expected one {name}, got {found}; select one, as in table[table.{name} == "…"]'
            )


def _edges(values: Floats) -> Floats:
    """Return the edges of cells around values, half-way between them on the plotted scale."""
    logs = values[0] > 0
    at = np.log(values) if logs else values
    inner = (at[1:] + at[:-1]) / 2
    ends = np.concatenate([[2 * at[0] - inner[0]], inner, [2 * at[-1] - inner[-1]]])
    return np.exp(ends) if logs else ends


def _ends(table: Any, radius: float, most: int) -> tuple[NDArray[np.int64], Floats, list[float]]:
    """Return the group of each end point (−1 for none), and the lowest point of each with its f, in order."""
    label = load("scipy.ndimage", "plotting", extra="plot").label
    x, f = table[["x0", "x1"]].to_numpy(), table.f.to_numpy()
    starts = table[["start0", "start1"]].to_numpy()
    low, width = starts.min(axis=0), np.maximum(np.ptp(starts, axis=0), 1e-300)
    side, half = int(np.ceil(2 / radius)), int(np.ceil(0.5 / radius))  # half a box more on every side
    with np.errstate(all="ignore"):
        square = np.floor((x - low) / (radius * width)) + half
    fine = ~diverged(table) & (square >= 0).all(axis=1) & (square < side).all(axis=1)
    at = tuple(square[fine].astype(int).T)
    counts = np.zeros((side, side), int)
    np.add.at(counts, at, 1)
    groups, _ = label(counts > max(1, fine.sum() // 5000), structure=np.ones((3, 3)))
    which = np.full(len(table), -1)
    which[fine] = groups[at] - 1
    sizes = np.bincount(which[which >= 0])
    large = np.argsort(-sizes, kind="stable")[:most]
    best = {int(g): int(np.flatnonzero(which == g)[np.argmin(f[which == g])]) for g in large if sizes[g]}
    order = sorted(best, key=lambda g: f[best[g]])
    renamed = np.full(len(sizes) + 1, -1)
    renamed[order] = np.arange(len(order))
    return renamed[which], x[[best[g] for g in order]].reshape(-1, 2), [float(f[best[g]]) for g in order]


def _said(row: Any, columns: list[str]) -> str:
    known = [name for name in columns[1:] if isinstance(row[name], float) and np.isfinite(row[name])]
    return ", ".join([str(row["method"]), *(f"{name} {row[name]:g}" for name in known)])


def _hatched(canvas: Any) -> Any:
    """Return a hatched background that fills the axes."""
    patches = load("matplotlib.patches", "plotting", extra="plot")
    look: dict[str, Any] = {"fc": "white", "ec": "0.6", "hatch": _HATCH, "lw": 0, "zorder": -1}
    return patches.Rectangle((0, 0), 1, 1, transform=canvas.transAxes, **look)


def _square(colour: Any, label: str, hatch: str | None = None) -> Any:
    patches = load("matplotlib.patches", "plotting", extra="plot")
    return patches.Patch(facecolor=colour, edgecolor=_INK, label=label, hatch=hatch)
