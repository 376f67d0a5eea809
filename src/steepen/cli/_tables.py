"""What the command shows: plain aligned text, fitted to the terminal if there is one."""

from __future__ import annotations

import json
import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import typer
from numpy.typing import ArrayLike
from rich.console import Console

from .._core.result import Result, Status
from ..functions import Function

Record = dict[str, Any]


class Column(NamedTuple):
    """One column of a table: numbers are aligned to the right, words to the left."""

    title: str
    cells: Sequence[str]
    right: bool = True

    @property
    def width(self) -> int:
        """How many characters the column takes."""
        return max(map(len, (self.title, *self.cells)))

    def fit(self, text: str) -> str:
        """Pad a cell to the width of the column."""
        return text.rjust(self.width) if self.right else text.ljust(self.width)


def _width(columns: Sequence[Column]) -> int:
    return sum(c.width + 2 for c in columns) - 2


class Page:
    """Standard output: as wide as the terminal, or of unlimited width if it is not one."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, markup=False, emoji=False)
        self.terminal = self._console.is_terminal
        self.width = self._console.width if self.terminal else 10**9

    def line(self, text: str = "", style: str = "") -> None:
        """Write a line."""
        self._console.print(text.rstrip(), style=style, soft_wrap=True)

    def note(self, text: str, style: str = "dim") -> None:
        """Write a sentence, on as many lines as it needs."""
        for line in textwrap.wrap(text, min(self.width, 10**6)):
            self.line(line, style)

    def table(
        self, columns: Sequence[Column], styles: Sequence[str] = (), groups: Sequence[str] = ()
    ) -> None:
        """Write columns; those that do not fit follow below, beside the first one repeated.

        `styles` and `groups` have one entry per row; the name of a group is written above its first row.
        """
        key, block, rest = columns[0], [columns[0]], list(columns[1:])
        # the second one is taken in any case, and wrapped by a terminal that has no room for it
        while rest and (len(block) == 1 or _width([*block, rest[0]]) <= self.width):
            block.append(rest.pop(0))
        self.line("  ".join(c.fit(c.title) for c in block), "bold")
        for i in range(len(key.cells)):
            if groups and (i == 0 or groups[i] != groups[i - 1]):
                self.line()
                self.line(groups[i], "bold")
            self.line("  ".join(c.fit(c.cells[i]) for c in block), styles[i] if styles else "")
        if rest:
            self.line()
            self.table([key, *rest], styles, groups)

    def pairs(self, items: Sequence[tuple[str, str]]) -> None:
        """Write names and values, one per line."""
        indent = max(len(name) for name, _ in items) + 2
        for name, value in items:
            room = max(self.width - indent, 20)
            first, *more = textwrap.wrap(value, min(room, 10**6)) or [""]
            self.line(name.ljust(indent) + first)
            for line in more:
                self.line(" " * indent + line)


def record(fun: Function, result: Result) -> Record:
    """Return what is reported of a single run; ∇f at its end is evaluated here and not counted."""
    x = np.asarray(result.x)
    with np.errstate(all="ignore"):
        gnorm = float(np.linalg.norm(fun.grad(x)))
        distance = float(np.linalg.norm(fun.minima - x, axis=1).min())
    f: list[float] = [] if result.trace is None else result.trace.f[:2].tolist()
    first = (f[0] - f[1]) / abs(f[0]) * 100 if len(f) > 1 and f[0] else math.nan
    low, high = fun.bounds.T
    return {
        "method": result.method,
        "status": result.status.name,
        "success": bool(result.success),
        "message": result.message,
        "fun": float(result.fun),
        "gap": float(result.fun) - fun.fmin,
        "gnorm": gnorm,
        "distance": distance,
        "first_step": first,
        "x": x.tolist(),
        "inside": bool(((low <= x) & (x <= high)).all()),
        "nit": result.nit,
        "nfev": result.nfev,
        "njev": result.njev,
        "nhvp": result.nhvp,
        "nhev": result.nhev,
        "best": float(result.best.fun),
    }


MEDIANS = ("fun", "gap", "gnorm", "distance", "first_step", "nit", "nfev", "njev", "nhvp", "nhev")


def summary(fun: Function, result: Result) -> Record:
    """Return what `compare` reports of a method: medians over its starts, and each run."""
    batch = np.ndim(result.status) > 0
    rows = [result.row(b) for b in range(len(result.status))] if batch else [result]
    runs = [record(fun, row) for row in rows]
    median = {name: float(np.median([run[name] for run in runs])) for name in MEDIANS}
    for run in runs:
        del run["method"]
    return {"method": result.method, "seconds": result.seconds, "median": median, "runs": runs}


def best(summaries: Sequence[Record]) -> Record:
    """Return the method with the lowest f; in a tie, the one with the fewest gradients."""

    def rank(item: Record) -> tuple[float, float]:
        gap = item["median"]["gap"]
        return (gap if math.isfinite(gap) else math.inf), item["median"]["njev"]

    return min(summaries, key=rank)


def show_run(page: Page, fun: Function, x0: ArrayLike, result: Result, run: Record) -> None:
    """Write the result of one run."""
    page.note(f"{fun.title}, n = {fun.n}, {result.method} from {point(x0)}", "bold")
    nearest = fun.minima[np.abs(fun.minima - result.x).sum(axis=1).argmin()]
    spent = [count(run["nit"], "iteration"), count(run["njev"], "gradient"), count(run["nfev"], "value")]
    spent += [
        count(run[name], of) for name, of in (("nhvp", "H·v product"), ("nhev", "Hessian")) if run[name]
    ]
    items = [
        ("f", short(run["fun"], 10)),
        ("f − f*", short(run["gap"])),
        ("‖∇f‖", short(run["gnorm"])),
        ("x", point(result.x) + ("" if run["inside"] else ", outside the bounds")),
        ("distance", f"{short(run['distance'])} to the minimiser {point(nearest)}"),
        ("status", f"{words(run['status'])}: {run['message']}"),
        ("spent", ", ".join(spent)),
        ("time", duration(result.seconds)),
    ]
    if run["nit"]:
        items.insert(5, ("first step", f"lowered f by {percent(run['first_step'])} %"))
    if run["best"] < run["fun"]:
        items.insert(1, ("lowest f", f"{short(run['best'], 10)}, seen on the way"))
    page.pairs(items)


def show_comparison(
    page: Page, fun: Function, x0: np.ndarray[Any, Any], summaries: Sequence[Record], limits: str
) -> None:
    """Write one row per method, with the best marked."""
    start = f"from {point(x0)}" if x0.ndim == 1 else f"medians over {len(x0)} random starts"
    page.note(f"{fun.title}, n = {fun.n}, {start}, {limits}", "bold")
    winner = best(summaries)

    def numbers(name: str, digits: int = 3) -> list[str]:
        return [short(item["median"][name], digits) for item in summaries]

    page.table(
        [
            Column("method", [item["method"] + "*" * (item is winner) for item in summaries], right=False),
            Column("f − f*", numbers("gap")),
            Column("‖∇f‖", numbers("gnorm")),
            Column("1st %", [percent(item["median"]["first_step"]) for item in summaries]),
            Column("grads", numbers("njev", 9)),
            Column("values", numbers("nfev", 9)),
            Column("iters", numbers("nit", 9)),
            Column("status", [_statuses(item["runs"]) for item in summaries], right=False),
            Column("time", [duration(item["seconds"]) for item in summaries]),
        ],
        ["green" if item is winner else "" for item in summaries],
    )
    page.note("*: the lowest f. 1st %: by how much the first step lowered f.")
    outside = [item["method"] for item in summaries if not all(run["inside"] for run in item["runs"])]
    if outside:
        page.note(f"Ended outside the bounds, where f* need not be the minimum: {', '.join(outside)}")


def show_functions(page: Page, all_functions: Sequence[Function]) -> None:
    """Write all test functions: under their groups on a terminal, one whole line each elsewhere."""
    groups = [f.group for f in all_functions]
    columns = {
        title: Column(title, cells, right=title in {"n", "minimum"})
        for title, cells in {
            "name": [f.name for f in all_functions],
            "title": [f.title for f in all_functions],
            "group": groups,
            "n": ["any" if f.any_n else str(f.n) for f in all_functions],
            "minimum": [short(f.fmin, 6) for f in all_functions],
            "bounds": [box(f) for f in all_functions],
        }.items()
    }
    if not page.terminal:
        page.table(list(columns.values()))
        return
    del columns["group"]
    if _width(list(columns.values())) > page.width:
        del columns["title"]  # much like the name
    page.table(list(columns.values()), groups=groups)
    page.line()
    page.note("Where n is any, the minimum is that for the default n; `steepen functions NAME` tells it.")


def show_function(page: Page, fun: Function) -> None:
    """Describe one test function."""
    page.line(f"{fun.title} ({fun.name}), {fun.group}", "bold")
    minimisers = [point(x, 17) for x in fun.minima]
    page.pairs(
        [
            ("n", f"{fun.n} (any, with --n)" if fun.any_n else str(fun.n)),
            ("bounds", box(fun)),
            ("minimum", short(fun.fmin, 17)),
            ("minimisers" if len(minimisers) > 1 else "minimiser", minimisers[0]),
            *(("", text) for text in minimisers[1:]),
        ]
    )


def short(value: float, digits: int = 3) -> str:
    """Write a number to this many digits; a dash stands for NaN.

    Examples
    --------
    >>> short(0.000123456), short(1.0), short(float("nan"))
    ('0.000123', '1', '–')
    """
    if math.isnan(value):
        return "–"
    if digits >= 17:
        return repr(value + 0.0).removesuffix(".0")
    return f"{value + 0.0:.{digits}g}"


def percent(value: float) -> str:
    """Write a percentage to two decimals, as the paper does.

    Examples
    --------
    >>> percent(87.071), percent(-1.5e9), percent(float("nan"))
    ('87.07', '-1.5e+09', '–')
    """
    return short(value, 4) if math.isnan(value) or abs(value) >= 1e5 else f"{value:.2f}"


def point(x: ArrayLike, digits: int = 6) -> str:
    """Write a point; only the ends of a long one.

    Examples
    --------
    >>> point([1.0, 2.5]), point(range(100))
    ('(1, 2.5)', '(0, 1, 2, …, 99)')
    """
    values = np.asarray(x, dtype=float).tolist()
    texts = [short(value, digits) for value in values]
    if len(texts) > 8:
        texts = [*texts[:3], "…", texts[-1]]
    return f"({', '.join(texts)})"


def box(fun: Function) -> str:
    """Write the bounds: once if all coordinates have the same."""
    sides = [f"{low:g}..{high:g}" for low, high in fun.bounds.tolist()]
    return sides[0] if len(set(sides)) == 1 else " × ".join(sides)


def words(status: str) -> str:
    """Write a status as words, as short as the titles of the columns.

    Examples
    --------
    >>> words("MAX_GRADIENTS"), words("NO_DESCENT")
    ('max grads', 'no descent')
    """
    text = status.lower().replace("_", " ")
    for long, short in (("gradients", "grads"), ("evaluations", "values"), ("iterations", "iters")):
        text = text.replace(long, short)
    return text


def duration(seconds: float) -> str:
    """Write a time."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def count(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number} {noun}" + "s" * (number != 1)


def failures(runs: Sequence[Record], limited: bool) -> list[str]:
    """Return how runs failed; a spent budget is a failure only if nobody set it."""
    statuses = sorted({Status[run["status"]] for run in runs})
    sentences = [status.message for status in statuses if status >= Status.INTERRUPTED]
    if Status.MAX_ITERATIONS in statuses and not limited:
        sentences.append("Not converged within the default limit; give another with --iters.")
    return sentences


def print_json(document: Any) -> None:
    """Print a document: null for what is not a finite number, and ASCII, which every terminal can show."""
    typer.echo(json.dumps(_finite(document), allow_nan=False, indent=2))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _statuses(runs: Sequence[Record]) -> str:
    ((status, number),) = Counter(run["status"] for run in runs).most_common(1)
    return words(status) + (f" {number}/{len(runs)}" if len(runs) > 1 else "")
