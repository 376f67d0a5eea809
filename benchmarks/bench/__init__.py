"""Evaluations that optimisers need on `benchmarks.problems`: ours, SciPy's, NLopt's.

One evaluation is f and ∇f at one point. A problem counts as solved to an accuracy τ at the first evaluation
with (f − f*)/(f0 − f*) ≤ τ. f* is the lowest value that any solver of the run reached; if that is within
the tightest τ of `Problem.fbest`, the lowest known value, f* is the lower of the two. A run therefore
needs at least one good solver: a value that no solver reached is not held against any of them.

Examples
--------
>>> import steepen as st
>>> from steepen import bench
>>> problems = [st.problems["beale"], st.problems["wood"]]
>>> results = bench.run(problems, ["BB", "L-BFGS-B"], budget=500, jobs=1)
>>> line = results.summary()[0]
>>> line.accuracy, line.solver, line.solved, line.problems, line.losses
(0.001, 'BB', 2, 2, 2)
"""

from ._run import run
from .results import Line, Results, Row
from .solvers import SOLVERS, available

__all__ = ["SOLVERS", "Line", "Results", "Row", "available", "run"]
