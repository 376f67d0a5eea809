"""What a run is made with: everything but which optimizers and how many seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._tools.check import number, whole
from .data import SIZES, training_size
from .folders import CIFAR

__all__ = ["Settings"]

BASES = ("sgd", "adamw")  # the optimizers that take the steps

# lr has the best accuracy of the base alone with --validate, so without a look at the test part. On digits
# of (0.02, 0.05, 0.1, 0.2) and (0.001, 0.003, 0.01), 5 seeds, and 0.2 ruins some runs of SGD; on mnist1d of
# (0.1, 0.2, 0.3, 0.5) and (0.001, 0.003, 0.01, 0.03, 0.1), 3 seeds. CIFAR: 30 passes, and the usual lr.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "digits": {"grads": 2000, "batch": 32, "lr": {"sgd": 0.1, "adamw": 0.01}},
    "mnist1d": {"grads": 4000, "batch": 100, "lr": {"sgd": 0.3, "adamw": 0.03}},
    **{name: {"grads": 2910, "batch": 512, "lr": {"sgd": 0.4, "adamw": 0.001}} for name in CIFAR},
}


@dataclass(frozen=True)
class Settings:
    """The settings that all runs of a comparison share; `Settings.of` fills in what is not said.

    Parameters
    ----------
    data : {"digits", "mnist1d", "cifar10", "cifar100"}
        What to train on: an MLP, or ResNet-18 on CIFAR.
    grads, batch : int
        The minibatch gradients for each run, a hard limit; and the examples in a minibatch.
    base, lr : {"sgd", "adamw"}, float
        The optimizer that takes the steps, and its highest learning rate.
    lam, rho : float, optional
        λ of the penalty λ‖∇f‖², and ρ of the penalty ρ‖∇f‖, for every optimizer that has one; by default each
        has its own.
    fraction : float
        The share of the steps that is penalised by the optimizers named early and late.
    device : str
        "cpu", "cuda" or "mps".
    validate : bool
        Judge by a fifth of the training part, held out, in the place of the test part.

    Examples
    --------
    >>> settings = Settings.of("mnist1d", lam=0.1)
    >>> settings.batch, settings.lam
    (100, 0.1)
    """

    data: str
    grads: int
    batch: int
    base: str
    lr: float
    lam: float | None = None
    rho: float | None = None
    fraction: float = 0.25
    device: str = "cpu"
    validate: bool = False

    @classmethod
    def of(cls, data: str = "digits", *, base: str = "sgd", **given: Any) -> Settings:
        """Take the default of the data for what is not said or None, and check the rest.

        Examples
        --------
        >>> Settings.of("digits", lr=-1)
        Traceback (most recent call last):
        ValueError: lr: expected a positive number, got -1
        """
        _known(data, base)
        default = _DEFAULTS[data] | {"lr": _DEFAULTS[data]["lr"][base]}
        said = {name: value for name, value in given.items() if value is not None}
        return cls(data, base=base, **default | said)

    def __post_init__(self) -> None:
        _known(self.data, self.base)
        whole("grads", self.grads, 2)  # one step of any optimizer
        whole("batch", self.batch, 1)
        most = training_size(self.data, self.validate)
        if self.batch > most:
            raise ValueError(f"batch: expected at most the {most} examples of {self.data}, got {self.batch}")
        for name in ("lr", "lam", "rho"):
            value = getattr(self, name)
            if value is not None:
                number(name, value, "a positive number", above=0)
        number("fraction", self.fraction, "a share above 0 and at most 1", above=0, below=1 + 1e-12)


def _known(data: str, base: str) -> None:
    for name, value, known in (("data", data, SIZES), ("base", base, BASES)):
        if value not in known:
            raise ValueError(f"{name}: expected one of {', '.join(known)}; got {value!r}")
