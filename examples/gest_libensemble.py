"""cgd-auto inside libEnsemble, four points at a time: `pip install '.[gest]' libensemble`."""

from gest_api.vocs import VOCS
from libensemble import Ensemble
from libensemble.alloc_funcs.start_only_persistent import only_persistent_gens
from libensemble.specs import AllocSpecs, ExitCriteria, GenSpecs, LibeSpecs, SimSpecs

from steepen.integrations.gest import CGDGenerator

vocs = VOCS(variables={"x1": [-2.0, 2.0], "x2": [-1.0, 3.0]}, objectives={"f": "MINIMIZE"})


def simulate(inputs):
    """Stand for the simulation: Rosenbrock's function."""
    x, y = inputs["x1"], inputs["x2"]
    return {"f": 100 * (y - x**2) ** 2 + (1 - x) ** 2}


if __name__ == "__main__":
    generator = CGDGenerator(vocs, [-1.2, 1.0])
    workflow = Ensemble(
        libE_specs=LibeSpecs(gen_on_manager=True, nworkers=4, comms="threads", disable_log_files=True),
        gen_specs=GenSpecs(generator=generator, batch_size=4, vocs=vocs),
        sim_specs=SimSpecs(simulator=simulate, vocs=vocs),
        alloc_specs=AllocSpecs(alloc_f=only_persistent_gens),
        exit_criteria=ExitCriteria(sim_max=400),
    )
    history, _, _ = workflow.run()
    best = history[history["f"].argmin()]
    print(f"{best['f']:.1e} at {best['x1']:.4f}, {best['x2']:.4f}")
