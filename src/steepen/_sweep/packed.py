"""Columns as text for a line of JSON: little-endian bytes, in base 64; whole numbers are compressed."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def pack(columns: Mapping[str, NDArray[Any]]) -> dict[str, list[str]]:
    """Return columns as text. Floats keep every bit; whole numbers are stored as narrow as they fit.

    Examples
    --------
    >>> packed = pack({"njev": np.full(1000, 40), "f": np.zeros(2)})
    >>> packed["f"], len(packed["njev"][1])
    (['<f8', 'AAAAAAAAAAAAAAAAAAAAAA=='], 28)
    """
    found: dict[str, list[str]] = {}
    for name, column in columns.items():
        if column.dtype.kind in "iu":
            column = column.astype(np.min_scalar_type(int(column.max(initial=0))))
        column = column.astype(column.dtype.newbyteorder("<"), copy=False)
        data = np.ascontiguousarray(column).tobytes()
        if column.dtype.kind == "u":
            data = zlib.compress(data, 1)
        found[name] = [column.dtype.str, base64.b64encode(data).decode()]
    return found


def unpack(packed: Mapping[str, Any], length: int) -> dict[str, NDArray[Any]]:
    """Return the columns again; ValueError if they are not of this length.

    Examples
    --------
    >>> unpack(pack({"njev": np.array([7, 300])}), 2)
    {'njev': array([  7, 300], dtype=uint16)}
    """
    found: dict[str, NDArray[Any]] = {}
    for name, (kind, text) in packed.items():
        dtype, data = np.dtype(kind), base64.b64decode(text, validate=True)
        if dtype.kind == "u":
            engine = zlib.decompressobj()
            data = engine.decompress(data, length * dtype.itemsize + 1)  # and no more, whatever it claims
        if len(data) != length * dtype.itemsize:
            raise ValueError(f"{name}: expected {length} values")
        found[name] = np.frombuffer(data, dtype)
    return found
