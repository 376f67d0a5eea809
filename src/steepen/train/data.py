"""The data: scikit-learn's digits, MNIST-1D from its own generator, CIFAR from a folder of the user's.

Nothing is downloaded.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from .._tools.optional import load
from .folders import CIFAR, Data, read_cifar

__all__ = ["load_data"]

SIZES: dict[str, int] = {"digits": 898, "mnist1d": 4000, "cifar10": 50_000, "cifar100": 50_000}
"""The data, and how many examples of each are for training."""

_Arrays = tuple[NDArray[np.float32], NDArray[np.int64]]


def training_size(name: str, validate: bool) -> int:
    """Return how many examples there are to train on; a fifth is held out to validate."""
    return SIZES[name] * 4 // 5 if validate else SIZES[name]


def load_data(
    name: str, validate: bool = False, device: str = "cpu", folder: str | os.PathLike[str] | None = None
) -> Data:
    """Load the data, split in the same way every time; CIFAR from a folder, see `read_cifar`.

    To validate is to judge by the last fifth of the training part, which is then not trained on. The test
    part is not looked at: this is for choosing hyper-parameters.

    Examples
    --------
    >>> load_data("digits", validate=True).x_test.shape
    torch.Size([180, 64])
    """
    torch = load("torch", "steepen train", extra="train")
    x, y = _cifar(name, folder) if name in CIFAR else _SOURCES[name]()
    end = SIZES[name] if validate else len(x)
    start = training_size(name, validate)
    x = (x - x[:start].mean()) / x[:start].std()
    parts = (x[:start], y[:start], x[start:end], y[start:end])
    return Data(*(torch.from_numpy(part).to(device) for part in parts))


@cache
def _digits() -> _Arrays:
    """Return the 1797 images in their order; the first half trains, as in scikit-learn's own example.

    Unshuffled, the halves are by different writers: harder, and closer to what a test is for.
    """
    datasets = load("sklearn.datasets", "--data digits", extra="train")
    x, y = datasets.load_digits(return_X_y=True)
    return x.astype(np.float32), y.astype(np.int64)


@cache
def _mnist1d() -> _Arrays:
    """Generate the 5000 signals with the package's own settings; it has shuffled them, and 4000 train."""
    generator = load("mnist1d.data", "--data mnist1d", extra="train")
    # it seeds the global generators; the caller's are put back
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        made = generator.make_dataset()
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
    x, y = (np.concatenate([made[key], made[f"{key}_test"]]) for key in "xy")
    return x.astype(np.float32), y.astype(np.int64)


def _cifar(name: str, folder: str | os.PathLike[str] | None) -> _Arrays:
    """Read the pictures; the training part in one random order, as files may be sorted by class."""
    parts = read_cifar(name, folder)
    if (len(parts.x), len(parts.x_test)) != (SIZES[name], 10_000):
        raise ValueError(
            f"data-dir: expected {SIZES[name]} pictures to train on and 10000 to test, got {len(parts.x)} "
            f"and {len(parts.x_test)}"
        )
    order = np.random.default_rng(0).permutation(len(parts.x))
    x = np.concatenate([parts.x[order], parts.x_test]).astype(np.float32)
    return x, np.concatenate([parts.y[order], parts.y_test])


_SOURCES: dict[str, Callable[[], _Arrays]] = {"digits": _digits, "mnist1d": _mnist1d}
