"""Does an ascent step help on my model? `compare` trains it with several methods and reports.

A gradient is one backward pass over one minibatch. Every method gets the same number of them; one that needs
two per step takes half the steps, and its learning rate decays to zero over its own steps. For a given seed,
all methods have the same initial weights, the same minibatches and the same dropout masks.
"""

from __future__ import annotations

from .._tools.optional import load

load("torch", "steepen.train", extra="train")

from ._compare import compare  # noqa: E402
from .results import Comparison, Mean, Run  # noqa: E402
from .training import METHODS, Method  # noqa: E402

__all__ = ["METHODS", "Comparison", "Mean", "Method", "Run", "compare"]
