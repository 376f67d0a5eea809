"""Test problems: value, gradient, Hessian and H·v, all but one written apart from `steepen.functions`.

All are vectorised over leading axes, take float32, float64 and complex points, and give the same bits for a
row of a batch as for the row alone (so x * x, never x**2, and no BLAS). Those made of arithmetic alone are
`exact`: they do so on every machine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from steepen import functions

Array = Any
Function = Callable[[Array], Array]


@dataclass(frozen=True)
class Problem:
    """f with its derivatives, a start, and a step with which steepest descent is stable there."""

    name: str
    f: Function
    g: Function
    h: Function
    start: tuple[float, ...]
    step: float
    exact: bool = True

    def __repr__(self):
        return self.name

    @property
    def x0(self):
        return np.array(self.start)

    @property
    def n(self):
        return len(self.start)

    # the order of a sum over a row must not depend on how a batch lies in memory

    def fun(self, x):
        return self.f(np.ascontiguousarray(x))

    def grad(self, x):
        return self.g(np.ascontiguousarray(x))

    def hess(self, x):
        return self.h(np.ascontiguousarray(x))

    def hvp(self, x, v):
        return times(self.hess(x), np.ascontiguousarray(v))


def times(matrix, v):
    """Multiply, without BLAS: its sums depend on the shape."""
    return (matrix * v[..., None, :]).sum(axis=-1)


def vector(*entries):
    return np.stack(np.broadcast_arrays(*entries), axis=-1)


def matrix(*rows):
    flat = np.broadcast_arrays(*(entry for row in rows for entry in row))
    n = len(rows)
    return np.stack([np.stack(flat[i * n : (i + 1) * n], axis=-1) for i in range(n)], axis=-2)


def eye_like(x):
    return np.eye(x.shape[-1], dtype=x.dtype) + 0 * x[..., None]


def quadratic(name, Q, b, start):
    """½xᵀQx − bᵀx."""

    def of(a, x):
        return a.astype(x.dtype)

    def fun(x):
        return ((x * times(of(Q, x), x)).sum(axis=-1)) / 2 - (of(b, x) * x).sum(axis=-1)

    step = float(0.5 / np.linalg.norm(Q, 2))
    return Problem(
        name, fun, lambda x: times(of(Q, x), x) - of(b, x), lambda x: of(Q, x) + 0 * x[..., None], start, step
    )


def spd(eigenvalues, seed):
    n = len(eigenvalues)
    basis = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]
    Q = basis @ np.diag(eigenvalues) @ basis.T
    return (Q + Q.T) / 2


def rosenbrock(n, start):
    def fun(x):
        a, b = x[..., 1:] - x[..., :-1] * x[..., :-1], 1 - x[..., :-1]
        return (100 * a * a + b * b).sum(axis=-1)

    def grad(x):
        head, a = x[..., :-1], x[..., 1:] - x[..., :-1] * x[..., :-1]
        g = np.zeros_like(x)
        g[..., :-1] = -400 * head * a - 2 * (1 - head)
        g[..., 1:] += 200 * a
        return g

    def hess(x):
        H = 0 * eye_like(x)
        i = np.arange(n - 1)
        head = x[..., :-1]
        H[..., i, i] = 1200 * head * head - 400 * x[..., 1:] + 2
        H[..., i + 1, i + 1] += 200
        H[..., i, i + 1] = H[..., i + 1, i] = -400 * head
        return H

    return Problem(f"rosenbrock{n}", fun, grad, hess, start, step=2e-4)


def planar(name, f, g, h, start, step):
    """A problem of two variables, by functions of both: the value, the gradient, the rows of the Hessian."""
    return Problem(
        name, lambda x: f(x[..., 0], x[..., 1]), lambda x: vector(*g(x[..., 0], x[..., 1])),
        lambda x: matrix(*h(x[..., 0], x[..., 1])), start, step,
    )  # fmt: skip


def saddle(name, start):
    """x² − y² + y⁴/4: a saddle at 0 between minima at (0, ±√2)."""
    return planar(
        name, lambda u, v: u * u - v * v + v * v * v * v / 4, lambda u, v: (2 * u, -2 * v + v * v * v),
        lambda u, v: ((2 + 0 * v, 0 * v), (0 * v, -2 + 3 * v * v)), start, step=0.05,
    )  # fmt: skip


def _beale():
    def parts(u, v):
        return 1.5 - u + u * v, 2.25 - u + u * v * v, 2.625 - u + u * v * v * v

    def fun(u, v):
        a, b, c = parts(u, v)
        return a * a + b * b + c * c

    def grad(u, v):
        a, b, c = parts(u, v)
        return (
            2 * (a * (v - 1) + b * (v * v - 1) + c * (v * v * v - 1)),
            2 * (a * u + b * 2 * u * v + c * 3 * u * v * v),
        )

    def hess(u, v):
        (a, b, c), p, q, s = parts(u, v), v - 1, v * v - 1, v * v * v - 1
        across = 2 * (a + u * p + 2 * v * b + 2 * u * v * q + 3 * v * v * c + 3 * u * v * v * s)
        down = u * u + 4 * u * u * v * v + 2 * u * b + 9 * u * u * v * v * v * v + 6 * u * v * c
        return (2 * (p * p + q * q + s * s), across), (across, 2 * down)

    return planar("beale", fun, grad, hess, (1.0, 1.0), step=0.005)


def levy(start):
    """The library's own: what is compared with it takes no other."""
    f = functions["levy"].at(len(start))
    return Problem(f"levy{f.n}", f, f.grad, f.hess, start, 0.01, False)


