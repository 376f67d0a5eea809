"""What `CGD` refuses before any work."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import LBFGS, Optimizer

from .._check import number

__all__ = ["Mode", "Perturbation", "check"]

Mode: TypeAlias = Literal["difference", "exact"]
Perturbation: TypeAlias = Literal["global", "local"]


def check(
    base: object,
    lam: object,
    nu: object,
    lengths: dict[str, Any],
    mode: str,
    max_norm: float | None,
    model: object,
    perturbation: str,
    eta: float | None,
    dtype: object,
) -> None:
    """Refuse what does not fit, by the argument's name."""
    if not isinstance(base, Optimizer):
        raise TypeError(f"base: expected an instance of an optimizer of torch.optim, got {base!r}")
    if isinstance(base, LBFGS) or hasattr(base, "base"):
        raise TypeError(f"base: expected an optimizer of one gradient a step, got {type(base).__name__}")
    if mode not in get_args(Mode):
        raise ValueError(f"mode: expected 'difference' or 'exact', got {mode!r}")
    if mode == "exact":
        given = [name for name, value in {"nu": nu, "eta": eta, **lengths}.items() if value is not None]
        if lam is None or given:
            name = given[0] if given else "lam"
            raise ValueError(f"{name}: the exact mode has no probe and is set by lam alone")
    if max_norm is not None:
        number("max_norm", max_norm, "a positive number", above=0)
    if eta is not None:
        number("eta", eta, "a number, 0 or more", least=0)
    if dtype is not None and not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtype: expected a torch.dtype, got {dtype!r}")
    if model is not None and not isinstance(model, nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {model!r}")
    if perturbation not in get_args(Perturbation):
        raise ValueError(f"perturbation: expected 'global' or 'local', got {perturbation!r}")
    wrapped = isinstance(model, DistributedDataParallel)
    if perturbation == "local" and not wrapped:
        came = "no model" if model is None else f"a {type(model).__name__}"
        raise ValueError(f"model: perturbation='local' needs one in DistributedDataParallel, got {came}")
    for flag in ("find_unused_parameters", "static_graph"):
        if perturbation == "local" and getattr(model, flag, False):
            raise ValueError(f"model: perturbation='local' does not go with {flag}=True of its DDP")
    if mode == "exact" and wrapped:
        raise ValueError("mode: DistributedDataParallel has no second derivative; use mode='difference'")
