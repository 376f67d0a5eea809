"""A rival of 2026: the noise-tolerant regularised quasi-Newton method of Hamaguchi, Marumo and Takeda.

arXiv:2603.10642; its authors have offered it to SciPy (scipy #26038). Written anew from the paper's
description and the settings that its authors publish; it is no code of theirs. With B the L-BFGS matrix of
the last ten pairs, a step solves (B + (μ + 1e-10)·I)d = −g and is cut by interpolation until a relaxed
Armijo condition holds.

- μ is 0 while every value is lower than the earlier ones by more than their error δ = 2ε/(1 − ε)·max(f,
−f⁺, 1).
- Otherwise f says nothing any more, and μ = 0.1‖g‖, between a hundredth of and the whole √Σ‖g‖² of such steps
  (AdaGrad-Norm; optimisation without function values). A first step whose new gradient points ahead is
  shortened.
- A pair has the mean of two modified secants (Zhang, Deng and Chen 1999; Yuan 1991) where the decrease is
larger than
  its error, and is damped where sᵀy < 0.

The method is told ε, the relative error of a value.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

PAIRS = 10
ARMIJO = 1e-4
TRIALS = 40
LEAST = 1e-10
PART, LOWEST_PART = 0.1, 0.01
PRECISION = float(np.finfo(float).eps)


class Found(NamedTuple):
    """Where a run ended, and how."""

    x: Any
    success: bool
    word: str


class Memory:
    """The pairs (s, y), and the regularised direction that they give."""

    def __init__(self, gnorm: float) -> None:
        self.scale = max(1.0, gnorm)
        self.pairs: deque[tuple[Any, Any]] = deque(maxlen=PAIRS)

    def direction(self, g: Any, weight: float) -> Any:
        """Return d with (B + weight·I)d = −g; B in the compact form of Byrd, Nocedal and Schnabel (1994)."""
        plain = -g / (self.scale + weight)
        if not self.pairs:
            return plain
        S, Y = (np.array(part).T for part in zip(*self.pairs, strict=True))
        s, y = self.pairs[-1]
        gamma = (y @ y) / (s @ y)
        products = S.T @ Y
        lower = np.tril(products, -1)
        middle = np.block([[gamma * S.T @ S, lower], [lower.T, -np.diag(np.diag(products))]])
        wide, total = np.hstack([gamma * S, Y]), gamma + weight
        try:  # Woodbury: B = γI − Ψ·middle⁻¹·Ψᵀ
            inner = np.linalg.solve(middle - wide.T @ wide / total, wide.T @ g)
        except np.linalg.LinAlgError:
            return plain
        d = -(g + wide @ inner / total) / total
        return d if np.isfinite(d).all() and d @ g < 0 else plain

    def learn(self, s: Any, g_before: Any, g: Any, f_before: float, f: float, error: float) -> None:
        """Keep a pair whose curvature is positive enough."""
        y, square = g - g_before, float(s @ s)
        if not (np.isfinite(y).all() and 0 < square < math.inf):
            return
        if f < f_before - 2 * error * (1 - error) * max(1.0, abs(f), abs(f_before)):
            fall, slopes = f_before - f, float(s @ (g + g_before))
            cubic, quadratic = 6 * fall + 3 * slopes, max(0.0, 2 * fall + slopes)
            change = (cubic + quadratic) / 2 / square
            if abs(change) <= math.sqrt(float(y @ y) / square):
                y = y + change * s
        curvature = float(s @ y)
        if curvature < 0:
            bound = float(y @ y) / -curvature
            if bound > 1e3:
                return
            kept = 0.8 * square * bound / (square * bound - curvature)
            y = kept * y + (1 - kept) * bound * s
            curvature = float(s @ y)
        if curvature >= max(float(y @ y) / (1e8 * self.scale), 1e-16):
            self.pairs.append((s, y))


def minimize(
    value: Callable[[Any], float],
    grad: Callable[[Any], Any],
    x0: Any,
    *,
    error: float = PRECISION,
    gtol: float = 1e-5,
) -> Found:
    """Minimise f from x0; `error` is the relative error of a value."""
    x, f, g = np.array(x0, dtype=float), value(x0), grad(x0)
    gnorm = float(np.linalg.norm(g))
    if not math.isfinite(gnorm):
        return Found(x, False, "not finite")
    memory, squares, level = Memory(gnorm), LEAST**2, math.inf
    while gnorm > gtol:
        blind = not f <= level
        mu = 0.0
        if blind:
            squares += gnorm**2
            most = math.sqrt(squares)
            mu = min(max(PART * gnorm, LOWEST_PART * most), most)
        d = memory.direction(g, mu + LEAST)
        step = search(value, grad, x, f, g, d, error, blind, gtol)
        if step is None:
            return Found(x, False, "search failed")
        before = x, f, g
        x, f, g, delta = step
        memory.learn(x - before[0], before[2], g, before[1], f, error)
        if not blind and math.isfinite(before[1]):
            level = min(level, before[1] - delta)
        gnorm = float(np.linalg.norm(g))
    return Found(x, True, "gradient")


def search(
    value: Callable[[Any], float], grad: Callable[[Any], Any], x: Any, f: float, g: Any, d: Any,
    error: float, blind: bool, gtol: float,
) -> tuple[Any, float, Any, float] | None:  # fmt: skip
    """Return the next point with f, ∇f and the error δ of the comparison; None if no step will do."""
    slope, alpha = float(d @ g), 1.0
    last: tuple[float, float] | None = None
    for _ in range(TRIALS):
        trial = x + alpha * d
        if (trial == x).all():
            return None
        f_trial = value(trial)
        if math.isnan(f_trial) or f_trial == -math.inf:
            alpha /= 2
            continue
        delta = 2 * error / (1 - error) * max(f, -f_trial, 1.0)
        if f_trial > f + ARMIJO * alpha * slope + delta:
            shorter = interpolated(f, slope, alpha, f_trial, last)
            last, alpha = (alpha, f_trial), shorter
            continue
        g_trial = grad(trial)
        if not np.isfinite(g_trial).all():
            alpha /= 4
            continue
        size, ahead = float(np.linalg.norm(g_trial)), float(d @ g_trial)
        if blind and alpha == 1.0 and size > gtol and ahead > 0.5 * float(np.linalg.norm(d)) * size:
            alpha = min(max(-slope / (ahead - slope), 1 / 16), 15 / 16)
            continue
        return trial, f_trial, g_trial, delta
    return None


def interpolated(
    f: float, slope: float, alpha: float, f_alpha: float, last: tuple[float, float] | None
) -> float:
    """Return a shorter step: of the cubic through the last two trials, else of a parabola, else the half."""
    found = math.nan
    with np.errstate(all="ignore"):
        if last is not None:
            other, f_other = last
            left = np.array([[alpha**3, alpha**2], [other**3, other**2]])
            right = np.array([f_alpha - f - slope * alpha, f_other - f - slope * other])
            if np.linalg.det(left) != 0 and np.isfinite(right).all():
                a, b = np.linalg.solve(left, right)
                root = b * b - 3 * a * slope
                if root >= 0 and a != 0:
                    found = float((-b + math.sqrt(root)) / (3 * a))
        if 0.2 * alpha < found < 0.8 * alpha:
            return found
        bend = f_alpha - f - slope * alpha
        found = -slope * alpha * alpha / (2 * bend) if bend > 0 else math.nan
    return found if 0.1 * alpha < found < 0.9 * alpha else alpha / 2