def _logistic():
    rng = np.random.default_rng(5)
    A = rng.standard_normal((20, 3)) * np.array([1.0, 2.0, 0.5])
    A *= np.where(A @ [1.0, -0.5, 2.0] + rng.standard_normal(20) > 0, 1.0, -1.0)[:, None]
    ridge = 0.05

    def margin(x):
        a = A.astype(x.dtype)
        return a, np.ascontiguousarray((x[..., None, :] * a).sum(axis=-1))

    def fun(x):
        _, z = margin(x)
        return np.log1p(np.exp(-z)).sum(axis=-1) / 20 + ridge * (x * x).sum(axis=-1)

    def grad(x):
        a, z = margin(x)
        return (-1 / (1 + np.exp(z))[..., None] * a).sum(axis=-2) / 20 + 2 * ridge * x

    def hess(x):
        a, z = margin(x)
        weight = np.exp(z) / (1 + np.exp(z)) / (1 + np.exp(z))
        outer = a[:, :, None] * a[:, None, :]
        return (weight[..., None, None] * outer).sum(axis=-3) / 20 + 2 * ridge * eye_like(x)

    return Problem("logistic", fun, grad, hess, (2.0, 2.0, -3.0), step=0.2, exact=False)


def _quartic():
    """One variable, and no curvature at the minimum."""
    fun = lambda x: (x * x * x * x).sum(axis=-1)  # noqa: E731
    return Problem("quartic", fun, lambda x: 4 * x * x * x, lambda x: (12 * x * x)[..., None], (1.5,), 0.01)


def chain(n):
    """Σ (x_{i+1} − x_i)² + x_i⁴ + x_i: strictly convex, any n."""

    def fun(x):
        d = x[..., 1:] - x[..., :-1]
        return (d * d).sum(axis=-1) + (x * x * x * x + x).sum(axis=-1)

    def grad(x):
        d = x[..., 1:] - x[..., :-1]
        g = 4 * x * x * x + 1
        g[..., 1:] += 2 * d
        g[..., :-1] -= 2 * d
        return g

    def hess(x):
        H = (12 * x * x)[..., None] * eye_like(x)
        i = np.arange(n - 1)
        H[..., i, i] += 2
        H[..., i + 1, i + 1] += 2
        H[..., i, i + 1] = H[..., i + 1, i] = -2
        return H

    start = tuple(float(s) for s in np.linspace(-1.0, 1.5, n))
    return Problem(f"chain{n}", fun, grad, hess, start, step=0.01)


PROBLEMS = [
    quadratic("quadratic", spd(np.array([1.0, 3.0, 8.0]), 1), np.array([1.0, -2.0, 0.5]), (4.0, -3.0, 2.0)),
    quadratic("ill_conditioned", spd(np.geomspace(1e-2, 1e2, 6), 2), np.ones(6), (1.0, 2.0, 3.0) * 2),
    rosenbrock(2, (-1.2, 1.0)),
    rosenbrock(10, (-1.2, 1.0) * 5),
    quadratic("booth", np.array([[10.0, 8.0], [8.0, 10.0]]), np.array([34.0, 38.0]), (-3.0, 8.0)),
    _beale(),
    levy((-9.4186315, -5.2738909)),
    _logistic(),
    saddle("at_saddle", (0.0, 0.0)),
    saddle("near_saddle", (0.8, 0.01)),
    _quartic(),
    chain(40),
]  # fmt: skip

BY_NAME = {problem.name: problem for problem in PROBLEMS}

PENALISED = ("cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp")
METHODS = ("gd", "newton", "bfgs", "dfp", *PENALISED, "cgd-auto")


def derivatives(problem, method):
    given = {"jac": problem.grad}
    if method == "newton":
        given["hess"] = problem.hess
    if method == "cgd":
        given["hvp"] = problem.hvp
    return given
