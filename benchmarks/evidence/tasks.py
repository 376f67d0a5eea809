"""What is trained in the evidence: data, network, base, budget, and the values that are tried."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import models
import numpy as np
import torch
from captured import Captured
from torch import Tensor, nn
from torch.nn import functional as F

from steepen.train.results import Choice, square
from steepen.train.training import BASE, Data, Method

sys.path.append(str(Path(__file__).parents[2]))  # for the folder of benchmarks, wherever this is run
from benchmarks.training.cifar import read_cifar
from benchmarks.training.data import load_data
from benchmarks.training.methods import BACK, METHODS, last_rows
from benchmarks.training.models import ResNet18, crops_and_flips, mlp
from benchmarks.training.rivals import RivalTask, rival

SPLIT = 0.1  # of the training data is held out while lr, weight decay and strength are chosen
LINE = 128  # characters


@dataclass(frozen=True)
class Spec:
    """One task. With k values of lr, decay and strength every method has the same k² trials."""

    load: Callable[[Path], Data]
    file: str  # that it is read from, in the folder
    network: Callable[[Data], nn.Module]
    batch: int
    epochs: float  # of gradients, of a run on the whole training part
    tuning: float  # of gradients, of a trial
    lr: tuple[float, ...]
    decay: tuple[float, ...]
    strengths: Mapping[str, tuple[float, ...]]
    seeds: int
    close: int = 0  # seeds of the rows that are nearest to each other, if more
    tuning_seeds: int = 1
    base: str = "sgd"
    nesterov: bool = False
    gpu: bool = False
    crops: bool = False
    by_loss: bool = False  # choose by the loss in the place of the accuracy
    sharp: int = 0  # examples by which the sharpness is measured at the end
    sharp_seeds: int = 1
    held_out: Callable[[Path], Tensor] | None = None  # rows for GapSAM to watch; else the last few


def arrays(x: Any, y: Any, x_test: Any, y_test: Any) -> Data:
    """Scale pictures to mean 0 and deviation 1, channel by channel."""
    axes = tuple(i for i in range(x.ndim) if i != 1) if x.ndim == 4 else None
    sample = x[:10000].astype(np.float32)
    mean, deviation = sample.mean(axes, keepdims=True), sample.std(axes, keepdims=True)

    def scaled(part: Any) -> Tensor:
        return torch.from_numpy((part.astype(np.float32) - mean) / deviation)

    return Data(scaled(x), torch.from_numpy(y), scaled(x_test), torch.from_numpy(y_test))


def shuffled(data: Data) -> Data:
    """Put the training part into one random order: files may be sorted by class."""
    order = order_of(len(data.x))
    return data._replace(x=data.x[order], y=data.y[order])


def order_of(examples: int) -> Tensor:
    return torch.randperm(examples, generator=torch.Generator().manual_seed(0))


@cache
def cifar(name: str, folder: Path) -> Data:
    return shuffled(arrays(*read_cifar(name, folder)))


@cache
def fashion(folder: Path) -> Data:
    with np.load(folder / "fashion.npz") as z:
        parts = [z[key] for key in ("x_train", "y_train", "x_test", "y_test")]
    return shuffled(arrays(*(part.reshape(len(part), -1) if part.ndim == 3 else part for part in parts)))


def fashion4k(folder: Path) -> Data:
    data = fashion(folder)
    return data._replace(x=data.x[:4000], y=data.y[:4000])


@cache
def mnist1d(folder: Path) -> Data:
    with np.load(folder / "mnist1d.npz") as z:
        return Data(*(torch.from_numpy(z[key]) for key in ("x", "y", "x_test", "y_test")))


LINES = 8000  # of the text to train on
WATCHED = (5, 13, 32, 38)  # files, about as many lines as 2 % of all


def text_files(folder: Path) -> tuple[list[str], list[str]]:
    """Return the sources of Python's library; every tenth file is for the test."""
    files = (folder / "text.txt").read_text("ascii").split("\f\n")
    return [file for i, file in enumerate(files) if i % 10], files[::10]


@cache
def text(folder: Path) -> Data:
    """Cut the files into lines of 128 characters."""
    train, test = map("".join, text_files(folder))
    alphabet = {c: i for i, c in enumerate(sorted(set(train + test)))}
    parts: list[Tensor] = []
    for one, most in ((train, LINES), (test, 2000)):
        codes = torch.tensor([alphabet[c] for c in one[: most * LINE + 1]])
        rows = (len(codes) - 1) // LINE
        parts += [codes[: rows * LINE].view(rows, LINE), codes[1 : rows * LINE + 1].view(rows, LINE)]
    return shuffled(Data(*parts))


