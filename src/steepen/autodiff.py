"""∇f, H·v and H by autodiff, for the evaluator of eager runs; imports JAX or torch only where asked for.

Both integrations map over rows, so a function written for one point serves a batch too.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache, partial
from typing import Any

import numpy as np

from ._tools.optional import load
from ._tools.traces import contents, has_rules, signature
from .arrays import Array, is_numpy, to_numpy
from .callables import Function, Functions
from .tensors import fetched, tensor

AUTODIFF = ("jax", "torch")


def differentiate(library: str, given: Functions, x: Array, like: Any) -> Functions:
    """Differentiate with `"jax"` or `"torch"` what was not given; `like`: see `Placed`."""
    made = _with_jax(given.value, x) if library == "jax" else _with_torch(given.value, x, like)
    hvp = made.hvp if given.hvp is None and given.hess is None else given.hvp
    return made._replace(hvp=hvp, hess=made.hess if given.hess is None else given.hess)


class _Program:
    """The trace of a function, and what JAX has compiled of it, for one point or for rows."""

    def __init__(self, jax: Any, seen: Any, rows: bool):
        self._core, self._jaxpr = jax.extend.core, seen.jaxpr
        grad = jax.grad(self._value, argnums=1)

        def hvp(data: Any, x: Array, v: Array) -> Array:
            return jax.jvp(partial(grad, data), (x,), (v,))[1]

        def mapped(function: Function, points: int = 1) -> Function:
            return jax.jit(jax.vmap(function, in_axes=(None, *(0,) * points)) if rows else function)

        self.value, self.grad, self.hvp = mapped(self._value), mapped(grad), mapped(hvp, 2)
        self.hess = mapped(jax.hessian(self._value, argnums=1))

    def _value(self, data: Any, x: Array) -> Array:
        return self._core.jaxpr_as_fun(self._core.ClosedJaxpr(self._jaxpr, data))(x)[0]


_PROGRAMS: dict[Any, _Program] = {}  # by the trace, since a lambda is a new object each time
PROGRAMS = 64  # the number of programs kept


def _with_jax(fun: Function, x: Array) -> Functions:
    jax = load("jax", 'jac="jax"', extra="jax")
    load("jax.extend.core", 'jac="jax"', extra="jax")
    # JAX computes in 32 bits unless told otherwise; a float64 start asks for 64.
    double, numpy_in, rows = str(x.dtype) == "float64", is_numpy(x), x.ndim == 2

    @cache
    def seen() -> tuple[_Program, Any]:
        """Trace fun once a run, since what it closes over may have changed; compile what is new."""

        def anew(x: Array) -> Any:  # JAX caches by the identity of fun, and would miss a change
            return fun(x)

        point = jax.ShapeDtypeStruct(x.shape[-1:], x.dtype)
        found = jax.make_jaxpr(anew)(point)
        key = signature(found.jaxpr), rows, *(_rules(jax, anew, point) if has_rules(found.jaxpr) else ())
        if key not in _PROGRAMS:
            if len(_PROGRAMS) == PROGRAMS:
                del _PROGRAMS[next(iter(_PROGRAMS))]
            _PROGRAMS[key] = _Program(jax, found, rows)
        return _PROGRAMS[key], found.consts

    def call(name: str, *points: Array) -> Array:
        with jax.enable_x64(True) if double else nullcontext():
            program, data = seen()
            result = getattr(program, name)(data, *points)
            return np.asarray(result) if numpy_in else result

    return Functions(*(partial(call, name) for name in ("value", "grad", "hvp", "hess")))


def _rules(jax: Any, fun: Function, point: Any) -> tuple[Any, ...]:
    """Return what tells the derivatives of a function that has rules of its own: operations and numbers."""

    def product(x: Any, v: Any) -> Any:
        return jax.jvp(jax.grad(fun), (x,), (v,))

    try:
        found = jax.make_jaxpr(product)(point, point)
    except TypeError:  # it has no second derivative
        found = jax.make_jaxpr(jax.grad(fun))(point)
    return signature(found.jaxpr), *map(contents, found.consts)


def _with_torch(fun: Function, x: Array, like: Any) -> Functions:
    torch = load("torch", 'jac="torch"', extra="torch")
    grad, numpy_in = torch.func.grad(fun), is_numpy(x)
    waits = like is not None  # for a device, and then once for f and ∇f
    like = like if waits else torch.empty(0, device="cpu")
    whole = torch.func.vmap(fun) if x.ndim == 2 else fun

    def point_of(p: Array) -> Any:
        return tensor(like, p) if numpy_in else p

    def hvp(x: Array, v: Array) -> Array:
        # reverse over reverse: forward mode compiles decompositions on its first use, and warns
        def along(y: Array) -> Array:
            return (grad(y) * v).sum()

        return torch.func.grad(along)(x)

    hess = torch.func.jacrev(grad)

    def mapped(function: Function) -> Function:
        function = torch.func.vmap(function) if x.ndim == 2 else function

        def call(*points: Array) -> Array:
            found = function(*map(point_of, points))
            return to_numpy(found) if numpy_in else found

        return call

    def both(points: Array) -> tuple[Any, Any]:
        point = point_of(points)
        f, back = torch.func.vjp(whole, point)
        if f.ndim == 1 == x.ndim and len(f) == 1:
            raise TypeError("fun: expected a scalar for autodiff, got shape (1,); return f[0]")
        if f.shape != point.shape[:-1] or not f.is_floating_point():
            return f, point  # refused by the caller
        return fetched(f, back(torch.ones_like(f))[0])

    together = both if waits else None
    return Functions(mapped(fun), mapped(grad), mapped(hvp), mapped(hess), together)
