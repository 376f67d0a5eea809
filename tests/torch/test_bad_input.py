"""What `CGD` refuses, in words that name the argument."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import LBFGS, SGD, Adadelta, AdamW

from steepen import schedules
from steepen.torch import CGD, SAM

torch.set_num_threads(1)  # the networks are tiny

NAN, INF = float("nan"), float("inf")
FORMS = ["closure", "probe"]


def sgd() -> SGD:
    return SGD([nn.Parameter(torch.ones(3))], lr=0.1)


def refused(error: type[Exception], *texts: str, base: Any = None, **options: Any) -> None:
    """Hold that it is refused at once, with the argument's name first and all of the texts in the message."""
    with pytest.raises(error) as caught:
        CGD(sgd() if base is None else base, **options)
    message = str(caught.value)
    assert type(caught.value) is error
    assert message.startswith(f"{texts[0]}: "), message
    assert all(text in message for text in texts), message


def descend(opt: CGD, loss: Callable[[], Tensor], form: str = "closure") -> None:
    """Take one step on a loss."""

    def closure() -> Tensor:
        opt.zero_grad()
        value = loss()
        value.backward()
        return value

    if form == "closure":
        opt.step(closure)
        return
    closure()
    if opt.probe():
        loss().backward()
    opt.step()


# --- the base --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "base", [None, 0.1, "sgd", [nn.Parameter(torch.ones(2))], SGD, nn.Linear(2, 2)], ids=repr
)
def test_a_base_that_is_no_optimizer(base: Any) -> None:
    with pytest.raises(TypeError, match=r"^base: expected an instance of an optimizer of torch.optim, got "):
        CGD(base, lam=0.1)


def test_bases_that_take_more_than_one_gradient() -> None:
    refused(
        TypeError, "base", "one gradient a step", "LBFGS", base=LBFGS([nn.Parameter(torch.ones(2))]), lam=0.1
    )
    refused(TypeError, "base", "one gradient a step", "CGD", base=CGD(sgd(), lam=0.1), lam=0.1)
    refused(TypeError, "base", "one gradient a step", "SAM", base=SAM(sgd()), lam=0.1)


def test_a_base_without_parameters() -> None:
    empty = SGD([{"params": []}], lr=0.1)
    refused(ValueError, "base", "at least one parameter", base=empty, lam=0.1)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_parameters(dtype: torch.dtype) -> None:
    base = SGD([nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2, 3, dtype=dtype))], lr=0.1)
    refused(TypeError, "base", "real parameters", str(dtype), "(2, 3)", base=base, lam=0.1)


def test_a_base_refused_is_left_as_it_was() -> None:
    base = sgd()
    groups = copy.deepcopy(base.param_groups)
    for options in ({"lam": "x"}, {"lam": 0.1, "rho": -1.0}, {"lam": 0.1, "phase": "early"}, {"share": 1.0}):
        with pytest.raises((TypeError, ValueError)):
            CGD(base, **options)
    assert base.param_groups[0].keys() == groups[0].keys()


def test_a_key_that_the_base_has_for_itself_is_not_taken_for_ours() -> None:
    """Adadelta's groups have a rho of their own, 0.9: it is not SAM's."""
    p, q = nn.Parameter(torch.ones(2).double()), nn.Parameter(torch.ones(2).double())
    opt = SAM(Adadelta([p], lr=1.0, rho=0.9), rho=0.05)
    descend(opt, lambda: p.pow(4).sum() / 4)
    at = 1 + 0.05 / 2**0.5  # where SAM's ρ leads, from x = 1 with g = 1
    literal = Adadelta([q], lr=1.0, rho=0.9)
    q.grad = torch.full_like(q, at**3)
    literal.step()
    torch.testing.assert_close(p.grad, torch.full_like(p, at**3))
    torch.testing.assert_close(p.detach(), q.detach())


# --- numbers and words -----------------------------------------------------------------------------

