"""Wrong input raises at once, and says which argument, what was expected and what came."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import optax
import pytest

import steepen.optax as so

from .nets import data, grad_of, start

P, WHOLE, SGD = jnp.ones(2), jnp.arange(2), optax.sgd(1)
RHO, PART = {"rho": 0.1}, {"ascent_fraction": 0.5}
NONE = {"ascent_fraction": 0}
gap, tell = partial(so.gap_sam, SGD), so.record_validation_loss


def square(x, *_):
    return (x**2).sum()


def pair(x):
    return square(x), x


STRENGTHS = {
    "rho, lam, ratio: expected one of them, to set the strength; got none": {},
    "rho, lam, ratio: expected one of them, to set the strength; got rho and lam": {"rho": 1, "lam": 1},
    "rho: expected a number, 0 or more, or a schedule, got -1.0": {"rho": -1.0},
    "lam: expected a finite number, or a schedule, got nan": {"lam": float("nan")},
    "ratio: expected a number or a schedule of the step, got '0.3'": {"ratio": "0.3"},
    "step: rho is a schedule, so pass the step number, step=…; got None": {"rho": lambda k: 0.1},
    "r: expected a positive number, or a schedule, got 0": {"lam": 0.1, "r": 0},
    "r: expected None, as rho does not use it; got 0.1": RHO | {"r": 0.1},
    "r: expected None with exact products, got 0.1": {"lam": 0.1, "r": 0.1, "exact": True},
    "dtype: expected None with exact products": {"lam": 0.1, "dtype": "bfloat16", "exact": True},
    "exact: expected False, as ratio does not use it; got True": {"ratio": 0.1, "exact": True},
    "guard: expected True, as rho does not use it; got False": RHO | {"guard": False},
    "alpha: expected 1.0, as lam does not use it; got 0.5": {"lam": 0.1, "alpha": 0.5},
    "alpha: expected a number, 0 or more, or a schedule, got -1": RHO | {"alpha": -1},
    "step: alpha is a schedule, so pass the step number": RHO | {"alpha": lambda k: 0.1},
    "ascent_fraction: expected 1, as alpha needs two gradients": RHO | PART | {"alpha": 0.5},
    "adaptive: expected True or False, got 0.1": RHO | {"adaptive": 0.1},
    "eta: expected None, as rho does not use it; got 0.1": RHO | {"eta": 0.1},
    "eta: expected a number, 0 or more, got -1": RHO | {"eta": -1, "adaptive": True},
    "ascent_fraction: expected a part of the batch, above 0 and at most 1, got 0": RHO | NONE,
    "ascent_fraction: expected 1, as lam needs two gradients of one batch": {"lam": 1} | PART,
    "batch_argnums: expected indices of arguments, 0 or more; got -1": RHO | {"batch_argnums": -1},
    "batch_argnums: expected indices of other arguments than argnums, 0; got 0": RHO | {"batch_argnums": 0},
    "batch_argnums: expected indices of other arguments than argnums, [0, 1]; got 1": RHO
    | PART
    | {"argnums": [0, 1]},
    "argnums: expected different indices of arguments, 0 or more; got (0, 0)": RHO | {"argnums": (0, 0)},
    "argnums: expected different indices of arguments, 0 or more; got ()": RHO | {"argnums": ()},
    "argnums: expected indices of positional arguments, got 1 for 1 arguments": RHO | {"argnums": 1},
    "batch_argnums: expected indices of positional arguments, got [1] for 1 arguments": RHO | PART,
    "loss: expected a pair, the loss and aux, since has_aux=True; got an array": RHO | {"has_aux": True},
    "mask: expected a tree of booleans like the parameters": RHO | {"mask": {"v": True}},
    "mask: expected at least one parameter to perturb, got none": RHO | {"mask": False},
    "mask: expected True or False for each parameter, got 'all'": RHO | {"mask": "all"},
    "dtype: expected the precision of the passes, float64, float32,": {"lam": 0.1, "dtype": "int8"},
}
CALLS = {
    "loss: expected a callable that returns one number, got 1": (1, P),
    "loss: expected one number, got a tuple of 2; if it returns more, set has_aux=True": (pair, P),
    "loss: expected one real number, such as the mean over the batch; got an array": (lambda x: x, P),
    "params: expected arrays of real numbers, got an array of int32 at ['n']": (square, {"w": P, "n": WHOLE}),
    "params: expected arrays of real numbers, got 'relu' at [1]; split it off, with equinox": (
        square,
        [P, "relu"],
    ),
    "params: expected at least one array, got {}": (square, {}),
    "batch_argnums: expected arrays with the examples along the first axis, got shapes ()": (square, P, 1.0),
    "with the examples along the first axis, got shapes (3,), (4,)": (square, P, (jnp.ones(4), jnp.ones(3))),
}
TRANSFORMATIONS = {
    "params: expected arrays of real numbers, got an array of complex64": lambda: so.sam(SGD, 1).init(P + 1j),
    "base: expected an optax transformation, such as optax.adam(1e-3)": lambda: so.sam(optax.sgd, 0.1),
    "base: expected a transformation with one momentum": lambda: so.msam(SGD).init(P),
    "grad_fn: expected a function of the parameters that returns the gradient of the batch, got": lambda: (
        update(P)
    ),
    "params: expected the parameters": lambda: update(grad_fn=jax.grad(square)),
    "total_steps: expected a whole number, 20 or more, got 5": lambda: gap(5),
    "every: expected a whole number, 2 or more, got 1": lambda: gap(50, every=1),
    "gate: expected two rising numbers, such as (0.2, 0.3), or None; got (1, 0)": lambda: gap(
        50, gate=(1, 0)
    ),
    "loss: expected the mean validation loss, one number; got shape (2,)": lambda: tell(gap(50).init(P), P),
    "state: expected one that contains a gap_sam state, got none": lambda: tell(SGD.init(P), 1.0),
    "state: expected one that contains one msam state, got 0 of": lambda: so.eval_params(SGD.init(P), P),
}


def update(*params, **extra):
    return so.sam(SGD, 1).update(P, so.sam(SGD, 1).init(P), *params, **extra)


def call_of(loss, params, *batch):
    return lambda: so.value_and_grad(loss, **(RHO | PART if batch else RHO))(params, *batch)


CASES = TRANSFORMATIONS | {text: call_of(*call) for text, call in CALLS.items()}
CASES |= {text: lambda o=options: so.value_and_grad(square, **o)(P) for text, options in STRENGTHS.items()}


@pytest.mark.parametrize("text", CASES)
def test_it_is_refused_and_named(text):
    with pytest.raises((TypeError, ValueError), match=re.escape(text)):
        CASES[text]()


def test_a_checkpoint_of_another_transformation_is_refused():
    params, grad_fn = start("float32"), grad_of(data("float32"))
    opt = so.cgd(SGD, 0.1)
    others = {"SAMState": so.sam(SGD, 0.1).init(params), "dict": opt.init(params)._asdict()}
    for name, other in others.items():
        with pytest.raises(TypeError, match=f"state: expected CGDState, got {name}; restore a checkpoint"):
            opt.update(grad_fn(params), other, params, grad_fn=grad_fn)
