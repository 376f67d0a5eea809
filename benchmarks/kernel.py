"""What a compiled kernel for cgd-auto's pairs would bring: `Pairs.add` and `Pairs.product` by Numba.

Needs Numba, which steepen does not use. Runs on Rosenbrock's function are timed alternately: as they are,
with both methods replaced by one compiled call each, and SciPy's L-BFGS-B, whose steps are compiled. Printed
is the processor time of an evaluation of f and ∇f with all that goes with it, and its ratio to L-BFGS-B's.
"""

from __future__ import annotations

import time
from contextlib import contextmanager

import numpy as np
import scipy.optimize as so
from numba import njit

import steepen as st
from steepen._core.matrix import CURVATURE
from steepen.directions import _pairs
from steepen.directions._pairs import ASYMMETRY, INDEPENDENT, LONG, Pairs

EVALS, ROUNDS = 400, 15


@njit
def product(S, Y, R, D, gamma, k, v):
    R = np.ascontiguousarray(R[:k, :k])
    u = R @ (S[:k] @ v)
    plain = gamma * (D * (v - u @ Y[:k]))
    return plain + ((u - Y[:k] @ plain) @ R) @ S[:k]


@njit
def add(S, Y, R, conjugate, D, E, gamma, count, s, y, sy):
    """Take in a pair in place; return γ."""
    capacity, n = S.shape
    k, place = min(count, capacity), count % capacity
    short = long = 0.0
    for i in range(n):
        short += y[i] * D[i] * y[i]
        long += s[i] * E[i] * s[i]
    stretch, share, above, below = short / sy, short / sy / long, 0.0, 0.0
    new = np.empty(n)
    for i in range(n):
        moved = s[i] * E[i]
        new[i] = abs(stretch * E[i] - share * moved * moved) + y[i] * y[i] / sy
    if np.isfinite(new + 1 / new).all():
        E[:], D[:] = new, 1 / new
    for i in range(n):
        below += y[i] * D[i] * y[i]
        above += s[i] * E[i] * s[i]
    ratio = sy / below
    found = ratio * (above / sy / ratio) ** (LONG / (LONG + n))
    gamma = found if 0 < found < np.inf else gamma
    if count >= capacity:
        R[place] = 0
        conjugate[place] = 0
    if k:
        with_s, with_y = Y[:k] @ s, S[:k] @ y
        agree = conjugate[:k] * ((with_s - with_y) ** 2 / sy <= ASYMMETRY**2)
        c = 0.5 * agree * (with_s + with_y)
        s1, y1 = s - c @ S[:k], y - c @ Y[:k]
        rest = s1 @ y1
        if rest > INDEPENDENT * sy and rest > CURVATURE * np.sqrt(s1 @ s1) * np.sqrt(y1 @ y1):
            s, y, sy = s1, y1, rest
        else:
            agree[:] = 0
        conjugate[:k] = agree
    unit = 1 / np.sqrt(sy)
    s, y = unit * s, unit * y
    column = np.zeros(capacity)
    if k:
        column[:k] = -(np.ascontiguousarray(R[:k, :k]) @ (S[:k] @ y))
    column[place] = 1
    R[:, place] = column
    S[place], Y[place], conjugate[place] = s, y, 1
    return gamma


def _product(self, backend, v):
    k = min(self.count, self.capacity)
    if k == 0:
        return backend.times(self.gamma, self.D * v)
    return product(self.S, self.Y, self.R, self.D, float(self.gamma), k, v)


def _add(self, backend, s, y, sy, length):
    if not sy > CURVATURE * length * backend.norm(y):
        return self, False
    D, E = self.D.copy(), self.E.copy()
    numbers = float(self.gamma), int(self.count)
    gamma = add(self.S, self.Y, self.R, self.conjugate, D, E, *numbers, s, y, float(sy))
    return self._replace(D=D, E=E, gamma=gamma, count=self.count + 1), True


@contextmanager
def compiled():
    before = Pairs.product, Pairs.add
    _pairs.Pairs.product, _pairs.Pairs.add = _product, _add
    try:
        yield
    finally:
        _pairs.Pairs.product, _pairs.Pairs.add = before


def ours(x0, memory):
    budget = st.Budget(evals=EVALS)
    return st.minimize(so.rosen, x0, jac=so.rosen_der, memory=memory, gtol=0.0, trace=False, budget=budget)


def by_kernel(x0, memory):
    with compiled():
        return ours(x0, memory)


def theirs(x0, memory):
    options = {"maxcor": 10, "gtol": 0, "ftol": 0, "maxfun": EVALS, "maxiter": EVALS}
    return so.minimize(so.rosen, x0, jac=so.rosen_der, method="L-BFGS-B", options=options)


def main():
    for n, memory in ((1000, 10), (1000, None), (2, None)):
        x0 = np.tile([-1.2, 1.0], n // 2)
        arms = (ours, by_kernel, theirs)
        runs = [arm(x0, memory) for arm in arms]
        times = np.empty((ROUNDS, 3))
        for i in range(ROUNDS):
            for j, arm in enumerate(arms):
                start, used = time.process_time(), 0
                while used < EVALS // 2:
                    used += arm(x0, memory).nfev
                times[i, j] = (time.process_time() - start) / used * 1e6
        a, b, c = np.median(times, axis=0)
        print(
            f"n = {n}, m = {memory or 'default'}: {a:.0f} µs an evaluation, with a kernel {b:.0f}, L-BFGS-B "
            f"{c:.0f}; ratios {np.median(times[:, 0] / times[:, 2]):.2f} and "
            f"{np.median(times[:, 1] / times[:, 2]):.2f}; f = {runs[0].fun:.6g} and {runs[1].fun:.6g}"
        )


if __name__ == "__main__":
    main()
