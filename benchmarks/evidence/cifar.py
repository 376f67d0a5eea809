"""CIFAR from a folder of the user's: the binary version as distributed, or .npz; nothing is downloaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steepen.train.training import Data

__all__ = ["read_cifar"]

_PIXELS = 3 * 32 * 32


class _Format(NamedTuple):
    """How one of the two sets is distributed."""

    classes: int
    inner: str  # the folder in its archive
    names: tuple[str, ...]  # the files, the last one for the test
    labels: int  # bytes of labels before the picture; the last one is the class


CIFAR: dict[str, _Format] = {
    "cifar10": _Format(
        10, "cifar-10-batches-bin", (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"), 1
    ),
    "cifar100": _Format(100, "cifar-100-binary", ("train.bin", "test.bin"), 2),
}
"""The sets, and the files of their binary versions."""


def read_cifar(name: str, folder: str | os.PathLike[str] | None) -> Data:
    """Read CIFAR-10 or CIFAR-100 from a folder: uint8 of shape (n, 3, 32, 32), and classes.

    Parameters
    ----------
    name : {"cifar10", "cifar100"}
        Which.
    folder : path
        It holds the files of the binary version, or the folder in which its archive puts them; or
        `cifar10.npz` (`cifar100.npz`) with the arrays x_train, y_train, x_test and y_test, pictures as uint8
        of shape (n, 32, 32, 3) or (n, 3, 32, 32). The Python version is a pickle, which can run any code, and
        is not read.
    """
    found, form = find_cifar(name, folder), CIFAR[name]
    return _from_binary(found, form) if found.is_dir() else _from_arrays(found, form.classes)


def find_cifar(name: str, folder: str | os.PathLike[str] | None) -> Path:
    """Return the .npz in a folder, or the folder in it that holds all files of the binary version."""
    if folder is None:
        raise ValueError(f"data-dir: {name} is not downloaded; expected the folder that holds it")
    root, form = Path(folder), CIFAR[name]
    if not root.is_dir():
        raise ValueError(f"data-dir: there is no folder {str(folder)!r}")
    if (root / f"{name}.npz").exists():
        return root / f"{name}.npz"
    for place in (root, root / form.inner):
        missing = [file for file in form.names if not (place / file).exists()]
        if not missing:
            return place
        if len(missing) < len(form.names):
            raise ValueError(f"data-dir: {str(place)!r} lacks {', '.join(missing)}")
    expected = f"{name}.npz, or {', '.join(form.names)} (the binary version; the Python version is not read)"
    found = ", ".join(sorted(path.name for path in root.iterdir())[:5]) or "nothing"
    raise ValueError(f"data-dir: expected {expected}; {str(folder)!r} holds {found}")


def _from_binary(place: Path, form: _Format) -> Data:
    parts = [_records(place / file, form) for file in form.names]
    x, y = (np.concatenate([part[i] for part in parts[:-1]]) for i in (0, 1))
    return Data(x, y, *parts[-1])


def _records(path: Path, form: _Format) -> tuple[Any, Any]:
    raw, width = np.frombuffer(path.read_bytes(), np.uint8), form.labels + _PIXELS
    if not len(raw) or len(raw) % width:
        raise ValueError(
            f"data-dir: {str(path)!r} is cut short or something else: expected records of {width} bytes, got "
            f"{len(raw)} bytes"
        )
    rows = raw.reshape(-1, width)
    pictures = rows[:, form.labels :].reshape(-1, 3, 32, 32)
    return pictures, _classes(path, rows[:, form.labels - 1], form.classes)


def _classes(path: Path, labels: NDArray[Any], classes: int) -> NDArray[np.int64]:
    if labels.size and not (labels.min() >= 0 and labels.max() < classes):
        raise ValueError(
            f"data-dir: {str(path)!r} has a class {int(labels.max())}; expected 0 to {classes - 1}"
        )
    return labels.astype(np.int64)


def _from_arrays(path: Path, classes: int) -> Data:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            parts = [arrays[key] for key in ("x_train", "y_train", "x_test", "y_test")]
    except Exception as error:  # a zip file can be wrong in many ways
        raise ValueError(
            f"data-dir: expected x_train, y_train, x_test and y_test in {str(path)!r}; "
            f"{type(error).__name__}: {error}"
        ) from error
    pictures: list[Any] = []
    for x, y in (parts[:2], parts[2:]):
        if x.dtype != np.uint8 or x.shape[1:] not in ((32, 32, 3), (3, 32, 32)) or y.shape != x.shape[:1]:
            raise ValueError(
                f"data-dir: {str(path)!r}: expected uint8 pictures of 32 × 32 × 3 and a class for each, got "
                f"{x.dtype} of shape {x.shape} and {y.shape}"
            )
        pictures += [x if x.shape[1] == 3 else x.transpose(0, 3, 1, 2), _classes(path, y, classes)]
    return Data(*pictures)
