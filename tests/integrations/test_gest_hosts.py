"""The generator inside Xopt and libEnsemble, as they are on PyPI."""

import subprocess
import sys

import numpy as np
import pytest

import steepen as st

from ..calls import same
from ..examples import EXAMPLES
from ..public import blocks
from ..test_scale import plain

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # the hosts' imports take seconds

gest_api = pytest.importorskip("gest_api", reason="gest-api is not installed: pip install 'steepen[gest]'")

BOX = {"x1": [-2.0, 2.0], "x2": [-1.0, 3.0]}
START = [-1.2, 1.0]


def evaluated(inputs):
    return {"f": plain(np.array([inputs["x1"], inputs["x2"]]))}


def made(**given):
    from gest_api.vocs import VOCS

    from steepen.integrations.gest import CGDGenerator

    vocs = VOCS(variables=dict(BOX), objectives={"f": "MINIMIZE"}, constants={"a": 1.0})
    return CGDGenerator(vocs, START, **given), vocs


def alone(**given):
    return st.minimize(plain, START, bounds=list(BOX.values()), x_scale="auto", **given)


@pytest.mark.parametrize("workers", [1, 4])
def test_xopt_makes_the_run_of_minimize(workers, tmp_path):
    xopt = pytest.importorskip("xopt", reason="xopt is not installed; constraints.txt pins it")
    from xopt.stopping_conditions import MaxEvaluationsCondition

    generator, _ = made()
    host = xopt.Xopt(
        generator=generator,
        evaluator=xopt.Evaluator(function=evaluated, max_workers=workers),
        stopping_condition=MaxEvaluationsCondition(max_evaluations=alone().nfev * workers),
        data_dump_file=str(tmp_path / "data.csv"),
    )
    host.run()
    same(host.generator.runs[0].result(), alone())
    assert not generator.runs[0].result().nfev  # Xopt works on a copy
    assert len(host.generator.runs) > workers - 1


def test_the_block_of_the_page_ends_at_the_minimum():
    pytest.importorskip("xopt", reason="xopt is not installed; constraints.txt pins it")
    (block,) = (one for one in blocks("docs/integrations.md") if "import Evaluator, Xopt" in one)
    exec(compile(block, "docs/integrations.md", "exec"), names := {})
    found = names["xopt"].data
    assert len(found) == 200
    assert found["beam_size"].min() < 1e-9


def test_in_xopt_an_evaluation_that_raises_is_a_nan_of_the_function():
    xopt = pytest.importorskip("xopt", reason="xopt is not installed; constraints.txt pins it")

    def broken(inputs):
        if inputs["x1"] > 0:
            raise RuntimeError("trip")
        return evaluated(inputs)

    wanted = st.minimize(
        lambda x: np.nan if x[0] > 0 else plain(x), START, bounds=list(BOX.values()), x_scale="auto"
    )
    generator, _ = made()
    host = xopt.Xopt(generator=generator, evaluator=xopt.Evaluator(function=broken), strict=False)
    for _ in range(wanted.nfev):
        host.step()
    same(host.generator.runs[0].result(), wanted)


@pytest.mark.parametrize("one_by_one", [False, True])
def test_libensemble_makes_the_run_of_minimize(tmp_path, monkeypatch, one_by_one):
    libensemble = pytest.importorskip("libensemble", reason="libensemble is not installed; it is pinned")
    from libensemble.alloc_funcs.start_only_persistent import only_persistent_gens
    from libensemble.specs import AllocSpecs, ExitCriteria, GenSpecs, LibeSpecs, SimSpecs

    monkeypatch.chdir(tmp_path)
    generator, vocs = made()
    workflow = libensemble.Ensemble(
        libE_specs=LibeSpecs(gen_on_manager=True, nworkers=3, comms="threads", disable_log_files=True),
        gen_specs=GenSpecs(generator=generator, batch_size=3, vocs=vocs),
        sim_specs=SimSpecs(simulator=evaluated, vocs=vocs),
        alloc_specs=AllocSpecs(alloc_f=only_persistent_gens, user={"async_return": one_by_one}),
        exit_criteria=ExitCriteria(sim_max=5 * alone().nfev),
    )
    history, _, _ = workflow.run()
    same(generator.runs[0].result(), alone())
    assert len(set(history["_id"])) == len(history)


@pytest.mark.parametrize("name", ["gest_xopt", "gest_libensemble"])
def test_the_examples_find_the_minimum(name, tmp_path):
    pytest.importorskip(name.removeprefix("gest_"), reason="it is not installed; constraints.txt pins it")
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "at 1.0000, 1.0000" in done.stdout
