"""Read the TOML of `steepen sweep`; an error says the line and the key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from .._sweep.grid import AXES
from .._tools.check import is_number, is_whole, meant
from ..budget import Budget
from ._options import function_or_own, step_or_lam

KEYS = (
    "functions", "n", "starts", "methods", "seed", "budget", "at", "points", "bounds", "gtol", "rows",
    "engine", "out", "settings",
)  # fmt: skip
BUDGETS = ("grads", "evals", "iters")


class _File:
    """What the file says, and where."""

    def __init__(self, path: Path):
        self.path = path
        try:
            self.text = path.read_text("utf-8")
            self.said: dict[str, Any] = tomllib.loads(self.text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{path}: {error}") from error  # it says the line
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: expected TOML in UTF-8") from error

    def wrong(self, key: str, words: str) -> ValueError:
        """Return an error with the line that the key is on."""
        last = re.escape(key.rpartition(".")[2])
        pattern = re.compile(
            rf"^\s*(?:\[.*\b)?(?:[\w-]+\s*\.\s*)*['\"]?{last}['\"]?\s*[=\].]|[{{,]\s*{last}\s*="
        )
        lines = [i for i, line in enumerate(self.text.splitlines(), 1) if pattern.search(line)]
        return ValueError(f"{self.path}{f', line {lines[0]}' if lines else ''}: {key}: {words}")

    def known(self, table: dict[str, Any], keys: tuple[str, ...], where: str = "") -> None:
        """Refuse keys that mean nothing."""
        for key in table:
            if key not in keys:
                raise self.wrong(where + key, f"is not known; {meant(key, keys)}")


def read(path: Path) -> tuple[dict[str, Any], Path]:
    """Return the arguments of `sweep`, and the folder to write."""
    file = _File(path)
    said = file.said
    file.known(said, KEYS)
    budget = _table(file, "budget")
    settings = _table(file, "settings")
    file.known(budget, BUDGETS, "budget.")
    file.known(settings, AXES, "settings.")
    _expect(file, "seed", lambda value: is_whole(value) and value >= 0, "a whole number")
    _expect(file, "n", lambda value: is_whole(value) and value >= 1, "a whole number, the dimension")
    _expect(file, "points", lambda value: isinstance(value, bool), "true or false")
    _expect(file, "bounds", lambda value: value is True, "true: the bounds of each function")
    _expect(file, "out", lambda value: isinstance(value, str), "the name of a folder")
    functions = _functions(file)
    given: dict[str, Any] = {
        "fun": functions,
        "starts": _starts(file, functions),
        "method": _listed(file, "methods", ["cgd-auto"]),
        "budget": Budget(**budget) if budget else None,
        **{name: _values(file, name, value) for name, value in settings.items()},
        **{
            name: said[name]
            for name in ("seed", "at", "points", "bounds", "gtol", "rows", "engine")
            if name in said
        },
    }
    return given, Path(said.get("out", f"out/{path.stem}"))


def located(path: Path, error: Exception) -> ValueError:
    """Return an error of `sweep` with the line of the key that it is about."""
    name, _, words = str(error).partition(": ")
    keys = {"method": "methods", "fun": "functions"} | {axis: f"settings.{axis}" for axis in AXES}
    return _File(path).wrong(keys.get(name, name), words)


def _table(file: _File, key: str) -> dict[str, Any]:
    value = file.said.get(key, {})
    if not isinstance(value, dict):
        raise file.wrong(key, f"expected a table such as {{ grads = 40 }}, got {value!r}")
    return cast("dict[str, Any]", value)


def _expect(file: _File, key: str, fits: Callable[[Any], bool], expected: str) -> None:
    if key in file.said and not fits(file.said[key]):
        raise file.wrong(key, f"expected {expected}; got {file.said[key]!r}")


def _listed(file: _File, key: str, default: list[str] | None = None) -> list[str]:
    value = file.said.get(key, default)
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(one, str) for one in cast("list[Any]", value)):
        raise file.wrong(key, f"expected a list of names, got {value!r}")
    return cast("list[str]", value)


def _functions(file: _File) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _listed(file, "functions"):
        try:
            label, one = function_or_own(name, file.said.get("n"))
        except ValueError as error:
            raise file.wrong("functions", str(error).partition(": ")[2]) from error
        found[label] = one
    return found


def _starts(file: _File, functions: dict[str, Any]) -> Any:
    """Return a number of starts, points, or for `{ grid = 500 }` those of a grid in each function's box."""
    value: Any = file.said.get("starts", 100)
    if not isinstance(value, dict):
        return value
    side: Any = cast(Any, value).get("grid")
    if set(cast("dict[str, Any]", value)) != {"grid"} or not (is_whole(side) and side >= 2):
        raise file.wrong("starts", f"expected a number, points, or {{ grid = 100 }}; got {value!r}")
    found: dict[str, Any] = {}
    for name, one in functions.items():
        box: Any = getattr(one, "bounds", None)
        if box is None or len(box) != 2:
            raise file.wrong(
                "starts", f"a grid needs a function of two variables with bounds, and {name!r} is none"
            )
        x, y = np.meshgrid(*(np.linspace(float(low), float(high), int(side)) for low, high in box))
        found[name] = np.stack([x.ravel(), y.ravel()], axis=1)
    return found


def _values(file: _File, name: str, value: Any) -> Any:
    """Return the values of a setting: numbers, text such as "L(0.1,0.01)", or an even spread of logs."""
    key = f"settings.{name}"
    if isinstance(value, dict):
        spread = cast("dict[str, Any]", value)
        good = set(spread) == {"low", "high", "count"} and all(map(is_number, spread.values()))
        if not (
            good and 0 < spread["low"] < spread["high"] and is_whole(spread["count"]) and spread["count"] > 1
        ):
            raise file.wrong(key, f"expected {{ low = 0.001, high = 1.0, count = 20 }}, got {value!r}")
        return np.geomspace(float(spread["low"]), float(spread["high"]), int(spread["count"])).tolist()
    values = cast("list[Any]", value) if isinstance(value, list) else [value]
    found: list[Any] = []
    for one in values:
        if isinstance(one, str) and name in ("step", "lam"):
            try:
                found.append(step_or_lam(f"--{name}", one))
            except ValueError as error:
                raise file.wrong(key, str(error).partition(": ")[2]) from error
        elif is_number(one):
            found.append(one)
        else:
            raise file.wrong(key, f"expected numbers, got {one!r}")
    return found
