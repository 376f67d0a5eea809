"""Recover the settings that Table 1 leaves out, from the two improvements that it prints.

A row prints the first-step improvements of GD and of CGD-FD: two equations for two unknowns. These are the
start for a function of two variables, and the centre and half-width of an evenly spaced spectrum for the
paper's quadratic. Both are found by Newton's method from all cells of a grid in which both residuals change
sign. In more dimensions all starts of small whole numbers are tried.

A solution is compatible with the paper and need not be the authors' start: Griewank has thousands. Users and
the item `table1` call it; two other items use its root finder and `improvement`. It writes no files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._tools.check import number, rectangle, whole
from ..budget import Budget
from ..functions import Function
from ..theory import penalised_curvature
from ._runs import Floats, minimize

_ROWS = 2**16  # starts per batch: few calls, little memory
_MOST = 10**7  # starts of whole numbers to try
_ITERATIONS = 40


def improvement(
    function: Function, start: ArrayLike, step: float, lam: float = 0.0, r: float | None = None
) -> Any:
    """Return the paper's improvement of the first step, (f₀ − f₁)/f₀ · 100, from starts of shape (..., n).

    With λ = 0 the step is GD's, else CGD-FD's with a second gradient at x + r·∇f, or with the exact H·∇f if
    r is None. The result is NaN where f₀ is zero or a value is not finite.
    """
    x = np.asarray(start, dtype=float)
    if x.shape[-1:] != (function.n,):
        raise ValueError(f"start: expected shape (..., {function.n}), got {x.shape}")
    penalty: dict[str, Any] = {"method": "gd"}
    if lam != 0:
        penalty = {"method": "cgd", "lam": lam} if r is None else {"method": "cgd-fd", "lam": lam, "r": r}
    one_step = Budget(iters=1, grads=2 if penalty["method"] == "cgd-fd" else 1)
    rows = x.reshape(-1, function.n)
    parts: list[Floats] = [np.empty(0)]
    for low in range(0, len(rows), _ROWS):
        batch = rows[low : low + _ROWS]
        run = minimize(function, batch, step=step, budget=one_step, trace=False, **penalty)
        with np.errstate(all="ignore"):  # non-finite values become NaN
            before = np.asarray(function(batch), dtype=float)
            parts.append(100.0 * (before - run.fun) / before)
    percent = np.concatenate(parts).reshape(x.shape[:-1])
    percent[~np.isfinite(percent)] = np.nan
    return percent if percent.ndim else float(percent)


def recover_start(function: Function, lam: float, step: float, r: float | None, gd: float, cgd_fd: float,
                  *, bounds: ArrayLike | None = None, points: int = 201, within: float = 1e-10
                  ) -> Floats:  # fmt: skip
    """Find starts of a function of two variables that give both improvements, in percent, to `within`.

    The bounds, by default the function's, are searched on a grid with `points` per side, which can miss
    starts that are closer together than a cell. The start nearest to the middle comes first. On Matyas both
    improvements depend on the direction of the start alone: use `within=0.005`, agreement in two decimals.
    """
    if function.n != 2:
        raise ValueError(f"function: expected one of two variables, got n = {function.n}")
    box = rectangle("bounds", function.bounds if bounds is None else bounds)

    def residuals(x: Floats) -> Floats:
        pair = (improvement(function, x, step) - gd, improvement(function, x, step, lam, r) - cgd_fd)
        return np.stack(pair, axis=-1)

    return roots_in_the_plane(residuals, box, points, within)


def recover_spectrum(n: int, lam: float, step: float, gd: float, cgd_fd: float) -> Floats:
    """Find the evenly spaced spectra of Q with which ½xᵀQx, from all ones, gives both improvements.

    Return (centre, half-width) of each, for centres up to 2/α and half-widths up to the centre, the narrowest
    first. A step multiplies the coordinate of eigenvalue t by 1 − αt(1 + 2λt), for every r.
    """
    whole("n", n, 2)
    places = np.linspace(-1.0, 1.0, n)

    def residuals(u: Floats) -> Floats:
        t = u[:, :1] * (1.0 + u[:, 1:] * places)

        def percent(penalty: float) -> Floats:
            left = 1.0 - step * np.asarray(penalised_curvature(t, penalty))
            return 100.0 * (1.0 - (t * left * left).sum(axis=-1) / t.sum(axis=-1))

        return np.stack((percent(0.0) - gd, percent(lam) - cgd_fd), axis=-1)

    # the half-width as a share of the centre: then a box contains all positive spectra
    found = roots_in_the_plane(residuals, np.array([(1e-6, 2.0), (0.0, 1.0)]) / [[step], [1.0]])
    spectra = found * np.stack([np.ones(len(found)), found[:, 0]], axis=-1)
    return spectra[np.argsort(spectra[:, 1])]


def recover_whole_start(function: Function, lam: float, step: float, r: float | None, gd: float,
                        cgd_fd: float, *, largest: int = 12, decimals: int = 2) -> Floats:  # fmt: skip
    """Find starts of whole numbers from 0 to `largest` that give both improvements to this many decimals.

    The paper's rotated hyper-ellipsoid has exactly one among the 13⁵ − 1 up to 12.
    """
    n = function.n
    if largest < 1 or (largest + 1) ** n > _MOST:
        raise ValueError(f"largest: expected 1 or more, at most {_MOST} starts in all; got {largest!r}")
    starts = np.indices((largest + 1,) * n).reshape(n, -1).T[1:].astype(float)  # without the zero vector
    for printed, penalty in ((gd, 0.0), (cgd_fd, lam)):
        error = np.abs(improvement(function, starts, step, penalty, r) - printed)
        starts = starts[error <= 0.5 * 10.0**-decimals]
    return starts[np.argsort((starts * starts).sum(axis=-1), kind="stable")]


def roots_in_the_plane(
    residuals: Callable[[Floats], Floats], box: Floats, points: int = 201, within: float = 1e-10
) -> Floats:
    """Find the points of a box in the plane where both residuals vanish, by a grid and Newton's method."""
    whole("points", points, 2)
    number("within", within, "a positive number", above=0)
    share = np.linspace(0.0, 1.0, points)
    places = np.stack(np.meshgrid(share, share, indexing="ij"), axis=-1)
    grid = box[:, 0] + np.diff(box)[:, 0] * places
    values = residuals(grid.reshape(-1, 2)).reshape(grid.shape)
    corners = np.stack([values[:-1, :-1], values[1:, :-1], values[:-1, 1:], values[1:, 1:]])
    crossed = (corners.min(axis=0) <= within) & (corners.max(axis=0) >= -within)
    cells = crossed.all(axis=-1)  # NaN counts as not crossed
    x = (grid[:-1, :-1] + grid[1:, 1:])[cells] / 2
    x = _newton(residuals, x, box, cell=np.diff(box)[:, 0] / (points - 1))
    x = x[((x >= box[:, 0]) & (x <= box[:, 1])).all(axis=-1)]
    x = x[(np.abs(residuals(x)) <= within).all(axis=-1)]
    x = x[np.argsort(np.linalg.norm(x - box.mean(axis=1), axis=-1), kind="stable")]
    # of roots found from several cells, the first
    first = np.unique(np.round((x - box[:, 0]) / (1e-7 * np.diff(box)[:, 0])), axis=0, return_index=True)[1]
    return x[np.sort(first)]


