import itertools
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import steepen as st
from steepen import plot

BRANIN = st.functions["branin"]
START = [-4.751, 12.459]


def run(method="gd", x0=START, fun=BRANIN, grads=12, **options):
    options = {"step": 0.01, "trace": "x"} | options
    return st.minimize(fun, x0, method=method, budget=st.Budget(grads=grads), **options)


def test_the_curve_is_what_was_reached_with_so_many_gradients():
    """Steepest descent by hand: with c gradients the iterate is x_c."""
    line = plot.convergence({"gd": run()}, fmin=BRANIN.fmin).axes[0].lines[0]
    x = np.array(START)
    for c in range(13):
        reached = line.get_ydata()[np.searchsorted(line.get_xdata(), c, side="right") - 1]
        assert reached == pytest.approx(float(BRANIN(x)) - BRANIN.fmin, rel=1e-12)
        x = x - 0.01 * BRANIN.grad(x)
    assert (line.get_drawstyle(), line.axes.get_yscale()) == ("steps-post", "log")


def test_the_x_axis_and_that_a_penalised_step_costs_two_gradients():
    result = run("cgd-fd", lam=0.07, r=0.2, b=2)
    for x_axis, column, label in (
        ("grads", "njev", "gradient evaluations"), ("iters", "k", "iterations"),
        ("evals", "nfev", "function evaluations"),
    ):  # fmt: skip
        axes = plot.convergence({"cgd-fd": result}, x_axis=x_axis).axes[0]
        assert axes.lines[0].get_xdata().tolist() == getattr(result.trace, column).tolist()
        assert axes.get_xlabel() == label
    assert result.trace.njev[:5].tolist() == [0, 2, 4, 6, 7]


def test_of_a_batch_the_median_and_the_quartiles():
    starts = np.random.default_rng(1).uniform(*BRANIN.bounds.T, size=(9, 2))
    axes = plot.convergence({"gd": run(x0=starts)}, fmin=BRANIN.fmin).axes[0]
    (line,) = axes.lines
    singles = [run(x0=x).trace.f for x in starts]
    for c in (0, 1, 5, 12):
        # sorted by hand: of nine values the fifth is the median, the third and the seventh are the quartiles
        values = sorted(f[min(c, len(f) - 1)] - BRANIN.fmin for f in singles)
        assert line.get_ydata()[line.get_xdata().tolist().index(c)] == values[4]
        if c == 5:
            band = axes.collections[0].get_paths()[0].vertices
            heights = set(band[band[:, 0] == c, 1])
            assert {values[2], values[6]} <= heights


def test_a_batch_with_a_run_that_fails_still_has_a_median():
    f = st.functions["sphere"]
    with np.errstate(all="ignore"):
        batch = st.minimize(f, [[1.0, 1.0], [2.0, 2.0], [1e200, 1.0]], method="gd", step=0.1)
    line = plot.convergence({"gd": batch}).axes[0].lines[0]
    assert line.get_ydata()[0] == 8.0


def test_colours_go_by_method_and_repeats_by_dashes():
    results = {"small λ": run("cgd-fd", lam=0.01), "gd": run(), "large λ": run("cgd-fd", lam=0.1)}
    first, gd, second = plot.convergence(results).axes[0].lines
    assert first.get_color() == second.get_color() == plot.COLOURS["cgd-fd"]
    assert gd.get_color() == plot.COLOURS["gd"]
    assert first.get_linestyle() != second.get_linestyle()
    paths = plot.trajectories(BRANIN, results).axes[0].lines
    shown = [line.get_color() for line in paths if line.get_label() in results]
    assert shown == [line.get_color() for line in (first, gd, second)]


# colour-vision deficiencies as matrices on linear RGB (Machado, Oliveira and Fernandes 2009, severity 1)
VISION = {
    "normal": np.eye(3),
    "protan": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deutan": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritan": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}  # fmt: skip
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def lab(colour, vision):
    srgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.asarray(vision) @ linear, 0, 1)
    xyz = XYZ @ seen / [0.95047, 1.0, 1.08883]
    t = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * t[1] - 16, 500 * (t[0] - t[1]), 200 * (t[1] - t[2])])


