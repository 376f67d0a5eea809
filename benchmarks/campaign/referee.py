"""The referee: is a claim of success true? It knows the function, and nothing of the library.

A run that says CONVERGED claims ‖P(x − ∇f) − x‖ ≤ gtol. The gradient is taken at fifty digits.
- "right": it is within gtol.
- "own error": it is not, but the gradient that the user's function gave at x is: its floats are wrong there
  by so much. Or, where gradients are differences: it is within gtol plus four times the error that the
  documented steps have there in double precision.
- "false": else.

Any other success claims that f cannot be lowered at the precision its own values show. From x a damped
Newton method descends at fifty digits, inside the bounds. It takes a step only if f falls by what its
quadratic model foretells, within factors of 0.1 and 4, and so stays in the valley it is in. The claim is
false if it comes to a point where the user's own floats are lower by more than the sum of
- 1e-7 of |f| (1e-4 in float32);
- Σ ½|Hᵢᵢ|(√ε·xᵢ)²: values of f fix a minimiser to √ε of its size, no better;
- ten times the error of f at both points, in floats against fifty digits, and of the noise that was put in,
  or of the last digit that was left.

A convex function with kinks has a known minimum f*. There any success is "right" within 1e-6·(f(x0) − f*) of
it, or if it says CONVERGED and the gradient at fifty digits is within gtol; else it is false.

Targets without a formula at fifty digits are judged in floats, with derivatives by complex steps. That can
find a claim false, and proves less where it does not.
"""

import math
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

from .cases import LARGE

DIGITS = 80
STEP = mp.mpf(10) ** -25
EPS = {4: float(np.finfo(np.float32).eps), 8: float(np.finfo(np.float64).eps)}
PART = {4: 1e-4, 8: 1e-7}
AT_KINK = 1e-6
DAMPINGS = (0.0, *(10.0**k for k in (-6, -3, -1, 0, 1, 2, 4, 6, 9, 12, 24, 48)))


@dataclass(frozen=True)
class Claim:
    """x, f and ∇f there, and the tolerance that ‖∇f‖ is said to meet; None: that f is as low as it gets.

    `order` is that of the norm; `slack` is a fall of f that the claim allows for by its own words.
    """

    x: Any
    fun: float
    jac: Any
    gtol: float | None
    order: float = 2
    slack: float = 0.0


def judge(case, claim):
    """Return "right", "own error", "unjudged", or a text that begins with "false"."""
    if not (np.isfinite(claim.fun) and np.isfinite(claim.x).all()):
        return "false: f or x is not finite"
    with mp.workdps(_digits(case.target, claim.x)), np.errstate(all="ignore"):
        if case.target.lowest is not None:
            return _kink(case, claim, case.target.lowest)
        return _gradient(case, claim) if claim.gtol is not None else _lowest(case, claim)


# --- ‖∇f‖ ≤ gtol -------------------------------------------------------------------------------------------


def _gradient(case, claim):
    x = claim.x.astype(float)
    exact = exact_gradient(case.target, x)
    if exact is None:
        return "unjudged"
    size = _measure(case, x, exact, claim.order)
    tiny = float(np.finfo(claim.x.dtype).smallest_normal)  # smaller numbers are zero to some machines
    limit = claim.gtol * (1 + 1e-6) + len(x) * tiny
    if size <= limit:
        return "right"
    if case.differences:  # what they could show of ‖∇f‖, at the least
        seen = size - 4 * norm(_difference_error(case, x, exact), claim.order)
    else:
        seen = _measure(case, x, claim.jac.astype(float), claim.order)
    if seen <= limit:
        return "own error"
    return f"false: ‖∇f‖ = {size:.3g} where gtol is {claim.gtol:g}"


def _kink(case, claim, lowest):
    part = (claim.fun - lowest) / (float(case.target.fun(case.x0)) - lowest)
    if part <= AT_KINK:
        return "right"
    exact = None if claim.gtol is None else exact_gradient(case.target, claim.x)
    if exact is not None and _measure(case, claim.x, exact, claim.order) <= claim.gtol * (1 + 1e-6):
        return "right"
    return f"false: f is {part:.2g} of its first height above its minimum"


