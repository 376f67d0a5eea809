"""Step sizes α_k along a direction.

A number, a schedule or a callable of k is a step by itself. `safe` and `quadratic_optimal` are the paper's
formulas and return a number (or a schedule if λ is one); `Quadratic` and `Armijo` adapt to f along p.
"""

from ._armijo import Armijo
from ._formulas import quadratic_optimal, safe
from ._step import Along, Chosen, Fixed, Quadratic, Step

__all__ = ["Along", "Armijo", "Chosen", "Fixed", "Quadratic", "Step", "quadratic_optimal", "safe"]
