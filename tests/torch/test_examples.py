"""The examples run, probe and learn; each is short."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"
HERE = {  # what runs in this process: what it needs, and its arguments
    "train_with_trainer": ("transformers", {}),
    "train_with_lightning": ("pytorch_lightning", {}),
    "train_with_lightning_manual": ("pytorch_lightning", {"epochs": 3}),
    "train_with_accelerate": ("accelerate", {}),
    "train_with_compile": ("torch", {"epochs": 3, "backend": "aot_eager"}),
}


def load(name, needs):
    """Import an example, if what it needs is there."""
    with warnings.catch_warnings(action="ignore"):  # what other libraries say while they are imported
        pytest.importorskip(needs)
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def new_accelerator():
    """Accelerate has one state in a process, which an earlier run may have left within a step."""
    if "accelerate.state" in sys.modules:
        for name in ("GradientState", "AcceleratorState"):
            getattr(sys.modules["accelerate.state"], name)._reset_state()


@pytest.fixture
def compiler():
    """What torch.compile counts, from zero."""
    import torch._dynamo as dynamo

    dynamo.reset()
    dynamo.utils.counters.clear()
    yield dynamo.utils.counters
    dynamo.reset()
    dynamo.utils.counters.clear()


def test_all_are_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*HERE, "train_with_ddp", "train_with_fsdp"}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_is_short(path):
    """At most 40 statements' lines: without docstrings, imports, comments and blank lines."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    tree.body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    lines = ast.unparse(tree).splitlines()
    assert len([line for line in lines if line.strip()]) <= 40


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the probe is cut to its limit")
@pytest.mark.parametrize("name", HERE)
def test_probes_and_learns(name, compiler, capsys):
    needs, options = HERE[name]
    opt, accuracy = load(name, needs).main(**options)
    report = opt.report()
    assert accuracy > 0.75  # of ten digits
    assert report.probed >= report.steps // 3
    assert report.length > 0
    assert "of these with a probe" in capsys.readouterr().out
    if name == "train_with_compile":  # one graph for the share and one for the batch, for 75 steps
        assert compiler["stats"]["unique_graphs"] == 2
    if name == "train_with_accelerate":  # the same steps with one micro-batch and no clipping
        opt, accuracy = load(name, needs).main(epochs=40, micro=1, closures=True)
        assert accuracy > 0.75
        assert opt.report().probed >= opt.report().steps // 3


@pytest.mark.filterwarnings("ignore:the probe is cut to its limit")
def test_one_of_them_probes_and_learns_in_little_time():
    opt, accuracy = load("train_with_lightning_manual", "pytorch_lightning").main(epochs=3)
    assert accuracy > 0.75
    assert opt.report().length > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["train_with_ddp", "train_with_fsdp"])
@pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")
def test_torchrun(name):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    # FSDP2 warns of every module that ends in a Linear
    strict = {"PYTHONWARNINGS": "error,ignore:FSDP2-wrapped module", "OMP_NUM_THREADS": "1"}
    for _ in range(2):
        path = EXAMPLES / f"{name}.py"
        done = subprocess.run(
            [*command, path], capture_output=True, text=True, env={**os.environ, **strict}, timeout=900
        )
        # a thread of gloo may abort a process that has done its work (pytorch/pytorch#190489)
        if "terminate called without an active exception" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    steps, probed = (
        int(n) for n in re.findall(r"^(?:steps taken|of these with a probe) +(\d+)$", done.stdout, re.M)
    )
    found = re.search(r"2 processes, accuracy (.*)\n", done.stdout)
    assert steps // 3 + 1 >= probed > 30
    assert found is not None, done.stdout
    assert float(found[1]) > 0.75
