"""`gen_candidates` in BoTorch's own loop, beside BoTorch's own: the behaviours that its callers count on."""

import warnings

import numpy as np
import pytest
import torch
from botorch.acquisition import LogExpectedImprovement, PosteriorMean, qLogExpectedImprovement
from botorch.exceptions.errors import BotorchError
from botorch.exceptions.warnings import OptimizationWarning
from botorch.generation.gen import gen_candidates_scipy
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf, optimize_acqf_mixed
from botorch.sampling import SobolQMCNormalSampler
from scipy.optimize import OptimizeWarning

from steepen.integrations.botorch import gen_candidates

D = torch.float64
BOX = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], dtype=D)


def peaks(X):
    x = X.squeeze(-2)
    return (-30 * ((x - 0.7) ** 2).sum(-1)).exp() + 0.6 * (-5 * ((x - 0.2) ** 2).sum(-1)).exp()


class Counted:
    """An acquisition function that remembers what it was given."""

    def __init__(self, function):
        self.function, self.shapes = function, []

    def __call__(self, X):
        self.shapes.append(tuple(X.shape))
        return self.function(X)


@pytest.fixture(scope="module")
def model():
    X = torch.rand(12, 3, dtype=D, generator=torch.Generator().manual_seed(1))
    found = SingleTaskGP(X, (4 * X).sin().sum(-1, keepdim=True))
    found.covar_module.lengthscale = 0.4
    found.likelihood.noise = 1e-3
    return found.eval()


@pytest.fixture
def starts():
    return torch.rand(16, 1, 3, dtype=D, generator=torch.Generator().manual_seed(0))


def test_the_best_is_that_of_the_peers_in_fewer_calls(model, starts):
    acquisition = LogExpectedImprovement(model, best_f=2.0)
    theirs, ours = Counted(acquisition), Counted(acquisition)
    _, reference = gen_candidates_scipy(starts, theirs, BOX[0], BOX[1])
    candidates, values = gen_candidates(starts, ours, BOX[0], BOX[1])
    assert values.max() >= reference.max() - 1e-6 * reference.max().abs()
    assert len(ours.shapes) < len(theirs.shapes)
    assert candidates.shape == starts.shape
    assert values.shape == (16,)
    assert not candidates.requires_grad
    assert not values.requires_grad
    torch.testing.assert_close(values, acquisition(candidates), rtol=1e-9, atol=1e-9)


def test_rows_that_end_leave_the_batch_and_without_the_race_all_are_at_a_maximum(starts):
    counted = Counted(peaks)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gen_candidates(starts, counted, BOX[0], BOX[1])
    rows = [shape[0] for shape in counted.shapes]
    assert rows[0] == 16
    assert rows == sorted(rows, reverse=True)
    assert rows[-1] < 16
    X = gen_candidates(starts, peaks, BOX[0], BOX[1], options={"race": False})[0].requires_grad_()
    (g,) = torch.autograd.grad(peaks(X).sum(), X)
    assert torch.where((X <= 0) | (X >= 1), 0.0, g).abs().max() < 1e-4


@pytest.mark.filterwarnings("ignore:A not p.d.")
def test_a_single_start_without_a_batch(model):
    start = torch.tensor([[0.4, 0.4, 0.4], [0.8, 0.2, 0.6]], dtype=D)
    acquisition = qLogExpectedImprovement(model, 2.0, SobolQMCNormalSampler(torch.Size([16]), seed=0))
    candidates, value = gen_candidates(start, acquisition, 0.0, 1.0)
    assert candidates.shape == (2, 3)
    assert value.shape == (1,)
    assert value >= acquisition(start) - 1e-9


@pytest.mark.parametrize("lower", [None, 0.25, BOX[0] + 0.25])
def test_bounds_of_every_form(starts, lower):
    candidates, _ = gen_candidates(0.3 + 0.5 * starts, lambda X: -(X.sum(dim=(-1, -2)) ** 2), lower, 1.0)
    if lower is None:
        assert candidates.sum(dim=-1).abs().min() < 1e-5  # free below
    else:
        assert candidates.min() == 0.25


def test_fixed_features_stay_and_the_rest_is_optimal(starts):
    candidates, values = gen_candidates(starts, peaks, BOX[0], BOX[1], fixed_features={1: 0.5})
    assert (candidates[..., 1] == 0.5).all()

    def inner(X):
        return peaks(torch.stack([X[..., 0], torch.full_like(X[..., 0], 0.5), X[..., 1]], dim=-1))

    _, reference = gen_candidates_scipy(starts[..., [0, 2]], inner, 0.0, 1.0)
    torch.testing.assert_close(values.max(), reference.max(), rtol=1e-6, atol=0.0)


