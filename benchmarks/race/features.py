"""What may be wrong with a function: noise, few digits, kinks, variables, starts, failures.

A feature is a word, or `name=number`; `values+noise=1e-4` has two of them, applied from left to right. Each
is one function that takes a case and returns another. What only spoils what a solver sees, as noise does,
leaves what it is judged by as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from benchmarks.problems import Case

Number = float
Seen = Callable[[Any], Any]


def _spoilt(case: Case, of_value: Callable[[Any, Any], Any]) -> Case:
    """Return a case whose values are seen through `of_value(f, x)`, and judged as they were."""
    both = case.both

    def pair(x: Any) -> Any:
        value, slope = both(x)
        return of_value(value, x), slope

    return replace(
        case,
        value=lambda x: of_value(case.value(x), x),
        both=None if both is None else pair,
        exact=case.judged,
    )


def _mapped(case: Case, there: Callable[[Any], Any], back: Callable[[Any], Any], x0: Any) -> Case:
    """Return a case in other variables: `there(z)` is x, and `back(∇f(x))` the gradient by z."""
    both, exact = case.both, case.exact

    def pair(z: Any) -> Any:
        value, slope = both(there(z))
        return value, back(slope)

    return replace(
        case,
        value=lambda z: case.value(there(z)),
        both=None if both is None else pair,
        exact=None if exact is None else lambda z: exact(there(z)),
        x0=x0,
        bounds=None,
    )


def _generator(case: Case, purpose: int) -> np.random.Generator:
    return np.random.default_rng(case.seed if purpose == 0 else [*case.seed, purpose])


def values(case: Case) -> Case:
    """Give no gradient."""
    return replace(case, both=None)


def noise(case: Case, part: Number) -> Case:
    """Make each value wrong by up to this part of f, at random and anew each time."""
    rng = _generator(case, 0)
    return replace(_spoilt(case, lambda f, x: f * (1 + part * rng.uniform(-1, 1))), error=part)


def absolute_noise(case: Case, part: Number) -> Case:
    """Make each value wrong by up to this part of |f(x0)|, at random and anew each time."""
    rng, size = _generator(case, 0), part * abs(float(case.judged(case.x0)))
    return replace(_spoilt(case, lambda f, x: f + size * rng.uniform(-1, 1)), error=part)


def gradient_noise(case: Case, part: Number) -> Case:
    """Make each component of ∇f wrong by up to this part of it, at random."""
    rng, both = _generator(case, 1), case.both
    if both is None:
        return case

    def pair(x: Any) -> Any:
        value, slope = both(x)
        return value, slope * (1 + part * rng.uniform(-1, 1, len(slope)))

    return replace(case, both=pair)


def digits(case: Case, count: Number) -> Case:
    """Round values to so many significant digits."""
    return _spoilt(case, lambda f, x: float(f"{float(f):.{int(count) - 1}e}"))


def x_digits(case: Case, count: Number) -> Case:
    """Round x to so many significant digits before f sees it."""

    def rounded(x: Any) -> Any:
        return np.array([float(f"{one:.{int(count) - 1}e}") for one in x])

    return _mapped(case, rounded, lambda slope: slope, case.x0)


def kinks(case: Case, part: Number) -> Case:
    """Add this part of |f(x0)| times the mean distance to a point near the start: a kink in each variable."""
    centre = case.x0 + _generator(case, 2).uniform(-1, 1, len(case.x0))
    size, value, both = part * abs(float(case.judged(case.x0))), case.judged, case.both

    def added(x: Any) -> float:
        return size * float(abs(x - centre).mean())

    def pair(x: Any) -> Any:
        f, slope = both(x)
        return f + added(x), slope + size * np.sign(x - centre) / len(centre)

    return replace(
        case,
        value=lambda x: value(x) + added(x),
        both=None if both is None else pair,
        exact=None,
        known=np.inf,
        allowed=None,
    )


def rotated(case: Case) -> Case:
    """Rotate the variables at random."""
    Q = np.linalg.qr(_generator(case, 3).standard_normal((len(case.x0),) * 2))[0]
    return _mapped(case, lambda z: Q @ z, lambda slope: Q.T @ slope, Q.T @ case.x0)


def scaled(case: Case, ratio: Number) -> Case:
    """Scale the variables so that the largest unit is so many times the smallest."""
    exponents = _generator(case, 4).permutation(np.linspace(-0.5, 0.5, len(case.x0)))
    units = ratio**exponents
    return _mapped(case, lambda z: units * z, lambda slope: units * slope, case.x0 / units)


def f_scaled(case: Case, factor: Number) -> Case:
    """Multiply f, and its gradient, by a number."""
    both, value = case.both, case.value

    def pair(x: Any) -> Any:
        f, slope = both(x)
        return factor * f, factor * slope

    return replace(
        case,
        value=lambda x: factor * value(x),
        both=None if both is None else pair,
        exact=case.judged,
    )


def start(case: Case, distance: Number) -> Case:
    """Begin elsewhere: each variable moved by up to so many times its size, or so many units."""
    moved = distance * np.maximum(abs(case.x0), 1) * _generator(case, 5).uniform(-1, 1, len(case.x0))
    x0 = case.x0 + moved
    return replace(case, x0=x0 if case.bounds is None else np.clip(x0, *np.asarray(case.bounds).T))


def fails(case: Case, part: Number) -> Case:
    """Return NaN at this part of all points, always at the same ones, but not at the start."""
    weights = _generator(case, 6).uniform(1, 2, len(case.x0))
    home = case.x0.copy()

    def seen(f: Any, x: Any) -> Any:
        hidden = np.sin(1e6 * (np.asarray(x).real * weights).sum()) * 43758.5453
        missing = hidden - np.floor(hidden) < part and not np.array_equal(x, home)
        return np.nan if missing else f

    return _spoilt(case, seen)


FEATURES: dict[str, tuple[Callable[..., Case], bool]] = {
    "values": (values, False),
    "noise": (noise, True),
    "noise-abs": (absolute_noise, True),
    "gradient-noise": (gradient_noise, True),
    "digits": (digits, True),
    "x-digits": (x_digits, True),
    "kinks": (kinks, True),
    "rotated": (rotated, False),
    "scaled": (scaled, True),
    "f-scaled": (f_scaled, True),
    "start": (start, True),
    "fails": (fails, True),
}
"""The features by name, and whether a number belongs to each."""

OTHER_MINIMUM = ("kinks", "x-digits")
"""Features with which the lowest value is another one."""


def parsed(feature: str) -> list[tuple[str, float | None]]:
    """Return the parts of a feature; ValueError if it is not known."""
    found: list[tuple[str, float | None]] = []
    for part in feature.split("+"):
        name, sign, text = part.partition("=")
        if part == "plain":
            continue
        known = FEATURES.get(name)
        try:
            number = float(text) if sign else None
        except ValueError:
            known = None
        if known is None or known[1] != bool(sign) or (number is not None and not number > 0):
            usual = ", ".join(key + "=…" * needs for key, (_, needs) in FEATURES.items())
            raise ValueError(f"features: expected plain, or some of {usual}, joined by +; got {feature!r}")
        found.append((name, number))
    return found


def pose(case: Case, feature: str) -> Case:
    """Return a case with its features."""
    for name, number in parsed(feature):
        change = FEATURES[name][0]
        case = change(case) if number is None else change(case, number)
    return case


def family(feature: str) -> str:
    """Return what two features share if they have the same lowest value."""
    return "+".join(part for part in feature.split("+") if part.partition("=")[0] in OTHER_MINIMUM)
