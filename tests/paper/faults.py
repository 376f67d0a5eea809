"""Faults to plant: each breaks one formula or rule of the library, and the claims must see it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from steepen import _iteration, penalties, schedules, switches
from steepen._core import matrix
from steepen._core.guard import Guarded
from steepen.directions import cgd, quasi_newton

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
}
