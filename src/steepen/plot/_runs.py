"""Plots of runs, for users and the paper: convergence, a landscape, paths. Evaluates f, writes no file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._tools.check import floats, number, one_of, rectangle, whole
from .._tools.optional import load
from ..result import Result
from ..trace import Trace
from ._canvas import COLOURS, blank, canvas_of, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Run: TypeAlias = Result | Trace
Floats: TypeAlias = NDArray[np.float64]

_OTHERS = ("#117733", "#aa4499", "#999933", "#882255", "#44aa99")
_LOW, _HIGH = (0.72, 0.80, 0.88), (0.99, 0.99, 1.0)  # the shades under the paths, pale enough for all
_DASHES = ("-", "--", ":", "-.")
_DASH = {"gd": "--", "newton": ":", "bfgs": "-.", "dfp": (0, (3, 1, 1, 1, 1, 1)), "cgd-dfp": (0, (2, 2))}
_AXES = {
    "grads": ("njev", "gradient evaluations"),
    "iters": ("k", "iterations"),
    "evals": ("nfev", "function evaluations"),
}


def convergence(
    results: Mapping[str, Run], *, fmin: float = 0.0,
    x_axis: Literal["grads", "iters", "evals"] = "grads", ax: Axes | None = None,
) -> Figure:  # fmt: skip
    """Plot f − f* on a log scale against gradients, iterations or function evaluations.

    One curve for each label of `results`, coloured by method. For a batch it is the median over the rows,
    with a band from the lower to the upper quartile. `fmin` is f*; `ax` is by default that of a new figure.

    Examples
    --------
    >>> import steepen as st
    >>> f = st.functions["booth"]
    >>> res = st.minimize(f, [0.0, 0.0], method="gd", step=0.05)
    >>> line = convergence({"gd": res}, fmin=f.fmin).axes[0].lines[0]
    >>> bool((line.get_ydata() == res.trace.f).all())
    True
    """
    column, label_x = _AXES[one_of("x_axis", x_axis, _AXES)]
    number("fmin", fmin, "a finite number")
    canvas = canvas_of(ax)
    for label, trace, style in _styled(results):
        if trace.length is None:
            spent, f = getattr(trace, column), trace.f
        else:
            spent, (low, f, high) = _quartiles(trace, column)
            canvas.fill_between(
                spent, low - fmin, high - fmin, step="post", color=style["color"], alpha=0.15, lw=0
            )
        on_top = 2.0 if style["ls"] == "-" else 2.1  # a curve under a dashed one shows through its gaps
        canvas.step(
            spent, f - fmin, where="post", label=label, lw=1.8, marker="o", ms=4, markevery=[-1],
            zorder=on_top, **style,
        )  # fmt: skip
    if any((np.asarray(line.get_ydata()) > 0).any() for line in canvas.lines):
        canvas.set_yscale("log")
    canvas.xaxis.get_major_locator().set_params(integer=True)
    canvas.set(xlabel=label_x, ylabel="f − f*")
    canvas.margins(x=0.02)
    finish(canvas)
    return canvas.figure


def landscape(
    fun: Callable[..., Any], lam: float, interval: tuple[float, float], *,
    jac: Callable[..., Any] | None = None, points: int = 1001, ax: Axes | None = None,
) -> Figure:  # fmt: skip
    """Plot a function of one variable together with its penalised form f + λ‖∇f‖².

    `fun` takes points of shape (..., 1), as `steepen.functions["levy"].at(n=1)` does; `jac` is its gradient,
    by default `fun.grad`, and `points` the number of points per curve.

    Examples
    --------
    >>> import steepen as st
    >>> figure = landscape(st.functions["levy"].at(n=1), 0.2, (-10.0, -5.0))
    >>> [line.get_label() for line in figure.axes[0].lines]
    ['f', 'f + 0.2‖∇f‖²']
    """
    expected = "two finite numbers in increasing order"
    ends = floats("interval", interval, expected)
    if ends.shape != (2,) or ends[0] >= ends[1]:
        raise ValueError(f"interval: expected {expected}, got {interval!r}")
    number("lam", lam, "a finite number")
    whole("points", points, 2)
    gradient = getattr(fun, "grad", None) if jac is None else jac
    if not callable(gradient):
        raise TypeError("jac: expected a callable, since fun has no attribute grad")
    x = np.linspace(float(ends[0]), float(ends[1]), points)
    f = np.asarray(fun(x[:, None]), dtype=float)
    g = np.asarray(gradient(x[:, None]), dtype=float)
    if f.shape != (points,) or g.shape != (points, 1):
        raise ValueError(
            "fun: expected a function of one variable, vectorised over leading axes; "
            f"for {points} points its values have shape {f.shape} and its gradients {g.shape}"
        )
    canvas = canvas_of(ax)
    canvas.plot(x, f, color=COLOURS["gd"], ls="--", lw=1.8, label="f")
    canvas.plot(x, f + lam * g[:, 0] ** 2, color=COLOURS["cgd"], lw=1.8, label=f"f + {lam:g}‖∇f‖²")
    canvas.set_xlabel("x")
    canvas.margins(x=0)
    finish(canvas)
    return canvas.figure


def trajectories(
    fun: Callable[..., Any], results: Mapping[str, Run], bounds: ArrayLike | None = None, *,
    heat: bool = False, points: int = 200, ax: Axes | None = None,
) -> Figure:  # fmt: skip
    """Plot the contours of a function of two variables and the paths of runs made with `trace="x"`.

    A path (for a batch, one per row) starts at a dot and ends at a cross; stars are the known minimisers.
    Contour levels are quantiles of f, so that the bands have equal area.

    Parameters
    ----------
    fun : callable
        f of points of shape (..., 2), such as `steepen.functions["branin"]`.
    bounds : array of shape (2, 2), optional
        (low, high) of each coordinate; by default a box around the paths.
    heat : bool
        Whether to colour the background by ‖∇f‖ (from `fun.grad`).
    points : int
        The number of grid points per side.

    Examples
    --------
    >>> import steepen as st
    >>> f = st.functions["booth"]
    >>> res = st.minimize(f, [0.0, 0.0], method="gd", step=0.05, trace="x")
    >>> path = trajectories(f, {"gd": res}).axes[0].lines[0]
    >>> bool((path.get_xydata() == res.trace.x).all())
    True
    """
    paths = [(label, _paths(label, trace), style) for label, trace, style in _styled(results)]
    every = [path for _, group, _ in paths for path in group]
    box = _box(fun, every) if bounds is None else rectangle("bounds", bounds)
    canvas = canvas_of(ax)
    _ground(canvas, fun, box, points, heat)
    for label, group, style in paths:
        for i, path in enumerate(group):
            crowded = len(path) > 60 or len(group) > 20
            canvas.plot(
                *path.T, label=None if i else label, lw=1.0 if len(group) > 5 else 1.6,
                marker=None if crowded else ".", ms=5, zorder=3, **style,
            )  # fmt: skip
            ends: dict[str, Any] = {"color": style["color"], "zorder": 4, "lw": 0, "mec": "white", "mew": 0.7}
            canvas.plot(*path[0], marker="o", ms=7, **ends)
            canvas.plot(*path[-1], marker="X", ms=7, **ends)
    minima = getattr(fun, "minima", None)
    if minima is not None:
        canvas.plot(*np.asarray(minima).T, lw=0, marker="*", ms=16, color="white", mec="black", zorder=2.5)
    canvas.set(xlim=box[0], ylim=box[1], xlabel="x₁", ylabel="x₂")
    finish(canvas, grid=False)
    return canvas.figure


def overview(fun: Any, results: Mapping[str, Run]) -> Figure:
    """Plot runs on a test function: convergence and, in 2-D, the paths.

    For batches of more than five rows the paths are left out.

    Examples
    --------
    >>> import steepen as st
    >>> f = st.functions["booth"]
    >>> res = st.minimize(f, [0.0, 0.0], method="gd", step=0.05, trace="x")
    >>> len(overview(f, {"gd": res}).axes)
    2
    """
    if not hasattr(fun, "title"):
        raise TypeError(f"fun: expected a test function, with n, fmin and title; got {fun!r}")
    traces = [trace for _, trace, _ in _styled(results)]
    few = all(trace.length is None or len(trace.length) <= 5 for trace in traces)
    flat = fun.n == 2 and few and all(trace.x is not None for trace in traces)
    figure = blank(10 if flat else 6)
    axes = figure.subplots(1, 1 + flat, squeeze=False)[0]
    convergence(results, fmin=fun.fmin, ax=axes[-1])
    if flat:
        trajectories(fun, results, ax=axes[0])
        axes[0].get_legend().remove()  # the other panel has the same
    figure.suptitle(f"{fun.title}, n = {fun.n}", fontsize="medium")
    return figure


def _trace(run: Run) -> Trace:
    trace: Any = run.trace if isinstance(run, Result) else run
    if not isinstance(trace, Trace):
        raise TypeError(f"results: expected runs made without trace=False, got a {type(run).__name__}")
    return trace


def _styled(results: Mapping[str, Run]) -> Iterator[tuple[str, Trace, dict[str, Any]]]:
    """Yield the runs with their line styles: one colour per method, another dash for each further run."""
    if isinstance(results, Result) or not isinstance(results, Mapping) or not results:
        raise ValueError(f"results: expected a dict of one or more runs, got a {type(results).__name__}")
    seen: dict[str, int] = {}
    for label, run in results.items():
        name = run.method if isinstance(run, Result) else label
        key = name if name in COLOURS else ""
        count = seen[key] = seen.get(key, -1) + 1
        own = _DASH.get(key, "-")
        dashes = [own, *(dash for dash in _DASHES if dash != own)]
        again = count if key else count // len(_OTHERS)
        colour = COLOURS[key] if key else _OTHERS[count % len(_OTHERS)]
        yield label, _trace(run), {"color": colour, "ls": dashes[again % len(dashes)]}


def _quartiles(trace: Trace, column: str) -> tuple[NDArray[Any], Floats]:
    """Return the values in `column`, and the quartiles of f over the rows at each."""
    assert trace.length is not None
    rows = [trace.row(b) for b in range(len(trace.length))]
    spent: NDArray[Any] = np.unique(np.concatenate([getattr(row, column) for row in rows]))
    spent = spent[np.linspace(0, len(spent) - 1, min(len(spent), 500)).astype(int)]
    reached = [row.f[np.searchsorted(getattr(row, column), spent, side="right") - 1] for row in rows]
    ranked = np.where(np.isfinite(reached), reached, np.inf)  # what is not finite counts as worst
    # this method averages no two values
    return spent, np.quantile(ranked, [0.25, 0.5, 0.75], axis=0, method="inverted_cdf")


def _paths(label: str, trace: Trace) -> list[Floats]:
    if trace.x is None or trace.x.shape[-1] != 2:
        raise ValueError(f'results: {label!r} has no 2-D path; run in two variables with trace="x"')
    if trace.length is None:
        return [trace.x]
    return [trace.x[:end, b] for b, end in enumerate(trace.length)]


def _box(fun: Any, paths: list[Floats]) -> Floats:
    """Return a box around the paths, its sides within a factor of 2, not far beyond the function's bounds."""
    x = np.concatenate(paths)
    x = x[np.isfinite(x).all(axis=1)]
    own = getattr(fun, "bounds", None)
    if own is not None:  # a diverging run would dwarf all others
        corners = np.concatenate([own.T, [path[0] for path in paths]])
        low, high = corners.min(axis=0), corners.max(axis=0)
        x = np.clip(x, low - 0.1 * (high - low), high + 0.1 * (high - low))
    low, high = x.min(axis=0), x.max(axis=0)
    half = np.maximum(high - low, 1e-3 * np.maximum(1.0, np.abs(high))) * 0.65
    half = np.maximum(half, half.max() / 2)
    middle = (low + high) / 2
    return np.stack([middle - half, middle + half], axis=1)