WRONG_NUMBERS = [
    ("lam", "0.1", TypeError),
    ("lam", [0.1, 0.2], TypeError),
    ("lam", torch.tensor(0.1), TypeError),
    ("lam", True, TypeError),
    ("lam", NAN, ValueError),
    ("lam", INF, ValueError),
    ("lam", -INF, ValueError),
    ("nu", "1", TypeError),
    ("nu", NAN, ValueError),
    *[(name, value, ValueError) for name in ("r", "rho", "probe") for value in (0, -0.1, NAN, INF)],
    *[(name, "0.1", TypeError) for name in ("r", "rho", "probe", "nu_max", "probe_max", "max_norm", "eta")],
    *[
        (name, value, ValueError)
        for name in ("nu_max", "probe_max", "max_norm")
        for value in (0, -1.0, NAN, INF)
    ],
    ("eta", -0.1, ValueError),
    ("eta", NAN, ValueError),
    *[
        (name, value, ValueError)
        for name in ("every", "patience", "steps")
        for value in (0, -1, 1.5, "2", NAN)
    ],
    *[(name, value, ValueError) for name in ("warmup", "from_", "until") for value in (-1, 0.5, "2")],
    ("dtype", "bfloat16", TypeError),
    ("model", "resnet", TypeError),
    ("mode", "fd", ValueError),
    ("mode", None, ValueError),
    ("phase", "middle", ValueError),
    ("on_guard", "raise", ValueError),
    ("perturbation", "all", ValueError),
]


@pytest.mark.parametrize(("name", "value", "error"), WRONG_NUMBERS, ids=str)
def test_a_wrong_value_is_named_with_what_was_expected_and_what_came(
    name: str, value: Any, error: Any
) -> None:
    options = {name: value} if name in ("lam", "nu") else {"lam": 0.1, name: value}
    refused(error, name, "expected", f"got {value!r}", **options)


@pytest.mark.parametrize("value", [0.0, -0.1, 1.5, NAN, "half"])
def test_a_wrong_fraction(value: Any) -> None:
    error = TypeError if isinstance(value, str) else ValueError
    refused(error, "fraction", f"got {value!r}", lam=0.1, phase="early", steps=10, fraction=value)


def test_a_wrong_schedule_is_named_once() -> None:
    with pytest.raises(ValueError, match=r"^lam: expected a number, got shape \(2,\)"):
        CGD(sgd(), lam=schedules.Constant(np.array([0.1, 0.2])))


def test_values_that_do_not_go_together() -> None:
    refused(ValueError, "lam", "not both", rho=0.1)
    refused(ValueError, "lam", "not both", lam=0.1, nu=0.5)
    refused(ValueError, "rho", "already set by r", lam=0.1, r=0.1, rho=0.1)
    refused(ValueError, "probe", "already set by rho", lam=0.1, rho=0.1, probe=0.1)
    refused(ValueError, "steps", "phase='early'", "number of its steps", lam=0.1, phase="early")
    refused(ValueError, "steps", "phase='late'", lam=0.1, phase="late")
    refused(ValueError, "until", "after the first penalised one, 5", "got 5", lam=0.1, from_=5, until=5)
    refused(ValueError, "until", "got 3", lam=0.1, until=3, warmup=3)
    refused(ValueError, "phase", "either", "'late'", lam=0.1, phase="late", steps=9, from_=5)
    refused(ValueError, "warmup", "less than the 5 steps", lam=0.1, steps=5, warmup=5)
    refused(ValueError, "nu", "exact mode", "lam alone", nu=0.5, mode="exact")
    refused(ValueError, "lam", "exact mode", mode="exact")
    refused(ValueError, "rho", "exact mode", lam=0.1, rho=0.1, mode="exact")
    refused(ValueError, "eta", "exact mode", lam=0.1, eta=0.1, mode="exact")
    refused(
        ValueError, "model", "local", "DistributedDataParallel", "no model", lam=0.1, perturbation="local"
    )


@pytest.mark.parametrize("schedule", [schedules.Auto(), schedules.Signed(0.4)], ids=repr)
def test_schedules_that_ask_for_the_curvature_are_not_read_as_a_number(schedule: Any) -> None:
    refused(TypeError, "lam", "curvature", lam=schedule)


