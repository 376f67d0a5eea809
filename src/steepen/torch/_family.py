"""One family: s = c·g, g⁺ = ∇f(x + s), d = g + ν(g⁺ − g); each method is a way to set c and ν.

To first order d = g + νc·Hg, the gradient of f + λ‖∇f‖² with λ = νc/2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .._check import number
from ..schedules import ByCurvature, Constant, Schedule, ScheduleLike, as_schedule

__all__ = ["PROBE", "Family"]

PROBE: dict[torch.dtype, float] = {
    torch.float64: 1e-6,
    torch.float32: 1e-3,
    torch.float16: 4e-3,
    torch.bfloat16: 1e-2,
}
"""The probe's length ‖s‖/‖x‖ at which the difference is accurate, by the precision of the passes."""

_TINY = 1e-12  # keeps a gradient of zero from dividing by it


@dataclass(frozen=True)
class Family:
    """How long the probe is, and what weight the difference gets.

    The length is set by one of `r` (s = r·g), `rho` (‖s‖ = ρ) and `probe` (‖s‖ = probe·‖x‖); the weight by
    `lam` (ν = 2λ/c) or `nu`. The one that `key` names may differ between parameter groups, which then weigh
    the probe: with λ_i the penalty is Σ λ_i‖g_i‖².

    Examples
    --------
    >>> Family.of(None, lam=0.1, nu=None, r=0.2, rho=None, probe=None).key
    'lam'
    """

    key: str
    lam: Schedule | None
    nu: Schedule | None
    r: Schedule | None
    rho: Schedule | None
    probe: Schedule | None
    nu_max: float
    probe_max: float

    @classmethod
    def of(
        cls,
        steps: int | None,
        *,
        lam: ScheduleLike | None,
        nu: ScheduleLike | None,
        r: ScheduleLike | None,
        rho: ScheduleLike | None,
        probe: ScheduleLike | None,
        nu_max: float | None = 1.0,
        probe_max: float | None = 0.1,
    ) -> Family:
        """Check what the user gave; `steps` is how many steps a schedule must cover, where that is known."""
        lengths = {"r": r, "rho": rho, "probe": probe}
        given = [name for name, value in lengths.items() if value is not None]
        if (lam is None) == (nu is None):
            raise ValueError("lam: expected the penalty's lam or the difference's weight nu, and not both")
        if len(given) > 1:
            raise ValueError(f"{given[1]}: the probe's length is already set by {given[0]}; give one of them")
        for name, value in (("nu_max", nu_max), ("probe_max", probe_max)):
            if value is not None:
                number(name, value, "a positive number, or None for no limit", above=0)
        known = {
            name: None if value is None else _schedule(name, value, steps)
            for name, value in {"lam": lam, "nu": nu, **lengths}.items()
        }
        key = "lam" if lam is not None else (given[0] if given else "nu")
        return cls(key, **known, nu_max=nu_max or math.inf, probe_max=probe_max or math.inf)

    @property
    def length(self) -> float:
        """How many steps the schedules cover."""
        all_ = (self.lam, self.nu, self.r, self.rho, self.probe)
        return min((s.length for s in all_ if s is not None and s.length is not None), default=math.inf)

    def reaches(self, k: int) -> bool:
        """Say whether step k is covered by the schedules, and has a probe of some length."""
        lengths = (self.r, self.rho, self.probe)
        return k < self.length and all(s is None or isinstance(s, Constant) or s(k) > 0 for s in lengths)

    def strength(self, k: int) -> float:
        """Give what `key` names at step k, for groups without a value of their own."""
        return float(getattr(self, self.key)(k))

    def numbers(self, k: int, strength: float, accurate: float) -> tuple[float, float, float, float]:
        """Give the numbers of step k: the probe's length, its least c and greatest length, and 2λ or ν.

        `strength` is the largest of the groups' values, in the place of the schedule's own.
        """

        def at(name: str) -> float:
            return strength if name == self.key else float(getattr(self, name)(k))

        length = next(
            (at(name) for name in ("r", "rho", "probe") if getattr(self, name) is not None), accurate
        )
        weight = at("nu") if self.lam is None else 2 * at("lam")
        return length, abs(weight) / self.nu_max, self.probe_max, weight

    def weights(self, numbers: Tensor, n: Tensor, x: Tensor | None) -> tuple[Tensor, Tensor]:
        """Give c and ν from those numbers, ‖g‖ and ‖x‖, all on the device."""
        length, least, limit, weight = numbers.unbind()
        relative = None if x is None else x / (n + _TINY)
        if self.r is not None:
            c = length
        elif self.rho is not None:
            c = length / (n + _TINY)
        else:
            assert relative is not None
            c = length * relative
            if self.lam is not None and self.probe is None:  # long enough that ν need not be cut
                c = torch.maximum(c, least)
        if relative is not None and self.probe_max < math.inf:
            c = torch.minimum(c, limit * relative)
        if self.lam is None:
            return c, weight
        nu = torch.where(c > 0, weight / c, 0.0)  # no probe, no difference
        return c, nu.clamp(-self.nu_max, self.nu_max) if self.nu_max < math.inf else nu

    @property
    def needs_x(self) -> bool:
        """Say whether ‖x‖ is asked for."""
        return self.probe_max < math.inf or (self.r is None and self.rho is None)


def _schedule(name: str, value: ScheduleLike, steps: int | None) -> Schedule:
    if not callable(value):
        if name not in ("lam", "nu"):  # these may be negative: descend f − |λ|‖∇f‖²
            number(name, value, "a positive number or a schedule", above=0)
        else:
            number(name, value, "a finite number or a schedule", above=-math.inf)
    schedule = as_schedule(value, name)
    try:
        schedule = schedule.fit(steps)
    except ValueError as error:
        raise ValueError(f"{name}: {error} (here: steps=, the length of the training)") from error
    if isinstance(schedule, ByCurvature):
        raise TypeError(
            f"{name}: expected a value for each step, got {value!r}, which waits for the curvature"
        )
    if steps is not None and schedule.length is not None and schedule.length < steps:
        raise ValueError(
            f"{name}: the schedule covers {schedule.length} of {steps} steps; give a longer one, or until="
        )
    return schedule
