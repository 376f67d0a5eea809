"""What the page computes, links and says, by its own script in Node: its numbers are the library's."""

import mpmath
import numpy as np
import pytest
from tests.paper.explorer.node import ran

import steepen as st
from steepen.paper import explore
from steepen.paper.experiments import EXPERIMENTS
from steepen.theory import artificial_points, classify

BOX = np.array([(-2.0, 2.0), (-1.5, 2.0)])


def wavy(x):
    return np.sin(2 * x[0]) + x[0] ** 2 * x[1] ** 2 / 4 + (x[1] - 0.3) ** 2


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return explore(wavy, BOX, out=tmp_path_factory.mktemp("explorer") / "page.html", samples=21)


PARTS = "given.map(([name, ...xv]) => ['value', 'grad', 'hvp'].map((part) => functions[name][part](...xv)))"


def test_every_function_has_its_values_and_derivatives(page):
    rng, cases = np.random.default_rng(3), []
    for name, fun in st.functions.items():
        for n, key in ((1, name if fun.n == 1 else f"{name}-1d"), (2, name)):
            try:
                at = fun.at(n)
            except ValueError:  # it does not exist for this n
                continue
            cases += [(key, at, x, rng.normal(size=n)) for x in rng.uniform(*at.bounds.T, size=(3, n))]
    assert {key for key, *_ in cases} | {"yours"} == set(ran(page, "Object.keys(functions)"))
    found = ran(page, PARTS, [(key, x.tolist(), v.tolist()) for key, _, x, v in cases])
    for (key, fun, x, v), ours in zip(cases, found, strict=True):
        for a, b in zip(ours, (fun(x), fun.grad(x), fun.hvp(x, v)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11 * np.abs(b).max(), err_msg=key)


def test_a_sampled_function_is_the_cubic_spline_of_scipy(page):
    from scipy.interpolate import RectBivariateSpline

    sides = [np.linspace(*side, 21) for side in BOX]
    values = np.array([[wavy((x, y)) for y in sides[1]] for x in sides[0]])
    theirs = RectBivariateSpline(*sides, values)
    points = np.random.default_rng(5).uniform(*BOX.T, size=(9, 2))
    found = ran(page, PARTS, [("yours", x.tolist(), [1.0, 0.0]) for x in points])
    for (x, y), ours in zip(points, found, strict=True):
        wanted = [theirs(x, y, dx=dx, dy=dy).item() for dx, dy in ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1))]
        np.testing.assert_allclose([ours[0], *ours[1], *ours[2]], wanted, rtol=1e-9, atol=1e-9)
    assert ran(page, PARTS, [("yours", [2.01, 0.0], [1.0, 0.0])])[0] == [None, [None] * 2, [None] * 2]


CASES = {  # start, α, λ, r
    "branin": ([-4.751, 12.459], 0.01, 0.07, 0.2),
    "gramacy-lee": ([1.8], 0.0005, 0.0005, 0.001),
    "sphere": ([3.0, 4.0], 1e308, 0.1, 0.1),  # diverges
    "rotated-hyper-ellipsoid": ([1.0, 0.0], 0.25, 0.1, 0.1),  # converges
    "booth": ([-9.0, 9.0], 0.01, -0.4, None),  # the guard fires
}


