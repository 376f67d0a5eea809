"""Train with FSDP2 (`fully_shard`), where each process holds a part of every parameter; stop, and go on.

Run it with `torchrun --nproc-per-node 2 examples/train_with_fsdp.py`.
"""

from __future__ import annotations

import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict as states
from torch.distributed.fsdp import fully_shard

from steepen.torch import GapSAM

pixels, digits = load_digits(return_X_y=True)
x, y = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits)


class Run:
    """A network in shards, and its optimizer."""

    def __init__(self, steps: int) -> None:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        self.model = fully_shard(model)  # first: the optimizer is to see the sharded parameters
        base, validation = torch.optim.AdamW(model.parameters(), lr=0.01), (x[1000:1500], y[1000:1500])
        self.opt = GapSAM(base, model, validation, steps, max_norm=1.0)

    def loss_of(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss of a batch."""
        return nn.functional.cross_entropy(self.model(x), y)

    def train(self, steps: int) -> None:
        """Take some steps; norms and losses are of all processes, so that they agree on the ascent step."""
        for _ in range(steps):
            rows = torch.randint(320, (64,))[dist.get_rank() :: dist.get_world_size()]  # this process's
            self.opt.step_on(self.loss_of, x[rows], y[rows])

    def state(self) -> dict[str, object]:
        """Return what a distributed checkpoint holds: the base's state by name, and our own numbers."""
        model, base = states.get_state_dict(self.model, self.opt.base)
        return {"model": model, "base": base, "own": self.opt.own.state_dict()}

    def load(self, folder: str) -> None:
        """Take up a checkpoint."""
        dcp.load(state := self.state(), checkpoint_id=folder)
        states.set_state_dict(
            self.model, self.opt.base, model_state_dict=state["model"], optim_state_dict=state["base"]
        )
        self.opt.own.load_state_dict(state["own"])


def main(steps: int = 300) -> None:
    """Train one half, save, and have a new run go on; print the accuracy on images that were held out."""
    dist.init_process_group("gloo")  # on GPUs: "nccl"
    first, second = Run(steps), Run(steps)
    folder = [tempfile.mkdtemp()]
    dist.broadcast_object_list(folder)
    first.train(steps // 2)
    dcp.save(first.state(), checkpoint_id=folder[0])
    second.load(folder[0])
    second.train(steps - steps // 2)
    with torch.no_grad():
        accuracy = (second.model(x[1500:]).argmax(1) == y[1500:]).float().mean().item()
    if dist.get_rank() == 0:
        print(f"{second.opt.report()}\n{dist.get_world_size()} processes, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
    dist.destroy_process_group()  # after the model has gone: one that outlives it may hang at the end
