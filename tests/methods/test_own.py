"""Methods and steps of the user's own: plain classes, with a memory in their fields."""

import numpy as np
import pytest

import steepen as st
from steepen import Proposal

from ..calls import same

STARTS = np.array([[-1.2, 1.0], [0.5, 2.0], [1.0, 1.0]])
F = st.functions["rosenbrock"].at(n=2)


class Momentum(st.Method):
    """Heavy ball; it counts what it was told, too."""

    unit = True
    v, learnt = 0.0, 0

    def learn(self, problem, before, here):
        assert here.k == before.k + 1
        self.learnt += 1

    def direction(self, problem, here):
        assert self.learnt == here.k
        self.v = 0.5 * self.v - here.g
        return self.v


class BarzilaiBorwein(st.Method):
    """p = −α∇f with α = sᵀs/sᵀy, as their paper has it."""

    alpha = 1e-3
    guard = False

    def learn(self, problem, before, here):
        s, y = here.x - before.x, here.g - before.g
        if s @ y > 0:
            self.alpha = float(s @ s / (s @ y))

    def direction(self, problem, here):
        return -self.alpha * here.g


class Curved(st.Method):
    """It asks for a product and for a gradient."""

    def direction(self, problem, here):
        bent = yield from problem.product(here.x, here.g, here.g)
        ahead = yield from problem.gradient(here.x - 1e-3 * here.g)
        return -(here.g + ahead) / 2 - 1e-5 * bent


class Wolfe(st.steps.Step):
    """Bisection for the weak Wolfe conditions; it begins at twice the last step."""

    last = 1.0

    def along(self, problem, here, p, slope):
        low, high, t = 0.0, np.inf, min(1.0, 2 * self.last)
        for _ in range(60):
            x = here.x + t * p
            f = yield from problem.value(x)
            if f > here.f + 1e-4 * t * slope:
                high = t
            else:
                g = yield from problem.gradient(x, f)
                if g @ p >= 0.9 * slope:
                    self.last = t
                    return st.steps.Found(t, x, f, g)
                low = t
            t = 2 * t if high == np.inf else (low + high) / 2
        return None


OWN = {
    "momentum": {"method": Momentum()}, "momentum, fixed": {"method": Momentum(), "step": 1e-3},
    "barzilai-borwein": {"method": BarzilaiBorwein(), "step": 1.0}, "questions": {"method": Curved()},
    "wolfe": {"method": "bfgs", "step": Wolfe()}, "wolfe, cgd-auto": {"method": "cgd-auto", "step": Wolfe()},
    "both": {"method": Momentum(), "step": Wolfe()},
}  # fmt: skip


def run(x0, iters=25, **more):
    return st.minimize(F, x0, budget=st.Budget(iters=iters), trace="x", **more)


@pytest.mark.parametrize("name", OWN)
def test_a_memory_is_resumed_and_belongs_to_one_row(tmp_path, name):
    whole = run(STARTS, **OWN[name])
    for b, x0 in enumerate(STARTS):
        same(whole.row(b), run(x0, **OWN[name]))
    for x0, expected in ((STARTS[0], run(STARTS[0], **OWN[name])), (STARTS, whole)):
        path = tmp_path / f"{np.ndim(x0)}.db"
        run(x0, 7, checkpoint=path, **OWN[name])
        same(run(x0, checkpoint=path, **OWN[name]), expected)


def test_the_object_that_was_given_stays_as_it_was():
    method, step = Momentum(), Wolfe()
    run(STARTS[0], method=method, step=step)
    assert not vars(method)
    assert not vars(step)


def test_a_method_and_a_step_of_ones_own_are_what_they_say():
    """Against the same loops written out."""
    x, alpha, g, points = STARTS[0], 1e-3, F.grad(STARTS[0]), []
    for _ in range(25):
        points.append(x)
        x, before, slope = x - alpha * g, x, g
        g = F.grad(x)
        s, y = x - before, g - slope
        alpha = s @ s / (s @ y) if s @ y > 0 else alpha
    found = run(STARTS[0], gtol=0.0, **OWN["barzilai-borwein"]).trace.x
    np.testing.assert_allclose(found[:10], points[:10], rtol=1e-9)
    trace = run(STARTS[0], iters=60, method="bfgs", step=Wolfe()).trace
    for before, after in zip(trace.x, trace.x[1:], strict=False):  # both of Wolfe's conditions
        way = after - before
        assert F(after) <= F(before) + 1e-4 * F.grad(before) @ way
        assert F.grad(after) @ way >= 0.9 * F.grad(before) @ way - 1e-12
    assert np.linalg.norm(F.grad(trace.x[-1])) < 1e-5


