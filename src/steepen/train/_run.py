"""`run`: every optimizer with every seed, and what came of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version

from .. import __version__
from .._tools import jobs as jobs
from .._tools.check import whole
from .comparison import Comparison, kept
from .data import load_data
from .folders import CIFAR, find_cifar
from .optimizers import DECAY, OPTIMIZERS, check_names, steps_of, strength_of
from .settings import Settings
from .training import check_device, train
from .tuning import Choice


def run(
    settings: Settings,
    optimizers: Sequence[str],
    *,
    seeds: int = 5,
    out: str | os.PathLike[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Comparison:
    """Train with each optimizer and each seed, or take the run from the folder if it is there.

    Parameters
    ----------
    settings : Settings
        What all runs share.
    optimizers : sequence of str
        Names from `OPTIMIZERS`; the others are compared with the first.
    seeds : int
        How many; they are 0, 1, 2 and so on.
    out : path, optional
        A folder that is there, for `results.json`. Runs that it has are not made again; one of other settings
        or other versions is refused.
    data_dir : path, optional
        The folder that CIFAR is in.
    progress : bool
        Show a progress bar, if standard error is a terminal.

    Examples
    --------
    >>> import tempfile
    >>> settings = Settings.of("digits", grads=20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = run(settings, ["sgd"], seeds=1, out=folder)
    ...     second = run(settings, ["sgd"], seeds=2, out=folder)
    >>> second.runs[0] == first.runs[0], len(second.runs)
    (True, 2)
    """
    found = check(settings, optimizers, seeds, out, data_dir)
    missing = found.missing(seeds)
    if missing:
        data = load_data(settings.data, settings.validate, settings.device, data_dir)
        for done in jobs.run(
            train, missing, send=lambda key: (*key, settings, data), strict=True, progress=progress,
            title=lambda key: f"{key[0]}, seed {key[1]}",
        ):  # fmt: skip
            found.runs.append(done.value)
            found.save(out)
        found.runs.sort(key=lambda run: run.seed)
    return found.only(seeds)


def check(
    settings: Settings,
    optimizers: Sequence[str],
    seeds: int,
    out: str | os.PathLike[str] | None,
    data_dir: str | os.PathLike[str] | None = None,
) -> Comparison:
    """Find out before any work what cannot be done; return what the folder holds already."""
    if settings.data in CIFAR:
        find_cifar(settings.data, data_dir)
    elif data_dir is not None:
        raise ValueError(f"data-dir: {settings.data} is made here, and read from no folder")
    check_names(optimizers, settings.base)
    whole("seeds", seeds, 1)
    check_device(settings.device)
    choices: dict[str, list[Choice]] = {}
    for name in optimizers:
        steps_of(OPTIMIZERS[name], settings.grads, settings.batch, settings.fraction)  # refuses too few
        choices[name] = [Choice(settings.lr, DECAY[settings.base], strength_of(name, settings))]
    shared = {name: "default" if value is None else value for name, value in asdict(settings).items()}
    found = kept(shared | {"steepen": __version__, "torch": version("torch")}, optimizers, choices, out)
    found.choices |= {name: one[0] for name, one in choices.items()}
    return found
