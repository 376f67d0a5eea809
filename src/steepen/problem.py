"""What a run minimises, as methods and steps see it: where x may be, and how to ask for f and ∇f."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import identity, namespace, to_numpy
from .differences.given import Gradients
from .questions import Asking, Gradient, Hessian, Product, Value, Vector
from .space import Space
from .vectors import norm, own, same


@dataclass
class Problem:
    """The function of a run. What evaluates it is asked with `yield from`, since a driver has to answer.

    Attributes
    ----------
    space : where x may be
    eps : the precision of the run's numbers
    gradients : where ∇f comes from, and how far it may be wrong
    products : where H·v comes from: "hvp", "hess", "jax", "torch" or "difference"
    matrices : where H comes from: the same

    Examples
    --------
    >>> import steepen as st
    >>> class HalfAsFar(st.Method):
    ...     def direction(self, problem, here):
    ...         middle = yield from problem.gradient(here.x - 0.5 * here.g)
    ...         return -middle
    >>> st.minimize(lambda x: x @ x, [1.0, 2.0], jac=lambda x: 2 * x, method=HalfAsFar(), step=0.5).nit
    1
    """

    space: Space
    eps: float
    gradients: Gradients
    products: str = "difference"
    matrices: str = "difference"
    differentiates: bool = False
    """Whether ∇f comes from autodiff."""
    passed: str = ""
    """The second derivative that was passed as an argument: "hvp" or "hess"."""

    def value(self, x: Vector) -> Asking[float]:
        """Ask for f(x)."""
        return (yield Value(x))

    def gradient(self, x: Vector, f: float | None = None) -> Asking[Vector]:
        """Ask for ∇f(x), wherever it comes from; f is f(x), if that is known."""
        if self.gradients.given:
            return (yield Gradient(x))
        g, _ = yield from self.gradients.gradient(x, f)
        return g

    def difference_length(self, x: Vector, v: Vector) -> float:
        """Return r for which r·v is about √ε of the size of x, ε the relative error of the gradient."""
        return math.sqrt(self.gradients.gradient_eps) * max(norm(x), 1.0) / (norm(v) or 1.0)

    def change(self, x: Vector, v: Vector, g: Vector, r: float) -> Asking[Vector]:
        """Ask for r·H·v by the paper's difference ∇f(x + r·v) − ∇f(x), where ∇f(x) is g; a new array.

        Where x + r·v leaves the box, the difference goes the other way, and no further than the box.
        """
        point = r * v
        point += x
        if not self.space.bounded:
            return (yield from self.gradient(point)) - g
        sign = 1.0 if same(self.space.project(point), point) else -1.0
        there = self.space.project(x + sign * r * v)
        return sign * ((yield from self.gradient(there)) - g)

    def product(self, x: Vector, v: Vector, g: Vector) -> Asking[Vector]:
        """Ask for H·v at x, where ∇f is g."""
        if self.products == "difference":
            r = self.difference_length(x, v)
            return (1.0 / r) * (yield from self.change(x, v, g, r))
        if self.products != "hess":
            return (yield Product(x, v))
        matrix: Any = yield Hessian(x)
        if is_operator(matrix):
            return own(x, matrix @ to_numpy(v))
        return (matrix * v[None, :]).sum(axis=-1)

    def matrix(self, x: Vector, g: Vector) -> Asking[Vector]:
        """Ask for H at x, where ∇f is g; it is made of n products where it was not given."""
        if self.matrices not in ("hvp", "difference"):
            matrix: Any = yield Hessian(x)
            if not is_operator(matrix):
                return matrix
            n = int(x.shape[-1])
            return own(x, matrix.toarray() if hasattr(matrix, "toarray") else matrix @ np.eye(n))
        eye, fixed = identity(x), to_numpy(self.space.fixed(x))
        columns = [x * 0] * len(fixed)
        for i in np.flatnonzero(
            ~fixed
        ).tolist():  # no derivatives are needed along variables that cannot move
            columns[i] = yield from self.product(x, eye[i], g)
        matrix = namespace(x).stack(columns, axis=-1)
        return (matrix + matrix.T) / 2


def is_operator(matrix: Any) -> bool:
    """Return whether this is a SciPy sparse matrix or LinearOperator."""
    return hasattr(matrix, "shape") and hasattr(matrix, "dot") and not hasattr(matrix, "__array__")


def solved(matrix: Vector, v: Vector) -> Vector:
    """Return the solution of a linear system; NaN where the matrix is singular."""
    try:
        return namespace(v).linalg.solve(matrix, v)
    except (np.linalg.LinAlgError, RuntimeError):  # torch's own error is a RuntimeError
        return v * math.nan
