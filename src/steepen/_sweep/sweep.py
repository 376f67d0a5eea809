"""`sweep` itself."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._call.arguments import settings_of
from .._call.minimize import minimize
from .._core.result import Status, Trace
from .._tools.check import is_number, is_whole, one_of, whole
from .._tools.jobs import JobFile, elsewhere, narrow, pack, run, send_check, unpack
from .._tools.jobs.file import Key
from .._tools.optional import load
from ..budget import Budget
from ..functions import functions
from .grid import AXES, Call, Setting, calls, grid, listed

if TYPE_CHECKING:
    import pandas as pd

MOST = 10_000  # rows of a batch: beyond, a row costs more, see docs/many.md
NUMBERS = 8_000_000  # that a batch may hold at once, about: 64 MB
COUNTS = ("nit", "nfev", "njev", "nhvp")


def sweep(
    fun: Any,
    starts: ArrayLike | int | Mapping[str, Any],
    *,
    method: str | Sequence[str] = "cgd-auto",
    step: Any = None,
    lam: Any = None,
    r: Any = None,
    b: Any = None,
    penalty: Any = None,
    memory: Any = None,
    settings: Iterable[Mapping[str, Any]] | None = None,
    draws: int | None = None,
    seed: int = 0,
    budget: Budget | None = None,
    at: Sequence[int] = (),
    points: bool = False,
    jac: Any = None,
    bounds: Any = None,
    gtol: float | None = None,
    engine: Literal["eager", "jax"] = "eager",
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    rows: int | None = None,
    progress: bool = False,
) -> pd.DataFrame:
    """Run functions from many starts with many settings, and return a table with a row for each run.

    Every setting may be a list: all combinations are run, a method without what it does not have. Runs that
    differ in numbers alone share batched calls. The table is the same in whatever order they are made and by
    however many processes (to the bit, if BLAS has one thread in each).

    Parameters
    ----------
    fun : callable, name of a test function, or a list or mapping of them
        As for `minimize`; in a mapping by the names that the table will have.
    starts : array of shape (S, n), or int, or a mapping from names of functions to them
        Start points; a number of them is drawn inside the bounds that the function has.
    method : str or list of str
        Names of methods.
    step, lam, r, b, penalty, memory : value or list of values, optional
        As for `minimize`; a distribution of `scipy.stats` is drawn from, `draws` times.
    settings : iterable of dict, optional
        In place of these: the combinations one by one, such as {"method": "gd", "step": 0.1}.
    draws : int, optional
        How many settings are drawn, where distributions are given.
    seed : int
        The seed of starts and of settings that are drawn.
    budget : Budget, optional
        The limits of each run; not in seconds, which no two machines share.
    at : sequence of int
        Also keep the f that was reached with so many gradients, as columns `f_10` and so on.
    points : bool
        Also keep where each run starts and ends, as columns `start0`, … and `x0`, ….
    jac, gtol, engine
        As for `minimize`.
    bounds : as for `minimize`, or True
        True stands for the bounds that each function has.
    out : path, optional
        A file of results; its folder must be there. Rows are appended as they come, and are not run again:
        after a kill the same call goes on. A file of another sweep is refused.
    jobs : int, optional
        How many processes, -1 for one a core; by default what `joblib.parallel_config` says (cores, Dask,
        Ray), else this one.
    rows : int, optional
        The most rows of a batch; by default 10 000, fewer where they would take more than about 64 MB.
    progress : bool
        Show a progress bar, if standard error is a terminal.

    Returns
    -------
    pandas.DataFrame
        Ordered by function, setting and start: `function`, `method`, the settings, `start` (its number), `f0`
        (f there), `f` (at the end), `best` (the lowest seen), `status`, the counts `nit`, `nfev`, `njev` and
        `nhvp`, and what `at` and `points` ask for.

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
    axes = dict(zip(AXES, (step, lam, r, b, penalty, memory), strict=True))
    chosen = _chosen(method, axes, settings, draws, seed)
    if budget is not None and budget.seconds is not None:
        raise ValueError(
            "budget: a sweep has no limit in seconds, since its table would depend on the machine"
        )
    one_of("engine", engine, ("eager", "jax"))
    looks = _looks(at, budget, engine)
    if rows is not None:
        whole("rows", rows, 1)
    common = {"budget": budget, "jac": jac, "gtol": gtol, "engine": engine}
    plan = Plan(
        _targets(fun, starts, seed, bounds, common), chosen, calls(chosen), looks, points, common, rows
    )
    plan.check()
    if elsewhere(jobs):
        send_check("fun", [target.fun for target in plan.targets.values()])
    file = None if out is None else JobFile(out, ("function", "call", "first"), plan.about())
    return plan.table(_columns(plan, file, jobs, progress))


