"""Tuning: Optuna proposes settings, several processes try them, other starts judge the best.

The rule: a setting is as good as the median of f at the end of its runs, where a run that overflows or ends
above its start counts as infinite. Trials are made on one set of starts. The `TOP` best of them run from
other starts, and the one with the lowest median there is chosen.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._jobs import elsewhere, run, send_check
from .._minimize import minimize
from .._tools.optional import load
from ..budget import Budget
from .grid import Setting, has
from .sweep import draw, sweep

TOP = 5
TOGETHER = 10  # trials of a job
DECADES = {"step": (-6.0, 1.0), "lam": (-2.0, 3.0), "r": (-3.0, 1.0)}
"""The ranges in powers of ten: α in units of (size of the box)/(usual slope); λ and r in α."""
SHARES = (0.05, 0.25, 1.0)
"""b as a share of the budget."""


@dataclass(frozen=True)
class Task:
    """What is tuned: a method on a function in a box, with so many gradients a run.

    Examples
    --------
    >>> import steepen as st
    >>> task = Task(st.functions["booth"], "booth", st.functions["booth"].bounds, "gd", 40)
    >>> task.tuning.shape, task.judged.shape
    ((40, 2), (200, 2))
    """

    fun: Any
    name: str
    box: Any
    method: str
    grads: int
    starts: int = 40
    others: int = 200
    seed: int = 0

    @property
    def tuning(self) -> Any:
        """The starts to tune on."""
        return draw(self.box, self.starts + self.others, self.seed)[: self.starts]

    @property
    def judged(self) -> Any:
        """The starts to judge on."""
        return draw(self.box, self.starts + self.others, self.seed)[self.starts :]

    @property
    def unit(self) -> float:
        """The unit of α: the diagonal of the box over the usual slope."""
        with np.errstate(all="ignore"):
            made = minimize(self.fun, self.tuning, method="gd", budget=Budget(iters=0), trace=False)
            slope = float(np.nanmedian(np.linalg.norm(made.jac, axis=-1)))
        size = float(np.linalg.norm(self.box[:, 1] - self.box[:, 0]))
        return size / slope if slope > 0 and np.isfinite(slope) else 1.0

    def about(self) -> dict[str, Any]:
        """Return what tells this study from others."""
        value = float(np.asarray(self.fun(self.tuning[:1])).ravel()[0])
        names = ("name", "method", "grads", "starts", "others", "seed")
        return {name: getattr(self, name) for name in names} | {
            "value": value,
            "box": np.ravel(self.box).tolist(),
        }

    def table(self, settings: list[Setting], starts: Any) -> Any:
        """Run settings from starts."""
        return sweep(
            {self.name: self.fun}, starts, settings=settings, budget=Budget(grads=self.grads), jobs=1
        )

    def scores(self, table: Any) -> Any:
        """Return the median of f for each setting, in their order."""
        f = np.where(np.isfinite(table.f) & (table.f <= table.f0), table.f, np.inf)
        count = int(table.start.max()) + 1
        return np.median(f.reshape(-1, count), axis=1)


def tune(
    task: Task, trials: int, journal: Path, *, jobs: int | None = None, progress: bool = False
) -> tuple[Any, Any]:
    """Make the trials that the journal does not hold, and return the table of the best, judged.

    It has a row for each of the best settings, the choice first: `tuned`, the score on the starts that were
    tuned on, `judged`, the score on the others, and `diverged`, the share of runs there that did. The second
    table is that of all trials, as `sweep` returns it.
    """
    optuna = load("optuna", "tuning", extra="tune")
    pandas = load("pandas", "tuning", extra="sweep")
    if elsewhere(jobs):
        send_check("FUNCTION", task.fun)
    study = _study(optuna, journal, task.seed)
    known = study.user_attrs.get("about")
    about = task.about()
    if known is not None and known != about:
        other = "; ".join(f"{k} {known.get(k)}, not {about[k]}" for k in about if known.get(k) != about[k])
        raise ValueError(
            f"out: {str(journal)!r} holds a study with {other}. Give another folder for this one"
        )
    if known is None:
        study.set_user_attr("about", about)
    left = trials - len(_done(study))
    shares = [(len(_done(study)) + first, min(TOGETHER, left - first)) for first in range(0, left, TOGETHER)]
    unit = task.unit
    whole = str(journal.resolve())  # a worker may have begun in another folder
    for _ in run(
        _try_some, shares, send=lambda key: (task, whole, unit, *key), jobs=jobs, strict=True,
        progress=progress, title=lambda key: f"trials from {key[0]} on",
    ):  # fmt: skip
        pass
    made = sorted(_done(_study(optuna, journal, task.seed)), key=lambda trial: (trial.value, trial.number))
    every = [dict(trial.user_attrs["setting"]) for trial in made]
    best = every[:TOP]
    table = task.table(best, task.judged)
    scores = task.scores(table)
    over = (~(table.f <= table.f0)).to_numpy().reshape(len(best), -1).mean(axis=1)
    found = pandas.DataFrame(best).assign(
        tuned=[trial.value for trial in made[:TOP]], judged=scores, diverged=over
    )
    return found.sort_values("judged", kind="stable").reset_index(drop=True), task.table(every, task.tuning)


def _done(study: Any) -> list[Any]:
    return [trial for trial in study.trials if trial.state.name == "COMPLETE"]


def _study(optuna: Any, journal: Path, seed: int) -> Any:
    """Open the study; several processes may."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is experimental is said to be so at every turn
        backend = load("optuna.storages.journal", "tuning", extra="tune").JournalFileBackend(str(journal))
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
        return optuna.create_study(
            storage=optuna.storages.JournalStorage(backend), study_name="steepen", sampler=sampler,
            load_if_exists=True,
        )  # fmt: skip


def _try_some(task: Task, journal: str, unit: float, first: int, count: int) -> None:
    """Try settings, as many as this share has."""
    optuna = load("optuna", "tuning", extra="tune")
    study = _study(optuna, Path(journal), task.seed + 1 + first)

    def objective(trial: Any) -> float:
        setting = proposed(trial, task, unit)
        trial.set_user_attr("setting", setting)
        return float(task.scores(task.table([setting], task.tuning))[0])

    study.optimize(objective, n_trials=count)


def proposed(trial: Any, task: Task, unit: float) -> Setting:
    """Return the setting that a trial proposes."""
    own = has(task.method)
    power = {name: trial.suggest_float(name, *DECADES[name]) for name in DECADES if name in own}
    step = unit * 10 ** power.pop("step")
    setting: Setting = {"method": task.method, "step": step}
    setting |= {name: step * 10**value for name, value in power.items()}
    if "b" in own:
        setting["b"] = int(trial.suggest_categorical("b", SHARES) * task.grads)
    return setting
