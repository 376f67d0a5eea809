"""A column of numbers in a line of JSON: little-endian bytes in base 64; whole numbers are compressed."""

from __future__ import annotations

import binascii
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def pack(column: NDArray[Any]) -> tuple[str, str]:
    """Return the type of a column and its bytes as text, neither of which JSON needs to escape.

    Floats keep every bit; whole numbers are stored as narrow as they fit.

    Examples
    --------
    >>> pack(np.zeros(2)), len(pack(np.full(1000, 40))[1])
    (('<f8', 'AAAAAAAAAAAAAAAAAAAAAA=='), 28)
    """
    column = narrow(column)
    column = column.astype(column.dtype.newbyteorder("<"), copy=False)
    data = column.tobytes()
    if column.dtype.kind == "u":
        data = zlib.compress(data, 1)
    return column.dtype.str, binascii.b2a_base64(data, newline=False).decode()


def narrow(column: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers, none of them negative, in as few bytes as they need; others as they are.

    Examples
    --------
    >>> narrow(np.array([7, 300])).dtype.name
    'uint16'
    """
    if column.dtype.kind not in "iu":
        return column
    return column.astype(np.min_scalar_type(int(column.max(initial=0))), copy=False)


def unpack(packed: Any, length: int) -> NDArray[Any]:
    """Return a column again; ValueError if it is not of this length.

    Examples
    --------
    >>> unpack(pack(np.array([7, 300])), 2)
    array([  7, 300], dtype=uint16)
    """
    kind, text = packed
    dtype, data = np.dtype(kind), binascii.a2b_base64(text, strict_mode=True)
    if dtype.kind == "u":
        engine = zlib.decompressobj()
        data = engine.decompress(data, length * dtype.itemsize + 1)  # and no more, whatever it claims
    if len(data) != length * dtype.itemsize:
        raise ValueError(f"expected {length} values, got {len(data) / dtype.itemsize:g}")
    return np.frombuffer(data, dtype)
