"""What is trained in the evidence: data, network, base, budget, and the values that are tried."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.evidence import networks
from benchmarks.evidence.cifar import read_cifar
from benchmarks.evidence.data import load_data
from benchmarks.evidence.methods import ROWS
from benchmarks.evidence.networks import ResNet18, mlp
from torch import Tensor, nn

from steepen.train.results import Choice, square
from steepen.train.training import Data

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
    held_out: Callable[[Path], Tensor] | None = None  # validation rows; else the last few
    rows: tuple[str, ...] = tuple(ROWS)


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


def noisy(load: Callable[[Path], Data], part: float) -> Callable[[Path], Data]:
    """Return what loads the data with a part of the training labels changed, each to another class."""

    def loaded(folder: Path) -> Data:
        data = load(folder)
        random, count, n = np.random.default_rng(0), classes(data), len(data.y)
        changed = random.random(n) < part
        shift = torch.from_numpy(np.where(changed, random.integers(1, count, n), 0))
        return data._replace(y=(data.y + shift) % count)

    return loaded


def kept(name: str) -> Callable[[Path], Data]:
    """Return what loads the data that `prepare` has written under this name."""

    @cache
    def loaded(folder: Path) -> Data:
        with np.load(folder / f"{name}.npz") as z:
            return Data(*(torch.from_numpy(z[key]) for key in ("x", "y", "x_test", "y_test")))

    return loaded


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
    """Write what can be made here: MNIST-1D, tables, the sources of this interpreter's library."""
    folder.mkdir(parents=True, exist_ok=True)
    data = load_data("mnist1d")
    np.savez(folder / "mnist1d.npz", **{key: part.numpy() for key, part in data._asdict().items()})
    four = {"n_informative": 12, "n_redundant": 6, "n_classes": 4, "n_clusters_per_class": 3}
    two = {"n_informative": 8, "n_redundant": 4, "n_classes": 2, "n_clusters_per_class": 4}
    write_table(folder / "tabular.npz", 2000, 30, **four)
    write_table(folder / "binary.npz", 1000, 20, **two)
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    texts = [path.read_text("ascii", errors="ignore").replace("\f", "") for path in paths]
    (folder / "text.txt").write_text("\f\n".join(texts), "ascii")


def write_table(path: Path, examples: int, columns: int, **given: int) -> None:
    """Write a table of scikit-learn's, so many examples of it to train on and 10 000 for the test."""
    from sklearn.datasets import make_classification

    x, y = make_classification(
        examples + 10_000, columns, flip_y=0.0, class_sep=1.2, random_state=0, **given
    )  # fmt: skip
    x = ((x - x[:examples].mean(0)) / x[:examples].std(0)).astype(np.float32)
    np.savez(path, x=x[:examples], y=y[:examples], x_test=x[examples:], y_test=y[examples:])


def noise(name: str) -> Data:
    """Return random examples of the right shapes, to try passes before the data is there."""
    generator = torch.Generator().manual_seed(0)
    if name == "characters":
        codes = torch.randint(0, 97, (2000, LINE), generator=generator)
        return Data(codes, codes.roll(-1, 1), codes[:500], codes[:500])
    kind = name.partition("-")[0].rstrip("4k")
    columns = {"mnist1d": 40, "fashion": 784, "tabular": 30, "binary": 20}
    shape = (columns[kind],) if kind in columns else (3, 32, 32)
    x = torch.randn(2000, *shape, generator=generator)
    y = torch.arange(2000) % {"cifar100": 100, "tabular": 4, "binary": 2}.get(kind, 10)
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
    | _same("cgd-early cgd-late", (0.1, 0.3, 1.0))
    | _same("msam", (0.3, 1.0, 3.0))
)
FASHION = (
    SMALL
    | _same("sam", (0.05, 0.1, 0.3))
    | _same("sam-late share4 share16 share4-late share16-late", (0.1, 0.3, 0.6))
    | _same("cgd-early cgd-late", (0.03, 0.1, 0.3))
    | _same("msam", (0.1, 0.3, 1.0))
)
LARGE = _same("ema", (0.995, 0.999)) | _same("smooth", (0.05, 0.1))
RESNET = (
    LARGE
    | _same("sam", (0.05, 0.1))
    | _same("share4 share16", (0.1, 0.2))
    | _same("cgd-early", (0.02, 0.05))
    | _same("cgd-late", (0.05, 0.2))
    | _same("msam", (0.05, 0.15))
)
TRANSFORMER = (
    LARGE
    | _same("sam share4 share16", (0.02, 0.05))
    | _same("sam-late share4-late share16-late", (0.05, 0.1))
    | _same("cgd-early", (0.005, 0.02))
    | _same("cgd-late", (0.02, 0.1))
    | _same("msam", (0.02, 0.05))
)


