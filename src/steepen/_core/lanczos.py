"""An extreme eigenvalue of a symmetric matrix that is known by its products alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, cast

Which = Literal["largest", "smallest", "magnitude"]


class Eigenvalue(NamedTuple):
    """A Rayleigh quotient, the products it took, and its residual norm: an eigenvalue is as near as that."""

    value: float
    products: int
    error: float
    converged: bool


def lanczos(
    product: Callable[[Any], Any],
    start: Any,
    *,
    which: Which = "largest",
    tol: float,
    most: int,
    norm: Callable[[Any], float],
    eps: float,
) -> Eigenvalue:
    """Run Lanczos' iteration (1950) from a vector of NumPy or torch, with full reorthogonalisation.

    ARPACK (SciPy's eigsh) wants two dimensions and a matrix that is not zero, on the host; this works from
    one on, for zero, and on a device. It stops when the residual is below `tol` times the value, or is
    rounding error by `eps`.
    """
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
        value, weight = _extreme_pair(diagonal, off, which)
        error = beta * abs(weight)
        # Once the space is invariant (at k = n, or before) only rounding is left of w. A random
        # start has a part along every eigenvector, so that space holds the wanted one.
        converged = error <= max(tol * abs(value), 8 * eps * scale)
        if converged or len(basis) == min(most, len(start)):
            return Eigenvalue(value, len(basis), error, converged)
        off.append(beta)
        basis.append(w / beta)


def _extreme_pair(diagonal: list[float], off: list[float], which: Which) -> tuple[float, float]:
    """Wanted eigenvalue of the tridiagonal matrix, and the last entry of its eigenvector."""
    from scipy.linalg import eigh_tridiagonal  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]

    last = len(diagonal) - 1
    pairs: list[tuple[float, float]] = []
    for i in {"largest": [last], "smallest": [0], "magnitude": [0, last]}[which]:
        values, vectors = cast(
            "tuple[Any, Any]", eigh_tridiagonal(diagonal, off, select="i", select_range=(i, i))
        )
        pairs.append((float(values[0]), float(vectors[-1, 0])))
    return max(pairs, key=lambda pair: abs(pair[0]))
