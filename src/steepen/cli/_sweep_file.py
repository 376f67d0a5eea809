"""Read the TOML of `steepen sweep`; errors name the line and the key."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

import numpy as np

from .._call.keywords import Shared
from .._sweep.grid import AXES
from .._tools.check import is_number, is_whole, meant, one_of, whole
from ..budget import Budget
from ..functions import functions
from ..schedules import L

OWN = ("functions", "n", "starts", "methods", "budget", "out", "settings")
PYTHON = ("budget", "hvp", "hessp", "hess")
"""Arguments of `sweep` that a file cannot hold as they are."""
PASSED = ("seed", "at", "points", "rows", *(name for name in Shared.__annotations__ if name not in PYTHON))
"""Arguments of `sweep` that have the same name in the file."""

KEYS = {"method": "methods", "fun": "functions"} | {axis: f"settings.{axis}" for axis in AXES}
"""The keys in the file of arguments that an error may name."""


@contextmanager
def located(path: Path) -> Iterator[None]:
    """Add the line number of the key to errors about it."""
    try:
        yield
    except (ValueError, TypeError) as error:
        name, _, words = str(error).partition(": ")
        key, lines = KEYS.get(name, name), path.read_text("utf-8").splitlines()
        pattern = rf"(?<![\w-]){re.escape(key.rpartition('.')[2])}['\"]?\s*[=\].]"
        found = [f", line {i}" for i, line in enumerate(lines, 1) if re.search(pattern, line)]
        raise ValueError(f"{path}{found[0] if found else ''}: {key}: {words}") from error


def read(path: Path) -> tuple[dict[str, Any], Path]:
    """Return the arguments of `sweep` and the output folder."""
    try:
        said = tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {error}") from error  # which names the line
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected TOML in UTF-8") from error
    with located(path):
        _known(said, (*OWN, *PASSED))
        budget, settings = _table(said, "budget", ("grads", "evals", "iters")), _table(said, "settings", AXES)
        if not isinstance(said.setdefault("out", f"out/{path.stem}"), str):
            raise TypeError(f"out: expected the name of a folder, got {said['out']!r}")
        fun = dict(_function(name, said.get("n")) for name in _names(said, "functions"))
        given: dict[str, Any] = {
            "fun": fun,
            "starts": _starts(said.get("starts", 100), fun),
            "method": _names(said, "methods", "cgd-auto"),
            "budget": Budget(**budget) if budget else None,
            **{name: _values(name, value) for name, value in settings.items()},
            **{name: said[name] for name in PASSED if name in said},
        }
    return given, Path(said["out"])


def _known(table: Mapping[str, Any], keys: tuple[str, ...], where: str = "") -> None:
    for key in table:
        if key not in keys:
            raise ValueError(f"{where}{key}: is not known; {meant(key, keys)}")


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _table(said: Mapping[str, Any], key: str, keys: tuple[str, ...]) -> dict[str, Any]:
    table = said.get(key, {})
    if not _is_table(table):
        raise TypeError(f"{key}: expected a table such as {{ {keys[0]} = 40 }}, got {table!r}")
    _known(table, keys, f"{key}.")
    return table


def _names(said: Mapping[str, Any], key: str, default: str | None = None) -> list[str]:
    value: Any = said.get(key, default)
    names: list[Any] = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise TypeError(f"{key}: expected a list of names, got {value!r}")
    return names


def _function(text: str, n: Any) -> tuple[str, Any]:
    """Return the name and the function: a test function, or the user's own as `module:name`."""
    module, colon, name = text.partition(":")
    if not colon:
        found: Any = functions[one_of("functions", text, functions, "see `steepen.functions`")]
        if n is not None:
            whole("n", n, 1)
            found = found.at(n)
        return text, found
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
    try:
        return name, attrgetter(name)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise ValueError(f"functions: {text!r} could not be imported: {error}") from error


def _starts(value: Any, functions: Mapping[str, Any]) -> Any:
    """Return the number of starts, the points, or for `{ grid = 500 }` a grid in each function's box."""
    if not _is_table(value):
        return value
    side = value.get("grid")
    if len(value) != 1 or not (is_whole(side) and side >= 2):
        raise ValueError(f"starts: expected a number, points, or {{ grid = 100 }}; got {value!r}")
    found: dict[str, Any] = {}
    for name, one in functions.items():
        box: Any = getattr(one, "bounds", None)
        if box is None or len(box) != 2:
            raise ValueError(f"starts: a grid needs two variables with bounds, which {name!r} does not have")
        x, y = np.meshgrid(*(np.linspace(float(low), float(high), int(side)) for low, high in box))
        found[name] = np.stack([x.ravel(), y.ravel()], axis=1)
    return found


def _values(name: str, value: Any) -> list[Any]:
    """Return the values of a setting: numbers, text such as "L(0.1,0.01)", or log-spaced values."""
    if _is_table(value):
        low, high, count = (value.get(key) for key in ("low", "high", "count"))
        if len(value) != 3 or not (is_number(low) and is_number(high) and is_whole(count)):
            raise ValueError(f"{name}: expected {{ low = 0.001, high = 1.0, count = 20 }}, got {value!r}")
        if not (0 < low < high and count > 1):
            raise ValueError(f"{name}: expected 0 < low < high and a count of 2 or more, got {value!r}")
        return np.geomspace(float(low), float(high), int(count)).tolist()
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    return [one if is_number(one) else _schedule(name, one) for one in values]


def _schedule(name: str, text: Any) -> Any:
    """Parse a schedule such as "L(0.1,0.01)"; "auto" is the default, None."""
    if name not in ("step", "lam"):
        raise ValueError(f"{name}: expected numbers, got {text!r}")
    if text == "auto":
        return None
    kind, _, ends = str(text).removesuffix(")").partition("(")
    try:
        start, end = (float(part) for part in ends.split(","))
        return {"L": L}[kind](start, end)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{name}: expected a number, L(a,b) or auto, got {text!r}") from error
