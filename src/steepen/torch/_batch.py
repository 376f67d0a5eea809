"""Rows of a batch, a tree of tensors and arrays, for the optimizers, validation and `compare`; pure."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

_LEAF = Tensor | np.ndarray | PackedSequence
_ADVICE = "pass a tensor, or a tuple, list, dict or dataclass of tensors with equally many rows"


def leaves(part: Any) -> list[Any]:
    """Return the tensors and arrays of a batch."""
    if isinstance(part, _LEAF):
        return [part]
    return [leaf for one in _opened(part)[0] for leaf in leaves(one)]


def mapped(change: Callable[[Any], Any], part: Any) -> Any:
    """Apply a function to every tensor and array of a batch, and to every list without any, as of words."""
    words = isinstance(part, tuple) and {type(one) for one in cast("tuple[Any, ...]", part)} == {str}
    if isinstance(part, _LEAF) or words or (isinstance(part, list) and not leaves(part)):
        return change(part)
    inner, close = _opened(part)
    return close([mapped(change, one) for one in inner])


def _opened(part: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """Return the contents of a container, and a function that rebuilds it; no contents of anything else."""
    kind = cast(Any, type(part))
    if isinstance(part, Mapping):
        new: Any = copy.copy(cast(Any, part))  # a defaultdict keeps its default
        return list(new.values()), lambda inner: (new.update(zip(list(new), inner, strict=True)), new)[1]
    if isinstance(part, tuple | list):
        named = hasattr(kind, "_fields")
        return list(cast(list[Any], part)), lambda inner: kind(*inner) if named else kind(inner)
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        names = [field.name for field in dataclasses.fields(part) if field.init]
        inside = [getattr(part, name) for name in names]
        return inside, lambda inner: dataclasses.replace(part, **dict(zip(names, inner, strict=True)))
    return [], lambda _: part


def examples(batch: Any) -> int:
    """Return how many examples a batch has: the rows of its tensors and arrays."""
    found = leaves(batch)
    for one in found:
        strided = not isinstance(one, Tensor) or (one.layout is torch.strided and not one.is_nested)
        if isinstance(one, PackedSequence) or not strided:
            raise TypeError(f"batch: cannot slice a ragged {type(one).__name__}; {_ADVICE}")
    rows = {len(one) for one in found if one.ndim}
    if not rows:
        raise TypeError(f"batch: found no tensor in a {type(batch).__name__}; {_ADVICE}")
    if len(rows) > 1:
        raise ValueError(f"batch: found tensors with {' and '.join(map(str, sorted(rows)))} rows; {_ADVICE}")
    return rows.pop()


def rows_of(batch: Any, start: int, stop: int, n: int | None = None) -> Any:
    """Return these rows of every tensor, array and list of words of a batch of n; the rest is unchanged."""
    n = examples(batch) if n is None else n

    def cut(one: Any) -> Any:
        return one[start:stop] if getattr(one, "ndim", 1) and len(one) == n else one

    return batch if (start, stop) == (0, n) else mapped(cut, batch)
