"""The names, the budget of gradients, and the learning rate."""

import math

import pytest

from steepen.train import OPTIMIZERS, Settings
from steepen.train.data import SIZES
from steepen.train.models import mlp
from steepen.train.optimizers import check_names, learning_rate, make, steps_of, steps_within, strength_of
from steepen.train.settings import BASES

NAMED = (
    "sgd sam usam gnp asam fgr egr cgd cgd-early cgd-late sam-early sam-late cgd-exact".split()  # noqa: SIM905
)
CHEAP = "ema smooth share4 share4-late share16 share16-late msam auto".split()  # noqa: SIM905


def test_all_names_are_there():
    assert set(NAMED) | {"adamw"} | set(CHEAP) == set(OPTIMIZERS)


@pytest.mark.parametrize("grads", [4, 40, 999, 1000.5])
@pytest.mark.parametrize("batch", [1, 7, 32, 100])
@pytest.mark.parametrize("name", ["share4", "share4-late", "share16", "share16-late", "msam", "sam-late"])
def test_a_share_costs_its_examples(name: str, grads: float, batch: int):
    """The most steps n with n·batch + (penalised steps)·(examples of the probe) within the budget."""
    kind = OPTIMIZERS[name]
    probe = 0 if name == "msam" else batch if name == "sam-late" else max(1, round(kind.share * batch))
    part = 1 if kind.phase == "full" else 0.25 if name == "sam-late" else 0.5

    def cost(steps: int) -> int:
        return steps * batch + round(part * steps) * probe

    most = max(steps for steps in range(1, int(grads) + 1) if cost(steps) <= grads * batch)
    assert steps_of(kind, grads, batch, 0.25) == most


@pytest.mark.parametrize("grads", [2, 3, 7, 40, 41, 999, 1000])
@pytest.mark.parametrize("fraction", [0.001, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0])
def test_the_budget_is_spent_or_one_short(grads: int, fraction: float):
    settings = Settings.of("digits", grads=grads, fraction=fraction)
    assert steps_within("sgd", settings) == grads
    assert steps_within("cgd", settings) == steps_within("egr", settings) == grads // 2
    most = max(steps for steps in range(1, grads + 1) if steps + round(fraction * steps) <= grads)
    for name in ("cgd-early", "sam-late"):
        if round(fraction * most) == 0:
            with pytest.raises(ValueError, match="fraction: "):
                steps_within(name, settings)
        else:
            assert steps_within(name, settings) == most
            assert grads - 1 <= most + round(fraction * most) <= grads


@pytest.mark.parametrize("name", NAMED)
def test_active_says_what_was_counted(name: str):
    """The steps that the optimizer itself says are penalised are those the budget was planned with."""
    import torch

    settings = Settings.of("digits", grads=31, fraction=0.3)
    steps = steps_within(name, settings)
    model = mlp(4, 3, seed=0)
    opt = make(name, settings, steps, model)
    cost = 0
    for k in range(steps):
        active = getattr(opt, "active", False)
        if name.endswith("early"):
            assert active == (k < round(0.3 * steps))
        elif name.endswith("late"):
            assert active == (k >= steps - round(0.3 * steps))
        else:
            assert active == (name != "sgd")
        cost += 1 + active

        def closure(twice=active and opt.exact):
            opt.zero_grad()
            x = torch.linspace(-1, 1, 8).reshape(2, 4)
            grads = torch.autograd.grad(
                model(x).square().mean(), list(model.parameters()), create_graph=twice
            )
            for p, g in zip(model.parameters(), grads, strict=True):
                p.grad = g
            return torch.zeros(())

        opt.step(closure)
    assert 30 <= cost <= 31


def test_weights_follow_from_lam_and_rho():
    """All of λ‖∇f‖² have the same λ, all of ρ‖∇f‖ the same ρ, by the family's λ = νc/2."""
    settings = Settings.of("digits", lam=0.3, rho=0.7)
    of = {name: kind.options(strength_of(name, settings)) for name, kind in OPTIMIZERS.items()}
    assert of["cgd"]["lam"] == of["egr"]["lam"] == of["cgd-exact"]["lam"] == 0.3
    assert of["usam"]["rho"] / 2 == 0.3  # ν = 1, c = r
    assert of["fgr"]["gamma"] / 2 == 0.3
    assert of["sam"]["rho"] == of["gnp"]["rho"] == of["sam-late"]["rho"] == of["asam"]["rho"] == 0.7
    assert of["sgd"] == of["adamw"] == {}


@pytest.mark.parametrize("data", SIZES)
def test_every_optimizer_has_a_default(data: str):
    settings = Settings.of(data)
    for name in OPTIMIZERS:
        assert (strength_of(name, settings) > 0) == (name not in (*BASES, "auto"))
    assert strength_of("cgd-late", settings) == strength_of("cgd", settings)
    assert strength_of("sam-early", settings) == strength_of("sam", settings)


@pytest.mark.parametrize("base", ["sgd", "adamw"])
def test_the_base(base: str):
    settings = Settings.of("digits", base=base, lr=0.02)
    for name in (base, "cgd"):
        opt = make(name, settings, 10, mlp(4, 3, seed=0))
        assert type(getattr(opt, "base", opt)).__name__.lower() == base
        assert [group["lr"] for group in opt.param_groups] == [0.02]


@pytest.mark.parametrize("steps", [1, 2, 10, 400])
def test_the_learning_rate_rises_and_falls_to_zero(steps: int):
    rates = [learning_rate(k, steps) for k in range(steps)]
    top = rates.index(max(rates))
    assert max(rates) == 1
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert all(rate > 0 for rate in rates)
    assert learning_rate(steps, steps) == 0
    if steps == 400:
        assert top == 19
        assert rates[20 + 190] == pytest.approx(0.5)
        assert rates[20 + 95] == pytest.approx((1 + math.sqrt(0.5)) / 2)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "expected at least one name"),
        (["sgd", "sgd"], "'sgd' is named twice"),
        (["adamw", "cgd"], "'adamw' is not the base of the others, which is 'sgd'"),
        (["cgd-fd"], "'cgd-fd' is not known"),
    ],
)
def test_wrong_names(names, message):
    with pytest.raises(ValueError, match=message):
        check_names(names, "sgd")