def test_every_method_runs_as_in_python(page):
    cases, seen = [(key, method, *CASES[key]) for key in CASES for method in ("gd", "cgd", "cgd-fd")], set()
    more = "{ step, lam, r, grads: 21, price: 0 }"  # the library charges no gradient for an H·v
    run = f"given.map(([key, method, x, step, lam, r]) => minimize(functions[key], x, method, {more}))"
    for (key, method, x0, step, lam, r), ours in zip(cases, ran(page, run, cases), strict=True):
        given = {"gd": {}, "cgd": {"lam": lam}, "cgd-fd": {"lam": lam} | ({"r": r} if r else {})}[method]
        given |= {"method": method, "step": step, "budget": st.Budget(grads=21), "trace": "x"}
        with np.errstate(all="ignore"):
            res = st.minimize(st.functions[key], x0, **given)
        seen.add(res.status.name)
        assert (ours["status"], ours["njev"], ours["nhvp"]) == (res.status.name, res.njev, res.nhvp), key
        for name in ("njev", "nhvp", "penalised", "guarded", "x", "f", "lam", "step"):
            wanted = np.array(getattr(res.trace, name), dtype=float)
            wanted[np.isinf(wanted)] = np.nan  # JSON has neither
            close = {"rtol": 0, "atol": 1e-10 * np.nanmax(np.abs(wanted), initial=1.0)}
            found = np.array([row[name] for row in ours["trace"]], dtype=float)
            np.testing.assert_allclose(found, wanted, **close, err_msg=f"{name}: {key}, {method}")
    assert seen >= {"CONVERGED", "MAX_GRADIENTS", "DIVERGED"}


SET = "const scene = new Scene(functions); scene.set({ ...initial(functions, name), ...more });"
PLANE = "functions.plane = typed('x - y', [-5, 5]).fun"
SEEN = f"{PLANE}, given.map(([name, more]) => {{ {SET} return verdict(scene); }})"


def test_the_page_opens_on_the_papers_first_step(page):
    opened, table = ran(page, "fromHash(functions, '', 'branin')"), EXPERIMENTS["branin"]
    wanted = {"start": list(table.x0), "lam": table.lam0, "step": table.alpha, "r": table.r, "at": 0}
    assert opened == {"settings": opened["settings"] | wanted, "wrong": {}}
    [said] = ran(page, SEEN, [("branin", {})])
    assert "GD lowers f by 38 %, CGD-FD lowers f by 87 %." in said  # Table 1: 37.53 and 87.07
    assert "for two, GD takes two steps, and they lower f by 61 %" in said


def test_a_verdict_names_overshoot_divergence_and_another_basin(page):
    cases = {
        "GD overshoots: f rises at step 2.": ("levy-1d", {"start": [-8.0], "step": 1.0, "methods": ["gd"]}),
        "CGD-FD overshoots: f rises at step 1. GD is lower than CGD-FD": ("branin", {"step": 0.03}),
        "CGD-FD diverges: α = 0.06 is too large for f + λ‖∇f‖² here.": ("branin", {"step": 0.06, "lam": 0.3}),
        "CGD-FD is lower than GD; they are in different basins.": ("six-hump-camel", {}),
        "The penalised steps of CGD-FD cost two gradients each": ("sphere", {"step": 0.7, "lam": 0.05}),
        "CGD-FD overshoots, and f rises from": ("branin", {"lam": 0.5, "at": 0}),
        "CGD-FD is lower than GD after 40 gradients. Here λ makes up for": ("branin", {}),
        "GD stepped to where f has no value": ("yours", {"start": [1.9, 1.9], "step": 3.0}),
        "f has no value at this start": ("yours", {"start": [9.0, 9.0]}),
        "GD has left the map, and f still falls there.": ("plane", {"start": [0.0, 0.0], "step": 1.0}),
    }
    told = ran(page, SEEN, [(name, {"at": 40} | more) for name, more in cases.values()])
    assert [words for words, said in zip(cases, told, strict=True) if words not in said] == [], told


def test_artificial_minima_are_those_of_the_theory(page):
    made = f"const more = {{ lam: 0.5, box: null }}; {SET} return scene.artificial;"
    found = ran(page, f"['levy-1d', 'goldstein-price'].map((name) => {{ {made} }})")
    line, plane = st.functions["levy"].at(1), st.functions["goldstein-price"]
    d1, d2 = (lambda x: line.grad(x[:, None])[:, 0]), (lambda x: line.hvp(x[:, None], np.ones(1))[:, 0])
    points = artificial_points(d1, d2, 0.5, tuple(line.bounds[0]))
    minima = points[d1(points) * (d2(points + 1e-4) - d2(points - 1e-4)) > 0]  # where f′f‴ > 0
    np.testing.assert_allclose(np.ravel(found[0]), minima, rtol=1e-8)
    assert min(len(minima), len(found[1])) > 1
    for x in found[1]:
        assert classify(x, plane.grad, plane.hvp, 0.5, tol=1e-4) == "artificial"


