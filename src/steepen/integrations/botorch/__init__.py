"""BoTorch: optimise acquisition functions and fit Gaussian processes with batched, bounded cgd-auto.

`gen_candidates` goes into `botorch.optim.optimize_acqf(gen_candidates=…)`, `fit` into
`botorch.fit.fit_gpytorch_mll(optimizer=…)`, and `GradientPenalty` into BoTorch's
own `PenalizedAcquisitionFunction`.
"""

from __future__ import annotations

from ..._tools.optional import load

load("botorch", "steepen.integrations.botorch", extra="botorch")

from ._candidates import gen_candidates  # noqa: E402
from ._fit import fit  # noqa: E402
from ._penalties import GradientPenalty  # noqa: E402

__all__ = ["GradientPenalty", "fit", "gen_candidates"]
