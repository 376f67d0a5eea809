"""The command `steepen train`."""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from .._tools.files import make_folder
from .._tools.optional import load
from ..train import Comparison, compare, pictures
from ..train._run import check, run
from ..train.optimizers import OPTIMIZERS
from ..train.results import Line
from ..train.settings import Settings
from ._options import AsJson, Quiet, words
from ._tables import Column, Page, count, print_json

__all__ = ["show"]


EXIT_CODES = "0, all runs are there; 1, an interrupt; 2, wrong usage, or a missing dependency"


def command(
    data: Annotated[str, typer.Option(help="digits, mnist1d, cifar10 or cifar100.")] = "digits",
    data_dir: Annotated[
        Path | None, typer.Option(help="The folder that CIFAR is in: the binary version, or one .npz.")
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(
            help="A Python file with a task of yours: make_model, loss, train, test, and what else "
            "steepen.train.compare takes. lr, weight decay and strengths are then chosen on held-out data."
        ),
    ] = None,
    optimizer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Which optimizers, see --list; by default the base, sam, cgd, share16 and gap. "
            "The others are compared with the first.",
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="Runs of each, with seeds 0, 1, 2 and so on; 5, or what the script says."),
    ] = None,
    grads: Annotated[
        int | None, typer.Option(min=2, help="Minibatch gradients for each run; 2000 or 4000 by default.")
    ] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Examples in a minibatch.")] = None,
    lr: Annotated[float | None, typer.Option(help="The highest learning rate.")] = None,
    base: Annotated[str, typer.Option(help="What takes the steps: sgd or adamw.")] = "sgd",
    lam: Annotated[
        float | None, typer.Option(metavar="λ", help="λ of all penalties λ‖∇f‖²; by default each its own.")
    ] = None,
    rho: Annotated[
        float | None, typer.Option(metavar="ρ", help="ρ of all penalties ρ‖∇f‖; by default each its own.")
    ] = None,
    fraction: Annotated[
        float, typer.Option(help="The share of the steps that early and late optimizers penalise.")
    ] = 0.25,
    validate: Annotated[
        bool,
        typer.Option(
            "--validate", help="Judge by a fifth of the training part, held out: for choosing lr, λ and ρ."
        ),
    ] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
    out: Annotated[Path | None, typer.Option(help="The folder to write; out/train/DATA by default.")] = None,
    list_optimizers: Annotated[bool, typer.Option("--list", help="List the optimizers and stop.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Train a small network with several optimizers, all with the same number of gradients.

    Seed by seed they start from the same weights and see the same minibatches. The folder then holds
    results.json and pictures. The same command again makes only the runs that are missing.
    """
    if list_optimizers:
        width = max(map(len, OPTIMIZERS)) + 2
        for name, kind in OPTIMIZERS.items():
            typer.echo(name.ljust(width) + kind.about)
        return 0
    for module in ("torch", "matplotlib"):
        load(module, "steepen train", extra="train")
    names = None if optimizer is None else words(optimizer)
    if script is not None:
        mine = {"data-dir": data_dir, "grads": grads, "batch": batch, "lr": lr, "lam": lam, "rho": rho}
        _refuse_beside_script(mine)
        return _compared(script, names, seeds, device, out, as_json=as_json, quiet=quiet)
    names = [base, "sam", "cgd", "share16", "gap"] if names is None else names
    folder, seeds = Path("out", "train", data) if out is None else out, 5 if seeds is None else seeds
    try:
        settings = Settings.of(
            data, grads=grads, batch=batch, base=base, lr=lr, lam=lam, rho=rho,
            fraction=fraction, device=device, validate=validate,
        )  # fmt: skip
        check(settings, names, seeds, folder if folder.is_dir() else None, data_dir)
    except ValueError as error:
        raise ValueError(f"--{error}") from error
    make_folder("--out", folder)
    try:
        with _one_thread():
            found = run(settings, names, seeds=seeds, out=folder, data_dir=data_dir, progress=not quiet)
    except KeyboardInterrupt:
        finished = len(check(settings, names, seeds, folder, data_dir).only(seeds).runs)
        sentence = f"interrupted; {folder} keeps {finished} of {count(len(names) * seeds, 'run')}"
        typer.echo(f"steepen: {sentence}; the same command goes on from there", err=True)
        return 1
    pictures.save_curves(found.runs, folder, f"{data}, base {base}")
    if as_json:
        lines = [line._asdict() for line in found.summary()]
        document = {"settings": asdict(settings), "seeds": seeds, "out": str(folder), "summary": lines}
        print_json(document)
    elif not quiet:
        show(found)
        typer.echo(f"\nThe runs and the pictures: {folder}")
    return 0


def _refuse_beside_script(options: Mapping[str, object]) -> None:
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"--{name}: with --script this is for the script to say; got {value}")


def _compared(
    script: Path,
    names: list[str] | None,
    seeds: int | None,
    device: str,
    out: Path | None,
    *,
    as_json: bool,
    quiet: bool,
) -> int:
    """Compare the optimizers on a task of the user's."""
    folder = Path("out", "train", script.stem) if out is None else out
    task = _read(script)
    task |= {} if names is None else {"methods": names}
    task |= {} if seeds is None else {"seeds": seeds}
    make_folder("--out", folder)
    try:
        found = compare(**task, device=device, out=folder, progress=not quiet)
    except KeyboardInterrupt:
        typer.echo(f"steepen: interrupted; the same command goes on from what {folder} keeps", err=True)
        return 1
    if found.runs:
        pictures.save_curves(found.runs, folder, script.stem)
    if as_json:
        rows = [line._asdict() for line in found.summary()]
        document = {"settings": found.settings, "summary": rows, "failures": found.failures}
        print_json(document)
    elif not quiet:
        typer.echo(str(found))
        trials = found.settings["trials"]
        chosen = f" Each was chosen from {count(trials, 'trial')} on held-out data." if trials > 1 else ""
        typer.echo(f"\n±: the standard error over seeds.{chosen}")
        typer.echo("Stopped early: where the loss on held-out data was lowest on the way.")
        typer.echo(f"The runs and the pictures: {folder}")
    return 0


def _read(script: Path) -> dict[str, Any]:
    """Run a Python file, and return those of its names that `compare` takes."""
    if not script.is_file():
        raise ValueError(f"--script: there is no file {str(script)!r}")
    names = runpy.run_path(str(script))
    missing = [name for name in ("make_model", "loss", "train", "test") if name not in names]
    if missing:
        raise ValueError(f"--script: {str(script)!r} lacks {', '.join(missing)}")
    known = set(inspect.signature(compare).parameters) - {"out", "progress", "device"}
    return {name: value for name, value in names.items() if name in known}


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch use one thread: networks as small as these are only slowed down by more."""
    torch = load("torch", "steepen train", extra="train")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def show(found: Comparison) -> None:
    """Write the settings, and a row for each optimizer.

    Examples
    --------
    >>> from steepen.train.results import Run
    >>> ends = [("sgd", 0, 0.5), ("sgd", 1, 0.6), ("sam", 0, 0.55), ("sam", 1, 0.64)]
    >>> runs = [Run(name, seed, 9, 9, (0, 9), (0.1, end), (2.3, 1.2), 0.2) for name, seed, end in ends]
    >>> show(Comparison(asdict(Settings.of("digits", grads=9)), ["sgd", "sam"], runs=runs))
    digits: 9 gradients each, batch 32, base sgd with lr 0.1, 2 seeds
    <BLANKLINE>
    optimizer         steps  grads    accuracy %           loss        vs sgd
    sgd                   9      9  55.00 ± 5.00  1.200 ± 0.000             –
    sam        ρ 0.2      9      9  59.50 ± 4.50  1.200 ± 0.000  +4.50 ± 0.50
    <BLANKLINE>
    On the test part. ±: the standard error over seeds. vs sgd: the accuracy less that of sgd, seed by seed.
    """
    page, settings, lines = Page(), found.settings, found.summary()
    part, first = "validation" if settings["validate"] else "test", lines[0].optimizer
    seeds = len({run.seed for run in found.runs})
    phased = any(OPTIMIZERS[line.optimizer].phase in ("early", "late") for line in lines)
    fraction = f", fraction {settings['fraction']:g}" * phased
    page.note(
        f"{settings['data']}: {settings['grads']} gradients each, batch {settings['batch']}, base "
        f"{settings['base']} with lr {settings['lr']:g}{fraction}, {count(seeds, 'seed')}",
        "bold",
    )
    columns = [
        Column("optimizer", [line.optimizer for line in lines], right=False),
        Column("", [_penalty(line) for line in lines], right=False),
        Column("steps", [str(line.steps) for line in lines]),
        Column("grads", [f"{line.gradients:.10g}" for line in lines]),
        Column("accuracy %", [line.accuracy.text(".2f", 100) for line in lines]),
        Column("loss", [line.loss.text(".3f") for line in lines]),
    ]
    note = f"On the {part} part. ±: the standard error over seeds. "
    if any(line.diverged for line in lines):
        columns.append(Column("diverged", [f"{line.diverged}/{line.runs}" for line in lines]))
        note += "The means are over the runs that did not diverge. "
    gaps = [line.difference.text("+.2f", 100) for line in lines[1:]]
    columns.append(Column(f"vs {first}", ["–", *gaps]))
    page.line()
    page.table(columns)
    page.line()
    page.note(f"{note}vs {first}: the accuracy less that of {first}, seed by seed.")


def _penalty(line: Line) -> str:
    symbol = OPTIMIZERS[line.optimizer].symbol
    return f"{symbol} {line.strength:g}" if symbol else ""
