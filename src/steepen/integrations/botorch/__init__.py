"""BoTorch: optimise acquisition functions and fit Gaussian processes with batched, bounded cgd-auto.

Users pass `gen_candidates` to `botorch.optim.optimize_acqf`, `fit` to `botorch.fit.fit_gpytorch_mll` and
`GradientPenalty` to BoTorch's `PenalizedAcquisitionFunction`. Only `fit` changes the model: its parameters.
"""

from __future__ import annotations

from ..._tools.optional import load

load("botorch", "steepen.integrations.botorch", extra="botorch")

from ._candidates import gen_candidates  # noqa: E402
from ._fit import fit  # noqa: E402
from ._penalties import GradientPenalty  # noqa: E402

__all__ = ["GradientPenalty", "fit", "gen_candidates"]