def exact_gradient(target, x):
    """Return ∇f to all digits of a double; as the target has it where that overflows; else None."""
    at = Floats(target) if target.exact is None else Exact(target)
    for g in (at.floats(at.gradient(at.point(x))), target.grad(x)):
        if np.isfinite(g).all():
            return g
    return None


def _measure(case, x, g, order):
    low, high = _box(case)
    return norm(np.clip(-g, low - x, high - x), order)


def _difference_error(case, x, exact):
    """Return the error of the documented differences in double precision, the worse of both sides."""
    target, errors = case.target, []
    low, high = (np.broadcast_to(side, x.shape) for side in _box(case))
    powers = (1 / 2,) if case.derivatives == "2-point" else (1 / 2, 1 / 3)
    for i, slope in enumerate(exact):
        worst = 0.0
        for power in powers:
            h = EPS[8] ** power * max(abs(x[i]), 1.0)
            worst = max(worst, EPS[8] * abs(float(target.fun(x))) / h)  # rounding, whatever the luck
            ahead, back = x.copy(), x.copy()
            ahead[i], back[i] = min(x[i] + h, high[i]), max(x[i] - h, low[i])
            for a, b in ((ahead, x), (x, back), (ahead, back)):
                gap = a[i] - b[i]
                if gap > 0:
                    quotient = (float(target.fun(a)) - float(target.fun(b))) / gap
                    worst = max(worst, abs(quotient - slope))
        errors.append(worst)
    return np.array(errors)


def norm(v, order=2):
    """Return ‖v‖ with no overflow or underflow on the way."""
    return math.hypot(*v) if order == 2 else float(abs(v).max())


# --- f cannot be lowered -----------------------------------------------------------------------------------


def _lowest(case, claim):
    target, width = case.target, claim.x.dtype.itemsize
    if target.exact is None and target.n >= LARGE:
        return "unjudged"
    at = Floats(target) if target.exact is None else Exact(target)
    error = abs(float(at.value(at.point(claim.x)) - claim.fun))
    if error == math.inf:  # beyond what a formula at fifty digits can do in time
        at, error = Floats(target), 0.0
    allowed = claim.slack + (PART[width] + 10 * target.noise) * abs(claim.fun) + 10 * error
    allowed += _flatness(at, claim.x) + 10 * target.resolution
    low, high = _box(case)
    for point in _descent(case, at, claim.x, allowed):
        x = np.clip(at.floats(point).astype(claim.x.dtype), low, high).astype(claim.x.dtype)
        f = float(target.fun(x))
        if np.isfinite(f) and claim.fun - f > allowed + 10 * abs(float(at.value(at.point(x)) - f)):
            fall = claim.fun - f
            return f"false: f = {claim.fun:.3g} falls by {fall:.3g} or more; {allowed:.3g} is allowed"
    return "right"


def _flatness(at, x):
    """Return Σ ½|Hᵢᵢ|(√ε·xᵢ)²."""
    point, root, total = at.point(x), EPS[x.dtype.itemsize] ** 0.5, 0.0
    f = at.value(point)
    for i, t in enumerate(point):
        if t:
            ahead, back = (at.value(_moved(point, i, sign * root * t)) for sign in (1, -1))
            total += abs(float(ahead + back - 2 * f)) / 2
    return total if np.isfinite(total) else 0.0


def _descent(case, at, start, enough):
    """Yield points that are lower by `enough`, on a path of steps that f's own quadratic model foretells."""
    low, high = (at.point(np.broadcast_to(side, start.shape)) for side in _box(case))
    x = at.point(start)
    f = first = at.value(x)
    for _ in range(40):
        g, H = at.derivatives(x, f)
        held = ((x <= low) & (g >= 0)) | ((x >= high) & (g <= 0))
        for damping in DAMPINGS:
            there = np.clip(x + at.step(x, g, H, ~held, damping), low, high)
            move, value = there - x, at.value(there)
            foretold = -(g @ move + move @ H @ move / 2)
            if 0.1 * foretold < f - value < 4 * foretold:
                break
        else:
            return
        fall, x, f = f - value, there, value
        if first - f > enough:
            yield x
        if fall * 1000 < enough:
            return


