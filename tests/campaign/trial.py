"""One case: the run, and all that the contract says of it."""

from __future__ import annotations

import tempfile
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import steepen as st
from steepen import Status

from .cases import Case
from .referee import Claim, judge, norm
from .watched import Watched, functions_of

COUNTS = {"evals": "nfev", "grads": "njev", "iters": "nit"}


class Fault(NamedTuple):
    """A broken promise: faults of one kind at one place are one group."""

    kind: str
    place: str
    detail: str = ""


@dataclass
class Outcome:
    """What came of a case.

    Attributes
    ----------
    statuses : the status of every row
    verdicts : the referee's word on every row that claims success
    missed : the status of every row that is called a failure, though f is as low as its digits let it be
    faults : everything that breaks the contract
    """

    statuses: list[str] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def run(case: Case) -> Outcome:
    """Run a case and hold it to the contract. Where it warns, run it again without a word, for the rest."""
    outcome = Outcome()
    for action in ("error", "ignore"):
        watched = Watched(case)
        try:
            with warnings.catch_warnings(action=action):
                result = st.minimize(
                    x0=case.x0.copy(), trace="x", **functions_of(case, watched), **case.settings()
                )
            break
        except Warning as warning:
            outcome.faults.append(Fault("warning", _place(warning), str(warning)))
        except Exception as error:
            outcome.faults.append(Fault("exception", _place(error), str(error)))
            return outcome
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        rows = [result.row(b) for b in range(len(case.x0))] if case.batch else [result]
        outcome.faults += _counts(case, watched, rows)
        for row in rows:
            outcome.statuses.append(row.status.name)
            outcome.faults += _row(case, watched, row)
            if row.success:
                verdict = _verdict(case, row)
                outcome.verdicts.append(verdict)
                if verdict.startswith("false"):
                    outcome.faults.append(Fault("false success", row.status.name, verdict))
            elif case.few_digits and row.status > Status.MAX_SECONDS:
                verdict = judge(case, Claim(row.x, float(row.fun), row.jac, None))
                outcome.missed += [row.status.name] if verdict == "right" else []
        if case.cut is not None:
            outcome.faults += _resumed(case, watched, result)
    return outcome


def _verdict(case: Case, row: Any) -> str:
    """Return the referee's word; a small step is seen from the trace, and is what the user asked for."""
    f, x, given = row.trace.f, row.trace.x.astype(float), dict(case.more)
    if row.status is Status.SMALL_DECREASE:
        small = 0 <= f[-2] - f[-1] <= given["ftol"] * max(abs(f[-2]), abs(f[-1]), 1.0)
        return "right" if small else "false: the last step lowered f by more than ftol"
    if row.status is Status.SMALL_MOVE:
        rounding = 4 * float(np.finfo(row.x.dtype).eps) * norm(x[-1])
        small = norm(x[-1] - x[-2]) <= given["xtol"] * max(norm(x[-1]), 1.0) + rounding
        return "right" if small else "false: the last step moved x by more than xtol"
    gtol = case.tolerance if row.status is Status.CONVERGED else None
    return judge(case, Claim(row.x, float(row.fun), row.jac, gtol))


def _resumed(case: Case, watched: Watched, whole: Any) -> list[Fault]:
    """Cut the run, resume it from its checkpoint, and compare it with the uncut run."""
    assert case.cut is not None
    kind, part = case.cut
    first = 0 if kind == "iters" else 1
    most = int(getattr(whole, COUNTS[kind]))
    if most <= first:
        return []
    limits = case.limits | {kind: first + int(part * (most - first))}
    before, after = Watched(case), Watched(case)
    with tempfile.TemporaryDirectory() as folder:
        given = case.settings() | {"checkpoint": Path(folder) / "run", "trace": "x", "x0": case.x0.copy()}
        try:
            cut = st.minimize(**functions_of(case, before), **(given | {"budget": st.Budget(**limits)}))
            end = st.minimize(**functions_of(case, after), **given)
        except Exception as error:
            return [Fault("exception", _place(error), str(error))]
    faults: list[Fault] = []
    if cut.nfev != before.calls["fun"] or getattr(cut, COUNTS[kind]) > limits[kind]:
        faults.append(Fault("count", "of the cut run", f"cut at {limits}"))
    counts = [(getattr(end, name), getattr(whole, name)) for name in ("nfev", "njev", "nhvp", "nhev", "nit")]
    if any(a != b for a, b in counts):
        faults.append(Fault("resumed", "its counts are not those of the uncut run", f"cut at {limits}"))
    pairs = [(getattr(end, name), getattr(whole, name)) for name in ("x", "fun", "jac", "status")]
    pairs += [(end.trace.f, whole.trace.f), (end.trace.x, whole.trace.x)]
    if any(np.asarray(a).tobytes() != np.asarray(b).tobytes() for a, b in pairs):
        faults.append(Fault("resumed", "its bits are not those of the uncut run", f"cut at {limits}"))
    elif after.asked != watched.asked[len(watched.asked) - len(after.asked) :]:
        faults.append(Fault("resumed", "it asks for other values than the uncut run", f"cut at {limits}"))
    elif cut.nit > 1 and len(after.asked) > whole.nfev - whole.trace.nfev[cut.nit - 2]:
        faults.append(Fault("resumed", "it repeats more than two iterations", f"cut at {limits}"))
    return faults


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/steepen/" in frame.filename]
    last = (ours or frames)[-1]
    name = last.filename.rsplit("/", 1)[-1]
    return f"{type(error).__name__} at {name}:{last.lineno} in {last.name}: {last.line}"


