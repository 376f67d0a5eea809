"""Checks of an optimizer before a run, for the Trainer and Lightning integrations; only raises and warns."""

from __future__ import annotations

import math
import warnings
from typing import Any

import torch

from ..torch._ascent import AscentOptimizer
from ..torch._cgd import ACCURATE, CGD
from ..torch._gap_sam import GapSAM

_PASSES = {"16": torch.float16, "fp": torch.float16, "bf": torch.bfloat16}  # "16-mixed", "fp16", "bf16"


def checked(optimizer: Any, where: str, precision: str) -> Any:
    """Check that an optimizer is ours and its ascent step fits the precision of the passes; return it."""
    if not isinstance(optimizer, AscentOptimizer):
        raise TypeError(f"{where}: expected an optimizer of steepen.torch, such as GapSAM; got {optimizer!r}")
    dtype = _PASSES.get(precision[:2], torch.float64)
    if isinstance(optimizer, CGD) and optimizer.r is None and optimizer.shortest < ACCURATE[dtype]:
        raise ValueError(f"dtype: the passes are in {dtype} here; set CGD(..., dtype={dtype})")
    return optimizer


def check_length(optimizer: Any, steps: float) -> None:
    """Warn if an optimizer was set up for a run of another length, or has no ascent step within it."""
    when = optimizer.when
    if isinstance(optimizer, GapSAM) and optimizer.total_steps != steps:
        warnings.warn(
            f"total_steps: GapSAM expects {optimizer.total_steps}, but this run has {steps}", stacklevel=3
        )
    elif when is not None and steps < math.inf and not any(k in when for k in range(int(steps))):
        warnings.warn(f"when: contains none of the {steps} steps of this run: no ascent step", stacklevel=3)


def is_told(optimizer: Any) -> bool:
    """Return whether an optimizer needs the loss on validation data to be recorded."""
    return isinstance(optimizer, GapSAM) and optimizer.recorded
