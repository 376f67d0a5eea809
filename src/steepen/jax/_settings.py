"""The settings of a compiled run: records with a hash, made of the parts that `steepen.minimize` uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from typing import Any, Unpack, cast

import numpy as np

from .. import methods, steps
from .._call.arguments import settings_of as plain_settings_of
from .._call.keywords import RunSettings
from ..budget import Budget
from ..methods import Method
from ..objective import Settings as PlainSettings
from ..penalties import Penalty
from ..schedules import Constant, Custom, L
from ..steps import Fixed, Step
from ..switches import After, Switch
from ..tolerances import Tolerances
from ._errors import readable
from ._jax import jax, jnp

FEW, PAIRS = 16, 20
"""Above FEW variables cgd-auto keeps PAIRS pairs by default: more save iterations, but no time."""


@dataclass(frozen=True)
class Direction:
    """A method of the library: its name, and its parameters."""

    name: str
    pairs: int = 0
    """The most pairs that cgd-auto keeps."""
    lam: Any = None
    penalty: Penalty | None = None
    curvature: str = ""
    r: Any = None


@dataclass(frozen=True)
class Search:
    """The parameters of `steps.Armijo`."""

    initial: float
    c: float
    grow: float
    longest: float
    trials: int
    probe: bool
    noise_tolerant: bool

    constant = None
    """The α of every iteration: there is none."""


@dataclass(frozen=True)
class Settings:
    """How it is minimised: the parts of the method, the tolerances and the budget."""

    direction: Direction
    step: Search | Fixed
    switch: Switch
    tolerances: Tolerances
    budget: Budget


def settings_of(
    shape: tuple[int, ...], dtype: Any, method: str | Method = "cgd-auto", **given: Unpack[RunSettings]
) -> Settings:
    """Return the settings of a run whose start has this shape and dtype."""
    plain = plain_settings_of(shape, dtype, method, **given)
    if plain.budget.seconds is not None:
        raise ValueError("budget: a compiled program cannot read the clock; use evals, grads or iters")
    direction = _direction(plain.method, shape[-1])
    return Settings(direction, _step(plain.step), plain.switch, plain.tolerances, plain.budget)


def plain_of(settings: Settings) -> PlainSettings:
    """Return settings for the plain run of one start; their numbers have been filled in."""
    direction, total = settings.direction, settings.budget.total
    method: Method = methods.METHODS[direction.name]
    if direction.pairs:
        method = methods.CGDAuto(direction.pairs)
    elif direction.curvature:
        method = methods.CGD(**{field.name: getattr(direction, field.name) for field in fields(methods.CGD)
                                if field.init and field.name != "guard"})  # fmt: skip
    step = settings.step
    rule = steps.Armijo(**vars(step)) if isinstance(step, Search) else step
    return PlainSettings(
        method.prepare(total), rule.prepare(total), settings.switch, settings.tolerances, settings.budget
    )


def _direction(method: Method, n: int) -> Direction:
    """Return a method of the library as a program has it."""
    if not method.guard:
        raise ValueError("guard: compiled runs always have the guard; use the eager engine without it")
    known = methods.METHODS.get(method.name)
    if type(method) is not type(known):
        raise _not_ours("method", "methods", method)
    if isinstance(method, methods.CGDAuto):
        most = method.capacity(n)
        return Direction(method.name, most if n <= FEW or method.memory is not None else min(PAIRS, most))
    if isinstance(method, methods.CGD):
        return Direction(method.name, 0, method.lam, method.penalty, method.curvature, method.r)
    return Direction(method.name)


def _step(step: Step) -> Search | Fixed:
    """Return a step of the library as a program has it."""
    if type(step) is Fixed:
        return step
    if type(step) is not steps.Armijo:
        raise _not_ours("step", "steps", step)
    return Search(**{field.name: getattr(step, field.name) for field in fields(Search)})


def _not_ours(name: str, what: str, given: Any) -> TypeError:
    return TypeError(
        f'{name}: engine="jax" and steepen.jax run the {what} of the library, got {given!r}; '
        "use the eager engine for a class of your own"
    )


def is_asked(tolerance: Any) -> bool:
    """Return whether a tolerance is on: 0 is off, a traced one is on."""
    return not (isinstance(tolerance, float) and tolerance == 0.0)


NUMBERS: dict[type, tuple[str, ...]] = {
    Constant: ("value",),
    L: ("start", "end"),
    Direction: ("r",),
    After: ("b",),
    Tolerances: ("g", "f", "x", "rel"),
    Budget: ("grads", "evals", "iters"),
}
"""The fields that are arguments of a program."""

PLACES = {
    "lam": "direction.lam.value", "step": "step.schedule.value", "r": "direction.r", "tol": "tolerances.g",
    "gtol": "tolerances.g", "ftol": "tolerances.f", "xtol": "tolerances.x", "gtol_rel": "tolerances.rel",
}  # fmt: skip
"""Where the settings have the keywords that may be traced."""


def with_numbers(part: Any, change: Callable[[str, Any], Any], name: str = "") -> Any:
    """Return a part of the settings with its numbers changed, each by its name; nothing is checked again."""
    kind = cast("type[Any]", type(part))
    if kind is tuple:
        return tuple(with_numbers(one, change, f"{name}{i}.") for i, one in enumerate(part))
    if not is_dataclass(kind):
        return part
    new = object.__new__(kind)
    for key, value in cast("dict[str, Any]", vars(part)).items():
        if key in NUMBERS.get(kind, ()) and value is not None and is_asked(value):
            object.__setattr__(new, key, change(name + key, value))
        elif key[0] != "_":
            object.__setattr__(new, key, with_numbers(value, change, f"{name}{key}."))
    return new


def filled(
    rows: tuple[int, ...], dtype: Any, method: str | Method, **given: Any
) -> tuple[Settings, dict[str, Any]]:
    """Return the settings with names in place of numbers, and the numbers; raise if they do not compile."""
    simple = all(isinstance(value, SIMPLE) for value in (method, *given.values()))
    settings, numbers = (_kept if simple else _filled)(rows, dtype, method, **given)
    return settings, dict(numbers)


def _filled(
    rows: tuple[int, ...], dtype: Any, method: str | Method, **given: Any
) -> tuple[Settings, dict[str, Any]]:
    settings = settings_of(rows, dtype, method, **{name: _known(value) for name, value in given.items()})
    for name, part in (("lam", settings.direction), ("step", settings.step)):
        schedule = getattr(part, "schedule" if name == "step" else "lam", None)
        if isinstance(schedule, Custom):
            with readable(f"{name}: JAX cannot trace {schedule!r}", "it branches on k: use jax.numpy.where"):
                jax.eval_shape(schedule, jax.ShapeDtypeStruct((), jnp.int32))
    traced = {PLACES[name]: value for name, value in given.items() if isinstance(value, jax.core.Tracer)}
    numbers: dict[str, Any] = {}

    def taken(name: str, value: Any) -> str:
        array: Any = traced.get(name, value)
        array = array if isinstance(array, jax.Array) else np.asarray(array)
        numbers[name] = array.astype(jnp.int32 if array.dtype.kind == "i" else dtype)
        return name

    return with_numbers(settings, taken), numbers


SIMPLE = (str, int, float, Budget, type(None))
"""What cannot change: settings that are all of these kinds are checked once."""

_kept = lru_cache(maxsize=FEW, typed=True)(_filled)


def _known(value: Any) -> Any:
    """Return a number, and 1 for one that is traced."""
    if isinstance(value, jax.Array):
        value = np.ones(value.shape) if isinstance(value, jax.core.Tracer) else np.asarray(value)
        return value if value.ndim else value.item()
    return value
