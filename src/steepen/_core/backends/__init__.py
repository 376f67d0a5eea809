"""One run, many, or a traced program, in one set of formulas, those of drivers, directions, steps, evaluator.

A *backend* has what differs between the three kinds of run, and only the third imports JAX:

    Single   vectors `(n,)`;   a scalar is a Python number
    Batch    batches `(B, n)`; a scalar is a NumPy array, one value per row; masks in place of branches
    Traced   vectors `(n,)` of JAX under `jit`, with `vmap` for batches; a scalar is an array of no dimension

`any(mask)` means "may hold" and `all(mask)` "surely holds". The first two backends answer truly, the traced
one True and False: `if backend.any(mask)` skips work that changes nothing where the mask is False.
"""

from __future__ import annotations

from ..arrays import Array, is_numpy
from .batch import Batch, NumPyBatch
from .single import NumPySingle, Single
from .traced import Traced

__all__ = ["Backend", "Batch", "NumPyBatch", "NumPySingle", "Single", "Traced", "backend_for"]

Backend = Single
"""What every backend can do."""


def backend_for(x: Array) -> Single:
    """Return the backend of a run from this start."""
    if x.ndim == 1:
        return NumPySingle(x) if is_numpy(x) else Single(x)
    return NumPyBatch(x) if is_numpy(x) else Batch(x)
