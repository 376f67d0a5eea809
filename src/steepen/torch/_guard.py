"""The guard, on the device: every decision is a tensor, and the host is never made to wait."""

from __future__ import annotations

from collections import deque
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from .._tools.check import whole
from ._launch import Word

__all__ = ["Guard", "OnGuard"]

OnGuard: TypeAlias = Literal["fallback", "stop", "off"]


class Guard:
    """Takes the plain gradient where d would not descend f, ⟨g, d⟩ ≤ 0, or is not finite."""

    def __init__(self, on_guard: OnGuard, patience: int) -> None:
        if on_guard not in get_args(OnGuard):
            raise ValueError(f"on_guard: expected 'fallback', 'stop' or 'off', got {on_guard!r}")
        whole("patience", patience, 1)
        self.on_guard = on_guard  # after a trip: g for that step; that, and an end; or nothing
        self.patience = patience  # trips in a row that end the penalty
        self.stopped = False
        self.counts: Tensor | None = None  # penalised steps, trips
        self._fine = self._trip = torch.empty(0)  # (a step, no trip) and (a step, a trip)
        self._row: Any = None  # trips in a row, and whether they were too many
        self._words: deque[Word] = deque()

    def start(self, device: torch.device) -> None:
        """Make room for the counts on the device, once."""
        if self.counts is not None and self.counts.device == device:
            return
        self.counts = torch.zeros(2, device=device)
        self._trip = torch.ones(2, device=device)
        self._fine = torch.ones(2, device=device)
        self._fine[1].zero_()
        self._row = torch.zeros(2, device=device)

    @property
    def over(self) -> Tensor:
        """1 on the device once the penalty has ended."""
        return self._row[1]

    def pass_by(self, n: Tensor) -> None:
        """Count a step that is not judged, unless its ‖g‖ is not a number."""
        assert self.counts is not None
        self.counts.add_(self._fine * n.isfinite())

    def judge(self, n: Tensor, nu: Tensor, along: Tensor, after: Tensor) -> Tensor:
        """Return 1 where g is to be taken: from ‖g‖, ν, ⟨g, u⟩ and ‖g + u‖, where d = g + νu."""
        fine = after.isfinite()
        if self.on_guard != "off":
            fine &= n + nu * (along / n) > 0  # ⟨g, d⟩/‖g‖, whose parts neither overflow nor vanish
        verdict = torch.where(fine, self._fine, self._trip)
        trip = verdict[1]
        first = n.isfinite() & (n > 0)  # else there is nothing to judge: the base would get the same g
        assert self.counts is not None
        self.counts.add_(verdict * first)
        if self.on_guard != "stop":
            return trip
        row, over = self._row
        row.copy_(torch.where(first, (row + 1) * trip, row))
        over.copy_(torch.maximum(over, (row >= self.patience).to(over.dtype)))
        return torch.maximum(trip, over)

    def report(self) -> None:
        """Send the host word of whether the penalty has ended."""
        if self.on_guard != "stop":
            return
        over = self._row[1]
        if not over.is_cuda:
            self.stopped = bool(over)
        elif not torch.cuda.is_current_stream_capturing():
            self._words.append(Word(over))

    def poll(self) -> bool:
        """Say whether the penalty has ended: two steps late on a GPU, where asking sooner would be a wait.

        The device stops at once, so the numbers do not depend on when the host hears of it; and every rank
        hears of it at the same step.
        """
        while len(self._words) > 1 and not self.stopped and not torch.cuda.is_current_stream_capturing():
            self.stopped = bool(self._words.popleft().read())
        return self.stopped

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_words": deque()}  # events cannot be copied, and more words will come

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs: tensors always, for those who save by kind."""
        none = torch.zeros(2)
        return {
            "counts": none if self.counts is None else self.counts.clone(),
            "row": none.clone() if self.counts is None else self._row.clone(),
        }

    def load_state_dict(self, state: dict[str, Any], device: torch.device) -> None:
        """Take up where a saved guard left off."""
        self._words.clear()
        self.counts = None
        self.start(device)
        assert self.counts is not None
        self.counts.copy_(state["counts"])
        self._row.copy_(state["row"])
        self.stopped = self.on_guard == "stop" and bool(state["row"][1])