def _ground(canvas: Any, fun: Any, box: Floats, points: int, heat: bool) -> None:
    whole("points", points, 2)
    if heat and not hasattr(fun, "grad"):
        raise TypeError(f"heat: expected a fun with its gradient, fun.grad; got {fun!r}")
    x, y = np.linspace(box[:, 0], box[:, 1], points).T
    grid: Floats = np.empty((points, points, 2))
    grid[..., 0], grid[..., 1] = x, y[:, None]
    with np.errstate(all="ignore"):
        z = np.asarray(fun(grid), dtype=float)
        if z.shape != (points, points):
            raise ValueError(f"fun: expected values of shape {(points, points)} on a grid, got {z.shape}")
        g = np.log10(np.linalg.norm(fun.grad(grid), axis=-1)) if heat else None
    if g is not None:
        colours = load("matplotlib.colors", "plotting", extra="plot")
        pale = colours.LinearSegmentedColormap.from_list("pale", ["white", "#f3e3c3", "#cdb4db", "#a58fc6"])
        mesh = canvas.pcolormesh(x, y, np.ma.masked_invalid(g), cmap=pale, shading="auto", rasterized=True)
        canvas.figure.colorbar(mesh, ax=canvas, label="log₁₀ ‖∇f‖")
    known = z[np.isfinite(z)]
    levels = np.unique(np.quantile(known, np.linspace(0.005, 0.995, 18))) if known.size else known
    if len(levels) > 1:
        if not heat:
            shades = np.linspace(_LOW, _HIGH, len(levels) + 1)
            canvas.contourf(x, y, z, levels=levels, colors=shades, extend="both").set_rasterized(True)
        canvas.contour(x, y, z, levels=levels, colors="0.6", linewidths=0.5, linestyles="-")
