"""`reproduce`, for users and the command: runs the paper's items, writes their files and page to a folder."""

from __future__ import annotations

import csv
import importlib
import io
import platform
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .._tools.bar import item_bar
from .._tools.check import one_of
from .._tools.files import make_folder, write_whole
from .._tools.jobs import read_head, write_lines
from .._tools.optional import load
from .._tools.version import version
from . import (
    algorithms,
    artificial_points,
    extensions,
    fig_convergence,
    fig_egr,
    fig_quasi_newton,
    fig_surfaces,
    lemma1,
    quadratic,
    table1,
    theorem1,
    tuned,
)
from ._figures import narrow, save_once
from ._items import EXPLORER, WORDS, Item, Outcome, Report
from .explorer import explore
from .report import NARROW, REPORT, page

_RUNS: Mapping[str, Callable[[], Outcome]] = {
    "fig-surfaces": fig_surfaces.run,
    "lemma1": lemma1.run,
    "fig-ascent": lemma1.ascent,
    "algorithms": algorithms.run,
    "theorem1": theorem1.run,
    "quadratic": quadratic.run,
    "table1": table1.run,
    "fig-convergence": fig_convergence.run,
    "equal-cost": extensions.equal_cost,
    "tuned": tuned.run,
    "lam-schedules": extensions.lam_schedules,
    "fig-quasi-newton": fig_quasi_newton.run,
    "fig-quasi-newton-sweep": fig_quasi_newton.sweep,
    "fig-egr": fig_egr.run,
    "artificial-points": artificial_points.run,
    "flat-minima": artificial_points.flat_minima,
    "other-penalties": extensions.other_penalties,
    "negative-lam": extensions.negative_lam,
}


ITEMS: Mapping[str, Item] = {
    name: Item(name, run=run, **{part: WORDS["items"][name][part] for part in Item._fields[1:5]})
    for name, run in _RUNS.items()
}
"""The items in the paper's order, by name; their text is in page.toml."""

RESULTS = "results.jsonl"
"""The claims, one per line, for `steepen.load_results`."""


def reproduce(
    out: str | Path,
    only: str | Sequence[str] | None = None,
    *,
    force: bool = False,
    progress: bool = False,
    home: str | None = None,
) -> Report:
    """Reproduce the paper and write a report.

    The folder then contains `report.html` (the report, with figures embedded), `explore.html` (the explorer),
    `results.jsonl` (versions and claims, for `steepen.load_results`), `figures/` (PNG and SVG), `tables/`
    (CSV) and `traces/` (CSV).

    Parameters
    ----------
    out : path
        The output folder, created if missing; the files of an earlier run are replaced.
    only : str or sequence of str, optional
        The items to run, from `ITEMS`; a string may name several, separated by commas. By default all.
    force : bool
        Write even if the folder contains other files.
    home : str, optional
        URL of the documentation, relative to the folder: page and explorer then link there.

    Examples
    --------
    >>> from steepen.paper import reproduce
    >>> reproduce("out", only="fig-surface")
    Traceback (most recent call last):
    ValueError: only: 'fig-surface' is not known; did you mean 'fig-surfaces'?
    """
    names = _names(only)
    load("matplotlib", "reproduce", extra="paper")
    load("pandas", "reproduce", extra="paper")
    made: dict[Item, Outcome] = {}
    with item_bar(progress, len(names)) as show:
        folder = _folder(out, force)
        for item in (ITEMS[name] for name in names):
            show(item.title)
            start = time.perf_counter()
            try:
                made[item] = item.run()
            except Exception as error:  # a ValueError here is not about the caller's arguments
                raise RuntimeError(f"the item {item.name} failed: {error}") from error
            _save(made[item], folder)
            made[item].seconds = time.perf_counter() - start
    report, versions = Report(folder, made), _versions()
    _write_results(report, versions)
    explore(out=folder / EXPLORER, home=home, report=REPORT)
    missing = [name for name in ITEMS if name not in names]
    _write_text(report.page, page(report, missing, versions, home))
    return report


def _names(only: str | Sequence[str] | None) -> list[str]:
    """Check the names, and return them in the paper's order."""
    if only is None:
        return list(ITEMS)
    parts = only.split(",") if isinstance(only, str) else map(str, only)
    wanted = [name for name in map(str.strip, parts) if name]
    for name in wanted:
        if name not in ITEMS and (named := _by_title(name)):
            raise ValueError(f"only: {name!r} is not the name of an item; use {named}")
        one_of("only", name, ITEMS)
    if not wanted:
        raise ValueError(f"only: expected at least one name, got {only!r}")
    return [name for name in ITEMS if name in wanted]


def _by_title(said: str) -> str:
    """Return the items that the paper calls so, such as Fig. 5."""
    spoken, *titles = (re.sub(r"\W", "", text).lower() for text in (said, *(i.title for i in ITEMS.values())))
    spoken = spoken.replace("figure", "fig")
    named = [name for name, title in zip(ITEMS, titles, strict=True) if title.startswith(spoken)]
    return " or ".join(map(repr, named))


def _folder(out: str | Path, force: bool) -> Path:
    """Create the folder, or raise ValueError before any work if it cannot be used."""
    folder, parts = Path(out), ("figures", "tables", "traces")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"out: expected a folder, but {str(out)!r} is a file")
    # an interrupted run leaves our folders without a page
    others = folder.is_dir() and any(path.name not in parts for path in folder.iterdir())
    if others and not force and not _is_ours(folder / RESULTS):
        raise ValueError(
            f"out: the folder {str(out)!r} holds something else; name another one, or use force=True"
        )
    for part in ("", *parts):
        make_folder("out", folder / part)
    return folder


def _is_ours(path: Path) -> bool:
    """Return whether a file holds the results of an earlier report."""
    try:
        return read_head("out", path).get("results") == "paper"
    except (ValueError, OSError):
        return False


def _versions() -> dict[str, str]:
    packages = {name: importlib.import_module(name).__version__ for name in ("numpy", "scipy", "matplotlib")}
    return {"steepen": version(), "python": platform.python_version()} | packages


def _save(outcome: Outcome, folder: Path) -> None:
    """Write the pictures, tables and traces of an item."""
    for name, (figure, _) in outcome.pictures.items():
        save_once(figure, folder / f"figures/{name}.png")
        figure.set_layout_engine("none")  # the layout is computed
        save_once(figure, folder / f"figures/{name}.svg")
        narrow(figure)
        save_once(figure, folder / f"figures/{name}{NARROW}.svg")
    for name, table in outcome.tables.items():
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows([table.columns, *table.rows])
        _write_text(folder / f"tables/{name}.csv", text.getvalue())
    for name, trace in outcome.traces.items():
        path = folder / f"traces/{name}.csv"
        trace.to_pandas().to_csv(path, index=False)  # pyright: ignore[reportUnknownMemberType]


def _write_results(report: Report, versions: Mapping[str, str]) -> None:
    about = {"key": ["item", "claim"], "results": "paper", "versions": versions}
    rows = [
        {"item": item.name, "claim": claim.text, "paper": claim.said, "ours": claim.ours,
         "basis": claim.basis, "verdict": claim.verdict}
        for item, outcome in report.made.items()
        for claim in outcome.claims
    ]  # fmt: skip
    write_lines(report.folder / RESULTS, about, rows)


def _write_text(path: Path, text: str) -> None:
    write_whole(path, lambda file: file.write(text.encode()))
