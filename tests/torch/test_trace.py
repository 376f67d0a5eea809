"""A step leaves the trace of one pass: weights, buffers, random numbers, and nothing on the network."""

import io

import pytest
import torch
from torch import nn
from torch.optim import SGD

from steepen.torch import SAM

from ..pairs import pairs
from .nets import ALL, BASES, LOOPS, Net, X, Y, built, make, mse, same, state, weights


def failing(net, call):
    """Return a network whose pass of that number raises, with its gradient half taken."""
    calls = iter(range(9))

    def forward(x):
        out = net(x)
        if next(calls) == call:
            out.sum().backward(retain_graph=True)
            raise KeyError("mine")
        return out

    return forward


@pairs(name=["SAM", "share", "CGD", "MSAM", "GapSAM", "EGR", "GNP"], loop=LOOPS, call=[0, 1])
def test_an_exception_in_either_pass_leaves_the_weights_to_the_bit(name, loop, call):
    (model, opt), (plain, other) = built(name), built(name)
    for _ in range(8):  # so that there is momentum, and a gap, and the next step has an ascent step
        LOOPS[loop](opt, model)
        LOOPS[loop](other, plain)
    before = weights(model)
    with pytest.raises(KeyError, match="mine"):
        LOOPS[loop](opt, failing(model, 0 if name in ("MSAM", "EGR") else call))
    assert same(weights(model), before)
    for _ in range(2):  # and the run goes on as if nothing had happened
        LOOPS[loop](opt, model)
        LOOPS[loop](other, plain)
    if name != "GapSAM":  # which has read its validation data once more
        assert same(weights(model), weights(plain))


def test_passes_that_are_closed_late_leave_a_later_step_alone():
    """A traceback may keep an abandoned generator alive until some later step is under way."""
    (model, opt), (plain, other) = built("SAM"), built("SAM")
    kept = opt.passes((X, Y))
    mse(model, *next(kept)).backward()
    opt.restore()
    assert not opt.ascending
    for part in opt.passes((X, Y)):
        assert opt.moved is not opt.ascending
        if opt.moved:
            kept.close()
        loss = mse(model, *part)
        loss.backward()
        opt.record_loss(loss)
    opt.step()
    LOOPS["passes"](other, plain)
    assert same(weights(model), weights(plain))


@pairs(name=["SAM", "share", "CGD", "MSAM"], after=[0, 1], way=["restore", "close", "collected"])
def test_passes_abandoned_half_way_leave_the_weights_to_the_bit(name, after, way):
    model, opt = built(name)
    LOOPS["passes"](opt, model)
    before = weights(model)
    passes = opt.passes((X, Y))
    for i, part in enumerate(passes):
        mse(model, *part).backward()
        if i == (0 if name == "MSAM" else after):
            assert same(weights(model), before) is (not opt.moved)
            break
    if way != "collected":
        (opt.restore if way == "restore" else passes.close)()
    del passes
    assert same(weights(model), before)
    LOOPS["passes"](opt, model)
    assert not same(weights(model), before)
    assert all(p.isfinite().all() for p in model.parameters())


def test_a_loop_that_was_left_is_dropped_by_the_next_step_and_cannot_go_on():
    """A traceback in a notebook keeps the generator of an interrupted loop; the cell is simply run again."""
    (model, opt), (plain, other) = built("SAM"), built("SAM")
    before, left = weights(model), opt.passes((X, Y))
    mse(model, *next(left)).backward()
    mse(model, *next(left)).backward()
    assert not same(weights(model), before)
    LOOPS["step_on"](opt, model)
    LOOPS["step_on"](other, plain)
    assert same(weights(model), weights(plain))
    with pytest.raises(RuntimeError, match=r"restore\(\) or another step has ended this one; leave its loop"):
        next(left)
    assert same(weights(model), weights(plain))


def test_a_second_passes_before_step_and_a_step_before_the_last_pass_are_refused():
    model, opt = built("share")
    before = weights(model)
    passes = opt.passes((X, Y))
    mse(model, *next(passes)).backward()
    with pytest.raises(RuntimeError, match=r"step\(\).*after the loop"):
        opt.step()  # at the ascent step's pass there is no gradient to step by
    del passes
    for part in opt.passes((X, Y)):
        mse(model, *part).backward()
    with pytest.raises(RuntimeError, match=r"passes\(\) before step\(\)"):
        next(opt.passes((X, Y)))
    assert same(weights(model), before)
    opt.step()
    assert not same(weights(model), before)


