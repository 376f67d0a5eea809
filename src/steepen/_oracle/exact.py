"""What an iteration asks of a gradient that was given, or that has fixed intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._core.arrays import Array, Mask, MaybeArray, Scalar, Whole
from .._core.records import RUNNING, Carry
from .._core.result import Status
from .ledger import Cost
from .noise import COST as NOISE_COST

if TYPE_CHECKING:
    from .context import Context

MAX_EVALUATIONS = int(Status.MAX_EVALUATIONS)


class Exact:
    """A gradient that is taken as it comes."""

    stalled = 11
    """A run ends after this many consecutive steps without a measurable decrease."""

    def __init__(self, context: Context, gtol: Any):
        self.context, self.gtol = context, gtol

    def gradient(self, c: Carry, rows: Any, came: MaybeArray) -> tuple[Array, MaybeArray]:
        """Evaluate ∇f at the point in these rows (None: in all), with the error of each component."""
        return self.context.oracle.grad(c.point.x, rows, came), None

    def recheck(self, c: Carry) -> Whole:
        """Where ‖∇f‖ ≤ gtol and a difference is exactly 0, find out whether f is quantised; if so, repeat ∇f.

        Return who cannot afford that.
        """
        kit, oracle, point, code = self.context.kit, self.context.oracle, c.point, RUNNING
        if oracle.fd is None or not oracle.fd.searches_quantum:
            return code
        flat = kit.some((point.g == 0) & ~self.context.space.fixed(point.x))
        flat = flat & (point.gnorm <= self.gtol) & (c.status == RUNNING)
        if kit.any(flat):
            rows = flat & self._affords(NOISE_COST)
            code = kit.pick(kit.without(flat, rows), MAX_EVALUATIONS, RUNNING)
            estimate = oracle.fd.noise.estimate
            if kit.any(rows) and kit.any(rows := estimate(point.x, point.f, rows, self.gtol, flat=True)):
                g, error = oracle.grad_and_error(point.x, self._only(rows))
                point.g = kit.where(rows, g, point.g)
                point.error = None if point.error is None else kit.where(rows, error, point.error)
                point.size = kit.norm(point.g)
                point.gnorm = self.context.space.residual(point.x, point.g, point.size)
        return code

    def _only(self, rows: Mask) -> Any:
        return None if self.context.kit.size is None else rows

    def _affords(self, more: Cost = Cost()) -> Mask:  # noqa: B008  it is immutable
        """Return where the budget covers another gradient, and so many values more."""
        return self.context.affords(self.context.oracle.cost_grad.plus(more))

    def trusts(self, c: Carry) -> Mask:
        """Return where ‖∇f‖ ≤ gtol may be believed."""
        return True

    def rise(self, x: Array) -> Scalar:
        """Return by how much the curvature of f, where it is known, raises it over a move as long as x."""
        return 0.0

    def ends(self, c: Carry) -> Whole:
        """Return the status of rows where the direction predicts no decrease that values would show."""
        return RUNNING

    def improves(self, c: Carry, stuck: Mask) -> tuple[Mask, Whole]:
        """Return which rows, after a search that found nothing, get a better gradient; and who has ended."""
        return False, RUNNING

    def relax(self, c: Carry, calm: Mask) -> None:
        """Go back to a cheaper gradient where one would have done."""
