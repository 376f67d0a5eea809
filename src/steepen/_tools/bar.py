"""Progress bar over items, with rich; shown only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .optional import load


@contextmanager
def item_bar(wanted: bool, total: int, *, after: bool = False) -> Iterator[Callable[[str], None]]:
    """Yield a function that advances the bar; a no-op if standard error is not a terminal.

    Call it before each item, or after each item if `after` is true.
    """
    rich: Any = wanted and load("rich.progress", "progress=True", extra="cli")
    console: Any = wanted and load("rich.console", "progress=True", extra="cli").Console(file=sys.stderr)
    if not (console and console.is_terminal):
        yield lambda title: None
        return
    columns = (rich.BarColumn(20), rich.MofNCompleteColumn(), rich.TimeElapsedColumn())
    said = rich.TextColumn("{task.description}")
    with rich.Progress(*columns, said, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        done = int(after)

        def show(title: str) -> None:
            nonlocal done
            bar.update(task, completed=done, description=title)
            done += 1

        yield show
