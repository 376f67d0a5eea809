"""Gradients made of values, over intervals that are chosen once, by SciPy's rule or by the user."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import adopt, is_numpy, namespace, to_numpy
from ..questions import Asking, Value, Values, Vector
from ..space import Space
from ..status import BY_VALUES, Status
from ..vectors import norm, own
from . import tuning
from .given import Gradients
from .noise import Flags, Floats, NoiseModel

if TYPE_CHECKING:
    from ..run import Run

FLOAT64 = float(np.finfo(np.float64).eps)

POWER = {"2-point": 1 / 2, "3-point": 1 / 3, "cs": 1 / 2}  # of ε, where truncation and rounding balance
COMPLEX = 1e-12  # a complex step is this part of a real one: it suffers no cancellation
HALFWAY = 3 / 8  # over half the way a slope changes f by a half, and a bend by a quarter


@dataclass(frozen=True)
class DifferenceOptions:
    """SciPy's options of a gradient that is made of differences.

    Examples
    --------
    >>> DifferenceOptions(rel_step=np.array(1e-3)).intervals("2-point", np.array([-2.0, 4.0]), 2.0**-52)
    array([-0.002,  0.004])
    """

    eps: NDArray[np.float64] | None = None
    """The absolute intervals, one or one per variable."""
    rel_step: NDArray[np.float64] | None = None
    """The same relative to |x|."""
    rounded: bool = False
    """Whether intervals adapted to f are powers of two: most can then be foreseen before f is known."""

    @property
    def asked(self) -> bool:
        """Whether the user has chosen the intervals."""
        return self.eps is not None or self.rel_step is not None

    def intervals(self, scheme: str, x: NDArray[Any], eps: float) -> NDArray[Any]:
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


@dataclass(kw_only=True)
class FDState(NoiseModel):
    """What differences know of f: all that they hand from one gradient to the next.

    Examples
    --------
    >>> known = FDState(eps=2.0**-52, curvature=np.ones(2), grid=np.array([0.1, 0.0]))
    >>> known.central, known.blur
    (False, array([0., 0.]))
    """

    curvature: Floats
    """|f″| along each variable; NaN is unknown."""
    central: bool = False
    """Whether gradients are made of central differences."""
    grid: Floats = field(default_factory=lambda: np.zeros(1))
    """How far each variable has to move before f changes, where x is rounded; else 0."""
    blur: Floats = field(default_factory=lambda: np.zeros(1))
    """By how much that rounding may change f."""
    sought: Flags = field(default_factory=lambda: np.zeros(1, dtype=bool))
    """Along which variables that was looked for."""
    sought_at: float = math.inf
    """f where that was begun anew."""
    modelled: float = math.inf
    """f at the last point that a model of values led to."""

    def __post_init__(self) -> None:
        zero = np.zeros(self.curvature.shape)
        self.grid, self.blur, self.sought = self.grid + zero, self.blur + zero, self.sought | (zero > 0)

    @property
    def least_blur(self) -> Floats:
        """By how much it may change f where f has no slope."""
        return 0.125 * np.nan_to_num(self.curvature) * self.grid**2

    def eps_f(self, f: float) -> float:
        return max(self.eps_of_values(f), float(self.blur.sum()))

    def eps_of_values(self, f: float) -> float:
        """Return by how much a value of f may be wrong where no rounded variable moves."""
        return super().eps_f(f)

    def eps_along(self, f: float) -> Floats:
        """Return by how much two values may be wrong that differ in one variable, for each of them."""
        return np.maximum(self.eps_of_values(f), self.blur)

    def eps_at_minimum(self, f: float) -> float:
        """Return by how much a value of f may be wrong near a minimum, where no slope adds to it."""
        return max(self.eps_of_values(f), float(self.least_blur.sum()))


class DifferenceGradient(Gradients):
    """Differences by a scheme ("2-point", "3-point" or "cs") over intervals that are chosen once.

    `known` is all its state.
    """

    given = False

    def __init__(self, scheme: str, options: DifferenceOptions, space: Space, x0: Vector, gtol: float):
        super().__init__(float(namespace(x0).finfo(x0.dtype).eps))
        self.scheme, self.options, self.space, self.gtol = scheme, options, space, gtol
        self.exact = scheme == "cs"
        self.known = FDState(eps=self.eps, curvature=np.full(int(x0.shape[-1]), np.nan))
        # a variable that bounds fix needs no derivative
        self._movable: list[int] = np.flatnonzero(~to_numpy(space.fixed(x0))).tolist()

    @property
    def gradient_eps(self) -> float:
        if self.exact:
            return self.eps
        return max(self.eps, self.known.resolution) ** (2 / 3)

    @property
    def cost(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self._movable) * (2 if self.scheme == "3-point" else 1)

    @property
    def coarse(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # it changes in a run
        return not self.exact and (self.eps > FLOAT64 or self.known.resolution > 0)

    def reported(self, g: Vector) -> Vector:
        # as in SciPy, NaN where a fixed variable had no difference
        return namespace(g).where(self.space.fixed(g), g * float("nan"), g)

    def sentence(self, status: Status) -> str:
        return BY_VALUES if status is Status.LINE_SEARCH_FAILED else status.sentence

    # --- gradients -------------------------------------------------------------------------------------

    def gradient(self, x: Vector, f: float | None = None) -> Asking[tuple[Vector, Vector]]:
        """Ask for ∇f at any point, where f may be known; the errors of its components are not known."""
        if f is None and self.scheme == "2-point":
            f = yield Value(x)
        ahead, back = self._intervals(to_numpy(x))
        g, _ = yield from self._quotients(x, f, ahead, back, gradients=1)
        return own(x, g), None

    def _intervals(self, point: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return how far differences go ahead and back from x; only central ones go back."""
        scheme, eps = self.scheme, max(self.eps, self.known.resolution)
        h = self.options.intervals(scheme, point, eps)
        if scheme == "cs":  # a fixed variable has no interval
            return np.where(to_numpy(self.space.fixed(point)), 0.0, h), 0 * h
        near = h if scheme == "2-point" else self.options.intervals("2-point", point, eps)
        return self._fitted(point, h, near, scheme == "3-point")

    def _fitted(self, point: NDArray[Any], h: Any, near: Any, both: bool) -> tuple[Floats, Floats]:
        """Return how far to go ahead and back for these lengths, as the box lets us."""
        ahead, back = self.space.differences(point, h, near, both)
        return taken(point, ahead), -taken(point, -back)

    def _quotients(
        self, x: Vector, f: float | None, ahead: Floats, back: Floats, gradients: int = 0
    ) -> Asking[tuple[Floats, Floats]]:
        """Ask for the quotients (0 for fixed variables), and the second differences of the central ones."""
        moves = ahead != 0
        h, unknown = np.where(moves, ahead, 1.0), np.full(ahead.shape, np.nan)
        up, *other_side = yield from self._beside(x, *self._sides(ahead, back), gradients=gradients)
        if self.scheme == "cs":
            return np.where(moves, up / h, 0.0), unknown
        (down,) = other_side
        if self.scheme == "3-point":  # f itself is not known
            return np.where(moves, (up - down) / (h + back), 0.0), unknown
        assert f is not None
        two = back > 0
        slope: Floats = (up - f) / h
        if not (np.isfinite(slope) | ~moves).all():
            # where f is not finite on one side, a quotient is taken on the other one
            lost = ~np.isfinite(up) & np.isfinite(f) & moves & ~two
            lost = lost & self.space.contains(to_numpy(x) - ahead)
            (other,) = yield from self._beside(x, (-ahead, lost))
            down, back = np.where(lost, other, down), np.where(lost, h, back)
            behind: Floats = (f - down) / np.where(back == 0, 1.0, back)
            slope = np.where(np.isfinite(down) & ~np.isfinite(up), behind, slope)
        two = two & np.isfinite(up) & np.isfinite(down)
        slope = np.where(two, (up - down) / (h + back), slope)
        return np.where(moves, slope, 0.0), np.where(two, (up - f) - (f - down), np.nan)

    def _sides(self, ahead: Floats, back: Floats) -> list[tuple[Any, Flags]]:
        """Return by how much a difference moves the variables, on each side, and which of them."""
        moves = ahead != 0
        if self.scheme == "cs":
            return [(1j * ahead, moves)]
        return [(ahead, moves), (-back, moves if self.scheme == "3-point" else back > 0)]

    def _beside(self, x: Vector, *sides: tuple[Any, Flags], gradients: int = 0) -> Asking[list[Floats]]:
        """Ask for f with each variable moved by itself, once for each of `sides`; NaN where not wanted."""
        found = [np.full(wanted.shape, np.nan) for _, wanted in sides]
        which = self._which(sides)
        if which or gradients:
            points = [self._shifted(x, i, sides[k][0][i]) for k, i in which]
            values = yield Values(points, gradients, imaginary=np.iscomplexobj(sides[0][0]))
            for (k, i), value in zip(which, values, strict=True):
                found[k][i] = value
        return found

    def _which(self, sides: Sequence[tuple[Any, Flags]]) -> list[tuple[int, int]]:
        """Return which variable is moved on which side, in the order of the points."""
        return [(k, i) for i in self._movable for k, (_, wanted) in enumerate(sides) if wanted[i]]

    def _shifted(self, x: Vector, i: int, h: Any) -> Vector:
        """Return x with one variable moved, by a complex number or within the bounds."""
        if np.iscomplexobj(h):
            point = to_numpy(x).astype(np.complex128)
            point[i] += h
            return point
        if is_numpy(x):
            point = x.copy(order="K")
            point[i] += h
        else:
            unit = np.zeros(x.shape[-1])
            unit[i] = 1.0
            point = x + adopt(x, h * unit)
        return self.space.project(point)

    def error(self, x: Vector, f: float, g: Vector, noise: float) -> Asking[Vector]:
        """Estimate the error of g by what another interval changes, and by the error of f."""
        point = to_numpy(x)
        ahead, back = self._intervals(point)
        other = 0.5 * ahead  # always inside the box
        if self.scheme == "2-point":
            other = np.where(self.space.contains(point - ahead), -ahead, other)
        other = taken(point, other)
        other = np.where(other == 0, ahead, other)  # there is no float between: the blur below says enough
        again, _ = yield from self._quotients(x, f, other, -taken(point, -0.5 * back))
        # the bias of a one-sided difference grows with its length, that of a central one with the square
        length = np.where(ahead == 0, 1.0, ahead)
        ratio = other / length
        part = np.abs(1 - np.where(back == 0, ratio, ratio**2))
        bias = np.abs(to_numpy(g) - again) / np.where(part == 0, 1.0, part)
        least = max(self.eps * abs(f), self.known.resolution * self.known.scale(f), noise)
        return own(x, bias + least / np.abs(length + back))

    # --- before f is known -----------------------------------------------------------------------------

    def foreseen(self, run: Run, x: Vector) -> list[Vector]:
        """Return where ∇f at x will need f, if x is the next iterate, as far as that can be foreseen."""
        return self._points(x, *self._intervals(to_numpy(x)))

    def _points(self, x: Vector, ahead: Floats, back: Floats) -> list[Vector]:
        """Return the points of a difference over these intervals."""
        sides = self._sides(ahead, back)
        return [self._shifted(x, i, sides[k][0][i]) for k, i in self._which(sides)]

    # --- asked by a run --------------------------------------------------------------------------------

    def arrive(self, run: Run) -> Asking[tuple[Vector, Vector, bool]]:
        here = run.here
        g, error = yield from self.gradient(here.x, here.f)
        if self.scheme == "cs" and here.k == 0 and here.f is not None:
            yield from self._refuse_dropped(here.x, here.f, to_numpy(g))
        return g, error, False

    def recheck(self, run: Run) -> Asking[tuple[Vector, Vector] | None]:
        """Where ‖∇f‖ ≤ gtol and a difference is exactly 0, look for quantised values; if so, repeat ∇f."""
        here = run.here
        if self.exact or self.eps > FLOAT64 or not run.gnorm <= self.gtol or here.f is None:
            return None
        if not self._vanishes_somewhere(here.x, here.g):
            return None
        bends, steepest = self.known.curvature, max(self.gtol, norm(here.g))  # f may be steep at a bound
        if not (yield from self.known.estimate(self.space, here.x, here.f, steepest, bends=bends)):
            return None
        return (yield from self.gradient(here.x, here.f))

    def _vanishes_somewhere(self, x: Vector, g: Vector) -> bool:
        """Return whether the slope along a variable that can move is exactly 0."""
        return bool(((g == 0) & ~self.space.fixed(x)).any())

    def _refuse_dropped(self, x: Vector, f: float, g: Floats) -> Asking[None]:
        """Raise ValueError where complex steps give a slope of exactly 0 and values show one.

        The imaginary part is lost in abs, .real, float() and the like. A bend is no slope: it changes f the
        same way ahead and back, and by a quarter over half the way.
        """
        point, flat = to_numpy(x), g == 0
        h = DifferenceOptions().intervals("3-point", point, self.eps)
        ahead, back = self._fitted(point, h, h, True)
        flat = flat & (ahead != 0)
        (up,) = yield from self._beside(x, (ahead, flat))
        flat = flat & np.isfinite(up)
        flat = flat & (np.abs(up - f) > tuning.RESOLVED * self.eps * np.maximum(abs(f), np.abs(up)))
        middle = taken(point, 0.5 * ahead)
        half, down = yield from self._beside(x, (middle, flat), (-back, flat & (back != 0)))
        rise = np.where(flat, up - f, 1.0)
        slopes = flat & ((half - f) / rise > HALFWAY) & ((back == 0) | ((f - down) / rise > 0.5))
        if slopes.any():
            raise ValueError(
                f'fun: it changes with x[{np.flatnonzero(slopes)[0]}], but jac="cs" returns a zero slope '
                "there, since fun drops the imaginary part of x (by abs, .real, float() or the like); write "
                'abs(x) as sqrt(x*x), or use jac="2-point"'
            )


def taken(point: NDArray[Any], h: Any) -> Floats:
    """Return the differences that are really taken, in the precision of the point."""
    return ((point + np.asarray(h, dtype=point.dtype)) - point).astype(np.float64)
