"""How a gradient is taken by differences: SciPy's schemes and options, and who evaluates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import is_jax_array
from numpy.typing import NDArray

from .._core.arrays import Array, is_numpy, namespace
from .._tools.check import floats
from .._tools.workers import Map

POWER = {"2-point": 1 / 2, "3-point": 1 / 3, "cs": 1 / 2}
"""A fixed interval is this power of ε: where truncation and rounding balance."""

COMPLEX = 1e-12
"""A complex step is this part of a real one: it suffers no cancellation."""


@dataclass(frozen=True)
class Differences:
    """A gradient as the user names it, with SciPy's options in case it is made of differences.

    Parameters
    ----------
    jac : what `minimize` takes for it
    eps : the absolute intervals, one or one per variable
    rel_step : the intervals relative to |x|, one or one per variable
    workers : evaluates f at the points of one gradient, perhaps at the same time
    """

    jac: Any = None
    eps: NDArray[np.float64] | None = None
    rel_step: NDArray[np.float64] | None = None
    workers: Map | None = None

    @property
    def asked(self) -> bool:
        """Whether the user has chosen the intervals."""
        return self.eps is not None or self.rel_step is not None

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuse what does not fit a start of this shape."""
        n = shape[-1]
        if self.workers is not None and len(shape) > 1:
            raise ValueError(
                f"workers: expected one start point, since a batch is evaluated at once; got {shape}"
            )
        for name, steps in (("eps", self.eps), ("finite_diff_rel_step", self.rel_step)):
            if steps is not None and steps.shape not in ((), (1,), (n,)):
                raise ValueError(f"{name}: expected a number, or {n} of them, got shape {steps.shape}")

    def intervals(self, scheme: str, x: NDArray[Any], eps: Any) -> NDArray[Any]:
        """Return SciPy's intervals at x; one that leaves x where it is gets the usual size."""
        away = np.where(x < 0, -1.0, 1.0)
        usual = eps ** POWER[scheme] * np.maximum(np.abs(x), 1.0) * away
        if scheme == "cs":
            usual *= COMPLEX
        if self.eps is not None:
            asked = self.eps + 0.0 * x
        elif self.rel_step is not None:
            asked = self.rel_step * np.abs(x) * away
        else:
            return usual
        return np.where(asked == 0 if scheme == "cs" else x + asked == x, usual, asked)


def steps_of(name: str, value: Any) -> NDArray[np.float64] | None:
    """Read an option that is a step, or one per variable."""
    return None if value is None else floats(name, value, "a number, or one for each variable")


def taken(point: NDArray[Any], h: Any) -> NDArray[np.float64]:
    """Return the differences that are really taken, in the precision of the point."""
    return ((point + np.asarray(h, dtype=point.dtype)) - point).astype(np.float64)


def can_widen(x: Array) -> bool:
    """Say whether this is float32, in a library that has float64 at hand."""
    if "32" not in str(x.dtype):
        return False
    # JAX has none unless told so, and shows it by what a Python number becomes
    return not is_jax_array(x) or "64" in str(namespace(x).asarray(0.0).dtype)


def widened(x: Array) -> Array:
    """Return a float32 array as float64; the numbers are the same."""
    return x.astype(np.float64) if is_numpy(x) else namespace(x).astype(x, namespace(x).float64)
