"""Length and weight of the ascent step, for the training in `torch`, `optax` and `train`; pure formulas.

With g the gradient at the weights x and g⁺ the one at x + c·g, training steps by g⁺ or by g + ν(g⁺ − g).
"""

from __future__ import annotations

from typing import Any, cast

ACCURATE = {"float64": 1e-6, "float32": 1e-3, "float16": 4e-3, "bfloat16": 1e-2}
"""The length ‖s‖/‖x‖ of an ascent step at which a difference is accurate, by the precision of the passes."""

LONGEST = 0.1  # of ‖x‖: a large gradient must not move the weights far
SMOOTHING = 0.1  # the weight of a new value in the mean of ‖g⁺ − g‖/‖g‖ that `ratio` goes by
GATE = (0.2, 0.3)  # gap over validation loss where the ascent step begins, and from where on it is whole
RATE, FALL = 0.03, 4.0  # how fast the gain adapts: at most RATE upwards per step, FALL times that downwards
GAIN = (0.02, 100.0)  # its limits
NEW, NEW_VALIDATION, NEW_GRADIENT = 0.03, 0.5, 0.1  # the weight of a new value in running means, at least
FIRST = 1 / 3  # of the run before the first ascent step
LEAST = 20  # steps of a run


def of_lam(lam: Any, gnorm: Any, xnorm: Any, accurate: float) -> tuple[Any, Any]:
    """Return c and ν for the gradient of f + λ‖∇f‖²: c = 2λ, unless that is too short or too long."""
    unit = xnorm / gnorm
    c = (accurate * unit).clip(min=abs(2 * lam)).clip(max=LONGEST * unit)
    return c, (2 * lam / c).clip(-1, 1)


def of_ratio(ratio: Any, change: Any, xp: Any) -> Any:
    """Return ν such that ‖ν(g⁺ − g)‖ is this part of ‖g‖, from ‖g⁺ − g‖/‖g‖; 0 where g⁺ = g."""
    return xp.nan_to_num(ratio / change, nan=0.0, posinf=0.0, neginf=0.0)


def check_gate(gate: Any) -> None:
    """Refuse what is no gate of GapSAM: two rising numbers, or None."""
    pair = cast(list[Any], gate) if isinstance(gate, tuple | list) else []
    if gate is not None and not (len(pair) == 2 and 0 <= pair[0] < pair[1]):
        raise ValueError(f"gate: expected two rising numbers, such as {GATE}, or None; got {gate!r}")


def opening(gap: Any, validation: Any, gate: tuple[float, float], xp: Any) -> Any:
    """Return how far GapSAM's gate is open, 0 to 1, by gap over validation loss; 1 if that loss is ≤ 0."""
    least, most = gate
    part = ((gap / validation - least) / (most - least)).clip(0, 1)
    return xp.where(validation <= 0, xp.ones_like(part), part)


def gap_length(target: Any, gain: Any, gnorm: Any, square: Any, xnorm: Any, xp: Any) -> tuple[Any, Any]:
    """Return the length that raises the loss by `target`, and whether it is cut; `square` is a mean ‖g‖²."""
    free, most = gain * target / xp.fmax(gnorm, square**0.5), LONGEST * xnorm
    return free.clip(max=most), free > most


def gain_factor(rise: Any, rise_square: Any, target: Any, weight: float, xp: Any) -> Any:
    """Return what to multiply the gain by, from means; rises below their noise are ignored."""
    error = (weight / 2 * (rise_square - rise * rise)) ** 0.5  # NaN by rounding: no noise
    move = ((target - rise) / xp.fmax(target, error)).clip(-FALL, 1)
    return xp.exp(RATE * xp.nan_to_num(move, nan=0.0))


def new_weights(total_steps: int) -> tuple[float, float]:
    """Return the weight of a new value in GapSAM's mean of rises, and in its mean of the training loss."""
    return max(NEW, 10 / total_steps), min(max(NEW, 60 / total_steps), NEW_VALIDATION)