def test_fixed_features_of_each_row(starts):
    value = torch.linspace(0.1, 0.9, 16, dtype=D)
    given = {"lower_bounds": 0.0, "upper_bounds": 1.0, "options": {"race": False}}
    candidates, values = gen_candidates(starts, peaks, **given, fixed_features={2: value})
    torch.testing.assert_close(candidates[:, 0, 2], value, rtol=0, atol=0)
    for i in (0, 15):
        _, its = gen_candidates(starts[i : i + 1], peaks, **given, fixed_features={2: float(value[i])})
        torch.testing.assert_close(values[i : i + 1], its, rtol=1e-5, atol=1e-7)


def test_without_time_or_anything_that_moves_the_starts_are_evaluated(starts):
    candidates, values = gen_candidates(starts, peaks, 0.0, 1.0, timeout_sec=1e-9)
    torch.testing.assert_close(candidates, starts)
    torch.testing.assert_close(values, peaks(starts))
    candidates, values = gen_candidates(starts, peaks, 0.0, 1.0, fixed_features={0: 0.7, 1: 0.7, 2: 0.7})
    assert (candidates == 0.7).all()
    torch.testing.assert_close(values, peaks(candidates))


def test_limits_by_botorchs_names(starts):
    def calls(**options):
        counted = Counted(peaks)
        gen_candidates(starts, counted, 0.0, 1.0, options=options)
        return len(counted.shapes)

    assert 2 <= calls(maxiter=1) < calls(maxiter=4) < calls()  # a step may take more than one trial
    assert calls(maxfun=3) == 3
    assert calls(ftol=1e-4, pgtol=1e-2) < calls(ftol=1e-12, gtol=1e-9)


@pytest.mark.parametrize("best", [True, False])
def test_in_optimize_acqf(model, best):
    torch.manual_seed(0)
    acquisition = LogExpectedImprovement(model, best_f=2.0)
    given = {"q": 1, "num_restarts": 6, "raw_samples": 64, "return_best_only": best}
    X, value = optimize_acqf(acquisition, BOX, gen_candidates=gen_candidates, options={"seed": 0}, **given)
    assert X.shape == ((1, 3) if best else (6, 1, 3))
    assert value.shape == (() if best else (6,))
    torch.manual_seed(0)  # the starts are drawn from the raw samples by it
    _, reference = optimize_acqf(acquisition, BOX, options={"seed": 0}, **given)
    assert value.max() >= reference.max() - 1e-6 * reference.max().abs()


@pytest.mark.filterwarnings("ignore:A not p.d.")
@pytest.mark.parametrize("sequential", [True, False])
def test_q_points_one_by_one_and_at_once(model, sequential):
    acquisition = qLogExpectedImprovement(model, 2.0, SobolQMCNormalSampler(torch.Size([16]), seed=0))
    given = {"q": 3, "num_restarts": 4, "raw_samples": 32, "sequential": sequential}
    X, _ = optimize_acqf(acquisition, BOX, gen_candidates=gen_candidates, options={"seed": 1}, **given)
    assert X.shape == (3, 3)
    drawn = torch.rand(500, 3, 3, dtype=D, generator=torch.Generator().manual_seed(2))
    assert acquisition(X[None]) > acquisition(drawn).max()  # which maximum hangs on the drawn starts
    assert acquisition.X_pending is None


def test_batch_limit_fixed_and_mixed_features_and_a_time_limit(model):
    given = {"q": 1, "raw_samples": 16, "gen_candidates": gen_candidates}
    limits = {"timeout_sec": 60.0, "options": {"batch_limit": 2, "maxiter": 50}, "fixed_features": {0: 0.3}}
    X, value = optimize_acqf(PosteriorMean(model), BOX, num_restarts=5, **limits, **given)
    assert X[0, 0] == 0.3
    torch.testing.assert_close(value, PosteriorMean(model)(X[None])[0])
    lists = [{0: 0.1}, {0: 0.9}]
    X, _ = optimize_acqf_mixed(PosteriorMean(model), BOX, num_restarts=2, fixed_features_list=lists, **given)
    assert X[0, 0].item() in (0.1, 0.9)


