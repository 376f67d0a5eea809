"""For the items and `reproduce`: legends and phone layout, changing figures in place; writes PNG and SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .._tools.files import write_whole
from .._tools.optional import load

_PHONE = 4.4  # inches, so that the letters are as large as the text around the figure


def narrow(figure: Any) -> None:
    """Rearrange a figure in place for a phone screen, with its panels in one or two columns.

    Examples
    --------
    >>> from steepen import plot
    >>> figure = plot.blank(10)
    >>> _ = figure.subplots(1, 3)
    >>> narrow(figure)
    >>> [axes.get_subplotspec().rowspan.start for axes in figure.axes], float(figure.get_figwidth())
    ([0, 1, 2], 4.4)
    """
    panels = [axes for axes in figure.axes if axes.get_subplotspec() is not None]
    columns = 2 if len(panels) > 3 else 1
    rows = max(1, -(-len(panels) // columns))
    grid = figure.add_gridspec(rows, columns)
    for i, axes in enumerate(panels):
        axes.set_subplotspec(grid[divmod(i, columns)])
        if columns > 1:
            axes.title.set_fontsize("small")
    if figure.legends:
        figure.legends[0].remove()
        legend_above(figure, columns=2)
    if panels:
        figure.set_layout_engine("constrained")
    tall = figure.get_figheight() if len(panels) == 1 and figure.get_figheight() > 5 else 0
    figure.set_size_inches(_PHONE, max(tall, rows * (3.3 if columns == 1 else 2.3)))


def legend_above(figure: Any, columns: int = 4) -> None:
    """Put the legend of the first panel above all panels, where it covers no curve."""
    for axes in figure.axes:
        if axes.get_legend() is not None:
            axes.get_legend().remove()
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False)


def say_start(axes: Any) -> None:
    """Add to the label of the y-axis where the axis starts.

    Examples
    --------
    >>> from steepen import plot
    >>> axes = plot.blank(4).subplots()
    >>> _ = axes.set(ylim=(0.97, 1.0), ylabel="rate")
    >>> say_start(axes)
    >>> axes.get_ylabel()
    'rate (axis starts at 0.97)'
    """
    start = f"axis starts at {axes.get_ylim()[0]:.4g}".replace("-", "−")
    axes.set_ylabel(f"{axes.get_ylabel()} ({start})" if axes.get_ylabel() else start)


def save_once(figure: Any, path: Path) -> None:
    """Write a figure as PNG or SVG, with text kept as text, but render it once instead of twice.

    The figure keeps a canvas of this format: use it only for figures that are not shown elsewhere.
    """
    png = path.suffix == ".png"
    canvas = load(f"matplotlib.backends.backend_{'agg' if png else 'svg'}", "plotting", extra="plot")
    page = canvas.FigureCanvas(figure)
    draw, metadata = (page.print_png, None) if png else (page.print_svg, {"Date": None})  # for equal bytes
    letters = {"svg.hashsalt": "steepen", "svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"]}
    figure.set_dpi(150)
    with load("matplotlib", "plotting", extra="plot").rc_context(letters):  # as text: half the size
        write_whole(path, lambda file: draw(file, metadata=metadata))
