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

from steepen.torch import CGD


def main(epochs: int = 8) -> float:
    """Train, and give the accuracy on images that were held out."""
    # torchrun tells each process its rank; on GPUs the backend would be "nccl"
    dist.init_process_group("gloo")
    torch.manual_seed(0)

    pixels, digits = load_digits(return_X_y=True)
    x, y = torch.tensor(pixels, dtype=torch.float32) / 16, torch.tensor(digits)
    data = TensorDataset(x[:1500], y[:1500])
    sampler = DistributedSampler(data)  # each process gets its own share of the images
    loader = DataLoader(data, batch_size=32, sampler=sampler)

    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    model = DistributedDataParallel(net)

    # The optimizer you already have, wrapped. DDP averages the gradients of the processes in both passes, so
    # all of them take the same step. With perturbation="local" each would probe along its own gradient.
    opt = CGD(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), lam=0.01, model=model)

    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:

            def closure(images: Tensor = images, labels: Tensor = labels) -> Tensor:
                opt.zero_grad()
                loss = nn.functional.cross_entropy(model(images), labels)
                loss.backward()
                return loss

            opt.step(closure)  # calls the closure twice: at the weights, and a little uphill from them

    with torch.no_grad():
        accuracy = (net(x[1500:]).argmax(1) == y[1500:]).float().mean().item()
    if dist.get_rank() == 0:  # the others have the same weights
        print(f"{dist.get_world_size()} processes, accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
    dist.destroy_process_group()  # after the model has gone: one that outlives it may hang at the end