def whole_files(folder: Path) -> Tensor:
    """Return the rows of a few files: what a gap to new files is to be read from must be new files.

    Of lines that are held out at random the network has seen the neighbours: comments, names and phrases of
    the same file. The gap then reads .6 where it is 1.4 on the files of the test part.
    """
    lengths = torch.tensor([len(file) for file in text_files(folder)[0]])
    first = torch.arange(len(text(folder).x)) * LINE  # the character that a line begins with
    file = torch.searchsorted(lengths.cumsum(0), first, right=True)
    return torch.isin(file[order_of(len(file))], torch.tensor(WATCHED)).nonzero().flatten()


def prepare(folder: Path) -> None:
    """Write what can be made here: MNIST-1D, and the sources of the standard library of this interpreter."""
    data = load_data("mnist1d")
    np.savez(folder / "mnist1d.npz", **{key: part.numpy() for key, part in data._asdict().items()})
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    texts = [path.read_text("ascii", errors="ignore").replace("\f", "") for path in paths]
    (folder / "text.txt").write_text("\f\n".join(texts), "ascii")


def noise(name: str) -> Data:
    """Return random examples of the right shapes, to try passes before the data is there."""
    generator = torch.Generator().manual_seed(0)
    if name == "characters":
        codes = torch.randint(0, 97, (2000, LINE), generator=generator)
        return Data(codes, codes.roll(-1, 1), codes[:500], codes[:500])
    shape = {"mnist1d": (40,), "fashion": (784,)}.get(name.partition("-")[0].rstrip("4k"), (3, 32, 32))
    x = torch.randn(2000, *shape, generator=generator)
    y = torch.arange(2000) % (100 if "cifar100-" in name else 10)
    return Data(x, y, x[:500], y[:500])


def classes(data: Data) -> int:
    return 1 + int(max(data.y.max(), data.y_test.max()))


def _same(names: str, values: tuple[float, ...]) -> dict[str, tuple[float, ...]]:
    return dict.fromkeys(names.split(), values)


SMALL = _same("ema", (0.99, 0.996, 0.999)) | _same("smooth", (0.03, 0.1, 0.2))
MNIST1D = (
    SMALL
    | _same("sam", (0.1, 0.2, 0.4))
    | _same("sam-late share4 share16 share4-late share16-late", (0.2, 0.4, 0.8))
    | _same("cgd-early", (0.1, 0.3, 1.0))
    | _same("msam", (0.3, 1.0, 3.0))
)
FASHION = (
    SMALL
    | _same("sam", (0.05, 0.1, 0.3))
    | _same("sam-late share4 share16 share4-late share16-late", (0.1, 0.3, 0.6))
    | _same("cgd-early", (0.03, 0.1, 0.3))
    | _same("msam", (0.1, 0.3, 1.0))
)
LARGE = _same("ema", (0.995, 0.999)) | _same("smooth", (0.05, 0.1))
RESNET = (
    LARGE
    | _same("sam", (0.05, 0.1))
    | _same("share4 share16", (0.1, 0.2))
    | _same("cgd-early", (0.02, 0.05))
    | _same("msam", (0.05, 0.15))
)
TRANSFORMER = (
    LARGE
    | _same("sam share4 share16", (0.02, 0.05))
    | _same("sam-late share4-late share16-late", (0.05, 0.1))
    | _same("cgd-early", (0.005, 0.02))
    | _same("msam", (0.02, 0.05))
)


def _perceptron(data: Data) -> nn.Module:
    return mlp(data.x.shape[1], 100, int(torch.initial_seed() % 2**31))


def _signals(_: Data) -> nn.Module:
    return models.Conv1d()


def _pictures(_: Data) -> nn.Module:
    return models.Conv2d()


small = partial(Spec, batch=100, seeds=5, sharp=1000, sharp_seeds=5)
overfits = partial(small, epochs=100, tuning=100, decay=(1e-3, 3e-3, 1e-2))
underfits = partial(
    small, epochs=20 / 3, tuning=20 / 3, lr=(0.03, 0.1, 0.2), decay=(1e-4, 5e-4, 2e-3), strengths=FASHION
)
resnet = partial(
    Spec,
    network=lambda data: ResNet18(classes(data)),
    batch=512,
    epochs=30,
    tuning=10,
    lr=(0.2, 0.4),
    decay=(5e-4, 1e-3),
    seeds=3,
    nesterov=True,
    gpu=True,
    crops=True,
    sharp=500,
)
adamw = partial(Spec, epochs=30, tuning=10, seeds=3, base="adamw", gpu=True, strengths=TRANSFORMER, sharp=300)

