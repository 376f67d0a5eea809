"""The base of all methods: a direction from a point, and a memory in the method's own fields."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ..questions import Point, Vector
from ..switches import Never, Switch

if TYPE_CHECKING:
    from ..problem import Problem


class Proposal(NamedTuple):
    """A direction p, and the λ that made it; a `trusted` p is used without the test ∇fᵀp < 0.

    Examples
    --------
    >>> Proposal([0.0, 1.0]).lam
    0.0
    """

    p: Vector
    lam: float = 0.0
    trusted: bool = False


class Method:
    """Base of all methods. One of your own is a class with `direction`, and `learn` if it has a memory.

    A run works on a copy of the method, made by `prepare`, so an object can be used for many runs. What it
    keeps in its fields (numbers, texts, arrays, and tuples, lists, dicts or objects of them) is saved in
    checkpoints. The guard checks every direction: unless ∇fᵀp < 0, the run uses −∇f instead.

    `direction` is a plain function, or if it has to ask for evaluations itself, a generator function; so is
    `restart`.

    Examples
    --------
    >>> import numpy as np, steepen as st
    >>> class Signs(st.Method):
    ...     def direction(self, problem, here):
    ...         return -np.sign(here.g)
    >>> st.minimize(lambda x: x @ x, [1.0, -2.0], method=Signs(), jac=lambda x: 2 * x, step=0.5).nit
    4
    """

    name: str = "custom"
    """What a result calls it."""
    penalised: bool = False
    """Whether the direction uses a penalty, which a switch can turn off."""
    unit: bool = False
    """Whether α = 1 is the natural step, as for Newton's method. It chooses the default step: `step_of`."""
    guard: bool = True
    """Whether −∇f replaces a direction that does not descend f."""

    steepest = False  # the direction is −∇f, the fallback of every run
    verifies = False  # ‖∇f‖ ≤ gtol is verified where x is so large that it may be meaningless
    probes = False  # the default line search probes the curvature along p if a run's first trial fails
    by_values = False  # finite differences may adapt to the noise and curvature of f
    escapes_saddles = False  # it can leave a start where ∇f vanishes
    inverts = False  # it approximates the inverse Hessian, by `inverse`

    def prepare(self, total: int | None = None, row: int | None = None, rows: int | None = None) -> Self:
        """Return a copy of this method, for a run of `total` iterations or for one row of a batch."""
        return copy.deepcopy(self)

    def switch(self, total: int | None) -> Switch:
        """Return the method's default switch."""
        return Never()

    def source(self, problem: Problem) -> str | None:
        """Return where H·v comes from; None if the method needs none."""
        return None

    def begin(self, problem: Problem, here: Point) -> None:
        """Set the memory up; `here` is the start, with ∇f. On resumption, what was saved is put over it."""

    def learn(self, problem: Problem, before: Point, here: Point) -> None:
        """Take note of a step from one iterate to the next."""

    def revise(self, here: Point) -> None:
        """Take note of a more accurate gradient at the last iterate."""

    def direction(self, problem: Problem, here: Point) -> Any:
        """Return the direction p at a point: a vector, or a `Proposal`.

        With bounds, the run removes the components that would leave the box. A method that needs evaluations
        asks for them: `g = yield from problem.gradient(x)`.
        """
        raise NotImplementedError

    def restart(self, problem: Problem, here: Point) -> Any:
        """After a failed line search: return whether there is another direction to try from here."""
        return False

    def amounts(self, alpha: float, lam: float) -> tuple[float, float]:
        """Return the α_k and λ_k to record in the trace for the step α along the last direction."""
        return alpha, lam

    def escape_saddle(self, problem: Problem, here: Point) -> Any:
        """At a start where ∇f vanishes: return whether there is a direction along which f decreases."""
        return False

    def inverse(self, x: Vector, g: Vector) -> Callable[[Vector], Vector]:
        """Return v ↦ G·v, G the approximate inverse Hessian at x, where ∇f is g."""
        raise NotImplementedError
