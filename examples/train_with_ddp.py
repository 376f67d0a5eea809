"""Train with DistributedDataParallel, on as many processes as you like.

Run it with `torchrun --nproc-per-node 2 examples/train_with_ddp.py`.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from steepen.torch import GapSAM


def main(epochs: int = 60) -> None:
    """Train, and print the accuracy on images that were held out."""
    dist.init_process_group("gloo")  # on GPUs: "nccl"
    torch.manual_seed(0)
    pixels, digits = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits)
    data = TensorDataset(x[:320], y[:320])
    sampler = DistributedSampler(data)  # each process gets its own part of the images
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(model(x), y)

    # DDP averages the gradients in both passes, and GapSAM its losses: all processes take the same step.
    base, validation = torch.optim.AdamW(model.parameters(), lr=0.01), (x[1000:1500], y[1000:1500])
    opt = GapSAM(base, model, validation, epochs * len(loader))
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for batch in loader:
            opt.step_on(loss_of, *batch)

    accuracy = (model.module(x[1500:]).argmax(1) == y[1500:]).float().mean().item()
    if dist.get_rank() == 0:  # the others have the same weights
        print(f"{opt.report()}\n{dist.get_world_size()} processes, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
    dist.destroy_process_group()  # after the model has gone: one that outlives it may hang at the end
