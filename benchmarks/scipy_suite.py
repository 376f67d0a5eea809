"""SciPy's own tests of `scipy.optimize.minimize`, with our methods in the place of SciPy's.

    python benchmarks/scipy_suite.py [pytest arguments]

It runs `test_optimize.py` of the installed SciPy. Wherever a test calls `scipy.optimize.minimize` with one of
the methods in `SWAP`, or with none and no constraints, it gets ours as a user would call it, for example
`method=steepen.integrations.scipy.cgd_auto`. The name of a difference goes into the option `gradient`, since
SciPy would drop it. Tests that make no such call say nothing about us and are not counted.

All of the others must pass but those in `CANNOT`, which has the reason for each. The exit status is 1 if one
that must pass fails, 2 if the tests could not be run.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import scipy.optimize

from steepen.integrations.scipy import bfgs, cgd_auto, newton

SWAP = {
    None: cgd_auto,
    "cg": cgd_auto,
    "l-bfgs-b": cgd_auto,
    "tnc": cgd_auto,
    "bfgs": bfgs,
    "newton-cg": newton,
}

OPTION = "it needs an option of SciPy's BFGS or CG alone (c1, c2, xrtol, hess_inv0)"
COUNT = "it knows the evaluations and iterates, or the first step, of SciPy's method by heart"
WORDS = "it compares SciPy's own message or number of a status; ours are others"
FINITE = "it wants the last point, where f is NaN or -inf; ours is the best finite one"
STRATEGY = "a HessianUpdateStrategy is refused, with a message"

CANNOT = {
    r"test_bfgs_hess_inv0_(neg|semipos|sanity)": OPTION,
    r"test_bfgs_(c1|c2|xrtol)": OPTION,
    r"test_invalid_c1_c2.*": OPTION,
    r"test_(cg|bfgs|ncg|ncg_hess|ncg_hessp)": COUNT,
    r"test_initial_step_scaling": COUNT,
    r"test_obj_func_returns_scalar": WORDS,
    r"test_l_bfgs_b_maxiter": WORDS,
    r"test_callback_stopiteration.*": WORDS,
    r"test_minimize_invalid_bounds.*": WORDS,
    r"test_all_bounds_equal.*": WORDS,
    r"test_bfgs_(infinite|nan_return)": FINITE,
    r"test_finite_differences_hess": STRATEGY,
    r"test_hessian_update_strategy": STRATEGY,
    r"test_ncg_negative_maxiter": "a negative maxiter is refused",
    r"test_minimize_warnings_gh1953.*": "disp=True prints how the run ended; SciPy's warns if it failed",
    r"test_minimize_l_bfgs_maxls": "a search of one trial that fails must end the run; ours begins anew",
    r"test_minimize_automethod": "it wants x to 1e-7 where gtol promises 5e-6; SciPy's step lands nearer",
}


class Swap:
    """A pytest plugin that puts our methods in, and notes how the tests that met one of them ended."""

    def __init__(self) -> None:
        self.original, self.met = scipy.optimize.minimize, False
        self.passed: list[str] = []
        self.failed: list[str] = []

    def minimize(self, fun, x0, args=(), method=None, jac=None, **keywords):
        name = method.lower() if isinstance(method, str) else method
        if (
            isinstance(name, str | None)
            and name in SWAP
            and not (name is None and keywords.get("constraints"))
        ):
            self.met, method = True, SWAP[name]
            if isinstance(jac, str):
                keywords["options"] = {**(keywords.get("options") or {}), "gradient": jac}
                jac = None
        return self.original(fun, x0, args, method, jac, **keywords)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        self.met, scipy.optimize.minimize = False, self.minimize
        try:
            return (yield)
        finally:
            scipy.optimize.minimize = self.original

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and self.met:
            (self.failed if report.failed else self.passed).append(report.nodeid.partition("::")[2])


def reason(test: str) -> str | None:
    """Say why this test of SciPy's cannot pass; None if it must."""
    name = test.rpartition("::")[2]
    return next((why for pattern, why in CANNOT.items() if re.fullmatch(pattern, name)), None)


def main() -> int:
    swap = Swap()
    path = Path(scipy.optimize.__file__).with_name("tests") / "test_optimize.py"
    arguments = [str(path), "-q", "--tb=line", "-p", "no:cacheprovider", "-c", "/dev/null", *sys.argv[1:]]
    code = pytest.main(arguments, plugins=[swap])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        print(f"SciPy's tests could not be run: {path}")
        return 2
    broken = [test for test in swap.failed if reason(test) is None]
    print(f"\n{len(swap.passed)} of {len(swap.passed) + len(swap.failed)} tests with a method of ours pass")
    for why in dict.fromkeys(CANNOT.values()):
        print(f"{sum(reason(test) == why for test in swap.failed):4} cannot: {why}")
    for test in swap.passed:
        if reason(test) is not None:
            print(f"     passes, and could leave the list: {test}")
    for test in broken:
        print(f"     MUST PASS, AND FAILS: {test}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
