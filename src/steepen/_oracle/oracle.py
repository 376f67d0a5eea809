"""The user's function as the methods see it: f, ∇f, H·v and H, each call counted once.

Every call of something of the user's adds one to the counter of what it is for: `nfev` values, `njev`
gradients, `nhvp` products H·v, `nhev` Hessians. It is counted as it begins, so a call that raises counts too.
What is made of other calls is counted as those calls: an H·v by difference is a gradient, a gradient by
difference is n values (and, being a gradient, one `njev`). In a batch every row has its own counts.
"""

from __future__ import annotations

import contextvars
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
from array_api_compat import is_jax_array
from numpy.typing import NDArray

from .._core.arrays import Array, Mask, MaybeArray, Rows, Scalar, adopt, is_numpy, namespace, to_numpy
from .._core.kits import Kit, Many
from .._core.saved import Saved, require
from .._core.space import Space
from .autodiff import differentiate
from .differences import Differences, Map
from .ledger import Cost, Ledger, OutOfTime
from .probes import Probing

Function = Callable[..., Any]

Only: TypeAlias = Any
"""The rows of a batch that an evaluation is for, as a mask; None for all."""

DIFFERENCES = ("2-point", "3-point", "cs")
AUTODIFF = ("jax", "torch")

TEXT = np.dtype("<U16")

ODD = 1.1
"""Differences in float64 for a float32 run go this part further: to points that float32 cannot hold."""


class Memo:
    """What is known at the last point of each row, so that nothing is evaluated twice."""

    def __init__(self, kit: Kit):
        self._kit = kit
        self.x: MaybeArray = None
        self.value: Any = None

    def put(self, x: Array, value: Any, only: Only) -> None:
        """Note what was evaluated at x, for the rows in `only`."""
        if self._kit.size is not None and only is not None and not only.all():
            unknown = x * float("nan")
            x = self._kit.where(only, x, unknown if self.x is None else self.x)
            value = value if self.value is None else self._kit.where(only, value, self.value)
        self.x, self.value = x, value

    def hits(self, x: Array) -> Mask:
        """Say where the noted point is x."""
        if self.x is None:
            return False if self._kit.size is None else np.zeros(len(x), dtype=bool)
        return self._kit.same(self.x, x)

    def keep(self, rows: Rows) -> None:
        """Go on with these rows of the batch."""
        if self.x is not None:
            self.x, self.value = self._kit.take(self.x, rows), self._kit.take(self.value, rows)