def _columns(plan: Plan, file: JobFile | None, jobs: int | None, progress: bool) -> dict[str, NDArray[Any]]:
    """Run all batches, and return the columns that they fill."""
    columns = plan.empty()
    failed: list[tuple[Key, str]] = []
    where: dict[str, Any] = {"file": file, "jobs": jobs, "progress": progress}
    for done in run(_make, plan.pieces, send=plan.send, title=lambda key: str(key[0]), **where):
        if done.error is not None:
            failed.append((done.key, done.error))
        else:
            plan.put(columns, done.key, done.value["rows"])
    if failed:
        key, error = failed[0]
        what = plan.calls[cast(int, key[1])].shared
        raise RuntimeError(
            f"{len(failed)} of {len(plan.pieces)} batches failed; what was made is "
            f"{'lost' if file is None else 'in the file'}. The first, {key[0]} with {what}: {error}"
        )
    return columns


@dataclass(frozen=True)
class Target:
    """A function, its starts and its box."""

    fun: Callable[..., Any]
    starts: NDArray[Any]
    bounds: Any
    common: Mapping[str, Any]

    @cached_property
    def f0(self) -> NDArray[np.float64]:
        """The values at the starts: a run without a step, so that they come as they do in all others."""
        jac = self.common["jac"] or ("jax" if self.common["engine"] == "jax" else None)
        options: dict[str, Any] = {"method": "gd", "jac": jac, "bounds": self.bounds, "trace": False}
        with np.errstate(all="ignore"):
            parts = [
                minimize(self.fun, self.starts[i : i + MOST], budget=Budget(iters=0), **options).fun
                for i in range(0, len(self.starts), MOST)
            ]
        return np.concatenate([np.asarray(part, dtype=float) for part in parts])


