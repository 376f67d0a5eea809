"""More than one process: DDP, FSDP2 and DTensor, against one process that has both halves of the batch.

This file is also the program of the two processes. They are started once, and run one check after another.
"""

from __future__ import annotations

import copy
import io
import json
import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.optim import SGD, AdamW

from steepen.torch import ASAM, CGD, MSAM, SAM

LIMIT = 60  # seconds until a check counts as a deadlock
CHECKS: dict[str, Callable[[int], None]] = {}


def check(function: Callable[[int], None]) -> Callable[[int], None]:
    CHECKS[function.__name__] = function
    return function


class Ranks:
    """Two processes that wait for the name of a check; started anew after one that failed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []
        self.starts = 0

    def run(self, name: str) -> None:
        if not self.processes:
            self.starts += 1
            command = [sys.executable, __file__, f"file://{self.folder}/store{self.starts}"]
            pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self.processes = [subprocess.Popen([*command, str(rank)], **pipes) for rank in range(2)]
        with ThreadPoolExecutor(2) as pool:
            answers = [pool.submit(self._ask, process, name) for process in self.processes]
            done, late = wait(answers, timeout=LIMIT, return_when=FIRST_EXCEPTION)
            failed = [str(answer.exception()) for answer in done if answer.exception() is not None]
            if late or failed:
                self.stop()  # the other rank may be waiting for the one that failed
        assert not failed, "\n".join(failed)
        assert not late, f"{len(late)} of 2 ranks did not come back in {LIMIT} s: a deadlock"

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(BrokenPipeError):
                    pipe.close()  # pyright: ignore
        self.processes = []

    @staticmethod
    def _ask(process: Any, name: str) -> None:
        process.stdin.write(name + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if answer.strip() != "null":
            raise AssertionError(json.loads(answer) if answer else f"a rank ended with {process.wait()}")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    pool = Ranks(tmp_path_factory.mktemp("ranks"))
    yield pool
    pool.stop()


@pytest.mark.skipif(not dist.is_available() or sys.platform == "win32", reason="needs gloo and a file store")
@pytest.mark.parametrize("name", CHECKS)
def test_two_processes(ranks: Ranks, name: str) -> None:
    ranks.run(name)


def serve(store: str, rank: int) -> None:
    """Run the checks whose names come in, and answer with null or with what went wrong."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # nothing else may write into the answers
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "CGD was not given the network")
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

SHORT: dict[str, Any] = {"r": 1e-3, "nu_max": None, "probe_max": None}  # a plain difference


def net() -> nn.Sequential:
    """Give a network of parameters with 3 rows, 1 row and 1 element: none of them halves evenly."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)).double()


def batch() -> tuple[Tensor, Tensor]:
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    x[:4] -= 0.5  # the halves are unlike, and their sums of either sign
    x[4:] += 0.5
    return x, x[:, :1].sin() + 0.3 * x[:, 1:2]


def half(rank: int) -> tuple[Tensor, Tensor]:
    x, y = batch()
    return x[4 * rank : 4 * rank + 4], y[4 * rank : 4 * rank + 4]


def square(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return (model(x) - y).square().mean()


def wave(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """A loss of either curvature: with TRIPS the guard trips in the steps 1, 4 and 5 of the joined batch."""
    return (3 * model(x)).cos().mean()


TRIPS: dict[str, Any] = {"lam": 0.3, **SHORT}


def train(
    model: nn.Module,
    opt: CGD,
    data: tuple[Tensor, Tensor],
    steps: int = 5,
    loss_of: Any = square,
    *,
    probe: bool = False,
    scaler: Any = None,
) -> list[bool]:
    """Train by a closure, or by `probe()`, and say which steps were penalised."""
    active: list[bool] = []

    def passes() -> Tensor:
        loss = loss_of(model, *data)
        (loss if scaler is None else scaler.scale(loss)).backward()
        return loss

    def closure() -> Tensor:
        opt.zero_grad()
        return passes()

    for _ in range(steps):
        active.append(opt.active)
        if probe:
            closure()
            if opt.probe(scaler=scaler):
                passes()
            opt.step(scaler=scaler)
        else:
            opt.step(closure, scaler=scaler)
        if scaler is not None:
            scaler.update()
    return active


def sgd(model: nn.Module, momentum: float = 0.9) -> SGD:
    return SGD(model.parameters(), lr=0.1, momentum=momentum)


def flat(model: nn.Module) -> Tensor:
    """Give all parameters in one vector, whole where they are sharded."""
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    return torch.cat([p.detach().reshape(-1) for p in whole])


def alike(value: Tensor) -> None:
    """Say that both ranks hold the same bits."""
    both = [torch.empty_like(value) for _ in range(2)]
    dist.all_gather(both, value.contiguous())
    assert torch.equal(*both), f"ranks differ by {(both[0] - both[1]).abs().max():.3g}"


def close(a: Tensor, b: Tensor, tolerance: float = 1e-11) -> None:
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def counts(opt: CGD) -> list[int]:
    """Give the penalised steps and the guard's trips."""
    assert opt.guard.counts is not None
    return opt.guard.counts.int().tolist()


