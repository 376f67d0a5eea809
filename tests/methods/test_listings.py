"""The paper's listings, transcribed line by line, against the library, step for step."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as hs

import steepen as st

from ..objectives import BY_NAME, levy
from ..pairs import pairs


@dataclass
class Steps:
    """What a listing did: its iterates, and of each step whether p was used or the else branch taken."""

    x: list
    used: list = field(default_factory=list)
    refused: list = field(default_factory=list)
    c: list = field(default_factory=list)
    skipped: list = field(default_factory=list)

    def took(self, x, used, refused, skipped=False, c=0):
        self.x.append(x)
        self.used.append(used)
        self.refused.append(refused)
        self.skipped.append(skipped)
        self.c.append(c)
        return x


def listing_of_cgd(f, x, T, alpha, lam):
    out = Steps([x])
    for k in range(T):
        g, H = f.grad(x), f.hess(x)
        p = -(np.eye(len(x)) + 2 * lam(k) * H) @ g
        descent = bool(g @ p < 0)
        x = out.took(x + alpha * p if descent else x - alpha * g, descent, not descent)
    return out


def product_form(G, s, y):
    left = np.eye(len(s)) - np.outer(s, y) / (y @ s)
    return left @ G @ left.T + np.outer(s, s) / (y @ s)


def sum_form(G, s, y):
    return G + np.outer(s, s) / (y @ s) - (G @ np.outer(y, y) @ G) / (y @ G @ y)


UPDATES = {
    "bfgs": product_form,
    "dfp": sum_form,
    "cgd-bfgs": lambda G, s, y: sum_form(G, y, s),
    "cgd-dfp": lambda G, s, y: product_form(G, y, s),
}
"""Of the inverse Hessian, and of the Hessian."""


def listing_of_qn(f, x, T, alpha, lam, method):
    """CGD-QN, and x₊ = x − α·G·∇f of the preliminaries; a pair without positive curvature is skipped."""
    out, penalised, G = Steps([x]), method.startswith("cgd"), np.eye(len(x))
    for k in range(T):
        g = f.grad(x)
        p = -(np.eye(len(x)) + 2 * lam(k) * G) @ g if penalised else -G @ g
        descent = bool(g @ p < 0)
        new = x + alpha * p if descent else x - alpha * g
        s, y = new - x, f.grad(new) - g
        skip = bool(y @ s <= 1e-10 * np.linalg.norm(y) * np.linalg.norm(s))
        G = G if skip else UPDATES[method](G, s, y)
        x = out.took(new, descent and penalised, not descent, skip)
    return out


def listing_of_cgd_fd(f, x, T, alpha, lam, r, b):
    out, use_cgd, c = Steps([x], c=[0]), True, 0
    for k in range(T):
        if c == T:
            return out
        nu = 2 * lam(k) / r
        g = f.grad(x)
        p, descent, refused = -g, False, False
        if use_cgd:
            p = -(1 - nu) * g - nu * f.grad(x + r * g)
            c = c + 2
            descent = bool(g @ p < 0)
            refused = not descent
            p = p if descent else -g
        else:
            c = c + 1
        if refused or k >= b:
            use_cgd = False
        x = out.took(x + alpha * p, descent, refused, c=c)
    return out


def coefficients(lam, T):
    values = np.linspace(*lam, T) if isinstance(lam, tuple) else np.full(T, lam)
    return lambda k: float(values[k])


def agrees(paper, problem, method, T, lam, rtol=1e-10, **given):
    given |= {"lam": st.L(*lam) if isinstance(lam, tuple) else lam} if method.startswith("cgd") else {}
    given = {"budget": st.Budget(iters=T)} | given
    res = st.minimize(problem.fun, problem.x0, jac=problem.grad, method=method, gtol=0, trace="x", **given)
    found, expected = res.trace.x, np.array(paper.x)
    assert found.shape == expected.shape
    scale = np.maximum(np.linalg.norm(expected, axis=-1, keepdims=True), 1e-3)
    assert (np.abs(found - expected) <= rtol * scale).all()
    assert res.trace.penalised[:-1].tolist() == paper.used
    assert res.trace.guarded[:-1].tolist() == paper.refused
    value = coefficients(lam, T)
    expected = [value(k) if used else 0.0 for k, used in enumerate(paper.used)]
    assert np.allclose(res.trace.lam[:-1], expected, rtol=1e-14)
    return res


NEAR_GUARD = levy((-7.7,))


@pytest.mark.parametrize(
    ("problem", "alpha", "lam"),
    [
        (BY_NAME["ill_conditioned"], 0.001, 0.01),
        (BY_NAME["logistic"], 0.3, 0.5),
        (BY_NAME["booth"], 0.01, -0.02),
        (BY_NAME["near_saddle"], 0.05, 0.4),
        (NEAR_GUARD, 0.02, 0.2),
        (levy((-9.4186315, -5.2738909)), 0.02, (0.01, 0.1)),
    ],
    ids=str,
)
def test_cgd(problem, alpha, lam):
    paper = listing_of_cgd(problem, problem.x0, 20, alpha, coefficients(lam, 20))
    for second in ({"hess": problem.hess}, {"hvp": problem.hvp}):
        agrees(paper, problem, "cgd", 20, lam, step=alpha, **second)
    if problem is NEAR_GUARD:  # the guard fires and lets go again: there is no switch
        assert paper.refused[0]
        assert not paper.refused[-1]


def agrees_with_qn(problem, T, alpha, lam, method):
    paper = listing_of_qn(problem, problem.x0, T, alpha, coefficients(lam, T), method)
    res = agrees(paper, problem, method, T, lam, step=alpha)
    assert (res.trace.njev == np.arange(T + 1)).all()
    return paper


@pytest.mark.parametrize("method", sorted(UPDATES))
@pytest.mark.parametrize(
    ("problem", "alpha", "lam"),
    [
        (BY_NAME["logistic"], 0.3, 0.5),
        (BY_NAME["chain40"], 0.005, 0.3),
        (BY_NAME["quadratic"], 0.02, -0.45),  # 1 + 2λ > 0, but the matrix grows: the guard fires
        (BY_NAME["chain40"], 0.005, -0.6),  # at once, as 1 + 2λ < 0
        (BY_NAME["logistic"], 0.2, (0.0, 0.5)),
    ],
    ids=str,
)
def test_quasi_newton(problem, alpha, lam, method):
    paper = agrees_with_qn(problem, 15, alpha, lam, method)
    assert not any(paper.skipped), "not a case for the listing alone"
    assert any(paper.refused) == (np.min(lam) < 0 and method.startswith("cgd"))


@pytest.mark.parametrize("method", sorted(UPDATES))
def test_a_pair_of_negative_curvature_leaves_the_matrix_as_it_was(method):
    paper = agrees_with_qn(replace(BY_NAME["near_saddle"], start=(0.3, 0.1)), 20, 0.1, -0.1, method)
    assert not paper.skipped[0]
    assert any(paper.skipped)


def agrees_with_cgd_fd(problem, T, alpha, lam, r, b=None, rtol=1e-10):
    last = T // 4 if b is None else b
    paper = listing_of_cgd_fd(problem, problem.x0, T, alpha, coefficients(lam, T), r, last)
    # the listing's test `c = T` can be jumped over by a step of 2: a budget cannot
    fits = int(np.sum(np.array(paper.c) <= T))
    paper = Steps(paper.x[:fits], paper.used[: fits - 1], paper.refused[: fits - 1], paper.c[:fits])
    res = agrees(paper, problem, "cgd-fd", T, lam, rtol, step=alpha, r=r, b=b, budget=st.Budget(grads=T))
    assert res.trace.njev.tolist() == paper.c
    assert res.njev <= T
    assert res.status is st.Status.MAX_GRADIENTS
    return paper


STEEP = (
    (levy((-9.4186315, -5.2738909)), 0.05, (0.01, 0.1), 0.01),
    (BY_NAME["beale"], 0.002, 0.01, 0.05),
    (BY_NAME["ill_conditioned"], 0.001, 0.01, 0.1),
)


@pairs(T=[1, 2, 3, 4, 7, 8, 39, 40, 41], given=STEEP)
def test_cgd_fd(given, T):
    problem, *rest = given
    agrees_with_cgd_fd(problem, T, *rest)


@pairs(b=[0, 1, 5, 39, 100], T=[5, 40, 41])
def test_cgd_fd_threshold(b, T):
    paper = agrees_with_cgd_fd(BY_NAME["logistic"], T, 0.2, 0.3, 0.05, b=b)
    assert sum(paper.used) == min(b + 1, T // 2), "the listing makes b + 1 penalised iterations"


@pytest.mark.parametrize(
    ("problem", "alpha", "lam", "r"),
    [(NEAR_GUARD, 0.02, 0.2, 1e-3), (levy((-7.4, -7.0)), 0.01, (0.0, 1.0), 1e-2)],
    ids=str,
)
def test_cgd_fd_guard(problem, alpha, lam, r):
    paper = agrees_with_cgd_fd(problem, 40, alpha, lam, r)
    assert sum(paper.refused) == 1, "the guard fires, and ends the penalty"
    assert not any(paper.used[paper.refused.index(True) :])


@given(
    hs.tuples(hs.floats(-2, 2), hs.floats(-2, 2)), hs.integers(1, 50), hs.integers(0, 30),
    hs.floats(-0.5, 2.0), hs.floats(0.01, 0.3),
)  # fmt: skip
def test_cgd_fd_anywhere(x, T, b, lam, r):
    start = replace(BY_NAME["near_saddle"], start=x)
    assume(np.any(start.grad(start.x0)))  # a stationary start is converged, whatever the budget
    paper = listing_of_cgd_fd(start, start.x0, T, 0.01, coefficients(lam, T), r, b)
    assume(np.isfinite(paper.x).all() and np.abs(paper.x).max() < 10)
    agrees_with_cgd_fd(start, T, 0.01, lam, r, b=b, rtol=1e-8)
