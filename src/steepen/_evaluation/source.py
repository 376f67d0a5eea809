"""A given or autodiff ∇f, base of differences: how far it may be wrong, and what to do; for the drivers."""

from __future__ import annotations

from typing import Any

from .._core.arrays import Array, Mask, MaybeArray, Scalar, Whole
from .._core.state import RUNNING, SolverState
from .._core.status import Status
from .calls import UserCalls
from .counter import Cost


class GivenGradient:
    """A gradient that is taken as it comes, exact at the run's precision: given, or by autodiff."""

    stall_limit = 11  # a run ends after this many consecutive steps without a measurable decrease
    cheap = True  # whether a search may ask for a gradient where a value leaves a doubt
    exact: Any = True  # whether rounding is all that is wrong with a gradient
    coarse: Any = False  # whether an end by the norm of the gradient must be confirmed by its `error`
    curvature: Any = None  # |f″| along each variable where it is known, NaN where it is not; None: nowhere
    cost_error: Any = Cost()  # what `error` costs

    def __init__(self, evaluator: UserCalls, gtol: Any):
        self.evaluator, self.gtol = evaluator, gtol
        self.backend, self.space = evaluator.backend, evaluator.space

    @property
    def gradient_eps(self) -> Scalar:
        """The relative error of a gradient."""
        return self.evaluator.eps

    def eps_f(self, f: Scalar) -> Scalar:
        """Return by how much a value of f may be wrong, as far as it was measured."""
        return 0.0

    def error(self, x: Array, f: Scalar, g: Array, noise: Scalar, rows: Mask) -> Array:
        """Measure the error of each component of a gradient g at x, for these rows."""
        return 0.0 * g

    def set_curvature(self, curvature: Array, rows: Mask) -> None:
        """Take |f″| along each variable from a method that has learnt it."""

    def reported(self, g: Array) -> Array:
        """Return ∇f as the result shows it."""
        return g

    def sentence(self, status: Status) -> str:
        """Return what a status means where gradients come from here."""
        return status.sentence

    # --- asked by an iteration -----------------------------------------------------------------------

    def gradient(self, c: SolverState, rows: Any, cached: MaybeArray) -> tuple[Array, MaybeArray]:
        """Evaluate ∇f at the point in these rows (None: in all), with the error of each component."""
        return self.evaluator.grad(c.point.x, rows, cached), None

    def recheck(self, c: SolverState) -> Whole:
        """Look again at gradients that vanish by the digits of f; return the rows that cannot afford it."""
        return RUNNING

    def trusts(self, c: SolverState) -> Mask:
        """Return where ‖∇f‖ ≤ gtol may be believed."""
        return True

    def rise(self, x: Array) -> Scalar:
        """Return by how much the curvature of f, where it is known, raises it over a move as long as x."""
        return 0.0

    def ends(self, c: SolverState) -> Whole:
        """Return the status of rows where the direction predicts no decrease that values would show."""
        return RUNNING

    def improves(self, c: SolverState, stuck: Mask) -> tuple[Mask, Whole]:
        """Return which rows get a better gradient after a failed search, and which have ended."""
        return False, RUNNING

    def relax(self, c: SolverState, calm: Mask) -> None:
        """Go back to a cheaper gradient where one would have done."""