def literal(model: nn.Module, steps: int, loss_of: Any, lam: float, length: str, local: bool) -> int:
    """Train a model by a transcription of two ranks in one process, and count the guard's trips.

    Shard i moves along its own gradient (local) or along the mean. All moves are of the same factor c: given,
    or such that the root mean square of their lengths is given. d and the guard are of the means.
    """
    trips = 0
    for _ in range(steps):
        # rank 0's statistics are the ones that DDP keeps
        own = [gradient(shard, loss_of, i) for i, shard in enumerate([model, copy.deepcopy(model)])]
        g = [(a + b) / 2 for a, b in zip(*own, strict=True)]
        along = own if local else [g, g]
        mean_square = sum(float(t.square().sum()) for gradients in along for t in gradients) / 2
        c = 1e-3 if length == "r" else 0.3 / mean_square**0.5
        moved = [copy.deepcopy(model) for _ in range(2)]
        for shard, gradients in zip(moved, along, strict=True):
            for p, t in zip(shard.parameters(), gradients, strict=True):
                p.data += c * t
        plus = [gradient(shard, loss_of, i) for i, shard in enumerate(moved)]
        d = [a + 2 * lam / c * ((b1 + b2) / 2 - a) for a, b1, b2 in zip(g, *plus, strict=True)]
        if sum(float((a * b).sum()) for a, b in zip(g, d, strict=True)) <= 0:
            d, trips = g, trips + 1
        for p, step in zip(model.parameters(), d, strict=True):
            p.data -= 0.1 * step
    return trips


def gradient(model: nn.Module, loss_of: Any, rank: int) -> list[Tensor]:
    params = list(model.parameters())
    loss = loss_of(model, *half(rank))
    return list(torch.autograd.grad(loss, params, allow_unused=True, materialize_grads=True))


# -- DDP, the probe along the gradient of all ranks -------------------------------------------------------


@check
def ddp_equals_one_process(rank: int) -> None:
    for make in (sgd, lambda m: AdamW(m.parameters(), lr=0.01, foreach=True)):
        for options in ({"lam": 0.05}, {"nu": 0.7, "rho": 0.1, "max_norm": 0.1}):
            one = net()
            train(one, CGD(make(one), **options), batch())
            for view in (False, True):
                for probe in (False, True):
                    model = DDP(net(), gradient_as_bucket_view=view)
                    train(model, CGD(make(model), **options), half(rank), probe=probe)
                    close(flat(model), flat(one))
                    alike(flat(model))


@check
def ddp_bucket_of_one_parameter(rank: int) -> None:
    """The gradient is then all of DDP's bucket, into which the second pass writes."""
    models = [nn.Linear(4, 1, bias=False).double() for _ in range(2)]
    for model in models:
        model.weight.data.fill_(0.5)
    train(models[0], CGD(sgd(models[0]), lam=0.1, **SHORT), batch())
    wrapped = DDP(models[1], gradient_as_bucket_view=True)
    train(wrapped, CGD(sgd(wrapped), lam=0.1, **SHORT), half(rank))
    close(flat(models[1]), flat(models[0]))


@check
def ddp_guard(rank: int) -> None:
    for on_guard, patience in (("fallback", 1), ("stop", 1), ("stop", 2)):
        options: Any = {"on_guard": on_guard, "patience": patience, **TRIPS}
        one = net()
        alone = CGD(sgd(one, 0), **options)
        expected = train(one, alone, batch(), 8, wave)
        assert 0 < counts(alone)[1] < 8, counts(alone)
        assert all(expected) == (on_guard == "fallback"), expected
        for view in (False, True):
            for probe in (False, True):
                model = DDP(net(), gradient_as_bucket_view=view)
                opt = CGD(sgd(model, 0), **options)
                active = train(model, opt, half(rank), 8, wave, probe=probe)
                assert active == expected, (active, expected)
                assert counts(opt) == counts(alone), (counts(opt), counts(alone))
                close(flat(model), flat(one), 1e-9)
                alike(flat(model))


