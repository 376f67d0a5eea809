"""The first step tells all: what cannot work is refused at construction or at step 0, weights untouched."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence
from torch.optim import LBFGS, SGD, AdamW

import steepen.torch
import steepen.torch.paper as paper
from steepen.schedules import Signed
from steepen.torch import CGD, SAM, GapSAM, Probe
from steepen.torch.paper import ASAM, CGDFD, GNP, MSAM, USAM, WSAM, ExactCGD

from .nets import ALL, LOOPS, Net, X, Y, make, mse, same, weights

MODEL = Net()
BASE = SGD(MODEL.parameters(), lr=0.1)
NOTHING: Any = None

# --- at construction ---------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "model not given": (lambda: SAM(BASE), TypeError, "'model'"),
    "model not given, lam": (lambda: CGD(BASE, lam=0.1), TypeError, "'model'"),
    "model": (lambda: SAM(BASE, 0.05), TypeError, "model: expected the network"),
    "params": (lambda: SAM(MODEL.parameters(), MODEL), TypeError, "base: expected an instance"),
    "class": (lambda: SAM(SGD, MODEL), TypeError, "base: expected an instance of an optimizer"),
    "lbfgs": (
        lambda: CGD(LBFGS([MODEL.unused]), MODEL, 0.1),
        TypeError,
        "base: LBFGS makes passes of its own",
    ),
    "twice": (lambda: SAM(SAM(BASE, MODEL), MODEL), TypeError, "base: SAM makes passes of its own"),
    "no momentum": (lambda: MSAM(BASE, MODEL), ValueError, "base: expected an optimizer with momentum"),
    "both ways": (
        lambda: SAM(
            SGD([{"params": [MODEL.unused], "maximize": True}, {"params": MODEL.first.parameters()}]), MODEL
        ),
        ValueError,
        "base: expected one `maximize`",
    ),
    "meta": (lambda: SAM(SGD(nn.Linear(1, 1, device="meta").parameters()), MODEL), TypeError, "meta device"),
    "complex": (
        lambda: SAM(SGD([nn.Parameter(torch.ones(1, dtype=torch.complex64))]), MODEL),
        TypeError,
        "base: expected real parameters.*complex64",
    ),
    "rho": (lambda: SAM(BASE, MODEL, rho=-0.1), ValueError, "rho: expected a number, 0 or more.*-0.1"),
    "rho, words": (lambda: SAM(BASE, MODEL, rho="much"), Exception, "rho: .*'much'"),
    "lam": (lambda: CGD(BASE, MODEL, lam=math.nan), ValueError, "lam: expected a finite number.*nan"),
    "lam, curvature": (
        lambda: CGD(BASE, MODEL, lam=Signed(0.1)),
        ValueError,
        "lam: a schedule by the curvature",
    ),
    "lam, not given": (lambda: CGD(BASE, MODEL), TypeError, "'lam'"),
    "r": (lambda: CGDFD(BASE, MODEL, 0.1, r=0.0), ValueError, "r: expected a positive number"),
    "gamma": (
        lambda: WSAM(BASE, MODEL, gamma=1.0),
        ValueError,
        "gamma: expected a number, 0 or more and below 1",
    ),
    "eta": (lambda: ASAM(BASE, MODEL, eta=-1.0), ValueError, "eta: expected a number, 0 or more"),
    "share, 0": (lambda: SAM(BASE, MODEL, share=0), ValueError, "share: expected a part of the batch"),
    "share, 2": (lambda: SAM(BASE, MODEL, share=2), ValueError, "share: expected a part of the batch.*got 2"),
    "share, of CGD": (lambda: CGD(BASE, MODEL, 0.1, share=0.5), TypeError, "'share'"),
    "when": (lambda: SAM(BASE, MODEL, when=3), TypeError, "when: expected the steps with a probe"),
    "max_norm": (lambda: SAM(BASE, MODEL, max_norm=0), ValueError, "max_norm: expected a positive number"),
    "dtype": (lambda: CGD(BASE, MODEL, 0.1, dtype=torch.int8), ValueError, "dtype: expected the precision"),
    "steps": (
        lambda: GapSAM(BASE, MODEL, None, 10),
        ValueError,
        "steps: expected a whole number, 20 or more",
    ),
    "steps, not given": (lambda: GapSAM(BASE, MODEL, None), TypeError, "'steps'"),
    "steps, 1e4": (lambda: GapSAM(BASE, MODEL, None, 1e4), ValueError, "steps: expected a whole"),
    "every": (lambda: GapSAM(BASE, MODEL, None, 50, every=0), ValueError, "every: expected a whole number"),
    "strength": (
        lambda: GapSAM(BASE, MODEL, None, 50, strength=0),
        ValueError,
        "strength: expected a positive",
    ),
    "wait": (lambda: GapSAM(BASE, MODEL, None, 50, wait=3), TypeError, "wait: expected True or False"),
    "loss": (lambda: GapSAM(BASE, MODEL, X, 50, loss=3), TypeError, "loss: expected a callable"),
    "loss, twice": (
        lambda: GapSAM(BASE, MODEL, lambda: 1.0, 50, loss=mse),
        TypeError,
        "loss: held_out is a callable",
    ),
    "iterator": (lambda: GapSAM(BASE, MODEL, iter([(X, Y)]), 50), TypeError, "held_out: .* read again"),
    "copy": (lambda: copy.deepcopy(SAM(BASE, MODEL)), TypeError, "a copy of SAM would move the old network"),
    "no step": (lambda: SAM(BASE, MODEL).step(), RuntimeError, r"step_on\(loss_of, \*batch\).*opt.own"),
    "no batch": (lambda: list(SAM(BASE, MODEL).passes()), TypeError, "passes: expected a batch"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_at_once(name: str) -> None:
    make, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        make()


# --- at step 0 ------------------------------------------------------------------------------------------


class Bag:
    """A batch that nobody knows how to cut."""


def take(opt: Probe, model: nn.Module, loss_of: Callable[..., Any], *batch: Any) -> Any:
    return opt.step_on(loss_of, *batch)


def share(model: nn.Module) -> SAM:
    return SAM(SGD(model.parameters(), lr=0.1), model, share=1 / 4)


def gap(model: nn.Module, held_out: Any = None, **options: Any) -> GapSAM:
    return GapSAM(SGD(model.parameters(), lr=0.1), model, held_out, 50, share=1 / 4, **options)


def plain(model: nn.Module) -> SAM:
    return SAM(SGD(model.parameters(), lr=0.1), model, share=1.0)


def by_passes(opt: Probe, model: nn.Module, body: Callable[[Any], Any]) -> None:
    for part in opt.passes((X, Y)):
        body(part)
    opt.step()


def twice(opt: Probe, model: nn.Module) -> Callable[[Any], None]:
    def body(part: Any) -> None:
        for _ in range(2):
            loss = mse(model, *part)
            loss.backward()
            opt.saw(loss)

    return body


def uncut(opt: Probe, model: nn.Module) -> Callable[[], Tensor]:
    def closure() -> Tensor:
        loss = mse(model)
        loss.backward()
        return loss

    return closure


def silent(opt: Probe, model: nn.Module) -> Callable[[], None]:
    def closure() -> None:
        mse(model, *opt.part((X, Y))).backward()

    return closure


STEP: dict[str, tuple[Callable[[nn.Module], Any], type[Exception], str]] = {
    "a type that cannot be cut": (
        lambda m: share(m).step_on(lambda b: mse(m), Bag()),
        TypeError,
        "batch: found no tensor in a .*; pass a tensor, or a tuple",
    ),
    "passes, a type that cannot be cut": (
        lambda m: next(share(m).passes(Bag())),
        TypeError,
        "batch: found no tensor in a Bag",
    ),
    "words": (lambda m: next(share(m).passes("abc")), TypeError, "found no tensor in a str"),
    "rows that differ": (
        lambda m: share(m).step_on(lambda x, y: mse(m, x, y), X, Y[:5]),
        ValueError,
        "batch: found tensors of 5 and 16 rows",
    ),
    "packed": (
        lambda m: next(share(m).passes(pack_sequence([X[0], X[1]]))),
        TypeError,
        "batch: cannot cut a ragged PackedSequence",
    ),
    "sparse": (
        lambda m: next(share(m).passes(X.to_sparse())),
        TypeError,
        "batch: cannot cut a ragged Tensor",
    ),
    "loss not a scalar": (
        lambda m: plain(m).step_on(lambda x, y: (m(x) - y).square(), X, Y),
        ValueError,
        r"loss: expected one number in a tensor, the mean over the batch; got a tensor of shape \(16, 2\)",
    ),
    "several losses": (
        lambda m: plain(m).step_on(lambda x, y: (mse(m, x, y), mse(m, x, y)), X, Y),
        ValueError,
        "loss: expected one number in a tensor",
    ),
    "a number": (lambda m: plain(m).step_on(lambda x, y: 1.0, X, Y), ValueError, "loss: .*got 1.0"),
    "closure, vector": (
        lambda m: plain(m).step(lambda: (mse(m).backward(), m(X))[1]),
        ValueError,
        r"loss: .*shape \(16, 2\)",
    ),
    "several losses told": (
        lambda m: by_passes(opt := plain(m), m, twice(opt, m)),
        RuntimeError,
        "saw: expected one loss a pass, got two",
    ),
    "a closure that does not use the part": (
        lambda m: (opt := share(m)).step(uncut(opt, m)),
        RuntimeError,
        r"the closure must ask for its part of the batch: x, y = opt.part\(\(x, y\)\)",
    ),
    "no backward": (
        lambda m: by_passes(plain(m), m, lambda part: mse(m, *part)),
        RuntimeError,
        r"gave no gradient: call backward\(\)",
    ),
    "no backward, closure": (lambda m: plain(m).step(lambda: mse(m)), RuntimeError, "gave no gradient"),
    "the rule is told nothing": (
        lambda m: by_passes(gap(m), m, lambda part: mse(m, *part).backward()),
        RuntimeError,
        r"tell the loss of each pass, opt.saw\(loss\)",
    ),
    "the rule is told nothing, closure": (
        lambda m: (opt := gap(m)).step(silent(opt, m)),
        RuntimeError,
        r"tell the loss of each pass",
    ),
    "held-out empty": (
        lambda m: take(gap(m, []), m, lambda x, y: mse(m, x, y), X, Y),
        ValueError,
        "held_out: expected at least one example, got none",
    ),
    "held-out without rows": (
        lambda m: take(gap(m, (X[:0], Y[:0])), m, lambda x, y: mse(m, x, y), X, Y),
        ValueError,
        "held_out: expected at least one example, got none",
    ),
    "held-out NaN": (
        lambda m: take(gap(m, (X * math.nan, Y)), m, lambda x, y: mse(m, x, y), X, Y),
        ValueError,
        "held_out: expected a finite loss",
    ),
    "held-out a number": (
        lambda m: take(gap(m, 0.7), m, lambda x, y: mse(m, x, y), X, Y),
        TypeError,
        "held_out: expected a callable, a batch, or an iterable of batches; got 0.7",
    ),
    "held-out a vector": (
        lambda m: take(gap(m, lambda: m(X)), m, lambda x, y: mse(m, x, y), X, Y),
        ValueError,
        "held_out: expected the mean loss, one number",
    ),
    "held-out on another device": (
        lambda m: take(gap(m, (X.to("meta"), Y.to("meta"))), m, lambda x, y: mse(m, x, y), X, Y),
        RuntimeError,
        "held_out: .*meta",
    ),
    "rho of a callable": (
        lambda m: LOOPS["step_on"](SAM(SGD(m.parameters(), lr=0.1), m, rho=lambda k: -1.0), m),
        ValueError,
        "rho: expected a finite number at step 0",
    ),
    "exact products without a graph": (
        lambda m: ExactCGD(SGD(m.parameters(), lr=0.1), m, 0.1).step(uncut(NOTHING, m)),
        RuntimeError,
        r"call backward\(create_graph=True\)",
    ),
}


@pytest.mark.parametrize("name", STEP)
def test_refused_at_step_0_before_the_weights_change(name: str) -> None:
    act, kind, words = STEP[name]
    model = Net()
    before = weights(model)
    with pytest.raises(kind, match=words):
        act(model)
    assert same(weights(model), before)


@pytest.mark.parametrize("name", ["several losses told", "no backward", "the rule is told nothing"])
def test_after_a_refusal_the_same_optimizer_works(name: str) -> None:
    model = Net()
    opt = gap(model, lambda: 5.0)
    bodies: dict[str, Callable[[Any], Any]] = {
        "several losses told": twice(opt, model),
        "no backward": lambda part: mse(model, *part),
        "the rule is told nothing": lambda part: mse(model, *part).backward(),
    }
    with pytest.raises(RuntimeError):
        by_passes(opt, model, bodies[name])
    for loop in LOOPS.values():
        loop(opt, model)
    assert opt.report().steps == 3


@pytest.mark.parametrize("loop", LOOPS)
def test_sparse_gradients_are_refused_at_step_0(loop: str) -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(8, 2, sparse=True).double()

        def forward(self, x: Tensor) -> Tensor:
            return self.table(x[:, 0].abs().long().clamp(max=7))

    for kind in (share, plain, lambda m: gap(m, lambda: 9.0)):
        model = Words()
        opt = kind(model)
        before = weights(model)
        with pytest.raises(RuntimeError, match=r"base: expected dense gradients.*\(8, 2\).*sparse=False"):
            LOOPS[loop](opt, model)
        assert same(weights(model), before)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_share_of_one_example_is_two_and_one_is_told(loop: str) -> None:
    """BatchNorm cannot take one example."""
    model = Net(norm=True)
    opt = SAM(SGD(model.parameters(), lr=0.1), model, share=1 / 16)
    with pytest.warns(UserWarning, match=r"share: 0\.0625 of 16 examples is 1; the probe takes 2"):
        LOOPS[loop](opt, model)
    for _ in range(2):  # it is said once: another warning would be an error here
        LOOPS[loop](opt, model)
    assert opt.report().gradients == 3 * (1 + 2 / 16)
    with pytest.warns(UserWarning, match="the probe takes 2"):
        make("share", model).step_on(lambda x: mse(model, x, Y[: len(x)]), X[:4])


# --- what can be cut ---------------------------------------------------------------------------------


class Pair(NamedTuple):
    x: Tensor
    y: Tensor


@dataclass
class Batch:
    x: Tensor
    words: list[str]
    size: int = 16


@pytest.mark.parametrize(
    ("batch", "check"),
    [
        (X, lambda p: p.shape == (4, 3)),
        ((X, Y), lambda p: isinstance(p, tuple) and p[1].shape == (4, 2)),
        ([X, Y], lambda p: isinstance(p, list) and len(p[0]) == 4),
        ({"x": X, "deep": {"y": Y}, "scale": 2.0}, lambda p: len(p["deep"]["y"]) == 4 and p["scale"] == 2.0),
        (Pair(X, Y), lambda p: isinstance(p, Pair) and len(p.y) == 4),
        (Batch(X, list("abcdefghijklmnop")), lambda p: (len(p.x), p.words, p.size) == (4, list("abcd"), 16)),
        ((X, np.arange(16)), lambda p: p[1].tolist() == [0, 1, 2, 3]),
        ((X, torch.tensor(3.0), "all"), lambda p: p[1].item() == 3.0 and p[2] == "all"),
    ],
    ids=["tensor", "tuple", "list", "dict", "named", "dataclass", "numpy", "others"],
)
def test_a_part_keeps_the_form_of_its_batch(batch: Any, check: Callable[[Any], bool]) -> None:
    model = Net()
    opt = share(model)
    passes = opt.passes(batch)
    part = next(passes)
    assert check(part)
    assert opt.part(batch) is not batch
    mse(model).backward()
    assert next(passes) is batch


# --- checkpoints -------------------------------------------------------------------------------------


def test_states_of_others_are_refused_by_name() -> None:
    model = Net()
    opt = make("SAM", model)
    LOOPS["step_on"](opt, model)
    state = opt.base.state_dict()
    with pytest.raises(
        ValueError, match=r"state_dict: expected one of this class.*another one.*\.base.*\.own"
    ):
        opt.load_state_dict(state)
    state["param_groups"][0]["cgd"] = {"step": 3}
    with pytest.raises(ValueError, match=r"the layout of steepen 0\.1, which is not read any more"):
        opt.load_state_dict(state)
    with pytest.raises(ValueError, match="state_dict: expected that of SAM, got that of 'CGD'"):
        opt.load_state_dict(make("CGD", model).state_dict())
    assert opt.report().steps == 1


# --- signatures --------------------------------------------------------------------------------------


def public() -> Iterator[tuple[str, Any]]:
    for module in (steepen.torch, paper):
        for name in module.__all__:
            thing = getattr(module, name)
            if not inspect.ismodule(thing) and name not in ("Robustness", "Sharpness"):  # records
                yield name, thing
                if inspect.isclass(thing):
                    for method, value in inspect.getmembers(thing, inspect.isfunction):
                        if not method.startswith("_") and value.__module__.startswith("steepen"):
                            yield f"{name}.{method}", value


def test_no_signature_has_more_than_ten_arguments_and_all_are_named() -> None:
    names = {name for name, _ in public()}
    assert {"CGD", "SAM", "GapSAM", "sharpness", "SAM.passes", "GapSAM.saw_held_out", "ASAM"} <= names
    for name, thing in public():
        arguments = [a for a in inspect.signature(thing).parameters if a != "self"]
        assert len(arguments) <= (11 if name == "Sharpness" else 10), name  # a record that nobody makes
        for argument in inspect.signature(thing).parameters.values():
            if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
                assert name.split(".")[-1] in ("step_on", "passes"), name
                assert argument.kind is argument.VAR_POSITIONAL, name


def test_one_word_for_one_thing() -> None:
    """`base` and `model` come first everywhere."""
    for kind in (SAM, CGD, GapSAM, *[getattr(paper, name) for name in paper.__all__]):
        assert list(inspect.signature(kind).parameters)[:2] == ["base", "model"], kind
    assert {type(ALL[name](AdamW(MODEL.parameters()), MODEL)) for name in ALL} >= {USAM, GNP}