@pytest.mark.parametrize("name", ["SAM", "CGD", "share"])
def test_weights_come_back_to_the_bit(name):
    """With a base that does nothing, in float32 and bf16, where x + s − s is not x."""
    for dtype in (torch.float32, torch.bfloat16):
        model = Net(dtype=dtype)
        opt = ALL[name](SGD(model.parameters(), lr=0.0), model)
        before = weights(model)
        opt.step_on(lambda x, y, model=model, dtype=dtype: mse(model, x.to(dtype), y.to(dtype)), X, Y)
        assert opt.report().length > 0
        assert same(weights(model), before)


class Counting(nn.Linear):
    """Buffers that a pass changes in place, and that it replaces: how many, of what, at which weights."""

    def __init__(self):
        super().__init__(3, 2)
        for name in ("in_place", "replaced", "rows", "at"):
            self.register_buffer(name, torch.zeros(()))
        self.double()

    def forward(self, x):
        self.in_place.add_(1)
        self.replaced = self.replaced + 1
        self.rows, self.at = torch.tensor(len(x)), self.weight.detach().sum()
        return super().forward(x)


@pytest.mark.parametrize("name", ALL)
def test_buffers_are_those_of_one_pass_a_step(name):
    """Two passes: of the pass at x. A share: of the pass over the batch, at x + s."""
    model = Counting()
    opt = ALL[name](BASES["momentum"](model.parameters()), model)
    if name == "GapSAM":
        opt.validation = lambda: torch.tensor(9.0)
    for k, loop in enumerate(LOOPS.values(), 1):
        before = model.weight.detach().sum()
        loop(opt, model)
        assert (model.in_place, model.replaced, model.rows) == (k, k, 16)
        if name != "MSAM":
            assert torch.equal(model.at, before) is (name != "share")


LOOP_OF = {"SAM": "step_on", "CGD": "closure", "share": "passes", "GapSAM": "closure", "MSAM": "step_on"}


@pytest.mark.parametrize(("name", "loop"), LOOP_OF.items())
def test_both_passes_draw_the_same_and_the_stream_is_where_one_pass_leaves_it(name, loop):
    model, opt = built(name)
    drawn = []

    def drawing(x):
        drawn.append(torch.rand(16, 1)[: len(x)])
        return model(x) * drawn[-1]

    torch.manual_seed(5)
    LOOPS[loop](opt, drawing)
    after = torch.get_rng_state()
    if name != "MSAM":
        assert torch.equal(drawn[-2], drawn[-1][: len(drawn[-2])])
    torch.manual_seed(5)
    first = torch.rand(16, 1)
    assert torch.equal(after, torch.get_rng_state())
    LOOPS[loop](opt, drawing)
    assert not torch.equal(drawn[-1], first)  # the next step draws on


@pytest.mark.parametrize("name", ["SAM", "share", "CGD", "GapSAM", "EGR", "ASAM"])
def test_the_network_carries_nothing_of_ours(name):
    model, bare = Net(norm=True), Net(norm=True)
    opt = make(name, model)
    for _ in range(2):
        LOOPS["step_on"](opt, model)
    for ours, theirs in zip(model.modules(), bare.modules(), strict=True):
        assert type(ours) is type(theirs)
        assert ours.__dict__.keys() == theirs.__dict__.keys()
        assert not any(value for key, value in ours.__dict__.items() if "hooks" in key)
    for p in model.parameters():
        assert not p._backward_hooks
        assert not p.__dict__
        assert not getattr(p, "_post_accumulate_grad_hooks", None)
    torch.save(model, saved := io.BytesIO())
    assert b"steepen" not in saved.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SAM", "share", "CGD", "GapSAM"])
