"""Each form of the ascent step against its formula, written out in plain numbers."""

import json
import math
import subprocess
import sys
from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import steepen.optax as so

from . import nets
from .nets import cgd, data, gradient, loss, moved, norm, ratio, sam, start

TOLERANCE = {"float32": 1e-6, "float64": 1e-12}
STEPS = 6


def in_precision(dtype):
    return jax.enable_x64(True) if dtype == "float64" else nullcontext()


def same(found, wanted, dtype):
    """To the tolerance of the largest number, as rounding of a sum is."""
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
}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", FORMULAS)
def test_the_gradient_is_the_formula(name, dtype):
    options, formula = FORMULAS[name]
    with in_precision(dtype):
        params, batch = start(dtype), data(dtype)
        called = jax.jit(so.value_and_grad(loss, **options), static_argnames=())
        for k in range(3):
            step = {"step": k} if "schedule" in name else {}
            value, d = called(params, batch, **step)
            same(d, formula(params, batch, k), dtype)
            part = jax.tree.map(lambda a: a[::4], batch) if "fraction" in name else batch
            np.testing.assert_allclose(value, loss(params, part), rtol=10 * TOLERANCE[dtype])
            params = jax.tree.map(lambda x, g: x - 0.05 * g, params, d)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_ratio_is_the_size_of_the_penalty(dtype):
    """A difference loses digits, and ν multiplies what is left: hence the wider tolerance."""
    with in_precision(dtype):
        params, batch = start(dtype), data(dtype)
        g, (_, d) = gradient(params, batch), so.value_and_grad(loss, ratio=0.3)(params, batch)
        change = {name: np.asarray(d[name]) - g[name] for name in g}
        assert norm(change) / norm(g) == pytest.approx(0.3, rel=1e-5 if dtype == "float32" else 1e-12)
        tolerance = 3e-4 if dtype == "float32" else 1e-8
        for name, want in ratio(params, batch, 0.3).items():
            np.testing.assert_allclose(d[name], want, atol=tolerance * norm(g))


def test_the_guard_replaces_what_does_not_descend():
    """With λ below 0 and curvature above, the difference turns the gradient around."""
    with jax.enable_x64(True):
        params = jnp.array([1.01, 1.01])

        def f(x):
            return 20 * ((x - 1) ** 2).sum()

        _, d = so.value_and_grad(f, lam=-0.001)(params)
        np.testing.assert_allclose(d, [0.368, 0.368])  # g − 2·0.001·40·g
        _, d = so.value_and_grad(f, lam=-0.1)(params)
        np.testing.assert_allclose(d, [0.4, 0.4])


def run(opt, extra, steps=STEPS, dtype="float64", each=None):
    params, batch = start(dtype), data(dtype)
    state = opt.init(params)

    @jax.jit
    def step(params, state):
        updates, state = opt.update(jax.grad(loss)(params, batch), state, params, **extra(batch))
        return optax.apply_updates(params, updates), state

    for _ in range(steps):
        params, state = step(params, state)
        if each is not None:
            each(params, state)
    return params, state


def by_hand(direction, dtype="float64"):
    """Momentum SGD, as optax and torch both have it, along what a formula returns."""
    params, buffer = start(dtype), None
    for k in range(STEPS):
        d = direction(params, k)
        buffer = (
            d if buffer is None else {name: np.asarray(0.9, dtype) * buffer[name] + d[name] for name in d}
        )
        params = {name: jnp.asarray(moved(params, -0.05, buffer)[name]) for name in d}
    return params


def sgd():
    return optax.sgd(0.05, momentum=0.9)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_transformations_are_the_formulas(dtype):
    with in_precision(dtype):
        batch = data(dtype)

        def extra(batch):
            return {"grad_fn": lambda p: jax.grad(loss)(p, batch)}

        for opt, formula in (
            (so.sam(sgd(), 0.3), lambda p, k: sam(p, batch, 0.3)),
            (so.sam(sgd(), ramp), lambda p, k: sam(p, batch, ramp(k))),
            (so.cgd(sgd(), 0.05), lambda p, k: cgd(p, batch, 0.05)),
        ):
            same(run(opt, extra, dtype=dtype)[0], by_hand(formula, dtype), dtype)


