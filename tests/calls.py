"""Calls of `minimize` that several files make, with whatever a test has to say about them, and results."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import strategies as some

import steepen as st


class Bowl:
    """xᵀx over leading axes, with its calls counted."""

    def __init__(self):
        self.calls = 0

    def f(self, x):
        self.calls += 1
        return (x * x).sum(axis=-1)

    def g(self, x):
        self.calls += 1
        return 2 * x


def run(bowl, **given):
    base = {"x0": [1.0, -2.0], "method": "gd", "budget": st.Budget(iters=3)}
    options = base | {"step": 0.1, "jac": bowl.g} | given
    return st.minimize(options.pop("fun", bowl.f), options.pop("x0"), **options)


def refused(error, *texts, **given):
    """Hold that the run is refused, with all of the texts in the message and nothing evaluated."""
    bowl = Bowl()
    with pytest.raises(error) as caught:
        run(bowl, **given)
    message = str(caught.value)
    assert type(caught.value) is error
    assert message.startswith(texts[0])
    assert all(text in message for text in texts), message
    assert bowl.calls == 0


class At:
    """Wraps a function: from call number j (from 0) on it does something else, or raises an error."""

    def __init__(self, function, j, instead):
        self.function, self.j, self.instead, self.calls = function, j, instead, 0

    def __call__(self, *args):
        self.calls += 1
        return (self.instead if self.calls > self.j else self.function)(*args)


def raising(error):
    def instead(*_):
        raise error

    return instead


W = np.array([1.0, 4.0])


def quadratic(x):
    """Return ½xᵀdiag(1, 4)x."""
    return (W * x * x).sum(axis=-1) / 2


def slope(x):
    """Return the gradient of `quadratic`."""
    return W * x


def cgd(x0=(1.0, -2.0), fun=quadratic, **given):
    """Run twelve iterations of CGD on `quadratic`, or on what a test names."""
    base = {"jac": slope, "method": "cgd", "step": 0.02, "gtol": 0.0}
    return st.minimize(fun, np.array(x0), **(base | {"budget": st.Budget(iters=12)} | given))


def traced(*args, **given):
    """Return the trace of `cgd`."""
    return cgd(*args, **given).trace


def by_matrix(q, x0, **given):
    """Return the trace of `cgd` on ½xᵀqx."""
    return traced(x0, lambda x: x @ q @ x / 2, jac=lambda x: q @ x, hvp=lambda x, v: q @ v, **given)


@some.composite
def matrices(draw):
    n = draw(some.integers(1, 6))
    rng = np.random.default_rng(draw(some.integers(0, 10**6)))
    q = rng.standard_normal((n, n)) * 10.0 ** draw(some.integers(-3, 3))
    return (q + q.T) / 2, rng.standard_normal(n)


def same(found, expected, rtol=0.0):
    """Hold every field but the time equal, in dtype too, by default to the last bit; NaN equals NaN."""
    for field in fields(st.Result):
        a, b = getattr(found, field.name), getattr(expected, field.name)
        parts = ("",)
        if field.name == "trace" and a is not None and b is not None:
            parts = (*(name for name, _ in a.columns()), "length")
            assert parts[:-1] == tuple(name for name, _ in b.columns())
        elif field.name == "best":
            parts = ("x", "fun", "k")
        elif field.name == "seconds":
            continue
        for part in parts:
            one, other = (np.asarray(getattr(value, part) if part else value) for value in (a, b))
            assert one.dtype == other.dtype, (field.name, part)
            name = f"{field.name} {part}"
            if one.dtype.kind == "f":
                np.testing.assert_allclose(one, other, rtol=rtol, err_msg=name)
            else:
                np.testing.assert_array_equal(one, other, err_msg=name)


def near(a, b):
    """Hold two runs to each other up to rounding, which grows from step to step."""
    assert a.success == b.success
    assert a.fun == pytest.approx(b.fun, rel=1e-4, abs=1e-6, nan_ok=True)
    if a.trace is not None and (x := a.trace.x) is not None:
        few = min(8, len(x), len(b.trace))
        np.testing.assert_allclose(x[:few], b.trace.x[:few], rtol=1e-6, atol=1e-8)
