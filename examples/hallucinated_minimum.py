"""Where a step vanishes and the gradient does not: the paper's Lemma 1, and SAM's hallucinated minimisers.

The loss is a wide bowl with a narrow dip in its side, and a run starts on the side, next to the dip. Gradient
descent goes down to the minimum. Two methods stop at x = 2.70, where the slope is 0.27:

- EGR, on f + λ‖∇f‖², since 1 + 2λf″ = 0 there: an artificial stationary point of the paper's Lemma 1;
- SAM, since x + s is the minimum of the dip, where g⁺ = 0: a hallucinated minimiser (Park et al., arXiv
  2509.21818).

They are one effect: d = g + ν(g⁺ − g) is 0 and g is not. So a look at g shows it. CGD's guard looks, and
counts in `report().tripped`. Steps without an ascent step move on, as every second one of GapSAM does, and
ascent steps that begin later find the run elsewhere. SAM alone has no such safeguard.
"""

import math

import torch

from steepen.torch import CGD, EGR, SAM

LAM = 0.0549  # f″ = −1/(2λ) at x = 2.70
RHO = 0.149  # the distance from there to the minimum of the dip
STEPS = 2_000

METHODS = {
    "gradient descent": lambda base, model: SAM(base, model, when=range(0)),
    "EGR": lambda base, model: EGR(base, model, LAM),
    "SAM": lambda base, model: SAM(base, model, RHO),
    "CGD, exact, with the guard": lambda base, model: CGD(base, model, LAM, exact=True),
    "SAM in every second step": lambda base, model: SAM(base, model, RHO, when=range(0, STEPS, 2)),
    "SAM in the second half": lambda base, model: SAM(base, model, RHO, when=range(STEPS // 2, STEPS)),
}


def loss_of(x):
    """Return the loss: a bowl with its minimum at 0, and a dip at 2.85."""
    return x**2 / 2 - torch.exp(-(((x - 3) / 0.2) ** 2) / 2)


def run(make, start=2.65):
    """Return where a run ends, the slope of the loss there, and how often the guard was needed."""
    x = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    model = torch.nn.ParameterList([x])
    opt = make(torch.optim.SGD(model.parameters(), lr=0.01), model)
    for _ in range(STEPS):
        opt.step_on(lambda: loss_of(model[0]))
    (slope,) = torch.autograd.grad(loss_of(x), [x])
    return x.item(), slope.item(), opt.report().tripped


def main():
    """Print where each method ends."""
    print(f"{'':28}{'ends at':>9}{'slope':>9}{'tripped':>9}")
    for name, make in METHODS.items():
        x, slope, tripped = run(make)
        print(f"{name:28}{x:9.3f}{slope:9.3f}{'' if math.isnan(tripped) else f'{tripped:9.0f}'}")


if __name__ == "__main__":
    main()
