"""`sweep`, for users and the command: runs batches in processes, reads and appends to the file `out`."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._call.arguments import settings_of, whole_budget
from .._call.keywords import Shared, Stopping, complete, spelled_out
from .._call.minimize import minimize
from .._tools.check import is_whole, one_of, whole
from .._tools.fingerprint import fingerprint
from .._tools.jobs import JobFile, run
from .._tools.jobs.file import Key, Record
from .._tools.optional import load
from .._tools.workers import check_workers
from ..budget import Budget
from ..functions import functions
from ..status import Status
from .grid import AXES, Call, calls, grid
from .results import COUNTS, table_of

if TYPE_CHECKING:
    import pandas as pd

MOST = 10_000  # rows of a batch; in a larger one a row costs more, see docs/many.md
SECONDS = 10.0  # that a batch should take, so that slow rows are spread and saved, too
EVALUATIONS = 100  # of f and its gradient, that a run is assumed to need where its budget does not say
NUMBERS = 8_000_000  # that a batch may hold at once, about 64 MB
KEY = ("function", "row")  # the first of a batch, in the table


class SweepKeywords(Shared, total=False):
    """The keywords that `sweep` shares with `minimize`; the settings may be lists of values."""

    step: Any
    lam: Any
    r: Any
    b: Any
    penalty: Any
    guard: Any
    memory: Any
    switch: Any


@spelled_out(SweepKeywords)
def sweep(
    fun: Any, starts: ArrayLike | int | Mapping[str, Any], *, method: str | Sequence[str] = "cgd-auto",
    seed: int = 0, at: Sequence[int] = (), points: bool = False,
    out: str | os.PathLike[str] | None = None, workers: Any = None, rows: int | None = None,
    progress: bool = False, **keywords: Unpack[SweepKeywords],
) -> pd.DataFrame:  # fmt: skip
    """Minimise functions from many starts with many settings, and return a table with one row per run.

    Every setting may be a list: all combinations are run, and a method ignores settings it does not have.
    The table does not depend on where batches are run (bit for bit, if BLAS uses one thread in each process).

    Parameters
    ----------
    fun : callable, name of a test function, or a list or mapping of them
        As for `minimize`; the keys of a mapping are the names in the table.
    starts : array of shape (S, n), int, or mapping from function names to either
        Start points, or the number of points to draw uniformly within the bounds of the function.
    method : str or list of str
        Names of methods.
    seed : int
        The seed of drawn starts.
    at : sequence of int
        Also record f after these numbers of gradients, none above the budget, as columns `f_10` and so on.
    points : bool
        Also record the start and end point of each run, as columns `start0`, … and `x0`, ….
    out : path, optional
        A results file, to which rows are appended as they complete; the same call resumes the sweep.
    workers : int, executor or map-like callable, optional
        Where batches are run, as in `minimize`: in so many processes (-1: one per core), or on an executor,
        such as Dask's. By default in this process.
    rows : int, optional
        The maximum batch size; by default as many rows as take about ten seconds, by the time that f takes
        at the starts, and at most 10 000, or fewer if they would need more than about 64 MB.
    progress : bool
        Show a progress bar, if standard error is a terminal.
    step, lam, r, b, penalty, guard, memory, switch : value or list of values, optional
        As for `minimize`.
    bounds : as for `minimize`, or True
        True means the bounds of each function.
    budget, tol, gtol, ftol, xtol, gtol_rel, jac, hvp, hessp, hess, x_scale, engine
        As for `minimize`, the same for all runs; a budget has no limit in seconds.

    Returns
    -------
    pandas.DataFrame
        Ordered by function, setting and start: `function`, `method`, the settings, `start` (its index), `f0`
        (f there), `f` (final), `best` (lowest seen), `status`, the counts `nit`, `nfev`, `njev` and
        `nhvp`, and the columns of `at` and `points`.

    Examples
    --------
    >>> import steepen as st
    >>> budget = st.Budget(grads=40)
    >>> table = st.sweep("booth", 5, method=["gd", "cgd-fd"], step=0.02, lam=[0.1, 0.2], budget=budget)
    >>> len(table), list(table.columns[:7])
    (15, ['function', 'method', 'step', 'lam', 'start', 'f0', 'f'])
    >>> bool((table.njev <= 40).all())
    True
    """
    load("pandas", "sweep", extra="sweep")
    shared = complete(keywords, SweepKeywords, "sweep")
    axes, bounds = {name: shared.pop(name) for name in AXES}, shared.pop("bounds")
    if not isinstance(points, bool):
        raise TypeError(f"points: expected True or False, got {points!r}")
    whole("seed", seed, 0)
    whole("rows", 1 if rows is None else rows, 1)
    check_workers(workers)
    if not isinstance(at, Sequence | np.ndarray) or isinstance(at, str):
        raise TypeError(f"at: expected a list of whole numbers, got {at!r}")
    for look in at:
        whole("at", look, 0)
    batches, budget = calls(grid(method, axes)), whole_budget(shared["budget"], 1)
    if budget.grads is not None and at and max(at) > budget.grads:
        raise ValueError(f"at: expected at most the budget, {budget.grads} gradients, got {max(at)}")
    if budget.seconds is not None:
        raise ValueError("budget: a sweep takes no limit in seconds: its table would depend on the machine")
    jax = one_of("engine", shared["engine"], ("eager", "jax")) == "jax"
    if jax and at and (shared["budget"] is None or budget.total is None):
        more = "set a budget of gradients or iterations"
        raise ValueError(f"at: engine='jax' preallocates memory for every iterate; {more}")
    targets = _targets(fun, starts, seed, bounds, batches, shared)
    plan = Plan(targets, batches, sorted(set(at)), points, shared, rows)
    about = plan.about()
    file = None if out is None else JobFile(out, KEY, about, chosen=["batches"])
    if file is not None:  # another process, or an earlier one, has measured
        plan = replace(plan, sizes=file.about["batches"])
    return table_of(about, _records(plan, file, workers, progress))


def _records(plan: Plan, file: JobFile | None, workers: Any, progress: bool) -> list[Record]:
    """Run all batches, and return their records."""
    found: list[Record] = []
    failed: list[tuple[Key, str]] = []
    for done in run(_make, plan.pieces, send=plan.send, file=file, workers=workers, progress=progress):
        if done.error is not None:
            failed.append((done.key, done.error))
        else:
            found.append({**done.value, **dict(zip(KEY, done.key, strict=True))})
    if failed:
        key, error = failed[0]
        what = plan.pieces[key][0].shared
        raise RuntimeError(
            f"{len(failed)} of {len(plan.pieces)} batches failed; the completed ones are "
            f"{'lost' if file is None else 'in the file'}. The first, {key[0]} with {what}: {error}"
        )
    return found


@dataclass(frozen=True)
class Target:
    """A function, its starts, its box, and its values at the starts."""

    fun: Callable[..., Any]
    starts: NDArray[Any]
    bounds: Any
    f0: NDArray[np.float64]
    seconds: float
    """How long f takes for a row."""


@dataclass(frozen=True)
class Plan:
    """The runs to be made."""

    targets: Mapping[str, Target]
    calls: Sequence[Call]
    at: Sequence[int]
    points: bool
    shared: Mapping[str, Any]
    rows: int | None
    sizes: Sequence[int] | None = None
    """Of the batches of each function and call; None: by their time and memory."""

    def about(self) -> dict[str, Any]:
        """Return a description that identifies this sweep; functions by their values at the starts."""
        starts = b"".join(target.starts.tobytes() for target in self.targets.values())
        settings = [one for call in self.calls for one in call.settings]
        functions = {name: {"starts": len(one.starts), "f0": one.f0} for name, one in self.targets.items()}
        return {
            "results": "sweep", "functions": functions,
            "starts": hashlib.sha256(starts).hexdigest()[:16],
            "settings": [{name: _said(value) for name, value in one.items()} for one in settings],
            "bounds": {name: _said(target.bounds) for name, target in self.targets.items()},
            "columns": self.columns(), "rows": self.rows, "batches": self.batches,
            **{name: None if value is False else _said(value) for name, value in self.shared.items()},
        }  # fmt: skip

    def columns(self) -> list[str]:
        """Return the names of the columns of results besides the status and the counts."""
        width = max(target.starts.shape[1] for target in self.targets.values())
        ends = [f"{kind}{i}" for kind in ("start", "x") for i in range(width)] if self.points else []
        return ["f", "best", *(f"f_{look}" for look in self.at), *ends]

    @cached_property
    def batches(self) -> Sequence[int]:
        """The maximum size of the batches of each function and call."""
        if self.sizes is not None:
            return self.sizes
        return [
            self.rows or self.batch_size(target, call.shared["method"])
            for target in self.targets.values()
            for call in self.calls
        ]

    @cached_property
    def pieces(self) -> dict[Key, tuple[Call, int, int]]:
        """The batches: by function and row of the table, the call with the first and the end of its rows."""
        found: dict[Key, tuple[Call, int, int]] = {}
        row, sizes = 0, iter(self.batches)
        for name, target in self.targets.items():
            for call in self.calls:
                total, size = len(call.settings) * len(target.starts), next(sizes)
                for first in range(0, total, size):
                    found[name, row + first] = call, first, min(first + size, total)
                row += total
        return found

    def batch_size(self, target: Target, method: str) -> int:
        """Return the maximum number of rows in a batch: by what they hold, and by the time they take."""
        n, budget = target.starts.shape[1], self.shared["budget"] or Budget()
        iterations = whole_budget(self.shared["budget"], n).total or max(1000, 200 * n)
        pairs = 2 * min(200, iterations) if method == "cgd-auto" else 0
        matrix = 2 * n if "bfgs" in method or "dfp" in method or method == "newton" else 0
        traced = 10 + (n if self.shared["engine"] == "jax" else 0)  # that one keeps every x, too
        each = (30 + pairs + matrix) * n + (traced * iterations if self.at else 0)
        gradient = 1 if callable(self.shared["jac"]) or hasattr(target.fun, "grad") else n
        limits = (budget.evals, budget.grads and budget.grads * (1 + gradient), EVALUATIONS * (1 + gradient))
        seconds = target.seconds * min(limit for limit in limits if limit is not None)
        return max(1, min(MOST, NUMBERS // each, int(SECONDS / max(seconds, 1e-9))))

    def send(self, key: Key) -> tuple[Any, ...]:
        """Return the arguments of `_make`."""
        target, (call, first, end) = self.targets[cast(str, key[0])], self.pieces[key]
        which, start = np.divmod(np.arange(first, end), len(target.starts))
        rows = {name: values[which] for name, values in call.rows.items()}
        options = {**self.shared, **call.shared, **rows, "bounds": target.bounds}
        return target.fun, target.starts[start], options, tuple(self.at), self.points


def _make(
    fun: Callable[..., Any], x: NDArray[Any], options: dict[str, Any], at: Sequence[int], points: bool
) -> dict[str, Any]:
    """Run one batch, and return its columns."""
    trace = bool(at) if options["engine"] == "eager" else options["budget"].total + 1 if at else False
    with np.errstate(all="ignore"):  # what is not finite is a status
        made = minimize(fun, x, trace=trace, **options)
    if np.any(made.status == Status.INTERRUPTED):
        raise KeyboardInterrupt  # half a batch is none
    columns, history = {"f": made.fun, "best": made.best.fun}, cast(Any, made.trace)
    for look in at:  # f of each row at its last iterate within that many gradients
        within = (history.k[:, None] < history.length) & (history.njev <= look)
        last = np.maximum(within.sum(axis=0) - 1, 0)
        columns[f"f_{look}"] = np.take_along_axis(np.asarray(history.f), last[None], axis=0)[0]
    if points:
        for i in range(x.shape[1]):
            columns |= {f"start{i}": x[:, i], f"x{i}": np.asarray(made.x)[:, i]}
    columns |= {"status": made.status, **{name: made[name] for name in COUNTS}}
    return {"size": len(x), "rows": {name: np.asarray(column) for name, column in columns.items()}}


def _targets(
    fun: Any, starts: Any, seed: int, bounds: Any, batches: Sequence[Call], shared: Mapping[str, Any]
) -> dict[str, Target]:
    """Return the functions and starts, with the checks of `minimize`; errors in f surface here."""
    found: dict[str, Target] = {}
    stopping = {name: shared[name] for name in Stopping.__annotations__}
    known = named(fun)
    for name in cast("Mapping[Any, Any]", starts) if isinstance(starts, Mapping) else ():
        if name not in known:
            raise ValueError(f"starts: expected names of the functions, got {name!r}")
    for name, one in known.items():
        own: Any = getattr(one, "bounds", None)
        n: Any = getattr(one, "n", None)
        if bounds is True and own is None:
            raise ValueError(f"bounds: expected bounds, since {name!r} has none of its own; got True")
        if isinstance(starts, Mapping) and name not in starts:
            raise ValueError(f"starts: expected an entry for every function; {name!r} has none")
        x = _starts(name, one, cast(Any, starts)[name] if isinstance(starts, Mapping) else starts, seed)
        if n not in (None, x.shape[1]):
            raise ValueError(f"starts: expected points of {n} numbers for {name!r}, got {x.shape[1]}")
        for call in batches:
            settings_of((len(call.settings), x.shape[1]), x.dtype, **call.shared, **call.rows, **stopping)
        box = own if bounds is True else bounds
        found[name] = Target(one, x, box, *_values_at(one, x, box, shared))
    return found


class Timed:
    """A function, with the time that its calls take."""

    def __init__(self, fun: Callable[..., Any]):
        self.fun, self.seconds = fun, 0.0

    def __call__(self, *args: Any) -> Any:
        """Call it."""
        began = time.perf_counter()
        try:
            return self.fun(*args)
        finally:
            self.seconds += time.perf_counter() - began

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fun, name)  # its gradient


def _values_at(
    fun: Any, x: NDArray[Any], bounds: Any, shared: Mapping[str, Any]
) -> tuple[NDArray[np.float64], float]:
    """Return f at the starts, from runs of zero iterations so that the values match those of the sweep.

    Also the seconds that it takes for a row.
    """
    jac = shared["jac"] or ("jax" if shared["engine"] == "jax" else None)
    given: dict[str, Any] = {"jac": jac, "bounds": bounds, "budget": Budget(iters=0), "trace": False}
    timed = fun if jac in ("jax", "torch") else Timed(fun)  # those trace f, and time means nothing
    with np.errstate(all="ignore"):
        parts = [minimize(timed, x[i : i + MOST], method="gd", **given).fun for i in range(0, len(x), MOST)]
    return np.concatenate(parts).astype(float), getattr(timed, "seconds", 0.0) / len(x)


def named(fun: Any) -> dict[str, Callable[..., Any]]:
    """Return the functions by name."""
    if isinstance(fun, Mapping):
        pairs = [(str(name), one) for name, one in cast("Mapping[Any, Any]", fun).items()]
    else:
        many = list(cast("list[Any]", fun)) if isinstance(fun, list | tuple) else [fun]
        pairs = [(str(getattr(one, "name", getattr(one, "__name__", one))), one) for one in many]
    if not pairs:
        raise ValueError("fun: expected at least one function, got none: the grid is empty")
    found: dict[str, Callable[..., Any]] = {}
    for name, one in pairs:
        if isinstance(one, str):
            one = functions[one_of("fun", one, functions, "see `steepen.functions`")]
        if not callable(one):
            raise TypeError(f"fun: expected callables or names of test functions, got {one!r}")
        if name in found:
            raise ValueError(f"fun: {name!r} appears twice; pass a mapping from names to functions")
        found[name] = one
    return found


def _starts(name: str, fun: Any, starts: Any, seed: int) -> NDArray[Any]:
    if is_whole(starts):
        whole("starts", starts, 1)
        box = getattr(fun, "bounds", None)
        if box is None:
            raise ValueError(f"starts: expected points, since {name!r} has no bounds to draw them in")
        return draw(np.asarray(box, dtype=float), int(starts), seed)
    try:
        x = np.atleast_2d(np.asarray(starts))
    except ValueError:  # rows of several lengths
        x = np.empty(0)
    if x.ndim != 2 or not x.size or x.dtype.kind not in "fiu":
        raise ValueError(f"starts: expected points of shape (S, n) or the number to draw, got {starts!r}")
    return x if x.dtype == np.float32 else x.astype(float)


def draw(bounds: NDArray[np.float64], count: int, seed: int) -> NDArray[np.float64]:
    """Return points drawn uniformly in a box."""
    return np.random.default_rng(seed).uniform(*bounds.T, size=(count, len(bounds)))


def _said(value: Any) -> Any:
    """Return a JSON-serialisable form of a value."""
    if isinstance(value, np.ndarray | np.generic):
        return cast(Any, value).tolist()
    return value if value is None or isinstance(value, bool | int | float | str) else fingerprint(value)
