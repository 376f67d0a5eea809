"""`run`: every optimizer with every seed, and what came of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .._run.progress import item_bar
from .._tools.check import whole
from .data import load_data
from .folders import CIFAR, find_cifar
from .optimizers import OPTIMIZERS, check_names, steps_of
from .results import FILE, Results
from .settings import Settings
from .training import check_device, train


def run(
    settings: Settings,
    optimizers: Sequence[str],
    *,
    seeds: int = 5,
    out: str | os.PathLike[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Results:
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
        A folder that is there. Its `results.json` is written after each run. Runs that it has are not made
        again; one of other settings or other versions is refused.
    data_dir : path, optional
        The folder that CIFAR is in.
    progress : bool
        Show a progress bar, if standard error is a terminal.

    Returns
    -------
    Results
        The runs asked for.

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
    results = check(settings, optimizers, seeds, out, data_dir)
    have = {(one.optimizer, one.seed) for one in results.runs}
    # seed by seed, so that an interrupt leaves pairs
    missing = [(name, seed) for seed in range(seeds) for name in optimizers if (name, seed) not in have]
    with item_bar(progress and bool(missing), len(missing)) as show:
        data = (
            load_data(settings.data, validate=settings.validate, device=settings.device, folder=data_dir)
            if missing
            else None
        )
        for name, seed in missing:
            show(f"{name}, seed {seed}")
            assert data is not None
            results = replace(results, runs=[*results.runs, train(name, seed, settings, data)])
            if out is not None:
                results.save(out)
    return results.chosen(optimizers, range(seeds))


def check(
    settings: Settings,
    optimizers: Sequence[str],
    seeds: int,
    out: str | os.PathLike[str] | None,
    data_dir: str | os.PathLike[str] | None = None,
) -> Results:
    """Find out before any work what cannot be done; give what the folder holds already."""
    if settings.data in CIFAR:
        find_cifar(settings.data, data_dir)
    elif data_dir is not None:
        raise ValueError(f"data-dir: {settings.data} is made here, and read from no folder")
    check_names(optimizers, settings.base)
    whole("seeds", seeds, 1)
    check_device(settings.device)
    for name in optimizers:
        steps_of(OPTIMIZERS[name], settings.grads, settings.batch, settings.fraction)  # refuses a fraction of less than one step
    return kept(settings, out)


def kept(settings: Settings, out: str | os.PathLike[str] | None) -> Results:
    """Give what the folder holds already; ValueError if that was made in another way."""
    here = Results(settings, [])
    path = None if out is None else Path(out, FILE)
    if path is None or not path.exists():
        return here
    try:
        there = Results.from_json(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"out: {str(path)!r} is not a file of results, and is left as it is") from error
    differences = here.differences(there)
    if differences:
        what = "; ".join(differences)
        raise ValueError(f"out: {str(path)!r} holds runs with {what}. Give another folder for these")
    return there
