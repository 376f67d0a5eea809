"""`Result.hess_inv`, and only that: the approximate inverse Hessian as a linear operator; imports SciPy."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from .arrays import to_numpy
from .questions import Vector
from .vectors import own


class InverseHessian(LinearOperator):
    """G ≈ H⁻¹ as a `scipy.sparse.linalg.LinearOperator`.

    It takes and returns NumPy arrays, whatever array library the run used, and can be pickled.
    """

    def __init__(self, method: Any, x: Vector, g: Vector):
        n = int(x.shape[-1])
        super().__init__(dtype=to_numpy(x).dtype, shape=(n, n))
        self._learnt, self._like = (method, x, g), x
        with np.errstate(all="ignore"):  # pairs that overflow are skipped
            self._product = copy.deepcopy(method).inverse(x, g)

    def _matvec(self, x: Any) -> Any:
        return to_numpy(self._product(own(self._like, np.reshape(x, -1))))

    def _transpose(self) -> Any:  # G is symmetric
        return self

    _adjoint = _transpose

    def todense(self) -> NDArray[Any]:
        """Return the dense matrix, exactly symmetric."""
        matrix = np.array([self._matvec(unit) for unit in np.eye(int(self._learnt[1].shape[-1]))])
        return (matrix + matrix.T) / 2

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("copy: this operator cannot be converted to an array without a copy")
        return self.todense().astype(self.dtype if dtype is None else dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return InverseHessian, self._learnt
