"""Gradients and H·v by automatic differentiation, as plain functions of arrays.

Both doors map over rows, so a function written for one point serves a batch too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from .._core.arrays import Array, is_numpy
from .._tools.optional import load

Function = Callable[..., Any]


class Derivatives(NamedTuple):
    """The value of a function and what autodiff makes of it."""

    value: Function
    grad: Function
    hvp: Function
    hess: Function
    look: Callable[[Array], tuple[Array, bool]]
    """Returns f, and whether any derivative leads from it back to x."""


def differentiate(library: str, fun: Function, x: Array) -> Derivatives:
    """Differentiate `fun` with `"jax"` or `"torch"` for points like `x`."""
    return _with_jax(fun, x) if library == "jax" else _with_torch(fun, x)


def _with_jax(fun: Function, x: Array) -> Derivatives:
    jax = load("jax", 'jac="jax"', extra="jax")
    grad = jax.grad(fun)

    def hvp(x: Array, v: Array) -> Array:
        return jax.jvp(grad, (x,), (v,))[1]

    # JAX computes in 32 bits unless told otherwise; a float64 start asks for 64.
    double = str(x.dtype) == "float64"
    numpy_in = is_numpy(x)

    def mapped(function: Function) -> Function:
        compiled = jax.jit(jax.vmap(function) if x.ndim == 2 else function)

        def call(*points: Array) -> Array:
            with jax.enable_x64(True) if double else nullcontext():
                result = compiled(*points)
                return np.asarray(result) if numpy_in else result

        return call

    value = mapped(fun)

    def look(points: Array) -> tuple[Array, bool]:
        with jax.enable_x64(True) if double else nullcontext():
            linked = _reaches(jax, fun, points if x.ndim == 1 else points[0])
        return value(points), linked

    return Derivatives(value, mapped(grad), mapped(hvp), mapped(jax.hessian(fun)), look)


def _reaches(jax: Any, fun: Function, x: Array) -> bool:
    """Say whether a change of x goes on to the derivative of f along it, as far as JAX's own record tells."""

    def along(x: Array, v: Array) -> Array:
        return jax.jvp(fun, (x,), (v,))[1]

    record = jax.make_jaxpr(along)(x, x).jaxpr
    reached = {id(record.invars[1])}
    for equation in record.eqns:
        if any(id(variable) in reached for variable in equation.invars):
            reached.update(map(id, equation.outvars))
    return id(record.outvars[0]) in reached


def _with_torch(fun: Function, x: Array) -> Derivatives:
    torch = load("torch", 'jac="torch"', extra="torch")
    grad = torch.func.grad(fun)

    def hvp(x: Array, v: Array) -> Array:
        # reverse over reverse: forward mode compiles decompositions on its first use, and warns
        def along(y: Array) -> Array:
            return (grad(y) * v).sum()

        return torch.func.grad(along)(x)

    hess = torch.func.jacrev(grad)
    numpy_in = is_numpy(x)

    def mapped(function: Function) -> Function:
        function = torch.func.vmap(function) if x.ndim == 2 else function

        def call(*points: Array) -> Array:
            if not numpy_in:
                return function(*points)
            return function(*(torch.from_numpy(p) for p in points)).detach().numpy()

        return call

    def look(points: Array) -> tuple[Array, bool]:
        point: Any = torch.from_numpy(points) if numpy_in else points
        with torch.enable_grad():
            # a clone, since fun may change its argument in place, which torch forbids for a leaf
            f = (torch.func.vmap(fun) if x.ndim == 2 else fun)(point.requires_grad_().clone())
        return f.detach().numpy() if numpy_in else f.detach(), f.requires_grad

    return Derivatives(mapped(fun), mapped(grad), mapped(hvp), mapped(hess), look)
