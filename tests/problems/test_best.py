"""Best values: NIST's certified ones, and what no run of SciPy's from the standard start goes below."""

import warnings

import numpy as np
import pytest
from benchmarks.problems import problems, suite
from benchmarks.problems.nist import _SETS
from scipy import optimize
from tests.pairs import sample

# Observations, parameters and certified residual sum of squares, typed from the archive's files.
CERTIFIED = {
    "Bennett5": (154, 3, 5.2404744073e-04), "BoxBOD": (6, 2, 1.1680088766e03),
    "Chwirut1": (214, 3, 2.3844771393e03), "Chwirut2": (54, 3, 5.1304802941e02),
    "DanWood": (6, 2, 4.3173084083e-03), "ENSO": (168, 9, 7.8853978668e02),
    "Eckerle4": (35, 3, 1.4635887487e-03), "Gauss1": (250, 8, 1.3158222432e03),
    "Gauss2": (250, 8, 1.2475282092e03), "Gauss3": (250, 8, 1.2444846360e03),
    "Hahn1": (236, 7, 1.5324382854e00), "Kirby2": (151, 5, 3.9050739624e00),
    "Lanczos1": (24, 6, 1.4307867721e-25), "Lanczos2": (24, 6, 2.2299428125e-11),
    "Lanczos3": (24, 6, 1.6117193594e-08), "MGH09": (11, 4, 3.0750560385e-04),
    "MGH10": (16, 3, 8.7945855171e01), "MGH17": (33, 5, 5.4648946975e-05),
    "Misra1a": (14, 2, 1.2455138894e-01), "Misra1b": (14, 2, 7.5464681533e-02),
    "Misra1c": (14, 2, 4.0966836971e-02), "Misra1d": (14, 2, 5.6419295283e-02),
    "Nelson": (128, 3, 3.7976833176e00), "Rat42": (9, 3, 8.0565229338e00),
    "Rat43": (15, 4, 8.7864049080e03), "Roszman1": (25, 4, 4.9484847331e-04),
    "Thurber": (37, 7, 5.6427082397e03),
}  # fmt: skip


def both(dataset):
    return [problems[f"{dataset.lower()}-{start}"] for start in (1, 2)]


def hessian(p, x):
    size = 1e-30 * np.abs(x)
    return (p.grad(x + 1j * np.diag(size)).imag / size[:, None]).T


@pytest.mark.parametrize("dataset", CERTIFIED)
def test_certified_parameters_give_the_certified_sum_of_squares(dataset):
    _, parameters, rss = CERTIFIED[dataset]
    for p in both(dataset):
        assert p.n == len(p.certified) == parameters
        assert p.rss == rss
        value = p(p.certified)
        if dataset == "Lanczos1":  # eleven digits of the parameters leave residuals of 1e-11
            assert value < 1e-20
            # and rounding the data to double moves the least sum of squares in its fourth digit
            assert p.fbest == pytest.approx(rss, rel=2e-3)
        else:
            assert (value, p.fbest) == (pytest.approx(rss, rel=1e-9), pytest.approx(rss, rel=1e-10))


@pytest.mark.parametrize(
    "dataset", sorted(CERTIFIED.keys() - {"Lanczos1"})
)  # whose residuals are rounding errors
def test_gradient_vanishes_at_the_certified_parameters(dataset):
    """The Newton step there is as short as the eleventh digit of the parameters."""
    p, _ = both(dataset)
    b = p.certified
    H = hessian(p, b) * np.outer(b, b)  # in relative units: the parameters differ by powers of ten
    scale = np.sqrt(np.diag(H))
    step = np.linalg.solve(H / np.outer(scale, scale), p.grad(b) * b / scale) / scale
    assert np.abs(step).max() <= (1e-8 if dataset.startswith("Lanczos") else 1e-9)
    assert (np.linalg.eigvalsh(H / np.outer(scale, scale)) > 0).all()


STARTS = {
    "Misra1a": ([500, 0.0001], [250, 0.0005]),
    "MGH10": ([2, 400000, 25000], [0.02, 4000, 250]),
    "Kirby2": ([2, -0.1, 0.003, -0.001, 0.00001], [1.5, -0.15, 0.0025, -0.0015, 0.00002]),
    "Nelson": ([2, 0.0001, -0.01], [2.5, 0.000000005, -0.05]),
    "Bennett5": ([-2000, 50, 0.8], [-1500, 45, 0.85]),
}


def test_starts_and_data_are_those_of_the_files():
    assert {p.title for p in suite("nist")} == {f"{d}, start {s}" for d in CERTIFIED for s in (1, 2)}
    for dataset, starts in STARTS.items():
        assert [p.x0.tolist() for p in both(dataset)] == [*starts]
    # of the files' first lines
    for dataset, first in {
        "Misra1a": (10.07, 77.6),
        "ENSO": (12.9, 1.0),
        "Thurber": (80.574, -3.067),
    }.items():
        data = _SETS[dataset]
        assert (data["y"][0], data["x"][0]) == first
        assert len(data["y"]) == len(data["x"]) == CERTIFIED[dataset][0]
    assert all((first.x0 != second.x0).any() for first, second in map(both, CERTIFIED))


def test_no_overflow_where_the_logistic_saturates():
    value, grad = problems["rat43-1"].value_and_grad([100.0, 2000.0, 1.0, 1.0])
    assert np.isfinite([value, *grad]).all()


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
