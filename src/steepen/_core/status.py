"""How a run ended: a code, a name and a message."""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    """How a run ended, with a message for each outcome.

    A status is an integer, as in SciPy, and prints as its name. Its message ends with the section of the page
    "How a run ended" that says whether x can be used, and what to do next.

    Examples
    --------
    >>> Status.CONVERGED.success, Status.CONVERGED.message
    (True, 'The gradient norm is within gtol. (docs: status.html#converged)')
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
        """Whether a tolerance was met, or f is as low as its precision allows."""
        return self < Status.MAX_ITERATIONS

    @property
    def message(self) -> str:
        """What happened, in one sentence, with a reference to the documentation."""
        return self.explained(self.sentence)

    @property
    def sentence(self) -> str:
        """What happened, in one sentence."""
        return _SENTENCES[self]

    def explained(self, sentence: str) -> str:
        """Return the sentence with a reference to the documentation of this status appended.

        Examples
        --------
        >>> Status.NOISE.explained("f is noisy.")
        'f is noisy. (docs: status.html#noise)'
        """
        return f"{sentence} (docs: status.html#{self.name.lower().replace('_', '-')})"

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(int(self) if spec.endswith("d") else self.name, spec)


_SENTENCES = {
    Status.CONVERGED: "The gradient norm is within gtol.",
    Status.FTOL: "The last step lowered f by no more than ftol.",
    Status.XTOL: "The last step moved x by no more than xtol.",
    Status.ROUNDOFF: "f cannot be lowered any further at working precision.",
    Status.NOISE: "f cannot be lowered by more than its own noise.",
    Status.FD_LIMIT: "f cannot be lowered by more than the error of its finite differences.",
    Status.RESOLUTION: "f cannot be lowered by more than the step between its values, which have few digits.",
    Status.RELATIVE: "The gradient norm is within gtol_rel times the largest one seen.",
    Status.MAX_ITERATIONS: "The budget of iterations is used up.",
    Status.MAX_GRADIENTS: "The budget of gradients does not cover another step.",
    Status.MAX_EVALUATIONS: "The budget of function evaluations does not cover another step.",
    Status.MAX_SECONDS: "The time limit was reached.",
    Status.CALLBACK: "The callback asked to stop.",
    Status.INTERRUPTED: "The run was interrupted from the keyboard.",
    Status.ARTIFICIAL: "x is near an artificial stationary point: the penalised direction vanishes there, "
    "the gradient of f does not. Change lam, or end the penalty (switch=).",
    Status.INACCURATE_GRADIENT: "The finite differences are too inaccurate to tell "
    "whether the gradient is within gtol.",
    Status.LINE_SEARCH_FAILED: "The line search found no lower point along the direction. "
    "If the gradient may be wrong, try check_gradient=True.",
    Status.NONFINITE_VALUE: "f was not finite; x is the best finite point seen.",
    Status.NONFINITE_GRADIENT: "The gradient, or its norm, was not finite; x is the best finite point seen.",
    Status.UNBOUNDED: "f is unbounded: it nearly overflowed to −∞; x is the best finite point seen.",
    Status.DIVERGED: "The next x would have overflowed; x is the best finite point seen.",
    Status.INFEASIBLE: "The bounds are infeasible: a lower bound is above its upper bound.",
    Status.FAILED: "Your function raised an error; this is the run so far.",
}

BY_VALUES = (
    "The line search found no lower point along the direction. Without a gradient that means a kink of f, "
    "noise, or few digits; x is the best point found, and may not be a minimum."
)
"""The sentence of LINE_SEARCH_FAILED for a run without a gradient."""
