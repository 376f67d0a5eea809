"""A quadratic ½Σa(x − m)² whose gradient and norms are exact in float32, and what a ratio makes of it.

So torch and JAX can be held to the same numbers in float32, where a difference else has three digits.
"""

import numpy as np

X, G, A = (np.array(row, np.float32) for row in ((3, 4, 12, 84), (2, 4, 5, 6), (1, 2, 4, 8)))  # ‖X‖ 85, ‖G‖ 9
M = X - G / A


def direction(ratio):
    """Return g + ν(g⁺ − g) with ‖ν(g⁺ − g)‖ = ratio·‖g‖, the difference over a thousandth of ‖x‖."""
    c = np.float32(1e-3) * (np.float32(85) / np.float32(9))
    change = A * (X + c * G - M) - G
    return G + np.float32(ratio * 9) / np.linalg.norm(change) * change
