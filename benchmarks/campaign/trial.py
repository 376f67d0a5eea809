"""One case: the run, watched, and all that the contract says of it."""

import tempfile
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

import steepen as st
from steepen import Status

from .referee import Claim, judge, norm

COUNTS = {"evals": "nfev", "grads": "njev", "iters": "nit"}


class Watched:
    """The functions of a case, counted apart from the library.

    `calls` is how many points each was asked for; `values` and `gradients` are what was given at every point,
    by its bytes (rows of one batch may differ in the last bit, so there may be several); `asked` are the
    points of f in order; `bad_value` and `bad_gradient` say whether f, or ‖∇f‖, was ever not finite.
    """

    def __init__(self, case):
        self._case, self._target = case, case.target
        self._low, self._high = np.array(case.bounds).T if case.bounds else (-np.inf, np.inf)
        self.calls = {"fun": 0, "grad": 0, "hvp": 0, "hess": 0}
        self.values, self.gradients, self.asked = {}, {}, []
        self.outside = self.bad_value = self.bad_gradient = False

    @np.errstate(all="ignore")
    def fun(self, x):
        self._note("fun", x)
        self.asked.append(_key(x))
        f = self._target.fun(x)
        self.bad_value |= not np.isfinite(f).all()
        for point, value in zip(np.atleast_2d(x), np.atleast_1d(f), strict=True):
            self.values.setdefault(_key(point), set()).add(value.item())
        return f

    @np.errstate(all="ignore")
    def grad(self, x):
        self._note("grad", x)
        g = self._target.grad(x)
        top = np.abs(g).max(axis=-1, keepdims=True)
        size = top[..., 0] * np.linalg.norm(g / np.where(top > 0, top, 1), axis=-1)
        self.bad_gradient |= not np.isfinite(size.astype(g.dtype)).all()
        for point, slope in zip(np.atleast_2d(x), np.atleast_2d(g), strict=True):
            self.gradients.setdefault(_key(point), set()).add(tuple(slope.tolist()))
        return g

    @np.errstate(all="ignore")
    def hvp(self, x, v):
        self._note("hvp", x)
        return self._target.second.hvp(x, v)

    @np.errstate(all="ignore")
    def hess(self, x):
        self._note("hess", x)
        return self._target.second.hess(x)

    def functions(self):
        """Return `fun` and `jac` as the case wants them."""
        match self._case.derivatives:
            case "2-point" | "3-point":
                return {"fun": self.fun}
            case "pair":
                return {"fun": lambda x: (self.fun(x), self.grad(x)), "jac": True}
            case "own" if self._target.second is not None:
                return {"fun": Own(self)}
        return {"fun": self.fun, "jac": self.grad}

    def gave(self, x, f):
        """Say whether f is a value that was given at x, as it was or in the precision of x."""
        given = np.array([*self.values.get(_key(x), ())])
        given = np.concatenate([given, given.astype(x.dtype)])
        return bool((given == f).any() or (f != f and np.isnan(given).any()))

    def _note(self, name, x):
        self.calls[name] += 1 if x.ndim == 1 else len(x)
        self.outside |= bool(((x.real < self._low) | (x.real > self._high)).any())


def _key(x):
    """Return what names a point; some are of float64 in a float32 run, some are complex, and −0 is 0."""
    return (x.astype(complex) + 0.0).tobytes()


class Own(SimpleNamespace):
    """A function that brings its derivatives along, as `steepen.functions` do."""

    def __init__(self, watched):
        super().__init__(fun=watched.fun, grad=watched.grad, hvp=watched.hvp, hess=watched.hess)

    def __call__(self, x):
        return self.fun(x)


class Fault(NamedTuple):
    """A broken promise: faults of one kind at one place are one group."""

    kind: str
    place: str
    detail: str = ""


@dataclass
class Outcome:
    """Every row's status; the referee's word where it claims success; the faults of the run.

    `missed` is the status of every row that is called a failure, though f is as low as its digits let it be.
    """

    statuses: list[str] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def run(case):
    """Run a case and hold it to the contract. Where it warns, run it again without a word, for the rest."""
    outcome = Outcome()
    for action in ("error", "ignore"):
        watched = Watched(case)
        try:
            with warnings.catch_warnings(action=action):
                result = st.minimize(x0=case.x0.copy(), trace="x", **watched.functions(), **case.settings())
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


def _place(error):
    frames = traceback.extract_tb(error.__traceback__)
    last = ([frame for frame in frames if "/steepen/" in frame.filename] or frames)[-1]
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno} in {last.name}: {last.line}"


def _verdict(case, row):
    """Return the referee's word; a small step is seen from the trace, and is what the user asked for."""
    f, x, given = row.trace.f, row.trace.x.astype(float), dict(case.more)
    if row.status is Status.FTOL:
        small = 0 <= f[-2] - f[-1] <= given["ftol"] * max(abs(f[-2]), abs(f[-1]), 1.0)
        return "right" if small else "false: the last step lowered f by more than ftol"
    if row.status is Status.XTOL:
        rounding = 4 * float(np.finfo(row.x.dtype).eps) * norm(x[-1])
        small = norm(x[-1] - x[-2]) <= given["xtol"] * max(norm(x[-1]), 1.0) + rounding
        return "right" if small else "false: the last step moved x by more than xtol"
    gtol = case.tolerance if row.status is Status.CONVERGED else None
    return judge(case, Claim(row.x, float(row.fun), row.jac, gtol))


