"""From lists of values to settings, and from settings to batched calls, for `sweep` and its command; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, cast

import numpy as np

from .._call.arguments import known_method, parameters_of
from .._call.keywords import MethodSettings
from .._tools.check import is_number
from ..methods import CGD, METHODS

AXES = tuple(MethodSettings.__annotations__)  # the keys of a setting besides the method
BY_ROW = ("step", "lam", "r")  # the settings that may differ between the rows of a batch

Setting = dict[str, Any]


def settings_of_method(method: str) -> tuple[str, ...]:
    """Return the names of the settings that a method has."""
    direction = METHODS[method]
    known = parameters_of(direction) | ({"step", "b", "switch"} if direction.penalised else {"step"})
    if not (isinstance(direction, CGD) and direction.curvature == "difference"):
        known.discard("r")  # the length of a difference along the gradient
    return tuple(name for name in AXES if name in known)


def grid(method: str | Sequence[str], axes: Mapping[str, Any]) -> list[Setting]:
    """Return every combination as a dict, such as {'method': 'gd', 'step': 0.1}, of the method's settings."""
    own: dict[str, tuple[str, ...]] = {}
    if not isinstance(method, str | list | tuple):
        raise TypeError(f"method: expected names such as 'cgd-fd', got {method!r}")
    for one in [method] if isinstance(method, str) else method:
        if not isinstance(one, str):
            raise TypeError(f"method: expected names such as 'cgd-fd', got {one!r}")
        own[one] = settings_of_method(known_method(one))
    if not own:
        raise ValueError("method: expected at least one, got none: the grid is empty")
    lists = {name: _values(name, value) for name, value in axes.items() if value is not None}
    for name in lists:
        if not any(name in names for names in own.values()):
            has = "; ".join(
                f"method {one!r} has no such setting; it has {', '.join(own[one])}" for one in own
            )
            raise ValueError(f"{name}: {has}")
    found: list[Setting] = []
    for one, names in own.items():
        mine = [name for name in lists if name in names]
        for values in product(*(lists[name] for name in mine)):
            found.append({"method": one, **dict(zip(mine, values, strict=True))})
    return found


def _values(name: str, value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        value = cast(Any, value).tolist()
    values = list(cast("list[Any]", value)) if isinstance(value, list | tuple) else [value]
    if not values:
        raise ValueError(f"{name}: expected at least one value, got none: the grid is empty")
    return values


def _identity(value: Any) -> str:
    """Return a text that tells a value from any other while both exist."""
    plain = value is None or isinstance(value, bool | int | float | str)
    return repr(value) if plain else f"object {id(value)}"


class Call(NamedTuple):
    """Settings that run as one batch: what they share, and the numbers by which they differ."""

    settings: list[Setting]
    shared: dict[str, Any]
    rows: dict[str, Any]


def calls(settings: Sequence[Setting]) -> list[Call]:
    """Group settings that differ only in numbers; objects are the same if they are one object."""
    groups: dict[tuple[Any, ...], list[Setting]] = {}
    for one in settings:
        parts = [(k, "number" if k in BY_ROW and is_number(v) else _identity(v)) for k, v in one.items()]
        groups.setdefault(tuple(parts), []).append(one)
    found: list[Call] = []
    for group in groups.values():
        numbers = [k for k in BY_ROW if is_number(group[0].get(k))]
        rows = {k: np.array([one[k] for one in group], dtype=float) for k in numbers}
        found.append(Call(group, {k: v for k, v in group[0].items() if k not in numbers}, rows))
    return found
