"""The six experiments of the paper's Table 1: their settings, printed and recovered, and the printed results.

The paper prints the function, n, λ and α. It prints no start point, no r and no matrix for the quadratic.
These were recovered (paper/recover.py in the source tree): they reproduce both printed improvements, but
are not the only values that do.
"""

from __future__ import annotations

from typing import NamedTuple

from . import Function, functions


class Setting(NamedTuple):
    """One experiment; λ rises linearly from its first value to its last.

    `gd` and `cgd_fd` are the printed improvements of the first step, in percent. With `any_r` every r gives
    the same, since differences of gradients are exact on a quadratic.
    """

    function: Function
    lams: tuple[float, float]
    step: float
    start: tuple[float, ...]
    r: float
    gd: float
    cgd_fd: float
    any_r: bool = False


_ROWS = (
    Setting(functions["quadratic"].at(10), (0.4, 0.4), 0.01, (1.0,) * 10, 0.01, 18.89, 97.91, any_r=True),
    Setting(functions["rotated-hyper-ellipsoid"].at(5), (0.5, 0.5), 0.01, (12.0, 5.0, 1.0, 5.0, 12.0), 0.01,
            15.94, 82.76, any_r=True),
    Setting(functions["levy"].at(2), (0.01, 0.1), 0.05, (-9.4186315, -5.2738909), 0.01, 23.73, 63.21),
    Setting(functions["branin"], (0.07, 0.07), 0.01, (-4.751, 12.459), 0.2, 37.53, 87.07),
    Setting(functions["griewank"].at(2), (40.0, 40.0), 0.01, (440.0436, 312.7357), 0.01, 0.01, 0.08),
    Setting(functions["matyas"], (10.0, 10.0), 0.01, (1.4267, 6.8533), 0.01, 1.83, 34.40, any_r=True),
)  # fmt: skip

TABLE_1 = {row.function.name: row for row in _ROWS}
"""The experiments by the name of the function, in the paper's order."""
