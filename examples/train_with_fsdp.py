"""Train with FSDP2 (`fully_shard`), where each process holds a part of every parameter.

Run it with `torchrun --nproc-per-node 2 examples/train_with_fsdp.py`.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from steepen.torch import CGD


def main(epochs: int = 8) -> float:
    """Train, and give the accuracy on images that were held out."""
    dist.init_process_group("gloo")  # on GPUs: "nccl", and a mesh of "cuda"
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)

    pixels, digits = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits)

    # Shard the layers, then the whole. Only then make the optimizer: it is to see the sharded parameters.
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)

    # Nothing to set here: norms, the guard and clipping are of the whole gradient, on all processes alike.
    # Under MixedPrecisionPolicy(param_dtype=torch.bfloat16) say dtype=torch.bfloat16, for a longer probe.
    opt = CGD(torch.optim.AdamW(model.parameters(), lr=0.01), lam=0.01, max_norm=1.0, model=model)

    shuffle = torch.Generator().manual_seed(dist.get_rank())
    share = torch.arange(dist.get_rank(), 1500, dist.get_world_size())  # this process's images
    for _ in range(epochs):
        for rows in share[torch.randperm(len(share), generator=shuffle)].split(32):
            # Another way to write the step, for loops that cannot pass a closure.
            opt.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            if opt.probe():  # False in steps that are not penalised
                nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            opt.step()

    with torch.no_grad():
        accuracy = (model(x[1500:]).argmax(1) == y[1500:]).float().mean().item()
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} processes, accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
    dist.destroy_process_group()  # after the model has gone: one that outlives it may hang at the end
