"""The data: scikit-learn's digits, and MNIST-1D from its own generator. Nothing is downloaded."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

from steepen.train.training import Data

__all__ = ["load_data"]

SIZES: dict[str, int] = {"digits": 898, "mnist1d": 4000}
"""The data, and how many examples of each are for training."""

_Arrays = tuple[NDArray[np.float32], NDArray[np.int64]]


def training_size(name: str, validate: bool) -> int:
    """Return how many examples there are to train on; a fifth is held out to validate."""
    return SIZES[name] * 4 // 5 if validate else SIZES[name]


def load_data(name: str, validate: bool = False) -> Data:
    """Load the data, split in the same way every time.

    To validate is to judge by the last fifth of the training part, which is then not trained on. The test
    part is not looked at: this is for choosing hyper-parameters.
    """
    x, y = _SOURCES[name]()
    end = SIZES[name] if validate else len(x)
    start = training_size(name, validate)
    x = (x - x[:start].mean()) / x[:start].std()
    parts = (x[:start], y[:start], x[start:end], y[start:end])
    return Data(*map(torch.from_numpy, parts))


@cache
def _digits() -> _Arrays:
    """Return the 1797 images in their order; the first half trains, as in scikit-learn's own example.

    Unshuffled, the halves are by different writers: harder, and closer to what a test is for.
    """
    from sklearn import datasets

    x, y = datasets.load_digits(return_X_y=True)
    return x.astype(np.float32), y.astype(np.int64)


@cache
def _mnist1d() -> _Arrays:
    """Generate the 5000 signals with the package's own settings; it has shuffled them, and 4000 train."""
    from mnist1d import data as generator

    # it seeds the global generators; the caller's are put back
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        made = generator.make_dataset()
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
    x, y = (np.concatenate([made[key], made[f"{key}_test"]]) for key in "xy")
    return x.astype(np.float32), y.astype(np.int64)


_SOURCES: dict[str, Callable[[], _Arrays]] = {"digits": _digits, "mnist1d": _mnist1d}
