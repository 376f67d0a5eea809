"""The progress bar: rich, and only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from .._tools.optional import load
from ..budget import Budget
from .eager import Loop


@contextmanager
def progress_bar(wanted: bool, budget: Budget) -> Iterator[Callable[[Loop], object] | None]:
    """Yield a watcher that draws the bar, or None if standard error is not a terminal."""
    console = load("rich.console", "progress=True", extra="cli").Console(file=sys.stderr) if wanted else None
    if console is None or not console.is_terminal:
        yield None
        return
    rich = load("rich.progress", "progress=True", extra="cli")
    columns = (rich.BarColumn(), rich.MofNCompleteColumn(), rich.TimeElapsedColumn())
    said = rich.TextColumn("{task.description}")
    limits = (budget.grads, "gradients"), (budget.iters, "iterations"), (budget.evals, "values")
    total, unit = next((limit for limit in limits if limit[0] is not None), (None, "iterations"))
    with rich.Progress(said, *columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)

        def show(loop: Loop) -> None:
            c = loop.solver_state
            spent = {"gradients": loop.counter.njev, "values": loop.counter.nfev}.get(unit, c.k)
            lowest = float(np.min(c.best.f))
            bar.update(task, completed=int(np.max(spent)), description=f"{unit}, f = {lowest:.6g}")

        yield show
