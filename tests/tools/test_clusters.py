"""The same on a cluster: Dask's, with a worker killed in the middle."""

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import steepen as st
from steepen._tools.jobs import JobFile, run

from ..calls import same

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # ports, event loops, lost workers


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    given = {"dashboard_address": None, "silence_logs": 50, "host": "127.0.0.1"}
    local = distributed.LocalCluster(n_workers=2, threads_per_worker=1, **given)
    with local, distributed.Client(local) as client:
        yield client


def job(i, folder):
    """Sleep a little; the sixth kills the process that runs it, the first time."""
    mark = Path(folder, "killed")
    if i == 5 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
    return {"process": os.getpid()}


def test_a_killed_worker_loses_no_job_and_none_is_counted_twice(cluster, tmp_path):
    file = JobFile(tmp_path / "r.sqlite", ["i"])
    keys, given = [(i,) for i in range(30)], {"send": lambda key: (key[0], str(tmp_path)), "file": file}
    done = list(run(job, keys, workers=cluster.get_executor(pure=False), **given))
    assert (tmp_path / "killed").exists()
    assert sorted(one.key[0] for one in done) == list(range(30))
    assert not [one for one in done if one.error]
    assert len(JobFile(tmp_path / "r.sqlite", ["i"]).read()) == 30
    assert os.getpid() not in {one.value["process"] for one in done}


def test_a_run_whose_values_dask_evaluates_is_the_serial_one(cluster):
    x0, scale = np.linspace(-1.0, 1.0, 6), 3.0
    fun = lambda x: float((scale * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())  # noqa: E731
    executor = cluster.get_executor(pure=False)
    same(st.minimize(fun, x0, workers=executor), st.minimize(fun, x0))


def test_a_batch_and_a_sweep_on_dask_are_the_serial_ones(cluster):
    many, executor = np.linspace(-1.0, 1.0, 24).reshape(4, 6), cluster.get_executor(pure=False)
    fun = lambda x: float(((x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())  # noqa: E731
    found = st.minimize(fun, many, workers=executor)
    for row in range(4):
        same(found.row(row), st.minimize(fun, many[row]))
    given = {"method": ["gd", "cgd-auto"], "step": [0.1, 0.2], "jac": lambda x: 2 * x, "rows": 2}
    rows = lambda x: (x**2).sum(axis=-1)  # noqa: E731
    assert st.sweep({"f": rows}, many, workers=executor, **given).equals(st.sweep({"f": rows}, many, **given))


def test_where_dasks_workers_die_the_run_ends_with_a_status(cluster):
    home = os.getpid()

    def fun(x):
        if os.getpid() != home and abs(x[0]) > 1e-3:
            os._exit(1)
        return float(((x - 1) ** 2).sum())

    res = st.minimize(fun, np.zeros(3), jac="3-point", workers=cluster.get_executor(pure=False))
    assert res.status is st.Status.WORKERS
    assert res.fun == fun(res.x)