@pytest.mark.parametrize("where", ["value", "gradient"])
def test_a_row_that_is_nan_ends_and_the_others_go_on(starts, where):
    bad = starts.clone()
    bad[3] = 2.0

    def holed(X):
        spoilt = X[:, 0, 0] > 1.5
        if where == "value":
            return torch.where(spoilt, torch.nan, peaks(X))
        return peaks(X) + torch.where(spoilt, (1.5 - X[:, 0, 0]).sqrt() * 0, 0.0)

    candidates, values = gen_candidates(bad, holed, 0.0, 2.0)
    _, reference = gen_candidates(starts, peaks, 0.0, 2.0)
    assert values[3] == -torch.inf if where == "value" else values[3] <= 1.0
    assert values.argmax() != 3
    torch.testing.assert_close(values.max(), reference.max(), rtol=1e-7, atol=0.0)
    assert torch.isfinite(candidates).all()


CONSTRAINT = [(torch.tensor([0]), torch.tensor([1.0], dtype=D), 0.0)]


REFUSED = {
    "Lower bounds cannot exceed upper": {"lower_bounds": 1.0, "upper_bounds": 0.0},
    "expanded size": {"lower_bounds": torch.zeros(2), "upper_bounds": 1.0},
    "out of bounds": {"lower_bounds": 0.5, "upper_bounds": 1.0},
    "(?s)out of bounds.*X=": {"fixed_features": {0: 2.0}, "upper_bounds": 1.0},
    "fixed_features: expected features between 0 and 2": {"fixed_features": {5: 0.1}},
    "shape mismatch|must match": {"fixed_features": {0: torch.zeros(7)}},
    "maxiter": {"options": {"maxiter": 0}},
    "inequality_constraints.*gen_candidates_scipy": {"inequality_constraints": CONSTRAINT},
    "equality_constraints.*gen_candidates_scipy": {"equality_constraints": CONSTRAINT},
    "nonlinear_inequality_constraints": {"nonlinear_inequality_constraints": CONSTRAINT},
}


def test_what_cannot_be_is_refused_before_any_call(starts):
    counted = Counted(peaks)
    for message, given in REFUSED.items():
        with pytest.raises((ValueError, RuntimeError, BotorchError), match=message):
            gen_candidates(starts, counted, **given)
    assert not counted.shapes


def test_starts_and_functions_of_the_wrong_form():
    starts = torch.zeros(2, 1, 3, dtype=D)
    for message, X, function in (
        ("initial_conditions: expected a tensor", np.zeros((2, 1, 3)), peaks),
        (r"initial_conditions: expected a tensor .* got Tensor \(3,\)", starts[0, 0], peaks),
        ("acquisition_function: expected one value for each of 2 rows", starts, lambda X: X.sum()),
        ("acquisition_function: its value has no gradient", starts, lambda X: X.detach().sum(dim=(-1, -2))),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            gen_candidates(X, function, 0.0, 1.0)
    nothing = lambda X: X.sum(dim=(-1, -2)) * torch.nan  # noqa: E731
    unknown = pytest.warns(OptimizeWarning, match="options: 'maxitre' is unknown and is ignored")
    with pytest.warns(OptimizationWarning, match="No start"), unknown:
        _, values = gen_candidates(starts, nothing, 0.0, 1.0, options={"maxitre": 5})
    assert (values == -torch.inf).all()


def test_a_model_in_training_mode_is_set_to_evaluation(model, starts):
    acquisition = PosteriorMean(model)
    model.train()
    _, values = gen_candidates(starts, acquisition, 0.0, 1.0)
    assert not model.training
    torch.testing.assert_close(values.max(), gen_candidates(starts, acquisition, 0.0, 1.0)[1].max())


def test_float32_stays(starts):
    candidates, values = gen_candidates(starts.float(), peaks, 0.0, 1.0)
    assert candidates.dtype == values.dtype == torch.float32
    assert values.max() > 0.999 * gen_candidates(starts, peaks, 0.0, 1.0)[1].max()


def test_a_batch_that_does_not_fit_is_split(starts):
    def small(X):
        if len(X) > 5:
            raise torch.OutOfMemoryError
        return peaks(X)

    counted = Counted(small)
    candidates, values = gen_candidates(starts, counted, 0.0, 1.0)
    whole, reference = gen_candidates(starts, peaks, 0.0, 1.0)
    torch.testing.assert_close(candidates, whole)
    torch.testing.assert_close(values, reference)
    refused = [shape[0] for shape in counted.shapes if shape[0] > 5]
    assert refused == [16, 8]  # asked once each, and never again

    with pytest.raises(torch.OutOfMemoryError):
        gen_candidates(starts, lambda X: small(starts), 0.0, 1.0)
