"""The recipes of docs/integrations.md, run where their packages are installed."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^## (\S+)\n[^\n]*\n\n```python\n(.*?)```", TEXT, re.MULTILINE | re.DOTALL))
RECIPES["optimagic"] = (ROOT / "examples" / "optimagic_algorithm.py").read_text(encoding="utf-8")
PACKAGES = {"scikit-learn": "sklearn", "basinhopping": "scipy"}


def run(name):
    package = PACKAGES.get(name, name)
    pytest.importorskip(package, reason=f"{package} is not installed; the tests ask for light packages only")
    made = {}
    exec(compile(RECIPES[name], f"docs/integrations.md, {name}", "exec"), made)
    return made


def test_every_recipe_is_run():
    assert sorted(RECIPES) == ["basinhopping", "lmfit", "optimagic", "scikit-learn", "statsmodels"]


@pytest.mark.slow  # its import takes seconds
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_statsmodels():
    made = run("statsmodels")
    newton = made["sm"].Logit(made["y"], made["X"]).fit(disp=False)
    np.testing.assert_allclose(made["fit"].params, newton.params, rtol=1e-4)


def test_scikit_learn():
    made = run("scikit-learn")
    kernel = made["RBF"]() + made["WhiteKernel"](0.1)
    theirs = made["GaussianProcessRegressor"](kernel).fit(made["X"], made["y"])
    ours = made["model"]
    assert ours.log_marginal_likelihood_value_ > theirs.log_marginal_likelihood_value_ - 1e-4


def test_lmfit():
    made = run("lmfit")
    assert {name: round(p.value, 1) for name, p in made["out"].params.items()} == {"a": 3.0, "k": 1.2}
    lmfit, auto = made["lmfit"], made["steepen"].integrations.scipy.cgd_auto
    model, x = lmfit.models.LinearModel(), np.arange(5.0)
    data, params = 3 * x + 1, model.make_params(slope=1.0, intercept=0.0)
    for fit in (
        lambda: model.fit(data, params, x=x, method=auto),
        lambda: lmfit.minimize(made["residual"], made["params"], auto, (made["t"], made["data"])),
    ):  # which would both run Nelder-Mead
        with pytest.raises(TypeError, match="method: expected a name, got a steepen method"):
            fit()
    line = lmfit.Minimizer(lambda p: model.eval(p, x=x) - data, params).scalar_minimize(method=auto)
    np.testing.assert_allclose([line.params["slope"], line.params["intercept"]], [3, 1], atol=1e-5)


def test_optimagic():
    np.testing.assert_allclose(run("optimagic")["res"].params, 1.0, atol=1e-4)


def test_basinhopping_and_shgo_take_the_method_in_the_same_place():
    made = run("basinhopping")
    assert made["res"].fun < 1e-10
    f, shgo = made["st"].functions["six-hump-camel"], made["scipy"].optimize.shgo
    local = {"method": made["steepen"].integrations.scipy.cgd_auto, "jac": f.grad}
    theirs, ours = (shgo(f, [(-3, 3), (-2, 2)], n=64, minimizer_kwargs=way) for way in (None, local))
    assert ours.fun < theirs.fun + 1e-9
    assert len(ours.xl) == len(theirs.xl)
