"""Training networks with an ascent step: a wrapper around any optimizer of `torch.optim`.

Set its strength in one of three ways: `CGD` takes λ, `SAM` the length ρ, `GapSAM` validation data. The
paper's variants and other published methods are in `steepen.torch.paper`; for Hugging Face's Trainer and for
Lightning see `steepen.integrations.transformers` and `steepen.integrations.lightning`.
"""

from __future__ import annotations

from .._tools.optional import load

load("torch", "steepen.torch", extra="torch")

from . import paper  # noqa: E402
from ._ascent import AscentOptimizer  # noqa: E402
from ._cgd import CGD  # noqa: E402
from ._gap_sam import GapSAM  # noqa: E402
from ._report import Report  # noqa: E402
from ._sam import SAM  # noqa: E402

__all__ = ["CGD", "SAM", "AscentOptimizer", "GapSAM", "Report", "paper"]