class Routed(nn.Module):
    """A network of which the batch chooses a part: one half uses `extra`, the other not; `spare`, nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.common, self.extra, self.spare = net(), net(), net()

    def forward(self, x: Tensor) -> Tensor:
        return self.common(x) + (self.extra(x + 1) if x.sum() < 0 else 0)


@check
def ddp_parameters_unused(rank: int) -> None:
    one, model = Routed(), Routed()
    assert literal(one, 5, square, 1e-3, "r", False) == 0
    wrapped = DDP(model, find_unused_parameters=True)
    train(wrapped, CGD(sgd(model, 0), lam=1e-3, **SHORT, model=wrapped), half(rank))
    alike(flat(model))
    close(flat(model), flat(one))
    assert all(p.grad is None for p in model.spare.parameters())
    with pytest.raises(ValueError, match=r"^model: .*find_unused_parameters"):
        CGD(sgd(model), lam=1e-3, model=wrapped, perturbation="local")


@check
def ddp_batchnorm(rank: int) -> None:
    """Each rank normalises by its own batch; running statistics are rank 0's, of the first passes only."""
    torch.manual_seed(0)
    start = nn.Sequential(nn.Linear(4, 3, bias=False), nn.BatchNorm1d(3), nn.Linear(3, 1)).double()
    for perturbation in ("global", "local"):
        one, model = copy.deepcopy(start), copy.deepcopy(start)
        trips = literal(one, 5, square, 0.01, "r", perturbation == "local")
        wrapped = DDP(model)
        options: dict[str, Any] = {"perturbation": perturbation, "model": wrapped}
        opt = CGD(sgd(model, 0), lam=0.01, **SHORT, **options)
        train(wrapped, opt, half(rank))
        assert counts(opt) == [5, trips]
        alike(flat(model))
        close(flat(model), flat(one), 1e-9)
        if rank == 0:
            for name, value in one.named_buffers():
                close(model.get_buffer(name), value, 1e-9)


@check
def ddp_dropout(rank: int) -> None:
    """Each rank has its own random numbers, and sees them again in the second pass."""
    for perturbation in ("global", "local"):
        dropout = nn.Dropout(0.5)
        masks: list[Tensor] = []
        dropout.register_forward_hook(lambda _, i, output, masks=masks: masks.append(output == 0))
        model = DDP(nn.Sequential(net(), dropout))
        torch.manual_seed(rank)
        opt: Any = CGD(sgd(model), lam=0.05, model=model, perturbation=perturbation)
        train(model, opt, half(rank))
        assert all(torch.equal(a, b) for a, b in zip(masks[::2], masks[1::2], strict=True))
        assert not all(torch.equal(masks[0], mask) for mask in masks)
        alike(flat(model))


@check
def ddp_accumulation(rank: int) -> None:
    """Micro-batches in the closure, all but the last of them without synchronisation."""
    x, y = half(rank)
    for perturbation in ("global", "local"):
        whole, parts = DDP(net()), DDP(net(), gradient_as_bucket_view=True)
        options: Any = [{"lam": 0.05, "model": m, "perturbation": perturbation} for m in (whole, parts)]
        train(whole, CGD(sgd(whole), **options[0]), (x, y))
        opt = CGD(sgd(parts), **options[1])

        def closure(parts: DDP = parts, opt: CGD = opt) -> Tensor:
            opt.zero_grad()
            with parts.no_sync():
                (square(parts, x[:2], y[:2]) / 2).backward()
            loss = square(parts, x[2:], y[2:]) / 2
            loss.backward()
            return loss

        for _ in range(5):
            opt.step(closure)
        close(flat(parts), flat(whole))


@check
def ddp_scaler(rank: int) -> None:
    for perturbation in ("global", "local"):
        for view in (False, True):
            plain, scaled = (DDP(net(), gradient_as_bucket_view=view) for _ in range(2))
            for model, scaler in ((plain, None), (scaled, torch.amp.GradScaler("cpu"))):
                options: Any = {"model": model, "perturbation": perturbation, **SHORT}
                train(model, CGD(sgd(model), lam=0.05, **options), half(rank), scaler=scaler)
            close(flat(scaled), flat(plain), 1e-9)
            alike(flat(scaled))


