"""The closure contract: two passes, the first loss, and weights that always come back."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from steepen.torch import CGD
from steepen.torch._difference import Stage

BASES: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, foreach=True),
    "sgd-fused": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    "adamw-fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
}
FAMILY: dict[str, Any] = {"r": 0.1, "nu": 0.5, "nu_max": None, "probe_max": None}  # s = 0.1·g, d = (g + g⁺)/2
torch.set_num_threads(1)  # the networks are tiny

ZEROINGS: dict[str, Callable[[Task], None]] = {
    "to none": lambda t: t.opt.zero_grad(),
    "to zero": lambda t: t.opt.zero_grad(set_to_none=False),
    "model, to none": lambda t: t.model.zero_grad(),
    "model, to zero": lambda t: t.model.zero_grad(set_to_none=False),
    "base, to zero": lambda t: t.opt.base.zero_grad(set_to_none=False),
    "never": lambda t: None,
}


class Task:
    """A small network with every trap in it, its optimizer, and a closure that can be told to fail."""

    def __init__(
        self,
        base: str = "sgd",
        zeroing: str = "to none",
        dtype: Any = torch.float64,
        dropout: float = 0.0,
        **options: Any,
    ) -> None:
        torch.manual_seed(0)
        layers = (
            nn.Linear(3, 8, bias=False),
            nn.BatchNorm1d(8),
            nn.Tanh(),
            nn.Dropout(dropout),
            nn.Linear(8, 2),
        )
        self.model = nn.Sequential(*layers).to(dtype)
        self.x, self.y = torch.randn(16, 3, dtype=dtype), torch.randn(16, 2, dtype=dtype)
        self.opt = CGD(BASES[base](self.model.parameters()), **(FAMILY | {"model": self.model} | options))
        self.zero = ZEROINGS[zeroing]
        self.losses: list[Tensor] = []

    def loss(self) -> Tensor:
        return (self.model(self.x) - self.y).square().mean()

    def closure(self) -> Tensor:
        self.zero(self)
        loss = self.loss()
        loss.backward()
        self.losses.append(loss.detach())
        return loss

    def failing(self, call: int, fail: Callable[[Tensor], Tensor]) -> Callable[[], Tensor]:
        """Give a closure whose call of that number lets `fail` have its loss before it goes backward."""
        calls = iter(range(10))

        def closure() -> Tensor:
            self.zero(self)
            loss = self.loss()
            if next(calls) == call:
                loss = fail(loss)
            loss.backward()
            return loss

        return closure

    def probed(self) -> None:
        """Take a step without a closure."""
        self.opt.zero_grad()
        self.loss().backward()
        if self.opt.probe():
            self.loss().backward()
        self.opt.step()

    def weights(self) -> list[Tensor]:
        return [p.detach().clone() for p in self.model.parameters()]

    def momenta(self) -> list[Tensor]:
        return [state["momentum_buffer"].clone() for state in self.opt.state.values()]

    def all(self) -> list[Tensor]:
        """Give weights and statistics."""
        return [value.clone() for value in self.model.state_dict().values()]

    def clean(self) -> bool:
        """Say whether nothing of a second pass is left behind."""
        return self.opt._difference.stage is Stage.READY and self.opt._replay._after is None


def same(left: list[Tensor], right: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def by_hand(task: Task, base: torch.optim.Optimizer) -> None:
    """Take the step as the formula reads: for a network in which nothing is random or counts."""
    params = list(task.model.parameters())
    g = torch.autograd.grad(task.loss(), params)
    x = task.weights()
    with torch.no_grad():
        for p, slope in zip(params, g, strict=True):
            p.add_(0.1 * slope)
    plus = torch.autograd.grad(task.loss(), params)
    with torch.no_grad():
        for p, before, slope, after in zip(params, x, g, plus, strict=True):
            p.copy_(before)
            p.grad = slope + 0.5 * (after - slope)
    base.step()


# --- the closure -----------------------------------------------------------------------------------


def test_a_penalised_step_has_two_passes_and_gives_the_loss_of_the_first() -> None:
    task = Task()
    loss = task.opt.step(task.closure)
    assert len(task.losses) == 2
    assert torch.equal(loss, task.losses[0])
    assert not torch.equal(loss, task.losses[1])


def test_any_other_step_has_one() -> None:
    task = Task(from_=1, until=2)
    counts: list[int] = []
    for _ in range(4):
        loss = task.opt.step(task.closure)
        counts.append(len(task.losses))
    assert counts == [1, 3, 4, 5]
    assert torch.equal(loss, task.losses[-1])


def test_what_the_closure_returns_is_handed_on_as_it_is() -> None:
    task = Task()
    assert task.opt.step(lambda: (task.closure(), "first")[1]) == "first"
    assert task.opt.step(lambda: task.closure() and None) is None


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("zeroing", ZEROINGS)
def test_the_step_is_that_of_the_formula_however_gradients_are_cleared(base: str, zeroing: str) -> None:
    ours, theirs = Task(base, zeroing), Task(base)
    other = BASES[base](theirs.model.parameters())
    for _ in range(4):
        ours.opt.step(ours.closure)
        by_hand(theirs, other)
    assert len(ours.losses) == 8
    torch.testing.assert_close(ours.weights(), theirs.weights(), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("zeroing", ZEROINGS)
def test_gradients_from_before_are_cleared_or_refused(zeroing: str) -> None:
    clean, dirty = Task(), Task(zeroing=zeroing)
    for p in dirty.model.parameters():
        p.grad = torch.full_like(p, 1e3)
    clean.opt.step(clean.closure)
    if zeroing in ("never", "model, to zero", "base, to zero"):  # nobody can tell that it was cleared
        with pytest.raises(RuntimeError, match="to accumulate, put all micro-batches into the closure"):
            dirty.opt.step(dirty.closure)
        return
    dirty.opt.step(dirty.closure)
    assert same(clean.all(), dirty.all())


def test_the_closure_runs_with_gradients_on_even_where_the_caller_turned_them_off() -> None:
    one, other = Task(), Task()
    one.opt.step(one.closure)
    with torch.no_grad():
        other.opt.step(other.closure)
        assert not torch.is_grad_enabled()
    assert same(one.all(), other.all())


# --- failure in a pass -----------------------------------------------------------------------------


def in_forward(task: Task, loss: Tensor, error: type[BaseException]) -> Tensor:
    raise error("told to")


def in_backward(task: Task, loss: Tensor, error: type[BaseException]) -> Tensor:
    """Fail halfway through: the other layers have their gradient by then."""

    def fail(_: Tensor) -> None:
        raise error("told to")

    task.model[0].weight.register_hook(fail)
    return loss


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("where", [in_forward, in_backward])
@pytest.mark.parametrize("call", [0, 1])
def test_an_exception_in_a_pass_leaves_nothing_moved(
    call: int, where: Callable[..., Tensor], error: type[BaseException]
) -> None:
    task = Task("nesterov", dtype=torch.float32)
    task.opt.step(task.closure)
    before, buffers = task.weights(), task.momenta()
    with pytest.raises(error, match="told to"):
        task.opt.step(task.failing(call, lambda loss: where(task, loss, error)))
    assert same(before, task.weights())
    assert same(buffers, task.momenta())
    assert task.opt.k == 1
    assert task.clean()


def test_a_step_that_failed_leaves_the_diagnostics_of_the_last_one() -> None:
    task = Task()
    task.opt.step(task.closure)
    before = task.opt.diagnostics.read()
    task.x = 3 * task.x  # another gradient
    with pytest.raises(ValueError, match="told to"):
        task.opt.step(task.failing(1, lambda loss: in_forward(task, loss, ValueError)))
    assert task.opt.diagnostics.read() == before


@pytest.mark.parametrize("call", [0, 1])
def test_the_run_goes_on_after_an_exception_as_if_nothing_had_been(call: int) -> None:
    calm, shaken = Task("adamw"), Task("adamw")
    for task in (calm, shaken):
        task.model[1].momentum = 0.0  # no statistics of the broken pass either
        task.opt.step(task.closure)
    with pytest.raises(ValueError, match="told to"):
        shaken.opt.step(shaken.failing(call, lambda loss: in_forward(shaken, loss, ValueError)))
    for task in (calm, shaken):
        task.opt.step(task.closure)
        task.opt.step(task.closure)
    assert same(calm.weights(), shaken.weights())


NOT_FINITE: dict[str, Callable[[Tensor], Tensor]] = {
    "nan": lambda loss: loss * torch.nan,
    "inf": lambda loss: loss * torch.inf,
    "overflow": lambda loss: (loss * 1e6).exp(),
}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("fail", NOT_FINITE)
@pytest.mark.parametrize("on_guard", ["fallback", "stop", "off"])
def test_a_second_pass_that_is_not_finite_leads_to_the_step_of_the_base(
    on_guard: str, fail: str, base: str
) -> None:
    ours, plain = Task(base, on_guard=on_guard, patience=9), Task(base)
    other = BASES[base](plain.model.parameters())
    for _ in range(2):
        loss = ours.opt.step(ours.failing(1, NOT_FINITE[fail]))
        assert torch.equal(loss, plain.closure())
        other.step()
    assert same(ours.all(), plain.all())
    assert ours.clean()
    assert ours.opt.diagnostics.read()["guard_rate"] == 1


@pytest.mark.parametrize("on_guard", ["fallback", "stop", "off"])
def test_one_bad_number_in_one_gradient_of_the_second_pass_is_enough(on_guard: str) -> None:
    ours, plain = Task("adamw", on_guard=on_guard), Task("adamw")
    calls: list[Tensor] = []

    def spoil(grad: Tensor) -> Tensor:
        calls.append(grad)
        return grad if len(calls) == 1 else grad.index_fill(0, torch.tensor([1]), torch.nan)

    ours.model[4].bias.register_hook(spoil)
    ours.opt.step(ours.closure)
    plain.closure()
    plain.opt.base.step()
    assert len(calls) == 2
    assert same(ours.all(), plain.all())


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_first_pass_that_is_not_finite_is_left_to_the_base(bad: float, base: str) -> None:
    ours, plain = Task(base), Task(base)
    for task in (ours, plain):  # one parameter of five
        task.model[4].bias.register_hook(lambda grad: grad.index_fill(0, torch.tensor([0]), bad))
    loss = ours.opt.step(ours.closure)
    assert torch.equal(loss, plain.closure())
    plain.opt.base.step()
    torch.testing.assert_close(ours.all(), plain.all(), rtol=0, atol=0, equal_nan=True)
    assert ours.model[0].weight.isfinite().all()
    assert ours.clean()


# --- probe() and step() ----------------------------------------------------------------------------


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(
    "options", [{}, {"lam": 0.05, "r": None, "nu": None}, {"eta": 0.01}, {"every": 2}], ids=str
)
def test_both_forms_are_equal_bit_for_bit(options: dict[str, Any], base: str) -> None:
    closed, probed = (Task(base, dropout=0.3, **options) for _ in range(2))
    for _ in range(4):
        state = torch.get_rng_state()
        closed.opt.step(closed.closure)
        after = torch.get_rng_state()
        torch.set_rng_state(state)
        probed.probed()
        assert torch.equal(torch.get_rng_state(), after)
    assert same(closed.all(), probed.all())
    assert str(closed.opt.diagnostics.read()) == str(probed.opt.diagnostics.read())  # a NaN is a NaN


def test_probe_moves_the_weights_and_restore_puts_them_back_to_the_bit() -> None:
    task = Task(dtype=torch.float32)
    task.closure()
    before, gradient = task.weights(), [p.grad.clone() for p in task.model.parameters()]
    assert task.opt.probe() is True
    for x, g, p in zip(before, gradient, task.model.parameters(), strict=True):
        torch.testing.assert_close(p.detach(), x + 0.1 * g)
        assert p.grad is None
    assert not same(before, task.weights())
    task.opt.restore()
    assert same(before, task.weights())
    assert same(gradient, [p.grad for p in task.model.parameters()])
    assert task.clean()
    task.opt.restore()  # nothing more to do
    assert same(before, task.weights())


def test_after_restore_one_may_probe_again() -> None:
    one, other = Task(), Task()
    other.probed()
    one.closure()
    one.opt.probe()
    one.opt.restore()
    one.opt.probe()
    one.loss().backward()
    one.opt.step()
    assert same(one.all(), other.all())


def test_probe_twice_is_refused_and_the_step_can_still_be_taken() -> None:
    one, other = Task(), Task()
    other.probed()
    one.closure()
    one.opt.probe()
    with pytest.raises(RuntimeError, match=r"probe\(\) twice"):
        one.opt.probe()
    one.loss().backward()
    with pytest.raises(RuntimeError, match=r"probe\(\) twice"):
        one.opt.probe()
    one.opt.step()
    assert same(one.all(), other.all())


def test_step_without_probe_is_refused() -> None:
    task = Task("adamw")
    task.closure()
    before = task.weights()
    with pytest.raises(
        RuntimeError, match=r"step\(\) needs a gradient at x \+ s here: pass a closure, or call probe"
    ):
        task.opt.step()
    assert same(before, task.weights())
    assert not task.opt.base.state
    assert task.opt.k == 0


def test_step_without_a_second_backward_is_refused_and_the_weights_come_back() -> None:
    task = Task("adamw")
    task.closure()
    before, gradient = task.weights(), [p.grad.clone() for p in task.model.parameters()]
    task.opt.probe()
    with pytest.raises(RuntimeError, match="second pass gave no gradient"):
        task.opt.step()
    assert same(before, task.weights())
    assert same(gradient, [p.grad for p in task.model.parameters()])
    assert task.clean()
    assert task.opt.k == 0


def test_a_closure_after_probe_is_refused() -> None:
    task = Task()
    task.closure()
    before = task.weights()
    task.opt.probe()
    with pytest.raises(RuntimeError, match=r"step\(closure\) after probe\(\)"):
        task.opt.step(task.closure)
    task.opt.restore()
    assert same(before, task.weights())


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("options", [{}, {"max_norm": 1e-3}], ids=["plain", "clipped"])
def test_the_gradient_of_the_last_step_does_not_pass_for_a_new_one(
    options: dict[str, Any], base: str
) -> None:
    task = Task(base, **options)
    task.probed()
    before = task.weights()
    with pytest.raises(RuntimeError, match=r"still has the gradient of the last step: call zero_grad\(\)"):
        task.opt.probe()
    assert same(before, task.weights())


@pytest.mark.parametrize("options", [{}, {"from_": 1}], ids=["penalised", "off"])
def test_nor_does_that_of_a_step_with_a_closure(options: dict[str, Any]) -> None:
    task = Task(**options)
    task.opt.step(task.closure)
    assert task.opt.active
    before = task.weights()
    with pytest.raises(RuntimeError, match="still has the gradient of the last step"):
        task.opt.probe()
    assert same(before, task.weights())


def test_a_new_gradient_on_top_of_zeros_is_a_new_one() -> None:
    one, other = Task(), Task()
    for task, to_none in ((one, True), (other, False)):
        for _ in range(3):
            task.opt.zero_grad(set_to_none=to_none)
            task.loss().backward()
            task.opt.probe()
            task.opt.zero_grad(set_to_none=to_none)
            task.loss().backward()
            task.opt.step()
    assert same(one.all(), other.all())


def test_while_off_probe_says_so_and_moves_nothing() -> None:
    ours, plain = Task("adamw", from_=5), Task("adamw")
    before = ours.weights()
    ours.closure()
    assert ours.opt.probe() is False
    assert same(before, ours.weights())
    ours.opt.step()
    plain.closure()
    plain.opt.base.step()
    assert same(ours.all(), plain.all())
    assert ours.opt.k == 1


def test_clearing_the_gradients_of_a_step_left_out_puts_the_weights_back() -> None:
    task = Task(dtype=torch.float32)
    task.closure()
    before = task.weights()
    task.opt.probe()
    task.loss().backward()
    task.opt.zero_grad()
    assert same(before, task.weights())
    assert all(p.grad is None for p in task.model.parameters())
    assert task.clean()


def test_and_begins_a_step_like_any_other() -> None:
    left_out, plain = Task(dropout=0.3), Task(dropout=0.3)
    left_out.closure()
    plain.model.load_state_dict(left_out.model.state_dict())
    left_out.opt.probe()
    left_out.loss().backward()
    left_out.opt.zero_grad()  # repairs, and is at once the beginning of a step
    state = torch.get_rng_state()
    left_out.loss().backward()
    left_out.opt.probe()
    left_out.loss().backward()
    left_out.opt.step()
    torch.set_rng_state(state)
    plain.probed()
    assert same(left_out.all(), plain.all())


def test_an_exception_between_the_forms_is_repaired_by_restore() -> None:
    task = Task(dtype=torch.float32)
    task.closure()
    before = task.weights()
    task.opt.probe()
    with pytest.raises(KeyboardInterrupt):
        in_backward(task, task.loss(), KeyboardInterrupt).backward()
    task.opt.restore()
    assert same(before, task.weights())
    assert task.clean()


def test_an_optimizer_thrown_away_leaves_no_hook_on_the_network() -> None:
    task = Task()
    task.closure()
    task.opt.probe()
    model = task.model
    assert model._forward_pre_hooks
    del task
    gc.collect()
    assert not model._forward_pre_hooks
    assert not model._state_dict_pre_hooks
    assert not any(p._post_accumulate_grad_hooks for p in model.parameters())
