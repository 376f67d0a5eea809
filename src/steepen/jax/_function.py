"""The user's function where JAX traces it: f, ∇f, H·v and H by autodiff, with counts that are arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from .._core.backends import Traced
from .._core.space import Space
from .._evaluation.calls import GradientDifference
from .._evaluation.counter import Cost, EvaluationCounter
from .._evaluation.source import GivenGradient
from ._jax import jax, jnp


class Tally(EvaluationCounter):
    """Counts that are arrays, to which masks are added."""

    def __init__(self, backend: Traced, budget: Any):
        super().__init__(backend, budget)
        backend.counter = self

    def count(self, only: Any, *names: str, times: int = 1) -> None:
        ones: Any = 1 if only is None or only is True else jnp.asarray(only, jnp.int32)
        for name in names:
            setattr(self, name, getattr(self, name) + times * ones)

    def _note(self, covered: Any) -> None:
        """Do nothing: compiled runs have no checkpoints."""


class Hessian:
    """H·v and H by autodiff."""

    source = matrix_source = "jax"
    cost_product = cost_matrix = Cost()

    def __init__(self, grad: Callable[[Any], Any], counter: Tally):
        self._grad, self._counter = grad, counter

    def product(self, x: Any, v: Any, g: Any, only: Any = None) -> Any:
        self._counter.count(only, "nhvp")
        return jax.linearize(self._grad, x)[1](v)

    def matrix(self, x: Any, g: Any, only: Any = None) -> Any:
        self._counter.count(only, "nhev")
        return jax.jacfwd(self._grad)(x)


class Function(GradientDifference):
    """f of a vector, and its derivatives by autodiff."""

    cost_value, cost_grad, cost_difference = Cost(1, 0), Cost(0, 1), Cost(0, 1)
    hessian: Any = Hessian

    def __init__(self, fun: Any, derive: Any, backend: Traced, space: Space, counter: Tally, gtol: Any):
        super().__init__(backend, space, backend.eps)
        self.counter, self._traced, self._fun, self._grad = counter, backend, fun, derive(fun)
        self.source, self.hessian = GivenGradient(cast(Any, self), gtol), Hessian(self._grad, counter)

        def twice(x: Any) -> tuple[Any, Any]:
            f = fun(x)
            return f, f

        # `_shared` is traced once, wherever it is called from
        self._both, self._shared = (jax.jit(derive(twice, has_aux=True)) for _ in range(2))

    @property
    def _comes(self) -> bool:
        """Whether ∇f is evaluated with f: in rare code, and in a single run, which accepts most trials."""
        return self._traced.alone or self._traced.seldom

    def value(self, x: Any, only: Any = None) -> Any:
        self.counter.count(only, "nfev")
        if self._comes:
            self.cached_gradient, f = (self._shared if self._traced.seldom else self._both)(x)
            return f
        self.cached_gradient = None
        return _once(self._fun(x), only)

    def grad(self, x: Any, only: Any = None, cached: Any = None, *, spare: bool = False) -> Any:
        self.counter.count(only, "njev")
        if cached is not None and self._comes:
            return cached
        return self._shared(x)[0] if self._traced.seldom else _once(self._grad(x), only)


def _once(found: Any, only: Any) -> Any:
    """Return `found` plus zeros that depend on the mask, or XLA would repeat the evaluation for each use."""
    return found if only is None or isinstance(only, bool) else found + 0.0 * only
