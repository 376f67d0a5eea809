"""The bar that counts items: rich, and only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .optional import load


@contextmanager
def item_bar(wanted: bool, total: int) -> Iterator[Callable[[str], None]]:
    """Give what moves the bar on to the next item; it does nothing where standard error is no terminal."""
    if not wanted:
        yield lambda title: None
        return
    rich = load("rich.progress", "progress=True", extra="cli")
    console = load("rich.console", "progress=True", extra="cli").Console(file=sys.stderr)
    if not console.is_terminal:
        yield lambda title: None
        return
    columns = (
        rich.BarColumn(20),
        rich.MofNCompleteColumn(),
        rich.TimeElapsedColumn(),
        rich.TextColumn("{task.description}"),
    )
    with rich.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        begun = 0

        def show(title: str) -> None:
            nonlocal begun
            bar.update(task, completed=begun, description=title)
            begun += 1

        yield show