@pytest.mark.bits  # it is about values that are equal to the last bit
@pytest.mark.parametrize("x0", [[1.0, 2.0], [[1.0, 2.0], [3.0, -1.0]]], ids=["one", "many"])
@pytest.mark.parametrize("c", [-1e-4, 0.0, 1e-4, 1.0, np.nan])
def test_the_guard_takes_the_gradient_unless_the_direction_descends(c, x0):
    class Slanted(st.Method):
        def direction(self, problem, here):
            return c * here.g + np.array([-here.g[1], here.g[0]])

    # from 1.5 on the parabola falls by too little: a search that knows the slope of −∇f cuts it to 0.75
    given = {"step": st.steps.Armijo(initial=1.5, c=0.4), "budget": st.Budget(iters=1), "method": Slanted()}
    res = st.minimize(lambda x: (x * x).sum(-1) / 2, x0, jac=lambda x: x, **given)
    assert np.all(res.trace.guarded[0] == (not c < 0))
    if not c < 0:
        assert np.all(res.trace.step[0] == 0.75)
        np.testing.assert_array_equal(res.x, 0.25 * np.array(x0))


def test_a_proposal_that_is_trusted_may_climb():
    class Up(st.Method):
        def direction(self, problem, here):
            return Proposal(np.array([1.0, 0.0]), lam=0.25, trusted=True)

    res = st.minimize(
        lambda x: x @ x, [1.0, 2.0], jac=lambda x: 2 * x, method=Up(), step=0.5, budget=st.Budget(iters=2)
    )
    assert res.x.tolist() == [2.0, 2.0]
    assert res.trace.lam[:2].tolist() == [0.25, 0.25]
    assert not res.trace.guarded.any()


@pytest.mark.parametrize("method", ["gd", "newton", "bfgs", "dfp", "cgd", "cgd-fd", "cgd-bfgs", "cgd-dfp"])
def test_with_a_variable_held_the_others_move_as_if_it_were_a_number(method):
    """The Hessian ties all three; the third is at a bound that f pushes it against."""
    Q, b = np.array([[4.0, 1.0, 1.5], [1.0, 3.0, -1.0], [1.5, -1.0, 2.0]]), np.array([1.0, 2.0, -9.0])
    lam = {"lam": 0.2} if method in ("cgd-fd", "cgd-bfgs") else {}  # in the others it follows the curvature
    given = {"method": method, "step": 0.05, "gtol": 0, "budget": st.Budget(iters=6), **lam}

    def run(Q, b, x0, **more):
        fun, grad = (lambda x: x @ Q @ x / 2 - b @ x), (lambda x: Q @ x - b)
        return st.minimize(fun, x0, jac=grad, hess=lambda x: Q, trace="x", **given, **more).trace.x

    held = run(Q, b, [5.0, -4.0, 1.0], bounds=[(None, None), (None, None), (1.0, None)])
    free = run(Q[:2, :2], b[:2] - Q[:2, 2], [5.0, -4.0])
    assert (held[:, 2] == 1).all()
    np.testing.assert_allclose(held[:, :2], free, rtol=1e-6 if method == "cgd-fd" else 1e-10)


def test_a_method_may_propose_again_after_a_failed_search():
    """As often as it says that it has something else."""

    class Up(st.Method):
        asked = ()

        def direction(self, problem, here):
            return -here.g

        def restart(self, problem, here):
            self.asked = (*self.asked, here.k)
            return len(self.asked) <= 3

    def jac(x):
        slopes.append(x)
        return -2 * x  # a wrong sign

    slopes = []
    # a fixed search of two trials: f, and then two values for each of 1 + 3 proposals
    given = {"method": Up(), "jac": jac, "step": st.steps.Armijo(trials=2)}
    result = st.minimize(lambda x: x @ x, [1.0, 2.0], **given)
    assert (result.status, result.nit) == (st.Status.LINE_SEARCH_FAILED, 0)
    assert result.nfev == 1 + 2 * (1 + 3)
    assert len(slopes) == 1


def test_names_of_before_are_answered_with_what_to_write():
    with pytest.raises(AttributeError, match=r"use steepen\.Method, with `direction`"):
        st.Direction  # noqa: B018
    with pytest.raises(AttributeError, match=r"use steepen\.methods"):
        st.directions  # noqa: B018
    with pytest.raises(AttributeError, match="a step has `along`"):
        st.steps.Along  # noqa: B018
