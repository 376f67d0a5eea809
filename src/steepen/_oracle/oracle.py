"""The user's function as the methods see it: f, ∇f, H·v and H, each call counted once.

Every call of something of the user's adds one to the counter of what it is for: `nfev` values, `njev`
gradients, `nhvp` products H·v, `nhev` Hessians. It is counted as it begins, so a call that raises counts too.
What is made of other calls is counted as those calls: an H·v by difference is a gradient, a gradient by
difference is n values (and, being a gradient, one `njev`). In a batch every row has its own counts.
"""

from __future__ import annotations

import warnings
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from .._core.arrays import Array, Mask, Rows, Scalar, identity, is_numpy, to_numpy
from .._core.kits import Kit
from .._core.records import each
from .._core.saved import Saved, require
from .._core.space import Space
from .accuracy import Adaptive
from .adaptive_differences import AdaptiveDifferences
from .autodiff import differentiate
from .calls import Calling, Function, Only, bound, describe, pair
from .differences import Differences, widened
from .exact import Exact
from .finite_differences import FiniteDifferences
from .ledger import Cost, Ledger
from .memo import Memo
from .noise import FDState

DIFFERENCES = ("2-point", "3-point", "cs")
AUTODIFF = ("jax", "torch")

FLOAT64 = float(np.finfo(np.float64).eps)

TEXT = np.dtype("<U16")