@pytest.mark.parametrize(
    "lam", [lambda k: NAN, lambda k: "much", lambda k: None], ids=["nan", "text", "none"]
)
def test_a_schedule_that_gives_no_number_is_an_error_at_that_step(lam: Any) -> None:
    p = nn.Parameter(torch.ones(2))
    with pytest.raises(ValueError, match="expected a finite number at k = 0, got"):
        descend(CGD(SGD([p], lr=0.1), lam=lam), lambda: p.square().sum())
    assert torch.equal(p, torch.ones(2))


@pytest.mark.parametrize("value", ["much", NAN, INF, lambda k: 0.1], ids=["text", "nan", "inf", "callable"])
def test_a_wrong_value_of_a_group(value: Any) -> None:
    base = SGD([{"params": [nn.Parameter(torch.ones(2))], "lam": value}], lr=0.1)
    refused(
        TypeError if isinstance(value, str) or callable(value) else ValueError,
        "lam",
        "group",
        base=base,
        lam=0.1,
    )


@pytest.mark.parametrize("name", ["r", "rho", "probe"])
def test_a_length_of_a_group_cannot_be_negative_either(name: str) -> None:
    base = SGD([{"params": [nn.Parameter(torch.ones(2))], name: -0.1}], lr=0.1)
    refused(ValueError, name, base=base, nu=1.0, **{name: 0.1})


def test_numbers_of_numpy_and_whole_ones_are_numbers() -> None:
    for lam in (np.float32(0.1), np.int64(1), 1, 0, -0.1):
        CGD(sgd(), lam=lam, steps=np.int64(3), max_norm=np.float64(1.0))


# --- schedules that end ----------------------------------------------------------------------------


def test_a_schedule_known_to_be_too_short_is_refused() -> None:
    table = schedules.Table([0.1] * 5)
    refused(ValueError, "lam", "covers 5 of 8 steps", "until=", lam=table, steps=8)
    refused(ValueError, "rho", "covers 5 of 8 steps", nu=1.0, rho=table, steps=8)
    refused(ValueError, "lam", "steps=", lam=schedules.L(0.1, 0.2))
    CGD(sgd(), lam=table, steps=8, until=5)
    CGD(sgd(), lam=table, steps=8, phase="early", fraction=0.5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("every", [1, 2, 3])
def test_one_that_ends_on_the_way_says_so_once_and_the_base_goes_on(every: int, form: str) -> None:
    p, q = nn.Parameter(torch.ones(2).double()), nn.Parameter(torch.ones(2).double())
    opt = CGD(SGD([p], lr=0.1, momentum=0.9), lam=schedules.Table([0.1] * 5), every=every)
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", "a schedule")
        for _ in range(5):
            descend(opt, lambda: p.pow(4).sum(), form)
        assert not caught
        q.data.copy_(p.data)
        base = SGD([q], lr=0.1, momentum=0.9)
        base.load_state_dict(copy.deepcopy(opt.base.state_dict()))
        for _ in range(6):
            descend(opt, lambda: p.pow(4).sum(), form)
    assert len(caught) == 1
    assert "a schedule has ended at step" in str(caught[0].message)
    for _ in range(6):
        q.grad = 4 * q.detach() ** 3
        base.step()
    assert torch.equal(p, q)


def test_that_warning_points_at_the_line_of_the_user() -> None:
    p = nn.Parameter(torch.ones(2))
    opt = CGD(SGD([p], lr=0.1), lam=schedules.Table([0.1]))
    descend(opt, lambda: p.square().sum())
    with pytest.warns(UserWarning, match="a schedule has ended") as caught:
        opt.step(lambda: p.square().sum().backward())
    assert Path(caught[0].filename).name == Path(__file__).name


# --- gradients -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"lam": 0.1}, {"lam": 0.1, "mode": "exact"}, {"rho": 0.1, "share": 0.5}])
def test_a_closure_without_backward_does_nothing_as_with_the_base(options: dict[str, Any]) -> None:
    """Lightning has such: an epoch that only collects statistics, or a training_step that returns None."""
    p = nn.Parameter(torch.ones(2))
    opt = CGD(AdamW([p], lr=0.1), **options)
    calls: list[int] = []
    for _ in range(2):
        opt.step(lambda: calls.append(0))
    assert torch.equal(p, torch.ones(2))
    assert len(calls) == opt.k == 2


def test_but_one_that_leaves_an_older_gradient_is_refused() -> None:
    p = nn.Parameter(torch.ones(2))
    opt = CGD(SGD([p], lr=0.1), lam=0.1)
    p.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match=r"has a gradient from before step\(closure\)"):
        opt.step(lambda: p.square().sum())
    assert torch.equal(p, torch.ones(2))


