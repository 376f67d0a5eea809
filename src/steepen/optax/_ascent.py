"""The ascent step of `value_and_grad`, `sam`, `cgd` and `msam`: strength, length, the new gradient; pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._core import ascent
from .._tools.check import is_number, number
from ._trees import Mask, Mean, accuracy, add, norm, select, vdot

ScalarOrSchedule = float | jax.Array | Callable[[Any], Any]


class Strength(NamedTuple):
    """The strength of the penalty: `rho`, `lam` or `ratio`, the parameters, and the dtype of the passes."""

    name: str
    value: Any
    mask: Mask
    dtype: Any

    def at(self, step: Any) -> Any:
        """Return the value at a step."""
        if callable(self.value) and step is None:
            raise TypeError(f"step: {self.name} is a schedule, so pass the step number, step=…; got None")
        return self.value(step) if callable(self.value) else self.value

    def direction(
        self, g: Any, params: Any, gradient_at: Callable[[Any], Any], step: Any, mean: Mean | None = None
    ) -> tuple[Any, Mean | None]:
        """Return the gradient to use, g⁺ or g + ν(g⁺ − g) with the guard, and the mean of ‖g⁺ − g‖/‖g‖."""
        selection = select(self.mask, params)
        value, n = self.at(step), norm(g, selection)
        if self.name == "rho":
            return gradient_at(add(params, _finite(value / n), g, selection)), mean
        x = norm(params, selection)
        lam = value if self.name == "lam" else 0.0
        c, nu = ascent.of_lam(lam, n, x, accuracy(params, self.dtype))
        change = jax.tree.map(jnp.subtract, gradient_at(add(params, _finite(c), g, selection)), g)
        if self.name == "ratio":
            relative = norm(change, selection) / n
            if mean is not None:
                mean = mean.updated(relative, ascent.SMOOTHING, relative > 0)
                relative = mean.value
            nu = ascent.of_ratio(value, relative, jnp)
        d = add(g, _finite(nu), change)  # in one pass with its product with g; to choose a tree is no pass
        behind = ~(vdot(g, d, selection) > 0)  # the guard: d does not descend in the perturbed leaves
        return jax.lax.cond(behind, lambda _, g: g, lambda d, _: d, d, g), mean


def strength_of(mask: Mask = None, dtype: Any = None, **given: Any) -> Strength:
    """Return the one strength that is given, checked."""
    found = {name: value for name, value in given.items() if value is not None}
    if len(found) != 1:
        came = " and ".join(found) or "none"
        raise TypeError(f"{', '.join(given)}: expected one of them, to set the strength; got {came}")
    ((name, value),) = found.items()
    if is_number(value):
        what, least = ("a finite number", -math.inf) if name == "lam" else ("a number, 0 or more", 0.0)
        number(name, value, f"{what}, or a schedule", least=least)
    elif not (callable(value) or isinstance(value, jax.Array)):
        raise TypeError(f"{name}: expected a number or a schedule of the step, got {value!r}")
    return Strength(name, value, mask, dtype)


def _finite(c: Any) -> jax.Array:
    """Return c, or 0 where it is not finite, as g is 0 or not finite."""
    return jnp.nan_to_num(c, nan=0.0, posinf=0.0, neginf=0.0)
