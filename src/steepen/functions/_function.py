"""The test-function object: value, gradient, H·v and Hessian over leading axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from steepen.functions._numerics import Array, points

Value = Callable[[Array], Any]
Gradient = Callable[[Array, Array], None]

# Length of the complex step, for a direction of unit size: its square is lost next to 1, and
# products of a few of them stay far above the underflow threshold.
_STEP = 2.0**-100


class Function:
    """A test function with its gradient, bounds and known minimisers.

    Parameters
    ----------
    name, title, group : str
        The key in `steepen.functions`, the printed name, and the group of the SFU library.
    value : callable
        ``value(x)`` for coordinates-first x of shape (n, ...).
    grad : callable
        ``grad(x, g)`` writes the gradient at x into g, both of shape (n, ...).
    n : int
        The dimension.
    bounds : array_like
        The usual search box: (low, high) for all coordinates, or one such row per coordinate.
    minima : array_like
        The global minimisers inside the bounds, one per row; a number stands for equal
        coordinates. (The two Perm functions have further ones for n > 2 that are not listed.)
    fmin : float
        The value there.
    resize : callable, optional
        Returns the function in dimension n, for those that have one in other dimensions.

    Notes
    -----
    `value` and `grad` must be analytic on either side of any kink: second derivatives are complex
    steps of the gradient, exact to rounding. On a kink the derivative of the kinked term is taken
    as zero, so it is always finite.

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
    """

    def __init__(
        self,
        name: str,
        title: str,
        group: str,
        value: Value,
        grad: Gradient,
        *,
        n: int,
        bounds: ArrayLike,
        minima: ArrayLike,
        fmin: float,
        resize: Callable[[int], Function] | None = None,
    ) -> None:
        self.name = name
        self.title = title
        self.group = group
        self.n = n
        rows = np.atleast_2d(np.asarray(minima, dtype=float))
        self.bounds = _read_only(np.asarray(bounds, dtype=float), (n, 2))
        self.minima = _read_only(rows, (len(rows), n))
        self.fmin = float(fmin)
        self._value = value
        self._grad = grad
        self._resize = resize

    @property
    def any_n(self) -> bool:
        """Whether the function exists in other dimensions, to be had from `at`."""
        return self._resize is not None

    @property
    def formulas(self) -> tuple[Callable[..., Any], Callable[..., None]]:
        """The `value` and `grad` that it was made of: they take coordinates first, and check nothing."""
        return self._value, self._grad

    def at(self, n: int) -> Function:
        """Return the function in dimension n.

        Examples
        --------
        >>> import steepen as st
        >>> st.functions["trid"].at(n=6).fmin
        -50.0
        """
        n = index(n)
        if n == self.n:
            return self
        if self._resize is None:
            raise ValueError(f"n: {self.name} exists for n = {self.n} only, got n = {n}")
        if n < 1:
            raise ValueError(f"n: expected a positive dimension for {self.name}, got {n}")
        return self._resize(n)

    def __call__(self, X: ArrayLike) -> Any:
        """Return the values at X of shape (..., n): shape (...), a scalar for one point."""
        x = points("X", X, self.name, self.n)
        return self._value(x.T).T

    def grad(self, X: ArrayLike) -> Array:
        """Return the gradients at X, in the shape, precision and memory layout of X.

        Examples
        --------
        >>> import steepen as st
        >>> st.functions["sphere"].grad([3.0, -1.0]).tolist()
        [6.0, -2.0]
        """
        x = points("X", X, self.name, self.n)
        g = np.empty_like(x)
        self._grad(x.T, g.T)
        return g

    def hvp(self, X: ArrayLike, V: ArrayLike) -> Array:
        """Return the Hessians at X times the directions V, which broadcasts against X.

        Examples
        --------
        >>> import steepen as st
        >>> st.functions["rosenbrock"].hvp([1.0, 1.0], [1.0, 0.0]).tolist()
        [802.0, -400.0]
        """
        x, v = points("X", X, self.name, self.n), points("V", V, self.name, self.n)
        for argument, array in (("X", x), ("V", v)):
            if array.dtype.kind == "c":
                raise TypeError(f"{argument}: {self.name} has second derivatives at real points only")
        size = np.abs(v).max(axis=-1, keepdims=True)
        size = np.where(size == 0, 1.0, size)
        # A complex128 step also lifts float32 input to double: complex64 has no room for it.
        tilted = self.grad(x + np.complex128(1j * _STEP) * (v / size))
        return (np.imag(tilted) / _STEP * size).astype(x.dtype, copy=False)

    def hess(self, X: ArrayLike) -> Array:
        """Return the Hessians at X, symmetric, of shape (..., n, n).

        Examples
        --------
        >>> import steepen as st
        >>> st.functions["rosenbrock"].hess([1.0, 1.0]).tolist()
        [[802.0, -400.0], [-400.0, 200.0]]
        """
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


def scalable(
    name: str,
    title: str,
    group: str,
    value: Value,
    grad: Gradient,
    bounds: tuple[float, float],
    coordinate: float,
    fmin_per_coordinate: float = 0.0,
    n: int = 2,
) -> Function:
    """Return a function of any n whose one minimiser has equal coordinates."""
    return Function(
        name,
        title,
        group,
        value,
        grad,
        n=n,
        bounds=bounds,
        minima=coordinate,
        fmin=n * fmin_per_coordinate,
        resize=partial(scalable, name, title, group, value, grad, bounds, coordinate, fmin_per_coordinate),
    )
