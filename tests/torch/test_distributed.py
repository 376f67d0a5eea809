"""More than one process: DDP, FSDP2 and DTensor, against one process that has both halves of the batch.

This file is also the program of the two processes; so are two of the examples.
"""

import itertools
import os
import re
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint import state_dict as states
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim import SGD, AdamW
from torch.utils._pytree import tree_leaves

from steepen.torch import CGD, EGR, MSAM, SAM, GapSAM

from ..by_hand import sam
from .nets import LOOPS, by_step_on, mse

ROOT = Path(__file__).parents[2]
CHECKS = {}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not dist.is_available() or sys.platform == "win32", reason="needs gloo"),
]


def check(function):
    CHECKS[function.__name__] = function
    return function


def torchrun(*program):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    # FSDP2 warns of every module that ends in a Linear
    strict = {"PYTHONWARNINGS": "error,ignore:FSDP2-wrapped module", "OMP_NUM_THREADS": "1"}
    given = {"capture_output": True, "text": True, "env": {**os.environ, **strict}, "cwd": ROOT}
    for _ in range(2):
        done = subprocess.run([*command, *program], timeout=900, **given)
        # a thread of gloo may abort a process that has done its work (pytorch/pytorch#190489)
        if "terminate called without an active exception" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["train_with_ddp", "train_with_fsdp"])
def test_the_examples_probe_and_learn(name):
    said = torchrun(ROOT / "examples" / f"{name}.py")
    steps, perturbed = map(int, re.findall(r"^(?:steps taken|with an ascent step) +(\d+)$", said, re.M))
    assert steps // 3 + 1 >= perturbed > 30
    assert float(re.search(r"2 processes, accuracy (.*)\n", said)[1]) > 0.75


def test_two_processes():
    assert re.findall(r"^done (\w+)$", torchrun("-m", __name__), re.M) == list(CHECKS)


