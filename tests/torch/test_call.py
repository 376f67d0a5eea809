"""A call of `minimize` with tensors."""

import torch

from ..other_arrays import OtherArrays


class TestTensors(OtherArrays):
    xp, autodiff = torch, "torch"
