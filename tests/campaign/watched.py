"""A user's function that keeps its own account of how it was called."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import Case

Array = Any


class Watched:
    """The functions of a case, counted apart from the library.

    Attributes
    ----------
    calls : how many points each of "fun", "grad", "hvp" and "hess" was asked for
    values, gradients : what was given at every point, by the bytes of the point; rows of one batch may differ
        in the last bit, so there may be several
    asked : the points at which f was asked for, in order
    outside : whether a point was out of bounds
    bad_value, bad_gradient : whether f, or ‖∇f‖ in the run's precision, was ever not finite
    """

    def __init__(self, case: Case):
        self._target = case.target
        self._low, self._high = np.array(case.bounds).T if case.bounds else (-np.inf, np.inf)
        self.calls = {"fun": 0, "grad": 0, "hvp": 0, "hess": 0}
        self.values: dict[bytes, set[float]] = {}
        self.gradients: dict[bytes, set[tuple[float, ...]]] = {}
        self.asked: list[bytes] = []
        self.outside = self.bad_value = self.bad_gradient = False

    def fun(self, x: Array) -> Array:
        with np.errstate(all="ignore"):
            self._note("fun", x)
            self.asked.append(_key(x))
            f = self._target.fun(x)
            self.bad_value |= not np.isfinite(f).all()
            for point, value in zip(np.atleast_2d(x), np.atleast_1d(f), strict=True):
                self.values.setdefault(_key(point), set()).add(value.item())
            return f

    def grad(self, x: Array) -> Array:
        with np.errstate(all="ignore"):
            self._note("grad", x)
            g = self._target.grad(x)
            top = np.abs(g).max(axis=-1, keepdims=True)
            size = top[..., 0] * np.linalg.norm(g / np.where(top > 0, top, 1), axis=-1)
            self.bad_gradient |= not np.isfinite(size.astype(g.dtype)).all()
            for point, slope in zip(np.atleast_2d(x), np.atleast_2d(g), strict=True):
                self.gradients.setdefault(_key(point), set()).add(tuple(slope.tolist()))
            return g

    def pair(self, x: Array) -> tuple[Array, Array]:
        return self.fun(x), self.grad(x)

    def hvp(self, x: Array, v: Array) -> Array:
        with np.errstate(all="ignore"):
            self._note("hvp", x)
            return self._target.second.hvp(x, v)

    def hess(self, x: Array) -> Array:
        with np.errstate(all="ignore"):
            self._note("hess", x)
            return self._target.second.hess(x)

    def gave(self, x: Array, f: float) -> bool:
        """Say whether f is a value that was given at x, as it was or in the precision of x."""
        given = np.array([*self.values.get(_key(x), ())])
        given = np.concatenate([given, given.astype(x.dtype)])
        return bool((given == f).any() or (f != f and np.isnan(given).any()))

    def gave_gradient(self, x: Array, g: Array) -> bool:
        """Say whether g is a gradient that was given at x."""
        return tuple(g.tolist()) in self.gradients.get(_key(x), set())

    def _note(self, name: str, x: Array) -> None:
        self.calls[name] += 1 if x.ndim == 1 else len(x)
        self.outside |= bool(((x.real < self._low) | (x.real > self._high)).any())


def _key(x: Array) -> bytes:
    """Return what names a point; some are of float64 in a float32 run, some are complex, and −0 is 0."""
    return (x.astype(complex) + 0.0).tobytes()


class Own:
    """A function that brings its derivatives along, as `steepen.functions` do."""

    def __init__(self, watched: Watched):
        self._watched = watched
        self.grad, self.hvp, self.hess = watched.grad, watched.hvp, watched.hess

    def __call__(self, x: Array) -> Array:
        return self._watched.fun(x)


def functions_of(case: Case, watched: Watched) -> dict[str, Any]:
    """Return `fun` and `jac` as the case wants them."""
    if case.differences:
        return {"fun": watched.fun}
    if case.derivatives == "pair":
        return {"fun": watched.pair, "jac": True}
    if case.derivatives == "own" and case.target.second is not None:
        return {"fun": Own(watched)}
    return {"fun": watched.fun, "jac": watched.grad}
