"""Optimizers with an ascent step for users' training loops: wrappers around any `torch.optim` optimizer.

All use d = g + ν(g⁺ − g), with g⁺ the gradient at x + s: `CGD` takes λ, `SAM` the length ρ of s, `GapSAM`
validation data. `EGR` is CGD with exact products, `MSAM` is SAM along the momentum. A step moves the weights,
and restores them before the base steps. `BestMean` takes a mean of the weights beside GapSAM. See
`steepen.integrations` for Trainer and Lightning.
"""

from __future__ import annotations

from .._tools.optional import load

load("torch", "steepen.torch", extra="torch")

from ._ascent import AscentOptimizer  # noqa: E402
from ._best_mean import BestMean  # noqa: E402
from ._cgd import CGD, EGR  # noqa: E402
from ._gap_sam import GapSAM  # noqa: E402
from ._report import Report  # noqa: E402
from ._sam import MSAM, SAM  # noqa: E402

__all__ = ["CGD", "EGR", "MSAM", "SAM", "AscentOptimizer", "BestMean", "GapSAM", "Report"]
