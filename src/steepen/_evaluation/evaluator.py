"""f, ∇f, H·v and H for drivers, directions and steps: calls the user's functions, counts each call once.

A call is counted as it begins, so one that raises counts too: `nfev` values, `njev` gradients, `nhvp`
products H·v, `nhev` Hessians. An H·v by difference is counted as a gradient, a gradient by difference as n
values and one `njev`. In a batch every row has its own counts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from .._core.arrays import Array, Mask, Rows, Scalar, is_numpy
from .._core.backends import Backend
from .._core.saved import Saved
from .._core.space import Space
from .._core.state import each
from .accuracy import AdaptiveGradient
from .autodiff import AUTODIFF, Derivatives, differentiate
from .calls import Function, Memo, Only, UserCalls, bound, pair
from .counter import Cost, EvaluationCounter
from .finite_differences import FLOAT64, DifferenceGradient, Differences
from .hessian import Hessian, source_of
from .source import GivenGradient

FD_LIMIT = ("2-point", "3-point", "cs")
_BATCHED = ("fun", "jac", "hvp")  # the functions that take a batch, by their names in `ask`


class Evaluator(UserCalls):
    """Value, gradient and Hessian of one function, counted for the rows in the mask `only`; None: all."""

    def __init__(
        self, fun: Function, x0: Array, backend: Backend, *, jac: Function | bool | str, hvp: Function | None,
        hess: Function | None, args: tuple[Any, ...], space: Space, counter: EvaluationCounter,
        differences: Differences, adaptive: bool, gtol: Any, like: Any,
    ):  # fmt: skip
        super().__init__(bound(fun, args), x0, backend, space, counter)
        derivatives = (bound(one, args) if callable(one) else None for one in (jac, hvp, hess))
        given = Derivatives(self._sent, *derivatives, both=self._sent if jac is True else None)
        self._scheme = jac if isinstance(jac, str) else ""
        products = source_of(given, self._scheme)
        if self._scheme in AUTODIFF:
            given = differentiate(self._scheme, given, x0, like)
            self.differentiates = True
        called: Any = (one if one is None else partial(self.outside, one) for one in given)
        given = Derivatives(*called)
        self._fun, self._both = given.value, given.both
        self._jac: Any = given.grad
        self.hessian = Hessian(self, given, products)
        self.fd: DifferenceGradient | None = None  # the source, where the gradient is made of values
        self.source: GivenGradient = GivenGradient(self, gtol)
        if self._scheme in FD_LIMIT:
            adaptive = adaptive and self._scheme == "2-point" and not differences.asked
            kind = AdaptiveGradient if adaptive and self.eps <= FLOAT64 else DifferenceGradient
            self.source = self.fd = kind(self, gtol, self._scheme, differences)
        self.memo = Memo(backend)  # of ∇f where it comes with f, of f where ∇f is made of it
        # the common case, a single NumPy run with two callables and no time limit, takes the short way
        self._plain = backend.size is None and is_numpy(x0) and self._jac is not None and self._both is None
        self._plain = self._plain and not counter.timed
        self._combined = jac is True
        self._charged = ("nfev", "njev") if self._combined else ("nfev",)  # for a value
        self.cost_value = Cost(1, 1) if self._combined else Cost(1, 0)
        self._costs = (Cost(), Cost(1, 1)) if self._combined else (Cost(0, 1), Cost(0, 1))  # of a gradient

    @property
    def cost_grad(self) -> Cost:
        """What ∇f costs where f is known."""
        return self._costs[0] if self.fd is None else Cost(self.fd.cost, 1)

    @property
    def cost_difference(self) -> Cost:
        """What ∇f costs elsewhere."""
        return self._costs[1] if self.fd is None else Cost(self.fd.cost + (self._scheme == "2-point"), 1)

    # --- evaluations -----------------------------------------------------------------------------

    def value(self, x: Array, only: Only = None) -> Scalar:
        """Evaluate f."""
        if self._plain:
            self.counter.nfev += 1
            f = self._fun(x.copy())
            return float(f) if isinstance(f, float) else self.scalar(f, None)
        if self._both is not None:
            self.counter.count(only, *self._charged)
            return self._evaluate_both(x, only)
        f = self.value_at(x, only)
        if self._scheme == "2-point":
            self.memo.put(x, f, only)
        return f

    def grad(self, x: Array, only: Only = None, cached: Any = None, *, spare: bool = False) -> Array:
        """Evaluate ∇f; `spare`: neither x nor ∇f is used elsewhere, so neither is copied.

        `cached` is for compiled runs; here the memo has what came with f.
        """
        if self._plain:
            self.counter.njev += 1
            g = self._jac(x if spare else x.copy())
            if type(g) is np.ndarray and g.shape == x.shape and g.dtype is x.dtype:
                return g if spare else g.copy()
            return self.vector(g, None, "jac")
        if self.fd is not None:
            return self.grad_and_error(x, only)[0]
        if not self._combined:
            self.counter.count(only, "njev")
        if self._both is not None:
            self._recall(x, only, self.value if self._combined else self._evaluate_both)
            return self.memo.value if only is None else self.backend.where(only, self.memo.value, x * 0)
        return self.ask("jac", self._jac, partial(self.vector, name="jac"), only, x)

    def grad_and_error(self, x: Array, only: Only = None) -> tuple[Array, Any]:
        """Evaluate ∇f by differences, with the error of each component."""
        assert self.fd is not None
        self.counter.count(only, "njev")
        if self._scheme == "2-point":
            self._recall(x, only, self.value)
        return self.fd.difference(x, self.memo.value, only)

    def _evaluate_both(self, x: Array, only: Only) -> Scalar:
        """Evaluate f, and note ∇f."""

        def read(returned: Any, only: Only) -> Scalar:
            f, g = pair(returned)
            value = self.scalar(f, only)
            self.memo.put(x, self.vector(g, only, "fun's gradient"), only)
            return value

        return self.ask("fun", self._both, read, only, x)

    def _recall(self, x: Array, only: Only, evaluate: Function) -> None:
        """Evaluate for the memo what it lacks at x."""
        missing = self.memo.missing(x, only)
        if self.backend.any(missing):
            evaluate(x, missing)

    # --- rows and checkpoints --------------------------------------------------------------------

    def keep(self, rows: Rows) -> None:
        """Continue with these rows of the batch."""
        for part in (self.counter, self.memo, self.hessian.memo):
            part.keep(rows)
        if self.fd is not None:
            self.fd.noise.state = each(lambda a: a[rows], self.fd.state)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds: what was evaluated last, and what differences know of f."""
        state = {} if self.fd is None else {"fd": replace(self.fd.state)}
        asked = {name: name in self._asked for name in _BATCHED}
        return {"memo": self.memo.kept, "matrix": self.hessian.memo.kept, "asked": asked, **state}

    def load(self, saved: Saved, name: str) -> None:
        """Restore the state from a checkpoint."""
        for part, memo in (("memo", self.memo), ("matrix", self.hessian.memo)):
            memo.x, memo.value = (saved.take(f"{name}.{part}.{one}") for one in ("x", "value"))
        self._asked = {one for one in _BATCHED if saved.take(f"{name}.asked.{one}")}
        if self.fd is not None:
            self.fd.noise.state = saved.record(f"{name}.fd", self.fd.state)


class Context:
    """What a direction or a step may use while it works."""

    def __init__(self, evaluator: Evaluator, backend: Backend, space: Space):
        self.evaluator, self.backend, self.space = evaluator, backend, space
        self.counter = evaluator.counter
        self.eps = evaluator.eps  # of the run's numbers
        self.rows: Rows | None = None  # None: all of them

    def late(self) -> bool:
        """Return whether the time is spent."""
        return self.counter.late()

    def affords(self, cost: Cost) -> Mask:
        """Return where the budget still covers a cost."""
        return self.counter.affords(cost)

    def live(self, value: Any) -> Scalar:
        """Return a parameter for the live rows, where it has one value a row."""
        if self.rows is None or getattr(value, "ndim", 0) == 0:
            return value
        return value[self.rows]
