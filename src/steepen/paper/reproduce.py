"""The runner: every item of the paper, its files, and the page, in one folder."""

from __future__ import annotations

import csv
import functools
import hashlib
import importlib
import io
import json
import platform
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from .. import __version__, plot
from .._tools.bar import item_bar
from .._tools.check import one_of
from .._tools.files import make_folder, write_whole
from .._tools.optional import load
from ._claims import Outcome, Table
from ._record import Item, Report, plain
from .report import EXPLORER, NARROW, REPORT, page

ITEMS: Mapping[str, str] = {
    "fig-surfaces": "steepen.paper.fig_surfaces",
    "lemma1": "steepen.paper.lemma1",
    "fig-ascent": "steepen.paper.fig_ascent",
    "algorithms": "steepen.paper.algorithms",
    "theorem1": "steepen.paper.theorem1",
    "quadratic": "steepen.paper.quadratic",
    "table1": "steepen.paper.table1",
    "fig-convergence": "steepen.paper.fig_convergence",
    "equal-cost": "steepen.paper.equal_cost",
    "tuned": "steepen.paper.tuned",
    "lam-schedules": "steepen.paper.lam_schedules",
    "fig-quasi-newton": "steepen.paper.fig_quasi_newton",
    "fig-quasi-newton-sweep": "steepen.paper.quasi_newton_sweep",
    "fig-egr": "steepen.paper.fig_egr",
    "artificial-points": "steepen.paper.artificial_points",
    "flat-minima": "steepen.paper.flat_minima",
    "other-penalties": "steepen.paper.other_penalties",
    "negative-lam": "steepen.paper.negative_lam",
}
"""The items in the paper's order: a name, and its module (NAME, TITLE, SECTION, SAYS, MATTERS, run())."""

_MADE_BY = "steepen reproduce"
_PARTS = ("figures", "tables", "traces")


def reproduce(
    out: str | Path,
    only: str | Sequence[str] | None = None,
    *,
    force: bool = False,
    progress: bool = False,
    home: str | None = None,
) -> Report:
    """Run the paper again and write a page about it.

    The folder then holds `report.html` (the page, with the pictures inside), `explore.html` (the explorer),
    `results.json` (versions, settings, claims, tables), `figures/` (PNG and SVG), `tables/` (CSV) and
    `traces/` (CSV). The page is written after every item, so an interrupted run leaves a page of what was
    done. Items that the same code and versions have already made in this folder are kept.

    Parameters
    ----------
    out : path
        The folder; it is created if missing.
    only : str or sequence of str, optional
        The items to run, from `ITEMS`; a string may name several, separated by commas. By default all.
    force : bool
        Redo existing items, and write even into a folder that holds something else.
    progress : bool
        Show a progress bar, if standard error is a terminal.
    home : str, optional
        Where the documentation lies, from the folder: page and explorer then link there.

    Returns
    -------
    Report
        The items asked for, with their claims. The page shows all that is in the folder.

    Examples
    --------
    >>> from steepen.paper import reproduce
    >>> reproduce("out", only="fig-surface")
    Traceback (most recent call last):
    ValueError: only: 'fig-surface' is not known; did you mean 'fig-surfaces'?
    """
    names = _names(only)
    load("matplotlib", "reproduce", extra="plot")
    with item_bar(progress, len(names)) as show:
        folder = _folder(out, force)
        present = _read(folder)
        kept = [] if force else [name for name in names if name in present]
        present = {name: item for name, item in present.items() if name in kept or name not in names}
        _write_report(folder, present, home)  # from here on the folder is ours
        _write_explorer(folder, home)
        for name in names:
            module = importlib.import_module(ITEMS[name])
            show(module.TITLE)
            if name not in present:
                with _ctrl_c_stops_the_item():
                    present[name] = _run(module, folder)
            _write_report(folder, present, home)
    return Report(folder, [present[name] for name in names], kept)


def _names(only: str | Sequence[str] | None) -> list[str]:
    """Check the names asked for, and put them in the paper's order."""
    if only is None:
        return list(ITEMS)
    parts = only.split(",") if isinstance(only, str) else map(str, only)
    wanted = [name for name in map(str.strip, parts) if name]
    for name in wanted:
        one_of("only", name, ITEMS)
    if not wanted:
        raise ValueError(f"only: expected at least one name, got {only!r}")
    return [name for name in ITEMS if name in wanted]


