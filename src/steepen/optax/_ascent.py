"""The ascent step of `value_and_grad`, `sam`, `cgd` and `msam`: settings, length, the new gradient; pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._core import ascent
from .._tools.check import is_number, number
from ._trees import Mask, Mean, Selection, accuracy, add, norm, select, vdot

ScalarOrSchedule = float | jax.Array | Callable[[Any], Any]
_USED_BY = {
    "alpha": ("rho",), "adaptive": ("rho",), "eta": ("rho",), "normalized": ("rho",),
    "r": ("lam", "ratio"), "exact": ("lam",), "guard": ("lam", "ratio"),
}  # fmt: skip


class Settings(NamedTuple):
    """The one of `rho`, `lam` and `ratio` that is given, its value, and the settings that go with it."""

    name: str
    value: Any
    mask: Mask = None
    dtype: Any = None
    alpha: Any = 1.0
    adaptive: bool = False
    eta: float | None = None
    normalized: bool = True
    r: Any = None
    exact: bool = False
    guard: bool = True

    @property
    def scheduled(self) -> bool:
        """Whether a value depends on the step."""
        return any(callable(value) for value in (self.value, self.alpha, self.r))

    def at(self, step: Any) -> tuple[Any, Any, Any]:
        """Return the value, α and r at a step."""
        if self.scheduled and step is None:
            name = self.name if callable(self.value) else "alpha" if callable(self.alpha) else "r"
            raise TypeError(f"step: {name} is a schedule, so pass the step number, step=…; got None")
        found = [one(step) if callable(one) else one for one in (self.value, self.alpha, self.r)]
        return found[0], found[1], found[2]

    def direction(
        self, g: Any, params: Any, both_at: Callable[[Any], Any], step: Any, mean: Mean | None = None
    ) -> tuple[Any, Any, Mean | None]:
        """Return d = g + ν(g⁺ − g), the value at x + s, and the mean of ‖g⁺ − g‖/‖g‖.

        `both_at` returns value and gradient of the batch. With exact products there is no x + s, nor a value.
        """
        chosen, (value, alpha, r) = select(self.mask, params), self.at(step)
        if self.name == "rho":
            s, n = self._ascent(g, params, chosen)
            c = _finite(value / n) if self.normalized else value
            at, plus = both_at(add(params, c, s, chosen))
            whole = is_number(alpha) and alpha == 1
            return plus if whole else add(g, alpha, jax.tree.map(jnp.subtract, plus, g)), at, mean
        n, at, lam = norm(g, chosen), None, value if self.name == "lam" else 0.0
        if self.exact:
            nu, change = 2 * lam, _product(lambda x: both_at(x)[1], params, g, chosen)
        else:
            limits = n, norm(params, chosen), accuracy(params, self.dtype)
            c, nu = ascent.of_lam(lam, *limits) if r is None else (r, 2 * lam / r)
            at, plus = both_at(add(params, _finite(c), g, chosen))
            change = jax.tree.map(jnp.subtract, plus, g)
        if self.name == "ratio":
            relative = norm(change, chosen) / n
            if mean is not None:
                mean = mean.updated(relative, ascent.SMOOTHING, relative > 0)
                relative = mean.value
            nu = ascent.of_ratio(value, relative, jnp)
        d = add(g, _finite(nu), change)  # in one pass with its product with g; to choose a tree is no pass
        if not self.guard:
            return d, at, mean
        behind = ~(vdot(g, d, chosen) > 0)  # the guard: d does not descend in the perturbed leaves
        return jax.lax.cond(behind, lambda _, g: g, lambda d, _: d, d, g), at, mean

    def _ascent(self, g: Any, params: Any, chosen: Selection) -> tuple[Any, jax.Array]:
        """Return the direction of the ascent step, and the norm to divide it by."""
        if not self.adaptive:
            return g, norm(g, chosen)
        eta = 0.01 if self.eta is None else self.eta
        scale = jax.tree.map(lambda x: jnp.abs(x) + eta, params)
        scaled = jax.tree.map(jnp.multiply, scale, g)
        return jax.tree.map(jnp.multiply, scale, scaled), norm(scaled, chosen)


def _product(gradient_at: Callable[[Any], Any], params: Any, g: Any, chosen: Selection) -> Any:
    """Return H·g, with 0 for the leaves of g that are not selected."""
    params = jax.tree.map(jnp.asarray, params)
    v = add(jax.tree.map(jnp.zeros_like, params), 1, g, chosen)
    try:
        return jax.jvp(gradient_at, (params,), (v,))[1]
    except TypeError as error:
        if "custom_vjp" in str(error):
            error.add_note("exact: a custom_vjp has no forward mode; write a custom_jvp, or take differences")
        raise


def settings_of(mask: Mask = None, dtype: Any = None, **given: Any) -> Settings:
    """Return the settings, checked; exactly one of the strengths among those given is not None."""
    names = [name for name in ("rho", "lam", "ratio") if name in given]
    found = {name: given.pop(name) for name in names}
    found = {name: value for name, value in found.items() if value is not None}
    if len(found) != 1:
        came = " and ".join(found) or "none"
        raise TypeError(f"{', '.join(names)}: expected one of them, to set the strength; got {came}")
    ((name, value),) = found.items()
    settings = Settings(name, value, mask, dtype, **given)
    for one, users in _USED_BY.items():
        default, came = Settings._field_defaults[one], getattr(settings, one)
        unused = name not in users or (one == "eta" and not settings.adaptive)
        if unused and not (callable(came) or came is default or came == default):
            raise ValueError(f"{one}: expected {default}, as {name} does not use it; got {came!r}")
        if isinstance(default, bool) and not isinstance(came, bool):
            raise TypeError(f"{one}: expected True or False, got {came!r}")
    for one in ("r", "dtype"):
        if settings.exact and getattr(settings, one) is not None:
            raise ValueError(f"{one}: expected None with exact products, got {getattr(settings, one)!r}")
    _check(name, value, "a finite number" if name == "lam" else "a number, 0 or more")
    _check("alpha", settings.alpha, "a number, 0 or more")
    if settings.r is not None:
        _check("r", settings.r, "a positive number")
    if settings.eta is not None:
        number("eta", settings.eta, "a number, 0 or more", least=0)
    return settings


def _check(name: str, value: Any, expected: str) -> None:
    """Raise an error for what is neither such a number nor a schedule."""
    if is_number(value):
        least, above = (
            0.0 if "0 or more" in expected else -math.inf,
            0.0 if "positive" in expected else -math.inf,
        )
        number(name, value, f"{expected}, or a schedule", least=least, above=above)
    elif not (callable(value) or isinstance(value, jax.Array)):
        raise TypeError(f"{name}: expected a number or a schedule of the step, got {value!r}")


def _finite(c: Any) -> jax.Array:
    """Return c, or 0 where it is not finite, as g is 0 or not finite."""
    return jnp.nan_to_num(c, nan=0.0, posinf=0.0, neginf=0.0)
