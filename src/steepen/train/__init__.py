"""Training runs on small data: optimizers compared at equal numbers of gradients, seed by seed.

A gradient is one backward pass over one minibatch. Every optimizer gets the same number of them; one that
takes two a step makes half the steps, and its learning rate falls to zero over its own steps. Seed s gives
every optimizer the same initial weights and the same order of minibatches.

Examples
--------
>>> from steepen import train
>>> settings = train.Settings.of("digits", grads=60)
>>> found = train.run(settings, ["sgd"], seeds=2)
>>> line = found.summary()[0]
>>> line.optimizer, line.steps, line.gradients, line.runs, line.diverged
('sgd', 60, 60, 2, 0)
"""

from ._compare import compare
from ._run import run
from .comparison import Comparison
from .optimizers import OPTIMIZERS
from .results import Line, Mean, Run
from .settings import Settings

__all__ = ["OPTIMIZERS", "Comparison", "Line", "Mean", "Run", "Settings", "compare", "run"]
