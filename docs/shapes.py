"""The tables of `functions.md`, and a small picture of each test function, which the site's build draws.

`python docs/shapes.py` writes the tables; run it after a change to `steepen.functions`.
"""

import re
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import steepen as st
from steepen.functions import Function

PAGE = Path(__file__).with_name("functions.md")
TABLES = re.compile(r"(?<=<!-- tables -->\n).*(?=<!-- /tables -->)", re.DOTALL)
POINTS = 161  # a side of the grid


def shape(f: Function) -> Figure:
    """Draw f over its box: a curve of one variable, else a map whose dark is low and whose stars are minima.

    A function of more variables is cut through its first minimiser, along the first two. Shades follow the
    rank of f, not its size: half of the map is darker than the middle shade.
    """
    figure = Figure(figsize=(1.6, 1.2), dpi=200)
    ax = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    ax.set_axis_off()
    sides = [np.linspace(low, high, POINTS) for low, high in f.bounds[:2]]
    points = np.tile(f.minima[0], (*[POINTS] * len(sides), 1))
    points[..., :2] = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1)
    values = f(points)
    if f.n == 1:
        ax.plot(sides[0], values, color="#332288", lw=1.2)
        ax.plot(f.minima[:, 0], f(f.minima), "*", color="#cc3311", ms=6, clip_on=False)
        return figure
    order = np.sort(values, axis=None)
    rank = np.searchsorted(order, values) + np.searchsorted(order, values, side="right")
    ax.contourf(*sides, rank.T, levels=16, cmap="viridis")
    seen = f.minima if f.n == 2 else f.minima[:1]
    ax.plot(*seen[:, :2].T, "*", color="#ff7755", ms=6, mec="black", mew=0.4, clip_on=False)
    return figure


def row(f: Function) -> str:
    """Return the row of the table: title and name, n, box, f* and where it is."""
    least = f"{_number(f.fmin, '.8g')}{_if_it_varies(f, lambda g: g.fmin)}"
    return f"| {f.title} `{f.name}` | {_variables(f)} | {_box(f)} | {least} | {_where(f)} |"


def tables() -> str:
    """Return the tables, one for each group of the SFU library."""
    head = "| function | variables | search box | minimum f\\* | at x\\* |\n" + "|---" * 5 + "|\n"
    parts = []
    for group, members in groupby(st.functions.values(), key=_group):
        parts.append(f"## {group}\n{head}" + "\n".join(map(row, members)) + "\n")
    return "\n".join(parts) + "\n"


def _group(f: Function) -> str:
    if f.name == "quadratic":
        return "The paper's quadratic"
    return {"other": "Others", "steep ridges/drops": "Steep ridges and drops"}.get(
        f.group, f.group.capitalize()
    )


def _variables(f: Function) -> str:
    if not f.any_n:
        return str(f.n)
    return {"powell": "4, 8, …", "rosenbrock": "2 or more"}.get(f.name, "any")


def _number(value: float, form: str = ".5g") -> str:
    return f"{value + 0.0:{form}}".replace("-", "−")  # −0 is 0


def _if_it_varies(f: Function, part: Callable[[Function], object]) -> str:
    """Return " for n = 2", say, if a part of the function is another one in more variables."""
    varies = f.any_n and part(f) != part(f.at(2 * f.n))
    return f" for n = {f.n}" * varies


def _box(f: Function) -> str:
    if f.name == "quadratic":
        return "x\\* ± 10"
    if f.name == "trid":
        return "[−n², n²]"
    if f.name in ("perm-0", "perm-d"):
        return "[−n, n]"
    rows = list(dict.fromkeys(f"[{_number(low)},\u00a0{_number(high)}]" for low, high in f.bounds))
    return " × ".join(rows)


def _where(f: Function) -> str:
    if len(f.minima) > 1:
        return f"{len(f.minima)} points{_if_it_varies(f, lambda g: len(g.minima))}"
    x, same = f.minima[0], set(f.minima[0])
    if f.any_n and same == set(f.at(2 * f.n).minima[0]) and len(same) == 1:
        return f"({_number(x[0])}, …, {_number(x[0])})"
    text = ", ".join(map(_number, x))
    return f"({text}){_if_it_varies(f, lambda g: g.n)}" if f.n > 1 else text


def main() -> None:
    """Write the tables into the page."""
    PAGE.write_text(TABLES.sub(lambda _: tables(), PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
