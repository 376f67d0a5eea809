"""The settings of the six experiments of the paper's Table 1: those printed, and those recovered.

The paper prints the function, n, λ and α. It prints no start point, no r and no matrix for the quadratic.
These were recovered (paper/recover.py in the source tree): they reproduce both printed improvements, but
are not the only values that do.
"""

from __future__ import annotations

from typing import NamedTuple

from . import Function, functions


class Setting(NamedTuple):
    """The settings of one experiment; λ goes from the first value to the last."""

    function: Function
    lam: tuple[float, float]
    step: float
    start: tuple[float, ...]
    r: float


TABLE_1 = {
    "quadratic": Setting(functions["quadratic"].at(n=10), (0.4, 0.4), 0.01, (1.0,) * 10, 0.01),
    "rotated-hyper-ellipsoid": Setting(
        functions["rotated-hyper-ellipsoid"].at(n=5), (0.5, 0.5), 0.01, (12.0, 5.0, 1.0, 5.0, 12.0), 0.01
    ),
    "levy": Setting(functions["levy"].at(n=2), (0.01, 0.1), 0.05, (-9.4186315, -5.2738909), 0.01),
    "branin": Setting(functions["branin"], (0.07, 0.07), 0.01, (-4.751, 12.459), 0.2),
    "griewank": Setting(functions["griewank"].at(n=2), (40.0, 40.0), 0.01, (440.0436, 312.7357), 0.01),
    "matyas": Setting(functions["matyas"], (10.0, 10.0), 0.01, (1.4267, 6.8533), 0.01),
}
"""The experiments by the name of the function, in the paper's order."""
