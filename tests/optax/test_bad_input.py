"""Wrong input raises at once, and says which argument, what was expected and what came."""

import re

import jax
import jax.numpy as jnp
import optax
import pytest

import steepen.optax as so

from .nets import data, loss, start

P = jnp.ones(2)


def square(x, *_):
    return (x**2).sum()


def grads(loss=square, params=P, args=(), **options):
    return so.value_and_grad(loss, **({"rho": 0.1} | options))(params, *args)


CASES = {
    "no strength": (
        lambda: so.value_and_grad(square),
        "rho, lam, ratio: expected one of them, to set the strength; got none",
    ),
    "two": (
        lambda: so.value_and_grad(square, rho=1, lam=1),
        "rho, lam, ratio: expected one of them, to set the strength; got rho and lam",
    ),
    "negative": (
        lambda: so.value_and_grad(square, rho=-1.0),
        "rho: expected a number, 0 or more, or a schedule, got -1.0",
    ),
    "nan": (
        lambda: so.value_and_grad(square, lam=float("nan")),
        "lam: expected a finite number, or a schedule, got nan",
    ),
    "text": (
        lambda: so.value_and_grad(square, ratio="0.3"),
        "ratio: expected a number or a schedule of the step, got '0.3'",
    ),
    "no loss": (
        lambda: so.value_and_grad(1, rho=0.1),
        "loss: expected a callable that returns one number, got 1",
    ),
    "schedule": (
        lambda: grads(rho=lambda k: 0.1),
        "step: rho is a schedule, so pass the number of the step, step=…; got None",
    ),
    "aux": (
        lambda: grads(lambda x: (square(x), x)),
        "loss: expected one number, got a tuple of 2; if it returns more, say has_aux=True",
    ),
    "no aux": (
        lambda: grads(has_aux=True),
        "loss: expected a pair, the loss and aux, as has_aux=True says; got an array of float32 of shape ()",
    ),
    "vector": (
        lambda: grads(lambda x: x),
        "loss: expected one real number, such as the mean over the batch; got an array",
    ),
    "integers": (
        lambda: grads(params={"w": P, "n": jnp.arange(2)}),
        "params: expected arrays of real numbers, got an array of int32 at ['n']",
    ),
    "function": (
        lambda: grads(params=[P, "relu"]),
        "params: expected arrays of real numbers, got 'relu' at [1]; split it off, by equinox.partition",
    ),
    "empty": (lambda: grads(params={}), "params: expected at least one array, got {}"),
    "complex": (
        lambda: so.sam(optax.sgd(1), 1).init(P + 1j),
        "params: expected arrays of real numbers, got an array of complex64",
    ),
    "fraction": (
        lambda: grads(ascent_fraction=0.0),
        "ascent_fraction: expected a part of the batch, above 0 and at most 1, got 0.0",
    ),
    "fraction of lam": (
        lambda: so.value_and_grad(square, lam=1, ascent_fraction=0.5),
        "ascent_fraction: expected 1, as lam needs two gradients of one batch",
    ),
    "places": (
        lambda: grads(batch_argnums=0),
        "batch_argnums: expected places after the parameters', 1 or more; got 0",
    ),
    "no batch": (
        lambda: grads(ascent_fraction=0.5),
        "batch_argnums: expected places of arguments that are passed by place, got [1] for 1 arguments",
    ),
    "scalar batch": (
        lambda: grads(args=(1.0,), ascent_fraction=0.5),
        "batch_argnums: expected arrays with the examples along the first axis, got shapes ()",
    ),
    "ragged": (
        lambda: grads(args=((jnp.ones(4), jnp.ones(3)),), ascent_fraction=0.5),
        "got shapes (3,), (4,)",
    ),
    "mask": (
        lambda: grads(lambda p: square(p["w"]), {"w": P}, mask={"v": True}),
        "mask: expected a tree of booleans like the parameters",
    ),
    "mask of none": (lambda: grads(mask=False), "mask: expected at least one parameter to perturb, got none"),
    "mask of text": (lambda: grads(mask="all"), "mask: expected True or False for each parameter, got 'all'"),
    "dtype": (
        lambda: grads(rho=None, lam=0.1, dtype="int8"),
        "dtype: expected the precision of the passes, one of float64, float32, float16, bfloat16",
    ),
    "base": (
        lambda: so.sam(optax.sgd, 0.1),
        "base: expected a transformation of optax, such as optax.adam(1e-3); got <function",
    ),
    "no momentum": (
        lambda: so.msam(optax.sgd(0.1)).init(P),
        "base: expected a transformation with one momentum",
    ),
    "no function": (
        lambda: so.sam(optax.sgd(1), 1).update(P, so.sam(optax.sgd(1), 1).init(P), P),
        "grad_fn: expected a function of the parameters that returns the gradient of the batch, got None",
    ),
    "no params": (
        lambda: so.sam(optax.sgd(1), 1).update(P, so.sam(optax.sgd(1), 1).init(P), grad_fn=jax.grad(square)),
        "params: expected the parameters",
    ),
    "total_steps": (
        lambda: so.gap_sam(optax.sgd(1), 5),
        "total_steps: expected a whole number, 20 or more, got 5",
    ),
    "every": (
        lambda: so.gap_sam(optax.sgd(1), 50, every=1),
        "every: expected a whole number, 2 or more, got 1",
    ),
    "gate": (
        lambda: so.gap_sam(optax.sgd(1), 50, gate=(0.3, 0.2)),
        "gate: expected two rising numbers, such as (0.2, 0.3), or None; got (0.3, 0.2)",
    ),
    "validation": (
        lambda: so.gap_sam(optax.sgd(1), 50).init(P).record_validation_loss(P),
        "loss: expected the mean validation loss, one number; got shape (2,)",
    ),
    "no gap": (
        lambda: so.record_validation_loss(optax.sgd(1).init(P), 1.0),
        "state: expected one that holds the state of gap_sam, got none",
    ),
    "no msam": (
        lambda: so.eval_params(optax.sgd(1).init(P), P),
        "state: expected one that holds the state of one msam, got 0 of them",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_and_named(name):
    call, text = CASES[name]
    with pytest.raises((TypeError, ValueError), match=re.escape(text)):
        call()


def test_a_checkpoint_of_another_transformation_is_refused():
    params, batch = start("float32"), data("float32")
    opt = so.cgd(optax.sgd(0.1), 0.1)
    grad_fn = lambda p: jax.grad(loss)(p, batch)  # noqa: E731
    for other, name in (
        (so.sam(optax.sgd(0.1), 0.1).init(params), "SAMState"),
        (optax.sgd(0.1).init(params), "tuple"),
        (opt.init(params)._asdict(), "dict"),
    ):
        with pytest.raises(TypeError, match=f"state: expected CGDState, got {name}; restore a checkpoint"):
            opt.update(grad_fn(params), other, params, grad_fn=grad_fn)