def test_the_ratio_of_the_transformation_is_smoothed():
    with jax.enable_x64(True):
        seen, batch = [], data()
        opt = so.cgd(sgd(), ratio=0.3)
        found, _ = run(opt, lambda batch: {"grad_fn": lambda p: jax.grad(loss)(p, batch)})
        wanted = by_hand(lambda p, k: ratio(p, batch, 0.3, seen))
        for name, want in wanted.items():
            np.testing.assert_allclose(found[name], want, atol=1e-7)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_momentum_sam_is_its_formula(dtype):
    """The gradient is taken at x − ρ·v/‖v‖, and the base steps from x."""
    with in_precision(dtype):
        batch, buffer, params = data(dtype), None, start(dtype)
        wanted = []
        for k in range(STEPS):
            at = params if buffer is None else moved(params, -ramp(k) / norm(buffer), buffer)
            d = gradient({name: jnp.asarray(v) for name, v in at.items()}, batch)
            d = {name: d[name] + np.asarray(0.01, dtype) * params[name] for name in d}  # decay is that of x
            buffer = d if buffer is None else {n: np.asarray(0.9, dtype) * buffer[n] + d[n] for n in d}
            params = moved(params, -0.05, buffer)
            wanted.append(params)
        opt = so.msam(optax.chain(optax.add_decayed_weights(0.01), sgd()), ramp)
        found = []
        run(opt, lambda _: {}, dtype=dtype, each=lambda p, s: found.append(so.eval_params(s, p)))
        for one, want in zip(found, wanted, strict=True):
            same(one, want, dtype)


class Rule:
    """GapSAM in Python's numbers, with every value that was told."""

    def __init__(self, steps, every, strength, gate):
        self.steps, self.every, self.strength, self.gate = steps, every, strength, gate
        self.new, self.new_training = max(0.03, 10 / steps), min(max(0.03, 60 / steps), 0.5)
        self.told, self.gain, self.last, self.k, self.perturbed = {}, 1.0, math.nan, 0, 0

    def tell(self, name, value, weight):
        self.told.setdefault(name, []).append((value, weight))

    def mean(self, name):
        told = list(reversed(self.told.get(name, [])))
        weights = [(1 - weight) ** i for i, (_, weight) in enumerate(told)]
        return (
            sum(w * v for w, (v, _) in zip(weights, told, strict=True)) / sum(weights) if told else math.nan
        )

    def target(self):
        gap, part = (
            self.mean("validation") - self.mean("training"),
            self.strength * min(self.k / (self.steps - 1), 1),
        )
        opening = 1.0
        if self.gate is not None:
            low, high = self.gate
            opening = min(max((gap / self.mean("validation") - low) / (high - low), 0.0), 1.0)
        return max(part * gap * opening, 0.0), opening

    def step(self, params, batch, part):
        (target, opening), s = self.target(), None
        if self.k % self.every == 0 and self.k >= self.steps / 3 and target > 0 and opening > 0:
            g = gradient(params, part)
            n, before = norm(g), self.mean("square")
            typical = n if math.isnan(before) else max(n, math.sqrt(before))
            length = min(self.gain * target / typical, 0.1 * norm(params))
            self.tell("square", n * n, 0.1)
            self.tell("target", target, self.new)
            self.perturbed += 1
            s = (length / n, g)
        at = params if s is None else {k: jnp.asarray(v) for k, v in moved(params, *s).items()}
        value, d = float(loss(at, batch)), gradient(at, batch)
        if s is None:
            self.tell("training", value, self.new_training)
            self.last = value
        else:
            rise = value - self.last
            self.tell("rise", rise, self.new)
            self.tell("rise_square", rise * rise, self.new)
            seen, square, wanted = (self.mean(name) for name in ("rise", "rise_square", "target"))
            error = math.sqrt(self.new / 2 * max(square - seen * seen, 0.0))
            move = max(-4.0, min((wanted - seen) / max(wanted, error), 1.0))
            self.gain = min(max(self.gain * math.exp(0.03 * move), 0.02), 100.0)
        self.k += 1
        return d


@pytest.mark.parametrize(
    ("every", "strength", "gate"), [(2, 0.3, (0.2, 0.3)), (3, 1.0, None), (2, 60.0, (0.4, 0.9))]
)
def test_gap_sam_is_its_rule(every, strength, gate):
    steps = 60
    with jax.enable_x64(True):
        rule, batch = Rule(steps, every, strength, gate), data()
        part = jax.tree.map(lambda a: a[:4], batch)
        opt = so.gap_sam(optax.sgd(0.02), steps, every=every, strength=strength, gate=gate)
        ours = theirs = start()
        state = opt.init(ours)

        @jax.jit
        def step(params, state):
            g = jax.grad(loss)(params, part)
            value_and_grad_fn = lambda p: jax.value_and_grad(loss)(p, batch)  # noqa: E731
            updates, state = opt.update(g, state, params, value_and_grad_fn=value_and_grad_fn)
            return optax.apply_updates(params, updates), state

        for k in range(steps):
            if k % 5 == 0:
                validation = 1.0 + float(loss(theirs, (batch[0], batch[1] + 0.4)))
                state = so.record_validation_loss(state, validation)
                rule.tell("validation", validation, 0.5)
            d = rule.step(theirs, batch, part)
            theirs = {name: jnp.asarray(v) for name, v in moved(theirs, -0.02, d).items()}
            ours, state = step(ours, state)
            same(ours, theirs, "float64")
        report = state.report()
        assert report["perturbed"] == rule.perturbed >= 5
        assert report["gain"] == pytest.approx(rule.gain, rel=1e-9)
        assert report["training"] == pytest.approx(rule.mean("training"), rel=1e-9)


