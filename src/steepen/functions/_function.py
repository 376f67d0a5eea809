"""`Function`, for users, sweeps, the paper: value, ∇f, H·v and Hessian over leading axes; NumPy only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._tools.check import whole
from ._numerics import Array, points

Formula = Callable[[Array, bool], Any]
Sized = ArrayLike | Callable[[int], ArrayLike]

_STEP = 2.0**-100  # for a unit direction: its square is lost next to 1, products of a few do not underflow


class Function:
    """A test function with its gradient, bounds and known minimisers.

    Parameters
    ----------
    name, title, group : str
        The key in `steepen.functions`, the printed name, and the group of the SFU library.
    formula : callable
        ``formula(x, slope)`` for x of shape (n, ...), coordinates first: returns the value or, if `slope` is
        true, the gradient, as an array or a tuple of components. Second derivatives are complex-step
        derivatives of the gradient, so it must be analytic on either side of any kink; at a kink the
        derivative of the kinked term is taken as zero.
    n, bounds : int, array_like
        The dimension, and the usual search box: (low, high), or one (low, high) row per coordinate.
    minima, fmin : array_like, float
        The global minimisers inside the bounds, one per row (a number means equal coordinates), and the
        value there.
    resize : callable, optional
        Returns the function in dimension n, if it is defined in other dimensions.

    Examples
    --------
    >>> import steepen as st
    >>> f = st.functions["branin"]
    >>> f
    Function('branin', n=2, fmin=0.397887)
    >>> f.minima.round(3).tolist()
    [[-3.142, 12.275], [3.142, 2.275], [9.425, 2.475]]
    >>> f([[0.0, 0.0], [1.0, 2.0]]).round(3).tolist()
    [55.602, 21.628]
    >>> st.functions["rosenbrock"].at(n=3).grad([1.0, 1.0, 2.0]).tolist()
    [0.0, -400.0, 200.0]
    """

    def __init__(
        self, name: str, title: str, group: str, formula: Formula, *, n: int, bounds: ArrayLike,
        minima: ArrayLike, fmin: float, resize: Callable[[int], Function] | None = None,
    ) -> None:  # fmt: skip
        self.name, self.title, self.group, self.formula, self.n = name, title, group, formula, n
        rows = np.atleast_2d(np.asarray(minima, dtype=float))
        self.bounds = _read_only(np.asarray(bounds, dtype=float), (n, 2))
        self.minima = _read_only(rows, (len(rows), n))
        self.fmin, self._resize = float(fmin), resize

    @property
    def any_n(self) -> bool:
        """Whether the function is defined in other dimensions (see `at`)."""
        return self._resize is not None

    def at(self, n: int) -> Function:
        """Return the function in dimension n."""
        whole("n", n, 1)
        if n == self.n:
            return self
        if self._resize is None:
            raise ValueError(f"n: {self.name} is defined only for n = {self.n}, got n = {n}")
        return self._resize(int(n))

    def __call__(self, X: ArrayLike) -> Any:
        """Return the values at X of shape (..., n): shape (...), a scalar for one point."""
        return self.formula(points("X", X, self.name, self.n).T, False).T

    def grad(self, X: ArrayLike) -> Array:
        """Return the gradients at X, in the shape, precision and memory layout of X."""
        x = points("X", X, self.name, self.n)
        g, slope = np.empty_like(x), self.formula(x.T, True)
        if isinstance(slope, tuple):
            for i, part in enumerate(slope):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
                g.T[i] = part
        else:
            g.T[...] = slope
        return g

    def hvp(self, X: ArrayLike, V: ArrayLike) -> Array:
        """Return the products of the Hessians at X with the directions V, which broadcast against X."""
        x, v = points("X", X, self.name, self.n), points("V", V, self.name, self.n)
        for argument, array in (("X", x), ("V", v)):
            if array.dtype.kind == "c":
                raise TypeError(f"{argument}: {self.name} has second derivatives only at real points")
        size = np.abs(v).max(axis=-1, keepdims=True)
        size = np.where(size == 0, 1.0, size)
        # complex128 also for float32 input: in complex64 the step would underflow
        tilted = self.grad(x + np.complex128(1j * _STEP) * (v / size))
        return (np.imag(tilted) / _STEP * size).astype(x.dtype, copy=False)

    def hess(self, X: ArrayLike) -> Array:
        """Return the Hessians at X, symmetric, of shape (..., n, n)."""
        x = points("X", X, self.name, self.n)
        rows = self.hvp(x[..., None, :], np.eye(self.n))
        return (rows + rows.swapaxes(-1, -2)) / 2

    def __repr__(self) -> str:
        any_n = ", any_n=True" if self.any_n else ""
        return f"Function({self.name!r}, n={self.n}{any_n}, fmin={self.fmin:.6g})"


def _read_only(values: Array, shape: tuple[int, int]) -> Array:
    array = np.broadcast_to(values, shape).copy()
    array.setflags(write=False)
    return array


CATALOGUE: dict[str, Function] = {}
"""The registered functions, each in its usual dimension."""

_MAKERS: dict[str, Callable[[int], Function]] = {}


def entry(
    group: str, title: str, bounds: Sized, minima: Sized, fmin: float | Callable[[int], float] = 0.0, *,
    n: int = 2, any_n: bool = False, least: int = 1, every: int = 1,
) -> Callable[[Formula], Formula]:  # fmt: skip
    """Register a formula in the catalogue under its own name.

    Bounds, minima and fmin are as in `Function`, or functions of n. With `any_n` the function is defined in
    all dimensions from `least` on that are a multiple of `every`.
    """

    def enter(formula: Formula) -> Formula:
        key = formula.__name__.replace("_", "-")

        def make(n: int) -> Function:
            if n < least:
                raise ValueError(f"n: {key} needs n >= {least}, got {n}")
            if n % every:
                raise ValueError(f"n: {key} needs a multiple of {every}, got {n}")
            given: dict[str, Any] = {"bounds": bounds, "minima": minima, "fmin": fmin}
            own: dict[str, Any] = {k: v(n) if callable(v) else v for k, v in given.items()}
            resize = partial(_resized, key) if any_n else None
            return Function(key, title, group, formula, n=n, resize=resize, **own)

        _MAKERS[key] = make
        CATALOGUE[key] = make(n)
        return formula

    return enter


def _resized(name: str, n: int) -> Function:  # a module's function, so that a Function can be pickled
    return _MAKERS[name](n)