SPECS: dict[str, Spec] = {
    "cifar100-resnet": resnet(
        partial(cifar, "cifar100"),
        "cifar100.npz",
        close=4,
        strengths=RESNET | _same("sam-late share4-late", (0.2, 0.4)) | _same("share16-late", (0.4, 0.8)),
    ),
    "mnist1d-mlp": overfits(
        mnist1d, "mnist1d.npz", _perceptron, lr=(0.1, 0.2, 0.4), strengths=MNIST1D, tuning_seeds=3
    ),
    "mnist1d-cnn": overfits(mnist1d, "mnist1d.npz", _signals, lr=(0.05, 0.1, 0.2), strengths=MNIST1D),
    "fashion4k-mlp": overfits(fashion4k, "fashion.npz", _perceptron, lr=(0.03, 0.1, 0.2), strengths=FASHION),
    "fashion4k-cnn": overfits(
        fashion4k, "fashion.npz", _pictures, lr=(0.03, 0.1, 0.2), strengths=FASHION, tuning=50
    ),
    "fashion-mlp": underfits(fashion, "fashion.npz", _perceptron),
    "fashion-cnn": underfits(fashion, "fashion.npz", _pictures, tuning=10 / 3),
    "cifar10-resnet": resnet(
        partial(cifar, "cifar10"),
        "cifar10.npz",
        close=8,
        strengths=RESNET | _same("sam-late", (0.1, 0.2)) | _same("share4-late share16-late", (0.2, 0.4)),
    ),
    "cifar100-vit": adamw(
        partial(cifar, "cifar100"),
        "cifar100.npz",
        lambda data: models.ViT(classes(data)),
        batch=512,
        lr=(5e-4, 1e-3),
        decay=(0.02, 0.1),
        close=8,
        crops=True,
    ),
    "characters": adamw(
        text,
        "text.txt",
        lambda data: models.Characters(classes(data), LINE),
        batch=128,
        lr=(1e-3, 2e-3),
        decay=(0.1, 0.5),
        by_loss=True,
        close=4,
        held_out=whole_files,
    ),
}
"""The tasks, the most wanted first."""


KINDS: dict[str, Method] = {
    "base": BASE,
    "gate": METHODS["gap"],
    "gate-half": METHODS["gap"],
    "gap": replace(METHODS["gap"], options={"gate": None}),
    "base-less": BASE,
    "base-long": BASE,
    "base-longer": BASE,
    **{
        name: METHODS[name]
        for name in (
            "share16-late", "sam-late", "sam", "ema", "share4-late", "smooth", "share16",
            "share4", "cgd-early", "msam",
        )
    },
}  # fmt: skip
"""The methods. base-less is the base without what GapSAM watches. base-long has a tenth more gradients: about
as many seconds as share16-late. base-longer has a quarter more: no fewer seconds than any.

gate is GapSAM around the base as the base's own trials left it: what a user has who adds it to a network that
trains well already. What it gains or loses cannot come from another lr or weight decay. gate-half watches
until the half of the run, not until three quarters. gap is gate before there was one: with `gate=None`.
"""
TIMED = KINDS | {"closed": replace(METHODS["gap"], options={"gate": (1.0, 2.0)})}
"""What is timed: the methods, and a GapSAM whose gate never opens: no gap exceeds the validation loss."""
HISTORY = ("auto", "auto-base", "auto-second", "auto-third")
"""GapSAM of version 0.1: these rows are kept, and cannot be made any more."""
LONGER = {"base-long": 1.1, "base-longer": 1.25}
LIKE = dict.fromkeys(
    ("base-less", *LONGER, "gap", "gate", "gate-half", "closed"), "base"
)  # whose choice is taken, without trials


def strengths(spec: Spec, method: str) -> tuple[float, ...]:
    """Return the strengths to try; zeros for a method without any."""
    return spec.strengths.get(method, (0.0,) * len(spec.lr))


def trials(spec: Spec, method: str) -> list[Choice]:
    """Return lr, decay and strength of each trial."""
    return square(spec.lr, spec.decay, strengths(spec, method))


def smoothed(scores: Tensor, y: Tensor, smoothing: Any = 0.0) -> Tensor:
    """Return the cross-entropy with smoothed labels, as torch's own; ε may be a number on the device."""
    logs = scores.log_softmax(-1)
    wanted = logs.gather(-1, y.unsqueeze(-1)).squeeze(-1)
    return -((1 - smoothing) * wanted + smoothing * logs.mean(-1)).mean()


def plain(scores: Tensor, y: Tensor, label_smoothing: float = 0.0) -> Tensor:
    return F.cross_entropy(scores.flatten(0, -2), y.flatten(), label_smoothing=label_smoothing)


