"""An optimizer like any other: state that resumes to the bit, schedulers, hooks, groups and copies."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer
from torch.optim import lr_scheduler as lrs
from torch.optim.swa_utils import AveragedModel

from steepen import schedules
from steepen.torch import CGD, SAM

torch.set_num_threads(1)  # the networks are tiny

X, Y = torch.randn(2, 16, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
STEPS = 12


class Run:
    """A network in two parameter groups, its optimizer, and perhaps a scheduler."""

    def __init__(
        self,
        make: Callable[[Any], Optimizer] = lambda groups: SGD(groups, lr=0.1, momentum=0.9),
        scheduler: Callable[[Optimizer], Any] | None = None,
        bad: tuple[int, ...] = (),
        on_base: bool = False,
        seed: int = 0,
        **options: Any,
    ) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4)).double()
        head = {"params": list(self.model[2].parameters()), "lr": 0.05}
        base = make([{"params": list(self.model[0].parameters())}, head])
        self.opt = CGD(base, **({"lam": 0.05} | options))
        self.scheduler = None if scheduler is None else scheduler(base if on_base else self.opt)
        self.bad = bad  # the steps whose second pass is not finite, so that the guard trips

    def closure(self) -> Tensor:
        self.opt.zero_grad()
        loss = (self.model(X) - Y).square().mean()
        if self.passes and self.opt.k in self.bad:
            loss = loss * torch.nan
        loss.backward(create_graph=self.opt.exact)
        self.passes += 1
        return loss

    def go(self, steps: int) -> list[float]:
        losses: list[float] = []
        for _ in range(steps):
            self.passes = 0
            losses.append(self.opt.step(self.closure).item())
            if isinstance(self.scheduler, lrs.ReduceLROnPlateau):
                self.scheduler.step(losses[-1])
            elif self.scheduler is not None:
                self.scheduler.step()
        return losses

    def weights(self) -> list[Tensor]:
        return [p.detach().clone() for p in self.model.parameters()]

    def save(self) -> dict[str, Any]:
        """Give all that is to be kept, through a file that may hold no code."""
        file = io.BytesIO()
        states = {"model": self.model.state_dict(), "opt": self.opt.state_dict()}
        if self.scheduler is not None:
            states["scheduler"] = self.scheduler.state_dict()
        torch.save(states, file)
        file.seek(0)
        return torch.load(file, weights_only=True)

    def load(self, states: dict[str, Any]) -> None:
        self.model.load_state_dict(states["model"])
        self.opt.load_state_dict(states["opt"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(states["scheduler"])


def same(left: list[Tensor], right: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


# --- resume ----------------------------------------------------------------------------------------

RUNS: dict[str, dict[str, Any]] = {
    "momentum": {},
    "momentum, step lr": {"scheduler": lambda o: lrs.StepLR(o, 2, gamma=0.7)},
    "one cycle": {"scheduler": lambda o: lrs.OneCycleLR(o, [0.2, 0.1], total_steps=STEPS), "every": 2},
    "adamw": {
        "make": lambda g: AdamW(g, lr=0.01, foreach=True),
        "phase": "early",
        "fraction": 0.5,
        "steps": STEPS,
    },
    "adamw fused": {
        "make": lambda g: AdamW(g, lr=0.01, fused=True, amsgrad=True),
        "phase": "late",
        "steps": STEPS,
    },
    "cosine lam": {"lam": schedules.Cosine(0.1, 0.0), "steps": STEPS, "max_norm": 0.1},
    "from, until": {"from_": 3, "until": 9, "every": 2, "warmup": 2},
    "guard": {"bad": (1, 2, 4, 8)},
    "stopped before": {"bad": (1, 2), "on_guard": "stop", "patience": 2},
    "stopped just after": {"bad": (3, 4, 5), "on_guard": "stop", "patience": 3},
    "not stopped by a gap": {"bad": (3, 4, 6, 7), "on_guard": "stop", "patience": 3},
    "sam": {"lam": None, "nu": 1.0, "rho": 0.05},
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("at", [5, 9])
def test_a_run_resumed_from_a_file_is_the_run_unbroken(at: int, name: str) -> None:
    whole, first, second = Run(**RUNS[name]), Run(**RUNS[name]), Run(**RUNS[name], seed=1)
    key = whole.opt.family.key
    for run in (whole, first):
        run.go(2)
        run.opt.param_groups[1][key] = 0.2  # a λ of its own, set on the way
        run.go(at - 2)
    second.load(first.save())
    assert second.opt.k == at
    assert second.opt.active == first.opt.active
    assert whole.go(STEPS - at) == second.go(STEPS - at)
    assert same(whole.weights(), second.weights())
    assert torch.equal(whole.opt.guard.counts, second.opt.guard.counts)
    assert whole.opt.active == second.opt.active
    for one, other in zip(whole.opt.param_groups, second.opt.param_groups, strict=True):
        assert {n: v for n, v in one.items() if n != "params"} == {
            n: v for n, v in other.items() if n != "params"
        }


def test_the_guards_did_trip() -> None:
    for name, steps, trips in (("guard", 12, 4), ("stopped before", 3, 2), ("stopped just after", 6, 3)):
        run = Run(**RUNS[name])
        run.go(STEPS)
        assert run.opt.guard.counts.tolist() == [steps, trips]
        assert run.opt.active == (name == "guard")


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")  # what the exact mode asks for
def test_the_exact_mode_resumes_too() -> None:
    whole, first, second = (Run(mode="exact") for _ in range(3))
    whole.go(8)
    first.go(4)
    second.load(first.save())
    second.go(4)
    assert same(whole.weights(), second.weights())


def test_a_saved_state_is_a_copy_that_the_run_does_not_change() -> None:
    run = Run(bad=(1,))
    run.go(2)
    state = run.opt.state_dict()
    run.go(2)
    assert state["param_groups"][0]["cgd"]["k"] == 2
    assert state["param_groups"][0]["cgd"]["counts"].tolist() == [2, 1]


def test_numbers_of_numpy_are_saved_as_plain_numbers() -> None:
    run = Run(lam=np.float64(0.05), max_norm=np.float32(1.0))
    run.opt.add_param_group({"params": nn.Parameter(torch.ones(2).double()), "lam": np.float64(0.1)})
    assert run.save()["opt"]["param_groups"][2]["lam"] == 0.1  # weights_only: a file with code is refused


def test_the_state_of_another_optimizer_is_refused_and_nothing_changes() -> None:
    run = Run()
    run.go(2)
    before = copy.deepcopy(run.opt.state_dict())
    with pytest.raises(
        ValueError,
        match="expected one of CGD, whose groups have a 'cgd' entry; got 'param_groups'",
    ):
        run.opt.load_state_dict(run.opt.base.state_dict())
    other = Run(make=lambda g: AdamW(g, lr=0.01))
    other.go(1)
    with pytest.raises(ValueError, match="state_dict: expected base 'SGD', as here; got 'AdamW'"):
        run.opt.load_state_dict(other.opt.state_dict())
    with pytest.raises(ValueError, match="state_dict: expected key 'lam', as here; got 'rho'"):
        run.opt.load_state_dict(Run(**RUNS["sam"]).opt.state_dict())
    with pytest.raises(ValueError, match="state_dict: expected exact False, as here; got True"):
        run.opt.load_state_dict(Run(mode="exact").opt.state_dict())
    small = CGD(SGD([nn.Parameter(torch.ones(2))], lr=0.1, momentum=0.9), lam=0.1)
    with pytest.raises(ValueError, match="parameter group"):
        run.opt.load_state_dict(small.state_dict())
    one, other = (state["param_groups"][0]["cgd"] for state in (run.opt.state_dict(), before))
    assert one.pop("row").equal(other.pop("row"))
    assert one.pop("counts").equal(other.pop("counts"))
    assert one == other
    assert same(
        [s["momentum_buffer"] for s in run.opt.state_dict()["state"].values()],
        [s["momentum_buffer"] for s in before["state"].values()],
    )


def test_between_the_passes_no_state_is_loaded() -> None:
    run = Run()
    state = run.save()
    run.passes = 0
    run.closure()
    run.opt.probe()
    with pytest.raises(
        RuntimeError, match=r"load_state_dict\(\) between probe\(\) and step\(\): call restore\(\) first"
    ):
        run.opt.load_state_dict(state["opt"])
    run.opt.restore()
    run.load(state)


@pytest.mark.parametrize("form", ["closure", "probe"])
def test_a_state_loaded_into_the_base_behind_our_back_is_seen(form: str) -> None:
    left, right = Run(), Run()
    for run in (left, right):
        run.go(3)
    state = copy.deepcopy(left.opt.base.state_dict())
    state["param_groups"][0] |= {"lr": 0.02, "lam": 0.3}
    left.opt.base.load_state_dict(state)
    right.opt.param_groups[0] |= {"lr": 0.02, "lam": 0.3}
    for run in (left, right):
        run.passes = 0
        if form == "closure":
            run.opt.step(run.closure)
        else:
            run.closure()
            run.opt.probe()
            run.closure()
            run.opt.step()
    assert same(left.weights(), right.weights())
    assert left.opt.param_groups is left.opt.base.param_groups
    assert left.opt.state is left.opt.base.state


def test_a_scheduler_is_heard_right_after_a_load_behind_our_back() -> None:
    run = Run(scheduler=lambda o: lrs.StepLR(o, 1, gamma=0.5))
    run.go(1)
    run.opt.base.load_state_dict(run.opt.base.state_dict())
    run.scheduler.step()
    assert run.opt.base.param_groups[0]["lr"] == 0.1 * 0.5**2


# --- schedulers ------------------------------------------------------------------------------------

SCHEDULERS: dict[str, Callable[[Optimizer], Any]] = {
    "step": lambda o: lrs.StepLR(o, 3, gamma=0.5),
    "one cycle": lambda o: lrs.OneCycleLR(o, [0.2, 0.1], total_steps=STEPS),
    "cosine": lambda o: lrs.CosineAnnealingLR(o, STEPS),
    "plateau": lambda o: lrs.ReduceLROnPlateau(o, patience=0, threshold=0.5),
    "lambda": lambda o: lrs.LambdaLR(o, [lambda k: 1 / (k + 1), lambda k: 0.9**k]),
    "sequential": lambda o: lrs.SequentialLR(
        o, [lrs.LinearLR(o, 0.1, 1.0, 3), lrs.ExponentialLR(o, 0.8)], [3]
    ),
    "warm restarts": lambda o: lrs.CosineAnnealingWarmRestarts(o, 4),
}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize(
    "make", [lambda g: SGD(g, lr=0.1, momentum=0.9), lambda g: AdamW(g, lr=0.01)], ids=["sgd", "adamw"]
)
def test_a_scheduler_works_on_it_and_on_its_base_without_a_word(make: Any, scheduler: str) -> None:
    ours = Run(make, SCHEDULERS[scheduler], phase="early", fraction=0.5, steps=STEPS)
    inner = Run(make, SCHEDULERS[scheduler], on_base=True, phase="early", fraction=0.5, steps=STEPS)
    plain = Run(make, SCHEDULERS[scheduler], on_base=True)
    names = ("lr", "momentum", "betas")
    rates: list[list[Any]] = [[], [], []]
    for run, seen in zip((ours, inner, plain), rates, strict=True):
        for _ in range(STEPS - 1):
            if run is plain:
                run.opt.base.step()
                run.scheduler.step(*[1.0] * (scheduler == "plateau"))
            else:
                run.go(1)
            seen.append([group.get(name) for group in run.opt.base.param_groups for name in names])
    assert rates[0] == rates[1]
    assert scheduler == "plateau" or rates[0] == rates[2]
    assert rates[0][0] != rates[0][-1]
    assert same(ours.weights(), inner.weights())


def test_the_rate_a_scheduler_sets_is_the_one_used() -> None:
    run = Run(lambda g: SGD(g, lr=0.1), lambda o: lrs.LambdaLR(o, lambda k: float(k == 0)))
    run.go(1)
    before = run.weights()
    run.go(2)  # both at a rate of zero
    assert same(before, run.weights())


# --- hooks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"from_": 9}, {"max_norm": 1.0}, {"from_": 9, "max_norm": 1.0}], ids=str
)
@pytest.mark.parametrize("kind", [CGD, SAM])
def test_step_hooks_fire_once_a_step_on_either(kind: type[CGD], options: dict[str, Any]) -> None:
    fired: list[str] = []
    run = Run()
    run.opt = kind(
        SGD(run.model.parameters(), lr=0.1), **({"lam": 0.1} if kind is CGD else {"rho": 0.1}), **options
    )
    for name, optimizer in (("ours", run.opt), ("base", run.opt.base)):
        optimizer.register_step_pre_hook(lambda o, args, kwargs, name=name: fired.append(f"{name} before"))
        optimizer.register_step_post_hook(lambda o, args, kwargs, name=name: fired.append(f"{name} after"))
    run.go(2)
    assert fired == ["ours before", "base before", "base after", "ours after"] * 2


def test_a_hook_on_the_base_sees_d_as_the_gradient() -> None:
    run = Run(nu=0.5, r=0.1, lam=None)
    seen: list[Tensor] = []
    run.opt.base.register_step_pre_hook(lambda o, args, kwargs: seen.append(run.model[0].weight.grad.clone()))
    run.passes = 0
    run.closure()
    g = run.model[0].weight.grad.clone()
    run.go(1)
    assert not torch.equal(seen[0], g)
    torch.testing.assert_close(seen[0], g, rtol=0.5, atol=0.1)


def test_hooks_of_the_state_fire_once() -> None:
    run = Run()
    fired: list[str] = []
    run.opt.register_state_dict_pre_hook(lambda o: fired.append("save"))
    run.opt.register_state_dict_post_hook(lambda o, state: fired.append("saved") or state | {"note": 1})
    run.opt.register_load_state_dict_pre_hook(lambda o, state: fired.append(f"load {state.pop('note')}"))
    run.opt.register_load_state_dict_post_hook(lambda o: fired.append("loaded"))
    state = run.opt.state_dict()
    assert fired == ["save", "saved"]
    run.opt.load_state_dict(state)
    assert fired == ["save", "saved", "load 1", "loaded"]
    assert state["note"] == 1  # as in torch, a hook gets a copy of the caller's dictionary


# --- groups, copies, neighbours --------------------------------------------------------------------


def test_it_is_an_optimizer_that_shares_groups_state_and_defaults_with_its_base() -> None:
    run = Run()
    assert isinstance(run.opt, Optimizer)
    assert run.opt.param_groups is run.opt.base.param_groups
    assert run.opt.state is run.opt.base.state
    assert run.opt.defaults is run.opt.base.defaults
    run.go(1)
    assert set(run.opt.state) == set(run.model.parameters())


def test_its_text_names_it_and_the_numbers_of_each_group() -> None:
    text = repr(Run().opt)
    assert text.startswith("CGD (")
    assert text.count("lam: 0.05") == 2
    assert "lr: 0.1\n" in text
    assert "lr: 0.05\n" in text


def test_a_group_added_on_the_way_is_trained_by_both() -> None:
    run = Run(lambda g: SGD(g, lr=0.1), lam=0.05, r=0.1, nu_max=None, probe_max=None)
    run.go(1)
    extra = nn.Parameter(torch.ones(4).double())
    run.opt.add_param_group({"params": extra, "lam": 0.1})
    assert run.opt.base.param_groups[2]["params"] == [extra]
    assert run.opt.base.param_groups[2]["lr"] == 0.1
    assert [group["lam"] for group in run.opt.param_groups] == [0.05, 0.05, 0.1]

    def closure() -> Tensor:
        run.opt.zero_grad()
        loss = (3 * extra).square().sum()  # g = 18, H = 18: the others have no gradient
        loss.backward()
        return loss

    run.opt.step(closure)  # ν = 2·0.1/0.1 and s = 0.1·g: d = g + 0.2·H·g
    torch.testing.assert_close(extra.detach(), torch.full((4,), 1 - 0.1 * 18 * (1 + 0.2 * 18)).double())


@pytest.mark.parametrize("group", [{"lam": "much"}, {"lam": torch.nan}, {"dtype": torch.complex64}], ids=str)
def test_a_group_that_is_refused_is_not_added(group: dict[str, Any]) -> None:
    run = Run()
    extra = nn.Parameter(torch.ones(2, dtype=group.pop("dtype", torch.float64)))
    with pytest.raises((TypeError, ValueError)):
        run.opt.add_param_group({"params": [extra], **group})
    assert len(run.opt.param_groups) == len(run.opt.base.param_groups) == 2
    run.go(1)


@pytest.mark.parametrize(
    "scheduler", [None, lambda o: lrs.StepLR(o, 2, gamma=0.5)], ids=["bare", "scheduled"]
)
def test_a_deep_copy_goes_on_by_itself(scheduler: Any) -> None:
    run = Run(scheduler=scheduler, bad=(1,))
    run.go(3)
    before = run.weights()
    twin = Run()
    twin.model, twin.opt = copy.deepcopy((run.model, run.opt))
    twin.go(3)
    assert same(before, run.weights())  # the original is not moved by its copy
    assert (run.opt.k, twin.opt.k) == (3, 6)
    run.scheduler = None
    run.go(3)
    assert same(twin.weights(), run.weights())
    assert not same(before, run.weights())


def test_beside_an_averaged_model() -> None:
    run = Run(lambda g: SGD(g, lr=0.1))
    mean = AveragedModel(run.model)
    seen = []
    for _ in range(3):
        run.go(1)
        mean.update_parameters(run.model)
        seen.append(torch.stack([w.flatten()[0] for w in run.weights()]))
    average = torch.stack([w.detach().flatten()[0] for w in mean.module.parameters()])
    torch.testing.assert_close(average, torch.stack(seen).mean(0))