class Oracle(Calling):
    """Value, gradient, H·v and Hessian of one function, counted.

    `only` limits an evaluation to the rows of a batch where a mask holds; the others are not counted, and
    what comes back for them means nothing.
    """

    def __init__(
        self,
        fun: Function,
        x0: Array,
        kit: Kit,
        *,
        jac: Function | bool | str,
        hvp: Function | None = None,
        hess: Function | None = None,
        args: tuple[Any, ...] = (),
        space: Space | None = None,
        ledger: Ledger | None = None,
        differences: Differences = Differences(),  # noqa: B008  it is frozen
        adaptive: bool = False,
        like: Any = None,
    ):
        given = bound(jac, args) if callable(jac) else jac
        super().__init__(bound(fun, args), x0, kit, space, ledger)
        self._jac: Any = given
        self.fd: FiniteDifferences | None = None  # where the gradient is made of values
        if isinstance(jac, str) and jac in DIFFERENCES:
            adaptive = adaptive and jac == "2-point" and not differences.asked and self.eps <= FLOAT64
            self.fd = (AdaptiveDifferences if adaptive else FiniteDifferences)(self, jac, differences)
        self.accuracy: type[Exact] = Adaptive if self.fd is not None and self.fd.adaptive else Exact
        self.cheap_gradient = self.accuracy is Exact
        fixed = to_numpy(self._space.fixed(x0))  # such variables are asked for no derivative
        self._unfixed: list[int] = np.flatnonzero(~fixed).tolist()
        self._hvp: Any = hvp and bound(hvp, args)
        self._hess: Any = hess and bound(hess, args)
        self._look: Any = None  # at what autodiff goes by
        self._both: Any = None  # f and ∇f, where a device is waited for
        self._combined = jac is True
        self.memo = Memo(kit)  # of ∇f where it comes with f, of f where ∇f is made of it
        self._hess_memo = Memo(kit)
        if isinstance(jac, str) and jac in AUTODIFF:
            ad = differentiate(jac, self._fun, x0, like)
            self._both = None if like is None or ad.both is None else partial(self.outside, ad.both)
            self._fun, self._jac, self._look = ad.value, ad.grad, ad.look
            self._hvp = self._hvp or (ad.hvp if self._hess is None else None)
            self._hess = self._hess or ad.hess
        self._fun = partial(self.outside, self._fun)
        self._jac = partial(self.outside, self._jac) if callable(self._jac) else self._jac
        self._hvp = self._hvp and partial(self.outside, self._hvp)
        self._hess = self._hess and partial(self.outside, self._hess)
        self._look = self._look and partial(self.outside, self._look)
        self.hvp_source: str | None = self._first_source(is_numpy(x0) and like is None, jac, hvp, hess)
        self.verified = self.hvp_source != "complex step"
        # the common case, a single NumPy run with two callables and no time limit, takes the short way
        self._plain = kit.size is None and is_numpy(x0) and callable(self._jac) and not self.ledger.timed
        self._plain = self._plain and self._both is None
        self.cost_value = Cost(1, 1) if self._combined else Cost(1, 0)
        self._costs = tuple(self._cost_of_gradient(known) for known in (True, False))

    @staticmethod
    def _first_source(numpy: bool, jac: Any, hvp: Any, hess: Any) -> str:
        if hvp is not None:
            return "hvp"
        if hess is not None:
            return "hess"
        if isinstance(jac, str):
            return jac if jac in AUTODIFF else "difference"
        return "complex step" if jac is not True and numpy else "difference"

    def _cost_of_gradient(self, known_value: bool) -> Cost:
        if self._combined:
            return Cost() if known_value else Cost(1, 1)
        if self.fd is None:
            return Cost(0, 1)
        base = self._jac == "2-point" and not known_value
        return Cost(self.fd.cost + base, 1)

    @property
    def cost_error(self) -> Cost:
        """What `measured_error` costs."""
        n = 0 if self.fd is None else len(self.fd.free)
        return Cost(n * (2 if self._jac == "3-point" else 1))

    @property
    def cost_grad(self) -> Cost:
        """What ∇f costs where f is known."""
        return self._cost_of_gradient(known_value=True) if self.fd is not None else self._costs[0]

    @property
    def cost_probe(self) -> Cost:
        """What ∇f costs elsewhere."""
        return self._cost_of_gradient(known_value=False) if self.fd is not None else self._costs[1]

    @property
    def hess_source(self) -> str | None:
        """Where the Hessian comes from: given, or made of products H·v."""
        return "hess" if self._hess is not None and self.hvp_source not in AUTODIFF else self.hvp_source

    @property
    def cost_hvp(self) -> Cost:
        """What one H·v costs in values and gradients."""
        if self.hvp_source == "difference":
            return self.cost_probe
        if self.hvp_source == "complex step":
            return Cost(0, 1).plus(self._cost_of_check)
        return Cost()

    @property
    def _cost_of_check(self) -> Cost:
        """What it costs to hold the first complex step against a difference."""
        checks = self.hvp_source == "complex step" and not self.verified
        return self.cost_probe if checks else Cost()

    @property
    def cost_hess(self) -> Cost:
        """What one Hessian costs in values and gradients."""
        if self._hess is not None:
            return Cost()
        first, n = self._cost_of_check, len(self._unfixed)
        each = Cost(0, 1) if self.hvp_source == "complex step" else self.cost_hvp
        return Cost(n * each.evals + first.evals, n * each.grads + first.grads)

    # --- evaluations -----------------------------------------------------------------------------

    def value(self, x: Array, only: Only = None) -> Scalar:
        """Evaluate f."""
        if self._plain:
            self.ledger.nfev += 1
            f = self._fun(x.copy())
            return float(f) if isinstance(f, float) else self.scalar(f, None)
        if self._combined:
            self.ledger.charge(only, "nfev", "njev")
            f, g = pair(self._call(self._fun, only, x))
            self.memo.put(x, self._vector(g, only, "fun's gradient"), only)
            return self.scalar(f, only)
        if self._both is not None:
            self.ledger.charge(only, "nfev")
            return self._evaluate_both(x, only)
        f = self.value_at(widened(x) if self.wide else x, only)
        if self._jac == "2-point":
            self.memo.put(x, f, only)
        return f

    def grad(self, x: Array, only: Only = None, came: Any = None, *, spare: bool = False) -> Array:
        """Evaluate ∇f; `spare`: x is nobody else's and ∇f is used up at once, so neither is copied.

        `came`, ∇f that a compiled run has from its value, is never there: here the memo has it.
        """
        if self._plain:
            self.ledger.njev += 1
            g = self._jac(x if spare else x.copy())
            if type(g) is np.ndarray and g.shape == self._shape and g.dtype is x.dtype:
                return g if spare else g.copy()
            return self._vector(g, None, "jac")
        if self._combined:
            self._know(x, only)
            return self._remembered(x, only)
        self.ledger.charge(only, "njev")
        if self._both is not None:
            missing = self._missing(self.memo, x, only)
            if self._kit.any(missing):
                self._evaluate_both(x, None if self._kit.size is None else missing)
            return self._remembered(x, only)
        if self.fd is not None:
            return self._by_values(x, only)[0]
        return self._vector(self._call(self._jac, only, x), only, "jac")

    def grad_and_error(self, x: Array, only: Only = None) -> tuple[Array, Any]:
        """Evaluate ∇f by differences, with the error of each component."""
        self.ledger.charge(only, "njev")
        return self._by_values(x, only)

    def _evaluate_both(self, x: Array, only: Only) -> Scalar:
        """Evaluate f, with ∇f for the case that it is asked for; until then it is not counted."""
        f, g = self._call(self._both, only, x)
        f = self.scalar(f, only)
        self.memo.put(x, self._vector(g, only, "jac"), only)
        return f

    def reported(self, g: Array) -> Array:
        """Return ∇f as the result shows it: NaN, as in SciPy, where a fixed variable had no difference."""
        if self.fd is None or len(self._unfixed) == self._n:
            return g
        return self._kit.xp.where(self._space.fixed(g), g * float("nan"), g)

    def hvp(self, x: Array, v: Array, g: Array, only: Only = None) -> Array:
        """Evaluate H·v at x, where ∇f is g."""
        if self._hvp is not None:
            self.ledger.charge(only, "nhvp")
            return self._vector(self._call(self._hvp, only, x, v), only, "hvp")
        if self._hess is not None:
            matrix = self._given_hess(x, only)
            if _is_operator(matrix):
                return self._vector(matrix @ to_numpy(v), only, "hess")
            return (matrix * v[..., None, :]).sum(axis=-1)
        if self.hvp_source == "complex step":
            return self._complex_step(x, v, g, only)
        return self._difference_of_gradients(x, v, g, only)

    def _difference_of_gradients(self, x: Array, v: Array, g: Array, only: Only) -> Array:
        r = self.probe_length(x, v)
        return self._kit.times(self._kit.ratio(1.0, r), self.change(x, v, g, r, only))

    @property
    def differentiates(self) -> bool:
        """Whether the gradient comes from autodiff."""
        return self._look is not None

    def refuse_cut_graph(self, x: Array, f: Scalar, only: Only) -> None:
        """Raise ValueError if f changes near x, where ∇f = 0, and autodiff has no way from f back to x."""
        kit, space = self._kit, self._space
        size = self.eps ** (1 / 3) * np.random.default_rng(0).uniform(1.0, 2.0, self._n)
        shift = kit.own(np.maximum(np.abs(to_numpy(x)), 1.0) * size)
        near = space.project(x + shift)  # to the other side where there is no room on this one
        near = kit.xp.where(near == x, space.project(x - shift), near)
        self.ledger.charge(only, "nfev")
        found, linked = self._call(self._look, only, near)
        changed = self.scalar(found, only) != f
        if not linked and np.any(changed if only is None else changed & only):
            raise ValueError(
                "fun: its value changes with x, but autodiff finds no way from it back to x, and so a zero "
                "gradient: the graph is cut (by x.detach(), .item(), torch.no_grad(), jax.lax.stop_gradient, "
                'or NumPy on the way); mend it, or give jac, such as "2-point"'
            )

    @property
    def wide(self) -> bool:
        """Whether the differences of a float32 run are taken in float64."""
        return self.fd is not None and bool(self.fd.wide)

    @property
    def exact(self) -> bool:
        """Whether the gradient is exact at the run's precision, and no difference of values."""
        return self.fd is None or self._jac == "cs" or self.wide

    @property
    def gradient_eps(self) -> Scalar:
        """The relative error of the gradient: of differences, the rounding that is left in them."""
        if self.fd is None or self.exact:
            return self.eps
        return self._kit.num.maximum(self.eps, self.fd.state.resolution) ** (2 / 3)

    @property
    def coarse(self) -> Mask:
        """Whether the gradient is made of differences of values with fewer digits than float64 has."""
        if self.fd is None or self._jac == "cs":
            return False
        single = self.eps > np.finfo(np.float64).eps and not self.wide
        return single | (self.fd.state.resolution > 0)

    def eps_f(self, f: Scalar) -> Scalar:
        """Return by how much a value of f may be wrong, as far as a gradient made of values has to know."""
        return 0.0 if self.cheap_gradient or self.fd is None else self.fd.noise.eps_f(f)

    def set_curvature(self, curvature: Array, rows: Mask) -> None:
        """Take |f″| along each variable from a method that has learnt it."""
        if isinstance(self.fd, AdaptiveDifferences):
            self.fd.set_curvature(curvature, rows)

    @property
    def curvature(self) -> Any:
        """|f″| along each variable as differences have shown it, NaN where it is unknown; or None."""
        return None if self.cheap_gradient or self.fd is None else self.fd.state.curvature

    def hess(self, x: Array, g: Array, only: Only = None) -> Array:
        """Evaluate the Hessian, by n products where it was not given."""
        if self._hess is not None:
            matrix = self._given_hess(x, only)
            if _is_operator(matrix):
                matrix = matrix.toarray() if hasattr(matrix, "toarray") else matrix @ np.eye(self._n)
                return self._vector(matrix, only, "hess", (self._n,))
            return matrix
        eye = identity(x)
        columns = [x * 0] * self._n
        for i in self._unfixed:
            columns[i] = self.hvp(x, x * 0 + eye[i], g, only)
        matrix = self._kit.xp.stack(columns, axis=-1)
        return (matrix + self._kit.xp.moveaxis(matrix, -1, -2)) / 2

    def _given_hess(self, x: Array, only: Only) -> Any:
        """Evaluate the Hessian that was given: an array, or in a single run what SciPy has for matrices."""
        missing = self._missing(self._hess_memo, x, only)
        if self._kit.any(missing):
            only = None if self._kit.size is None else missing
            self.ledger.charge(only, "nhev")
            found = self._call(self._hess, only, x)
            if self._kit.size is None and _is_operator(found):
                if tuple(found.shape) != (self._n, self._n):
                    raise ValueError(f"hess: expected shape {(self._n, self._n)}, got {describe(found)}")
            else:
                found = self._vector(found, only, "hess", (self._n,))
            self._hess_memo.put(x, found, only)
        return self._hess_memo.value

    def keep(self, rows: Rows) -> None:
        """Go on with these rows of the batch."""
        self.ledger.keep(rows)
        self.memo.keep(rows)
        self._hess_memo.keep(rows)
        if self.fd is not None:
            self._load_state(each(lambda a: a[rows], self.fd.state))

    def _load_state(self, state: FDState) -> None:
        for field in fields(state):
            setattr(self.fd.state, field.name, getattr(state, field.name))  # pyright: ignore

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds: the last value or gradient, and what was found out about f."""
        wide = None if self.fd is None else self.fd.wide
        source = np.array([str(self.hvp_source), str(self.verified), str(wide)], dtype=TEXT)
        state = {} if self.fd is None else {"fd": replace(self.fd.state)}
        return {"x": self.memo.x, "value": self.memo.value, "source": source, **state}

    def load(self, saved: Saved, name: str) -> None:
        """Go on from a checkpoint."""
        vectors = self._combined or self._both is not None
        memo, kind = self.memo, "MaybeArray" if vectors else "MaybeScalar"
        memo.x = saved.value(f"{name}.x", "MaybeArray", saved.live)
        memo.value = saved.value(f"{name}.value", kind, saved.live)
        require((memo.x is None) == (memo.value is None), f"one of {name}.x and {name}.value is missing")
        source, verified, wide = map(str, saved.take(f"{name}.source", TEXT, (3,)))
        require(source in (self.hvp_source, "difference"), f"the source of H·v is {source!r}")
        require(verified in ("True", "False"), f"verified is {verified!r}")
        require(wide in ("True", "False", "None"), f"wide is {wide!r}")
        self.hvp_source, self.verified = source, verified == "True"
        if self.fd is not None:
            self.fd.wide = {"True": True, "False": False}.get(wide)
            self._load_state(saved.record(f"{name}.fd", self.fd.state, saved.live))

    def _know(self, x: Array, only: Only) -> None:
        """Have f and what comes with it in the memo for x."""
        missing = self._missing(self.memo, x, only)
        if self._kit.any(missing):
            self.value(x, None if self._kit.size is None else missing)

    def _remembered(self, x: Array, only: Only) -> Array:
        """Return ∇f from the memo."""
        return self.memo.value if only is None else self._kit.where(only, self.memo.value, x * 0)

    def _missing(self, memo: Memo, x: Array, only: Only) -> Mask:
        missing = self._kit.negate(memo.hits(x))
        return missing if only is None else missing & only

    # --- derivatives made of other calls ---------------------------------------------------------

    def _by_values(self, x: Array, only: Only) -> tuple[Array, Any]:
        assert self.fd is not None
        if self.fd.wide is None:
            self.fd.wide = self.fd.has_float64(x, only)
            if self.fd.wide:
                self.memo = Memo(self._kit)  # of a value in float32
        if self._jac == "2-point":
            self._know(x, only)
        return self.fd.gradient(x, self.memo.value, only)

    def _complex_step(self, x: Array, v: Array, g: Array, only: Only) -> Array:
        """Evaluate H·v as Im ∇f(x + ihv)/h.

        A gradient may refuse complex points, or drop their imaginary part on the way. So the first product is
        held against a difference, which stays the source if the two disagree.
        """
        size = np.abs(v).max(axis=-1, keepdims=True)
        h = 1e-20 * np.maximum(1.0, np.abs(x).max(axis=-1, keepdims=True)) / np.where(size > 0, size, 1.0)
        self.ledger.charge(only, "njev")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                moved: Any = np.asarray(self._call(self._jac, only, x + 1j * h * v))
        except Exception:
            # the gradient was never said to take complex points: until it has shown so, any refusal will do
            if self.verified:
                raise
            moved = np.empty(0)
        usable = moved.dtype.kind == "c"
        product = self._vector(moved.imag / self._rows_of(h, only), only, "jac") if usable else None
        if product is not None and self.verified:
            return product
        other = self._difference_of_gradients(x, v, g, only)
        if product is not None:
            rough = float(np.finfo(x.dtype).eps) ** 0.2  # a difference is no better, a dropped part far worse
            self.verified = bool(np.abs(product - other).max() <= rough * max(1e-6, np.abs(other).max()))
        if not self.verified:
            self.hvp_source = "difference"
        return product if product is not None and self.verified else other


def _is_operator(matrix: Any) -> bool:
    """Say whether this is a sparse matrix or a LinearOperator of SciPy's."""
    return hasattr(matrix, "shape") and hasattr(matrix, "dot") and not hasattr(matrix, "__array__")
