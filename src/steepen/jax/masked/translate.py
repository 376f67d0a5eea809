"""Methods, steps and settings as users give them, made into those that JAX traces; evaluates nothing.

What users give are plain objects for eager runs. They are told by their names and read by their fields, so
that the classes here and there share no base.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar, Unpack, cast

from ..._call.arguments import method_of, step_of, switch_of, tolerances_of, whole_budget
from ..._call.keywords import RunSettings
from ...methods import Method
from .armijo import Armijo
from .auto import CGDAuto
from .cgd import CGD, NAMES
from .convergence import Tolerances
from .direction import Direction
from .newton import Newton
from .quasi_newton import BFGS, DFP
from .settings import Settings
from .steepest import GD
from .step import Fixed, Step

T = TypeVar("T")

PACKAGE = __name__.partition(".")[0]

METHODS: dict[str, type[Any]] = {
    "gd": GD, "newton": Newton, "bfgs": BFGS, "dfp": DFP, "cgd-auto": CGDAuto,
    **dict.fromkeys(NAMES.values(), CGD),
}  # fmt: skip
STEPS: dict[str, type[Any]] = {"Armijo": Armijo, "Fixed": Fixed}


def settings_of(
    shape: tuple[int, ...], dtype: Any, method: str | Method = "cgd-auto", **given: Unpack[RunSettings]
) -> Settings:
    """Return the settings of a run whose start has this shape and dtype."""
    rows = shape[0] if len(shape) == 2 else None
    budget = whole_budget(given.get("budget"), shape[-1])
    total = budget.total
    plain = method_of(
        method, **{name: given.get(name) for name in ("lam", "penalty", "r", "guard", "memory")}
    )
    direction = traced_method(plain).prepare(total, rows)
    step = traced_step(step_of(given.get("step"), plain)).prepare(total, rows)
    switch = switch_of(plain, given.get("switch"), given.get("b"), total)
    return Settings(direction, step, switch, _same(Tolerances, tolerances_of(dtype, given)), budget)


def traced_method(method: Any) -> Direction:
    """Return a method of the library as JAX traces it."""
    if not method.guard:
        raise ValueError("guard: compiled runs always have the guard; use the eager engine without it")
    kind = METHODS.get(method.name)
    return _same(_ours("method", "methods", kind, method), method)


def traced_step(step: Any) -> Step:
    """Return a step of the library as JAX traces it."""
    kind = STEPS.get(type(step).__name__)
    return _same(_ours("step", "steps", kind, step), step)


def _ours(name: str, what: str, kind: type[T] | None, given: Any) -> type[T]:
    """Return the kind of a method or step; raise if it is of a class of the user's."""
    own = cast("type[Any]", type(given))
    if kind is None or own.__name__ != kind.__name__ or own.__module__.partition(".")[0] != PACKAGE:
        raise TypeError(
            f'{name}: engine="jax" and steepen.jax run the {what} of the library, got {given!r}; '
            "use the eager engine for a class of your own"
        )
    return kind


def _same(kind: type[T], given: Any) -> T:
    """Return an object of another kind with the same values in its fields."""
    names = [field.name for field in fields(cast(Any, kind)) if hasattr(given, field.name)]
    return kind(**{name: getattr(given, name) for name in names})