class Oracle(Probing):
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
    ):
        super().__init__(kit, space, float(kit.xp.finfo(x0.dtype).eps))
        self.ledger = Ledger(kit) if ledger is None else ledger
        self.outside = contextvars.copy_context().run  # the run is silent about overflow; fun need not be
        self._how = differences
        self._fun: Any = _bound(fun, args)
        self._sent = self._fun  # to workers: as it was given, so that a process can be sent it
        self._jac: Any = _bound(jac, args) if callable(jac) else jac
        self._hvp: Any = hvp and _bound(hvp, args)
        self._hess: Any = hess and _bound(hess, args)
        self._look: Any = None  # at what autodiff goes by
        self._combined = jac is True
        self.memo = Memo(kit)  # of ∇f where it comes with f, of f where ∇f is made of it
        self._hess_memo = Memo(kit)
        self._like = x0
        # of a float32 run: whether its differences are taken in float64; None: not known yet
        self.wide: bool | None = None if jac in ("2-point", "3-point") and _can_widen(x0) else False
        self._n = int(x0.shape[-1])
        # a variable that bounds fix is asked for no derivative, where that would cost evaluations
        self._unfixed = np.flatnonzero(~to_numpy(self._space.fixed(x0))).tolist()
        self._shape = tuple(x0.shape)
        if isinstance(jac, str) and jac in AUTODIFF:
            ad = differentiate(jac, self._fun, x0)
            self._fun, self._jac, self._look = ad.value, ad.grad, ad.look
            self._hvp = self._hvp or (ad.hvp if self._hess is None else None)
            self._hess = self._hess or ad.hess
        self._fun = partial(self.outside, self._fun)
        self._jac = partial(self.outside, self._jac) if callable(self._jac) else self._jac
        self._hvp = self._hvp and partial(self.outside, self._hvp)
        self._hess = self._hess and partial(self.outside, self._hess)
        self._look = self._look and partial(self.outside, self._look)
        self.hvp_source: str | None = self._first_source(x0, jac, hvp, hess)
        self.verified = self.hvp_source != "complex step"
        # the common case, a single NumPy run with two callables and no time limit, takes the short way
        self._plain = kit.size is None and is_numpy(x0) and callable(self._jac) and not self.ledger.timed
        self.cost_value = Cost(1, 1) if self._combined else Cost(1, 0)
        self.decide(self.wide)

    @staticmethod
    def _first_source(x0: Array, jac: Any, hvp: Any, hess: Any) -> str:
        if hvp is not None:
            return "hvp"
        if hess is not None:
            return "hess"
        if isinstance(jac, str):
            return jac if jac in AUTODIFF else "difference"
        return "complex step" if jac is not True and is_numpy(x0) else "difference"

    def _cost_of_gradient(self, known_value: bool) -> Cost:
        if self._combined:
            return Cost() if known_value else Cost(1, 1)
        if not isinstance(self._jac, str):
            return Cost(0, 1)
        base = self._jac == "2-point" and not known_value
        once = self.cost_error.evals + base
        # the first time, two values tell whether there is float64, and f is evaluated there
        return Cost(once + (3 if self.wide is None else 0), 1)

    @property
    def cost_error(self) -> Cost:
        """What the error of a difference gradient costs."""
        return Cost(len(self._unfixed) * (2 if self._jac == "3-point" else 1))

    def decide(self, wide: bool | None) -> None:
        """Say whether differences are taken in a wider precision than the run's."""
        self.wide = wide
        self.cost_grad = self._cost_of_gradient(known_value=True)
        self.cost_probe = self._cost_of_gradient(known_value=False)

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
        return Cost() if self.verified else self.cost_probe

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
            return float(f) if isinstance(f, float) else self._scalar(f, None)
        if self._combined:
            self.ledger.charge(only, "nfev", "njev")
            f, g = _pair(self._call(self._fun, only, x))
            self.memo.put(x, self._vector(g, only, "fun's gradient"), only)
            return self._scalar(f, only)
        f = self._value_at(_widened(x) if self.wide else x, only)
        if self._jac == "2-point":
            self.memo.put(x, f, only)
        return f

    def _value_at(self, x: Array, only: Only) -> Scalar:
        self.ledger.charge(only, "nfev")
        return self._scalar(self._call(self._fun, only, x), only)

    def grad(self, x: Array, only: Only = None, *, spare: bool = False) -> Array:
        """Evaluate ∇f; `spare`: x is nobody else's and ∇f is used up at once, so neither is copied."""
        if self._plain:
            self.ledger.njev += 1
            g = self._jac(x if spare else x.copy())
            if type(g) is np.ndarray and g.shape == self._shape and g.dtype is x.dtype:
                return g if spare else g.copy()
            return self._vector(g, None, "jac")
        if self._combined:
            self._know(x, only)
            return self.memo.value if only is None else self._kit.where(only, self.memo.value, x * 0)
        self.ledger.charge(only, "njev")
        if isinstance(self._jac, str):
            return self._difference_of_values(x, only)
        return self._vector(self._call(self._jac, only, x), only, "jac")

    def reported(self, g: Array) -> Array:
        """Return ∇f as the result shows it: NaN, as in SciPy, where a fixed variable had no difference."""
        if not isinstance(self._jac, str) or len(self._unfixed) == self._n:
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
        changed = self._scalar(found, only) != f
        if not linked and np.any(changed if only is None else changed & only):
            raise ValueError(
                "fun: its value changes with x, but autodiff finds no way from it back to x, and so a zero "
                "gradient: the graph is cut (by x.detach(), .item(), torch.no_grad(), jax.lax.stop_gradient, "
                'or NumPy on the way); mend it, or give jac, such as "2-point"'
            )

    @property
    def exact(self) -> bool:
        """Whether the gradient is exact at the run's precision, and no difference of values."""
        return not isinstance(self._jac, str) or self._jac in ("cs", *AUTODIFF) or bool(self.wide)

    @property
    def coarse(self) -> bool:
        """Whether the gradient is made of differences of float32 values."""
        return self._jac in ("2-point", "3-point") and self.eps > np.finfo(np.float64).eps and not self.wide

    def hess(self, x: Array, g: Array, only: Only = None) -> Array:
        """Evaluate the Hessian, by n products where it was not given."""
        if self._hess is not None:
            matrix = self._given_hess(x, only)
            if _is_operator(matrix):
                matrix = matrix.toarray() if hasattr(matrix, "toarray") else matrix @ np.eye(self._n)
                return self._vector(matrix, only, "hess", (self._n,))
            return matrix
        eye = self._kit.xp.eye(self._n, dtype=x.dtype)
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
                    raise ValueError(f"hess: expected shape {(self._n, self._n)}, got {_describe(found)}")
            else:
                found = self._vector(found, only, "hess", (self._n,))
            self._hess_memo.put(x, found, only)
        return self._hess_memo.value

    def keep(self, rows: Rows) -> None:
        """Go on with these rows of the batch."""
        self.ledger.keep(rows)
        self.memo.keep(rows)
        self._hess_memo.keep(rows)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds: the last value or gradient, and what was found out about f."""
        source = np.array([str(self.hvp_source), str(self.verified), str(self.wide)], dtype=TEXT)
        return {"x": self.memo.x, "value": self.memo.value, "source": source}

    def load(self, saved: Saved, name: str) -> None:
        """Go on from a checkpoint."""
        memo, kind = self.memo, "MaybeArray" if self._combined else "MaybeScalar"
        memo.x = saved.value(f"{name}.x", "MaybeArray", saved.live)
        memo.value = saved.value(f"{name}.value", kind, saved.live)
        require((memo.x is None) == (memo.value is None), f"one of {name}.x and {name}.value is missing")
        source, verified, wide = map(str, saved.take(f"{name}.source", TEXT, (3,)))
        require(source in (self.hvp_source, "difference"), f"the source of H·v is {source!r}")
        require(verified in ("True", "False"), f"verified is {verified!r}")
        require(wide in ("True", "False", "None"), f"wide is {wide!r}")
        self.hvp_source, self.verified = source, verified == "True"
        self.decide({"True": True, "False": False}.get(wide))

    # --- how the user's functions are called -----------------------------------------------------

    def _call(self, function: Any, only: Only, *vectors: Array) -> Any:
        kit = self._kit
        if only is not None and kit.size is not None and not only.all():
            rows = np.flatnonzero(only)
            return function(*(kit.take(v, rows) for v in vectors))  # pyright: ignore
        return function(*(kit.copy(v) for v in vectors))

    def _scalar(self, f: Any, only: Only) -> Scalar:
        if self._kit.size is None:
            if type(f) is float:
                return f
            array = _array(f, "fun")
            if array.size != 1 or array.dtype.kind not in "fiu":
                raise TypeError(
                    f"fun: expected a real scalar, got {_describe(array)} from {type(f).__name__}"
                )
            return float(array.reshape(()))
        array = _array(f, "fun")
        rows = self._row_count(only)
        if array.shape != (rows,) or array.dtype.kind not in "fiu":
            raise TypeError(
                f"fun: expected one value for each of the {rows} rows of x, got {_describe(array)}; "
                + (
                    "under autodiff, write fun for one point: it is mapped over the rows for you"
                    if self.differentiates
                    else "a batch needs a function vectorised over leading axes "
                    '(or wrapped: np.vectorize(fun, signature="(n)->()"))'
                )
            )
        return self._spread(np.array(array, dtype=np.float64), only)

    def _vector(self, g: Any, only: Only, name: str, tail: tuple[int, ...] = ()) -> Array:
        rows = self._row_count(only)
        shape = (self._n, *tail) if rows is None else (rows, self._n, *tail)
        found = _array(g, name) if is_numpy(self._like) or not hasattr(g, "dtype") else g
        if rows is None and self._n == 1 and found.ndim < len(shape):  # as SciPy, a number will do
            found = found.reshape(shape)
        if tuple(found.shape) != shape:
            raise ValueError(f"{name}: expected shape {shape}, got {_describe(found)}")
        if getattr(found.dtype, "kind", "f") not in "fiu":
            raise TypeError(f"{name}: expected real numbers, got {_describe(found)}")
        return self._spread(self._kit.own(found), only)

    @staticmethod
    def _rows_of(column: Any, only: Only) -> Any:
        return column if only is None or column.ndim == 1 else column[only]

    def _row_count(self, only: Only) -> int | None:
        if self._kit.size is None:
            return None
        return self.ledger.rows if only is None else int(only.sum())

    def _spread(self, part: Array, only: Only) -> Array:
        if only is None or self._kit.size is None or only.all():
            return part
        assert isinstance(self._kit, Many)
        rest = namespace(part).zeros((int((~only).sum()), *part.shape[1:]), dtype=part.dtype)
        pieces = [(np.flatnonzero(only), part), (np.flatnonzero(~only), rest)]
        return self._kit.merge(pieces)

    def _know(self, x: Array, only: Only) -> None:
        """Have f and what comes with it in the memo for x."""
        missing = self._missing(self.memo, x, only)
        if self._kit.any(missing):
            self.value(x, None if self._kit.size is None else missing)

    def _missing(self, memo: Memo, x: Array, only: Only) -> Mask:
        missing = self._kit.negate(memo.hits(x))
        return missing if only is None else missing & only

    # --- derivatives made of other calls ---------------------------------------------------------

    def _difference_of_values(self, x: Array, only: Only) -> Array:
        """Gradient by the differences that SciPy knows by the same names."""
        f: Any = None
        if self.wide is None:
            self.decide(self._has_float64(x, only))
            if self.wide:
                self.memo = Memo(self._kit)  # of a value in float32
        if self._jac == "2-point":
            self._know(x, only)
            f = self.memo.value
        x = _widened(x) if self.wide else x
        return self._kit.own(self._differences(x, f, only, *self._lengths(x)))

    def _has_float64(self, x: Array, only: Only) -> bool:
        """Find out whether `fun` computes in float64 if it is asked to.

        It may refuse such points, cast them to float32, or compute in float32 all the same. So a point that
        float32 cannot hold must have a value that float32 cannot hold, and not that of its neighbour.
        """
        wide = _widened(x)
        point = wide + adopt(wide, self._lengths(wide)[0])
        try:
            f = np.asarray(self._value_at(point, only), dtype=np.float64)
            other = self._value_at(_widened(self._kit.own(point)), only)
        except OutOfTime:
            raise
        except Exception:
            return False  # it was never said to take float64: any refusal will do
        with np.errstate(over="ignore"):
            longer = np.isfinite(f) & (f.astype(np.float32).astype(np.float64) != f)
        return bool(np.any(longer & (f != other)))

    def _lengths(self, x: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return how far differences at x go ahead and back; only those of three points go back."""
        point, scheme = to_numpy(x), str(self._jac)
        eps = float(np.finfo(point.dtype).eps)
        odd = ODD if eps < self.eps and not self._how.asked else 1.0
        ahead = odd * self._how.steps(scheme, point, eps)
        back = ahead if scheme == "3-point" else 0 * ahead
        if scheme == "cs":
            return ahead, back
        near = odd * self._how.steps("2-point", point, eps)
        ahead, back = self._space.differences(point, ahead, near, scheme == "3-point")
        return _taken(point, ahead), -_taken(point, -back)

    def _differences(
        self, x: Array, f: Scalar, only: Only, ahead: NDArray[np.float64], back: NDArray[np.float64]
    ) -> Any:
        """Return the quotients, 0 for a variable that bounds fix."""
        free, scheme = self._unfixed, str(self._jac)
        quotients = np.zeros(ahead.shape)
        if not free:
            return quotients
        ways = {"2-point": (ahead,), "3-point": (ahead, -back), "cs": (1j * ahead,)}[scheme]
        points = (self._shifted(x, i, way[..., i]) for i in free for way in ways)
        values = self._values(points, only, len(free) * len(ways))
        if scheme == "3-point":
            values = values[..., ::2] - values[..., 1::2]
        elif scheme == "2-point":
            values = values - np.asarray(f)[..., None]
        quotients[..., free] = values / (ahead + back)[..., free]
        return quotients

    def error(self, x: Array, f: Scalar, g: Array, noise: Scalar, only: Only = None) -> Array:
        """Estimate the error of each difference in g: what another length changes, and the noise of f."""
        point = to_numpy(x)
        ahead, back = self._lengths(x)
        other = 0.5 * ahead  # always inside the box
        if self._jac == "2-point":
            turned = point - ahead
            other = np.where(self._space.contains(turned), -ahead, other)
        other = _taken(point, other)
        again = self._differences(x, f, only, other, -_taken(point, -0.5 * back))
        # the bias of a one-sided difference grows with its length, that of a central one with the square
        length = np.where(ahead == 0, 1.0, ahead)  # 0 where a variable is fixed, and has no error
        ratio = other / length
        bias = np.abs(to_numpy(g) - again) / np.abs(1 - np.where(back == 0, ratio, ratio**2))
        blur = np.asarray(np.maximum(self.eps * abs(f), noise))[..., None] / np.abs(length + back)
        return self._kit.own(bias + blur)

    def _shifted(self, x: Array, i: int, h: Any) -> Array:
        """Return x with one variable moved, by a complex number or within the bounds."""
        if np.iscomplexobj(h):
            point = to_numpy(x).astype(np.complex128)
            point[..., i] += h
            return point
        if is_numpy(x):
            point = x.copy(order="K")
            point[..., i] += h
        else:
            unit = np.zeros(self._n)
            unit[i] = 1.0
            point = x + adopt(x, np.asarray(h)[..., None] * unit)
        return self._space.project(point)

    def _values(self, points: Iterable[Array], only: Only, count: int) -> Any:
        """Evaluate f at the points of a difference; by the workers, if there are any, all are charged."""
        read = self._imaginary if self._jac == "cs" else self._scalar
        workers = self._how.workers
        if workers is None:
            found: list[Any] = []
            for point in points:
                self.ledger.charge(only, "nfev")
                found.append(read(self._call(self._fun, only, point), only))
            return np.stack(found, axis=-1)
        self.ledger.charge(only, "nfev", times=count)
        values = [read(f, None) for f in self.outside(_mapped, workers, self._sent, list(points))]
        if len(values) != count:
            raise ValueError(f"workers: expected {count} values for {count} points, got {len(values)}")
        return np.array(values)

    def _imaginary(self, f: Any, only: Only) -> Any:
        values: Any = np.asarray(f)
        if values.dtype.kind != "c":
            raise TypeError('jac="cs": fun must return complex values for complex x; it returned real ones')
        rows = self._row_count(only)
        if values.size != (rows or 1):
            raise TypeError(f"fun: expected {'a scalar' if rows is None else rows}, got {_describe(values)}")
        return self._spread(values.imag.reshape(() if rows is None else (rows,)), only)

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


