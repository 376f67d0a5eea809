"""A driver in a few lines: it answers what a generator asks, counts, and keeps the points."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from steepen.arrays import to_numpy
from steepen.differences.accuracy import AdaptiveGradient
from steepen.differences.finite_differences import DifferenceGradient, DifferenceOptions
from steepen.questions import Point, Value, Values
from steepen.space import space_of


@dataclass
class Driver:
    """Answers by a function, and what it was asked."""

    fun: Callable[[Any], Any]
    points: list[Any] = field(default_factory=list)
    njev: int = 0
    rounds: int = 0

    @property
    def nfev(self) -> int:
        return len(self.points)

    def __call__(self, asking: Generator[Any, Any, Any]) -> Any:
        answer = None
        with np.errstate(all="ignore"):
            while True:
                try:
                    question = asking.send(answer)
                except StopIteration as stop:
                    return stop.value
                answer = self._answer(question)

    def _answer(self, question: Any) -> Any:
        self.rounds += 1
        if isinstance(question, Value):
            return self._value(question.x)
        assert isinstance(question, Values)
        self.njev += question.gradients
        values = [self._value(x) for x in question.points]
        return [f.imag for f in values] if question.imaginary else values

    def _value(self, x: Any) -> Any:
        self.points.append(np.copy(to_numpy(x)))
        f = self.fun(x)
        if np.iscomplexobj(x):
            return f
        return float(np.real(f))


def answered(asking: Generator[Any, Any, Any], fun: Callable[[Any], Any]) -> Any:
    """Return what a generator returns where `fun` answers it."""
    return Driver(fun)(asking)


def gradient_of(x0: Any, scheme: str = "2-point", bounds: Any = None, **options: Any) -> DifferenceGradient:
    """Return gradients over fixed intervals at a start."""
    given = DifferenceOptions(**{name: np.asarray(value) for name, value in options.items()})
    return DifferenceGradient(scheme, given, space_of(bounds, x0), x0, 1e-5)


def adaptive_of(x0: Any, bounds: Any = None) -> AdaptiveGradient:
    """Return gradients over intervals that follow f."""
    return AdaptiveGradient("2-point", DifferenceOptions(), space_of(bounds, x0), x0, 1e-5)


def run_at(x: Any, f: float, g: Any = None, k: int = 0, error: Any = None, **more: Any) -> Any:
    """Return what gradients read of a run that is at x."""
    read = {"f_before": np.nan, "f_start": f, "slope": -1.0, "stalled": False, "gnorm": 1.0}
    return SimpleNamespace(here=Point(x, f, g, k, error), **(read | more))


def arrived(gradients: Any, fun: Callable[[Any], Any], x: Any, **more: Any) -> Any:
    """Arrive at x; return the run there, with ∇f, and the driver that answered."""
    driver = Driver(fun)
    with np.errstate(all="ignore"):
        run = run_at(x, float(np.real(fun(x))), **more)
    g, error, run.fresh = driver(gradients.arrive(run))
    run.here = run.here._replace(g=g, error=error)
    run.gnorm = float(np.linalg.norm(to_numpy(g)))
    return run, driver
