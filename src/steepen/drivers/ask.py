"""What a run that is told asks its user, and what it knows of the answer so far."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, cast

from numpy.typing import NDArray

from ..questions import Gradient, Hessian, Product, Value, Values, Vector

WANTED = {Value: "value", Values: "value", Gradient: "gradient", Product: "product", Hessian: "hessian"}


class Ask:
    """Points where a run waits for an answer; empty, and false, when the run has ended.

    Attributes
    ----------
    ids : a name for each point, to tell its answer by itself; it can be the name of a file
    points : the points, of shape (k, n)
    wanted : what is wanted at each: "value" (f), "both" (f and ∇f), "gradient", "product" (H·v) or "hessian"
    vectors : where products are wanted, v for each point; else None

    Examples
    --------
    >>> import steepen as st
    >>> run = st.Run([1.0, 2.0], jac=True)
    >>> ask = run.ask()
    >>> ask.points, ask.wanted, len(ask.ids)
    (array([[1., 2.]]), 'both', 1)
    """

    __slots__ = ("_ids", "points", "vectors", "wanted")

    def __init__(
        self,
        ids: tuple[str, ...] | Callable[[], tuple[str, ...]],
        points: NDArray[Any],
        wanted: str,
        vectors: NDArray[Any] | None = None,
    ):
        self._ids, self.points, self.wanted, self.vectors = ids, points, wanted, vectors

    @property
    def ids(self) -> tuple[str, ...]:
        """A name for each point."""
        if callable(self._ids):  # they are made when first read: few loops need them
            self._ids = self._ids()
        return self._ids

    def __len__(self) -> int:
        return len(self.points)

    def __reduce__(self) -> Any:
        return Ask, (self.ids, self.points, self.wanted, self.vectors)

    def __repr__(self) -> str:
        return f"Ask(ids={self.ids}, points={self.points!r}, wanted={self.wanted!r})"


class Waiting:
    """A question that waits for the user, and what is known of its answer."""

    __slots__ = ("_first", "_ids", "_places", "_token", "ask", "asked", "known", "points", "wanted")

    def __init__(self, ask: Any, both: bool, first: int, token: int):
        kind = cast("type[Any]", type(ask))
        self.ask = ask
        self.points: Sequence[Vector] = ask.points if kind is Values else (ask.x,)
        self.wanted = "both" if both and kind in (Value, Gradient) else WANTED[kind]
        self.known: dict[int, Any] = {}
        """The answers to a part of the question, by the place of the point."""
        self.asked: Ask | None = None
        """The last ask, if it has all points, none of which was told."""
        self._first, self._token = first, token
        self._ids: tuple[str, ...] = ()
        self._places: dict[str, int] = {}

    @property
    def imaginary(self) -> bool:
        """Whether f is wanted at complex points, for its imaginary part."""
        return type(self.ask) is Values and self.ask.imaginary

    @property
    def complete(self) -> bool:
        """Whether all is known."""
        return len(self.known) == len(self.points)

    def answer(self) -> Any:
        """Return the answer, of which all is known."""
        known = self.known
        return [known[place] for place in range(len(known))] if type(self.ask) is Values else known[0]

    def open(self, most: int | None) -> list[int]:
        """Return the places of the points that are not known, or of the first few."""
        return [place for place in range(len(self.points)) if place not in self.known][:most]

    # --- ids -------------------------------------------------------------------------------------------

    def ids(self) -> tuple[str, ...]:
        """Return the ids of the points: a running number, and a checksum of the run and of the point."""
        if not self._ids:
            start = zlib.crc32(type(self.ask).__name__.encode(), self._token)
            sums = (zlib.crc32(point.tobytes(), start) for point in self.points)
            self._ids = tuple(f"{number}-{checksum:08x}" for number, checksum in enumerate(sums, self._first))
            self._places = {name: place for place, name in enumerate(self._ids)}
        return self._ids

    def places(self, argument: str, ids: Sequence[str]) -> list[int]:
        """Return the places of the points with these ids; raise if one of them does not wait."""
        expected = self.ids()
        for name in ids:
            place = self._places.get(name)
            if place in self.known:
                raise ValueError(f"{argument}: {name!r} was told already")
            if place is None:
                few = ", ".join(expected[place] for place in self.open(4))
                more = ", …" if len(expected) > 4 else ""
                why = "it was told already, or belongs to another run"
                raise ValueError(
                    f"{argument}: {name!r} does not wait for an answer: {why}; expected {few}{more}"
                )
        return [self._places[name] for name in ids]