def _folder(out: str | Path, force: bool) -> Path:
    """Create the folder, or find out before any work why it cannot be used."""
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"out: expected a folder, but {str(out)!r} is a file")
    # our folders may be there without a record, if a run was killed at its start
    other = folder.is_dir() and any(path.name not in _PARTS for path in folder.rglob("*"))
    if other and not force and _document(folder) is None:
        raise ValueError(
            f"out: the folder {str(out)!r} holds something else; name another one, or use force=True"
        )
    for part in ("", *_PARTS):
        make_folder("out", folder / part)
    return folder


def _document(folder: Path) -> dict[str, Any] | None:
    """Return results.json; None if it is missing or not ours."""
    try:
        document = json.loads((folder / "results.json").read_text("utf-8"))
        return document if document["made_by"] == _MADE_BY else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read(folder: Path) -> dict[str, Item]:
    """Return the items in the folder that need not be run again: complete, and made by the same code."""
    present: dict[str, Item] = {}
    for record in (_document(folder) or {}).get("items", []):
        try:
            item = Item.from_json(record)
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
        if (
            item.name in ITEMS
            and item.fingerprint == _fingerprint()
            and all(_digest(folder / path) == digest for path, digest in item.files.items())
        ):
            present[item.name] = item
    return present


def _fingerprint() -> str:
    """Return a hash of the library's code and of the versions it runs on."""
    return hashlib.sha256(_library() + json.dumps(_versions()).encode()).hexdigest()


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file; an empty string if it is missing."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


@functools.cache
def _library() -> bytes:
    folder = Path(plot.__file__).parent
    files = sorted([*folder.rglob("*.py"), *folder.rglob("*.csv")])
    return b"".join(path.read_bytes() for path in files)


def _versions() -> dict[str, str]:
    packages = {name: importlib.import_module(name).__version__ for name in ("numpy", "scipy", "matplotlib")}
    return {"steepen": __version__, "python": platform.python_version()} | packages


def _run(module: ModuleType, folder: Path) -> Item:
    start = time.perf_counter()
    try:
        outcome: Outcome = module.run()
    except Exception as error:  # not the caller's mistake, whatever its type says
        raise RuntimeError(f"the item {module.NAME} failed: {error}") from error
    tables = {
        name: Table(table.columns, [tuple(plain(row)) for row in table.rows], table.caption)
        for name, table in outcome.tables.items()
    }
    files: list[str] = []

    def new(name: str) -> Path:
        files.append(name)
        return folder / name

    for name, figure in outcome.figures.items():
        plot.save_once(figure, new(f"figures/{name}.png"))
        figure.set_layout_engine("none")  # it is laid out
        plot.save_once(figure, new(f"figures/{name}.svg"))
        plot.narrow(figure)
        plot.save_once(figure, new(f"figures/{name}{NARROW}.svg"))
    for name, table in tables.items():
        _write_text(new(f"tables/{name}.csv"), _csv(table))
    for name, trace in outcome.traces.items():
        trace.save(new(f"traces/{name}.csv"))
    return Item(
        module.NAME,
        module.TITLE,
        module.SECTION,
        module.SAYS,
        module.MATTERS,
        _fingerprint(),
        round(time.perf_counter() - start, 3),
        outcome.claims,
        tables,
        {name: outcome.captions.get(name, "") for name in outcome.figures},
        list(outcome.traces),
        outcome.found,
        outcome.notes,
        plain(outcome.settings),
        {name: _digest(folder / name) for name in files},
    )


def _write_explorer(folder: Path, home: str | None) -> None:
    from .. import explore  # when it is needed: the explorer starts from the paper's experiments

    explore(out=folder / EXPLORER, home=home, report=REPORT)


def _write_report(folder: Path, present: Mapping[str, Item], home: str | None) -> None:
    """Write results.json and the page from the items present."""
    items = [present[name] for name in ITEMS if name in present]
    missing = [name for name in ITEMS if name not in present]
    versions = _versions()
    document = {
        "made_by": _MADE_BY,
        "versions": versions,
        "missing": missing,
        "items": [item.to_json() for item in items],
    }
    _write_text(folder / "results.json", json.dumps(document, allow_nan=False, indent=1, ensure_ascii=False))
    _write_text(folder / REPORT, page(folder, items, missing, versions, home))


def _write_text(path: Path, text: str) -> None:
    write_whole(path, lambda file: file.write(text.encode()))


def _csv(table: Table) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([table.columns, *table.rows])
    return text.getvalue()


class _Stopped(BaseException):
    """Means Ctrl-C: `minimize` would turn a KeyboardInterrupt into a result, and the item would go on."""


@contextmanager
def _ctrl_c_stops_the_item() -> Iterator[None]:
    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # someone else has decided what Ctrl-C means
        return

    def stop(*_: object) -> None:
        raise _Stopped

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    except _Stopped:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