def net():
    """Return a network of parameters with 3 rows, 1 row and 1 element: none of them halves evenly."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)).double()


def batch(k=0):
    x = torch.randn(16, 4, generator=torch.Generator().manual_seed(k), dtype=torch.double)
    x[:8] -= 0.5  # the halves are unlike
    return x, x[:, :1].sin() + 0.3 * x[:, 1:2]


def half(rank, k=0):
    x, y = batch(k)
    return x[8 * rank : 8 * rank + 8], y[8 * rank : 8 * rank + 8]


MAKE = {
    "SAM": lambda base, model: SAM(base, model, rho=0.3),
    "CGD": lambda base, model: CGD(base, model, lam=0.05),
    "MSAM": lambda base, model: MSAM(base, model, rho=0.3),
    "ASAM": lambda base, model: SAM(base, model, rho=0.3, adaptive=True),
    "GNP": lambda base, model: SAM(base, model, rho=0.3, alpha=0.6),
    "EGR": lambda base, model: EGR(base, model, lam=0.05),
    "exact": lambda base, model: CGD(base, model, lam=0.05, exact=True),
    "share": lambda base, model: SAM(base, model, rho=0.3, ascent_fraction=1 / 4),
    "GapSAM": lambda base, model: GapSAM(
        base, model, held_out(model), 20, ascent_fraction=1 / 4, strength=0.3, gate=None
    ),
}


def held_out(model):
    """Return a loss of which each rank has its own: the mean counts."""
    own = dist.get_rank() if dist.is_initialized() else 0
    return lambda: mse(model, *batch(9)) + 0.5 + 0.1 * own


def wrapped(kind):
    model = net()
    if kind == "ddp":
        return DDP(model)
    mesh = init_device_mesh("cpu", (2,))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def optimizer(name, model, kind=AdamW):
    more = {"momentum": 0.9} if kind is SGD else {}
    return MAKE[name](kind(model.parameters(), lr=0.05, **more), model)


def flat(model):
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    return torch.cat([p.detach().reshape(-1) for p in whole])


def alike(value):
    both = [torch.empty_like(value) for _ in range(2)]
    dist.all_gather(both, value.contiguous())
    assert torch.equal(both[0].nan_to_num(-7), both[1].nan_to_num(-7)), f"ranks differ: {both}"


@check
def halves_of_a_batch_train_as_one_process_does_on_the_whole_in_every_loop(rank):
    for name, kind in itertools.product(MAKE, ("ddp", "fsdp")):
        if name in ("EGR", "exact") and kind == "fsdp":
            continue  # refused
        results = []
        for loop in LOOPS.values():
            model = wrapped(kind)
            opt = optimizer(name, model)
            for k in range(10 if name == "GapSAM" else 4):
                loop(opt, model, *half(rank, k))
            alike(flat(model))
            alike(numbers(opt))
            results.append(flat(model))
        assert torch.equal(results[0], results[1]), name
        assert torch.equal(results[0], results[2]), name
        if name in ("share", "GapSAM"):
            assert opt.report().perturbed > 0
            assert opt.report().length > 0
            continue
        single = net()
        alone = optimizer(name, single)
        for k in range(4):
            by_step_on(alone, single, *batch(k))
        torch.testing.assert_close(results[0], flat(single), rtol=1e-9, atol=1e-11, msg=name)


@check
def a_share_of_each_rank_is_joined(rank):
    for kind in ("ddp", "fsdp"):
        model, single = wrapped(kind), net()
        opt = SAM(SGD(model.parameters(), lr=0.05), model, rho=0.3, ascent_fraction=1 / 4)
        for k in range(3):
            by_step_on(opt, model, *half(rank, k))
            x, y = batch(k)
            rows = [0, 1, 8, 9]  # a fourth of either half
            losses = [[lambda a=a, m=single: mse(m, *a)] for a in ((x, y), (x[rows], y[rows]))]
            sam(single, *losses, rho=0.3, lr=0.05, clip=torch.inf)
        torch.testing.assert_close(flat(model), flat(single), rtol=1e-9, atol=1e-11)


@check
def accumulation_and_an_overflow_on_one_rank(rank):
    model, single = wrapped("ddp"), net()
    opt, alone = optimizer("CGD", model, SGD), optimizer("CGD", single, SGD)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for k in range(4):
        x, y = half(rank, k)
        bad = k == 2 and rank == 1
        for i, (a, b) in enumerate(opt.passes((x[:4], y[:4]), (x[4:], y[4:]), scaler=scaler)):
            with model.no_sync() if i % 2 == 0 else nullcontext():
                loss = mse(model, a, b) / 2
                scaler.scale(loss * torch.inf if bad else loss).backward()
            opt.record_loss(loss)
        before = flat(model)
        scaler.step(opt)
        scaler.update()
        if k == 2:
            assert torch.equal(flat(model), before)  # skipped on both
        else:
            by_step_on(alone, single, *batch(k))
        alike(flat(model))
    assert opt.report().steps == 3
    torch.testing.assert_close(flat(model), flat(single), rtol=1e-9, atol=1e-11)


@check
def distributed_checkpoints(rank):
    """The base's state by torch's own functions and ours beside it: a resumed run is the run unbroken."""
    for kind, name in itertools.product(("ddp", "fsdp"), ("CGD", "GapSAM", "share")):
        folder = [tempfile.mkdtemp() if rank == 0 else None]
        dist.broadcast_object_list(folder)
        model = wrapped(kind)
        opt = optimizer(name, model)
        for k in range(5):
            by_step_on(opt, model, *half(rank, k))
        dcp.save(saved(model, opt), checkpoint_id=folder[0])
        other = wrapped(kind)
        with torch.no_grad():
            for p in other.parameters():
                p.mul_(0)
        resumed = optimizer(name, other)
        loaded = saved(other, resumed)
        dcp.load(loaded, checkpoint_id=folder[0])
        states.set_model_state_dict(other, loaded["model"])
        states.set_optimizer_state_dict(other, resumed.base, loaded["base"])
        assert resumed.report().steps == 5
        for k in range(5, 14):
            by_step_on(opt, model, *half(rank, k))
            by_step_on(resumed, other, *half(rank, k))
        assert opt.report().perturbed > 2
        assert torch.equal(flat(model), flat(other)), (kind, name)
        assert torch.equal(numbers(opt), numbers(resumed)), (kind, name)
        alike(flat(other))


def numbers(opt):
    """Return all numbers of an optimizer's own state."""
    parts = [one for one in tree_leaves(opt.own.state_dict()) if not isinstance(one, str | None)]
    return torch.cat([torch.as_tensor(one, dtype=torch.float64).flatten() for one in parts]).nan_to_num(-7)


def saved(model, opt):
    base = states.get_optimizer_state_dict(model, opt.base)
    return {"model": states.get_model_state_dict(model), "base": base, "own": opt.own}


@check
def refusals(rank):
    model = wrapped("ddp")
    with pytest.raises(RuntimeError, match=r"for a distributed checkpoint save opt.base and opt.own"):
        states.get_optimizer_state_dict(model, optimizer("CGD", model))
    with pytest.raises(TypeError, match="exact: expected whole parameters, got sharded ones"):
        optimizer("EGR", wrapped("fsdp"))


@check
def a_group_of_some_processes_averages_its_own_losses(rank):
    groups = [dist.new_group([0]), dist.new_group([1])]
    single = net()
    opt = optimizer("GapSAM", single)
    opt.process_group = groups[rank]
    if rank == 0:  # the other process takes no part
        opt.record_validation_loss(2.0)
        assert opt.report().validation == 2.0
    model = DDP(net(), process_group=groups[rank])
    assert optimizer("GapSAM", model).process_group is groups[rank]
    dist.barrier()


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name, function in CHECKS.items():
        function(dist.get_rank())
        if dist.get_rank() == 0:
            print("done", name, flush=True)  # noqa: T201
    dist.destroy_process_group()
