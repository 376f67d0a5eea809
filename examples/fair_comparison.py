"""A fair comparison by hand: GapSAM against SGD that may use the same validation examples, and weight decay.

A small task that invites overfitting: handwritten digits, 600 with labels, a fifth of them random, and 1 200
with the right labels for the test. GapSAM watches 200 of the 600. SGD may use these, too: to train on them,
or to be stopped early by them. Every row has 600 gradients of a batch, those of the ascent step counted, and
five seeds; all of it takes a minute of one core.
"""

import statistics

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

from steepen.torch import GapSAM

torch.set_num_threads(1)  # for a network this small, more of them wait for each other

pictures, labels = load_digits(return_X_y=True)
random = torch.Generator().manual_seed(0)
order = torch.randperm(len(labels), generator=random)
x = torch.tensor(pictures, dtype=torch.float32)[order] / 16
y = torch.tensor(labels)[order]
wrong = torch.rand(600, generator=random) < 0.2
y[:600] = torch.where(wrong, torch.randint(10, (600,), generator=random), y[:600])

everything = x[:600], y[:600]
train, held_out = (x[:400], y[:400]), (x[400:600], y[400:600])
test = x[600:], y[600:]

ROWS = {
    "SGD, 400 examples": {"data": train},
    "SGD, all 600": {"data": everything},
    "SGD, stopped by the 200": {"data": train, "stop_early": True},
    "GapSAM, which watches 200": {"data": train, "gap_sam": True},
    "SGD, all 600, decay .01": {"data": everything, "decay": 0.01},
    "GapSAM, decay .01": {"data": train, "gap_sam": True, "decay": 0.01},
}


def fit(seed, data, gradients=600, gap_sam=False, decay=0.0, stop_early=False):
    """Train until so many gradients of a batch are spent; those of the ascent step are counted."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))

    def loss_of(x, y):
        return cross_entropy(model(x), y)

    base = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=decay)
    opt = GapSAM(base, model, held_out, total_steps=gradients) if gap_sam else base
    shuffle = torch.Generator().manual_seed(seed)
    best, lowest, spent = None, float("inf"), 0.0
    while spent < gradients:
        for rows in torch.randperm(len(data[0]), generator=shuffle).split(50):
            batch = data[0][rows], data[1][rows]
            if gap_sam:
                opt.step_on(loss_of, *batch)
                spent = opt.gradients
            else:
                opt.zero_grad()
                loss_of(*batch).backward()
                opt.step()
                spent += 1
        with torch.no_grad():
            now = loss_of(*held_out).item()
        if stop_early and now < lowest:
            lowest, best = now, {name: value.clone() for name, value in model.state_dict().items()}
    if best is not None:
        model.load_state_dict(best)
    return model.eval()


def main(seeds=5):
    """Train every row; print and return its test loss and accuracy in per cent, with standard errors."""
    found = {}
    for name, options in ROWS.items():
        losses, hits = [], []
        for seed in range(seeds):
            model = fit(seed, **options)
            with torch.no_grad():
                scores = model(test[0])
            losses += [cross_entropy(scores, test[1]).item()]
            hits += [100 * (scores.argmax(1) == test[1]).float().mean().item()]
        found[name] = [
            (statistics.mean(values), statistics.stdev(values) / seeds**0.5) for values in (losses, hits)
        ]
        loss, hit = found[name]
        print(f"{name:29} test loss {loss[0]:.3f} ± {loss[1]:.3f}   accuracy {hit[0]:.1f} ± {hit[1]:.1f}")
    return found


if __name__ == "__main__":
    main()
