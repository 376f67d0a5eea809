"""Save figures atomically and reproducible byte for byte, for users, the command `sweep` and the paper."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from .._tools.files import write_whole
from .._tools.optional import load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".pdf")
"""The file types that `save` writes."""


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure atomically as `.png`, `.svg` or `.pdf`; the same calls give the same bytes.

    Examples
    --------
    >>> import pathlib, tempfile, steepen as st
    >>> figure = st.plot.landscape(st.functions["levy"].at(n=1), 0.2, (-10.0, -5.0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(figure, pathlib.Path(folder, "levy.png"))
    ...     pathlib.Path(folder, "levy.png").read_bytes()[1:4]
    b'PNG'
    """
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"path: expected a file name ending in {', '.join(SUFFIXES)}; got {str(path)!r}")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"path: folder {str(target.parent)!r} does not exist; cannot write {target.name!r}"
        )
    dates: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}  # none, for equal bytes
    how = {"format": suffix[1:], "dpi": 150, "metadata": dates.get(suffix)}
    draw = cast(Any, figure).savefig
    with load("matplotlib", "plotting", extra="plot").rc_context({"svg.hashsalt": "steepen"}):
        write_whole(target, lambda file: draw(file, **how))
