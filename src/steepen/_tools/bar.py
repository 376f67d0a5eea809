"""Progress bar for jobs and the reproduction of the paper; rich, on stderr, only if that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .optional import load


@contextmanager
def item_bar(wanted: bool, total: int) -> Iterator[Callable[[str], None]]:
    """Yield a function that advances the bar to the next item, and shows its title."""
    if not wanted:
        yield lambda title: None
        return
    rich = load("rich.progress", "progress=True", extra="cli")
    console = load("rich.console", "progress=True", extra="cli").Console(stderr=True)
    columns = (rich.BarColumn(20), rich.MofNCompleteColumn(), rich.TimeElapsedColumn())
    said, hidden = rich.TextColumn("{task.description}"), not console.is_terminal
    with rich.Progress(*columns, said, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("", total=total)
        yield lambda title: bar.update(task, advance=1, description=title)
