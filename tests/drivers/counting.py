"""A problem that counts its own calls, and the ways in which its gradient is given."""

from collections import Counter

import numpy as np

from ..objectives import Array, Problem, eye_like


def tagged(problem):
    """Add a last variable that stays where it is, at a whole number: the tag of a row."""

    def off(x: Array):
        return x[..., -1] - np.round(x[..., -1])

    def fun(x: Array):
        return problem.fun(x[..., :-1]) + off(x) * off(x) / 2

    def grad(x: Array):
        return np.concatenate([problem.grad(x[..., :-1]), off(x)[..., None]], axis=-1)

    def hess(x: Array):
        H = eye_like(x)
        H[..., :-1, :-1] = problem.hess(x[..., :-1])
        return H

    start = (*problem.start, 0.0)
    return Problem(f"tagged_{problem.name}", fun, grad, hess, start, problem.step, problem.exact)


class Counting:
    """A problem that notes its every call: of which function, for which row, at which point.

    Rows are told apart by the tag of a `tagged` problem; all others count as row 0.
    """

    def __init__(self, problem):
        self.problem = problem
        self._tagged = problem.name.startswith("tagged")
        self.calls: dict[str, list[tuple[int, bytes]]] = {"fun": [], "grad": [], "hvp": [], "hess": []}

    def _note(self, name, x: Array, *more: Array):
        for parts in zip(*(np.atleast_2d(a) for a in (x, *more)), strict=True):
            tag = round(float(parts[0][-1].real)) if self._tagged else 0
            self.calls[name].append((tag, b"".join(part.tobytes() for part in parts)))

    def fun(self, x: Array):
        self._note("fun", x)
        return self.problem.fun(x)

    def grad(self, x: Array):
        self._note("grad", x)
        return self.problem.grad(x)

    def both(self, x: Array):
        return self.fun(x), self.grad(x)

    def hvp(self, x: Array, v: Array):
        self._note("hvp", x, v)
        return self.problem.hvp(x, v)

    def hess(self, x: Array):
        self._note("hess", x)
        return self.problem.hess(x)

    def count(self, name):
        return len(self.calls[name])

    def of_rows(self, name, rows):
        counts = Counter(tag for tag, _ in self.calls[name])
        return [counts[row] for row in range(rows)]

    def repeated(self):
        return {name: len(calls) - len(set(calls)) for name, calls in self.calls.items()}


OF_VALUES = ("2-point", "3-point", "cs")
SOURCES = ("callable", "both", *OF_VALUES, "object")


def from_source(counting, source):
    """Give the function and the `jac` argument of a source of gradients."""
    if source == "callable":
        return counting.fun, {"jac": counting.grad}
    if source == "both":
        return counting.both, {"jac": True}
    if source == "object":
        # a callable that brings its own derivatives, as `steepen.functions` do
        own = {name: staticmethod(getattr(counting, name)) for name in ("grad", "hvp", "hess")}
        return type("Own", (), own | {"__call__": lambda self, x: counting.fun(x)})(), {}
    return counting.fun, {"jac": source}
