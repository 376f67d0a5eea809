"""When to turn the penalty off; from then on the run is steepest descent.

The drivers call a switch after every step: it uses the results of that step and never evaluates f. Switches
combine with `|`; the listing of CGD-FD has `After(b) | FirstGuard()`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ._tools.check import number, whole
from .arrays import Mask, Scalar

__all__ = ["After", "AnyOf", "FirstGuard", "GoodDrop", "Never", "SmallImprovement", "Switch"]


class Switch:
    """Base of all switches.

    Examples
    --------
    >>> After(3) | FirstGuard()
    AnyOf(parts=(After(b=3), FirstGuard()))
    """

    def off(self, k: int, guarded: Mask, before: Scalar, after: Scalar, first: Scalar) -> Mask:
        """Return whether the penalty is turned off after step k.

        `guarded` says whether the guard fired; `first` is f at the start of the run.
        """
        raise NotImplementedError

    def __or__(self, other: Switch) -> AnyOf:
        return AnyOf((self, other))


@dataclass(frozen=True)
class Never(Switch):
    """Keep the penalty for the whole run, as the listings of CGD and CGD-QN do.

    Examples
    --------
    >>> Never().off(100, True, before=1.0, after=1.0, first=1.0)
    False
    """

    def off(self, k: int, guarded: Mask, before: Scalar, after: Scalar, first: Scalar) -> Mask:
        return False


@dataclass(frozen=True)
class After(Switch):
    """Off once k ≥ b, tested after the step: the paper's listing, with b + 1 penalised iterations.

    Examples
    --------
    >>> [After(2).off(k, False, before=1.0, after=1.0, first=1.0) for k in range(4)]
    [False, False, True, True]
    """

    b: int

    def __post_init__(self) -> None:
        whole("b", self.b, 0)

    def off(self, k: int, guarded: Mask, before: Scalar, after: Scalar, first: Scalar) -> Mask:
        return k >= self.b


@dataclass(frozen=True)
class FirstGuard(Switch):
    """Off the first time the guard fires.

    Examples
    --------
    >>> FirstGuard().off(0, True, before=1.0, after=1.0, first=1.0)
    True
    """

    def off(self, k: int, guarded: Mask, before: Scalar, after: Scalar, first: Scalar) -> Mask:
        return guarded


@dataclass(frozen=True)
class SmallImprovement(Switch):
    """Off when a step lowers f by no more than `rtol · |f|`.

    Examples
    --------
    >>> SmallImprovement(0.01).off(5, False, before=100.0, after=99.5, first=150.0)
    True
    """

    rtol: float = 0.01

    def __post_init__(self) -> None:
        number("rtol", self.rtol, "a number, 0 or more", least=0)

    def off(self, k: int, guarded: Mask, before: Scalar, after: Scalar, first: Scalar) -> Mask:
        return before - after <= self.rtol * abs(before)


@dataclass(frozen=True)
class GoodDrop(Switch):
    """Off once f has decreased by `share · |f₀|` or more since the start: the paper's good-enough drop.

    `share` may be above 1 if f becomes negative.

    Examples
    --------
    >>> [GoodDrop(0.5).off(k, False, before=60.0, after=f, first=100.0) for k, f in enumerate((51.0, 50.0))]
    [False, True]
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        number("share", self.share, "a positive number", above=0)

    def off(self, k: int, guarded: Mask, before: Scalar, after: Scalar, first: Scalar) -> Mask:
        return first - after >= self.share * abs(first)


@dataclass(frozen=True)
class AnyOf(Switch):
    """Off as soon as any of its parts is; written `a | b`.

    Examples
    --------
    >>> (Never() | After(0)).off(0, False, before=1.0, after=1.0, first=1.0)
    True
    """

    parts: tuple[Switch, ...]

    def __post_init__(self) -> None:
        if wrong := [part for part in list[object](self.parts) if not isinstance(part, Switch)]:
            raise TypeError(f"parts: expected switches such as After(10), got {wrong[0]!r}")

    def off(self, k: int, guarded: Mask, before: Scalar, after: Scalar, first: Scalar) -> Mask:
        result: Mask = False
        for part in self.parts:
            result = result | part.off(k, guarded, before, after, first)
        return result