def _counts(case: Case, watched: Watched, rows: list[Any]) -> list[Fault]:
    """Compare the counts with our own, and with the budget."""
    made, faults = dict(watched.calls), []
    claimed = {
        name: sum(int(getattr(row, field)) for row in rows)
        for name, field in (("fun", "nfev"), ("grad", "njev"), ("hvp", "nhvp"), ("hess", "nhev"))
    }
    if case.differences:
        made["grad"] = claimed["grad"]  # they are made of values, which are counted
    for name, number in made.items():
        if number != claimed[name]:
            faults.append(Fault("count", f"{name}: says {_sign(claimed[name] - number)}"))
    for limit, counter in COUNTS.items():
        if limit in case.limits and any(getattr(row, counter) > case.limits[limit] for row in rows):
            faults.append(Fault("overrun", limit))
    if watched.outside:
        faults.append(Fault("bounds", "fun was asked outside of them"))
    return faults


def _sign(difference: int) -> str:
    return "too many" if difference > 0 else "too few"


def _free(case: Case) -> Any:
    """Return which variables can move: of the others, differences know no derivative."""
    low, high = np.array(case.bounds).T if case.bounds else (-np.ones(case.target.n), np.ones(case.target.n))
    return low < high


def _row(case: Case, watched: Watched, row: Any) -> list[Fault]:
    faults: list[Fault] = []

    def hold(good: Any, kind: str, place: str) -> None:
        if not good:
            faults.append(Fault(kind, f"{place} ({row.status.name})"))

    fun, best = float(row.fun), row.best
    hold(watched.gave(row.x, fun), "value", "fun is not f(x)")
    if not case.differences and np.isfinite(row.jac).all():  # NaN: it was not evaluated there
        hold(watched.gave_gradient(row.x, row.jac), "value", "jac is not ∇f(x)")
    hold(row.success is row.status.success, "status", "success is not that of the status")
    hold(np.isfinite(row.x).all() or not np.isfinite(best.fun), "finite", "x is not finite")
    hold(np.isfinite(fun) or not np.isfinite(best.fun), "finite", "f is not finite")
    if np.isfinite(best.fun):
        hold(best.fun <= fun, "best", "best is above fun")
        hold(watched.gave(best.x, best.fun), "best", "fun is not f(x)")
    trace = row.trace
    values = trace.f[np.isfinite(trace.f)]
    hold(len(trace) == row.nit + 1, "trace", "its length is not nit + 1")
    hold(not len(values) or best.fun <= values.min(), "best", "best is above the trace")
    for name in ("nfev", "njev", "nhvp"):
        column = getattr(trace, name)
        hold((np.diff(column) >= 0).all() and column[-1] <= getattr(row, name), "trace", f"{name} falls")
    status = row.status
    if status is Status.NONFINITE_VALUE:
        hold(watched.bad_value, "status", "f was finite at every point")
    if status is Status.NONFINITE_GRADIENT and not case.differences:
        hold(watched.bad_gradient, "status", "∇f was finite at every point")
    if status is Status.MAX_ITERATIONS:
        hold(row.nit == case.limits["iters"], "status", "iterations were left")
    if row.success:
        hold(np.isfinite(fun), "false success", "f is not finite")
    if row.success and not status.name.startswith("SMALL"):  # there ∇f may not be known
        hold(np.isfinite(row.jac[_free(case)]).all(), "false success", "∇f is not finite")
    if case.bounds:
        low, high = np.array(case.bounds).T
        hold(((row.x >= low) & (row.x <= high)).all(), "bounds", "x is outside")
    return faults
