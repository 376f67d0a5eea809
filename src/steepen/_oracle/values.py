"""Gradients made of differences of values, by the schemes that SciPy knows by the same names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from array_api_compat import is_jax_array
from numpy.typing import NDArray

from .._core.arrays import Array, Mask, Scalar, adopt, is_numpy, namespace, to_numpy
from .._core.kits import Kit
from .._core.space import Space
from .calls import Calling, Function, Only, describe
from .differences import Differences, Map
from .ledger import Cost, Ledger, OutOfTime

LADDER = 8
"""How often a difference that was exactly 0 is taken ten times as long, up to about the size of x."""

SMOOTH = 1e3
"""A smooth f that has not changed at all changes by fewer roundings than this over ten times the way."""

COARSEST = 1e-3
"""f is never taken to be coarser than this."""

ODD = 1.1
"""Differences in float64 for a float32 run go this part further: to points that float32 cannot hold."""


class Differencing(Calling):
    """Values, and the differences that they make."""

    def __init__(
        self, fun: Function, jac: Any, x0: Array, kit: Kit, space: Space | None, ledger: Ledger | None,
        differences: Differences,
    ):  # fmt: skip
        super().__init__(x0, kit, space, ledger)
        self._fun: Any = fun
        self._sent = fun  # to workers: as it was given, so that a process can be sent it
        self._jac: Any = jac
        self._how = differences
        # of a float32 run: whether its differences are taken in float64; None: not known yet
        self.wide: bool | None = None if jac in ("2-point", "3-point") and _can_widen(x0) else False
        # a variable that bounds fix is asked for no derivative, where that would cost evaluations
        self._unfixed: list[int] = np.flatnonzero(~to_numpy(self._space.fixed(x0))).tolist()

    def _value_at(self, x: Array, only: Only) -> Scalar:
        self.ledger.charge(only, "nfev")
        return self._scalar(self._call(self._fun, only, x), only)

    def _difference_of_values(self, x: Array, f: Scalar, only: Only) -> Array:
        """Return the gradient; f is the value at x, where the scheme needs it."""
        x = widened(x) if self.wide else x
        return self._kit.own(self._differences(x, f, only, *self._lengths(x)))

    def _has_float64(self, x: Array, only: Only) -> bool:
        """Find out whether `fun` computes in float64 if it is asked to.

        It may refuse such points, cast them to float32, or compute in float32 all the same. So a point that
        float32 cannot hold must have a value that float32 cannot hold, and not that of its neighbour.
        """
        wide = widened(x)
        point = wide + adopt(wide, self._lengths(wide)[0])
        try:
            f = np.asarray(self._value_at(point, only), dtype=np.float64)
            other = self._value_at(widened(self._kit.own(point)), only)
        except OutOfTime:
            raise
        except Exception:
            return False  # it was never said to take float64: any refusal will do
        with np.errstate(over="ignore"):
            longer = np.isfinite(f) & (f.astype(np.float32).astype(np.float64) != f)
        return bool(np.any(longer & (f != other)))

    def _lengths(self, x: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return how far differences at x go ahead and back; only those of three points go back."""
        point, scheme = to_numpy(x), str(self._jac)
        eps: Any = float(np.finfo(point.dtype).eps)
        odd = ODD if eps < self.eps and not self._how.asked else 1.0
        eps = np.maximum(eps, self.grain)[..., None]
        ahead = odd * self._how.steps(scheme, point, eps)
        back = ahead if scheme == "3-point" else 0 * ahead
        if scheme == "cs":
            return ahead, back
        near = odd * self._how.steps("2-point", point, eps)
        ahead, back = self._space.differences(point, ahead, near, scheme == "3-point")
        return taken(point, ahead), -taken(point, -back)

    def _differences(
        self, x: Array, f: Scalar, only: Only, ahead: NDArray[np.float64], back: NDArray[np.float64]
    ) -> Any:
        """Return the quotients, 0 for a variable that bounds fix."""
        free, scheme = self._unfixed, str(self._jac)
        quotients = np.zeros(ahead.shape)
        if not free:
            return quotients
        ways = {"2-point": (ahead,), "3-point": (ahead, -back), "cs": (1j * ahead,)}[scheme]
        points = (self._shifted(x, i, way[..., i]) for i in free for way in ways)
        values = self._values(points, only, len(free) * len(ways))
        if scheme == "3-point":
            values = values[..., ::2] - values[..., 1::2]
        elif scheme == "2-point":
            values = values - np.asarray(f)[..., None]
        quotients[..., free] = values / (ahead + back)[..., free]
        return quotients

    def error(self, x: Array, f: Scalar, g: Array, noise: Scalar, only: Only = None) -> Array:
        """Estimate the error of each difference in g: what another length changes, and the noise of f."""
        point = to_numpy(x)
        ahead, back = self._lengths(x)
        other = 0.5 * ahead  # always inside the box
        if self._jac == "2-point":
            turned = point - ahead
            other = np.where(self._space.contains(turned), -ahead, other)
        other = taken(point, other)
        other = np.where(other == 0, ahead, other)  # there is no float between: the blur below says enough
        again = self._differences(x, f, only, other, -taken(point, -0.5 * back))
        # the bias of a one-sided difference grows with its length, that of a central one with the square
        length = np.where(ahead == 0, 1.0, ahead)  # 0 where a variable is fixed, and has no error
        ratio = other / length
        part = np.abs(1 - np.where(back == 0, ratio, ratio**2))
        bias = np.abs(to_numpy(g) - again) / np.where(part == 0, 1.0, part)
        least = np.maximum(np.maximum(self.eps * abs(f), self.grain * self._scale(f)), noise)
        return self._kit.own(bias + np.asarray(least)[..., None] / np.abs(length + back))

    def _scale(self, f: Scalar) -> Scalar:
        """Return what the grain of f is relative to."""
        return self._kit.pick(f == 0, 1.0, abs(f))

    @property
    def cost_look(self) -> Cost:
        """What `look_closer` costs at most, with the gradient that follows it."""
        scheme = str(self._jac)
        return Cost(3 + LADDER + (2 if scheme == "3-point" else 1) * len(self._unfixed), 1)

    def doubtful(self, x: Array, g: Array) -> Mask:
        """Return where a difference is exactly 0: f may be level there, or have few digits."""
        searched = self._jac in ("2-point", "3-point") and self.eps <= np.finfo(np.float64).eps
        return self._kit.some((g == 0) & ~self._space.fixed(x)) & searched

    def look_closer(self, x: Array, f: Scalar, g: Array, gtol: float, only: Mask) -> Mask:
        """Find out where f has too few digits to show a slope, and return where that is news.

        The variables whose difference was exactly 0 are moved together, by steps that grow until f changes:
        a smooth f then by rounding or a slope within gtol, one that was rounded to fewer digits by a jump,
        which tells how many. The differences are longer from then on. A smooth f may also be equal at both
        ends of a difference and lower between them; where a shorter step shows this, the slope must exceed
        what f bends. The steps are uneven, so that slopes do not cancel.
        """
        kit, point = self._kit, to_numpy(x)
        still = (to_numpy(g) == 0) & ~to_numpy(self._space.fixed(x))
        way = np.where(still, self._lengths(x)[0], 0.0) * np.random.default_rng(0).uniform(1, 2, self._n)
        seeking, before, scale = only, self.grain, self._scale(f)
        bent: Mask = False
        for longer in (0.5, *10.0 ** np.arange(1 + LADDER)):
            if np.all(longer * np.abs(way) > 2 * np.maximum(1.0, np.abs(point))):
                break
            step = adopt(x, longer * way)
            there = self._space.project(x + step)
            up = self._value_at(there, _rows(seeking)) - f
            if longer < 1:
                bent = seeking & (up != 0)
                continue
            down = 0.0 * up
            if kit.any(bent):
                behind = self._value_at(self._space.project(x - step), _rows(bent)) - f
                down = kit.pick(bent, behind, down)
            bend = kit.pick(down == 0, 0.0, abs(up + down))  # 0 where a bound leaves no room behind
            moved = seeking & ((up != 0) | bent)
            found = moved & (abs(up - down) > SMOOTH * self.eps * scale)
            found = found & (abs(up - down) > gtol * kit.norm(there - x) + bend)
            self.grain = kit.pick(found, kit.num.minimum(abs(up - down) / scale, COARSEST), self.grain)
            seeking, bent = kit.without(seeking, moved), bent & False
            if not kit.any(seeking):
                break
        return kit.without(self.grain > 0, before > 0)

    def _shifted(self, x: Array, i: int, h: Any) -> Array:
        """Return x with one variable moved, by a complex number or within the bounds."""
        if np.iscomplexobj(h):
            point = to_numpy(x).astype(np.complex128)
            point[..., i] += h
            return point
        if is_numpy(x):
            point = x.copy(order="K")
            point[..., i] += h
        else:
            unit = np.zeros(self._n)
            unit[i] = 1.0
            point = x + adopt(x, np.asarray(h)[..., None] * unit)
        return self._space.project(point)

    def _values(self, points: Iterable[Array], only: Only, count: int) -> Any:
        """Evaluate f at the points of a difference; by the workers, if there are any, all are charged."""
        read = self._imaginary if self._jac == "cs" else self._scalar
        workers = self._how.workers
        if workers is None:
            found: list[Any] = []
            for point in points:
                self.ledger.charge(only, "nfev")
                found.append(read(self._call(self._fun, only, point), only))
            return np.stack(found, axis=-1)
        self.ledger.charge(only, "nfev", times=count)
        values = [read(f, None) for f in self.outside(_mapped, workers, self._sent, list(points))]
        if len(values) != count:
            raise ValueError(f"workers: expected {count} values for {count} points, got {len(values)}")
        return np.array(values)

    def _imaginary(self, f: Any, only: Only) -> Any:
        values: Any = np.asarray(f)
        if values.dtype.kind != "c":
            raise TypeError('jac="cs": fun must return complex values for complex x; it returned real ones')
        rows = self._row_count(only)
        if values.size != (rows or 1):
            raise TypeError(f"fun: expected {'a scalar' if rows is None else rows}, got {describe(values)}")
        return self._spread(values.imag.reshape(() if rows is None else (rows,)), only)


def _rows(mask: Mask) -> Only:
    return None if mask is True else mask


def _mapped(workers: Map, function: Function, points: list[Array]) -> list[Any]:
    return list(workers(function, points))


def taken(point: NDArray[Any], h: Any) -> NDArray[np.float64]:
    """Return the differences that are really taken, in the precision of the point."""
    return ((point + np.asarray(h, dtype=point.dtype)) - point).astype(np.float64)


def _can_widen(x: Array) -> bool:
    """Say whether this is float32, in a library that has float64 at hand."""
    if "32" not in str(x.dtype):
        return False
    # JAX has none unless told so, and shows it by what a Python number becomes
    return not is_jax_array(x) or "64" in str(namespace(x).asarray(0.0).dtype)


def widened(x: Array) -> Array:
    """Return a float32 array as float64; the numbers are the same."""
    return x.astype(np.float64) if is_numpy(x) else namespace(x).astype(x, namespace(x).float64)
