"""Evaluations that optimisers need on `benchmarks.problems`: ours, SciPy's, NLopt's.

One evaluation is f and ∇f at one point. A problem counts as solved to an accuracy τ at the first evaluation
with (f − f*)/(f0 − f*) ≤ τ. f* is the lowest value that any solver of the run reached; if that is within
the tightest τ of `Problem.fbest`, the lowest known value, f* is the lower of the two. A run therefore
needs at least one good solver: a value that no solver reached is not held against any of them.

    from benchmarks.bench import run
    from benchmarks.problems import suite

    run(suite("mgh"), ["cgd-auto", "L-BFGS-B"]).summary()
"""

from ._run import run
from .results import Line, Results, Row
from .solvers import SOLVERS, available

__all__ = ["SOLVERS", "Line", "Results", "Row", "available", "run"]
