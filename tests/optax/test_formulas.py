"""Each form of the ascent step against its formula, written out in plain numbers."""

from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import steepen.optax as so
from steepen.schedules import L

from .. import ratio_rule
from ..gap_rule import Rule
from . import nets
from .nets import (
    asam,
    cgd,
    data,
    egr,
    fgr,
    gnp,
    gradient,
    guarded,
    loss,
    moved,
    norm,
    ratio,
    sam,
    start,
    usam,
)

TOLERANCE = {"float32": 1e-6, "float64": 1e-12}
STEPS = 6


def in_precision(dtype):
    return jax.enable_x64(True) if dtype == "float64" else nullcontext()


def same(found, wanted, dtype):
    for name, want in wanted.items():
        scale = max(1.0, np.abs(want).max())
        np.testing.assert_allclose(found[name], want, rtol=0, atol=TOLERANCE[dtype] * scale, err_msg=name)
        assert found[name].dtype == dtype


def ramp(k):
    return 0.02 + 0.03 * k


FORMULAS = {
    "rho": ({"rho": 0.3}, lambda p, b, k: sam(p, b, 0.3)),
    "rho, schedule": ({"rho": ramp}, lambda p, b, k: sam(p, b, ramp(k))),
    "rho, fraction": (
        {"rho": 0.3, "ascent_fraction": 1 / 4},
        lambda p, b, k: sam(p, b, 0.3, part=jax.tree.map(lambda a: a[np.array([0, 4, 8, 12])], b)),
    ),
    "lam": ({"lam": 0.05}, lambda p, b, k: cgd(p, b, 0.05)),
    "lam, negative": ({"lam": -0.05}, lambda p, b, k: cgd(p, b, -0.05)),
    "lam, at its limit": ({"lam": 0.6}, lambda p, b, k: cgd(p, b, 0.6)),
    "lam, schedule": ({"lam": ramp}, lambda p, b, k: cgd(p, b, ramp(k))),
    "alpha, schedule": ({"rho": 0.3, "alpha": ramp}, lambda p, b, k: gnp(p, b, 0.3, ramp(k))),
    "adaptive": ({"rho": 0.5, "adaptive": True}, lambda p, b, k: asam(p, b, 0.5, 0.01)),
    "not normalized": ({"rho": 0.2, "normalized": False}, lambda p, b, k: usam(p, b, 0.2)),
    "r": ({"lam": 0.125, "r": 0.1, "guard": False}, lambda p, b, k: fgr(p, b, 0.1, 0.25)),
    "exact": ({"lam": 0.06, "exact": True, "guard": False}, lambda p, b, k: egr(p, b, 0.06)),
    "exact, guard": (
        {"lam": -0.1, "exact": True},
        lambda p, b, k: guarded(gradient(p, b), egr(p, b, -0.1)),
    ),
}
"""What `value_and_grad` is called with, and its formula."""

TEN = {
    "sgd": optax.sgd(0.05),
    "nesterov": optax.sgd(0.05, momentum=0.9, nesterov=True),
    "adam": optax.adam(0.01),
    "adamw": optax.adamw(0.01),
    "rmsprop": optax.rmsprop(0.01),
    "adagrad": optax.adagrad(0.05),
    "adadelta": optax.adadelta(1.0),
    "adamax": optax.adamax(0.01),
    "nadam": optax.nadam(0.01),
    "radam": optax.radam(0.01),
}
FAMILY = {
    "SAM": (lambda base: so.sam(base, 0.3), lambda p, b, k: sam(p, b, 0.3)),
    "ASAM": (
        lambda base: so.sam(base, 0.5, adaptive=True, eta=0.1), lambda p, b, k: asam(p, b, 0.5, 0.1)),
    "GNP": (
        lambda base: so.sam(base, 0.3, alpha=L(0.1, 0.9, T=9)),
        lambda p, b, k: gnp(p, b, 0.3, 0.1 + 0.1 * min(k, 8))),
    "USAM": (lambda base: so.sam(base, 0.2, normalized=False), lambda p, b, k: usam(p, b, 0.2)),
    "CGD": (lambda base: so.cgd(base, 0.05), lambda p, b, k: cgd(p, b, 0.05)),
    "F-GR": (lambda base: so.cgd(base, 0.125, r=0.1, guard=False), lambda p, b, k: fgr(p, b, 0.1, 0.25)),
    "EGR": (lambda base: so.egr(base, 0.06), lambda p, b, k: egr(p, b, 0.06)),
    "exact": (
        lambda base: so.cgd(base, 0.06, exact=True),
        lambda p, b, k: guarded(gradient(p, b), egr(p, b, 0.06))),
}  # fmt: skip