def test_the_gate_is_that_of_its_table():
    """It opens from a fifth of the validation loss to three tenths."""
    from steepen._core.ascent import GATE, opening

    gaps = jnp.array([0.1, 0.2, 0.25, 0.3, 0.9])
    np.testing.assert_allclose(opening(gaps, jnp.ones(5), GATE), [0, 0, 0.5, 1, 1], atol=1e-6)


TORCH = """
import json, sys, torch
from steepen.torch import CGD, SAM, GapSAM
from steepen.torch.paper import MSAM
given = json.loads(sys.argv[1])
x, y = (torch.tensor(given[k], dtype=torch.float64) for k in "xy")
found = {}
for name, make in {
    "sam": lambda base, model: SAM(base, model, 0.3),
    "cgd": lambda base, model: CGD(base, model, 0.05),
    "ratio": lambda base, model: CGD(base, model, ratio=0.3),
    "msam": lambda base, model: MSAM(base, model, 0.3),
    "gap": lambda base, model: GapSAM(base, model, None, 60, share=1 / 4, strength=0.3),
}.items():
    start = {k: torch.tensor(v, dtype=torch.float64) for k, v in given["start"].items()}
    model = torch.nn.ParameterDict({k: torch.nn.Parameter(v) for k, v in start.items()})
    def loss(x, y):
        out = torch.tanh(x @ model["a"].T + model["b"]) @ model["c"].T + model["d"]
        return 3 * (out - y).square().mean()
    opt = make(torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9), model)
    for k in range(60):
        if name == "gap":
            opt.saw_held_out(6 + 3 * 0.9**k)
        opt.step_on(loss, x, y)
    found[name] = {k: p.tolist() for k, p in model.items()}
    if name == "gap":
        found["report"] = {"perturbed": opt.report().probed, "training": opt.report().training}
print(json.dumps(found))
"""


@pytest.mark.slow
def test_they_are_the_optimizers_of_torch():
    pytest.importorskip("torch")
    given = {
        "x": nets.X.tolist(),
        "y": nets.Y.tolist(),
        "start": {k: v.tolist() for k, v in nets.START.items()},
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TORCH, json.dumps(given)],
        capture_output=True,
        text=True,
        check=True,
    )
    theirs = json.loads(done.stdout)
    with jax.enable_x64(True):
        batch, base = data(), optax.sgd(0.02, momentum=0.9)
        part = jax.tree.map(lambda a: a[:4], batch)
        for name, opt in {
            "sam": so.sam(base, 0.3),
            "cgd": so.cgd(base, 0.05),
            "ratio": so.cgd(base, ratio=0.3),
            "msam": so.msam(base, 0.3),
            "gap": so.gap_sam(base, 60, strength=0.3, gate=None),
        }.items():
            params = start()
            state = opt.init(params)

            @jax.jit
            def step(params, state, opt=opt, name=name):
                both = lambda p: jax.value_and_grad(loss)(p, batch)  # noqa: E731
                extra = {"value_and_grad_fn": both} if name == "gap" else {"grad_fn": lambda p: both(p)[1]}
                g = jax.grad(loss)(params, part if name == "gap" else batch)
                updates, state = opt.update(g, state, params, **({} if name == "msam" else extra))
                return optax.apply_updates(params, updates), state

            for k in range(60):
                if name == "gap":
                    state = so.record_validation_loss(state, 6 + 3 * 0.9**k)
                params, state = step(params, state)
            params = so.eval_params(state, params) if name == "msam" else params
            for key, value in params.items():
                np.testing.assert_allclose(value, theirs[name][key], atol=1e-6, err_msg=f"{name} {key}")
            if name == "gap":
                assert state.report()["perturbed"] == theirs["report"]["perturbed"] > 10
                assert state.report()["training"] == pytest.approx(theirs["report"]["training"], rel=1e-6)
