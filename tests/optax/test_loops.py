"""What users put around a gradient: clipping, accumulation, devices, dropout, aux, checkpoints."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import steepen.optax as so

from .nets import both, data, grad_of, loss, start

PARAMS, BATCH = start("float32"), data("float32")
GRADIENT = grad_of(BATCH)
EXTRA = {"grad_fn": GRADIENT}


def same(a, b, **tolerance):
    jax.tree.map(partial(np.testing.assert_allclose, **({"rtol": 1e-5, "atol": 1e-6} | tolerance)), a, b)


@cache
def step_of(opt, **extra):
    """Return a step of a transformation, with what it needs, compiled once."""

    @jax.jit
    def step(params, state, batch):
        given = {"grad_fn": grad_of(batch)}
        if isinstance(state, so.GapSAMState):
            given = {"value_and_grad_fn": lambda p: both(p, batch)}
        given = {} if isinstance(state, so.MSAMState) else given
        updates, state = opt.update(grad_of(batch)(params), state, params, **given, **extra)
        return optax.apply_updates(params, updates), state

    return step


def advanced(opt, params=PARAMS, state=None, steps=6, batches=None, told=None, **extra):
    """Take steps, on batches by their number."""
    state = opt.init(params) if state is None else state
    for k in range(steps):
        if isinstance(state, so.GapSAMState):
            state = so.record_validation_loss(state, (told or {}).get(k, 5.0 + k))
        params, state = step_of(opt, **extra)(params, state, (batches or {}).get(k, BATCH))
    return params, state


def test_what_is_clipped_is_what_is_stepped():
    _, d = so.value_and_grad(loss, lam=0.05)(PARAMS, BATCH)
    opt = optax.chain(optax.clip_by_global_norm(0.1), optax.sgd(1.0))
    updates, _ = opt.update(d, opt.init(PARAMS), PARAMS)
    same(updates, jax.tree.map(lambda x: -0.1 * x / optax.tree.norm(d), d))
    inside = so.cgd(opt, 0.05)
    same(inside.update(GRADIENT(PARAMS), inside.init(PARAMS), PARAMS, **EXTRA)[0], updates)


def test_accumulation_is_the_mean_of_what_is_stepped():
    micros = [jax.tree.map(lambda a, i=i: a[i::4], BATCH) for i in range(4)]
    gradient = jax.jit(so.value_and_grad(loss, rho=0.1))
    opt, found = optax.MultiSteps(optax.sgd(0.1), every_k_schedule=4), PARAMS
    state = opt.init(found)
    for micro in micros:
        updates, state = opt.update(gradient(found, micro)[1], state, found)
        found = optax.apply_updates(found, updates)
    mean = jax.tree.map(lambda *gs: sum(gs) / 4, *[gradient(PARAMS, micro)[1] for micro in micros])
    same(found, jax.tree.map(lambda x, g: x - 0.1 * g, PARAMS, mean))


def test_any_extra_argument_reaches_the_base():
    """optax.contrib.sam refuses `value`, which reduce_on_plateau needs."""
    plateau = optax.contrib.reduce_on_plateau(factor=0.5, patience=1, accumulation_size=1)
    base = optax.chain(optax.sgd(0.1, momentum=0.9), plateau)
    for opt in (so.sam(base, 0.1), so.cgd(base, 0.1), so.msam(base, 0.1), so.gap_sam(base, 20)):
        _, state = advanced(opt, steps=4, value=1.0)
        assert float(optax.tree.get(state, "scale")) < 1, opt


def test_a_chain_around_a_transformation_hands_on_what_it_needs():
    opt = optax.chain(optax.identity(), so.sam(optax.sgd(0.1), 0.1))
    updates, _ = opt.update(GRADIENT(PARAMS), opt.init(PARAMS), PARAMS, **EXTRA)
    same(updates, jax.tree.map(lambda g: -0.1 * g, so.value_and_grad(loss, rho=0.1)(PARAMS, BATCH)[1]))


def test_dropout_has_one_mask_and_aux_is_that_of_the_clean_pass():
    seen = []

    def noisy(params, batch, key, *, rate):
        kept = jax.random.bernoulli(key, 1 - rate, (4,))
        value = loss(params | {"b": params["b"] * kept}, batch)
        jax.debug.callback(lambda k: seen.append(np.asarray(k)), kept)
        return value, {"kept": kept, "loss": value}

    given = PARAMS, BATCH, jax.random.key(3)
    (value, aux), _ = so.value_and_grad(noisy, rho=0.5, has_aux=True)(*given, rate=0.5)
    jax.effects_barrier()
    assert len(seen) == 2
    np.testing.assert_array_equal(*seen)
    clean, said = noisy(*given, rate=0.5)
    same((value, aux["loss"]), (clean, said["loss"]))


def test_an_argument_that_the_loss_does_not_take_is_refused():
    with pytest.raises(TypeError, match="rng"):
        so.value_and_grad(loss, rho=0.1)(PARAMS, BATCH, rng=jax.random.key(0))


def closed_over_a_batch(**options):
    return lambda params, batch: so.value_and_grad(lambda x: loss(x, batch), **options)(params)


two_devices = pytest.mark.skipif(len(jax.devices()) < 2, reason="one device")


@two_devices
def test_sharded_over_devices_it_is_what_it_is_on_one():
    mesh = Mesh(np.array(jax.devices()[:2]), ("data",))
    everywhere, by_rows = PartitionSpec(), PartitionSpec("data")
    params = jax.device_put(PARAMS, NamedSharding(mesh, everywhere))
    batch = jax.device_put(BATCH, NamedSharding(mesh, by_rows))
    for options in ({"rho": 0.3}, {"rho": 0.3, "ascent_fraction": 1 / 4}, {"lam": 0.05}):
        wanted = jax.jit(so.value_and_grad(loss, **options))(PARAMS, BATCH)
        same(jax.jit(so.value_and_grad(loss, **options))(params, batch), wanted)
        if "ascent_fraction" in options:
            continue
        # inside shard_map each device has its rows, and gradients are averaged by name
        named, specs = so.value_and_grad(loss, axis_name="data", **options), (everywhere, by_rows)
        for check in (True, False):  # with the check JAX sums by itself what all devices share
            for one in (named, closed_over_a_batch(axis_name="data", **options)):
                split = jax.shard_map(one, mesh=mesh, in_specs=specs, out_specs=everywhere, check_vma=check)
                same(jax.jit(split)(PARAMS, BATCH), wanted)


def test_seeds_are_mapped_over():
    many = jax.tree.map(lambda a: jnp.stack([a, 2 * a]), PARAMS)
    gradient = so.value_and_grad(loss, ratio=0.3)
    found = jax.jit(jax.vmap(gradient, (0, None)))(many, BATCH)
    wanted = jax.jit(gradient)(jax.tree.map(lambda a: 2 * a, PARAMS), BATCH)
    same(jax.tree.map(lambda a: a[1], found), wanted, rtol=1e-3, atol=1e-3)


def test_a_mask_says_which_parameters_are_perturbed():
    mask = {"a": True, "b": True, "c": False, "d": False}
    assert so.perturbed(PARAMS, mask) == ["['a']", "['b']"]
    assert so.perturbed(PARAMS, lambda p: {k: k == "d" for k in p}) == ["['d']"]
    g = GRADIENT(PARAMS)
    n = float(jnp.sqrt(sum((g[k] ** 2).sum() for k in "ab")))
    at = PARAMS | {k: PARAMS[k] + 0.3 / n * g[k] for k in "ab"}
    same(so.value_and_grad(loss, rho=0.3, mask=mask)(PARAMS, BATCH)[1], GRADIENT(at))


def test_parameters_of_mixed_precision_keep_theirs():
    params = PARAMS | {"a": PARAMS["a"].astype(jnp.bfloat16)}
    for options in ({"rho": 0.1}, {"lam": 0.05}, {"ratio": 0.3}):
        _, d = jax.jit(so.value_and_grad(loss, **options))(params, BATCH)
        assert jax.tree.map(lambda g: g.dtype, d) == jax.tree.map(lambda x: x.dtype, params)
        assert all(bool(jnp.isfinite(g).all()) for g in jax.tree.leaves(d))
    _, state = advanced(so.msam(optax.adam(0.1)), params, steps=2)
    assert state.params["a"].dtype == jnp.bfloat16


@pytest.mark.parametrize("options", [{"rho": 0.1}, {"lam": 0.1}, {"ratio": 0.3}])
def test_where_there_is_no_direction_the_step_is_the_bare_one(options):
    flat, tilted = lambda x: 0.0 * x.sum() + 1.0, lambda x: (x * jnp.arange(3.0)).sum()
    for f in (flat, tilted):
        _, d = so.value_and_grad(f, **options)(jnp.ones(3))
        np.testing.assert_array_equal(d, jax.grad(f)(jnp.ones(3)))
    opt = so.cgd(optax.sgd(1.0), ratio=0.3)
    grad_fn = jax.grad(tilted)
    updates, state = opt.update(grad_fn(jnp.ones(3)), opt.init(jnp.ones(3)), jnp.ones(3), grad_fn=grad_fn)
    np.testing.assert_array_equal(updates, -jnp.arange(3.0))
    assert state.change.weight == 0


def test_nan_is_seen_by_the_base_and_leaves_no_trace_in_our_means():
    bad = jax.tree.map(lambda a: a * jnp.nan, BATCH)
    base = optax.apply_if_finite(optax.sgd(0.1), 5)
    for opt in (so.cgd(base, ratio=0.3), so.gap_sam(base, 20)):
        end, state = advanced(
            opt, steps=20, batches=dict.fromkeys((3, 9, 10), bad), told={0: 9.0, 1: jnp.nan}
        )
        kept = state.change if isinstance(state, so.CGDState) else (state.gain, state.means)
        assert all(bool(jnp.isfinite(x).all()) for x in jax.tree.leaves((end, state.base, kept)))


ADAM = optax.adam(0.1)
TRANSFORMATIONS = {"sam": so.sam(ADAM, 0.1), "cgd": so.cgd(ADAM, ratio=0.3), "msam": so.msam(ADAM, 0.1)}
TRANSFORMATIONS["gap_sam"] = so.gap_sam(ADAM, 20)


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_a_run_goes_on_from_a_pytree_bit_for_bit(name):
    """Leaves as NumPy arrays, as any way of saving keeps them, in the structure of init."""
    opt = TRANSFORMATIONS[name]
    halfway = advanced(opt, steps=8)
    leaves = [jnp.asarray(np.asarray(leaf)) for leaf in jax.tree.leaves(halfway)]
    restored = jax.tree.unflatten(jax.tree.structure((PARAMS, opt.init(PARAMS))), leaves)
    jax.tree.map(np.testing.assert_array_equal, advanced(opt, *restored), advanced(opt, *halfway))


@pytest.mark.parametrize(("n", "mean"), [(62, 30.0), (63, 30.03125), (64, 31.0)])
def test_a_part_of_the_batch_is_spread_over_it(n, mean):
    part = so.value_and_grad(lambda w, x: (w * x).mean(), rho=1.0, normalized=False, ascent_fraction=0.5)
    x = jnp.arange(float(n))
    at_s = float(part(jnp.float32(1), x)[0])  # of the whole batch at 1 + s, s being the mean of the part
    assert at_s / x.mean() - 1 == pytest.approx(mean, rel=1e-6)


def test_argnums_are_those_of_value_and_grad():
    def cost(x, a, params, *, power):
        return ((x @ params["w"] - a) ** power).mean() + (a**2).sum()

    x, a, w = jnp.eye(3), jnp.arange(3.0), {"w": jnp.full(3, 0.5)}
    given, plain = (x, a, w), jax.value_and_grad(cost, argnums=(2, 1))
    value, (in_w, in_a) = so.value_and_grad(cost, rho=0.1, argnums=(2, 1))(*given, power=2)
    expected, (g_w, g_a) = plain(*given, power=2)
    n = np.sqrt((g_w["w"] ** 2).sum() + (g_a**2).sum())
    moved = (x, a + 0.1 * g_a / n, {"w": w["w"] + 0.1 * g_w["w"] / n})
    same((value, (in_w, in_a)), (expected, plain(*moved, power=2)[1]))
    one, first = (
        so.value_and_grad(cost, lam=0.1, argnums=2),
        so.value_and_grad(lambda params: cost(x, a, params, power=2), lam=0.1),
    )
    same(one(*given, power=2), first(w))
    part = so.value_and_grad(cost, rho=0.1, argnums=2, ascent_fraction=0.5, batch_argnums=(0, 1))
    assert part(*given, power=2)[1]["w"].shape == (3,)


BUILDS = {
    "sam": lambda base: so.sam(base, 0.05),
    "cgd": lambda base: so.cgd(base, 0.01),
    "egr": lambda base: so.egr(base, 0.01),
}


def cost(p):
    return (
        ((p["a"] - 1.0) ** 2).sum() + (p["a"] * p["b"]["c"]).sum() ** 2 + ((p["b"]["c"] + p["d"]) ** 4).sum()
    )


SPLIT = {"a": jnp.array([0.5, 2.0]), "b": {"c": jnp.array([1.0, -0.5])}, "d": jnp.array(0.3)}


@pytest.mark.parametrize("name", BUILDS)
@pytest.mark.parametrize(
    "mask", [{"a": True, "b": False, "d": True}, {"a": False, "b": {"c": True}, "d": False}]
)
def test_a_part_of_the_parameters_under_masked_and_partition(name, mask):
    """The rest is held fixed, as if the loss were a function of that part alone."""
    build = BUILDS[name]
    part = {key: SPLIT[key] for key, on in mask.items() if on not in (False, {"c": False})}

    def of_part(p):
        return cost(SPLIT | p)

    alone = build(optax.sgd(0.1))
    expected, _ = alone.update(jax.grad(of_part)(part), alone.init(part), part, grad_fn=jax.grad(of_part))
    labels = jax.tree.map(lambda on: "ours" if on else "rest", mask)
    for opt in (
        optax.masked(build(optax.sgd(0.1)), mask),
        optax.partition({"ours": build(optax.sgd(0.1)), "rest": optax.set_to_zero()}, labels),
    ):
        step = jax.jit(
            lambda p, s, opt=opt: opt.update(jax.grad(cost)(p), s, p, grad_fn=jax.grad(cost), all_params=p)
        )
        found, _ = step(SPLIT, opt.init(SPLIT))
        same({key: found[key] for key in part}, expected)
        with pytest.raises(ValueError, match=r"all_params: .* sees a part of the parameters"):
            opt.update(SPLIT, opt.init(SPLIT), SPLIT, grad_fn=jax.grad(cost))


def test_multi_steps_take_the_ascent_step_from_the_mean_gradient_and_the_function_of_the_last_call():
    opt = optax.MultiSteps(so.sam(optax.sgd(0.1), 0.05), every_k_schedule=2)
    state, params, gradient = opt.init(SPLIT), SPLIT, jax.grad(cost)
    for scale, grad_fn in ((0.5, jax.grad(lambda p: 9 * cost(p))), (1.5, gradient)):  # their mean is g
        g = jax.tree.map(lambda g, by=scale: by * g, gradient(SPLIT))
        updates, state = opt.update(g, state, params, grad_fn=grad_fn)
        params = optax.apply_updates(params, updates)
    alone = so.sam(optax.sgd(0.1), 0.05)
    expected, _ = alone.update(gradient(SPLIT), alone.init(SPLIT), SPLIT, grad_fn=gradient)
    same(params, optax.apply_updates(SPLIT, expected))
