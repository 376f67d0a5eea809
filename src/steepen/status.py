"""How a run ended: a code, a name and a message. Set by drivers and gradients, read by users; only data."""

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

    CONVERGED = 0, "The gradient norm is within gtol."
    FTOL = 1, "The last step lowered f by no more than ftol."
    XTOL = 2, "The last step moved x by no more than xtol."
    ROUNDOFF = 3, "f cannot be lowered any further at working precision."
    NOISE = 4, "f cannot be lowered by more than its own noise."
    FD_LIMIT = 5, "f cannot be lowered by more than the error of its finite differences."
    RELATIVE = 6, "The gradient norm is within gtol_rel times the largest one seen."
    RESOLUTION = 7, "f cannot be lowered by more than the step between its values, which have few digits."
    MAX_ITERATIONS = 10, "The budget of iterations is used up."
    MAX_GRADIENTS = 11, "The budget of gradients does not cover another step."
    MAX_EVALUATIONS = 12, "The budget of function evaluations does not cover another step."
    MAX_SECONDS = 13, "The time limit was reached."
    CALLBACK = 20, "The callback asked to stop."
    INTERRUPTED = 21, "The run was interrupted from the keyboard."
    ARTIFICIAL = (
        22,
        "x is near an artificial stationary point: the penalised direction vanishes there, "
        "the gradient of f does not. Change lam, or end the penalty (switch=).",
    )
    INACCURATE_GRADIENT = 23, "Finite differences are too inaccurate to tell whether ‖∇f‖ is within gtol."
    WAITING = 24, "The run waits for answers; this is the run so far."
    WORKERS = 25, "A worker died, or the executor was shut down; this is the run so far."
    LINE_SEARCH_FAILED = (
        30,
        "The line search found no lower point along the direction. "
        "If the gradient may be wrong, try check_gradient=True.",
    )
    NONFINITE_VALUE = 31, "f was not finite; x is the best finite point seen."
    NONFINITE_GRADIENT = 32, "The gradient, or its norm, was not finite; x is the best finite point seen."
    FAILED = 33, "Your function raised an error; this is the run so far."
    UNBOUNDED = 34, "f is unbounded: it nearly overflowed to −∞; x is the best finite point seen."
    DIVERGED = 35, "The next x would have overflowed; x is the best finite point seen."
    INFEASIBLE = 36, "The bounds are infeasible: a lower bound is above its upper bound."

    sentence: str
    """What happened, in one sentence."""

    def __new__(cls, code: int, sentence: str) -> Status:
        status = int.__new__(cls, code)
        status._value_, status.sentence = code, sentence
        return status

    @property
    def success(self) -> bool:
        """Whether a tolerance was met, or f is as low as its precision allows."""
        return self < Status.MAX_ITERATIONS

    @property
    def message(self) -> str:
        """What happened, in one sentence, with a reference to the documentation."""
        return self.explained(self.sentence)

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


BY_VALUES = (
    "The line search found no lower point along the direction. Without a gradient that means a kink of f, "
    "noise, or few digits; x is the best point found, and may not be a minimum."
)
"""The sentence of LINE_SEARCH_FAILED for a run without a gradient."""