EVERY = [
    pytest.param(method, base, marks=pytest.mark.slow if (i + j) % 5 else ())  # two bases of ten are fast
    for i, method in enumerate(FAMILY) for j, base in enumerate(TEN)
]  # fmt: skip


@pytest.mark.parametrize(("method", "base"), EVERY)
def test_twenty_steps_around_ten_bases_equal_the_formula(method, base):
    make, formula = FAMILY[method]
    with jax.enable_x64(True):
        batch, params, theirs = data(), start(), start()
        opt, bare = make(TEN[base]), TEN[base]
        state, other = opt.init(params), bare.init(theirs)
        step, update = jax.jit(lambda g, s, p: opt.update(g, s, p, grad_fn=nets.grad_of(batch))), bare.update
        for k in range(20):
            updates, state = step(nets.grad_of(batch)(params), state, params)
            params = optax.apply_updates(params, updates)
            d = {name: jnp.asarray(one) for name, one in formula(theirs, batch, k).items()}
            updates, other = update(d, other, theirs)
            theirs = optax.apply_updates(theirs, updates)
            same(params, {name: np.asarray(one) for name, one in theirs.items()}, "float64")


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", FORMULAS)
def test_the_gradient_is_the_formula(name, dtype):
    options, formula = FORMULAS[name]
    with in_precision(dtype):
        params, batch = start(dtype), data(dtype)
        called = jax.jit(so.value_and_grad(loss, **options))
        for k in range(3):
            step = {"step": k} if "schedule" in name else {}
            value, d = called(params, batch, **step)
            same(d, formula(params, batch, k), dtype)
            at = params
            if "fraction" in name:  # the loss of the whole batch, but at x + s
                g = gradient(params, jax.tree.map(lambda a: a[::4], batch))
                at = moved(params, 0.3 / norm(g), g)
            np.testing.assert_allclose(value, loss(at, batch), rtol=10 * TOLERANCE[dtype])
            params = jax.tree.map(lambda x, g: x - 0.05 * g, params, d)


def test_the_ratio_is_the_size_of_the_penalty():
    with jax.enable_x64(True):
        params, batch = start(), data()
        g, (_, d) = gradient(params, batch), jax.jit(so.value_and_grad(loss, ratio=0.3))(params, batch)
        assert norm({name: np.asarray(d[name]) - g[name] for name in g}) / norm(g) == pytest.approx(0.3)
        for name, want in ratio(params, batch, 0.3).items():
            np.testing.assert_allclose(d[name], want, atol=1e-8 * norm(g))


def test_the_direction_of_a_ratio_is_that_of_torch_in_float32():
    """tests/torch/test_formulas.py holds torch's to the same numbers."""
    x, f = jnp.asarray(ratio_rule.X), lambda x: 0.5 * (ratio_rule.A * (x - ratio_rule.M) ** 2).sum()
    opt, grad_fn = so.cgd(optax.identity(), ratio=0.3), jax.grad(f)
    updates, _ = opt.update(grad_fn(x), opt.init(x), x, grad_fn=grad_fn)
    for found in (jax.jit(so.value_and_grad(f, ratio=0.3))(x)[1], updates):
        np.testing.assert_allclose(found, ratio_rule.direction(0.3), rtol=1e-6)


def test_the_guard_replaces_what_does_not_descend():
    """With λ below 0 and curvature above, the difference turns the gradient around."""
    with jax.enable_x64(True):
        for lam, wanted in ((-0.001, 0.368), (-0.1, 0.4)):  # g − 2·0.001·40·g, and g
            _, d = so.value_and_grad(lambda x: 20 * ((x - 1) ** 2).sum(), lam=lam)(jnp.full(2, 1.01))
            np.testing.assert_allclose(d, [wanted, wanted])


def run(opt, dtype="float64", steps=STEPS, validation=None):
    params, batch, met = start(dtype), data(dtype), []
    state = opt.init(params)
    both = lambda p: nets.both(p, batch)  # noqa: E731
    extra = {"value_and_grad_fn": both} if validation else {"grad_fn": nets.grad_of(batch)}

    @jax.jit
    def step(params, state):
        g = nets.grad_of(jax.tree.map(lambda a: a[: 4 if validation else None], batch))(params)
        updates, state = opt.update(g, state, params, **({} if isinstance(state, so.MSAMState) else extra))
        return optax.apply_updates(params, updates), state

    for k in range(steps):
        if k in (validation or {}):
            state = so.record_validation_loss(state, validation[k])
        params, state = step(params, state)
        met.append(so.eval_params(state, params) if isinstance(state, so.MSAMState) else params)
    return met, state