def _resumed(case, watched, whole):
    """Cut the run, resume it from its checkpoint, and compare it with the uncut run.

    A run goes on from before the first thing that its limit left out (docs/decisions.md). A limit on values
    or gradients may have left out a measurement far back; one on iterations leaves nothing out on the way.
    """
    kind, part = case.cut
    first, most = 0 if kind == "iters" else 1, int(getattr(whole, COUNTS[kind]))
    if most <= first:
        return []
    limits = case.limits | {kind: first + int(part * (most - first))}
    before, after = Watched(case), Watched(case)
    with tempfile.TemporaryDirectory() as folder:
        given = case.settings() | {"checkpoint": Path(folder) / "run", "trace": "x", "x0": case.x0.copy()}
        try:
            cut = st.minimize(**before.functions(), **given | {"budget": st.Budget(**limits)})
            end = st.minimize(**after.functions(), **given)
        except Exception as error:
            return [Fault("exception", _place(error), str(error))]
    faults, at = [], f"cut at {limits}"
    if cut.nfev != before.calls["fun"] or getattr(cut, COUNTS[kind]) > limits[kind]:
        faults.append(Fault("count", "of the cut run", at))
    if any(getattr(end, name) != getattr(whole, name) for name in ("nfev", "njev", "nhvp", "nhev", "nit")):
        faults.append(Fault("resumed", "its counts are not those of the uncut run", at))
    pairs = [(getattr(end, name), getattr(whole, name)) for name in ("x", "fun", "jac", "status")]
    pairs += [(end.trace.f, whole.trace.f), (end.trace.x, whole.trace.x)]
    if any(np.asarray(a).tobytes() != np.asarray(b).tobytes() for a, b in pairs):
        faults.append(Fault("resumed", "its bits are not those of the uncut run", at))
    elif after.asked != watched.asked[len(watched.asked) - len(after.asked) :]:
        faults.append(Fault("resumed", "it asks for other values than the uncut run", at))
    elif kind == "iters" and cut.nit > 1 and len(after.asked) > whole.nfev - whole.trace.nfev[cut.nit - 2]:
        faults.append(Fault("resumed", "it repeats more than two iterations", at))
    return faults


def _counts(case, watched, rows):
    """Compare the counts with our own, and with the budget."""
    faults = []
    for name, counter in (("fun", "nfev"), ("grad", "njev"), ("hvp", "nhvp"), ("hess", "nhev")):
        wrong = sum(int(getattr(row, counter)) for row in rows) - watched.calls[name]
        if wrong and not (name == "grad" and case.differences):  # made of values, which are counted
            faults.append(Fault("count", f"{name}: says too {'many' if wrong > 0 else 'few'}"))
    for limit, counter in COUNTS.items():
        if limit in case.limits and any(getattr(row, counter) > case.limits[limit] for row in rows):
            faults.append(Fault("overrun", limit))
    if watched.outside:
        faults.append(Fault("bounds", "fun was asked outside of them"))
    return faults


def _row(case, watched, row):
    faults: list[Fault] = []

    def hold(good, kind, place):
        if not good:
            faults.append(Fault(kind, f"{place} ({row.status.name})"))

    fun, best, trace, status = float(row.fun), row.best, row.trace, row.status
    sides = [(-np.inf, np.inf)] * case.target.n if case.bounds is None else case.bounds
    low, high = np.array(sides).T
    hold(((row.x >= low) & (row.x <= high)).all() or not case.bounds, "bounds", "x is outside")
    hold(watched.gave(row.x, fun), "value", "fun is not f(x)")
    if not case.differences and np.isfinite(row.jac).all():  # NaN: it was not evaluated there
        given = watched.gradients.get(_key(row.x), ())
        hold(tuple(row.jac.tolist()) in given, "value", "jac is not ∇f(x)")
    hold(row.success is status.success, "status", "success is not that of the status")
    if np.isfinite(best.fun):
        hold(np.isfinite(row.x).all(), "finite", "x is not finite")
        hold(np.isfinite(fun), "finite", "f is not finite")
        hold(best.fun <= fun, "best", "best is above fun")
        hold(watched.gave(best.x, best.fun), "best", "fun is not f(x)")
    values = trace.f[np.isfinite(trace.f)]
    hold(len(trace) == row.nit + 1, "trace", "its length is not nit + 1")
    hold(not len(values) or best.fun <= values.min(), "best", "best is above the trace")
    for name in ("nfev", "njev", "nhvp"):
        column = getattr(trace, name)
        hold((np.diff(column) >= 0).all() and column[-1] <= getattr(row, name), "trace", f"{name} falls")
    if status is Status.NONFINITE_VALUE:
        hold(watched.bad_value, "status", "f was finite at every point")
    if status is Status.NONFINITE_GRADIENT and not case.differences:
        hold(watched.bad_gradient, "status", "∇f was finite at every point")
    if status is Status.MAX_ITERATIONS:
        hold(row.nit == case.limits["iters"], "status", "iterations were left")
    if row.success:
        hold(np.isfinite(fun), "false success", "f is not finite")
        # of variables that cannot move differences know no derivative; after a small step ∇f may not be known
        free = np.isfinite(row.jac[low < high]).all() or status in (Status.FTOL, Status.XTOL)
        hold(free, "false success", "∇f is not finite")
    return faults