def _mapped(workers: Map, function: Function, points: list[Array]) -> list[Any]:
    return list(workers(function, points))


def _taken(point: NDArray[Any], h: Any) -> NDArray[np.float64]:
    """Return the differences that are really taken, in the precision of the point."""
    return ((point + np.asarray(h, dtype=point.dtype)) - point).astype(np.float64)


def _can_widen(x: Array) -> bool:
    """Say whether this is float32, in a library that has float64 at hand."""
    if "32" not in str(x.dtype):
        return False
    # JAX has none unless told so, and shows it by what a Python number becomes
    return not is_jax_array(x) or "64" in str(namespace(x).asarray(0.0).dtype)


def _widened(x: Array) -> Array:
    """Return a float32 array as float64; the numbers are the same."""
    return x.astype(np.float64) if is_numpy(x) else namespace(x).astype(x, namespace(x).float64)


def _pair(returned: Any) -> tuple[Any, Any]:
    pair = cast("tuple[Any, ...]", returned) if isinstance(returned, tuple | list) else ()
    if len(pair) != 2:
        raise TypeError(f"fun: expected the pair (f, g), as jac=True says; got {returned!r}")
    return pair[0], pair[1]


class _Bound:
    """A function with its further arguments; unlike a lambda, worker processes can be sent it."""

    def __init__(self, function: Function, args: tuple[Any, ...]):
        self._function, self._args = function, args

    def __call__(self, *vectors: Array) -> Any:
        return self._function(*vectors, *self._args)


def _bound(function: Function, args: tuple[Any, ...]) -> Function:
    return _Bound(function, args) if args else function


def _is_operator(matrix: Any) -> bool:
    """Say whether this is a sparse matrix or a LinearOperator of SciPy's."""
    return hasattr(matrix, "shape") and hasattr(matrix, "dot") and not hasattr(matrix, "__array__")


def _array(returned: Any, name: str) -> Any:
    try:
        return to_numpy(returned)
    except ValueError as error:  # ragged
        raise TypeError(f"{name}: expected an array of numbers, got {returned!r}") from error


def _describe(a: Any) -> str:
    return f"shape {tuple(a.shape)} and dtype {a.dtype}"
