"""The user's function where JAX traces it: f, ∇f, H·v and H by autodiff, and counts that are arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from .._core.kits import Traced
from .._core.space import Space
from .._oracle.calls import Probing
from .._oracle.ledger import Cost, Ledger
from .._oracle.source import Given
from ._jax import jax, jnp


class Tally(Ledger):
    """Counts that are arrays: a mask is added, and never asked."""

    def __init__(self, kit: Traced, budget: Any):
        super().__init__(kit, budget)
        kit.ledger = self

    def charge(self, only: Any, *names: str, times: int = 1) -> None:
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

    def __init__(self, grad: Callable[[Any], Any], ledger: Tally):
        self._grad, self._ledger = grad, ledger

    def product(self, x: Any, v: Any, g: Any, only: Any = None) -> Any:
        """Evaluate H·v."""
        self._ledger.charge(only, "nhvp")
        return jax.linearize(self._grad, x)[1](v)

    def matrix(self, x: Any, g: Any, only: Any = None) -> Any:
        """Evaluate H."""
        self._ledger.charge(only, "nhev")
        return jax.jacfwd(self._grad)(x)


class Function(Probing):
    """f of a vector, and what autodiff makes of it."""

    cost_value, cost_grad, cost_probe = Cost(1, 0), Cost(0, 1), Cost(0, 1)
    hessian: Any = Hessian

    def __init__(
        self,
        fun: Callable[[Any], Any],
        derive: Any,
        alone: bool,
        kit: Traced,
        space: Space,
        ledger: Tally,
        dtype: Any,
        gtol: Any,
    ):
        super().__init__(kit, space, float(jnp.finfo(dtype).eps))
        self.ledger, self._traced, self._alone, self._fun, self._grad = ledger, kit, alone, fun, derive(fun)
        self.source, self.hessian = Given(cast(Any, self), gtol), Hessian(self._grad, ledger)

        def twice(x: Any) -> tuple[Any, Any]:
            f = fun(x)
            return f, f

        # the second is traced once, wherever it is called from; each is one call, and can be weighed
        self._both, self._shared = (jax.jit(derive(twice, has_aux=True)) for _ in range(2))

    @property
    def _comes(self) -> bool:
        """Whether ∇f comes with f.

        In a run alone it does: f is part of ∇f, and a search accepts most of its trials. Of many lanes some
        lane rejects one, so there it comes only with what is seldom asked for.
        """
        return self._alone or self._traced.seldom

    def value(self, x: Any, only: Any = None) -> Any:
        """Evaluate f."""
        self.ledger.charge(only, "nfev")
        if self._comes:
            self.came, f = (self._shared if self._traced.seldom else self._both)(x)
            return f
        self.came = None
        return _once(self._fun(x), only)

    def grad(self, x: Any, only: Any = None, came: Any = None, *, spare: bool = False) -> Any:
        """Evaluate ∇f, where it has not come with f."""
        self.ledger.charge(only, "njev")
        if came is not None and self._comes:
            return came
        return self._shared(x)[0] if self._traced.seldom else _once(self._grad(x), only)


def _once(found: Any, only: Any) -> Any:
    """Return what was found, unchanged, by a sum with zeros.

    XLA evaluates a function of x alone anew for all that follows from it; this is one of x and of a mask.
    """
    return found if only is None or isinstance(only, bool) else found + 0.0 * only
