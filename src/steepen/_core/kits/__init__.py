"""One run, many, or a traced program, in one set of formulas.

Directions, steps and the loop are written once. A *kit* has what differs between the three kinds of run:

    One      vectors `(n,)`;   a scalar is a Python number
    Many     batches `(B, n)`; a scalar is a NumPy array with one value a row; masks in place of branches
    Traced   vectors `(n,)` of JAX under `jit`, with `vmap` for batches; a scalar is an array of no dimension

`any(mask)` means "may hold" and `all(mask)` "surely holds". The first two kits answer truly, the traced one
True and False: `if kit.any(mask)` is a shortcut around work that changes nothing where the mask is False.

A row of a batch equals the run made alone up to rounding: BLAS sums the products of one matrix and of many in
another order. The same batch has the same bits again.
"""

from __future__ import annotations

from ..arrays import Array, is_numpy
from .many import Many, NumPyMany
from .one import NumPyOne, One
from .traced import Traced

__all__ = ["Kit", "Many", "NumPyMany", "NumPyOne", "One", "Traced", "kit_for"]

Kit = One
"""What every kit can do."""


def kit_for(x: Array) -> One:
    """Return the kit of a run from this start."""
    if x.ndim == 1:
        return NumPyOne(x) if is_numpy(x) else One(x)
    return NumPyMany(x) if is_numpy(x) else Many(x)
