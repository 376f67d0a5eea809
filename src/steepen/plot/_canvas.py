"""Colours of the methods, empty figures and their layout, for all plots; imports matplotlib when called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._tools.optional import load

COLOURS: Mapping[str, str] = {
    "gd": "#4d4d4d",
    "newton": "#009e73",
    "bfgs": "#0072b2",
    "dfp": "#56b4e9",
    "cgd": "#e69f00",
    "cgd-fd": "#d55e00",
    "cgd-bfgs": "#cc79a7",
    "cgd-dfp": "#661100",
    "cgd-auto": "#332288",
}
"""The colour of each method, the same in every plot; safe for colour-blind readers."""


def blank(width: float, height: float = 4) -> Any:
    """Return an empty figure of this width and height in inches."""
    module = load("matplotlib.figure", "plotting", extra="plot")
    return module.Figure(figsize=(width, height), layout="constrained")


def canvas_of(ax: Any) -> Any:
    """Return the axes given, or those of a new figure."""
    return blank(6).subplots() if ax is None else ax


def finish(canvas: Any, grid: bool = True) -> None:
    """Tidy up, and add the legend."""
    tidy(canvas, grid)
    canvas.legend(frameon=not grid, framealpha=0.85)


def tidy(canvas: Any, grid: bool = True) -> None:
    """Remove the top and right spines, and draw a pale grid under the data."""
    ticker = load("matplotlib.ticker", "plotting", extra="plot")
    for axis in (canvas.xaxis, canvas.yaxis):
        if isinstance(axis.get_major_formatter(), ticker.LogFormatterSciNotation):
            axis.set_major_formatter(_powers(ticker))
            axis.set_minor_formatter(_powers(ticker))
    if grid:
        canvas.grid(color="0.9", lw=0.6)
        canvas.set_axisbelow(True)
    canvas.spines[["top", "right"]].set_visible(False)


def _powers(ticker: Any) -> Any:
    """Return a formatter that writes 10⁻² in plain Unicode, which renders far faster than mathtext."""

    class Powers(ticker.LogFormatterSciNotation):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return _plain(ticker.LogFormatterSciNotation.__call__(self, x, pos))

    return Powers()


def _plain(text: str) -> str:
    r"""Rewrite mathtext powers in plain Unicode."""
    inner = text.strip("$").removeprefix(r"\mathdefault{").removesuffix("}").replace(r"\times", "×")
    number, _, power = inner.partition("^")
    return number + power.strip("{}").translate(_RAISED)


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
