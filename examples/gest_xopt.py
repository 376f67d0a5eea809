"""cgd-auto inside Xopt: `pip install '.[gest]' xopt`."""

from gest_api.vocs import VOCS
from xopt import Evaluator, Xopt
from xopt.stopping_conditions import MaxEvaluationsCondition

from steepen.integrations.gest import CGDGenerator

vocs = VOCS(
    variables={"quad1": [-2.0, 2.0], "quad2": [-1.0, 3.0]},
    objectives={"beam_size": "MINIMIZE"},
    constants={"charge": 1.0},
)


def measure(inputs):
    """Stand for the machine: Rosenbrock's function."""
    x, y = inputs["quad1"], inputs["quad2"]
    return {"beam_size": inputs["charge"] * (100 * (y - x**2) ** 2 + (1 - x) ** 2)}


generator = CGDGenerator(vocs, {"quad1": -1.2, "quad2": 1.0})
xopt = Xopt(
    generator=generator,
    evaluator=Evaluator(function=measure),
    stopping_condition=MaxEvaluationsCondition(max_evaluations=200),
)
xopt.run()
best = xopt.data.loc[xopt.data["beam_size"].idxmin()]
print(f"{best['beam_size']:.1e} at {best['quad1']:.4f}, {best['quad2']:.4f}")
print(xopt.generator.runs[0].result().status)
