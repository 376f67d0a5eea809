"""One case: the run, and all that the contract says of it."""

from __future__ import annotations

import traceback
import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import steepen as st
from steepen import Status

from .cases import Case
from .referee import Claim, judge
from .watched import Watched, functions_of


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
    faults : everything that breaks the contract
    """

    statuses: list[str] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def run(case: Case) -> Outcome:
    """Run a case and hold it to the contract."""
    watched, outcome = Watched(case), Outcome()
    try:
        with warnings.catch_warnings(action="error"):
            result = st.minimize(x0=case.x0.copy(), **functions_of(case, watched), **case.settings())
    except Exception as error:
        kind = "warning" if isinstance(error, Warning) else "exception"
        outcome.faults.append(Fault(kind, f"{type(error).__name__} at {_place(error)}", str(error)))
        return outcome
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        rows = [result.row(b) for b in range(len(case.x0))] if case.batch else [result]
        outcome.faults += _counts(case, watched, rows)
        for row in rows:
            outcome.statuses.append(row.status.name)
            outcome.faults += _row(case, watched, row)
            if row.success:
                verdict = judge(case, claim_of(case, row))
                outcome.verdicts.append(verdict)
                if verdict.startswith("false"):
                    outcome.faults.append(Fault("false success", row.status.name, verdict))
    return outcome


def claim_of(case: Case, row: Any) -> Claim:
    """Return what a successful row of ours claims."""
    gtol = case.tolerance if row.status is Status.CONVERGED else None
    return Claim(row.x, float(row.fun), gtol)


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "steepen" in f.filename and "campaign" not in f.filename.split("/")[-2:]]
    last = (ours or frames)[-1]
    return f"{last.filename.rsplit('/', 1)[-1]}:{last.lineno} in {last.name}: {last.line}"


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
    for limit, counter in (("evals", "nfev"), ("grads", "njev"), ("iters", "nit")):
        if limit in case.limits and any(getattr(row, counter) > case.limits[limit] for row in rows):
            faults.append(Fault("overrun", limit))
    if watched.outside:
        faults.append(Fault("bounds", "fun was asked outside of them"))
    return faults


def _sign(difference: int) -> str:
    return "too many" if difference > 0 else "too few"


def _row(case: Case, watched: Watched, row: Any) -> list[Fault]:
    faults: list[Fault] = []

    def hold(good: Any, kind: str, place: str) -> None:
        if not good:
            faults.append(Fault(kind, f"{place} ({row.status.name})"))

    fun, best = float(row.fun), row.best
    hold(watched.gave(row.x, fun), "value", "fun is not f(x)")
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
        hold(np.isfinite(fun) and np.isfinite(row.jac).all(), "false success", "f or ∇f is not finite")
    if case.bounds:
        low, high = np.array(case.bounds).T
        hold(((row.x >= low) & (row.x <= high)).all(), "bounds", "x is outside")
    return faults