# -- probes of a share, and of the momentum ---------------------------------------------------------------


def literal_share(model: nn.Module, steps: int, rho: float, *, local: bool) -> None:
    """Train by a transcription of two ranks, each with half of its rows for the probe; plain SGD."""
    params = list(model.parameters())
    for _ in range(steps):
        x0 = [p.detach().clone() for p in params]
        halves = [half(rank) for rank in range(2)]
        own = [list(torch.autograd.grad(square(model, x[:2], y[:2]), params)) for x, y in halves]
        mean = [(a + b) / 2 for a, b in zip(*own, strict=True)]
        along = own if local else [mean, mean]
        length = (sum(float(t.square().sum()) for gs in along for t in gs) / 2) ** 0.5
        plus: list[Any] = []
        for (x, y), gs in zip(halves, along, strict=True):
            for p, old, g in zip(params, x0, gs, strict=True):
                p.data = old + rho * g / length
            plus.append(torch.autograd.grad(square(model, x, y), params))
        for p, old, a, b in zip(params, x0, *plus, strict=True):
            p.data = old - 0.1 * (a + b) / 2


def by_parts(model: nn.Module, opt: CGD, rank: int, *, loop: bool, scaler: Any = None) -> None:
    x, y = half(rank)

    def backward(batch: tuple[Tensor, Tensor]) -> None:
        loss = square(model, *batch)
        (loss if scaler is None else scaler.scale(loss)).backward()

    for _ in range(5):
        if not loop:
            opt.step_on(lambda x, y: square(model, x, y), x, y, scaler=scaler)
        else:
            opt.zero_grad()
            backward(opt.part((x, y)))
            if opt.probe(scaler=scaler):
                backward((x, y))
            opt.step(scaler=scaler)
        if scaler is not None:
            scaler.update()


@check
def ddp_share(rank: int) -> None:
    """The share is of every rank's own batch."""
    for perturbation in ("global", "local"):
        one = net()
        literal_share(one, 5, 0.3, local=perturbation == "local")
        for loop in (False, True) if perturbation == "global" else (False,):
            for scaler in (None, torch.amp.GradScaler("cpu")):
                model = DDP(net())
                options: Any = {"rho": 0.3, "share": 0.5, "perturbation": perturbation, "model": model}
                opt = CGD(sgd(model, 0), probe_max=None, **options) if loop else SAM(sgd(model, 0), **options)
                by_parts(model, opt, rank, loop=loop, scaler=scaler)
                close(flat(model), flat(one), 1e-9)
                alike(flat(model))


@check
def ddp_share_with_batchnorm_and_dropout(rank: int) -> None:
    """Ranks stay alike, and statistics and masks are those of the full passes."""
    torch.manual_seed(0)
    layers = (nn.Linear(4, 3, bias=False), nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 1))
    model = DDP(nn.Sequential(*layers).double())
    torch.manual_seed(rank)
    opt = CGD(sgd(model), rho=0.1, share=0.5, on_guard="stop", patience=99, model=model)
    by_parts(model, opt, rank, loop=True)
    alike(flat(model))
    alike(opt.guard.counts)
    assert int(model.module[1].num_batches_tracked) == 5


@check
def fsdp_share(rank: int) -> None:
    one = net()
    literal_share(one, 5, 0.3, local=False)
    for loop in (False, True):
        for on_guard in ("off", "stop"):
            model = sharded(net())
            given: Any = {"on_guard": on_guard, "patience": 99, "model": model}
            opt = SAM(sgd(model, 0), rho=0.3, share=0.5, **given)
            by_parts(model, opt, rank, loop=loop)
            close(flat(model), flat(one), 1e-9)


def reported(model: nn.Module, opt: CGD, held_out: float, *data: Tensor) -> list[bool]:
    """Train with a report after every third step, and say which steps were penalised."""
    active: list[bool] = []
    for k in range(30):
        active.append(opt.active)
        opt.step_on(lambda x, y: square(model, x, y), *data)
        if k % 3 == 2:
            opt.report(held_out * (1 - k / 25))  # on, and off in the end
    return active


