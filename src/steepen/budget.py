"""Budgets: hard limits of a run, set by users, never exceeded since the evaluation counter keeps them."""

from __future__ import annotations

from dataclasses import dataclass

from ._tools.check import number, whole


@dataclass(frozen=True)
class Budget:
    """Limits of a run, for each row of a batch; None means no limit.

    A step is taken only if the evaluations it needs fit in the budget, so no limit is ever exceeded.

    Parameters
    ----------
    grads : int, optional
        Gradient evaluations: the paper's T. A penalised CGD-FD step costs two.
    evals : int, optional
        Evaluations of f.
    iters : int, optional
        Iterations.
    seconds : float, optional
        Wall time of the run; checked before every evaluation.

    Examples
    --------
    >>> import steepen as st
    >>> f = st.functions["branin"]
    >>> st.minimize(f, [4.0, 4.0], method="cgd-fd", lam=0.1, step=0.01, budget=st.Budget(grads=7)).njev
    7
    """

    grads: int | None = None
    evals: int | None = None
    iters: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name, least in (("grads", 1), ("evals", 1), ("iters", 0)):
            value = getattr(self, name)
            if value is not None:
                whole(name, value, least)
        if self.seconds is not None:
            number("seconds", self.seconds, "a positive number", above=0)

    @property
    def total(self) -> int | None:
        """The maximum number of iterations, given the limits on gradients and iterations.

        Examples
        --------
        >>> Budget(grads=40, iters=100).total
        40
        """
        known = [limit for limit in (self.grads, self.iters) if limit is not None]
        return min(known) if known else None
