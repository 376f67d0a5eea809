"""From lists of values to settings, and from settings to batched calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import product
from typing import Any, NamedTuple, cast

import numpy as np

from .._call.keywords import MethodSettings
from .._tools.check import is_number, one_of, whole
from ..directions import CGD, METHODS

AXES = tuple(MethodSettings.__annotations__)
"""The keys of a setting besides the method."""
BY_ROW = ("step", "lam", "r")
"""The settings that may differ between the rows of a batch."""

Setting = dict[str, Any]


def has(method: str) -> tuple[str, ...]:
    """Return the names of the settings of a method.

    Examples
    --------
    >>> has("gd"), has("cgd-fd")
    (('step',), ('step', 'lam', 'r', 'b', 'penalty', 'switch'))
    """
    direction = METHODS[method]
    known = {field.name for field in fields(direction)} if is_dataclass(direction) else set[str]()
    known |= {"step", "b", "switch"} if direction.penalised else {"step"}
    if not (isinstance(direction, CGD) and direction.curvature == "difference"):
        known.discard("r")  # for those without a probe it says nothing
    return tuple(name for name in AXES if name in known)


def grid(method: Any, axes: Mapping[str, Any], draws: int | None, seed: int) -> list[Setting]:
    """Return every combination; settings that a method does not have are dropped.

    Examples
    --------
    >>> grid(["gd", "cgd-fd"], {"step": 0.1, "lam": [0.1, 0.2]}, None, 0)
    [{'method': 'gd', 'step': 0.1}, {'method': 'cgd-fd', 'step': 0.1, 'lam': 0.1}, ...]
    """
    methods = [_known(name) for name in ([method] if isinstance(method, str) else method)]
    if not methods:
        raise ValueError("method: expected at least one, got none: the grid is empty")
    given = {name: value for name, value in axes.items() if value is not None}
    for name in given:
        if not any(name in has(one) for one in methods):
            raise ValueError(f"{name}: {'; '.join(map(_without, methods))}")
    drawn = [name for name, value in given.items() if hasattr(value, "rvs")]
    if bool(drawn) != (draws is not None):
        names = ", ".join(drawn) or "no distribution was given"
        raise ValueError(f"draws: must be given if and only if a setting is a distribution: {names}")
    if draws is not None:
        whole("draws", draws, 1)
    rng = np.random.default_rng(seed)
    lists = {name: _values(name, value) for name, value in given.items() if name not in drawn}
    samples = {name: np.asarray(given[name].rvs(size=draws, random_state=rng)).tolist() for name in drawn}
    found: list[Setting] = []
    for one in methods:
        own = [name for name in lists if name in has(one)]
        for values in product(*(lists[name] for name in own)):
            for i in range(draws or 1):
                free = {name: samples[name][i] for name in drawn if name in has(one)}
                found.append({"method": one, **dict(zip(own, values, strict=True)), **free})
    return _once(found)


def listed(settings: Iterable[Mapping[str, Any]], method: Any) -> list[Setting]:
    """Return explicitly listed settings, each checked against its method."""
    found: list[Setting] = []
    for one in settings:
        if not isinstance(one, Mapping):
            example = "{'method': 'gd', 'step': 0.1}"
            raise TypeError(f"settings: expected mappings such as {example}, got {one!r}")
        setting: Setting = {"method": method} | dict(one)
        own = has(_known(setting["method"]))
        for name in setting:
            if name not in ("method", *own):
                raise ValueError(f"{name}: {_without(setting['method'])}")
        found.append({name: value for name, value in setting.items() if value is not None})
    if not found:
        raise ValueError("settings: expected at least one, got none")
    return _once(found)


def _known(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"method: expected names such as 'cgd-fd', got {name!r}")
    return one_of("method", name, METHODS)


def _without(method: str) -> str:
    return f"method {method!r} has no such setting; it has {', '.join(has(method))}"


def _values(name: str, value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        value = cast(Any, value).tolist()
    values = list(cast("list[Any]", value)) if isinstance(value, list | tuple) else [value]
    if not values:
        raise ValueError(f"{name}: expected at least one value, got none: the grid is empty")
    return values


def _once(settings: Sequence[Setting]) -> list[Setting]:
    """Drop duplicates, which arise when a method ignores a setting that has several values."""
    seen: dict[str, Setting] = {}
    for one in settings:
        seen.setdefault(repr(sorted(one.items(), key=lambda item: item[0])), one)
    return list(seen.values())


class Call(NamedTuple):
    """Settings that run as one batch: the shared ones, the per-row numbers, and their indices."""

    shared: dict[str, Any]
    rows: dict[str, Any]
    which: Any


def calls(settings: Sequence[Setting]) -> list[Call]:
    """Group settings that differ only in numbers.

    Examples
    --------
    >>> settings = grid(["gd", "cgd-fd"], {"step": [0.1, 0.2], "lam": [0.1, 0.2]}, None, 0)
    >>> [(call.shared["method"], len(call.which)) for call in calls(settings)]
    [('gd', 2), ('cgd-fd', 4)]
    """
    groups: dict[str, list[int]] = {}
    for i, one in enumerate(settings):
        parts = {k: "number" if k in BY_ROW and is_number(v) else repr(v) for k, v in sorted(one.items())}
        groups.setdefault(repr(parts), []).append(i)
    found: list[Call] = []
    for places in groups.values():
        first = settings[places[0]]
        numbers = [k for k in BY_ROW if k in first and is_number(first[k])]
        rows = {k: np.array([settings[i][k] for i in places], dtype=float) for k in numbers}
        found.append(Call({k: v for k, v in first.items() if k not in numbers}, rows, np.array(places)))
    return found
