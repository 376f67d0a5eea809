"""The command `steepen train`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .._tools.optional import load
from ..train import pictures
from ..train._run import check, kept, run
from ..train.optimizers import OPTIMIZERS
from ..train.results import Line, Results
from ..train.settings import Settings
from ._options import prepare, words
from ._tables import Column, Page, count, finite

__all__ = ["register", "show"]


def register(app: typer.Typer) -> None:
    """Add the command to an application.

    Examples
    --------
    >>> app = typer.Typer()
    >>> register(app)
    >>> [command.name for command in app.registered_commands]
    ['train']
    """
    codes = "0, all runs are there; 1, an interrupt; 2, wrong usage, or a missing dependency"
    app.command("train", epilog=f"Exit codes: {codes}.")(_command)


def _command(
    data: Annotated[str, typer.Option(help="digits or mnist1d.")] = "digits",
    optimizer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Which optimizers, see --list; by default the base, sam, cgd, cgd-early and cgd-late. "
            "The others are compared with the first.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each, with seeds 0, 1, 2 and so on.")] = 5,
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
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    out: Annotated[Path | None, typer.Option(help="The folder to write; out/train/DATA by default.")] = None,
    list_optimizers: Annotated[bool, typer.Option("--list", help="List the optimizers and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no text and no progress bar.")] = False,
) -> int:
    """Train a small network with several optimizers, all with the same number of gradients.

    Seed by seed they start from the same weights and see the same minibatches. The folder then holds
    results.json and a picture. The same command again makes only the runs that are missing.
    """
    if list_optimizers:
        width = max(map(len, OPTIMIZERS)) + 2
        for name, kind in OPTIMIZERS.items():
            typer.echo(name.ljust(width) + kind.about)
        return 0
    names = [base, "sam", "cgd", "cgd-early", "cgd-late"] if optimizer is None else words(optimizer)
    folder = Path("out", "train", data) if out is None else out
    for module in ("torch", "matplotlib"):
        load(module, "steepen train", extra="train")
    try:
        settings = Settings.of(
            data, grads=grads, batch=batch, base=base, lr=lr, lam=lam, rho=rho,
            fraction=fraction, device=device, validate=validate,
        )  # fmt: skip
        check(settings, names, seeds, folder)
    except ValueError as error:
        raise ValueError(f"--{error}") from error
    prepare(folder)
    try:
        with _one_thread():
            results = run(settings, names, seeds=seeds, out=folder, progress=not quiet)
    except KeyboardInterrupt:
        finished = len(kept(settings, folder).chosen(names, range(seeds)).runs)
        sentence = f"interrupted; {folder} keeps {finished} of {count(len(names) * seeds, 'run')}"
        typer.echo(f"steepen: {sentence}; the same command goes on from there", err=True)
        return 1
    pictures.save(results, folder)
    if as_json:
        lines = [line._asdict() for line in results.summary()]
        document = {"settings": asdict(settings), "seeds": seeds, "out": str(folder), "summary": lines}
        typer.echo(json.dumps(finite(document), allow_nan=False, indent=2, ensure_ascii=False))
    elif not quiet:
        show(results)
        typer.echo(f"\nThe runs and the picture: {folder}")
    return 0


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


def show(results: Results) -> None:
    """Write the settings, and a row for each optimizer.

    Examples
    --------
    >>> from steepen.train.results import Run
    >>> ends = [("sgd", 0, 0.5), ("sgd", 1, 0.6), ("sam", 0, 0.55), ("sam", 1, 0.64)]
    >>> runs = [Run(name, seed, 9, 9, (0, 9), (0.1, end), (2.3, 1.2), 0.2) for name, seed, end in ends]
    >>> show(Results(Settings.of("digits", grads=9), runs))
    digits: 9 gradients each, batch 32, base sgd with lr 0.1, 2 seeds
    <BLANKLINE>
    optimizer         steps  grads    accuracy %           loss        vs sgd
    sgd                   9      9  55.00 ± 5.00  1.200 ± 0.000             –
    sam        ρ 0.2      9      9  59.50 ± 4.50  1.200 ± 0.000  +4.50 ± 0.50
    <BLANKLINE>
    On the test part. ±: the standard error over seeds. vs sgd: the accuracy less that of sgd, seed by seed.
    """
    page, settings, lines = Page(), results.settings, results.summary()
    part, first = "validation" if settings.validate else "test", lines[0].optimizer
    seeds = len({run.seed for run in results.runs})
    phased = any(OPTIMIZERS[line.optimizer].phase != "full" for line in lines)
    fraction = f", fraction {settings.fraction:g}" * phased
    page.note(
        f"{settings.data}: {settings.grads} gradients each, batch {settings.batch}, base {settings.base} "
        f"with lr {settings.lr:g}{fraction}, {count(seeds, 'seed')}",
        "bold",
    )
    columns = [
        Column("optimizer", [line.optimizer for line in lines], right=False),
        Column("", [_penalty(line) for line in lines], right=False),
        Column("steps", [str(line.steps) for line in lines]),
        Column("grads", [str(line.gradients) for line in lines]),
        Column("accuracy %", [_cell(100 * line.accuracy, 100 * line.accuracy_se, ".2f") for line in lines]),
        Column("loss", [_cell(line.loss, line.loss_se, ".3f") for line in lines]),
    ]
    note = f"On the {part} part. ±: the standard error over seeds. "
    if any(line.diverged for line in lines):
        columns.append(Column("diverged", [f"{line.diverged}/{line.runs}" for line in lines]))
        note += "The means are over the runs that did not diverge. "
    gaps = [_cell(100 * line.difference, 100 * line.difference_se, "+.2f") for line in lines[1:]]
    columns.append(Column(f"vs {first}", ["–", *gaps]))
    page.line()
    page.table(columns)
    page.line()
    page.note(f"{note}vs {first}: the accuracy less that of {first}, seed by seed.")


def _penalty(line: Line) -> str:
    symbol = OPTIMIZERS[line.optimizer].symbol
    return f"{symbol} {line.strength:g}" if symbol else ""


def _cell(mean: float, error: float, form: str) -> str:
    """Write a mean with its standard error, as far as there are any."""
    if math.isnan(mean):
        return "–"
    text = f"{mean:{form}}"
    return text if math.isnan(error) else f"{text} ± {error:{form.removeprefix('+')}}"