def test_compiled_in_one_graph_it_equals_eager_and_can_be_exported(name):
    torch._dynamo.reset()
    model, plain = Net(norm=True), Net(norm=True)
    compiled = torch.compile(model, fullgraph=True, backend="eager", dynamic=False)
    opt, other = make(name, compiled), make(name, plain)
    for _ in range(4):
        LOOPS["step_on"](opt, compiled)
        LOOPS["step_on"](other, plain)
    torch.testing.assert_close(state(model), state(plain), rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(torch.export.export(model.eval(), (X,), strict=True).module()(X), model(X))
    torch._dynamo.reset()


def test_a_step_keeps_no_copy_of_the_parameters():
    model, opt = built("CGD")
    copies = lambda: [*opt._now.g, *opt._now.params, *opt._now.undo]  # noqa: E731
    within = []
    LOOPS["step_on"](opt, lambda x: (within.append(len(copies())), model(x))[1])
    assert within[1] > within[0] > len(copies()) == 0


def test_steps_while_off_are_those_of_the_base_to_the_bit():
    for loop in LOOPS.values():
        model, plain = Net(dropout=0.3, norm=True), Net(dropout=0.3, norm=True)
        opt = SAM(BASES["adamw"](model.parameters()), model, rho=0.1, ascent_fraction=1 / 4, when=range(0))
        base = BASES["adamw"](plain.parameters())
        for seed in range(4):
            torch.manual_seed(seed)
            loop(opt, model)
            torch.manual_seed(seed)
            base.zero_grad()
            mse(plain).backward()
            base.step()
        assert same(state(model), state(plain))


def test_gradients_of_before_are_cleared_and_a_closure_does_not_drop_them_unsaid():
    """Where a closure is all that is known, gradients of others mean that somebody accumulates."""
    model, plain = Net(), Net()
    mse(model).backward()  # older than the optimizer
    opt, other = make("CGD", model), make("CGD", plain)
    LOOPS["closure"](opt, model)
    LOOPS["closure"](other, plain)
    for name, loop in LOOPS.items():
        (mse(model) * 100).backward()
        if name == "closure":
            with pytest.raises(
                RuntimeError, match=r"would be dropped.*passes\(\).*AscentCallback.*zero_grad"
            ):
                loop(opt, model)
            assert same(weights(model), weights(plain))
            model.zero_grad(set_to_none=False)
        loop(opt, model)
        loop(other, plain)
        assert same(weights(model), weights(plain))


@pytest.mark.parametrize("name", ["SAM", "share", "CGD", "GapSAM", "MSAM", "EGR"])
def test_parameters_of_another_optimizer_get_the_gradient_of_the_pass_over_the_batch(name):
    """Not the sum of both passes; added to what they had, as by one backward()."""
    model = Net()
    others = [model.first.bias, model.last.bias]
    opt = ALL[name](BASES["momentum"]([model.first.weight, model.last.weight]), model)
    passes = []

    def loss_of(x, y):
        loss = mse(model, x, y)
        if torch.is_grad_enabled():
            passes.append(torch.autograd.grad(loss, others, retain_graph=True))
        return loss

    for _ in range(2):
        for p in others:
            p.grad = torch.ones_like(p)
        opt.step_on(loss_of, X, Y)
        for p, one in zip(others, passes[-1], strict=True):
            torch.testing.assert_close(p.grad, 1 + one)
            assert not p.grad.requires_grad
    assert len(passes) == {"MSAM": 2, "GapSAM": 3, "EGR": 3}.get(name, 4)


@pytest.mark.parametrize("loop", LOOPS)
def test_hooks_of_torch_s_optimizers_are_called_once_for_every_step_that_is_taken(loop):
    model, opt = built("CGD")
    called = []
    opt.register_step_pre_hook(lambda *_: called.append("before"))
    opt.register_step_post_hook(lambda *_: called.append("after"))
    opt.base.register_step_post_hook(lambda *_: called.append("base"))
    LOOPS[loop](opt, model)
    assert called == ["before", "base", "after"]
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for factor in (torch.inf, 1.0):
        called.clear()
        LOOPS[loop](opt, lambda x, factor=factor: factor * model(x), scaler=scaler)
        assert called == ([] if factor > 1 else ["before", "base", "after"])
        scaler.update()
    opt.add_param_group({"params": [nn.Parameter(torch.ones(2))], "lr": 0.5})
    assert len(opt.base.param_groups) == len(opt.param_groups) == 2
    LOOPS[loop](opt, model)
