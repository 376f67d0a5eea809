"""Step sizes α_k along a direction: users choose one, the drivers call it in every iteration.

A number, a schedule or a callable of k is a step by itself; the paper's formulas are `theory.safe_step` and
`theory.quadratic_step`. `Armijo` adapts to f along p.
"""

from ._armijo import Armijo
from ._step import Along, Chosen, Fixed, Step

__all__ = ["Along", "Armijo", "Chosen", "Fixed", "Step"]
