"""Files are written whole or not at all, and read without trusting what they say of themselves."""

from __future__ import annotations

import io
import math
import os
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray


def write_whole(path: str | os.PathLike[str], write: Callable[[BinaryIO], object]) -> None:
    """Write beside the target, then move into place: a reader never sees half a file."""
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_arrays(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Read the arrays of a file that `np.savez` wrote; anything else is an exception of whatever kind.

    What the file claims is held against its size before anything is allocated: members are stored as they
    are, as `savez` does, so together they cannot be larger than the file.
    """
    arrays: dict[str, NDArray[Any]] = {}
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > os.path.getsize(path):
            raise ValueError("its members are larger than the file")
        for member in members:
            name = member.filename.removesuffix(".npy")
            if member.compress_type != zipfile.ZIP_STORED or name == member.filename or name in arrays:
                raise ValueError(f"{member.filename} is not as np.savez writes it")
            arrays[name] = _array(archive.read(member), name)
    return arrays


def _array(data: bytes, name: str) -> NDArray[Any]:
    """Read an array of the .npy format, version 1.0."""
    file = io.BytesIO(data)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError(f"{name} is of another version of the .npy format")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    start = file.tell()
    if dtype.hasobject or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(data) - start:
        raise ValueError(f"{name} claims shape {shape} and dtype {dtype}, and has {len(data) - start} bytes")
    return np.frombuffer(data, dtype, offset=start).reshape(shape, order="F" if fortran else "C")
