"""What a sweep costs beside the bare batched calls, what a cluster adds, and whether kills do harm.

python benchmarks/sweep.py rows [--jobs 2]     # 10⁶ rows against the bare calls, in as many processes
python benchmarks/sweep.py dask                # jobs of a second on one worker and on two, asleep and at work
python benchmarks/sweep.py two                 # a sweep in one process and in two
python benchmarks/sweep.py kills               # killed 50 times and resumed
python benchmarks/sweep.py batch               # the cost of a row by the size of its batch
python benchmarks/sweep.py jax                 # rows and sweeps by the compiled engine, on JAX's device
"""

import argparse
import os
import random
import resource
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import psutil
from pandas.testing import assert_frame_equal

import steepen as st
from steepen._tools.jobs import run

NAMES = (
    "booth", "branin", "beale", "matyas", "zakharov", "styblinski-tang", "six-hump-camel", "rosenbrock",
    "goldstein-price", "levy",
)  # fmt: skip
STEPS = np.geomspace(1e-5, 1e-2, 10)
BUDGET = st.Budget(grads=40)


def functions() -> dict[str, st.functions.Function]:
    return {
        name: st.functions[name].at(2) if st.functions[name].any_n else st.functions[name] for name in NAMES
    }


def bare(name: str, starts: int) -> None:
    """Make all settings of one function, a batched call each, and keep nothing."""
    f = functions()[name]
    x = np.random.default_rng(0).uniform(*f.bounds.T, size=(starts, 2))
    with np.errstate(all="ignore"):
        for step in STEPS:
            st.minimize(f, x, method="gd", step=float(step), budget=BUDGET, trace=False)


def spent() -> float:
    """Return the processor time of this process and its living children."""
    times = [
        psutil.Process().cpu_times(),
        *(child.cpu_times() for child in psutil.Process().children(recursive=True)),
    ]
    return sum(one.user + one.system for one in times)


def rows(jobs: int, starts: int, repeats: int) -> None:
    total = len(NAMES) * len(STEPS) * starts
    ratios: list[tuple[float, float]] = []
    given = {"method": "gd", "step": STEPS, "budget": BUDGET, "rows": 10_000}
    with get_context("fork").Pool(jobs) as pool, tempfile.TemporaryDirectory() as folder:
        st.sweep(functions(), 10, **given, workers=jobs)  # to start the processes
        pool.starmap(bare, [("booth", 10)] * jobs)
        for i in range(repeats):
            begun, clock = spent(), time.perf_counter()
            pool.starmap(bare, [(name, starts) for name in NAMES], chunksize=1)
            theirs = spent() - begun, time.perf_counter() - clock
            out = Path(folder, f"{i}.jsonl")
            begun, clock = spent(), time.perf_counter()
            table = st.sweep(functions(), starts, **given, workers=jobs, out=out)
            ours = spent() - begun, time.perf_counter() - clock
            assert len(table) == total
            ratios.append((ours[0] / theirs[0], ours[1] / theirs[1]))
            print(
                f"{total} rows, {jobs} processes: processor {ours[0]:.2f} s, bare {theirs[0]:.2f} s, "
                f"ratio {ratios[-1][0]:.3f}; wall {ours[1]:.2f} s, bare {theirs[1]:.2f} s, "
                f"ratio {ratios[-1][1]:.3f}",
                flush=True,
            )
        size = out.stat().st_size / total
    memory = psutil.Process().memory_info().rss / 1e6
    workers = max(
        (child.memory_info().rss / 1e6 for child in psutil.Process().children(recursive=True)), default=0
    )
    processor, wall = np.median(ratios, axis=0)
    print(f"median ratio: processor {processor:.3f}, wall {wall:.3f}")
    print(f"{size:.1f} bytes a row on disk; in the table {table.memory_usage().sum() / total:.0f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(
        f"memory now: this process {memory:.0f} MB (peak {peak:.0f} MB), the largest worker {workers:.0f} MB"
    )


def dask(count: int = 16) -> None:
    import distributed

    for work in (_asleep, _at_work):
        walls: dict[int, float] = {}
        for workers in (1, 2):
            with (
                distributed.LocalCluster(
                    n_workers=workers, threads_per_worker=1, dashboard_address=None, silence_logs=50
                ) as cluster,
                distributed.Client(cluster) as client,
                client.get_executor(pure=False) as executor,
            ):
                list(run(_bare_for, [(-i, 10) for i in range(4)], workers=executor))  # to load what it needs
                begun = time.perf_counter()
                done = list(run(work, [(i,) for i in range(count)], workers=executor))
                walls[workers] = time.perf_counter() - begun
                own = sum(one.value["seconds"] for one in done)  # as the jobs saw it
                print(
                    f"{count} jobs{work.__name__.replace('_', ' ')} for {own / count:.2f} s on {workers}: "
                    f"{walls[workers]:.2f} s, over the jobs {walls[workers] * workers / own - 1:+.1%}",
                    flush=True,
                )
        print(f"two processes over one: {walls[1] / walls[2]:.2f}", flush=True)


def _asleep(i: int) -> dict[str, float]:
    time.sleep(1.0)
    return {"seconds": 1.0}


def _at_work(i: int) -> dict[str, float]:
    return _bare_for(i, 10_000, 3)


def _bare_for(i: int, starts: int, times: int = 1) -> dict[str, float]:
    begun = time.perf_counter()
    for _ in range(times):
        bare(NAMES[i % 2], starts)
    return {"seconds": time.perf_counter() - begun}