@dataclass(frozen=True)
class Plan:
    """What is to be run, and where its rows go in the table."""

    targets: Mapping[str, Target]
    settings: Sequence[Setting]
    calls: Sequence[Call]
    at: Sequence[int]
    points: bool
    common: Mapping[str, Any]
    rows: int | None

    def check(self) -> None:
        """Let what `minimize` would refuse be refused now, and f fail now if it fails at a start."""
        for target in self.targets.values():
            for call in self.calls:
                shape = (len(call.which), target.starts.shape[1])
                more = {"budget": self.common["budget"], "gtol": self.common["gtol"]}
                settings_of(shape, target.starts.dtype, **call.shared, **call.rows, **more)
            _ = target.f0

    def about(self) -> dict[str, Any]:
        """Return what tells this sweep from others, functions by their values at the starts."""
        return {
            "results": "sweep",
            "functions": {
                name: {"starts": len(target.starts), "n": target.starts.shape[1], "f0": pack(target.f0)}
                for name, target in self.targets.items()
            },
            "starts": _digest(*(target.starts for target in self.targets.values())),
            "settings": [{name: _said(value) for name, value in one.items()} for one in self.settings],
            "calls": [call.which.tolist() for call in self.calls],
            "bounds": {name: _said(target.bounds) for name, target in self.targets.items()},
            "at": list(self.at), "points": self.points, "rows": self.rows,
            **{name: _said(value) for name, value in self.common.items() if name != "jac"},
        }  # fmt: skip

    @cached_property
    def pieces(self) -> dict[Key, int]:
        """The batches: (function, number of the call, first row), and how many rows each has."""
        found: dict[Key, int] = {}
        for name, target in self.targets.items():
            for i, call in enumerate(self.calls):
                total = len(call.which) * len(target.starts)
                size = self.rows or batch_size(target.starts.shape[1], call.shared, self.common, self.at)
                found |= {(name, i, first): min(size, total - first) for first in range(0, total, size)}
        return found

    def send(self, key: Key) -> tuple[Any, ...]:
        """Return the arguments of `_make`."""
        name, number, first = cast("tuple[str, int, int]", key)
        target, call, size = self.targets[name], self.calls[number], self.pieces[key]
        setting, start = divmod(first, len(target.starts))
        if start + size <= len(target.starts):
            which, x = np.full(size, setting), target.starts[start : start + size]
        else:
            which, start = np.divmod(np.arange(first, first + size), len(target.starts))
            x = target.starts[start]
        rows = {name: values[which] for name, values in call.rows.items()}
        options = {**self.common, **call.shared, **rows, "bounds": target.bounds}
        return target.fun, x, options, tuple(self.at), self.points

    @property
    def sizes(self) -> list[int]:
        """How many rows of the table each function has."""
        return [len(self.settings) * len(target.starts) for target in self.targets.values()]

    def empty(self) -> dict[str, NDArray[Any]]:
        """Return the columns that runs fill."""
        names = ["f", "best", *(f"f_{look}" for look in self.at)]
        if self.points:
            names += [f"x{i}" for i in range(max(t.starts.shape[1] for t in self.targets.values()))]
        total = sum(self.sizes)
        columns: dict[str, NDArray[Any]] = {name: np.full(total, np.nan) for name in names}
        columns["status"] = np.zeros(total, np.uint8)
        return columns | {name: np.zeros(total, np.int64) for name in COUNTS}

    def put(self, table: dict[str, NDArray[Any]], key: Key, columns: Mapping[str, Any]) -> None:
        """Put the rows of a batch in their places; columns that come from the file are packed."""
        name, number, first = cast("tuple[str, int, int]", key)
        place, size = list(self.targets).index(name), self.pieces[key]
        begun, starts = sum(self.sizes[:place]), len(self.targets[name].starts)
        at = rows_of(self.calls[number].which, starts, first, size, begun)
        for column, values in columns.items():
            table[column][at] = values if isinstance(values, np.ndarray) else unpack(values, size)

    def table(self, made: Mapping[str, NDArray[Any]]) -> pd.DataFrame:
        """Return the table, with the columns that follow from the plan."""
        return frame({name: t.f0 for name, t in self.targets.items()}, self.settings, made,
                     self._starts() if self.points else {})  # fmt: skip

    def _starts(self) -> dict[str, NDArray[np.float64]]:
        width = max(target.starts.shape[1] for target in self.targets.values())
        parts: list[NDArray[np.float64]] = []
        for target in self.targets.values():
            part = np.full((len(target.starts), width), np.nan)
            part[:, : target.starts.shape[1]] = target.starts
            parts.append(np.tile(part, (len(self.settings), 1)))
        whole = np.concatenate(parts)
        return {f"start{i}": whole[:, i] for i in range(width)}


