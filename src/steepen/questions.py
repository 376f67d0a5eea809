"""What a run may ask. A run yields a question and goes on with the answer; a driver answers (see `run.py`).

A question is answered, or denied: then `Denied` is raised where it was asked. An error of the user's function
is raised at the same place.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from .status import Status

if TYPE_CHECKING:
    from .run import Run

T = TypeVar("T")

Vector: TypeAlias = Any
"""A vector of n numbers: of NumPy, or of torch, on its device."""


class Value(NamedTuple):
    """f(x)? The answer is a float.

    Examples
    --------
    >>> Value([1.0, 2.0]).x
    [1.0, 2.0]
    """

    x: Vector


class Values(NamedTuple):
    """f at each of these points, of which all are needed or none? The answer is a list of floats.

    They count as `gradients` gradients, too. At complex points (`imaginary`) the answer has imaginary parts.

    Examples
    --------
    >>> Values([[1.0, 2.0], [1.1, 2.0]]).gradients
    0
    """

    points: Sequence[Vector]
    gradients: int = 0
    imaginary: bool = False


class Gradient(NamedTuple):
    """∇f(x)? The answer is a vector, which belongs to the run.

    Examples
    --------
    >>> Gradient([1.0, 2.0]).x
    [1.0, 2.0]
    """

    x: Vector


class Product(NamedTuple):
    """H(x)·v? The answer is a vector, which belongs to the run.

    Examples
    --------
    >>> Product([1.0, 2.0], [0.0, 1.0]).v
    [0.0, 1.0]
    """

    x: Vector
    v: Vector


class Hessian(NamedTuple):
    """H(x)? The answer is a matrix, or, of SciPy, a sparse matrix or a LinearOperator.

    Examples
    --------
    >>> Hessian([1.0, 2.0]).x
    [1.0, 2.0]
    """

    x: Vector


class Iterate(NamedTuple):
    """May another iteration begin? The answer is None, or the status with which the run ends.

    Here a driver logs, calls back, saves the run: its fields are all that the iteration hands to the next.
    """

    run: Run


class Moved(NamedTuple):
    """The run has chosen its next step, and goes on to evaluate there. There is nothing to answer.

    Examples
    --------
    >>> Moved._fields
    ('run',)
    """

    run: Run


class Denied(Exception):
    """The evaluation that was asked for is not made; the status says why.

    Examples
    --------
    >>> Denied(Status.MAX_EVALUATIONS).status.name
    'MAX_EVALUATIONS'
    """

    def __init__(self, status: Status):
        super().__init__(status.name)
        self.status = status


Question: TypeAlias = Value | Values | Gradient | Product | Hessian | Iterate | Moved

Asking: TypeAlias = Generator[Question, Any, T]
"""A function that asks, and returns a T."""


class Point(NamedTuple):
    """An iterate: x, f and ∇f there (None where they are not known), the iteration, and the error of ∇f.

    Examples
    --------
    >>> Point([1.0, 2.0], 5.0).g is None
    True
    """

    x: Vector
    f: Any = None
    g: Vector = None
    k: int = 0
    error: Vector = None
    """By how much each component of ∇f may be wrong, where that is known."""
