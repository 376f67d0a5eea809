"""Does an ascent step help on my model? `compare` trains it with several methods and reports.

Every method gets the same number of gradients: backward passes over a minibatch. For a given seed all have
the same initial weights, minibatches and dropout masks.
"""

from __future__ import annotations

from .._tools.optional import load

load("torch", "steepen.train", extra="train")

from ._compare import compare  # noqa: E402
from .results import Comparison, Mean, Run  # noqa: E402
from .training import METHODS, Method  # noqa: E402

__all__ = ["METHODS", "Comparison", "Mean", "Method", "Run", "compare"]
