"""The names, the budget of gradients, and the learning rate."""

import math

import pytest
import torch

from steepen.train import OPTIMIZERS, Settings
from steepen.train.data import SIZES
from steepen.train.models import mlp
from steepen.train.optimizers import base_of, check_names, learning_rate, steps_of, strength_of, wrap
from steepen.train.settings import BASES

NAMED = (
    "sgd sam usam gnp asam fgr egr cgd cgd-early cgd-late sam-early sam-late cgd-exact".split()  # noqa: SIM905
)
CHEAP = "ema smooth share4 share4-late share16 share16-late msam gap gap-wait".split()  # noqa: SIM905


def test_all_names_are_there():
    assert set(NAMED) | {"adamw"} | set(CHEAP) == set(OPTIMIZERS)


@pytest.mark.parametrize("grads", [4, 40, 999, 1000.5])
@pytest.mark.parametrize("batch", [2, 7, 32, 100])
@pytest.mark.parametrize("name", ["share4", "share4-late", "share16", "share16-late", "msam", "sam-late"])
def test_a_share_costs_its_examples(name: str, grads: float, batch: int):
    """The most steps n with n·batch + (steps with a probe, and step 0)·(its examples) within the budget."""
    kind = OPTIMIZERS[name]
    probe = 0 if name == "msam" else batch if name == "sam-late" else max(2, round(kind.share * batch))
    part = 1 if kind.phase == "all" else 0.25 if name == "sam-late" else 0.5

    def cost(steps: int) -> int:
        return steps * batch + (round(part * steps) + (part < 1)) * min(probe, batch)

    most = max((n for n in range(int(grads) + 1) if n == 0 or cost(n) <= grads * batch), default=0)
    if not kind.when(most, 0.25):
        with pytest.raises(ValueError, match=r"fraction: 0\.25 of . steps is less than one"):
            steps_of(kind, grads, batch)
    else:
        assert steps_of(kind, grads, batch) == most


@pytest.mark.parametrize("grads", [2, 3, 7, 40, 41, 999, 1000])
@pytest.mark.parametrize("fraction", [0.001, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0])
def test_the_budget_is_spent_or_one_short(grads: int, fraction: float):
    def steps(name: str) -> int:
        return steps_of(OPTIMIZERS[name], grads, 32, fraction)

    assert steps("sgd") == grads
    assert steps("cgd") == steps("egr") == grads // 2
    for name in ("cgd-early", "sam-late"):
        try:
            n = steps(name)
        except ValueError as error:
            assert str(error).startswith("fraction: ")  # noqa: PT017
            continue
        probed = round(fraction * n)
        assert grads - 1 <= n + probed + (name == "sam-late" and probed < n) <= grads


@pytest.mark.filterwarnings("ignore:the probe is cut to its limit")
@pytest.mark.parametrize("name", [*NAMED, *CHEAP])
def test_the_steps_with_a_probe_are_those_that_were_planned(name: str):
    steps, kind = 24, OPTIMIZERS[name]
    torch.manual_seed(0)
    model, x = mlp(4, 3, seed=0), torch.randn(32, 4)
    held_out = {"held_out": lambda: torch.tensor(9.0)} if OPTIMIZERS[name].by_gap else {}
    opt = wrap(kind, base_of("sgd")(model.parameters(), 0.01, 0.0), model, 0.1, steps, 0.3, **held_out)
    probed = []
    for k in range(steps):
        before = getattr(opt, "probed", 0)
        if kind.door:
            opt.step_on(lambda x: model(x).square().mean(), x)
        probed += [k] * (getattr(opt, "probed", 0) - before)
    assert probed == (list(kind.when(steps, 0.3)) if kind.door else [])
    if name.endswith(("cgd-early", "sam-early")):
        assert probed == list(range(7))
    elif name.endswith(("cgd-late", "sam-late")):
        assert probed == list(range(17, 24))
    elif name.startswith("share") and name.endswith("late"):
        assert probed == list(range(12, 24))


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
def test_every_optimizer_has_a_default(data: str):
    settings = Settings.of(data)
    for name in OPTIMIZERS:
        assert (strength_of(name, settings) > 0) == (name not in (*BASES, "gap", "gap-wait"))
    assert strength_of("cgd-late", settings) == strength_of("cgd", settings)
    assert strength_of("sam-early", settings) == strength_of("sam", settings)


def test_a_strength_of_another_kind_is_not_taken_for_it():
    settings = Settings.of("digits", rho=0.7, lam=0.3)
    assert (strength_of("ema", settings), strength_of("smooth", settings)) == (0.99, 0.1)


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
