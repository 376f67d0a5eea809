"""A share of a batch: its first examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

__all__ = ["first_of", "sizes"]

_OWN = "cut such a batch yourself, by opt.share"


def first_of(batch: Any, share: float) -> Any:
    """Return the first examples of a batch, in the form in which it came.

    Tensors are cut along their first axis, to max(1, round(share·n)) of n examples; tuples, lists and dicts
    are walked through. A list of n things that are not tensors is cut too; all else is handed on as it is.
    """
    found = set(sizes(batch))
    if len(found) != 1:
        came = " and ".join(map(str, sorted(found))) or "no tensor"
        raise ValueError(f"batch: expected tensors of as many examples each, got {came}; {_OWN}")
    (n,) = found
    return _cut(batch, max(1, round(share * n)), n)


def sizes(part: Any) -> list[int]:
    """Return the numbers of examples of all tensors in it."""
    if isinstance(part, PackedSequence) or (isinstance(part, Tensor) and _is_ragged(part)):
        raise TypeError(f"batch: expected dense tensors, got a ragged {type(part).__name__}; {_OWN}")
    if isinstance(part, Tensor):
        return list(part.shape[:1])
    inner = _inner(part)
    return [] if inner is None else [size for one in inner for size in sizes(one)]


def _inner(part: Any) -> list[Any] | None:
    if isinstance(part, Mapping):
        return list(cast(Mapping[Any, Any], part).values())
    return list(cast(list[Any], part)) if isinstance(part, list | tuple) else None


def _is_ragged(tensor: Tensor) -> bool:
    return tensor.is_nested or tensor.layout is not torch.strided


def _cut(part: Any, rows: int, n: int) -> Any:
    if isinstance(part, Tensor):
        return part[:rows] if part.ndim else part
    inner = _inner(part)
    if inner is None or (not sizes(part) and (len(inner) != n or isinstance(part, Mapping))):
        return part  # pyright: ignore
    if not sizes(part):  # words or numbers, one for each example
        return part[:rows]
    cut = [_cut(one, rows, n) for one in inner]
    if isinstance(part, Mapping):
        return type(part)(zip(part, cut, strict=True))  # pyright: ignore
    return type(part)(*cut) if hasattr(part, "_fields") else type(part)(cut)