def test_every_function_opens_with_a_run_worth_seeing_and_its_minimum_in_view(page):
    report = """Object.keys(functions).map((name) => { const more = {}; SET
      const xs = scene.runs.flatMap((one) => one.trace.map((row) => row.x));
      const filled = scene.box.map(([low, high], i) => {
        const inside = xs.map((x) => x[i]).filter((x) => x >= low && x <= high);
        return (Math.max(...inside) - Math.min(...inside)) / (high - low);
      });
      return { name, known: scene.known, heights: scene.heights, filled: Math.max(...filled), box: scene.box,
               ends: scene.runs.map(({ trace }) => [trace[0], trace.at(-1)].map((row) => scene.gap(row.f))) };
    })""".replace("SET", SET)
    for one in ran(page, report):
        (low, high), ends = one["heights"], one["ends"]
        assert one["known"] == (one["name"] != "yours"), one
        assert low < high, one
        assert min(last for _, last in ends) < (0.995 if ends[0][0] > 0 else 1.005) * ends[0][0], one
        assert one["filled"] > 0.1, one
        if one["name"] in EXPERIMENTS and one["name"] != "griewank":  # of which the minimum is far
            (low, high), fun = np.array(one["box"]).T, st.functions[one["name"]].at(len(one["box"]))
            assert np.any(np.all((fun.minima > low) & (fun.minima < high), axis=1)), one


LINKS = {  # what is asked for, the field below which it is answered, and the answer
    "lam=abc": ("lam", "λ must be a number, not “abc”."),
    "step=0": ("step", "α must be a number above 0, not “0”."),
    "grads=1e9": ("grads", "T must be a whole number from 1 to 1000, not “1e9”."),
    "r=-1": ("r", "r must be a number above 0, or auto, not “-1”."),
    "b=2.5": ("b", "b must be a whole number from 0 to 1000, or auto, not “2.5”."),
    "at=": ("at", "at must be a whole number from 0 to 1000, not “”."),
    "start=1,2,3": ("start", "The start must be two numbers, not “1,2,3”."),
    "box=3,1,0,0": ("box", "The box must be 4 numbers, each low one before its high one, not “3,1,0,0”."),
    "methods=cgd-auto": ("methods", "This page does not have cgd-auto; it has GD, CGD and CGD-FD."),
    "penalty=l1": ("lam", "This page no longer has other penalties than ‖∇f‖²."),
    "search=armijo": ("step", "This page no longer has a line search: α is constant."),
    "function=__proto__": ("function", "There is no function “__proto__” on this page."),
    "function=typed&expr=x%5E(": ("expr", "Something is missing at the end."),
    "function=typed&expr=%E0%A4%A": ("expr", "“\ufffd” at 1 is not understood."),
    "function=typed&expr=(x+1": ("expr", "The bracket at 1 is never closed."),
    "function=typed&expr=sin x": ("expr", "sin at 1 needs a bracket: sin(…)."),
    "function=typed&expr=x[2]^2": ("expr", "“x[2]” at 1 is not known; known are x[0] and x[1]."),
    "function=typed&expr=x + y[0]": ("expr", "“y[0]” at 5 is not known; known are x[0] and x[1]."),
    "function=typed&expr=x[x]": ("expr", "“x[x]” at 1 is not known; known are x[0] and x[1]."),
    "function=typed&expr=x1 + x[1]": (
        "expr",
        "“x” at 6: x[0] and x[1] cannot be mixed with other names of x and y.",
    ),
    "function=typed&expr=(x^2)[0]": ("expr", "“[” at 6 is out of place."),
    "function=typed&expr=(x + 1]": ("expr", "The bracket “(” at 1 is closed by “]” at 7."),
    "function=typed&expr=x 2 + y": ("expr", "“2” at 3 is out of place."),
    "function=typed&expr=1/x^2/0": ("expr", "It has no value anywhere on the map."),
    "function=typed&expr=log(-1-x^2)": ("expr", "It has no value anywhere on the map."),
    "function=typed&expr=x" + "+x" * 500: ("expr", "1001 characters are too many: 1000 at most."),
}


