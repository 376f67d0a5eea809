"""What the tests of training share."""

import pytest
import torch

from steepen.train import Run

torch.set_num_threads(1)  # the networks are tiny


@pytest.fixture
def made():
    """Make a record of a run that ends so; a loss of NaN makes it diverge."""

    def make(optimizer, seed, accuracy, loss=1.0, steps=4):
        return Run(optimizer, seed, steps, 4, (0, 2, 4), (0.1, 0.3, accuracy), (2.3, 1.5, loss))

    return make
