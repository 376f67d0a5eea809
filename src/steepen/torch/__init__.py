"""CGD for training networks: a wrapper around any optimizer of `torch.optim`.

Examples
--------
>>> import torch
>>> from steepen.torch import CGD
>>> model = torch.nn.Linear(3, 1)
>>> opt = CGD(torch.optim.AdamW(model.parameters(), lr=1e-3), lam=0.01)
>>> def closure():
...     opt.zero_grad()
...     loss = model(torch.ones(8, 3)).square().mean()
...     loss.backward()
...     return loss
>>> loss = opt.step(closure)
"""

from __future__ import annotations

from .._tools.optional import load

load("torch", "steepen.torch", extra="torch")

from ._auto import ByGap  # noqa: E402
from ._family import PROBE, Probe  # noqa: E402
from ._numbers import Diagnostics  # noqa: E402
from ._optimizer import CGD  # noqa: E402
from ._presets import ASAM, EGR, FGR, GNP, MSAM, SAM, USAM, WSAM  # noqa: E402
from ._sharpness import Sharpness, sharpness  # noqa: E402
from ._when import When  # noqa: E402

__all__ = [
    "ASAM",
    "CGD",
    "EGR",
    "FGR",
    "GNP",
    "MSAM",
    "PROBE",
    "SAM",
    "USAM",
    "WSAM",
    "ByGap",
    "Diagnostics",
    "Probe",
    "Sharpness",
    "When",
    "sharpness",
]
