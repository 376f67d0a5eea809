"""Functions of tensors as functions of NumPy's arrays, for eager runs whose state is on the host; uses torch.

On tensors each decision waits for their device, and each operation is a kernel. With few numbers it is faster
to keep the state in NumPy: points go to the device, and f and ∇f come back together, for one wait per call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import NDArray

from .arrays import Array, adopt, is_numpy, to_numpy

FEW = 2**12  # up to this many numbers the state of a single run is on the host (docs/integrations.md)


def hosted(x: Any, jac: Any) -> bool:
    """Return whether the state of a run from x is on the host, though its function takes other arrays.

    The rows of a batch are always: each question goes to the function as one array on the device.
    """
    if is_numpy(x):
        return False
    if not is_torch_array(x):
        return True
    return x.ndim == 2 or (x.numel() <= FEW and (not isinstance(jac, str) or jac == "torch"))


def tensor(like: Any, v: Array) -> Any:
    """Return an array as one of the library and on the device of another one."""
    if not is_torch_array(like):
        return adopt(like, v)
    import torch  # which is there, since it made `like`

    return torch.asarray(np.ascontiguousarray(v), device=like.device)


def fetched(f: Any, g: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Bring f and ∇f to the host, and wait for both of them once."""
    import torch

    both = to_numpy(torch.cat([f.detach().reshape(-1), g.detach().reshape(-1)]))
    return both[: f.numel()].reshape(f.shape), both[f.numel() :].reshape(g.shape)


class OfTensors:
    """A function of tensors, given NumPy's arrays for its first arguments."""

    def __init__(self, function: Callable[..., Any], like: Any, vectors: int = 1):
        self._function, self._like, self._vectors = function, like, vectors

    def __call__(self, *given: Any) -> Any:
        points = (tensor(self._like, v) for v in given[: self._vectors])
        found = self._function(*points, *given[self._vectors :])
        both = cast("tuple[Any, ...]", found) if isinstance(found, tuple | list) else ()
        if len(both) == 2 and all(is_torch_array(part) for part in both):
            return fetched(*both)
        return cast(Any, found)
