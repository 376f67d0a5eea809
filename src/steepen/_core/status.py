"""How a run ended: a number, a name and a sentence."""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    """How a run ended; each outcome has one sentence.

    A status is a number, as in SciPy, and prints as its name. The page "How a run ended" of the documentation
    says of each whether x can be used, and what to do next.

    Examples
    --------
    >>> Status.CONVERGED.success, Status.CONVERGED.message
    (True, 'The gradient norm is within gtol.')
    >>> print(Status.CONVERGED, int(Status.CONVERGED))
    CONVERGED 0
    """

    CONVERGED = 0
    FTOL = 1
    XTOL = 2
    ROUNDOFF = 3
    NOISE = 4
    FD_LIMIT = 5
    RELATIVE = 6
    RESOLUTION = 7
    MAX_ITERATIONS = 10
    MAX_GRADIENTS = 11
    MAX_EVALUATIONS = 12
    MAX_SECONDS = 13
    CALLBACK = 20
    INTERRUPTED = 21
    ARTIFICIAL = 22
    INACCURATE_GRADIENT = 23
    LINE_SEARCH_FAILED = 30
    NONFINITE_VALUE = 31
    NONFINITE_GRADIENT = 32
    FAILED = 33
    UNBOUNDED = 34
    DIVERGED = 35
    INFEASIBLE = 36

    @property
    def success(self) -> bool:
        """Whether a tolerance was met, or f is as low as the precision lets it be."""
        return self < Status.MAX_ITERATIONS

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return _SENTENCES[self]

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(int(self) if spec.endswith("d") else self.name, spec)


_SENTENCES = {
    Status.CONVERGED: "The gradient norm is within gtol.",
    Status.FTOL: "The last step lowered f by no more than ftol.",
    Status.XTOL: "The last step moved x by no more than xtol.",
    Status.ROUNDOFF: "f cannot be lowered any more at working precision.",
    Status.NOISE: "f cannot be lowered by more than the noise that its own values show.",
    Status.FD_LIMIT: "f is as low as differences of its values can tell.",
    Status.RESOLUTION: "f cannot be lowered by more than the step between its values: they have few digits.",
    Status.RELATIVE: "The gradient norm is within gtol_rel of the largest one seen.",
    Status.MAX_ITERATIONS: "The budget of iterations is spent.",
    Status.MAX_GRADIENTS: "The budget of gradients does not cover another step.",
    Status.MAX_EVALUATIONS: "The budget of function values does not cover another step.",
    Status.MAX_SECONDS: "The time budget is spent.",
    Status.CALLBACK: "The callback asked to stop.",
    Status.INTERRUPTED: "The run was interrupted from the keyboard.",
    Status.ARTIFICIAL: "x is near an artificial stationary point: the penalised direction vanishes there, "
    "the gradient of f does not. Change lam, or end the penalty (switch).",
    Status.INACCURATE_GRADIENT: "The differences that the gradient is made of are too rough to tell "
    "whether it is within gtol.",
    Status.LINE_SEARCH_FAILED: "The line search found no lower point along the direction. "
    "If the gradient may be wrong, try check_gradient=True.",
    Status.NONFINITE_VALUE: "f was not finite; x is the best finite point seen.",
    Status.NONFINITE_GRADIENT: "The gradient, or its norm, was not finite; x is the best finite point seen.",
    Status.UNBOUNDED: "f falls without bound: it is near the lowest number; x is the best finite point seen.",
    Status.DIVERGED: "The step overflowed: x would not be finite; x is the best finite point seen.",
    Status.INFEASIBLE: "The bounds leave no point: low is above high.",
    Status.FAILED: "A function of yours raised an error; this is the run up to there.",
}

BY_VALUES = (
    "The line search found no lower point along the direction. Without a gradient that means a kink of f, "
    "noise, or few digits; x is the best point found, and may not be a minimum."
)
"""The sentence of LINE_SEARCH_FAILED without a gradient."""
