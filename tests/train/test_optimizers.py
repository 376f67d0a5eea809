"""The names, the budget of gradients, and the learning rate."""

import math

import pytest
import torch

from steepen.train import OPTIMIZERS, Settings
from steepen.train.data import SIZES
from steepen.train.models import mlp
from steepen.train.optimizers import base_of, check_names, learning_rate, steps_of, strength_of, wrap
from steepen.train.settings import BASES

from ..pairs import pairs


@pairs(
    name=["cgd", "cgd-early", "sam-late", "share4", "share16-late", "msam"],
    grads=[4, 41, 1000.5], batch=[2, 7, 100], fraction=[0.001, 0.25, 1.0],
)  # fmt: skip
def test_the_budget_is_spent_and_never_exceeded(name, grads, batch, fraction):
    """The most steps n with n·batch + (steps with a probe, and step 0)·(its examples) within the budget."""
    kind = OPTIMIZERS[name]
    probe = 0 if name == "msam" else min(batch, max(2, round(kind.share * batch)))
    part = {"all": 1, "warm": 1, "last half": 0.5}.get(kind.phase, fraction)

    def cost(steps):
        probed = round(part * steps)
        return steps * batch + (probed + (kind.phase in ("late", "last half") and probed < steps)) * probe

    def early(steps):  # without a step to probe, step 0 makes its pass all the same
        return cost(steps) + probe * (kind.phase == "early" and not round(part * steps))

    most = max((n for n in range(int(grads) + 1) if n == 0 or early(n) <= grads * batch), default=0)
    if not kind.when(most, fraction):
        with pytest.raises(ValueError, match=r"fraction: .* steps is less than one"):
            steps_of(kind, grads, batch, fraction)
    else:
        assert steps_of(kind, grads, batch, fraction) == most


@pytest.mark.filterwarnings("ignore:the probe is cut to its limit")
@pytest.mark.parametrize("name", [name for name, kind in OPTIMIZERS.items() if kind.door])
def test_the_steps_with_a_probe_are_those_that_were_planned(name):
    steps, kind = 24, OPTIMIZERS[name]
    torch.manual_seed(0)
    model, x = mlp(4, 3, seed=0), torch.randn(32, 4)
    held_out = {"held_out": lambda: torch.tensor(9.0)} if kind.by_gap else {}
    opt = wrap(kind, base_of("sgd")(model.parameters(), 0.01, 0.0), model, 0.1, steps, 0.3, **held_out)
    probed = []
    for k in range(steps):
        before = opt.probed
        opt.step_on(lambda x: model(x).square().mean(), x)
        probed += [k] * (opt.probed - before)
    assert probed == list(kind.when(steps, 0.3))
    expected = {"early": range(7), "late": range(17, 24), "last half": range(12, 24)}.get(kind.phase)
    assert expected is None or probed == list(expected)


def test_the_rule_needs_twenty_steps():
    assert steps_of(OPTIMIZERS["gap"], 21, 32) == 20
    with pytest.raises(ValueError, match="optimizer: GapSAM needs 20 steps or more; the budget is for 19"):
        steps_of(OPTIMIZERS["gap"], 20, 32)


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
def test_every_optimizer_has_a_default(data):
    settings = Settings.of(data)
    for name in OPTIMIZERS:
        assert (strength_of(name, settings) > 0) == (name not in (*BASES, "gap", "gap-wait"))
    assert strength_of("cgd-late", settings) == strength_of("cgd", settings)
    other = Settings.of(data, rho=0.7, lam=0.3)  # strengths of another kind
    for name in ("ema", "smooth"):
        assert strength_of(name, other) == strength_of(name, settings)


@pytest.mark.parametrize("steps", [1, 2, 10, 400])
def test_the_learning_rate_rises_and_falls_to_zero(steps):
    rates = [learning_rate(k, steps) for k in range(steps + 1)]
    top = rates.index(1)
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert [k for k, rate in enumerate(rates) if rate == 0] == [steps]
    if steps == 400:
        assert top == 19
        assert rates[20 + 190] == pytest.approx(0.5)
        assert rates[20 + 95] == pytest.approx((1 + math.sqrt(0.5)) / 2)


def test_wrong_names():
    for names, message in (
        ([], "expected at least one name"),
        (["sgd", "sgd"], "'sgd' is named twice"),
        (["adamw", "cgd"], "'adamw' is not the base of the others, which is 'sgd'"),
        (["cgd-fd"], "'cgd-fd' is not known"),
    ):
        with pytest.raises(ValueError, match=message):
            check_names(names, "sgd")
