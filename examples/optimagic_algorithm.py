"""steepen as an algorithm of optimagic: `pip install optimagic`."""

from dataclasses import dataclass

import numpy as np
import optimagic as om
from optimagic.optimization.algorithm import Algorithm, InternalOptimizeResult

import steepen as st


@om.mark.minimizer(
    name="cgd_auto",
    solver_type=om.typing.AggregationLevel.SCALAR,
    is_available=True,
    is_global=False,
    needs_jac=True,
    needs_hess=False,
    needs_bounds=False,
    supports_parallelism=False,
    supports_bounds=True,
    supports_infinite_bounds=True,
    supports_linear_constraints=False,
    supports_nonlinear_constraints=False,
    disable_history=False,
)
@dataclass(frozen=True)
class CGDAuto(Algorithm):
    """cgd-auto, with bounds and one option."""

    gtol: float = 1e-6

    def _solve_internal_problem(self, problem, x0):
        b = problem.bounds
        bounds = None if b.lower is None else list(zip(b.lower, b.upper, strict=True))
        res = st.minimize(problem.fun, x0, jac=problem.jac, bounds=bounds, gtol=self.gtol)
        return InternalOptimizeResult(
            x=res.x,
            fun=res.fun,
            success=res.success,
            message=res.message,
            n_fun_evals=res.nfev,
            n_jac_evals=res.njev,
            n_iterations=res.nit,
        )


res = om.minimize(lambda x: ((x - 1) ** 2).sum(), params=np.array([3.0, -2.0]), algorithm=CGDAuto)
print(res.params.round(4))
