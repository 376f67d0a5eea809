"""The methods but cgd-auto: a memory, what it learns from a step, and the direction at an iterate."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..methods.matrix import CURVATURE, LEAST, MOST, rank_two
from ..schedules import ByCurvature
from ._box import difference, difference_length
from ._jax import jnp
from ._numbers import dot, norm, times


class Found(NamedTuple):
    """A direction, the λ that made it, and the memory after it."""

    p: Any
    lam: Any
    memory: Any


class Method:
    """Steepest descent, and the base of the others.

    `functions` evaluate derivatives, `space` is where x may be; `costs` are the gradients, products and
    Hessians that a direction takes.
    """

    penalised = False
    verifies = False
    steepest = False
    costs = (0, 0, 0)

    def __init__(self, settings: Any, functions: Any, space: Any, eps: float):
        self.given, self.functions, self.space, self.eps = settings.direction, functions, space, eps

    def begin(self, x: Any, f: Any, g: Any) -> Any:
        """Return the memory at the start."""
        return ()

    def learn(self, memory: Any, x: Any, f: Any, g: Any, rows: Any) -> Any:
        """Return the memory after a step to x, unchanged unless `rows` holds."""
        return memory

    def direction(self, memory: Any, k: Any, x: Any, g: Any) -> Found:
        """Return the direction at an iterate."""
        raise NotImplementedError

    def amounts(self, memory: Any, alpha: Any, lam: Any) -> tuple[Any, Any]:
        """Return the α and λ that a trace shows."""
        return alpha, lam


class GD(Method):
    """p = −∇f."""

    steepest = True


class Newton(Method):
    """p = −H⁻¹∇f in the free variables."""

    costs = (0, 0, 1)

    def direction(self, memory: Any, k: Any, x: Any, g: Any) -> Found:
        matrix = self.space.restrict(self.functions.hessian(x), x, g)
        return Found(-jnp.linalg.solve(matrix, self.space.free(x, g, g)), 0.0, memory)


class Matrix(NamedTuple):
    """A quasi-Newton matrix, and the point that it was last updated at."""

    matrix: Any
    x: Any
    g: Any


def learnt(memory: Matrix, x: Any, g: Any, rows: Any, rule: str, inverse: bool) -> Matrix:
    """Return the matrix with the pair of the last step, unless its curvature is out of range."""
    s, y = x - memory.x, g - memory.g
    a, b = (s, y) if inverse else (y, s)
    rho, w = dot(a, b), times(memory.matrix, b)
    bw = dot(b, w)
    range_of = jnp.finfo(s.dtype)
    least, most = max(LEAST, float(range_of.tiny)), min(MOST, float(range_of.max))
    good = (rho > CURVATURE * norm(a) * norm(b)) & (rho > least) & (rho < most) & (bw > least) & (bw < most)
    rho, bw = jnp.where(good, rho, 1.0), jnp.where(good, bw, 1.0)
    new = rank_two(memory.matrix, a, w, rho, bw, (rule == "bfgs") == inverse, lambda number, v: number * v)
    kept = jnp.where(good & rows, new, memory.matrix)
    if rows is True:
        return Matrix(kept, x, g)
    return Matrix(kept, jnp.where(rows, x, memory.x), jnp.where(rows, g, memory.g))


class QuasiNewton(Method):
    """p = −G·∇f, G the approximation of the inverse Hessian by the rule that names the method."""

    def begin(self, x: Any, f: Any, g: Any) -> Any:
        return Matrix(jnp.eye(x.shape[0], dtype=x.dtype), x, g)

    def learn(self, memory: Any, x: Any, f: Any, g: Any, rows: Any) -> Any:
        return learnt(memory, x, g, rows, self.given.name, inverse=True)

    def direction(self, memory: Any, k: Any, x: Any, g: Any) -> Found:
        def product(v: Any) -> Any:
            return times(memory.matrix, v)

        return Found(-self.space.solve(product, lambda: jnp.diag(memory.matrix), x, g), 0.0, memory)


class CGD(Method):
    """p = −(∇f + λ·H·∇h(∇f))."""

    penalised = True

    def __init__(self, settings: Any, functions: Any, space: Any, eps: float):
        super().__init__(settings, functions, space, eps)
        self.costs = {"difference": (1, 0, 0), "exact": (0, 1, 0)}.get(self.given.curvature, (0, 0, 0))

    def begin(self, x: Any, f: Any, g: Any) -> Any:
        return Matrix(jnp.eye(x.shape[0], dtype=x.dtype), x, g) if self.costs == (0, 0, 0) else ()

    def learn(self, memory: Any, x: Any, f: Any, g: Any, rows: Any) -> Any:
        return learnt(memory, x, g, rows, self.given.curvature, inverse=False) if memory else memory

    def direction(self, memory: Any, k: Any, x: Any, g: Any) -> Found:
        penalty, space, lam = self.given.penalty, self.space, self.given.lam
        c, u = self._product(memory, x, g, penalty.vector(space.free(x, g, g)))
        u = space.free(x, g, u)
        value = lam(k)
        if isinstance(lam, ByCurvature):
            value = lam.at(value, c * dot(g, u), c * c * dot(u, u), penalty.scale)
        return Found(-penalty.scale * value * c * u - space.free(x, g, g), value, memory)

    def _product(self, memory: Any, x: Any, g: Any, v: Any) -> tuple[Any, Any]:
        """Return c and u with H·v = c·u, the natural form of a difference."""
        if self.given.curvature == "exact":
            return 1.0, self.functions.product(x, v)
        if self.given.curvature == "difference":
            r = difference_length(self.eps, x, v) if self.given.r is None else self.given.r
            point, sign = difference(self.space, x, v, r)
            return 1 / r, sign * (self.functions.both(point)[1] - g)
        return 1.0, times(memory.matrix, v)
