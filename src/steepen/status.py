"""How a run ended: a code, a name and a message. Set by drivers and gradients, read by users; only data."""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    """How a run ended, with a message for each outcome.

    A status is an integer, as in SciPy, and prints as its name. Its message says what happened, and names its
    advice: whether x can be used, and what to do next. The page "How a run ended" has the advice of all.

    Examples
    --------
    >>> Status.XTOL.success, Status.XTOL.message
    (True, 'The last step moved x by no more than xtol. (See steepen.Status.XTOL.advice.)')
    >>> print(Status.XTOL, int(Status.XTOL))
    XTOL 2
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
    def advice(self) -> str:
        """What happened, whether x can be used, and what to do next.

        Examples
        --------
        >>> Status.MAX_SECONDS.advice
        'The time limit was reached. As after MAX_ITERATIONS, with `st.Budget(seconds=...)`.'
        """
        return _ADVICE[self.name]

    @property
    def message(self) -> str:
        """What happened, in one sentence, and where the advice is."""
        return self.explained(self.sentence)

    def explained(self, sentence: str) -> str:
        """Return the sentence, followed by where the advice on this status is.

        Examples
        --------
        >>> Status.NOISE.explained("f is noisy.")
        'f is noisy. (See steepen.Status.NOISE.advice.)'
        """
        return f"{sentence} (See steepen.Status.{self.name}.advice.)"

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(int(self) if spec.endswith("d") else self.name, spec)


BY_VALUES = (
    "The line search found no lower point along the direction. Without a gradient that means a kink of f, "
    "noise, or few digits; x is the best point found, and may not be a minimum."
)
"""The sentence of LINE_SEARCH_FAILED for a run without a gradient."""

_ADVICE = {
    "CONVERGED": (
        "The gradient norm is within `gtol`. Use x. It is a stationary point to that accuracy, usually a "
        "local minimum. For another minimum, use another start."
    ),
    "RELATIVE": (
        "The gradient norm is within `gtol_rel` times the largest one of the run. Use x, if you trust the "
        "tolerance that you set."
    ),
    "FTOL": (
        "The last step lowered f by no more than `ftol`, which is off unless you set it. Use x with care: "
        "on the floor of a curved valley, steps are small far from the minimum. If `res.jac` is not small, "
        "lower `ftol`, or leave it off."
    ),
    "XTOL": (
        "The last step moved x by no more than `xtol`, which is off unless you set it. Use x with care, as "
        "after FTOL."
    ),
    "ROUNDOFF": (
        "Rounding errors hide any further decrease of f. Use x: it is as good as the dtype allows, though "
        "the gradient norm is above `gtol`. For more digits use float64, give an exact gradient, or scale "
        'the variables (`x_scale`). Finite differences over fixed intervals (`"3-point"`, chosen '
        "intervals, or a method other than cgd-auto) end as LINE_SEARCH_FAILED there."
    ),
    "NOISE": (
        "The values of f are noisy, and the predicted decrease is below the noise. Use x. For more digits "
        "make f less noisy: tighten the tolerance of the simulation in it, or fix its random seed."
    ),
    "RESOLUTION": (
        "The values of f are quantised (rounded, float32, a simulation with a tolerance), and no lower "
        "value can be distinguished. Use x. For more digits compute f in float64, or give a gradient."
    ),
    "FD_LIMIT": (
        "The gradient comes from finite differences, and their error hides what is left to gain. Use x. "
        'For more digits give a gradient: `jac=` your own, `"jax"`, `"torch"` or `"cs"`.'
    ),
    "MAX_ITERATIONS": (
        "The budget of iterations is used up. x may be far from a minimum, though it is often close: look "
        "at `res.jac`. Continue from `res.x`, or with a larger `budget=st.Budget(iters=...)`; with "
        "`checkpoint=` the run resumes bit for bit. If the message names `x_scale`, the variables are of "
        'very different sizes: try `x_scale="auto"` first.'
    ),
    "MAX_GRADIENTS": (
        "The budget of gradients does not cover another step. As after MAX_ITERATIONS, with "
        "`st.Budget(grads=...)`; but where no gradient was left for x itself, `res.jac` is NaN. "
        "`res.trace.gnorm[-2]` is the last known norm, that of the point before."
    ),
    "MAX_EVALUATIONS": (
        "The budget of function evaluations does not cover another step. As after MAX_ITERATIONS, with "
        "`st.Budget(evals=...)`. Without a gradient, each difference gradient takes n evaluations or more."
    ),
    "MAX_SECONDS": ("The time limit was reached. As after MAX_ITERATIONS, with `st.Budget(seconds=...)`."),
    "CALLBACK": (
        "Your callback returned True or raised StopIteration. x is the iterate that it received; you "
        "decide whether it can be used. ∇f is evaluated after the callback, so `res.jac` is NaN."
    ),
    "INTERRUPTED": ("Ctrl-C. x is the last iterate, as if a budget had been used up."),
    "WAITING": (
        "The run is told its values, and has not ended. x is the last iterate, and `res.best` the lowest "
        "one; whether they can be used is for you to decide. Go on with `run.ask()`."
    ),
    "WORKERS": (
        "A worker of the executor in `workers` died, or the executor was shut down; the log says which. x "
        "is the last iterate, as if a budget had been used up. A run with `checkpoint` goes on from there "
        "with a new executor."
    ),
    "ARTIFICIAL": (
        "The penalised direction vanishes at x, and the gradient of f does not: x is near an artificial "
        "point (Lemma 1 of the paper). Do not use x as a minimum. Change `lam`, for example to "
        "`schedules.Perturbed(lam)`, end the penalty (`switch=`, `b=`), or use the default method."
    ),
    "INACCURATE_GRADIENT": (
        "The gradient comes from differences of values with few digits. It looks small, but its error "
        "exceeds `gtol`. x may be a minimum; the message says how large the error is. Give a gradient, "
        "compute f with more digits, or accept a larger `gtol`."
    ),
    "LINE_SEARCH_FAILED": (
        "The line search found no lower point along a descent direction. The gradient is wrong, f has a "
        "kink or a jump, or it is noisier than was recognised. x is the best point found and may not be a "
        "minimum. Run again with `check_gradient=True`; for kinks and strong noise use a derivative-free "
        "method."
    ),
    "NONFINITE_VALUE": (
        "f was NaN or infinite, at the start or along the run. x is the best finite point seen, if there "
        "was one. Set `bounds` to where f is defined, or check f at `res.x`."
    ),
    "NONFINITE_GRADIENT": (
        "The gradient, or its norm, was NaN or infinite. x is the best finite point seen. Check `jac` "
        "there: a square root of 0 or a logarithm of 0 is the usual cause."
    ),
    "UNBOUNDED": (
        "f fell to −∞ or near the lowest number of its dtype. There is no minimum to use. Set bounds, or "
        "look for a sign error."
    ),
    "DIVERGED": (
        "The next x would have overflowed. x is the best finite point seen, rarely a minimum. A fixed step "
        "size is too long: shorten it, or leave `step` to its default."
    ),
    "INFEASIBLE": (
        "The bounds given to a compiled program are infeasible: a lower bound is above its upper bound. x "
        "is of no use. Correct the bounds. (Outside of compiled programs such bounds raise an error.)"
    ),
    "FAILED": (
        "Your function raised an error. The exception reaches you, with the run so far in its "
        "`partial_result`. Its x is the last iterate, as if a budget had been used up."
    ),
}
"""What docs/status.md says of each status; a test compares them."""
