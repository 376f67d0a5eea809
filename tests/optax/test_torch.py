"""GapSAM of both libraries beside each other: the same network, batches and validation losses."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import steepen.optax as so

torch = pytest.importorskip("torch")

STEPS, BATCH, SHARE = 150, 16, 1 / 4


def examples(n, seed):
    """Return examples whose labels are half chance: what is learnt by heart opens a gap."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, 6))
    return x, (x[:, 0] + 1.5 * random.normal(size=n) > 0).astype(int)


X, Y = examples(96, 0)  # the last third is for validation, until three quarters of the run
ROWS = [np.random.default_rng(k).choice(64 if k < 110 else 96, BATCH, replace=False) for k in range(STEPS)]


def rate(gradients):
    return 0.3 * (1 - gradients / STEPS)


def by_torch(weights, **options):
    """Return, of every step, the weights after it and whether it had an ascent step; and what was read."""
    from torch.nn.functional import cross_entropy

    from steepen.torch import GapSAM

    x, y = torch.from_numpy(X), torch.from_numpy(Y)
    model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.Tanh(), torch.nn.Linear(12, 2)).double()
    with torch.no_grad():
        for p, value in zip(model.parameters(), weights, strict=True):
            p.copy_(torch.from_numpy(value))
    base = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9, weight_decay=1e-3)
    read, met, ups = {}, [], []

    def validation():
        loss = cross_entropy(model(x[64:]), y[64:])
        read[opt.k] = float(loss)
        return loss

    opt = GapSAM(base, model, validation, STEPS, ascent_fraction=SHARE, **options)
    for k, rows in enumerate(ROWS):
        if k == 110:
            opt.validation = None
        opt.param_groups[0]["lr"], before = rate(k + SHARE * opt.perturbed), opt.perturbed
        opt.step_on(lambda x, y: cross_entropy(model(x), y), x[rows], y[rows])
        met.append([p.detach().numpy().copy() for p in model.parameters()])
        ups.append(opt.perturbed > before)
    return met, ups, read, opt.report()


def by_optax(weights, read, **options):
    """Return the same, with the validation losses that torch has read."""
    base = optax.chain(optax.add_decayed_weights(1e-3), optax.sgd(1.0, momentum=0.9))
    opt = so.gap_sam(base, STEPS, **options)

    def loss(p, rows):
        scores = jnp.tanh(jnp.asarray(X)[rows] @ p[0].T + p[1]) @ p[2].T + p[3]
        return optax.losses.softmax_cross_entropy_with_integer_labels(scores, jnp.asarray(Y)[rows]).mean()

    @jax.jit
    def step(p, state, rows):
        both = jax.value_and_grad(lambda p: loss(p, rows))
        g = jax.grad(loss)(p, rows[: round(SHARE * BATCH)])
        updates, new = opt.update(g, state, p, value_and_grad_fn=both)
        lr = rate(state.steps + SHARE * state.perturbed)
        return optax.apply_updates(p, jax.tree.map(lambda u: lr * u, updates)), new

    p, met, ups = [jnp.asarray(value) for value in weights], [], []
    state = opt.init(p)
    for k, rows in enumerate(ROWS):
        if k in read:
            state = so.record_validation_loss(state, loss(p, np.arange(64, 96)))
        before = state.perturbed
        p, state = step(p, state, jnp.asarray(rows))
        met.append([np.asarray(value) for value in p])
        ups.append(bool(state.perturbed > before))
    return met, ups, state.report()


@pytest.mark.parametrize(("every", "gate", "strength"), [(2, (0.2, 0.3), 1.0), (3, None, 0.2)])
def test_gap_sam_is_that_of_torch_where_it_reads_the_same_validation_losses(every, gate, strength):
    """From the first ascent step to the last: weight decay, momentum, schedule and the data's return too.

    In torch the numbers that set the length are in float32.
    """
    random = np.random.default_rng(1)
    weights = [random.normal(size=shape) / 2 for shape in ((12, 6), (12,), (2, 12), (2,))]
    options = {"every": every, "gate": gate, "strength": strength}
    met, ups, read, theirs = by_torch(weights, **options)
    with jax.enable_x64(True):
        found, mine, ours = by_optax(weights, read, **options)
    assert mine == ups
    assert sum(ups) >= 25
    for one, want in zip(found, met, strict=True):
        for a, b in zip(one, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=2e-4)
    for name in ("training", "validation", "target", "rise", "length", "bound"):
        assert ours[name] == pytest.approx(getattr(theirs, name), rel=1e-3, abs=1e-6), name
