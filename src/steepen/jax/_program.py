"""Settings in two halves: what a program is compiled for, and the numbers that are its arguments.

λ, α, r, tolerances and limits are taken out of the settings, by name, and put back in the traced program.
The rest is hashable, so a new number compiles nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass, replace
from typing import Any, cast

import numpy as np

from .._call.arguments import settings_of
from .._core.convergence import Tolerances, asked
from .._solver.problem import Settings
from ..budget import Budget
from ..directions import CGD, CGDAuto, Direction
from ..schedules import Constant, Custom, L
from ..switches import After
from ._jax import jax, jnp
from ._points import Shape
from ._trace import named

SHORT, PAIRS = 16, 20
"""The default memory of cgd-auto above SHORT variables: more pairs save iterations, but no time."""

NUMBERS: dict[type, tuple[str, ...]] = {
    Constant: ("value",),
    L: ("start", "end"),
    CGD: ("r",),
    After: ("b",),
    Tolerances: ("g", "f", "x", "rel"),
    Budget: ("grads", "evals", "iters"),
}
"""The fields that are arguments of a program."""


@dataclass(frozen=True)
class Template:
    """A part of the settings without its numbers."""

    kind: type[Any]
    fields: tuple[tuple[str, Any], ...]


DYNAMIC = "the place of a number"


def split(part: Any, name: str = "") -> tuple[Any, dict[str, Any]]:
    """Return a part of the settings without its numbers, and the numbers by name."""
    kind: type[Any] = part.__class__
    if kind is tuple:
        inner: dict[str, Any] = {str(i): value for i, value in enumerate(part)}
    elif is_dataclass(kind) and kind is not type:
        inner = {key: value for key, value in cast("dict[str, Any]", vars(part)).items() if key[0] != "_"}
    else:
        return part, {}
    numbers: dict[str, Any] = {}
    fields: list[tuple[str, Any]] = []
    for key, value in inner.items():
        path = f"{name}.{key}" if name else key
        if key in NUMBERS.get(kind, ()) and value is not None and asked(value):
            numbers[path] = value
            fields.append((key, DYNAMIC))
        else:
            template, more = split(value, path)
            numbers |= more
            fields.append((key, template))
    return Template(kind, tuple(fields)), numbers


def merge(template: Any, numbers: dict[str, Any], name: str = "") -> Any:
    """Return the part with its numbers; nothing is checked again."""
    if not isinstance(template, Template):
        return template
    fields: dict[str, Any] = {}
    for key, value in template.fields:
        path = f"{name}.{key}" if name else key
        fields[key] = numbers[path] if value is DYNAMIC else merge(value, numbers, path)
    if template.kind is tuple:
        return tuple(fields.values())
    part: Any = object.__new__(template.kind)
    for key, value in fields.items():
        object.__setattr__(part, key, value)
    return part


def filled(
    rows: tuple[int, ...], dtype: Any, method: str | Direction, **given: Any
) -> tuple[Template, dict[str, Any]]:
    """Return the two halves of the settings for starts of this shape; raise if they cannot be compiled."""
    gtol = given.get("tol") if given.get("gtol") is None else given.get("gtol")
    places = {
        "direction.lam.value": given.get("lam"), "step.schedule.value": given.get("step"),
        "direction.r": given.get("r"), "tolerances.g": gtol, "tolerances.f": given.get("ftol"),
        "tolerances.x": given.get("xtol"), "tolerances.rel": given.get("gtol_rel"),
    }  # fmt: skip
    traced = {name: value for name, value in places.items() if isinstance(value, jax.core.Tracer)}
    settings = settings_of(rows, dtype, method, **{name: _known(value) for name, value in given.items()})
    if settings.budget.seconds is not None:
        raise ValueError("budget: a compiled program cannot read the clock; use evals, grads or iters")
    for name, schedule in (("lam", getattr(settings.direction, "lam", None)),
                           ("step", getattr(settings.step, "schedule", None))):  # fmt: skip
        if isinstance(schedule, Custom):
            named(name, schedule)
    if settings.direction == CGDAuto() and rows[-1] > SHORT:
        settings = replace(settings, direction=CGDAuto(min(PAIRS, CGDAuto().capacity(rows[-1]))))
    template, numbers = split(settings)
    return template, {name: _number(traced.get(name, value), dtype) for name, value in numbers.items()}


def _known(value: Any) -> Any:
    """Return a number, and 1 for one that is traced."""
    if isinstance(value, jax.core.Tracer):
        return np.ones(value.shape) if value.ndim else 1.0
    if isinstance(value, jax.Array):
        return np.asarray(value) if value.ndim else value.item()
    return value


def _number(value: Any, dtype: Any) -> Any:
    """Return numbers as arrays, integers with 32 bits."""
    array: Any = value if isinstance(value, jax.Array) else np.asarray(value)
    return array.astype(jnp.int32 if array.dtype.kind == "i" else dtype)


@dataclass(frozen=True)
class Program:
    """What is compiled: a function, the shape of its points, the settings, and the length of the trace."""

    fun: Any
    shape: Shape
    settings: Template
    trace: int | None = None

    def __call__(self, x: Any, args: Any) -> Any:
        """Evaluate f at a vector."""
        return jnp.asarray(self.fun(self.shape.point(x), *args), x.dtype)

    def aux(self, x: Any, args: Any) -> list[Any]:
        """Evaluate the aux of f at a vector."""
        return self.fun.aux(self.shape.point(x), *args)

    def parts(self, numbers: dict[str, Any]) -> Settings:
        """Return the settings with these numbers."""
        return merge(self.settings, numbers)
