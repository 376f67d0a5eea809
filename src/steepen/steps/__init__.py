"""Step sizes α_k along a direction.

A number, a schedule or a callable of k is a step by itself; the paper's formulas are `theory.safe_step` and
`theory.quadratic_step`. `Armijo` adapts to f along p.
"""

from .armijo import Armijo
from .step import Fixed, Found, Step

__all__ = ["Armijo", "Fixed", "Found", "Step"]