def rows_of(which: NDArray[Any], starts: int, first: int, size: int, begun: int) -> Any:
    """Return where the rows of a batch stand in the table, in which their function's begin at `begun`.

    Examples
    --------
    >>> rows_of(np.array([1, 2]), 10, 5, 10, begun=0), rows_of(np.array([0, 2]), 2, 1, 2, begun=0).tolist()
    (slice(15, 25, None), [1, 4])
    """
    some = which[first // starts : (first + size - 1) // starts + 1]
    if some[-1] - some[0] == len(some) - 1:  # settings in a row: so are their rows
        begun += int(some[0] * starts + first % starts)
        return slice(begun, begun + size)
    setting, start = np.divmod(np.arange(first, first + size), starts)
    return begun + which[setting] * starts + start


def frame(
    f0: Mapping[str, NDArray[Any]],
    settings: Sequence[Setting],
    made: Mapping[str, NDArray[Any]],
    more: Mapping[str, NDArray[Any]],
) -> pd.DataFrame:
    """Return a sweep's table: f0 of each start by function, the settings, and what the runs have made."""
    pandas = load("pandas", "sweep", extra="sweep")
    counts, every = [len(values) for values in f0.values()], len(settings)
    setting = np.concatenate([np.repeat(range(every), count) for count in counts])
    codes = np.repeat(np.arange(len(counts)), [every * count for count in counts])
    columns: dict[str, Any] = {"function": pandas.Categorical.from_codes(codes, categories=list(f0))}
    for name in ("method", *AXES):
        values = [one.get(name) for one in settings]
        if all(value is None for value in values):
            continue
        if all(value is None or is_number(value) for value in values):
            numbers = np.array([np.nan if value is None else value for value in values], dtype=float)
            columns[name] = numbers[setting]
        else:
            texts = ["" if value is None else str(value) for value in values]
            kinds = list(dict.fromkeys(texts))
            codes = np.array([kinds.index(text) for text in texts])[setting]
            columns[name] = pandas.Categorical.from_codes(codes, categories=kinds)
    columns["start"] = np.concatenate([np.tile(np.arange(count), every) for count in counts])
    columns["f0"] = np.concatenate([np.tile(values, every) for values in f0.values()])
    seen, code = np.zeros(256, bool), np.zeros(256, np.int8)
    seen[made["status"]] = True
    statuses = [status for status in Status if seen[int(status)]]
    code[[int(status) for status in statuses]] = np.arange(len(statuses))
    columns |= made
    names = [status.name for status in statuses]
    columns["status"] = pandas.Categorical.from_codes(code[made["status"]], categories=names)
    return pandas.DataFrame({**columns, **more}, copy=False)


def batch_size(n: int, shared: Mapping[str, Any], common: Mapping[str, Any], at: Sequence[int]) -> int:
    """Return how many rows of n variables a batch may have.

    Examples
    --------
    >>> cases = ((2, "gd"), (1000, "gd"), (1000, "bfgs"))
    >>> common = {"budget": None, "engine": "eager"}
    >>> [batch_size(n, {"method": method}, common, ()) for n, method in cases]
    [10000, 266, 3]
    """
    method, budget = shared["method"], common["budget"]
    iterations = (budget.total if budget else None) or max(1000, 200 * n)
    pairs = 2 * min(200, iterations) if method == "cgd-auto" else 0
    matrix = 2 * n if "bfgs" in method or "dfp" in method or method == "newton" else 0
    traced = 10 + (n if common["engine"] == "jax" else 0)  # that one keeps every x, too
    each = (30 + pairs + matrix) * n + (traced * iterations if at else 0)
    return max(1, min(MOST, NUMBERS // each))


def _make(
    fun: Callable[..., Any], x: NDArray[Any], options: dict[str, Any], at: Sequence[int], points: bool
) -> dict[str, Any]:
    """Run one batch, and return its columns."""
    trace = bool(at) if options["engine"] == "eager" else options["budget"].total + 1 if at else False
    with np.errstate(all="ignore"):  # what is not finite is a status
        made = minimize(fun, x, trace=trace, **options)
    if np.any(made.status == Status.INTERRUPTED):
        raise KeyboardInterrupt  # half a batch is none
    columns = {"f": made.fun, "best": made.best.fun}
    columns |= {f"f_{look}": reached for look, reached in _reached(made.trace, at)}
    if points:
        columns |= {f"x{i}": np.asarray(made.x)[:, i] for i in range(x.shape[1])}
    columns |= {"status": made.status, **{name: made[name] for name in COUNTS}}
    return {"size": len(x), "rows": {name: narrow(np.asarray(column)) for name, column in columns.items()}}


def _reached(trace: Trace | None, at: Sequence[int]) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield the f of each row at its last iterate that took no more than so many gradients."""
    if trace is None or trace.length is None:
        return
    there = trace.k[:, None] < trace.length
    for look in at:
        last = np.maximum((there & (trace.njev <= look)).sum(axis=0) - 1, 0)
        yield look, np.take_along_axis(np.asarray(trace.f), last[None], axis=0)[0]


# --- what is given ----------------------------------------------------------------------------------------


def _chosen(
    method: str | Sequence[str],
    axes: Mapping[str, Any],
    settings: Iterable[Mapping[str, Any]] | None,
    draws: int | None,
    seed: int,
) -> list[Setting]:
    """Return the combinations to run: those of the lists, or those that are given one by one."""
    if settings is None:
        return grid(method, axes, draws, seed)
    given = [name for name in AXES if axes[name] is not None]
    if given or draws is not None:
        raise ValueError(f"settings: give either settings or {', '.join(given) or 'draws'}, not both")
    return listed(settings, method)


def _looks(at: Sequence[int], budget: Budget | None, engine: str) -> list[int]:
    """Return the counts of gradients at which f is kept, in increasing order."""
    looks = sorted(set(at))
    for look in looks:
        whole("at", look, 0)
    if looks and engine == "jax" and (budget is None or budget.total is None):
        raise ValueError(
            "at: engine='jax' sets aside room for every iterate; give a budget of gradients or iterations"
        )
    return looks


def _targets(fun: Any, starts: Any, seed: int, bounds: Any, common: Mapping[str, Any]) -> dict[str, Target]:
    named = _named(fun)
    if isinstance(starts, Mapping):
        missing = [name for name in named if name not in starts]
        if missing:
            raise ValueError(f"starts: expected an entry for every function; {missing[0]!r} has none")
    found: dict[str, Target] = {}
    for name, one in named.items():
        own: Any = getattr(one, "bounds", None)
        n: Any = getattr(one, "n", None)
        if bounds is True and own is None:
            raise ValueError(f"bounds: {name!r} has no bounds of its own")
        x = _starts(name, one, cast(Any, starts)[name] if isinstance(starts, Mapping) else starts, seed)
        if n not in (None, x.shape[1]):
            raise ValueError(f"starts: expected points of {n} numbers for {name!r}, got {x.shape[1]}")
        found[name] = Target(one, x, own if bounds is True else bounds, common)
    return found


def _named(fun: Any) -> dict[str, Callable[..., Any]]:
    if isinstance(fun, Mapping):
        pairs = [(str(name), one) for name, one in cast("Mapping[Any, Any]", fun).items()]
    else:
        many = list(cast("list[Any]", fun)) if isinstance(fun, list | tuple) else [fun]
        pairs = [(one if isinstance(one, str) else name_of(one), one) for one in many]
    if not pairs:
        raise ValueError("fun: expected at least one function, got none: the grid is empty")
    found: dict[str, Callable[..., Any]] = {}
    for name, one in pairs:
        if isinstance(one, str):
            one = functions[one_of("fun", one, functions, "see `steepen.functions`")]
        if not callable(one):
            raise TypeError(f"fun: expected callables or names of test functions, got {one!r}")
        if name in found:
            raise ValueError(f"fun: {name!r} is there twice; give a mapping from names to functions")
        found[name] = one
    return found


def name_of(fun: Any) -> str:
    """Return the name of a function, for a table."""
    return str(getattr(fun, "name", None) or getattr(fun, "__name__", None) or type(fun).__name__)


def _starts(name: str, fun: Any, starts: Any, seed: int) -> NDArray[Any]:
    if is_whole(starts):
        whole("starts", starts, 1)
        box = getattr(fun, "bounds", None)
        if box is None:
            raise ValueError(
                f"starts: expected points, since {name!r} has no bounds to draw {starts} of them in"
            )
        return draw(np.asarray(box, dtype=float), int(starts), seed)
    x = np.atleast_2d(np.asarray(starts))
    if x.ndim != 2 or not x.size or x.dtype.kind not in "fiu":
        raise ValueError(f"starts: expected points of shape (S, n), or how many to draw; got {starts!r}")
    return x if x.dtype == np.float32 else x.astype(float)


def draw(bounds: NDArray[np.float64], count: int, seed: int) -> NDArray[np.float64]:
    """Return points drawn evenly in a box."""
    return np.random.default_rng(seed).uniform(*bounds.T, size=(count, len(bounds)))


def _digest(*arrays: NDArray[Any]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _said(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
