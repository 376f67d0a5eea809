"""Extreme eigenvalues from products with a matrix, for `theory` and the training benchmarks; uses SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

Which = Literal["largest", "smallest", "magnitude"]


def lanczos(
    product: Callable[[Any], Any], start: Any, *, which: Which = "largest", tol: float, most: int,
    norm: Callable[[Any], float], eps: float,
) -> tuple[float, int, float, bool]:  # fmt: skip
    """Run Lanczos' iteration (1950) from a vector of NumPy or torch, with full reorthogonalisation.

    The start must be random. Return a Rayleigh quotient, the number of products (`most` at most), the norm of
    the residual (an eigenvalue is as near as that), and whether it has converged: the residual is below `tol`
    times the value, or is rounding error by `eps`. `off` holds the off-diagonal of the tridiagonal matrix.

    ARPACK (SciPy's eigsh) wants two dimensions and a matrix that is not zero, on the host; this works from
    one on, for zero, and on a device.
    """
    from scipy.linalg import eigh_tridiagonal  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    basis: list[Any] = [start / norm(start)]
    diagonal: list[float] = []
    off: list[float] = []
    scale = 0.0
    while True:
        w = product(basis[-1])
        scale = max(scale, norm(w))
        diagonal.append(float(w @ basis[-1]))
        for v in basis * 2:  # once is not enough to stay orthogonal in floating point
            w = w - v * (v @ w)
        beta = norm(w)
        values, vectors = cast("tuple[Any, Any]", eigh_tridiagonal(diagonal, off))
        i = {"largest": -1, "smallest": 0, "magnitude": int(abs(values).argmax())}[which]
        value, error = float(values[i]), beta * abs(float(vectors[-1, i]))
        # Once the space is invariant (at k = n, or before) only rounding is left of w. A random
        # start has a part along every eigenvector, so that space holds the wanted one.
        converged = error <= max(tol * abs(value), 8 * eps * scale)
        if converged or len(basis) == min(most, len(start)):
            return value, len(basis), error, converged
        off.append(beta)
        basis.append(w / beta)
