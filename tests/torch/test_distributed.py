"""More than one process: DDP, FSDP2 and DTensor, against one process that has both halves of the batch.

This file is also the program of the two processes. They are started once, and run one check after another.
"""

import json
import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim import SGD, AdamW

from steepen.torch import CGD, SAM, GapSAM
from steepen.torch.paper import ASAM, MSAM, ExactCGD

from .nets import LOOPS, by_step_on, mse

LIMIT = 300  # seconds until a check counts as a deadlock; starting takes most of it on a busy machine
CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


class Ranks:
    """Two processes that wait for the name of a check; started anew after one that failed."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = []
        self.starts = 0

    def run(self, name):
        if not self.processes:
            self.starts += 1
            command = [
                sys.executable,
                "-m",
                "tests.torch.test_distributed",
                f"file://{self.folder}/store{self.starts}",
            ]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            pipes["cwd"] = Path(__file__).parents[2]
            self.processes = [subprocess.Popen([*command, str(rank)], **pipes) for rank in range(2)]
        with ThreadPoolExecutor(2) as pool:
            answers = [pool.submit(self._ask, process, name) for process in self.processes]
            done, late = wait(answers, timeout=LIMIT, return_when=FIRST_EXCEPTION)
            failed = [str(answer.exception()) for answer in done if answer.exception() is not None]
            if late or failed:
                self.stop()  # the other rank may be waiting for the one that failed
        assert not failed, "\n".join(failed)
        assert not late, f"{len(late)} of 2 ranks did not come back in {LIMIT} s: a deadlock"

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(BrokenPipeError):
                    pipe.close()
        self.processes = []

    @staticmethod
    def _ask(process, name):
        process.stdin.write(name + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if answer.strip() != "null":
            raise AssertionError(json.loads(answer) if answer else f"a rank ended with {process.wait()}")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    pool = Ranks(tmp_path_factory.mktemp("ranks"))
    yield pool
    pool.stop()


@pytest.mark.slow
@pytest.mark.skipif(not dist.is_available() or sys.platform == "win32", reason="needs gloo and a file store")
@pytest.mark.parametrize("name", CHECKS)
def test_two_processes(ranks, name):
    ranks.run(name)


def serve(store, rank):
    """Run the checks whose names come in, and answer with null or with what went wrong."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # nothing else may write into the answers
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
        warnings.simplefilter("error")
        # it warns of every module that ends in a Linear
        warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")
        for line in sys.stdin:
            problem = None
            try:
                CHECKS[line.strip()](rank)
            except (Exception, pytest.fail.Exception):
                problem = f"rank {rank}: {traceback.format_exc()}"
            answers.write(json.dumps(problem) + "\n")
            answers.flush()


# -- what the checks share --------------------------------------------------------------------------------


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
    "ASAM": lambda base, model: ASAM(base, model, rho=0.5),
    "MSAM": lambda base, model: MSAM(base, model, rho=0.3),
    "share": lambda base, model: SAM(base, model, rho=0.3, share=1 / 4),
    "GapSAM": lambda base, model: GapSAM(base, model, held_out(model), 20, share=1 / 4, strength=0.3),
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
    """Return all parameters in one vector, whole where they are sharded."""
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    return torch.cat([p.detach().reshape(-1) for p in whole])


def alike(value):
    """Say that both ranks hold the same bits."""
    both = [torch.empty_like(value) for _ in range(2)]
    dist.all_gather(both, value.contiguous())
    assert torch.equal(both[0].nan_to_num(-7), both[1].nan_to_num(-7)), f"ranks differ: {both}"


# -- the checks -------------------------------------------------------------------------------------------


def equals_one_process(kind, rank):
    """Train on the halves of a batch: as one process on the whole, or by the formula, in every loop."""
    for name in MAKE:
        results = []
        for loop in LOOPS.values():
            model = wrapped(kind)
            opt = optimizer(name, model)
            for k in range(10 if name == "GapSAM" else 4):
                loop(opt, model, *half(rank, k))
            alike(flat(model))
            alike(opt._numbers())
            results.append(flat(model))
        assert torch.equal(results[0], results[1]), name
        assert torch.equal(results[0], results[2]), name
        if name in ("share", "GapSAM"):
            assert opt.report().probed > 0
            assert opt.report().length > 0
            continue
        single = net()
        alone = optimizer(name, single)
        for k in range(4):
            by_step_on(alone, single, *batch(k))
        torch.testing.assert_close(results[0], flat(single), rtol=1e-9, atol=1e-11, msg=name)


@check
def ddp_equals_one_process(rank):
    equals_one_process("ddp", rank)


@check
def fsdp_equals_one_process(rank):
    equals_one_process("fsdp", rank)


@check
def a_share_of_each_rank_is_joined(rank):
    """The probe goes along the mean of the ranks' gradients, each of its own first examples."""
    for kind in ("ddp", "fsdp"):
        model, single = wrapped(kind), net()
        opt, base = optimizer("share", model, SGD), SGD(single.parameters(), lr=0.05, momentum=0.9)
        params = list(single.parameters())
        for k in range(3):
            by_step_on(opt, model, *half(rank, k))
            x, y = batch(k)
            rows = [0, 1, 8, 9]  # a fourth of either half
            before = [p.detach().clone() for p in params]
            g = torch.autograd.grad(mse(single, x[rows], y[rows]), params)
            n = sum(one.square().sum() for one in g) ** 0.5
            with torch.no_grad():
                for p, one in zip(params, g, strict=True):
                    p.add_(0.3 * one / n)
            base.zero_grad()
            mse(single, x, y).backward()
            with torch.no_grad():
                for p, old in zip(params, before, strict=True):
                    p.copy_(old)
            base.step()
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
            opt.saw(loss)
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
    for kind in ("ddp", "fsdp"):
        for name in ("CGD", "GapSAM", "share"):
            folder = [tempfile.mkdtemp() if rank == 0 else None]
            dist.broadcast_object_list(folder)
            model = wrapped(kind)
            opt = optimizer(name, model)
            for k in range(5):
                by_step_on(opt, model, *half(rank, k))
            dcp.save(states(model, opt), checkpoint_id=folder[0])
            other = wrapped(kind)
            with torch.no_grad():
                for p in other.parameters():
                    p.mul_(0)
            resumed = optimizer(name, other)
            loaded = states(other, resumed)
            dcp.load(loaded, checkpoint_id=folder[0])
            set_model_state_dict(other, loaded["model"])
            set_optimizer_state_dict(other, resumed.base, loaded["base"])
            assert resumed.report().steps == 5
            for k in range(5, 14):
                by_step_on(opt, model, *half(rank, k))
                by_step_on(resumed, other, *half(rank, k))
            assert opt.report().probed > 2
            assert torch.equal(flat(model), flat(other)), (kind, name)
            assert torch.equal(opt._numbers().nan_to_num(-7), resumed._numbers().nan_to_num(-7)), (kind, name)
            alike(flat(other))


def states(model, opt):
    return {
        "model": get_model_state_dict(model),
        "base": get_optimizer_state_dict(model, opt.base),
        "own": opt.own,
    }


@check
def refusals(rank):
    model = wrapped("ddp")
    with pytest.raises(RuntimeError, match="ExactCGD: exact products are of one process; use CGD"):
        ExactCGD(SGD(model.parameters(), lr=0.1), model, lam=0.1)
    with pytest.raises(RuntimeError, match=r"save the state of opt.base, and opt.own beside it"):
        get_optimizer_state_dict(model, optimizer("CGD", model))


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
