"""No run of SciPy's optimisers from the standard start goes below the best value known."""

import warnings

import numpy as np
import pytest
from scipy import optimize
from tests.pairs import sample

from steepen.problems import problems, suite


def lowest(p, method, **options):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # line searches that stop at rounding
        run = optimize.minimize(p.value_and_grad, p.x0, jac=True, method=method, options=options)
    return float(run.fun)


def not_below(p, value):
    # 1e-10 relative; where the best value is far below the start, what rounding leaves of the start
    return value >= p.fbest - 1e-10 * abs(p.fbest) - 1e-16 * abs(float(p(p.x0)))


LARGE = [p.name for p in suite("large") if p.fbest not in (0.0, 1.0)]
NONZERO = [p.name for p in suite("mgh") if p.fbest > 0 and p.n <= 20]


@pytest.mark.parametrize("name", sample(LARGE + NONZERO, 10))
def test_a_long_run_does_not_go_below(name):
    p = problems[name]
    value = lowest(p, "L-BFGS-B", maxcor=30, maxiter=400, maxfun=400, ftol=0, gtol=1e-12)
    assert not_below(p, value)
    # and the listed values are where it ends: what is best is not merely low
    if name not in {"watson-12", "meyer", "jennrich-sampson"}:  # these take it more
        ends = (p.fbest, *p.other_ends)
        assert any(value == pytest.approx(end, rel=1e-4) for end in ends)


FITS = ["misra1a-2", "lanczos3-2", "gauss1-1", "kirby2-2", "nelson-2", "enso-2", "thurber-2", "mgh09-2"]


@pytest.mark.parametrize("name", sample(FITS, 4))
def test_fits_do_not_go_below_the_certified_sum(name):
    p = problems[name]
    for method, options in (("L-BFGS-B", {"ftol": 1e-15, "maxfun": 1000}), ("BFGS", {"maxiter": 300})):
        assert not_below(p, lowest(p, method, **options))


@pytest.mark.slow
@pytest.mark.parametrize("p", [pytest.param(p, id=p.name) for p in suite("learning")])
def test_training_does_not_go_below(p):
    pytest.importorskip("sklearn")
    value = lowest(p, "L-BFGS-B", maxcor=30, maxfun=150, maxiter=150, ftol=0, gtol=1e-10)
    assert not_below(p, value)
    assert value < p.fbest * 1.5


@pytest.mark.slow
def test_logistic_regression_is_scikit_learns():
    linear = pytest.importorskip("sklearn.linear_model")
    from sklearn.datasets import load_breast_cancer

    A, labels = load_breast_cancer(return_X_y=True)
    A = (A - A.mean(0)) / A.std(0)
    p = problems["logistic-breast-cancer"]
    # a column of ones makes the intercept a weight, decayed like the others
    ones = np.column_stack([A, np.ones(len(A))])
    model = linear.LogisticRegression(C=1 / (1e-3 * len(A)), fit_intercept=False, tol=1e-10, max_iter=1000)
    weights = model.fit(ones, labels).coef_[0]
    assert p(weights) == pytest.approx(p.fbest, rel=1e-12)
    assert np.abs(p.grad(weights)).max() < 1e-7
