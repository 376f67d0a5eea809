"""Step sizes α_k along a direction.

A number, a schedule or a callable of k is a step by itself; the paper's formulas are `theory.safe_step` and
`theory.quadratic_step`. `Armijo` adapts to f along p.
"""

from .armijo import Armijo
from .step import Fixed, Found, Step

__all__ = ["Armijo", "Fixed", "Found", "Step"]


def __getattr__(name: str) -> object:
    hint = "; a step has `along`, which returns a Found (docs/own.md)" if name in {"Along", "Chosen"} else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