@check
def the_rule_on_both_ranks(rank: int) -> None:
    """Each tells its own losses; all act on the mean, as one process on the joined batch does."""
    joined = [t[[0, 1, 4, 5, 2, 3, 6, 7]] for t in batch()]  # its first half are both ranks' shares
    one = net()
    expected = reported(one, opt := CGD(sgd(one), share=0.5, model=one), 1.0, *joined)
    assert 5 < sum(expected) < 25
    for wrap in (DDP, sharded):
        model = wrap(net())
        mine = CGD(sgd(model), share=0.5, model=model if wrap is DDP else None)
        assert reported(model, mine, 0.5 + rank, *half(rank)) == expected
        close(flat(model), flat(one), 1e-6)
        close(mine.rise.double(), opt.rise.double(), 1e-4)


@check
def the_rule_where_ranks_probe_along_their_own(rank: int) -> None:
    model = DDP(net())
    opt = CGD(sgd(model), share=0.5, perturbation="local", model=model)
    active = reported(model, opt, 0.5 + rank, *half(rank))
    assert 5 < sum(active) < 25
    alike(flat(model))
    alike(opt.rise)
    alike(torch.tensor(active))


@check
def momentum_of_both_ranks(rank: int) -> None:
    """In the plain loop; the weights that FSDP gathers are those that were moved."""
    for make in (sgd, lambda m: AdamW(m.parameters(), lr=0.01)):
        results: list[Tensor] = []
        for wrap, data in ((nn.Sequential, batch()), (DDP, half(rank)), (sharded, half(rank))):
            model = wrap(net())
            opt = MSAM(make(model), rho=0.3, model=model)
            for _ in range(5):
                opt.zero_grad()
                square(model, *data).backward()
                opt.step()
            results.append(flat(model))
        close(results[1], results[0], 1e-9)
        close(results[2], results[0], 1e-9)


# -- DDP, each rank's probe along its own gradient --------------------------------------------------------


@check
def local_equals_two_literal_shards(rank: int) -> None:
    for length, loss_of, lam in (("r", square, 0.05), ("rho", square, 0.05), ("r", wave, 0.3)):
        one = net()
        trips = literal(one, 5, loss_of, lam, length, local=True)
        assert (0 < trips < 5) == (loss_of is wave), trips
        for view in (False, True):
            model = DDP(net(), gradient_as_bucket_view=view)
            options = {"r": 1e-3} if length == "r" else {"rho": 0.3}
            limits: Any = {"nu_max": None, "probe_max": None, "model": model, "perturbation": "local"}
            opt = CGD(sgd(model, 0), lam=lam, **options, **limits)
            train(model, opt, half(rank), 5, loss_of)
            assert counts(opt) == [5, trips], (counts(opt), trips)
            close(flat(model), flat(one), 1e-9)
            alike(flat(model))
            alike(torch.stack(list(vars(opt.diagnostics).values())))


@check
def local_equals_global_where_shards_agree(rank: int) -> None:
    for options in (
        {"lam": 0.05},
        {"lam": -0.05},
        {"nu": 0.7, "probe": 0.01},
        {"nu": 0.7, "rho": 0.1, "eta": 0.1},
    ):
        one, model = net(), DDP(net())
        train(one, CGD(sgd(one), **options), half(0))
        train(model, CGD(sgd(model), **options, model=model, perturbation="local"), half(0))
        close(flat(model), flat(one), 1e-9)


@check
def local_asam(rank: int) -> None:
    """Its length is of T·g, which also differs between the ranks; d must not."""
    for options in ({"lam": 0.05}, {"nu": 1.0}):
        model = DDP(net())
        limits: Any = {"nu_max": None, "probe_max": None, "model": model, "perturbation": "local"}
        train(model, CGD(sgd(model), rho=0.1, eta=0.1, **options, **limits), half(rank))
        alike(flat(model))


@check
def local_overflow_on_one_rank(rank: int) -> None:
    """A first pass that is finite on one rank alone is left out by both, and both cut the scale."""
    model = DDP(net().float())
    opt = CGD(sgd(model), lam=0.05, model=model, perturbation="local")
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100)
    x, y = (value.float() for value in half(rank))
    start = flat(model).clone()
    train(model, opt, (x, y + (1e12 if rank == 0 else 0)), 1, scaler=scaler)
    assert torch.equal(flat(model), start), flat(model)
    assert scaler.get_scale() < 2.0**100


