"""Does an ascent step help on my model? `compare`, for users, trains it with several methods and reports.

Every method gets the same number of gradients: backward passes over a minibatch. For a given seed all have
the same initial weights, minibatches and dropout masks. It writes only the file `out`, if one is given.
"""

from __future__ import annotations

from .._tools.optional import load

load("torch", "steepen.train", extra="train")

from ._compare import compare  # noqa: E402
from .results import Comparison, Mean, Run  # noqa: E402
from .training import METHODS, Method  # noqa: E402

__all__ = ["METHODS", "Comparison", "Mean", "Method", "Run", "compare"]