def _newton(residuals: Callable[[Floats], Floats], x: Floats, box: Floats, cell: Floats) -> Floats:
    """Run Newton's method from all points at once, and drop those that leave the box by more than a cell.

    With the pseudo-inverse of the Jacobian, the step is a Gauss–Newton step where it is singular.
    """
    shifts = 1e-6 * np.diff(box)[:, 0] * np.eye(2)
    for _ in range(_ITERATIONS):
        if not len(x):
            break
        near = np.stack([x, *(x + s for s in shifts), *(x - s for s in shifts)])
        value, *rest = residuals(near.reshape(-1, 2)).reshape(near.shape)
        slopes = [(rest[i] - rest[i + 2]) / (2 * shifts[i, i]) for i in range(2)]
        jacobian = np.stack(slopes, axis=-1)
        fine = np.isfinite(jacobian).all(axis=(1, 2)) & np.isfinite(value).all(axis=1)
        x, value, jacobian = x[fine], value[fine], jacobian[fine]
        move = (np.linalg.pinv(jacobian, rcond=1e-7) @ value[..., None])[..., 0]
        # at most two cells, where the linear model is of use
        move /= np.maximum(1.0, np.abs(move / (2 * cell)).max(axis=-1, keepdims=True))
        x = x - move
        x = x[((x >= box[:, 0] - cell) & (x <= box[:, 1] + cell)).all(axis=-1)]
        if (np.abs(move) <= 1e-15 * np.abs(box).max()).all():
            break
    return x