def by_hand(direction, dtype="float64"):
    params, buffer, met = start(dtype), None, []
    for k in range(STEPS):
        d = direction(params, k, buffer)
        buffer = d if buffer is None else {n: np.asarray(0.9, dtype) * buffer[n] + d[n] for n in d}
        params = {name: jnp.asarray(value) for name, value in moved(params, -0.05, buffer).items()}
        met.append(params)
    return met


def momentum_sam(params, batch, rho, buffer):
    """The gradient is taken at x − ρ·v/‖v‖, and the base steps from x, whose decay it has."""
    at = params if buffer is None else moved(params, -rho / norm(buffer), buffer)
    d = gradient({name: jnp.asarray(v) for name, v in at.items()}, batch)
    return {name: d[name] + np.asarray(0.01, d[name].dtype) * params[name] for name in d}


SGD = optax.sgd(0.05, momentum=0.9)
TRANSFORMATIONS = {
    "sam": (so.sam(SGD, 0.3), lambda p, b, k, v: sam(p, b, 0.3)),
    "sam, schedule": (so.sam(SGD, ramp), lambda p, b, k, v: sam(p, b, ramp(k))),
    "cgd": (so.cgd(SGD, 0.05), lambda p, b, k, v: cgd(p, b, 0.05)),
    "msam": (
        so.msam(optax.chain(optax.add_decayed_weights(0.01), SGD), ramp),
        lambda p, b, k, v: momentum_sam(p, b, ramp(k), v),
    ),
}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_the_transformations_are_the_formulas(name, dtype):
    opt, formula = TRANSFORMATIONS[name]
    with in_precision(dtype):
        batch = data(dtype)
        wanted = by_hand(lambda p, k, buffer: formula(p, batch, k, buffer), dtype)
        for found, want in zip(run(opt, dtype)[0], wanted, strict=True):
            same(found, want, dtype)


def test_the_ratio_of_the_transformation_is_smoothed():
    with jax.enable_x64(True):
        seen, batch = [], data()
        found, _ = run(so.cgd(SGD, ratio=0.3))
        for name, want in by_hand(lambda p, k, _: ratio(p, batch, 0.3, seen))[-1].items():
            np.testing.assert_allclose(found[-1][name], want, atol=1e-7)


def rule_step(rule, params, batch, part):
    """Return the gradient that GapSAM's rule steps by."""
    s = None
    if rule.due() and rule.target() > 0:
        g = gradient(params, part)
        s = (rule.length(norm(g), norm(params)) / norm(g), g)
    at = params if s is None else {k: jnp.asarray(v) for k, v in moved(params, *s).items()}
    rule.ended(float(nets.both(at, batch)[0]), s is not None)
    return gradient(at, batch)


RULES = [(2, 0.3, (0.2, 0.3)), (3, 1.0, None), (2, 60.0, (0.4, 0.9))]


@pytest.mark.parametrize(("every", "strength", "gate"), RULES)
def test_gap_sam_is_its_rule(every, strength, gate):
    with jax.enable_x64(True):
        rule, batch, params, wanted, told = Rule(60, every, strength, gate), data(), start(), [], {}
        part = jax.tree.map(lambda a: a[:4], batch)
        for k in range(60):
            if k % 5 == 0:
                told[k] = 1.0 + float(nets.both(params, (batch[0], batch[1] + 0.4))[0])
                rule.tell("validation", told[k], 0.5)
            d = rule_step(rule, params, batch, part)
            params = {name: jnp.asarray(v) for name, v in moved(params, -0.02, d).items()}
            wanted.append(params)
        opt = so.gap_sam(optax.sgd(0.02), 60, every=every, strength=strength, gate=gate)
        found, state = run(opt, steps=60, validation=told)
        for one, want in zip(found, wanted, strict=True):
            same(one, want, "float64")
        report = state.report()
        assert report["perturbed"] == rule.perturbed >= 5
        assert report["gain"] == pytest.approx(rule.gain, rel=1e-9)
        assert report["training"] == pytest.approx(rule.mean("training"), rel=1e-9)
