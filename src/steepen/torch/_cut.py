"""Some examples of a batch, in the form in which it came."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

__all__ = ["examples", "rows_of"]

_ADVICE = "pass a tensor, or a tuple, list, dict or dataclass of tensors of as many rows each"


def examples(batch: Any) -> int:
    """Return how many examples a batch has: the rows of its tensors and arrays."""
    found = set(_rows(batch))
    if not found:
        raise TypeError(f"batch: found no tensor in a {type(batch).__name__}; {_ADVICE}")
    if len(found) > 1:
        counts = " and ".join(map(str, sorted(found)))
        raise ValueError(f"batch: found tensors of {counts} rows; {_ADVICE}")
    return found.pop()


def rows_of(batch: Any, start: int, stop: int) -> Any:
    """Return these rows of every tensor and array of a batch.

    Tuples, lists, dicts and dataclasses are walked through. A list with one entry an example that is no
    tensor, such as a word, is cut too; everything else is handed on as it is.
    """
    n = examples(batch)
    return batch if (start, stop) == (0, n) else _cut(batch, slice(start, stop), n)


def _rows(part: Any) -> list[int]:
    if isinstance(part, PackedSequence) or (isinstance(part, Tensor) and _is_ragged(part)):
        raise TypeError(f"batch: cannot cut a ragged {type(part).__name__}; {_ADVICE}")
    if isinstance(part, Tensor | np.ndarray):
        shape: tuple[int, ...] = cast(Any, part).shape
        return list(shape[:1])
    inner = _inner(part)
    return [] if inner is None else [rows for one in inner.values() for rows in _rows(one)]


def _is_ragged(tensor: Tensor) -> bool:
    return tensor.is_nested or tensor.layout is not torch.strided


def _inner(part: Any) -> dict[Any, Any] | None:
    """Return what a container holds, by name or place; None for anything else."""
    if isinstance(part, Mapping):
        return dict(cast(Mapping[Any, Any], part))
    if isinstance(part, list | tuple):
        return dict(enumerate(cast(list[Any], part)))
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        return {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    return None


def _cut(part: Any, rows: slice, n: int) -> Any:
    if isinstance(part, Tensor | np.ndarray):
        array = cast(Any, part)
        return array[rows] if array.ndim else array
    inner = _inner(part)
    if inner is None:
        return part
    if isinstance(part, list) and not _rows(part):
        words = cast(list[Any], part)
        return words[rows] if len(words) == n else words
    return _builder(part)({name: _cut(one, rows, n) for name, one in inner.items()})


def _builder(part: Any) -> Callable[[dict[Any, Any]], Any]:
    """Return what makes a container of the same type."""
    kind = cast(Any, type(part))
    if isinstance(part, Mapping):
        return kind
    if isinstance(part, list | tuple):
        named = hasattr(kind, "_fields")
        return lambda inner: kind(*inner.values()) if named else kind(inner.values())
    return lambda inner: dataclasses.replace(part, **inner)