@pytest.mark.parametrize("vision", VISION)
def test_colours_are_told_apart(vision):
    seen = {name: lab(colour, VISION[vision]) for name, colour in plot.COLOURS.items()}
    white = lab("#ffffff", VISION[vision])
    for one, other in itertools.combinations(seen, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 15, (one, other)
    for name, value in seen.items():
        assert np.linalg.norm(value - white) > 35, name


class Quartic:
    def __call__(self, x):
        return x[..., 0] ** 4

    def grad(self, x):
        return 4 * x**3


def test_the_landscape_against_its_closed_form():
    lines = plot.landscape(Quartic(), 0.5, (-2.0, 1.0), points=31).axes[0].lines
    assert [line.get_color() for line in lines] == [plot.COLOURS[name] for name in ("gd", "cgd")]
    x = np.linspace(-2, 1, 31)
    assert (lines[0].get_xdata(), lines[0].get_ydata()) == (pytest.approx(x), pytest.approx(x**4))
    assert lines[1].get_ydata() == pytest.approx(x**4 + 8 * x**6)


def test_paths_contours_and_minimisers():
    result = run()
    axes = plot.trajectories(BRANIN, {"gd": result}, BRANIN.bounds).axes[0]
    path = axes.lines[0]
    assert path.get_xydata().tolist() == result.trace.x.tolist()
    assert axes.lines[1].get_xydata().tolist() == [START]
    assert axes.lines[2].get_xydata().tolist() == [result.x.tolist()]
    assert axes.lines[3].get_xydata().tolist() == BRANIN.minima.tolist()
    assert (axes.get_xlim(), axes.get_ylim()) == ((-5.0, 10.0), (0.0, 15.0))


def test_the_heat_is_the_gradient_norm():
    sphere = st.functions["sphere"]
    result = run(fun=sphere, x0=[1.0, 1.0])
    figure = plot.trajectories(sphere, {"gd": result}, [[1, 2], [1, 2]], heat=True, points=5)
    side = np.linspace(1, 2, 5)
    expected = np.log10(2 * np.hypot(side[None, :], side[:, None]))
    assert np.asarray(figure.axes[0].collections[0].get_array()) == pytest.approx(expected)
    assert figure.axes[1].get_ylabel() == "log₁₀ ‖∇f‖"


def test_all_paths_of_a_batch_are_in_view():
    starts = np.array([[-4.0, 12.0], [0.0, 5.0], [9.0, 1.0]])
    result = run(x0=starts)
    axes = plot.trajectories(BRANIN, {"gd": result}).axes[0]
    paths = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert [line.get_xydata()[0].tolist() for line in paths] == starts.tolist()
    for line in paths:
        for values, (low, high) in zip(line.get_data(), (axes.get_xlim(), axes.get_ylim()), strict=True):
            assert low < values.min()
            assert values.max() < high
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["gd"]


def test_overview_adds_the_paths_in_two_dimensions_only():
    figure = plot.overview(BRANIN, {"gd": run()})
    assert [axes.get_xlabel() for axes in figure.axes] == ["x₁", "gradient evaluations"]
    many = run(x0=np.tile(START, (6, 1)))
    levy = st.functions["levy"].at(n=3)
    assert len(plot.overview(BRANIN, {"gd": many}).axes) == 1
    assert len(plot.overview(levy, {"gd": run(fun=levy, x0=[1.0, 2.0, 3.0])}).axes) == 1


def test_files_are_whole_and_the_same_every_time(tmp_path):
    heads = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}
    for suffix in plot.SUFFIXES:
        one, two = tmp_path / f"a{suffix}", tmp_path / f"b{suffix.upper()}"
        for path in (one, two):
            plot.save(plot.convergence({"gd": run()}), path)
        assert one.read_bytes().startswith(heads[suffix])
        assert one.read_bytes() == two.read_bytes()
    assert ET.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")
    size = np.frombuffer((tmp_path / "a.png").read_bytes()[16:24], ">u4")
    assert size.tolist() == [900, 600]


GD = {"gd": run()}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot.convergence(GD, x_axis="time"), "x_axis: 'time' .*grads"),
        (lambda: plot.convergence({}), "results: expected a dict of one or more runs, got a dict"),
        (lambda: plot.convergence(GD["gd"]), "results: expected a dict .* got a Result"),
        (lambda: plot.convergence([GD["gd"]]), "results: expected a dict of"),
        (lambda: plot.overview(BRANIN, GD["gd"]), "results: expected a dict of"),
        (lambda: plot.trajectories(BRANIN, [GD]), "results: expected a dict of"),
        (lambda: plot.convergence({"gd": GD}), "results: expected runs made .* got a dict"),
        (lambda: plot.convergence(GD, fmin=None), "fmin: expected a finite number, got None"),
        (lambda: plot.overview(Quartic(), GD), "fun: expected a test function"),
        (lambda: plot.trajectories(lambda x: x[..., 0], GD, heat=True),
         "heat: expected a fun with its gradient"),
        (lambda: plot.trajectories(BRANIN, GD, points=10.5), "points: expected a whole number, 2 or more"),
        (lambda: plot.landscape(Quartic(), 1.0, (0.0, 1.0), points=0), "points: expected a whole number"),
        (lambda: plot.landscape(Quartic(), 1.0, None), "interval: expected two finite numbers .* got None"),
        (lambda: plot.landscape(Quartic(), 1.0, (0, 1, 2)), "interval: expected two finite numbers"),
        (lambda: plot.convergence({"gd": run(trace=False)}), "results: expected runs made without trace"),
        (lambda: plot.trajectories(BRANIN, {"mine": run(trace=True)}), "results: 'mine'.*trace=\"x\""),
        (lambda: plot.trajectories(BRANIN, GD, [1, 2]), "bounds: expected two rows"),
        (lambda: plot.landscape(Quartic(), 1.0, (1.0, 1.0)), "interval: .*increasing"),
        (lambda: plot.landscape(np.sin, 1.0, (0.0, 1.0)), "jac: expected a callable"),
        (lambda: plot.landscape(np.sin, 1.0, (0.0, 1.0), jac=np.cos), "fun: .*shape"),
        (lambda: plot.save(None, "run.bmp"), r"path: .*\.png, \.svg, \.pdf; got 'run.bmp'"),
        (lambda: plot.save(None, "no/such/run.png"), "path: folder 'no/such' does not exist"),
    ],
)  # fmt: skip
def test_wrong_input_is_named(call, message):
    with pytest.raises((TypeError, ValueError, FileNotFoundError), match=message):
        call()


def test_a_run_that_flies_off_leaves_something_to_see():
    with np.errstate(all="ignore"):
        result = run(step=1e3)
    assert np.abs(result.trace.x).max() > 1e6
    axes = plot.trajectories(BRANIN, {"gd": result}).axes[0]
    assert axes.get_xlim()[1] - axes.get_xlim()[0] < 40


def test_traces_of_unknown_methods_differ():
    trace = run().trace
    lines = plot.convergence({f"mine {i}": trace for i in range(12)}).axes[0].lines
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 12


def test_a_missing_matplotlib_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"needs matplotlib: pip install 'steepen\[plot\]'"):
        plot.convergence({"gd": run()})