def test_what_is_wrong_in_a_link_is_said_below_its_field_and_the_rest_is_drawn(page):
    hashes = [asked if "function" in asked else f"function=branin&gtol=1&{asked}" for asked in LINKS]
    found = ran(page, "given.map((hash) => fromHash(functions, `#${hash}`, 'yours'))", [*hashes, "%%%&&=="])
    assert found.pop()["settings"]["function"] == "yours"
    for asked, one in zip(LINKS, found, strict=True):
        field, answer = LINKS[asked]
        assert one["wrong"] == {field: answer}
        wanted = {"methods": ["gd", "cgd-fd"], "grads": 40, "function": "yours"}
        wanted |= {} if "function" in asked else {"function": "branin", "lam": 0.07, "step": 0.01}
        assert one["settings"] == one["settings"] | wanted


def test_a_link_opens_exactly_what_was_drawn(page):
    links = [
        "function=branin&lam=-1e+21&r=auto&b=3&at=17&methods=cgd,cgd-fd&start=-4.1,12&grads=30&step=0.5",
        "function=typed&expr=x^4 - 3x^2 + x + y&map=-3,2.5&grads=7&methods=&r=0.3&box=whole",
    ]
    again = """given.map((link) => {
      const { settings } = fromHash(functions, `#${link}`, "yours");
      new Scene(functions).set(settings);
      return [{ settings, wrong: {} }, fromHash(functions, toHash(settings), "yours")];
    })"""
    set_ = [{"lam": -1e21, "r": None, "b": 3, "at": 17, "methods": ["cgd", "cgd-fd"], "start": [-4.1, 12]}]
    set_ += [
        {"expr": "x^4 - 3x^2 + x + y", "map": [-3, 2.5], "grads": 7, "at": 7, "methods": [], "box": None}
    ]
    for wanted, (drawn, there) in zip(set_, ran(page, again, links), strict=True):
        assert there == there | drawn | {"settings": drawn["settings"] | wanted}


TYPED = {
    "(x - 1)^2 + 100 (y - x^2)**2": lambda x, y: (x - 1) ** 2 + 100 * (y - x**2) ** 2,
    "-x^2 y/3 + 2^-y + 3 sin(y)": lambda x, y: -(x**2) * y / 3 + mpmath.mpf(2) ** -y + 3 * mpmath.sin(y),
    "(2 + x^2)^y - sinh(x) cosh(y)": lambda x, y: (2 + x**2) ** y - mpmath.sinh(x) * mpmath.cosh(y),
    "x₁^4 − 3·x₂^3 + 1.5e-1 x1 x2": lambda x, y: x**4 - 3 * y**3 + mpmath.mpf(0.15) * x * y,
    "x[0]**2 + 3*x[0]*x[1]**3": lambda x, y: x**2 + 3 * x * y**3,
    "np.exp(-x[1])*math.sin(2 * np.pi * x[0])": lambda x, y: mpmath.exp(-y) * mpmath.sin(2 * mpmath.pi * x),
    "[x + 1]^2 {y - 1} + arctan(y)": lambda x, y: (x + 1) ** 2 * (y - 1) + mpmath.atan(y),
    "x^2 y + 2 x/3 + y^(2)x": lambda x, y: x**2 * y + 2 * x / 3 + y**2 * x,
    "atan(x y) - log(4 + y)/tan(x)": lambda x, y: mpmath.atan(x * y) - mpmath.log(4 + y) / mpmath.tan(x),
}