def held_out(data: Data, part: float) -> Data:
    """Return the training part without its last examples, to be judged by these."""
    cut = len(data.x) - round(part * len(data.x))
    return Data(data.x[:cut], data.y[:cut], data.x[cut:], data.y[cut:])


@dataclass(frozen=True)
class CapturedTask(RivalTask):
    """A task whose passes are captured: each leaves the gradients on the parameters."""

    passes: Any = None

    def train_on(self, model: Any, optimizer: Any, x: Any, y: Any) -> None:
        if not hasattr(optimizer, "passes"):
            optimizer.zero_grad()
            self.passes(model, x, y, self.smoothing)
        else:
            for part in optimizer.passes((x, y)):
                optimizer.record_loss(self.passes(model, *part, self.smoothing))
        optimizer.step()


class Bench:
    """A task on a device: one network and its passes for all runs, its weights drawn anew for each."""

    def __init__(self, name: str, folder: Path | None, device: str, toy: bool = False) -> None:
        spec = SPECS[name]
        data = noise(name) if folder is None else spec.load(folder)
        if toy:
            spec = replace(spec, batch=min(spec.batch, 32), network=TOYS.get(name, spec.network))
            data = Data(data.x[:200], data.y[:200], data.x_test[:200], data.y_test[:200])
        self.spec, self.toy = spec, toy
        layout = {"memory_format": torch.channels_last} if data.x.ndim == 4 and device == "cuda" else {}
        dtype = torch.bfloat16 if device == "cuda" and data.x.is_floating_point() else None
        x, x_test = (part.to(device, dtype or part.dtype, **layout) for part in (data.x, data.x_test))
        self.data = Data(x, data.y.to(device), x_test, data.y_test.to(device))
        self.network = lambda: spec.network(data).to(device, **layout)
        self.task = RivalTask(
            self._new, plain, self.data, spec.batch, partial(_base, spec, device == "cuda"),
            crops_and_flips if spec.crops else None, torch.bfloat16 if device == "cuda" else None,
        )  # fmt: skip
        if device == "cuda":
            self.model = self._new(0)
            sizes = [spec.batch, spec.batch // 4, spec.batch // 16]
            first = self.data.x[: spec.batch], self.data.y[: spec.batch]
            passes = Captured(self.model, smoothed, *first, sizes, compiled=True)
            own = {one.name: getattr(self.task, one.name) for one in fields(RivalTask)} | {
                "make": self._again
            }
            self.task = CapturedTask(**own, passes=passes)
        self.device = device
        self.held_out = None
        if spec.held_out is not None and folder is not None:
            rows = spec.held_out(folder)
            self.held_out = rows[rows < len(self.data.x)]

    def _new(self, seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            return self.network()

    def _again(self, seed: int) -> nn.Module:
        """Put new weights into the network whose passes are captured."""
        self.model.load_state_dict(self._new(seed).state_dict())
        self.model.zero_grad()
        return self.model.train()

    def at(self, stage: str, method: str = "base", strength: float = 0.0) -> RivalTask:
        """Return the task to be judged by the test part, or by what is held out of the training part."""
        task, by_gap = rival(self.task, method, strength), TIMED[method].by_gap
        if stage == "final":
            own = last_rows(len(self.data.y)) if self.held_out is None else self.held_out
            back = {"gate": BACK, "closed": BACK, "gate-half": 0.5}.get(method, 1.0)
            watched = own if by_gap or method == "base-less" else None
            return replace(task, held_out=watched, given_back=back)
        data = held_out(self.data, SPLIT)
        return replace(task, data=data, held_out=last_rows(len(data.y)) if by_gap else None)

    def grads(self, stage: str, method: str) -> float:
        """Return the minibatch gradients of a run."""
        epochs = self.spec.epochs if stage == "final" else self.spec.tuning
        if self.toy:
            epochs = 4 if stage == "final" else 1
        return LONGER.get(method, 1.0) * epochs * len(self.at(stage).data.x) / self.spec.batch


def _base(spec: Spec, fused: bool, params: Any, lr: float, decay: float) -> torch.optim.Optimizer:
    if spec.base == "adamw":
        return torch.optim.AdamW(params, lr=lr, weight_decay=decay, fused=fused)
    return torch.optim.SGD(
        params, lr=lr, momentum=0.9, nesterov=spec.nesterov, weight_decay=decay, fused=fused
    )


TOYS: dict[str, Callable[[Data], nn.Module]] = {
    "cifar10-resnet": lambda data: ResNet18(classes(data), 8),
    "cifar100-resnet": lambda data: ResNet18(classes(data), 8),
    "cifar100-vit": lambda data: models.ViT(classes(data), 16, 2, 2),
    "characters": lambda data: models.Characters(classes(data), LINE, 16, 2, 2),
}
