"""A gradient that is taken as it comes, given or by autodiff; the base of gradients that are made of values.

A run asks these questions of its gradient: how far it may be wrong, whether a small one can be believed, and
what else to do where a search fails. Answers for a given gradient are short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..questions import Asking, Gradient, Point, Vector
from ..status import Status

if TYPE_CHECKING:
    from ..run import Run


class Gradients:
    """Gradients that are exact at the run's precision."""

    given = True
    """Whether ∇f is one question, and all of the below as it stands here."""
    stall_limit = 11
    """A run ends after this many consecutive steps without a measurable decrease."""
    cheap = True
    """Whether a search may ask for a gradient where a value leaves a doubt."""
    exact = True
    """Whether rounding is all that is wrong with a gradient."""
    coarse = False
    """Whether an end by the norm of the gradient must be confirmed by its `error`."""
    cost = 0
    """How many values of f a gradient takes, beyond the one where it is."""
    curvature: Any = None
    """|f″| along each variable where it is known, NaN where it is not; None: nowhere."""

    def __init__(self, eps: float):
        self.eps = eps

    @property
    def gradient_eps(self) -> float:
        """The relative error of a gradient."""
        return self.eps

    def eps_f(self, f: float) -> float:
        """Return by how much a value of f may be wrong, as far as it was measured."""
        return 0.0

    def gradient(self, x: Vector, f: float | None = None) -> Asking[tuple[Vector, Vector]]:
        """Ask for ∇f at any point, where f may be known; return it with the error of each component."""
        return (yield Gradient(x)), None

    def error(self, x: Vector, f: float, g: Vector, noise: float) -> Asking[Vector]:
        """Measure the error of each component of a gradient g at x."""
        return 0.0 * g
        yield

    def foreseen(self, run: Run, x: Vector) -> list[Vector]:
        """Return where ∇f at x will need f, if x is the next iterate, as far as that can be foreseen."""
        return []

    def set_curvature(self, curvature: Vector) -> None:
        """Take |f″| along each variable from a method that has learnt it."""

    def reported(self, g: Vector) -> Vector:
        """Return ∇f as the result shows it."""
        return g

    def sentence(self, status: Status) -> str:
        """Return what a status means where gradients come from here."""
        return status.sentence

    # --- asked by a run, about the point where it is ---------------------------------------------------

    def arrive(self, run: Run) -> Asking[tuple[Vector, Vector, bool]]:
        """Ask for ∇f at a new iterate; return it, its errors, and whether it became more accurate."""
        return (yield Gradient(run.here.x)), None, False

    def recheck(self, run: Run) -> Asking[tuple[Vector, Vector] | None]:
        """Look again at a gradient within gtol that may vanish by the digits of f; return a new one."""
        return None
        yield

    def trusts(self, run: Run) -> bool:
        """Return whether ‖∇f‖ ≤ gtol may be believed."""
        return True

    def rise(self, x: Vector) -> float:
        """Return by how much the curvature of f, where it is known, raises it over a move as long as x."""
        return 0.0

    def ends(self, run: Run) -> Asking[Status | Point | None]:
        """Return how a run ends whose direction predicts no decrease that values show; or a lower point."""
        return None
        yield

    def improves(self, run: Run, stalled: bool) -> Asking[tuple[bool, Status | Point | None]]:
        """After a failed search: say whether there is a better gradient, and how it ends or goes on."""
        return False, None
        yield

    def relax(self, run: Run) -> None:
        """Go back to a cheaper gradient where one would have done."""
