"""`explore`, for users, the command and `reproduce`: fills in the files of `page/`, writes one HTML file."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._tools.check import floats, one_of, whole
from ..._tools.files import write_whole
from ..._tools.version import version
from ...functions import Function, functions
from ..experiments import EXPERIMENTS
from ._formulas import formula
from ._sample import Floats, sampled

YOURS = "yours"  # the page's key for the user's function

_MODULES = (
    "vectors", "jets", "expression", "spline", "run", "suggest", "settings", "artificial", "landscape",
    "scene", "chart", "verdict", "pictures", "controls", "app",
)  # fmt: skip
"""The page's scripts in the order of their imports; no two declare the same name."""


def explore(
    fun: str | Function | Callable[[Floats], Any] = "branin",
    bounds: ArrayLike | None = None,
    *,
    out: str | os.PathLike[str] = "explore.html",
    samples: int = 101,
    home: str | None = None,
    report: str | None = None,
) -> Path:
    """Write the explorer, one HTML file that needs no network, and return its path.

    The page shows how f + λ‖∇f‖² changes as λ is dragged, and the steps of GD, CGD and CGD-FD from the
    start that is clicked, with their gradient counts.

    Parameters
    ----------
    fun : str, Function or callable
        The function to show first: a name from `steepen.functions`, with the suffix "-1d" for one
        variable; a Function of one or two variables; or any f(x), x of shape (n,), which is sampled in the
        box: the page then minimises the cubic spline through its values.
    bounds : one or two rows (low, high), optional
        The box to show. By default that of the test function; required for your own function.
    samples : int
        The number of sample points per variable for your own function.
    home, report : str, optional
        URLs of the documentation and of the page written by `steepen reproduce`, to link to.

    Examples
    --------
    >>> import tempfile
    >>> from steepen.paper import explore
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = explore(lambda x: x[0] ** 4 + x[1] ** 2, [(-1, 1), (-2, 2)], out=f"{folder}/mine.html")
    ...     page.name
    'mine.html'
    """
    path = Path(out)
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"out: expected a file in an existing folder, got {str(path)!r}")
    entries = dict(_catalogue())
    if isinstance(fun, str):
        if fun in functions and fun not in entries:
            raise ValueError(f"fun: expected a function of one or two variables, got {functions[fun]!r}")
        first = one_of("fun", fun, entries)
    else:
        first = YOURS
        own = _known(fun, "given") if isinstance(fun, Function) else _sampled(fun, bounds, samples)
        entries = {first: own} | entries
    if bounds is not None:
        entries[first] |= {"bounds": _box(bounds, entries[first]["n"]).tolist()}
    script = (
        f"{_script()}const functions = {_literal(entries)};\n"
        "for (const one of Object.values(functions)) {\n"
        "  Object.assign(one, (one.formula ? compiled : spline)(one));\n"
        "}\n"
        "const shared = { Scene, basin, fromHash, initial, minimize, toHash, typed, verdict };\n"
        "window.steepen = { functions, ...shared }; // for the console\n"
        f"start(functions, {_literal(first)});"
    )
    parts = {
        "style": _read("style.css"), "version": version(), "links": _links(home, report), "script": script
    }  # fmt: skip
    page = _read("index.html")
    for name, text in parts.items():
        page = page.replace(f"{{{{{name}}}}}", text)
    write_whole(path, lambda file: file.write(page.encode()))
    return path


def _read(name: str) -> str:
    return (files("steepen.paper.explorer") / "page" / name).read_text("utf-8")


def _script() -> str:
    """Return the modules as one script: a page opened without a server cannot import other files."""
    sources = "\n".join(_read(f"{name}.js") for name in _MODULES)
    return re.sub(r"^import .*\n|^export ", "", sources, flags=re.MULTILINE)


def _links(home: str | None, report: str | None) -> str:
    found: dict[str, str] = {}
    if home is not None:
        at = home.rstrip("/") or "."
        study = f"{at}/paper.html#against-a-tuned-step-size"
        found = {f"{at}/index.html": "Documentation", study: "Against a tuned step"}
        report = report or f"{at}/paper/report.html"
    if report is not None:
        found[report] = "The paper again"
    text = " ".join(f'<a href="{html.escape(link)}">{name}</a>' for link, name in found.items())
    return f"<nav>{text}</nav>" if found else ""


def _catalogue() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the test functions of two variables, and then those of one."""
    for n in (2, 1):
        for name, fun in functions.items():
            try:
                entry = _known(fun.at(n), fun.group)
            except ValueError:  # not defined for this n
                continue
            if n == 1 and fun.n != 1:
                name, entry["title"] = f"{name}-1d", f"{fun.title}, one variable"
            yield name, entry


def _known(fun: Function, group: str) -> dict[str, Any]:
    if fun.n > 2:
        raise ValueError(f"fun: expected a function of one or two variables, got {fun!r}")
    try:
        text = formula(fun)
    except NotImplementedError as error:
        raise ValueError(f"fun: {error}; pass a plain callable to sample it") from error
    entry: dict[str, Any] = {
        "title": fun.title, "group": group, "n": fun.n, "bounds": fun.bounds.tolist(),
        "minima": fun.minima.tolist(), "fmin": fun.fmin, "formula": text,
    }  # fmt: skip
    used = EXPERIMENTS.get(fun.name)
    if used is not None and len(used.x0) == fun.n:
        entry["paper"] = {"start": used.x0, "lam": used.lam0, "step": used.alpha, "r": used.r}
    return entry


def _sampled(fun: Any, bounds: ArrayLike | None, samples: int) -> dict[str, Any]:
    if not callable(fun):
        raise TypeError(f"fun: expected a name, a Function or a callable, got {fun!r}")
    if bounds is None:
        raise ValueError("bounds: expected the box in which to sample fun, got None")
    box, name = _box(bounds, None), getattr(fun, "__name__", "<lambda>")
    whole("samples", samples, 4)
    return {
        "title": "your function" if name == "<lambda>" else name, "group": "given", "n": len(box),
        "bounds": box.tolist(), "minima": [], "fmin": None, "samples": samples,
        "coefficients": sampled(fun, box, samples).ravel().tolist(),
    }  # fmt: skip


def _box(bounds: ArrayLike, n: int | None) -> Floats:
    expected = f"{'one or two rows' if n is None else f'{n} row' + 's' * (n > 1)} (low, high) with low < high"
    box = floats("bounds", bounds, expected)
    right = box.ndim == 2 and box.shape[1] == 2 and len(box) in ((1, 2) if n is None else (n,))
    if not (right and np.all(box[:, 0] < box[:, 1])):
        raise ValueError(f"bounds: expected {expected}, got {bounds!r}")
    return box


def _literal(value: Any) -> str:
    """Return JSON that is safe inside a script element."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
