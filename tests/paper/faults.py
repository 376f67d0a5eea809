"""Faults to plant: each breaks one formula or rule of the library, and the claims must see it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from steepen import _iteration, functions, penalties, schedules, switches, theory
from steepen._core import matrix
from steepen._core.guard import Guarded
from steepen.directions import cgd, quasi_newton
from steepen.paper import egr

Plant = Callable[[pytest.MonkeyPatch], None]


def _scale(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(penalties.SquaredL2, "scale", 1.0)


def _no_guard(patch: pytest.MonkeyPatch) -> None:
    def unguarded(kit: Any, on: Any, g: Any, size: Any, p: Any, trusted: Any = False) -> Guarded:
        return kit.where(on, p, -g), kit.dot(g, p), on, False, False

    patch.setattr(_iteration, "guarded", unguarded)


def _frozen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(matrix, "update", lambda M, *_, **__: M)


def _difference(patch: pytest.MonkeyPatch) -> None:
    right = cgd.Difference.product

    def wrong(*arguments: Any) -> Any:
        c, u = right(*arguments)
        return 1.01 * c, u

    patch.setattr(cgd.Difference, "product", wrong)


def _later(by: int) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(switches.After, "off", lambda self, k, *_: k >= self.b + by)

    return plant


def _no_first_guard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(switches.FirstGuard, "off", lambda *_: False)


def _swapped(patch: pytest.MonkeyPatch) -> None:
    right = quasi_newton.Approximation.learn

    def wrong(self: Any, *arguments: Any) -> Any:
        return right(replace(self, rule="dfp" if self.rule == "bfgs" else "bfgs"), *arguments)

    patch.setattr(quasi_newton.Approximation, "learn", wrong)


def _level(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(schedules.L, "__call__", lambda self, k: self.start)


def _in_theory(name: str, wrong: Callable[..., Any]) -> Plant:
    """Put a wrong function in the place of one of `steepen.theory`; the interval is made of the step."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(theory, name, wrong)
        if name == "safe_step":
            patch.setattr(theory, "safe_interval", lambda L, lam: (0.0, 2 * wrong(L, lam)))

    return plant


def _half_nature(patch: pytest.MonkeyPatch) -> None:
    right = theory.penalised_nature
    patch.setattr(theory, "penalised_nature", lambda H, lam, *more: right(H, lam / 2, *more))


def _all_pairs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(matrix, "CURVATURE", -1e300)
    patch.setattr(matrix, "LEAST", -1e300)


def _third(patch: pytest.MonkeyPatch) -> None:
    right = cgd.CGD.switch

    def wrong(self: Any, total: Any) -> Any:
        return right(self, total // 3 * 4 if total else total)

    patch.setattr(cgd.CGD, "switch", wrong)


def _changed(name: str, value: Callable[..., Any] | None, grad: Callable[..., None] | None) -> Plant:
    """Put another value and gradient, both of coordinates first, into a test function."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        for part, wrong in (("_value", value), ("_grad", grad)):
            right = getattr(functions[name], part)
            if wrong is not None:
                patch.setattr(functions[name], part, lambda *given, w=wrong, r=right: w(r, *given))

    return plant


_MORE = 1 / 3900 - 1 / 4000


def _more_bowl(right: Any, x: Any, g: Any) -> None:
    right(x, g)
    g += 2 * _MORE * x


def _slower_waves(right: Any, x: Any) -> Any:
    square = (x * x).sum(axis=0)
    return -(1 + np.cos(11 * np.sqrt(square))) / (0.5 * square + 2)


def _slope_of_slower_waves(right: Any, x: Any, g: Any) -> None:
    square = (x * x).sum(axis=0)
    far, below = np.sqrt(square), 0.5 * square + 2
    g[:] = (11 * np.sin(11 * far) / far / below + (1 + np.cos(11 * far)) / below**2) * x


def _up(x: Any) -> Any:
    moved = x.copy()  # 48 in place of 47 is the function a step to the side
    moved[1] += 1
    return moved


def _lowest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(functions["eggholder"], "fmin", functions["eggholder"].fmin - 10)


def _free_switch_off(patch: pytest.MonkeyPatch) -> None:
    right = egr.Scene.ends

    def wrong(self: Any, way: Any) -> Any:
        ends = right(self, way)
        return ends._replace(cost=ends.cost - 2 * self.b) if way == "switch-off" else ends

    patch.setattr(egr.Scene, "ends", wrong)


FAULTS: Mapping[str, Plant] = {
    "penalty scale 2 → 1": _scale,
    "guard removed": _no_guard,
    "quasi-Newton matrix frozen": _frozen,
    "difference × 1.01": _difference,
    "b − 1": _later(-1),
    "b + 3": _later(3),
    "first-guard switch disabled": _no_first_guard,
    "BFGS ↔ DFP": _swapped,
    "L(a, b) constant": _level,
    "safe step with (1 + λL)²": _in_theory("safe_step", lambda L, lam: 1 / (L * (1 + lam * L) ** 2)),
    "safe step with exponent 1": _in_theory("safe_step", lambda L, lam: 1 / (L * (1 + 2 * lam * L))),
    "safe step halved": _in_theory("safe_step", lambda L, lam: 0.5 / (L * (1 + 2 * lam * L) ** 2)),
    "rate with μ/2": _in_theory("linear_rate", lambda L, mu, lam: 1 - mu / 2 / (L * (1 + 2 * lam * L) ** 2)),
    "nature of g with λ for 2λ": _half_nature,
    "pairs without yᵀs > 0 taken": _all_pairs,
    "b = T/3 by default": _third,
    "Griewank with 3900": _changed("griewank", lambda r, x: r(x) + _MORE * (x * x).sum(axis=0), _more_bowl),
    "Eggholder with 48": _changed("eggholder", lambda r, x: r(_up(x)), lambda r, x, g: r(_up(x), g)),
    "Eggholder's f* off by 10": _lowest,
    "Drop-Wave with 11": _changed("drop-wave", _slower_waves, _slope_of_slower_waves),
    "Zakharov's value alone": _changed("zakharov", lambda r, x: 1.01 * r(x), None),
    "EGR's switch-off without the cost of its b steps": _free_switch_off,
}