@check
def local_second_pass_raises(rank: int) -> None:
    one, model = DDP(net()), DDP(net())
    train(one, CGD(sgd(one), lam=0.05, model=one, perturbation="local"), half(rank))
    opt = CGD(sgd(model), lam=0.05, model=model, perturbation="local")
    start = flat(model).clone()
    losses = iter([square])  # and none for the second pass

    with pytest.raises(StopIteration):
        train(model, opt, half(rank), 1, lambda *given: next(losses)(*given))
    assert torch.equal(flat(model), start)
    train(model, opt, half(rank))
    assert torch.equal(flat(model), flat(one))


@check
def local_refusals(rank: int) -> None:
    plain, model = net(), DDP(net())
    with pytest.raises(ValueError, match=r"^model: perturbation='local' .* got no model"):
        CGD(sgd(plain), lam=0.05, perturbation="local")
    with pytest.raises(ValueError, match=r"^model: perturbation='local' .* got a Sequential"):
        CGD(sgd(plain), lam=0.05, perturbation="local", model=plain)
    with pytest.raises(ValueError, match=r"^mode: DistributedDataParallel has no second derivative"):
        CGD(sgd(model), lam=0.05, mode="exact", model=model)
    fixed = DDP(net(), static_graph=True)  # has no first pass without synchronisation
    with pytest.raises(ValueError, match=r"^model: .*static_graph"):
        CGD(sgd(fixed), lam=0.05, perturbation="local", model=fixed)
    opt = CGD(sgd(model), lam=0.05, perturbation="local", model=model)
    start = flat(model).clone()
    with pytest.raises(RuntimeError, match=r"^probe\(\) with perturbation='local'"):
        train(model, opt, half(rank), probe=True)
    assert torch.equal(flat(model), start)


# -- FSDP2 and DTensor ------------------------------------------------------------------------------------


def mesh(*shape: int) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard")[-len(shape) :])


def sharded(model: nn.Sequential, *shape: int, **options: Any) -> nn.Module:
    """Shard each layer, then the whole, as FSDP2 is meant to be used."""
    from torch.distributed.fsdp import fully_shard

    over = mesh(*(shape or (2,)))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=over, **options)
    return fully_shard(model, mesh=over, **options)


@check
def fsdp_equals_one_process(rank: int) -> None:
    makes = (
        sgd,
        lambda m: AdamW(m.parameters(), lr=0.01),
        lambda m: AdamW(m.parameters(), lr=0.01, fused=True),
    )
    for make in makes:
        for options in ({"lam": 0.05}, {"nu": 0.7, "rho": 0.1, "max_norm": 0.1}):
            one = net()
            train(one, CGD(make(one), **options), batch())
            for probe in (False, True):
                model = sharded(net())
                train(model, CGD(make(model), **options), half(rank), probe=probe)
                close(flat(model), flat(one))
    for preset in (SAM, ASAM):
        one, model = net(), sharded(net())
        train(one, preset(sgd(one)), batch())
        train(model, preset(sgd(model)), half(rank))
        close(flat(model), flat(one))


@check
def fsdp_over_two_axes(rank: int) -> None:
    one = net()
    train(one, CGD(sgd(one), lam=0.05), batch())
    for shape in ((2, 1), (1, 2)):
        model = sharded(net(), *shape)
        train(model, CGD(sgd(model), lam=0.05), half(rank))
        close(flat(model), flat(one))


@check
def fsdp_guard(rank: int) -> None:
    for on_guard in ("fallback", "stop"):
        one, model = net(), sharded(net())
        options: Any = {"on_guard": on_guard, "patience": 2, **TRIPS}
        alone, opt = CGD(sgd(one, 0), **options), CGD(sgd(model, 0), **options)
        active = train(one, alone, batch(), 8, wave)
        assert train(model, opt, half(rank), 8, wave) == active
        assert counts(opt) == counts(alone)
        assert 0 < counts(opt)[1] < 8
        close(flat(model), flat(one), 1e-9)
        alike(torch.stack(list(vars(opt.diagnostics).values())))


@check
def fsdp_groups(rank: int) -> None:
    """A λ for each group; the second group lies on rank 0 alone."""
    results: list[Tensor] = []
    for model, data in ((net(), batch()), (sharded(net()), half(rank))):
        params = list(model.parameters())
        base = SGD([{"params": params[:3], "lam": 0.02}, {"params": params[3:], "lam": 0.1}], lr=0.1)
        train(model, CGD(base, lam=0.5), data)
        results.append(flat(model))
    close(*results)


