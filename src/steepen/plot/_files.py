"""Figures as files, written atomically and reproducible byte for byte."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .._tools.files import write_whole
from .._tools.optional import load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
"""The file types that `save` writes."""

_DPI = 150
_DATES: Mapping[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}  # none, for equal bytes


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure atomically as `.png`, `.svg` or `.pdf`; the same figure gives the same bytes.

    Examples
    --------
    >>> import pathlib, tempfile, steepen as st
    >>> figure = st.plot.landscape(st.functions["levy"].at(n=1), 0.2, (-10.0, -5.0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(figure, pathlib.Path(folder, "levy.png"))
    ...     pathlib.Path(folder, "levy.png").read_bytes()[1:4]
    b'PNG'
    """
    target, suffix = _target(path)
    how = {"format": suffix[1:], "dpi": _DPI, "metadata": _DATES.get(suffix)}
    draw = cast(Any, figure).savefig
    with load("matplotlib", "plotting", extra="plot").rc_context({"svg.hashsalt": "steepen"}):
        write_whole(target, lambda file: draw(file, **how))


def save_once(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure as `save` does, with text kept as text in SVG, but render it once instead of twice.

    The figure keeps a canvas of this format: use it only for figures that are not shown elsewhere.
    """
    target, suffix = _target(path)
    backend = f"matplotlib.backends.backend_{'agg' if suffix == '.png' else suffix[1:]}"
    canvas = load(backend, "plotting", extra="plot").FigureCanvas(figure)
    draw = getattr(canvas, f"print_{suffix[1:]}")
    letters = {"svg.hashsalt": "steepen", "svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"]}
    figure.set_dpi(_DPI)
    with load("matplotlib", "plotting", extra="plot").rc_context(letters):  # as text: half the size
        write_whole(target, lambda file: draw(file, metadata=_DATES.get(suffix)))


def _target(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """Return the path and its suffix, or raise an error if no figure can be written there."""
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"path: expected a file name ending in {', '.join(SUFFIXES)}; got {str(path)!r}")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"path: folder {str(target.parent)!r} does not exist; cannot write {target.name!r}"
        )
    return target, suffix
