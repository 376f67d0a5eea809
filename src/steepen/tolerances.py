"""When a run has converged, and below which value f is taken to have no minimum."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

BOTTOM = -1e-8
"""f counts as unbounded below this multiple of the largest number of its dtype."""


@dataclass(frozen=True)
class Tolerances:
    """The tolerances of a run; 0 is off."""

    g: float
    f: float = 0.0
    x: float = 0.0
    bottom: float = -inf
    rel: float = 0.0
    assumed: bool = False
    """Whether g is the default, which means little where f is small."""