@check
def fsdp_mixed_precision(rank: int) -> None:
    """Passes in bfloat16, weights in float32; the probe is then as long as bfloat16 needs it."""
    from torch.distributed.fsdp import MixedPrecisionPolicy

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = sharded(net().float(), mp_policy=policy)
    opt = CGD(sgd(model), lam=0.05, dtype=torch.bfloat16)
    x, y = (value.float() for value in half(rank))
    before = square(model, x, y).item()
    train(model, opt, (x, y), 20)
    assert square(model, x, y).item() < 0.5 * before
    assert all(p.dtype == torch.float32 for p in model.parameters())
    assert opt.diagnostics is not None
    assert opt.diagnostics.probe_norm > 5e-3 * flat(model).norm()


@check
def fsdp_scaler(rank: int) -> None:
    plain, scaled = sharded(net()), sharded(net())
    for model, scaler in ((plain, None), (scaled, torch.amp.GradScaler("cpu"))):
        train(model, CGD(sgd(model), lam=0.05, **SHORT), half(rank), scaler=scaler)
    close(flat(scaled), flat(plain), 1e-9)


@check
def fsdp_state_dict(rank: int) -> None:
    """A run broken in the middle, saved and loaded, goes on bit for bit."""
    unbroken, first, second = (sharded(net()) for _ in range(3))
    opts = [CGD(AdamW(m.parameters(), lr=0.01), **TRIPS) for m in (unbroken, first, second)]
    train(unbroken, opts[0], half(rank), 8, wave)
    train(first, opts[1], half(rank), 4, wave)
    file = io.BytesIO()
    torch.save([first.state_dict(), opts[1].state_dict()], file)
    file.seek(0)
    weights, state = torch.load(file, weights_only=False)  # a DTensor is not among the mere weights
    second.load_state_dict(weights)
    opts[2].load_state_dict(state)
    train(second, opts[2], half(rank), 4, wave)
    assert torch.equal(flat(second), flat(unbroken))
    assert counts(opts[2]) == counts(opts[0])


@check
def fsdp_weights_loaded_in_between(rank: int) -> None:
    """FSDP2 may then put a shard to another place."""
    results: list[Tensor] = []
    for model, data in ((net(), batch()), (sharded(net()), half(rank))):
        opt = CGD(sgd(model), lam=0.05, **SHORT)
        start = {name: value.clone() for name, value in model.state_dict().items()}
        train(model, opt, data, 2)
        model.load_state_dict(start)
        train(model, opt, data, 3)
        results.append(flat(model))
    close(*results)


@check
def fsdp_shards_moved_in_between(rank: int) -> None:
    """As `.cpu()` and back do: the parameters stay the same objects, their memory does not."""
    results: list[Tensor] = []
    for model, data in ((net(), batch()), (sharded(net()), half(rank))):
        opt = CGD(sgd(model), lam=0.05, **SHORT)
        train(model, opt, data, 2)
        model._apply(lambda t: t.clone())
        train(model, opt, data, 3)
        assert abs(opt.diagnostics.read()["curvature"]) > 1e-3
        results.append(flat(model))
    close(*results)


@check
def fsdp_distributed_checkpoint(rank: int) -> None:
    """Through files, as for any optimizer: from a fresh one too, and with our own state in it."""
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint import state_dict as states

    for make in (lambda m: AdamW(m.parameters(), lr=0.01), sgd, lambda m: sgd(m, 0.0)):
        unbroken, first, second = (sharded(net()) for _ in range(3))
        opts = [CGD(make(m), lam=0.05, until=6) for m in (unbroken, first, second)]
        rate = opts[2].param_groups[0]["lr"]
        assert states.get_optimizer_state_dict(second, opts[2])["param_groups"]
        assert (opts[2].k, opts[2].param_groups[0]["lr"]) == (0, rate)
        train(unbroken, opts[0], half(rank), 8)
        train(first, opts[1], half(rank), 4)
        with tempfile.TemporaryDirectory() as mine:
            folder = [mine]
            dist.broadcast_object_list(folder)  # that of rank 0
            saved = dict(zip(("model", "opt"), states.get_state_dict(first, opts[1]), strict=True))
            checkpoint.save(saved, checkpoint_id=folder[0])
            found = dict(zip(("model", "opt"), states.get_state_dict(second, opts[2]), strict=True))
            checkpoint.load(found, checkpoint_id=folder[0])
            dist.barrier()
        states.set_state_dict(second, opts[2], model_state_dict=found["model"], optim_state_dict=found["opt"])
        assert opts[2].k == 4
        train(second, opts[2], half(rank), 4)
        assert torch.equal(flat(second), flat(unbroken))
        assert counts(opts[2]) == counts(opts[0]) == [6, 0]