def two(starts: int, repeats: int) -> None:
    """Make a sweep in one process and in two, in turn."""
    given = {"method": "gd", "step": STEPS, "budget": BUDGET}
    st.sweep(functions(), 10, **given, workers=2)
    ratios: list[float] = []
    for _ in range(repeats):
        walls: dict[int, float] = {}
        for jobs in (1, 2):
            begun = time.perf_counter()
            total = len(st.sweep(functions(), starts, **given, workers=jobs))
            walls[jobs] = time.perf_counter() - begun
        ratios.append(walls[1] / walls[2])
        print(f"{total} rows: one {walls[1]:.2f} s, two {walls[2]:.2f} s, {ratios[-1]:.2f}", flush=True)
    print(f"two processes over one: {np.median(ratios):.2f}")


def kills(times: int = 50) -> None:
    """Kill a sweep at random moments, resume it, and compare with one that was left alone."""
    given = {
        "method": ["gd", "cgd-fd"],
        "step": np.geomspace(1e-5, 1, 40),
        "lam": [0.01, 0.1],
        "rows": 50,
        "budget": BUDGET,
    }
    whole = st.sweep("branin", 200, **given)
    rng, done, ended = random.Random(0), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        out, round_ = Path(folder, "0.jsonl"), 0
        while done < times:
            child = os.fork()
            if not child:
                st.sweep("branin", 200, **given, out=out)
                os._exit(0)
            time.sleep(rng.uniform(0.0, 1.0))
            os.kill(child, 9)
            if os.waitpid(child, 0)[1] == 0:  # it was complete before: another one
                assert_frame_equal(st.sweep("branin", 200, **given, out=out), whole, check_exact=True)
                ended, round_ = ended + 1, round_ + 1
                out = Path(folder, f"{round_}.jsonl")
            else:
                done += 1
        lines = len(out.read_text().splitlines())
        assert_frame_equal(st.sweep("branin", 200, **given, out=out), whole, check_exact=True)
    print(
        f"killed {done} times, {ended + 1} sweeps of {len(whole)} rows; the last had {lines} lines: all equal"
    )


def batch() -> None:
    f = st.functions["branin"]
    for method, more in (("gd", {}), ("cgd-fd", {"lam": 0.01, "r": 0.1}), ("cgd-auto", {})):
        for size in (1, 10, 100, 1000, 10_000, 100_000):
            x = np.random.default_rng(0).uniform(*f.bounds.T, size=(size, 2))
            step = {} if method == "cgd-auto" else {"step": 0.001}
            costs: list[float] = []
            for _ in range(3):
                again, begun = max(1, 100 // size), time.process_time()
                for _ in range(again):
                    st.minimize(f, x, method=method, budget=BUDGET, trace=False, **step, **more)
                costs.append((time.process_time() - begun) / again / size)
            print(f"{method:9} batch of {size:6}: {1e6 * min(costs):9.2f} µs a row", flush=True)


def compiled(starts: int) -> None:
    import jax

    def branin(x):
        import jax.numpy as jnp

        u = x[1] - 5.1 / (4 * np.pi**2) * x[0] ** 2 + 5 / np.pi * x[0] - 6
        return u**2 + 10 * (1 - 1 / (8 * np.pi)) * jnp.cos(x[0]) + 10

    for size in (10_000, 100_000):
        x = np.random.default_rng(0).uniform([-5, 0], [10, 15], size=(size, 2))
        costs: list[float] = []
        for _ in range(3):
            begun = time.perf_counter()
            st.minimize(branin, x, method="gd", step=0.001, budget=BUDGET, engine="jax")
            costs.append(time.perf_counter() - begun)
        each = 1e6 * min(costs) / size
        print(
            f"{jax.devices()[0]}: {size} rows {costs[0]:.2f} s, then {min(costs):.3f} s: {each:.2f} µs a row",
            flush=True,
        )
    rng, steps = np.random.default_rng(0), np.geomspace(1e-5, 1e-2, 100)
    few, many = (rng.uniform([-5, 0], [10, 15], size=(size, 2)) for size in (starts, 100 * starts))
    gd, auto = {"method": "gd", "step": steps}, {"method": "cgd-auto"}
    for x, given, size in ((few, gd, starts), (few, gd, 10 * starts), (few, gd, 100 * starts),
                           (many, auto, 100 * starts)):  # fmt: skip
        costs = []
        with tempfile.TemporaryDirectory() as folder:
            for i in range(3):
                out, begun = Path(folder, f"{i}.jsonl"), time.perf_counter()
                table = st.sweep(branin, x, **given, budget=BUDGET, engine="jax", rows=size, out=out)
                costs.append(time.perf_counter() - begun)
        print(
            f"a sweep with {given['method']}, {len(table)} rows, {size} a batch: {costs[0]:.2f} s, then "
            f"{min(costs):.2f} s: {1e6 * min(costs) / len(table):.2f} µs a row",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["rows", "dask", "two", "kills", "batch", "jax"])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--starts", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    if given.what == "rows":
        rows(given.jobs, given.starts, given.repeats)
    elif given.what == "two":
        two(given.starts, given.repeats)
    elif given.what == "jax":
        compiled(given.starts)
    else:
        {"dask": dask, "kills": kills, "batch": batch}[given.what]()


if __name__ == "__main__":
    sys.exit(main())
