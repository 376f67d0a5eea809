"""The private names of torch that are used here, each with what is done where a torch does not have it.

`docs/design.md` says why each is used; a test says which of them have gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

__all__ = ["NAMES", "copy_", "found_inf", "fused_sgd", "hooks", "norms", "step_with_hooks"]

_torch: Any = torch
_copy: Any = getattr(torch, "_foreach_copy_", None)
_norm: Any = getattr(torch, "_foreach_norm", None)
fused_sgd: Any = getattr(torch, "_fused_sgd_", None)
"""x + c·y of lists, with c and a flag to leave x alone read on the device; None where torch has none."""

NAMES = (
    "torch._foreach_copy_",
    "torch._foreach_norm",
    "torch._fused_sgd_",
    "GradScaler._per_optimizer_states",
    "Optimizer._optimizer_step_pre_hooks",
    "Optimizer._optimizer_step_post_hooks",
    "Optimizer._optimizer_state_dict_pre_hooks",
    "Optimizer._optimizer_state_dict_post_hooks",
    "Optimizer._optimizer_load_state_dict_pre_hooks",
    "Optimizer._optimizer_load_state_dict_post_hooks",
    "Optimizer.profile_hook_step",
)
"""All of them."""


def copy_(to: Sequence[Tensor], from_: Sequence[Tensor]) -> None:
    """Copy a list of tensors into another, in one launch where the kinds agree."""
    if _copy is not None:
        _copy(to, from_)
        return
    for a, b in zip(to, from_, strict=True):
        a.copy_(b)


def norms(tensors: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """Return the norm of each tensor."""
    if _norm is not None and len(tensors) > 1:
        return list(_norm(tensors, 2, dtype))
    return [_torch.linalg.vector_norm(tensor, dtype=dtype) for tensor in tensors]


def found_inf(scaler: Any, optimizer: Any) -> dict[torch.device, Tensor]:
    """Return what a GradScaler has noted of an optimizer's gradients, by device; nothing before it looked."""
    known: Any = getattr(scaler, "_per_optimizer_states", {})
    return known.get(id(optimizer), {}).get("found_inf_per_device", {})


def hooks(optimizer: Any, name: str) -> list[Any]:
    """Return the hooks of an optimizer, by the name of what they are hooked to."""
    return list(getattr(optimizer, f"_optimizer_{name}_hooks", {}).values())


def step_with_hooks(step: Any) -> Any:
    """Wrap a step so that torch's hooks run around it."""
    wrap: Any = getattr(Optimizer, "profile_hook_step", None)
    return step if wrap is None else wrap(step)
