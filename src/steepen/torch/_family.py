"""One family: g⁺ = ∇f(x + s), d = g + ν(g⁺ − g); each method is a way to set s = c·g and ν.

To first order d = g + νc·Hg, the gradient of f + λ‖∇f‖² with λ = νc/2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from .._tools.check import number
from ..schedules import ByCurvature, Constant, Schedule, ScheduleLike, as_schedule

__all__ = ["PROBE", "Along", "Family", "Perturbation", "Probe", "schedule_of"]

PROBE: dict[torch.dtype, float] = {
    torch.float64: 1e-6,
    torch.float32: 1e-3,
    torch.float16: 4e-3,
    torch.bfloat16: 1e-2,
}
"""The probe's length ‖s‖/‖x‖ at which the difference is accurate, by the precision of the passes."""

Along: TypeAlias = Literal["gradient", "momentum"]
Perturbation: TypeAlias = Literal["global", "local"]
_TINY = 1e-12  # keeps a gradient of zero from dividing by it


@dataclass(frozen=True)
class Probe:
    """Where the weights go for the second gradient, or for the only one: x + s.

    Parameters
    ----------
    r, rho, relative : number, schedule or callable of the step
        The length, by one of these: s = r·g, ‖s‖ = ρ, or ‖s‖ = relative·‖x‖.
    along : "gradient" or "momentum"
        s along the gradient; or against the base's momentum buffer, the way the momentum is going.
    share : float
        The part of the batch that the gradient of the probe is taken from, above 0 and at most 1.
    eta : float, optional
        ASAM's η: probe along T²g, T = |x| + η, instead of g, with ‖s‖ measured as ‖s/T‖.
    probe_max : float or None
        The limit on ‖s‖/‖x‖: a large gradient cannot throw the weights.
    perturbation : "global" or "local"
        With `DistributedDataParallel`: probe along the gradient of all ranks, or of each its own.
    dtype : torch.dtype, optional
        The precision of the passes, where it is not that of the parameters: `torch.bfloat16` under autocast.

    Examples
    --------
    >>> Probe(rho=0.05, share=1 / 16).alone
    True
    """

    r: ScheduleLike | None = None
    rho: ScheduleLike | None = None
    relative: ScheduleLike | None = None
    along: Along = "gradient"
    share: float = 1.0
    eta: float | None = None
    probe_max: float | None = 0.1
    perturbation: Perturbation = "global"
    dtype: torch.dtype | None = None

    def __post_init__(self) -> None:
        if self.along not in get_args(Along):
            raise ValueError(f"along: expected 'gradient' or 'momentum', got {self.along!r}")
        if self.perturbation not in get_args(Perturbation):
            raise ValueError(f"perturbation: expected 'global' or 'local', got {self.perturbation!r}")
        most = math.nextafter(1, 2)
        number("share", self.share, "a part of the batch, above 0 and at most 1", above=0, below=most)
        if self.eta is not None:
            number("eta", self.eta, "a number, 0 or more", least=0)
        if self.probe_max is not None:
            number("probe_max", self.probe_max, "a positive number, or None for no limit", above=0)
        given: object = self.dtype
        if given is not None and not isinstance(given, torch.dtype):
            raise TypeError(f"dtype: expected a torch.dtype, got {given!r}")
        if len(self.lengths) > 1:
            one, two = list(self.lengths)[:2]
            raise ValueError(f"{two}: the probe's length is already set by {one}; give one of them")
        if self.along == "momentum":
            for name, plain in (("share", 1.0), ("eta", None), ("perturbation", "global")):
                if getattr(self, name) != plain:
                    raise ValueError(f"{name}: a probe along the momentum takes no gradient of its own")

    @property
    def lengths(self) -> dict[str, ScheduleLike]:
        """What was given as a length: one, or nothing."""
        all_ = {"r": self.r, "rho": self.rho, "probe": self.relative}
        return {name: value for name, value in all_.items() if value is not None}

    @property
    def kind(self) -> str:
        """Where s comes from: a "difference" of two gradients of a batch, a "share" of it, or "momentum"."""
        return self.along if self.along == "momentum" else "share" if self.share < 1 else "difference"

    @property
    def alone(self) -> bool:
        """Whether g⁺ is d, and there is no g of the whole batch beside it."""
        return self.kind != "difference"