def _perceptron(data: Data) -> nn.Module:
    return mlp(data.x.shape[1], 100, int(torch.initial_seed() % 2**31))


def _signals(_: Data) -> nn.Module:
    return networks.Conv1d()


def _pictures(_: Data) -> nn.Module:
    return networks.Conv2d()


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
    seeds=5,
    nesterov=True,
    gpu=True,
    crops=True,
    sharp=500,
)
adamw = partial(Spec, epochs=30, tuning=10, seeds=5, base="adamw", gpu=True, strengths=TRANSFORMER, sharp=300)

NOISY = (
    "base", "base-less", "base-returned", "base-0.75", "base-0.5", "base-0.375", "base-0.25", "ema-stopped",
    "smooth", "sam", "sam-late", "cgd-late", "share16", "share16-late", "share16-ema", "gate", "gate-kept",
    "gate-0.75", "gate-0.5", "gate-ema", "early", "early-2", "early-ema",
)  # fmt: skip
"""The rows where labels are noisy."""

SPECS: dict[str, Spec] = {
    "cifar100-resnet": resnet(
        partial(cifar, "cifar100"),
        "cifar100.npz",
        close=4,
        strengths=RESNET | _same("sam-late share4-late", (0.2, 0.4)) | _same("share16-late", (0.4, 0.8)),
    ),
    "mnist1d-mlp": overfits(
        kept("mnist1d"), "mnist1d.npz", _perceptron, lr=(0.1, 0.2, 0.4), strengths=MNIST1D, tuning_seeds=3
    ),
    "mnist1d-cnn": overfits(kept("mnist1d"), "mnist1d.npz", _signals, lr=(0.05, 0.1, 0.2), strengths=MNIST1D),
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
        lambda data: networks.ViT(classes(data)),
        batch=512,
        lr=(5e-4, 1e-3),
        decay=(0.02, 0.1),
        close=8,
        crops=True,
    ),
    "characters": adamw(
        text,
        "text.txt",
        lambda data: networks.Characters(classes(data), LINE),
        batch=128,
        lr=(1e-3, 2e-3),
        decay=(0.1, 0.5),
        by_loss=True,
        close=4,
        held_out=whole_files,
    ),
    **{
        f"cifar100-noise{percent}": resnet(
            noisy(partial(cifar, "cifar100"), percent / 100),
            "cifar100.npz",
            strengths=RESNET | _same("share16-late", (0.4, 0.8)) | _same("share16 sam", (0.1, 0.4)),
            rows=NOISY,
        )
        for percent in (20, 40)
    },
    **{
        f"tabular-noise{percent}": overfits(
            noisy(kept("tabular"), percent / 100),
            "tabular.npz",
            _perceptron,
            lr=(0.01, 0.03, 0.1),
            strengths=SMALL
            | _same("sam sam-late", (0.05, 0.2, 0.8))
            | _same("share16 share16-late", (0.2, 0.8, 2.0))
            | _same("cgd-late", (0.03, 0.1, 0.3)),
            rows=NOISY,
        )
        for percent in (20, 40)
    },
    **{
        f"binary-noise{percent}": small(
            noisy(kept("binary"), percent / 100),
            "binary.npz",
            _perceptron,
            batch=50,
            epochs=36,
            tuning=36,
            lr=(0.05,),
            decay=(1e-4,),
            strengths=SMALL
            | _same("sam sam-late", (0.05, 0.2, 0.8))
            | _same("share16 share16-late", (0.2, 0.5, 2.0))
            | _same("cgd-late", (0.03, 0.1, 0.3)),
            seeds=6,
            rows=NOISY,
        )
        for percent in (20, 40)
    },
}
"""The tasks, the most wanted first."""


def strengths(spec: Spec, method: str) -> tuple[float, ...]:
    """Return the strengths to try; zeros for a method without any."""
    return spec.strengths.get(method, (0.0,) * len(spec.lr))


def trials(spec: Spec, method: str) -> list[Choice]:
    """Return lr, decay and strength of each trial; the strengths alone where lr and decay have one value."""
    own = strengths(spec, method)
    if len(spec.lr) == 1:
        return [Choice(spec.lr[0], spec.decay[0], one) for one in own]
    return square(spec.lr, spec.decay, own)
