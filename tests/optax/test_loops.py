"""What users put around a gradient: clipping, accumulation, devices, dropout, aux, checkpoints."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import steepen.optax as so

from .nets import data, loss, start


def both_of(params, batch):
    return jax.value_and_grad(loss)(params, batch)


def same(a, b, **tolerance):
    jax.tree.map(partial(np.testing.assert_allclose, **({"rtol": 1e-5, "atol": 1e-6} | tolerance)), a, b)


def steps(opt, gradient, batches, params=None, **extra):
    params = start("float32") if params is None else params
    state = opt.init(params)
    for batch in batches:
        g = gradient(params, batch)
        updates, state = opt.update(g, state, params, **extra)
        params = optax.apply_updates(params, updates)
    return params, state


def test_what_is_clipped_is_what_is_stepped():
    params, batch = start("float32"), data("float32")
    _, d = so.value_and_grad(loss, lam=0.05)(params, batch)
    opt = optax.chain(optax.clip_by_global_norm(0.1), optax.sgd(1.0))
    updates, _ = opt.update(d, opt.init(params), params)
    same(updates, jax.tree.map(lambda x: -0.1 * x / optax.tree.norm(d), d))
    inside = so.cgd(opt, 0.05)
    g, grad_fn = jax.grad(loss)(params, batch), lambda p: jax.grad(loss)(p, batch)
    found, _ = inside.update(g, inside.init(params), params, grad_fn=grad_fn)
    same(found, updates)


def test_accumulation_is_the_mean_of_what_is_stepped():
    batch = data("float32")
    micros = [jax.tree.map(lambda a, i=i: a[i::4], batch) for i in range(4)]
    gradient = so.value_and_grad(loss, rho=0.1)
    opt = optax.MultiSteps(optax.sgd(0.1), every_k_schedule=4)
    found, _ = steps(opt, lambda p, b: gradient(p, b)[1], micros)
    params = start("float32")
    mean = jax.tree.map(lambda *gs: sum(gs) / 4, *[gradient(params, micro)[1] for micro in micros])
    same(found, jax.tree.map(lambda x, g: x - 0.1 * g, params, mean))


def test_any_extra_argument_reaches_the_base():
    """optax.contrib.sam refuses `value`, which reduce_on_plateau needs."""
    params, batch = start("float32"), data("float32")
    plateau = optax.contrib.reduce_on_plateau(factor=0.5, patience=1, accumulation_size=1)
    g = jax.grad(loss)(params, batch)
    grad_fn = lambda p: jax.grad(loss)(p, batch)  # noqa: E731
    for opt, extra in (
        (so.sam(optax.chain(optax.sgd(0.1), plateau), 0.1), {"grad_fn": grad_fn}),
        (so.cgd(optax.chain(optax.sgd(0.1), plateau), 0.1), {"grad_fn": grad_fn}),
        (so.msam(optax.chain(optax.sgd(0.1, momentum=0.9), plateau), 0.1), {}),
        (
            so.gap_sam(optax.chain(optax.sgd(0.1), plateau), 20),
            {"value_and_grad_fn": lambda p: both_of(p, batch)},
        ),
    ):
        state = opt.init(params)
        for _ in range(4):
            _, state = opt.update(g, state, params, value=1.0, **extra)
        assert float(optax.tree.get(state, "scale")) < 1, opt


def test_a_chain_around_a_transformation_hands_on_what_it_needs():
    params, batch = start("float32"), data("float32")
    opt = optax.chain(optax.identity(), so.sam(optax.sgd(0.1), 0.1))
    grad_fn = lambda p: jax.grad(loss)(p, batch)  # noqa: E731
    updates, _ = opt.update(grad_fn(params), opt.init(params), params, grad_fn=grad_fn)
    same(updates, jax.tree.map(lambda g: -0.1 * g, so.value_and_grad(loss, rho=0.1)(params, batch)[1]))


def test_dropout_has_one_mask_and_aux_is_that_of_the_clean_pass():
    seen = []

    def noisy(params, batch, key, *, rate):
        kept = jax.random.bernoulli(key, 1 - rate, (4,))
        value = loss(params | {"b": params["b"] * kept}, batch)
        jax.debug.callback(lambda k: seen.append(np.asarray(k)), kept)
        return value, {"kept": kept, "loss": value}

    params, batch, key = start("float32"), data("float32"), jax.random.key(3)
    gradient = so.value_and_grad(noisy, rho=0.5, has_aux=True)
    (value, aux), _ = gradient(params, batch, key, rate=0.5)
    jax.effects_barrier()
    assert len(seen) == 2
    np.testing.assert_array_equal(*seen)
    clean, said = noisy(params, batch, key, rate=0.5)
    same((value, aux["loss"]), (clean, said["loss"]))


def test_a_loss_without_rng_needs_none_and_one_that_it_does_not_take_is_refused():
    params, batch = start("float32"), data("float32")
    gradient = so.value_and_grad(loss, rho=0.1)
    assert gradient(params, batch)[0] > 0
    with pytest.raises(TypeError, match="rng"):
        gradient(params, batch, rng=jax.random.key(0))


def test_sharded_over_devices_it_is_what_it_is_on_one():
    devices = jax.devices()[:2]
    if len(devices) < 2:
        pytest.skip("one device")
    mesh = Mesh(np.array(devices), ("data",))
    rows, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())
    params, batch = start("float32"), data("float32")
    for options in ({"rho": 0.3}, {"rho": 0.3, "ascent_fraction": 1 / 4}, {"lam": 0.05}):
        gradient = so.value_and_grad(loss, **options)
        wanted = gradient(params, batch)
        found = jax.jit(gradient)(jax.device_put(params, everywhere), jax.device_put(batch, rows))
        same(found, wanted)
        # inside shard_map each device has its rows, and gradients are averaged by name
        if "ascent_fraction" in options:
            continue
        split = jax.shard_map(
            so.value_and_grad(loss, axis_name="data", **options),
            mesh=mesh,
            in_specs=(PartitionSpec(), PartitionSpec("data")),
            out_specs=PartitionSpec(),
            check_vma=False,
        )
        same(jax.jit(split)(params, batch), wanted)


def test_under_pmap_gradients_are_averaged_by_the_name_of_the_axis():
    if len(jax.devices()) < 2:
        pytest.skip("one device")
    params, batch = start("float32"), data("float32")
    halves = jax.tree.map(lambda a: a.reshape(2, -1, *a.shape[1:]), batch)
    copies = jax.tree.map(lambda a: jnp.stack([a, a]), params)
    gradient = so.value_and_grad(loss, rho=0.3, axis_name="devices")
    found = jax.pmap(gradient, "devices", devices=jax.devices()[:2])(copies, halves)
    same(jax.tree.map(lambda a: a[1], found), so.value_and_grad(loss, rho=0.3)(params, batch))


def test_seeds_are_mapped_over():
    params, batch = start("float32"), data("float32")
    many = jax.tree.map(lambda a: jnp.stack([a, 2 * a]), params)
    found = jax.vmap(so.value_and_grad(loss, ratio=0.3), (0, None))(many, batch)
    wanted = so.value_and_grad(loss, ratio=0.3)(jax.tree.map(lambda a: 2 * a, params), batch)
    same(jax.tree.map(lambda a: a[1], found), wanted, rtol=1e-3, atol=1e-3)


def test_a_mask_says_which_parameters_are_perturbed():
    params, batch = start("float32"), data("float32")
    mask = {"a": True, "b": True, "c": False, "d": False}
    assert so.perturbed(params, mask) == ["['a']", "['b']"]
    assert so.perturbed(params, lambda p: {k: k == "d" for k in p}) == ["['d']"]
    g = jax.grad(loss)(params, batch)
    n = float(jnp.sqrt(sum((g[k] ** 2).sum() for k in "ab")))
    at = params | {k: params[k] + 0.3 / n * g[k] for k in "ab"}
    same(so.value_and_grad(loss, rho=0.3, mask=mask)(params, batch)[1], jax.grad(loss)(at, batch))


def test_parameters_of_mixed_precision_keep_theirs():
    params = start("float32")
    params["a"] = params["a"].astype(jnp.bfloat16)
    for options in ({"rho": 0.1}, {"lam": 0.05}, {"ratio": 0.3}):
        _, d = so.value_and_grad(loss, **options)(params, data("float32"))
        assert jax.tree.map(lambda g: g.dtype, d) == jax.tree.map(lambda x: x.dtype, params)
        assert all(bool(jnp.isfinite(g).all()) for g in jax.tree.leaves(d))
    opt = so.msam(optax.adam(0.1))
    _, state = steps(opt, lambda p, b: jax.grad(loss)(p, b), [data("float32")] * 2, params)
    assert state.params["a"].dtype == jnp.bfloat16


@pytest.mark.parametrize("options", [{"rho": 0.1}, {"lam": 0.1}, {"ratio": 0.3}])
def test_where_there_is_no_direction_the_step_is_the_bare_one(options):
    """A gradient of zero, and with `ratio` one that does not change: a linear loss."""
    flat, tilted = (lambda x: 0.0 * x.sum() + 1.0), (lambda x: (x * jnp.arange(3.0)).sum())
    for f in (flat, tilted):
        _, d = so.value_and_grad(f, **options)(jnp.ones(3))
        np.testing.assert_array_equal(d, jax.grad(f)(jnp.ones(3)))
    opt = so.cgd(optax.sgd(1.0), ratio=0.3)
    updates, state = opt.update(
        jax.grad(tilted)(jnp.ones(3)), opt.init(jnp.ones(3)), jnp.ones(3), grad_fn=jax.grad(tilted)
    )
    np.testing.assert_array_equal(updates, -jnp.arange(3.0))
    assert state.change.weight == 0


def test_nan_is_seen_by_the_base_and_leaves_no_trace_in_our_means():
    """Such as a return that is NaN: `apply_if_finite` skips the step, and the next is as ever."""
    params, batch = start("float32"), data("float32")
    bad = jax.tree.map(lambda a: a * jnp.nan, batch)
    base = optax.apply_if_finite(optax.sgd(0.1), 5)
    for opt in (so.cgd(base, ratio=0.3), so.gap_sam(base, 20)):
        state = opt.init(params)
        if isinstance(state, so.GapSAMState):
            state = so.record_validation_loss(so.record_validation_loss(state, 9.0), jnp.nan)
        at = params
        for k in range(20):
            now = bad if k in (3, 9, 10) else batch
            extra = {"value_and_grad_fn": lambda p, now=now: both_of(p, now)}
            extra = (
                extra
                if isinstance(state, so.GapSAMState)
                else {"grad_fn": lambda p, now=now: both_of(p, now)[1]}
            )
            updates, state = opt.update(jax.grad(loss)(at, now), state, at, **extra)
            at = optax.apply_updates(at, updates)
        assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves((at, state.base)))
        kept = state.change if isinstance(state, so.CGDState) else (state.gain, state.means)
        assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves(kept))


TRANSFORMATIONS = {
    "sam": lambda: so.sam(optax.adam(0.1), 0.1),
    "cgd": lambda: so.cgd(optax.adam(0.1), ratio=0.3),
    "msam": lambda: so.msam(optax.adam(0.1), 0.1),
    "gap_sam": lambda: so.gap_sam(optax.adam(0.1), 20),
}


def advanced(opt, params, state, steps):
    batch = data("float32")
    for k in range(steps):
        extra = {"grad_fn": lambda p: both_of(p, batch)[1]}
        if isinstance(state, so.GapSAMState):
            state = so.record_validation_loss(state, 5.0 + k)
            extra = {"value_and_grad_fn": lambda p: both_of(p, batch)}
        extra = {} if isinstance(state, so.MSAMState) else extra
        updates, state = opt.update(jax.grad(loss)(params, batch), state, params, **extra)
        params = optax.apply_updates(params, updates)
    return params, state


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_a_run_goes_on_from_a_pytree_bit_for_bit(name):
    """Leaves as NumPy arrays, as any way of saving keeps them, in the structure of init."""
    opt, params = TRANSFORMATIONS[name](), start("float32")
    halfway = advanced(opt, params, opt.init(params), 8)
    whole = advanced(opt, *halfway, 6)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(halfway)]
    restored = jax.tree.unflatten(jax.tree.structure((params, opt.init(params))), map(jnp.asarray, leaves))
    jax.tree.map(np.testing.assert_array_equal, advanced(opt, *restored, 6), whole)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_goes_on_from_a_checkpoint_of_orbax(tmp_path):
    ocp = pytest.importorskip("orbax.checkpoint")
    for name, make in TRANSFORMATIONS.items():
        opt, params = make(), start("float32")
        halfway = advanced(opt, params, opt.init(params), 4)
        with ocp.StandardCheckpointer() as saver:
            saver.save(tmp_path / name, halfway)
            saver.wait_until_finished()
            restored = saver.restore(tmp_path / name, (params, opt.init(params)))
        assert type(restored[1]) is type(halfway[1])
        jax.tree.map(np.testing.assert_array_equal, advanced(opt, *restored, 3), advanced(opt, *halfway, 3))
