"""A call of `minimize` on a bowl, and what is to be said of one that is refused."""

from __future__ import annotations

from typing import Any

import pytest

import steepen as st


class Bowl:
    """xᵀx over leading axes, with its calls counted."""

    def __init__(self) -> None:
        self.calls = 0

    def f(self, x: Any) -> Any:
        self.calls += 1
        return (x * x).sum(axis=-1)

    def g(self, x: Any) -> Any:
        self.calls += 1
        return 2 * x


def run(bowl: Bowl, **given: Any) -> st.Result:
    """Run steepest descent on the bowl, with whatever a test has to say about it."""
    base: dict[str, Any] = {"x0": [1.0, -2.0], "method": "gd", "budget": st.Budget(iters=3)}
    options: dict[str, Any] = base | {"step": 0.1, "jac": bowl.g} | given
    return st.minimize(options.pop("fun", bowl.f), options.pop("x0"), **options)


def refused(error: type[Exception], *texts: str, **given: Any) -> None:
    """Hold that the run is refused, with all of the texts in the message and nothing evaluated."""
    bowl = Bowl()
    with pytest.raises(error) as caught:
        run(bowl, **given)
    message = str(caught.value)
    assert type(caught.value) is error
    assert message.startswith(texts[0]), message
    assert all(text in message for text in texts), message
    assert bowl.calls == 0
