"""`jax.value_and_grad` with an ascent step, for training loops: the loss, the gradient to step by; pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._tools.check import is_whole, number
from ..jax.trees import alike, apart
from ._ascent import ScalarOrSchedule, settings_of
from ._trees import Mask, check


def value_and_grad(
    loss: Callable[..., Any], *, rho: ScalarOrSchedule | None = None, lam: ScalarOrSchedule | None = None,
    ratio: ScalarOrSchedule | None = None, alpha: ScalarOrSchedule = 1.0, adaptive: bool = False,
    eta: float | None = None, normalized: bool = True, r: ScalarOrSchedule | None = None,
    exact: bool = False, guard: bool = True, ascent_fraction: float = 1.0,
    argnums: int | Sequence[int] = 0, batch_argnums: int | Sequence[int] = 1, has_aux: bool = False,
    mask: Mask = None, dtype: Any = None, axis_name: Any = None,
) -> Callable[..., Any]:  # fmt: skip
    """Return a function that computes the loss and the gradient to pass to the optimizer.

    It replaces `jax.value_and_grad(loss)`. Both passes get the same arguments, so dropout uses one mask.
    Value and `aux` are those of the whole batch: at the parameters x, or at x + s with `ascent_fraction` < 1.

    Parameters
    ----------
    loss : callable
        Returns the loss, one number, given the parameters and further arguments, which are passed by position
        up to the last of `argnums`; with `has_aux` a pair, the loss and auxiliary data.
    rho : number or schedule
        ρ of SAM (Foret et al., 2021): the gradient is that at x + ρ·g/‖g‖. For an optax schedule, or any
        callable of the step, pass `step=` in each call.
    lam : number or schedule
        λ of the paper: the gradient of f + λ‖∇f‖² by the difference g + ν(g⁺ − g), or g where that is no
        descent direction of f.
    ratio : number or schedule
        The size of the penalty's gradient: ν such that ‖ν(g⁺ − g)‖ is this fraction of ‖g‖, both over the
        perturbed parameters, in every step. Where g⁺ = g there is no penalty.
    alpha, adaptive, eta, normalized
        With `rho`, for GNP, ASAM and USAM: as in `steepen.torch.SAM`.
    r : number or schedule
        With `lam` or `ratio`: the paper's r, g⁺ at x + r·g, without limits.
    exact : bool
        With `lam`: whether d = g + 2λHg, by `jax.jvp` of the gradient, without an ascent step.
    guard : bool
        With `lam` or `ratio`: whether g replaces a d that is no descent direction of f. EGR is
        `exact=True, guard=False`.
    ascent_fraction : float
        With `rho`: as in `steepen.torch.SAM`, with evenly spaced rows.
    argnums : int or sequence of int
        The indices of the loss's arguments that are parameters, as in `jax.value_and_grad`; of several, the
        gradient is a tuple, the ascent step moves all of them, and `mask` is a tuple, too.
    batch_argnums : int or sequence of int
        The indices of the loss's arguments that hold the batch, with examples along the first axis. By
        default 1; it is needed only with `ascent_fraction`.
    has_aux : bool
        Whether the loss returns a pair.
    mask : tree of bool, or callable
        The parameters that the ascent step moves, a tree like them or a prefix of it, or a callable that
        returns one; all by default. `perturbed` names them.
    dtype : dtype
        The precision of the passes, if it is not that of the parameters: the difference interval is longer
        in bfloat16. For `lam` and `ratio`.
    axis_name : hashable
        The axis of `pmap` or `shard_map` over which gradients and value are averaged. Under `jit` alone,
        sharded or not, none is needed.

    Examples
    --------
    >>> def loss(params, x, y):
    ...     return ((x @ params["w"] - y) ** 2).mean()
    >>> params, x, y = {"w": jnp.zeros(4)}, jnp.eye(4), jnp.arange(4.0)
    >>> value, grads = jax.jit(value_and_grad(loss, rho=0.05))(params, x, y)
    >>> float(value), grads["w"].tolist()
    (3.5, [0.0, -0.50668..., -1.01336..., -1.52004...])
    """
    settings = settings_of(
        mask, dtype, rho=rho, lam=lam, ratio=ratio, alpha=alpha, adaptive=adaptive, eta=eta,
        normalized=normalized, r=r, exact=exact, guard=guard,
    )  # fmt: skip
    if not callable(loss):
        raise TypeError(f"loss: expected a callable that returns one number, got {loss!r}")
    part = "a part of the batch, above 0 and at most 1"
    number("ascent_fraction", ascent_fraction, part, above=0, below=1 + 1e-12)
    several, chosen = not is_whole(argnums), np.atleast_1d(argnums).tolist()
    if not chosen or not all(is_whole(i) and i >= 0 for i in chosen) or len(set(chosen)) < len(chosen):
        raise ValueError(f"argnums: expected different indices of arguments, 0 or more; got {argnums!r}")
    places = np.atleast_1d(batch_argnums).tolist()
    if not places or not all(is_whole(i) and i >= 0 for i in places):
        raise ValueError(f"batch_argnums: expected indices of arguments, 0 or more; got {batch_argnums!r}")
    if (ascent_fraction < 1 or batch_argnums != 1) and {*chosen} & {*places}:
        raise ValueError(
            f"batch_argnums: expected indices of other arguments than argnums, {argnums!r}; "
            f"got {batch_argnums!r}"
        )
    needs_both = "" if settings.name == "rho" and alpha == 1 else settings.name.replace("rho", "alpha")
    if ascent_fraction < 1 and needs_both:
        raise ValueError(
            f"ascent_fraction: expected 1, as {needs_both} needs two gradients of one batch, or rho=…; "
            f"got {ascent_fraction!r}"
        )

    def checked(params: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        whole = list(args)
        for i, part in zip(chosen, params if several else (params,), strict=True):
            whole[i] = part
        return _check_output(loss(*whole, **kwargs), has_aux)

    def average(tree: Any) -> Any:
        return tree if axis_name is None else jax.lax.pmean(tree, axis_name)

    def bare(params: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        if axis_name is not None:  # JAX sums gradients by what all devices share, and we average
            leaves, kind = jax.tree.leaves((args, kwargs)), jnp.number
            numbers = [a for a in leaves if jnp.issubdtype(getattr(a, "dtype", bool), kind)]
            params = alike(params, apart([*numbers, jax.lax.axis_index(axis_name)]))
        return jax.value_and_grad(checked, has_aux=has_aux)(params, args, kwargs)

    @wraps(loss)
    def both(*args: Any, **kwargs: Any) -> Any:
        if max(chosen) >= len(args):
            raise TypeError(
                f"argnums: expected indices of positional arguments, got {argnums!r} "
                f"for {len(args)} arguments"
            )
        parts = tuple(args[i] for i in chosen)
        params = parts if several else parts[0]
        check(params)
        step = kwargs.pop("step", None) if settings.scheduled else None
        others = tuple(None if i in chosen else arg for i, arg in enumerate(args))
        first = others if ascent_fraction == 1 else _part_of(others, places, ascent_fraction)
        at_x, g = bare(params, first, kwargs)

        def both_at(x: Any) -> Any:
            value, gradient = bare(x, others, kwargs)
            return value, average(gradient)

        d, at_s, _ = settings.direction(average(g), params, both_at, step)
        whole = at_x if ascent_fraction == 1 else at_s
        return (average(whole[0]), *whole[1:]) if has_aux else average(whole), d

    return both


def _check_output(out: Any, has_aux: bool) -> Any:
    if has_aux and not (isinstance(out, tuple) and len(out) == 2):
        raise TypeError(f"loss: expected a pair, the loss and aux, since has_aux=True; got {_described(out)}")
    value = out[0] if has_aux else out
    if isinstance(value, tuple | list | dict):
        raise TypeError(
            f"loss: expected one number, got {_described(value)}; if it returns more, set has_aux=True"
        )
    if jnp.shape(value) or not jnp.issubdtype(jnp.result_type(value), jnp.floating):
        raise TypeError(
            f"loss: expected one real number, such as the mean over the batch; got {_described(value)}"
        )
    return out


def _described(value: Any) -> str:
    if hasattr(value, "dtype"):
        return f"an array of {value.dtype} of shape {value.shape}"
    return f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, tuple | list) else "")


def _part_of(args: tuple[Any, ...], places: Sequence[int], fraction: float) -> tuple[Any, ...]:
    """Return the arguments with a part of the batch: evenly spaced rows, so that every device has some."""
    if max(places) >= len(args):
        raise TypeError(
            f"batch_argnums: expected indices of positional arguments, got {list(places)} "
            f"for {len(args)} arguments"
        )
    leaves = [leaf for i in places for leaf in jax.tree.leaves(args[i])]
    sizes = {jnp.shape(leaf)[:1] for leaf in leaves}
    if len(sizes) != 1 or () in sizes:
        shapes = ", ".join(sorted({str(jnp.shape(leaf)) for leaf in leaves})) or "none"
        raise ValueError(
            f"batch_argnums: expected arrays with the examples along the first axis, got shapes {shapes}"
        )
    ((n,),) = sizes
    rows = min(max(round(fraction * n), 2), n)
    # a slice, where it is even, moves no rows between devices
    places_of = slice(None, None, n // rows) if n % rows == 0 else np.arange(rows) * n // rows
    part = lambda arg: jax.tree.map(lambda leaf: jnp.asarray(leaf)[places_of], arg)  # noqa: E731
    return tuple(part(arg) if i in places else arg for i, arg in enumerate(args))
