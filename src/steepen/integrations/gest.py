"""For hosts of the gest-api standard, such as Xopt and libEnsemble: runs that suggest points and are told."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from .._call.keywords import RunSettings
from .._call.told import Run
from .._tools.check import floats, is_whole, whole
from .._tools.optional import load
from ..methods import Method

__all__ = ["CGDGenerator"]

_vocs = load("gest_api.vocs", "steepen.integrations.gest", extra="gest")
Generator: Any = load("gest_api.generator", "steepen.integrations.gest", extra="gest").Generator

ROUNDED = 1e-5
"""A point this close to a suggested one, relatively in each variable, is that one less some digits."""


class CGDGenerator(Generator):
    """A generator of the gest-api standard: a host evaluates the points, wherever it likes.

    The first run begins at `x0`. Many of its points are those of a difference, which the host can evaluate
    side by side. Where a host wants more points than the runs wait for, or they have ended, a further run
    begins at a point drawn in the domain. So `suggest(num_points)` always returns as many;
    `suggest(None)` returns those that the runs wait for, and none when they have ended.

    Parameters
    ----------
    vocs : gest_api.vocs.VOCS
        One objective, to be minimised or maximised, and continuous variables; constraints are refused.
        Constants are part of every point, observables are ignored.
    x0 : array, or mapping from names to numbers, optional
        The start; by default the default values of the variables, or else the middle of their domains.
    method : str or Method
        As in `steepen.minimize`.
    seed : int
        The seed of the drawn starts.
    jac : "2-point" or "3-point", optional
        How gradients are made of values; see `steepen.minimize`.
    x_scale : array or "auto"
        Typical magnitudes of the variables; "auto", the default here, are the widths of the domains.
    **settings
        The settings of each run, as in `steepen.minimize`, such as `gtol` or `budget`.

    Attributes
    ----------
    runs : list of `steepen.Run`, in the order in which they began; for an objective that is maximised, of −f

    Examples
    --------
    >>> from gest_api.vocs import VOCS
    >>> from steepen.integrations.gest import CGDGenerator
    >>> vocs = VOCS(variables={"a": [-10, 10], "b": [-10, 10]}, objectives={"f": "MINIMIZE"})
    >>> generator = CGDGenerator(vocs)
    >>> while points := generator.suggest(None):
    ...     found = [(x["a"] + 2 * x["b"] - 7) ** 2 + (2 * x["a"] + x["b"] - 5) ** 2 for x in points]
    ...     generator.ingest([{**x, "f": f} for x, f in zip(points, found)])
    >>> generator.runs[0].result().x.round(4).tolist()
    [1.0, 3.0]
    """

    returns_id = True

    def __init__(
        self, vocs: Any, x0: Mapping[str, float] | Sequence[float] | NDArray[Any] | None = None,
        method: str | Method = "cgd-auto", *, seed: int = 0, jac: str | None = None, x_scale: Any = "auto",
        **settings: Unpack[RunSettings],
    ):  # fmt: skip
        Generator.__init__(self, vocs)
        whole("seed", seed, 0)
        if jac not in (None, "2-point", "3-point"):
            raise ValueError(f"jac: expected '2-point' or '3-point', since a host tells values; got {jac!r}")
        self.vocs, self.runs = vocs, list[Run]()
        self._names, self._box = list(vocs.variable_names), np.array(vocs.bounds, dtype=float)
        ((self._objective, goal),) = vocs.objectives.items()
        self._sign = -1.0 if isinstance(goal, _vocs.MaximizeObjective) else 1.0
        self._settings: dict[str, Any] = {
            "method": method, "jac": jac, "x_scale": x_scale, "bounds": self._box.tolist(), **settings
        }  # fmt: skip
        self._draws = np.random.default_rng(seed)
        self._suggested: dict[int, tuple[int, str]] = {}
        """By the id of a point that was suggested: the number of its run, and its id there."""
        self._points: dict[bytes, float] = {}
        """All points that were suggested or told; f where no run had asked for them."""
        self._begin(self._start(x0))

    def _validate_vocs(self, vocs: Any) -> None:
        """Raise ValueError where this is no problem for a method that descends."""
        if vocs.constraints:
            names = ", ".join(map(repr, vocs.constraints))
            raise ValueError(f"vocs: expected no constraints but the domains of the variables; got {names}")
        goals = {name: type(one).__name__ for name, one in vocs.objectives.items()}
        known = (_vocs.MinimizeObjective, _vocs.MaximizeObjective)
        if len(goals) != 1 or not isinstance(next(iter(vocs.objectives.values())), known):
            raise ValueError(f"vocs: expected one objective, MINIMIZE or MAXIMIZE; got {goals or 'none'}")
        if not vocs.variables:
            raise ValueError("vocs: expected variables; got none")
        for name, one in vocs.variables.items():
            if type(one) is not _vocs.ContinuousVariable or isinstance(one.dtype, tuple):
                raise ValueError(
                    f"vocs: expected continuous variables, one number each; got {name!r}, {one!r}"
                )

    def _start(self, x0: Any) -> NDArray[np.float64]:
        """Return the start of the first run."""
        if x0 is None:
            chosen = [self.vocs.variables[name].default_value for name in self._names]
            return np.array(
                [_middle(*ends) if one is None else one for one, ends in zip(chosen, self._box, strict=True)]
            )
        if isinstance(x0, Mapping):
            named = cast("Mapping[str, float]", x0)
            if set(named) != set(self._names):
                raise ValueError(f"x0: expected a number for each of {self._names}, got {sorted(named)}")
            x0 = [named[name] for name in self._names]
        start = floats("x0", x0, f"{len(self._names)} numbers")
        if start.shape != (len(self._names),):
            raise ValueError(f"x0: expected {len(self._names)} numbers, got shape {start.shape}")
        return start

    def _begin(self, x0: NDArray[np.float64]) -> Run:
        """Begin a run; it is told what is known from before."""
        run = Run(x0, **self._settings)
        self.runs.append(run)
        known = {at: f for at, f in self._points.items() if not math.isnan(f)}
        if known:
            run.tell(x=np.frombuffer(b"".join(known)).reshape(-1, len(x0)), f=list(known.values()))
        return run

    # --- the standard ----------------------------------------------------------------------------------

    def suggest(self, num_points: int | None) -> list[dict[str, Any]]:
        """Return points to be evaluated next, with the constants and an id; none is returned twice.

        Without a number, these are all that the runs wait for; where all of them were suggested already,
        those that were not told yet, once more.
        """
        if num_points is not None and not (is_whole(num_points) and num_points >= 0):
            raise ValueError(f"num_points: expected a whole number or None, got {num_points!r}")
        taken = set(self._suggested.values())
        waiting = self._waiting()
        fresh = [one for one in waiting if one[0] not in taken]
        if num_points is None:
            return [self._suggestion(*one) for one in fresh] or self._again(waiting)
        if len(fresh) < num_points and not np.isfinite(self._box).all():
            raise ValueError(
                f"num_points: {len(fresh)} points wait, and no further start can be drawn, since not all "
                f"domains are finite; got {num_points}"
            )
        while len(fresh) < num_points:
            low, high = self._box[:, 0], self._box[:, 1]
            run = self._begin(self._draws.uniform(low, high))
            if not run.ask():
                raise ValueError(f"num_points: a run in this budget has no points; got {num_points}")
            fresh += self._waiting_of(len(self.runs) - 1, run)
        return [self._suggestion(*one) for one in fresh[:num_points]]

    def ingest(self, results: list[dict[str, Any]]) -> None:
        """Take evaluated points; where the objective is missing, None or NaN, the evaluation failed.

        Points without an id were evaluated before: a run takes those that it asks for exactly.
        """
        waiting = {one[0] for one in self._waiting()}
        told, known = dict[tuple[int, str], float](), dict[bytes, float]()
        for place, one in enumerate(results):
            f, number = self._value(place, one), one.get("_id")
            if number is None or number != number:
                known[self._point(place, one).tobytes()] = f
                continue
            where = self._suggested.get(number)
            if where is None:
                raise ValueError(f"results: the _id of entry {place} is unknown; got {number!r}")
            if where not in waiting or where in told:
                raise ValueError(f"results: entry {place}, with _id {number!r}, was told already")
            told[where] = f
        for (index, name), f in told.items():
            self.runs[index].tell(name, f)
        for at, f in known.items():
            self._points[at] = f
            for run in self.runs:
                if run.ask():
                    run.tell(x=np.frombuffer(at), f=f)

    def finalize(self) -> None:
        """Do nothing: there is no process and no file to be closed."""

    # --- points ----------------------------------------------------------------------------------------

    def _waiting(self) -> list[tuple[tuple[int, str], NDArray[np.float64]]]:
        """Return the points that the runs wait for: each by the number of its run and its id there."""
        return [one for index, run in enumerate(self.runs) for one in self._waiting_of(index, run)]

    def _waiting_of(self, index: int, run: Run) -> list[tuple[tuple[int, str], NDArray[np.float64]]]:
        ask = run.ask()
        return [((index, name), x) for name, x in zip(ask.ids, ask.points, strict=True)]

    def _suggestion(self, where: tuple[int, str], x: NDArray[np.float64]) -> dict[str, Any]:
        """Return a point as a host gets it, under a new id."""
        number = len(self._suggested)
        self._suggested[number] = where
        self._points.setdefault(x.tobytes(), math.nan)
        return self._named(number, x)

    def _again(self, waiting: list[Any]) -> list[dict[str, Any]]:
        """Return points that were suggested and not told yet."""
        numbers = {where: number for number, where in self._suggested.items()}
        return [self._named(numbers[where], x) for where, x in waiting]

    def _named(self, number: int, x: NDArray[np.float64]) -> dict[str, Any]:
        constants = {name: one.value for name, one in self.vocs.constants.items()}
        return {**dict(zip(self._names, x.tolist(), strict=True)), **constants, "_id": number}

    def _value(self, place: int, one: Any) -> float:
        """Return what is minimised at an entry of the results; NaN where its evaluation failed."""
        if not isinstance(one, Mapping) or not ("_id" in one or self._objective in one):
            raise ValueError(f"results: expected {self._objective!r} in each entry; entry {place} is {one!r}")
        f = cast("Mapping[str, Any]", one).get(self._objective)
        if f is None:
            return math.nan
        try:
            return self._sign * float(f)
        except (TypeError, ValueError) as error:
            raise ValueError(f"results: expected a number in entry {place}, got {f!r}") from error

    def _point(self, place: int, one: Mapping[str, Any]) -> NDArray[np.float64]:
        """Return the point of an entry without an id; raise if it seems to be a suggested one, rounded."""
        missing = [name for name in self._names if name not in one]
        if missing:
            raise ValueError(f"results: entry {place} has neither _id nor {missing[0]!r}; got {one!r}")
        x = floats(f"results: entry {place}", [one[name] for name in self._names], "numbers")
        if x.tobytes() not in self._points:
            taken = set(self._suggested.values())
            out = [y for where, y in self._waiting() if where in taken]
            near = [y for y in out if np.allclose(x, y, rtol=ROUNDED, atol=0.0)]
            if near:
                raise ValueError(
                    f"results: entry {place} has no _id, and its point is a suggested one less some digits: "
                    f"{x.tolist()}, not {near[0].tolist()}; pass the _id on, or the point as it was"
                )
        return x


def _middle(low: float, high: float) -> float:
    """Return the middle of a domain, or the point next to 0 of one that is not finite."""
    return (low + high) / 2 if math.isfinite(high - low) else min(max(0.0, low), high)