def test_a_typed_function_has_exact_derivatives(page):
    points = [[0.7, -1.3], [-1.9, 0.4], [2.5, 1.1]]
    parts = """given[0].map((text) => typed(text, [-5, 5]).fun).map((fun) =>
      given[1].map((x) => [fun.value(x), ...fun.grad(x), ...fun.hvp(x, [1, 0]), ...fun.hvp(x, [0, 1])]))"""
    orders = ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (1, 1), (0, 2))
    for fun, found in zip(TYPED.values(), ran(page, parts, [list(TYPED), points]), strict=True):
        with mpmath.workdps(40):
            exact = [[float(mpmath.diff(fun, x, order)) for order in orders] for x in points]
        np.testing.assert_allclose(found, exact, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    "text",
    [
        *("x3", "x0^2", "x12", "xy", "y2", "x_1", "np.log10(x)", "x[0", "x//2", "x % 2", "log2(x)"),
        *("1/2x", "1/x y", "1/2(x + 1)", "x^2y", "e^2x", "2**3x", "x[2]", "x[i]", "x[0][1]", "x(0)[1]"),
        *("abs x", "sin x", "f(x) = x", "lambda x: x", "x, y", "|x|", "(x + 1", "x)", "x^^2", "x²"),
    ],
)
def test_what_might_be_another_function_is_refused(page, text):
    """A digit after a name is part of the name: x3 is neither x·3 nor a third variable."""
    (found,) = ran(page, "given.map((text) => typed(text, [-5, 5]))", [text])
    assert set(found) == {"error"}
    assert found["error"].endswith(".")
    assert " at " in found["error"]  # the place


WITHOUT_VALUES = {  # functions that have no value, or no derivative, in places; and starts there
    "log(x^2)": [[1.0], [0.0], [1e-80], [-4.5]],
    "1/x": [[1.0], [0.0], [-1e-160]],
    "sqrt(x)": [[2.0], [0.0], [-1.0]],
    "x^x": [[1.0], [0.0]],
    "-1/(x*y)": [[1.0, 1.0], [0.0, 0.0], [1e-80, 1e-80]],
    "log(x^2 + y^2)": [[1.0, 1.0], [0.0, 0.0], [1e-90, 1e-90]],
    "log(x^2) + y^2": [[1e-80, 1.0], [3.0, 2.0]],
    "sqrt(x) + sqrt(y)": [[1.0, 1.0], [0.0, 0.0]],
    "1e20 + x^2": [[1.0]],
    "0*x": [[1.0]],
    "exp(exp(x))": [[4.0], [50.0]],
}


def test_a_function_without_a_value_or_a_hessian_in_places_does_not_freeze_the_page(page):
    looks = """given.map(([expr, start]) => {
      const { fun } = typed(expr, [-5, 5]), all = { ...functions, typed: fun }, scene = new Scene(all);
      scene.set({ ...initial(all, "typed"), start, at: 40, methods: ["gd", "cgd", "cgd-fd"] });
      const { heights, artificial, landscape } = scene, seen = [artificial.length, landscape.depth];
      return { said: verdict(scene), below: basin(fun, start), marks: ticks(...heights, 8).length, seen };
    })"""
    cases = [(text, start) for text, starts in WITHOUT_VALUES.items() for start in starts]
    found = ran(page, looks, cases)
    assert all(one["said"] and one["marks"] < 30 for one in found)
    said = {(text, *start): one["said"] for (text, start), one in zip(cases, found, strict=True)}
    assert said["sqrt(x)", -1.0] == "f has no value at this start. Choose another one on the map."
    assert all(one["below"] is None for (text, _), one in zip(cases, found, strict=True) if "log(x^2" in text)


def test_an_axis_of_a_range_that_is_tiny_beside_its_place_has_no_endless_marks(page):
    ranges = [
        [1e20, 1e20 + 32768],
        [0.0, 1.0],
        [-1e-300, 1e-300],
        [1e308, 1e308],
        [float(2**53), 2.0**53 + 4],
    ]
    found = ran(page, "given.map(([low, high]) => ticks(low, high, 8))", ranges)
    assert found[1] == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert all(len(marks) < 30 for marks in found)