def test_a_closure_whose_second_call_has_no_backward() -> None:
    p = nn.Parameter(torch.full((2,), 0.1))
    opt = CGD(AdamW([p], lr=0.1), lam=0.1)
    calls: list[int] = []

    def closure() -> Tensor:
        opt.zero_grad()
        loss = p.square().sum()
        if not calls:
            loss.backward()
        calls.append(1)
        return loss

    with pytest.raises(RuntimeError, match="the second pass gave no gradient"):
        opt.step(closure)
    assert torch.equal(p, torch.full((2,), 0.1))
    assert not opt.base.state


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
def test_the_exact_mode_says_what_it_needs() -> None:
    p = nn.Parameter(torch.ones(2))
    opt = CGD(SGD([p], lr=0.1), lam=0.1, mode="exact")
    with pytest.raises(RuntimeError, match=r"call backward\(create_graph=True\)"):
        descend(opt, lambda: p.pow(4).sum())
    with pytest.raises(RuntimeError, match=r"probe\(\) in the exact mode"):
        opt.probe()
    opt.zero_grad()
    with pytest.raises(RuntimeError, match="no parameter has a gradient"):
        opt.step()
    assert torch.equal(p, torch.ones(2))


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
def test_the_exact_mode_takes_a_parameter_whose_gradient_is_constant() -> None:
    p, q = nn.Parameter(torch.ones(2).double()), nn.Parameter(torch.ones(2).double())
    opt = CGD(SGD([p, q], lr=0.1), lam=0.05, mode="exact")

    def closure() -> None:
        opt.zero_grad()
        (p.pow(4).sum() / 4 + 3 * q.sum()).backward(create_graph=True)  # q is like the last bias of a critic

    opt.step(closure)
    torch.testing.assert_close(p.grad, torch.full_like(p, 1 + 2 * 0.05 * 3))
    torch.testing.assert_close(q.grad, torch.full_like(q, 3.0))


def test_no_gradients_at_all() -> None:
    p = nn.Parameter(torch.ones(2))
    opt = CGD(SGD([p], lr=0.1), lam=0.1)
    with pytest.raises(RuntimeError, match="no parameter has a gradient"):
        opt.probe()


@pytest.mark.parametrize("form", FORMS)
def test_sparse_gradients(form: str) -> None:
    model = nn.Sequential(nn.Embedding(5, 3, sparse=True), nn.Linear(3, 1))
    before = [p.detach().clone() for p in model.parameters()]
    opt = CGD(SGD(model.parameters(), lr=0.1), lam=0.1)
    with pytest.raises(
        TypeError, match=r"shape \(5, 3\) has a sparse gradient; .* for an embedding, sparse=False"
    ):
        descend(opt, lambda: model(torch.tensor([1, 3])).sum(), form)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_mixed_devices() -> None:
    here, there = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2, device="meta"))
    opt = CGD(SGD([here, there], lr=0.1), lam=0.1)
    here.grad, there.grad = torch.ones(2), torch.ones(2, device="meta")
    with pytest.raises(ValueError, match=r"^base: expected parameters on one device, got cpu, meta; "):
        opt.probe()
    assert torch.equal(here, torch.ones(2))