# --- numbers: at eighty digits, and in floats --------------------------------------------------------------


class Numbers:
    """The arithmetic of the descent: points, values, derivatives, and −(H + damping·D)⁻¹∇f."""

    def __init__(self, target):
        self.target = target

    def point(self, x):
        return x.astype(float)

    floats = point

    def step(self, x, g, H, free, damping):
        """Solve in the free variables; D is |diag H| or, where that is nothing, |gᵢ| by the size of xᵢ."""
        step, at = 0 * x, np.flatnonzero(free)
        A = H[np.ix_(at, at)].copy()
        for k, i in enumerate(at):
            A[k, k] += damping * (max(abs(H[i, i]), abs(g[i]) / max(abs(x[i]), self.target.unit)) or 1.0)
        step[at] = self.solve(A, -g[at])
        return step


class Exact(Numbers):
    """Numbers of mpmath, in arrays of objects; derivatives are differences, exact to twenty digits."""

    def point(self, x):
        return np.array([mp.mpf(float(t)) for t in x])

    def value(self, x):
        try:
            f = self.target.exact(list(x))
        except (ZeroDivisionError, OverflowError, ValueError):
            return mp.inf
        return f if isinstance(f, mp.mpf) and not mp.isnan(f) else mp.inf  # complex: it is not defined

    def gradient(self, x):
        return np.array([self._across(x, i, s) / (2 * s) for i, s in enumerate(self._steps(x))])

    def _across(self, x, i, s):
        return self.value(_moved(x, i, s)) - self.value(_moved(x, i, -s))

    def derivatives(self, x, f):
        n, h = len(x), self._steps(x)
        ahead = [self.value(_moved(x, i, h[i])) for i in range(n)]
        back = [self.value(_moved(x, i, -h[i])) for i in range(n)]
        H = np.empty((n, n), object)
        for i in range(n):
            H[i, i] = (ahead[i] + back[i] - 2 * f) / h[i] ** 2
            for j in range(i):
                corner = self.value(_moved(_moved(x, i, h[i]), j, h[j]))
                H[i, j] = H[j, i] = (corner - ahead[i] - ahead[j] + f) / (h[i] * h[j])
        return np.array([(a - b) / (2 * s) for a, b, s in zip(ahead, back, h, strict=True)]), H

    def solve(self, A, b):
        if not len(b) or not all(mp.isfinite(t) for t in (*A.flat, *b)):
            return 0 * b
        try:
            return np.array(list(mp.lu_solve(mp.matrix(A.tolist()), mp.matrix(b.tolist()))))
        except (ZeroDivisionError, TypeError):  # singular; or so near to it that mpmath finds no pivot
            return 0 * b

    def _steps(self, x):
        return [STEP * max(abs(t), mp.mpf(self.target.unit)) for t in x]


class Floats(Numbers):
    """Plain floats; second derivatives are complex steps of the gradient."""

    def value(self, x):
        f = float(self.target.fun(x))
        return f if f == f else np.inf

    def gradient(self, x):
        return np.array([np.imag(self.target.fun(point)) for point in self._tilted(x)]) / self._steps(x)

    def derivatives(self, x, f):
        rows = np.array([np.imag(self.target.grad(point)) for point in self._tilted(x)])
        H = rows / self._steps(x)[:, None]
        return self.target.grad(x), (H + H.T) / 2

    def solve(self, A, b):
        if not (len(b) and np.isfinite(A).all() and np.isfinite(b).all()):
            return 0 * b
        return np.linalg.lstsq(A, b, rcond=1e-15)[0]

    def _steps(self, x):
        return 1e-30 * np.maximum(abs(x), self.target.unit)

    def _tilted(self, x):
        return x + 1j * np.diag(self._steps(x))


def _digits(target, x):
    """Return how many digits hold x and the steps of the differences together."""
    smallest = float(abs(x[x != 0]).min(initial=target.unit))
    return DIGITS + max(0, math.ceil(math.log10(target.unit) - math.log10(smallest)))


def _moved(x, i, h):
    x = x.copy()
    x[i] += h
    return x


def _box(case):
    return np.array(case.bounds).T if case.bounds else (np.array(-np.inf), np.array(np.inf))
