"""Arithmetic on lists of tensors, sharded ones too, without asking the device for a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

lists: Any = torch  # for its operations on lists, which have no types


def local(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the parts of tensors that lie on this rank; all of those that are not sharded."""
    return [tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in tensors]  # pyright: ignore


def copied(tensors: Sequence[Tensor], room: Sequence[Tensor] = ()) -> list[Tensor]:
    """Return copies of tensors, made in one launch, in the room of older ones if they fit."""
    new, old = ([(t.shape, t.dtype, t.device) for t in some] for some in (tensors, room))
    copies = list(room) if new == old else [torch.empty_like(t) for t in tensors]
    lists._foreach_copy_(copies, tensors)
    return copies


def norm(tensors: Sequence[Tensor]) -> Tensor:
    """Return the norm over all tensors, in float32 at least; over all ranks where they are sharded."""
    norms: list[Any] = []
    for sharded in (False, True):
        kind = [t for t in tensors if hasattr(t, "to_local") is sharded]
        if kind:
            dtypes = [torch.promote_types(dtype, torch.float32) for dtype in {t.dtype for t in kind}]
            total = _length(lists._foreach_norm(kind, 2, max(dtypes, key=lambda dtype: dtype.itemsize)))
            norms.append(total.full_tensor() if hasattr(total, "full_tensor") else total)
    return _length(norms)


def _length(norms: Sequence[Any]) -> Any:
    return norms[0] if len(norms) == 1 else lists.linalg.vector_norm(torch.stack(list(norms)))