@dataclass(frozen=True)
class Family:
    """How long the probe is, and what weight the difference gets.

    The length is set by one of `r` (s = r·g), `rho` (‖s‖ = ρ) and `probe` (‖s‖ = probe·‖x‖); the weight by
    `lam` (ν = 2λ/c) or `nu`. The one that `key` names may differ between parameter groups, which then weigh
    the probe: with λ_i the penalty is Σ λ_i‖g_i‖². Where g⁺ is `alone`, ν = 1 and λ is a length: r = 2λ.
    """

    key: str
    lam: Schedule | None
    nu: Schedule | None
    r: Schedule | None
    rho: Schedule | None
    probe: Schedule | None
    nu_max: float
    probe_max: float
    alone: bool = False

    @classmethod
    def of(
        cls,
        steps: int | None,
        probe: Probe,
        *,
        lam: ScheduleLike | None,
        nu: ScheduleLike | None,
        nu_max: float | None,
    ) -> Family:
        """Check what the user gave; `steps` is how many steps a schedule must cover, where that is known."""
        lengths = probe.lengths
        if probe.alone:
            name = "share" if probe.kind == "share" else "probe"
            if nu not in (None, 1, 1.0):
                raise ValueError(f"nu: with {name}= there is no gradient to mix with; expected 1, got {nu!r}")
            if (lam is None) == (not lengths):
                raise ValueError(f"lam: with {name}= expected lam, which is r = 2·lam, or a length: r or rho")
            nu = None if lam is not None else 1.0
        if (lam is None) == (nu is None):
            raise ValueError("lam: expected the penalty's lam or the difference's weight nu, and not both")
        if nu_max is not None:
            number("nu_max", nu_max, "a positive number, or None for no limit", above=0)
        given = {"lam": lam, "nu": nu, "r": None, "rho": None, "probe": None, **lengths}
        known = {
            name: None if value is None else schedule_of(name, value, steps) for name, value in given.items()
        }
        key = "lam" if lam is not None else next(iter(lengths), "nu")
        most = probe.probe_max or math.inf
        return cls(key, **known, nu_max=nu_max or math.inf, probe_max=most, alone=probe.alone)

    @property
    def length(self) -> float:
        """How many steps the schedules cover."""
        all_ = (self.lam, self.nu, self.r, self.rho, self.probe)
        return min((s.length for s in all_ if s is not None and s.length is not None), default=math.inf)

    def reaches(self, k: int) -> bool:
        """Say whether step k is covered by the schedules, and has a probe of some length and weight."""
        if k >= self.length or (self.nu is not None and not self.nu(k)):
            return False
        lengths = (self.r, self.rho, self.probe)
        return all(s is None or isinstance(s, Constant) or s(k) > 0 for s in lengths)

    def strength(self, k: int) -> float:
        """Return what `key` names at step k, for groups without a value of their own."""
        return float(getattr(self, self.key)(k))

    def numbers(self, k: int, strength: float, accurate: float) -> tuple[float, float, float, float]:
        """Return the numbers of step k: the probe's length, its least c and greatest length, and 2λ or ν.

        `strength` is the largest of the groups' values, in the place of the schedule's own.
        """

        def at(name: str) -> float:
            return strength if name == self.key else float(getattr(self, name)(k))

        weight = at("nu") if self.lam is None else 2 * at("lam")
        if self.alone and self.lam is not None:
            return weight, 0.0, self.probe_max, 1.0
        length = next(
            (at(name) for name in ("r", "rho", "probe") if getattr(self, name) is not None), accurate
        )
        return length, abs(weight) / self.nu_max, self.probe_max, weight

    def weights(
        self, length: Tensor, least: Tensor, limit: Tensor, weight: Tensor, n: Tensor, x: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return c and ν from those numbers, ‖g‖ and ‖x‖, all on the device."""
        relative = None if x is None else x / (n + _TINY)
        if self.r is not None or (self.alone and self.lam is not None):
            c = length
        elif self.rho is not None:
            c = length / (n + _TINY)
        else:
            assert relative is not None
            c = length * relative
            if self.lam is not None and self.probe is None:  # long enough that ν need not be cut
                c = torch.maximum(c, least)
        if relative is not None and self.probe_max < math.inf:
            most = limit * relative
            c = torch.minimum(c, most)
            if self.alone:  # where a negative λ makes a negative c
                c = torch.maximum(c, -most)
        if self.lam is None or self.alone:
            return c, weight
        nu = torch.where(c > 0, weight / c, 0.0)  # no probe, no difference
        return c, nu.clamp(-self.nu_max, self.nu_max) if self.nu_max < math.inf else nu

    @property
    def needs_x(self) -> bool:
        """Say whether ‖x‖ is asked for."""
        by_x = self.r is None and self.rho is None and not (self.alone and self.lam is not None)
        return self.probe_max < math.inf or by_x


def schedule_of(name: str, value: ScheduleLike, steps: int | None) -> Schedule:
    """Return a schedule of what was given, which must cover so many steps, where that is known."""
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