@check
def tensors_of_every_placement(rank: int) -> None:
    """f = ½·Σaᵢxᵢ²: each rank has the gradient of its part. `late` has one in second passes only."""
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    line, plane = mesh(2), mesh(2, 1)
    a = torch.arange(1.0, 25).reshape(6, 4).double() / 10
    rows, columns = slice(3 * rank, 3 * rank + 3), slice(2 * rank, 2 * rank + 2)
    cases: list[Any] = [
        (line, [Replicate()], (slice(None),)),
        (line, [Shard(0)], (rows,)),
        (line, [Shard(1)], (slice(None), columns)),
        (plane, [Shard(0), Replicate()], (rows,)),
        (line, [_StridedShard(0, split_factor=2)], (rows,)),  # FSDP2's, with tensor parallelism
    ]
    for over, placements, at in cases:
        make = lambda t, over=over, to=placements: DTensor.from_local(t, over, to, run_check=False)  # noqa: E731
        runs: list[list[Tensor]] = []
        for slope, wrap in ((a, lambda t: t), (a[at], make)):
            p, late, plain = (
                nn.Parameter(t) for t in (wrap(slope.sin()), wrap(slope.cos()), torch.ones(2).double())
            )
            opt = CGD(SGD([p, late, plain], lr=0.1), nu=0.5, rho=0.2)
            here = [t.detach().to_local() if hasattr(t, "to_local") else t.detach() for t in (p, late, plain)]
            passes: list[int] = []

            def closure() -> None:
                passes.append(0)  # noqa: B023
                p.grad, plain.grad = wrap(slope * here[0]), here[2].clone()  # noqa: B023
                late.grad = wrap(here[1].clone()) if len(passes) % 2 == 0 else None  # noqa: B023

            for _ in range(3):
                opt.step(closure)
            runs.append(here)
        for whole, shard in zip(*runs, strict=True):
            close(shard, whole[at] if whole.ndim == 2 else whole)


@check
def tensors_with_a_partial_gradient(rank: int) -> None:
    """A replicated weight and a sharded batch: the gradient is a sum that nobody has made yet."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    line, (x, _) = mesh(2), batch()
    start = torch.linspace(-1, 1, 8).reshape(4, 2).double()
    one, spread = nn.Parameter(start.clone()), nn.Parameter(distribute_tensor(start, line, [Replicate()]))
    for p, rows in ((one, x), (spread, distribute_tensor(x, line, [Shard(0)]))):
        opt = CGD(SGD([p], lr=0.1), nu=0.5, rho=0.2)
        train(nn.Identity(), opt, (rows, rows), 3, lambda _, x, y, p=p: (x @ p).tanh().square().sum())
    close(spread.to_local().detach(), one.detach())  # pyright: ignore
    alike(spread.to_local().detach())  # pyright: ignore


@check
def exact_mode_of_sharded_parameters(rank: int) -> None:
    """Either the right numbers, or a refusal that says why."""
    from torch.distributed.tensor import Shard, distribute_tensor

    start = torch.linspace(-1, 1, 6).double()
    one, spread = nn.Parameter(start.clone()), nn.Parameter(distribute_tensor(start, mesh(2), [Shard(0)]))
    for p in (one, spread):
        opt = CGD(SGD([p], lr=0.1), lam=0.1, mode="exact")

        def closure(p: Tensor = p) -> None:
            with warnings.catch_warnings(action="ignore"):  # torch's, that create_graph leaves a cycle
                p.sin().sum().backward(create_graph=True)

        try:
            opt.step(closure)
        except (RuntimeError, TypeError, ValueError) as error:
            assert str(error).startswith("mode: "), error  # noqa: PT017
            return
    close(spread.full_tensor().detach(), one.detach())  # pyright: ignore


@check
def flat_parameters_are_refused(rank: int) -> None:
    """FullyShardedDataParallel, the older one, hides that its parameters are shards: norms would be wrong."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    for original in (False, True):
        model = FullyShardedDataParallel(net(), device_id=torch.device("cpu"), use_orig_params=original)
        with pytest.raises((TypeError, ValueError), match=r"^base: .*fully_shard"):
            CGD(sgd(model), lam=0.05)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
