"""Training networks with an ascent step: a wrapper around any optimizer of `torch.optim`.

Set its strength in one of three ways: `CGD` takes λ, `SAM` the length ρ, `GapSAM` validation data; `MSAM` is
SAM along the momentum. For Hugging Face's Trainer and for Lightning see `steepen.integrations`.
"""

from __future__ import annotations

from .._tools.optional import load

load("torch", "steepen.torch", extra="torch")

from ._ascent import AscentOptimizer  # noqa: E402
from ._cgd import CGD  # noqa: E402
from ._gap_sam import GapSAM  # noqa: E402
from ._report import Report  # noqa: E402
from ._sam import MSAM, SAM  # noqa: E402

__all__ = ["CGD", "MSAM", "SAM", "AscentOptimizer", "GapSAM", "Report"]
