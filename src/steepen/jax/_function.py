"""The user's function where JAX traces it: f, ∇f, H·v and H by autodiff, and counts that are arrays."""

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
    """Counts that are arrays: a mask is added, and never asked."""

    def __init__(self, backend: Traced, budget: Any):
        super().__init__(backend, budget)
        backend.counter = self

    def count(self, only: Any, *names: str, times: int = 1) -> None:
        """Count a call where the mask holds."""
        ones: Any = 1 if only is None or only is True else jnp.asarray(only, jnp.int32)
        for name in names:
            setattr(self, name, getattr(self, name) + times * ones)

    def _note(self, covered: Any) -> None:
        """Compiled runs have no checkpoints."""


class Hessian:
    """H·v and H by autodiff."""

    source = matrix_source = "jax"
    cost_product = cost_matrix = Cost()

    def __init__(self, grad: Callable[[Any], Any], counter: Tally):
        self._grad, self._counter = grad, counter

    def product(self, x: Any, v: Any, g: Any, only: Any = None) -> Any:
        """Evaluate H·v."""
        self._counter.count(only, "nhvp")
        return jax.linearize(self._grad, x)[1](v)

    def matrix(self, x: Any, g: Any, only: Any = None) -> Any:
        """Evaluate H."""
        self._counter.count(only, "nhev")
        return jax.jacfwd(self._grad)(x)


class Function(GradientDifference):
    """f of a vector, and what autodiff makes of it."""

    cost_value, cost_grad, cost_difference = Cost(1, 0), Cost(0, 1), Cost(0, 1)
    hessian: Any = Hessian

    def __init__(
        self,
        fun: Callable[[Any], Any],
        derive: Any,
        alone: bool,
        backend: Traced,
        space: Space,
        counter: Tally,
        dtype: Any,
        gtol: Any,
    ):
        super().__init__(backend, space, float(jnp.finfo(dtype).eps))
        self.counter, self._traced, self._alone, self._fun, self._grad = (
            counter,
            backend,
            alone,
            fun,
            derive(fun),
        )
        self.source, self.hessian = GivenGradient(cast(Any, self), gtol), Hessian(self._grad, counter)

        def twice(x: Any) -> tuple[Any, Any]:
            f = fun(x)
            return f, f

        # the second is traced once, wherever it is called from; each is one call, and can be weighed
        self._both, self._shared = (jax.jit(derive(twice, has_aux=True)) for _ in range(2))

    @property
    def _comes(self) -> bool:
        """Whether ∇f comes with f.

        In a run alone it does: f is part of ∇f, and a search accepts most of its trials. Of many slots some
        slot rejects one, so there it comes only with what is seldom asked for.
        """
        return self._alone or self._traced.seldom

    def value(self, x: Any, only: Any = None) -> Any:
        """Evaluate f."""
        self.counter.count(only, "nfev")
        if self._comes:
            self.cached_gradient, f = (self._shared if self._traced.seldom else self._both)(x)
            return f
        self.cached_gradient = None
        return _once(self._fun(x), only)

    def grad(self, x: Any, only: Any = None, cached: Any = None, *, spare: bool = False) -> Any:
        """Evaluate ∇f, where it has not come with f."""
        self.counter.count(only, "njev")
        if cached is not None and self._comes:
            return cached
        return self._shared(x)[0] if self._traced.seldom else _once(self._grad(x), only)


def _once(found: Any, only: Any) -> Any:
    """Return what was found, unchanged, by a sum with zeros.

    XLA evaluates a function of x alone anew for all that follows from it; this is one of x and of a mask.
    """
    return found if only is None or isinstance(only, bool) else found + 0.0 * only
