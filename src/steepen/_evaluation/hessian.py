"""H·v and H, for the evaluator of eager runs: given, by autodiff or by differences; calls the user's code."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .._core.arrays import Array, identity, to_numpy
from .autodiff import AUTODIFF, Derivatives
from .calls import Memo, Only, UserCalls, describe
from .counter import Cost


class Hessian:
    """Products H·v and the matrix H of an evaluator's function."""

    def __init__(self, evaluator: UserCalls, given: Derivatives, source: str):
        self._evaluator, self._backend, self._given = evaluator, evaluator.backend, given
        self.source = source  # of H·v
        fixed = to_numpy(evaluator.space.fixed(evaluator.like))  # no derivatives are needed along these
        self._unfixed: list[int] = np.flatnonzero(~fixed).tolist()
        self.memo = Memo(evaluator.backend)

    @property
    def matrix_source(self) -> str:
        """Where H comes from: given, or made of products."""
        return "hess" if self._given.hess is not None and self.source not in AUTODIFF else self.source

    @property
    def cost_product(self) -> Cost:
        """What one H·v costs in values and gradients."""
        return self._cost(1)

    @property
    def cost_matrix(self) -> Cost:
        """What H costs in values and gradients."""
        return Cost() if self._given.hess is not None else self._cost(len(self._unfixed))

    def _cost(self, products: int) -> Cost:
        if self.source != "difference":
            return Cost()
        each = self._evaluator.cost_difference
        return Cost(products * each.evals, products * each.grads)

    def product(self, x: Array, v: Array, g: Array, only: Only = None) -> Array:
        """Evaluate H·v at x, where ∇f is g."""
        evaluator = self._evaluator
        if self._given.hvp is not None:
            evaluator.counter.count(only, "nhvp")
            return evaluator.ask("hvp", self._given.hvp, partial(evaluator.vector, name="hvp"), only, x, v)
        if self._given.hess is not None:
            matrix = self._given_matrix(x, only)
            if _is_operator(matrix):
                return evaluator.vector(matrix @ to_numpy(v), only, "hess")
            return (matrix * v[..., None, :]).sum(axis=-1)
        r = evaluator.difference_length(x, v)
        return self._backend.times(self._backend.ratio(1.0, r), evaluator.change(x, v, g, r, only))

    def matrix(self, x: Array, g: Array, only: Only = None) -> Array:
        """Evaluate H at x, where ∇f is g; by n products where it was not given."""
        n, xp = self._evaluator.n, self._backend.xp
        if self._given.hess is not None:
            matrix = self._given_matrix(x, only)
            if _is_operator(matrix):
                matrix = matrix.toarray() if hasattr(matrix, "toarray") else matrix @ np.eye(n)
                return self._evaluator.vector(matrix, only, "hess", (n,))
            return matrix
        eye = identity(x)
        columns = [x * 0] * n
        for i in self._unfixed:
            columns[i] = self.product(x, x * 0 + eye[i], g, only)
        matrix = xp.stack(columns, axis=-1)
        return (matrix + xp.moveaxis(matrix, -1, -2)) / 2

    def _given_matrix(self, x: Array, only: Only) -> Any:
        """Evaluate the given H: an array or, in a single run, a sparse matrix or LinearOperator."""
        evaluator, n, missing = self._evaluator, self._evaluator.n, self.memo.missing(x, only)
        if self._backend.any(missing):
            evaluator.counter.count(missing, "nhev")
            found = evaluator.call(self._given.hess, missing, x)
            if self._backend.size is None and _is_operator(found):
                if tuple(found.shape) != (n, n):
                    raise ValueError(f"hess: expected shape {(n, n)}, got {describe(found)}")
            else:
                found = evaluator.vector(found, missing, "hess", (n,))
            self.memo.put(x, found, missing)
        return self.memo.value


def source_of(given: Derivatives, jac: str) -> str:
    """Return where H·v comes from: of what was given, the best."""
    if given.hvp is not None:
        return "hvp"
    if given.hess is not None:
        return "hess"
    return jac if jac in AUTODIFF else "difference"


def _is_operator(matrix: Any) -> bool:
    """Return whether this is a SciPy sparse matrix or LinearOperator."""
    return hasattr(matrix, "shape") and hasattr(matrix, "dot") and not hasattr(matrix, "__array__")
