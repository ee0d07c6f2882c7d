"""Namespaces and devices: the user's arrays decide where work is done. The only file that names torch."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

Array = Any  # of NumPy, of torch, or of any other library with the array API

TILE = 64  # columns that matrix units take at a time
RIDGE = 1e-14  # of the largest entry of a matrix: what is added to its diagonal before its triangular root is taken
SORTED = 2 * 10**5  # entries up to which sorting is as quick as counting
BLOCKS = 4  # column blocks of a symmetric product where no symmetric routine is at hand: 10 of 16 are computed


def namespace(array: Array) -> Any:
    """Return the array-API namespace of an array."""
    if type(array) is np.ndarray:  # asked for so often that finding it out would be much of a small fit
        return _of_numpy()
    import array_api_compat

    return array_api_compat.array_namespace(array)


@cache
def _of_numpy() -> Any:
    import array_api_compat

    return array_api_compat.array_namespace(np.empty(0))


def is_numpy(array: Array) -> bool:
    """Whether an array is NumPy's."""
    return isinstance(array, np.ndarray)


def is_foreign(array: Array) -> bool:
    """Whether something is an array of another library than NumPy, such as a torch tensor."""
    if isinstance(array, np.ndarray) or not hasattr(array, "shape"):
        return False
    torch = sys.modules.get("torch")
    return hasattr(array, "__array_namespace__") or (torch is not None and isinstance(array, torch.Tensor))


def kind_of(array: Any) -> str:
    """Return what something is, for sentences, such as "torch Tensor"."""
    return f"{type(array).__module__.split('.')[0]} {type(array).__name__}"


def device_of(array: Array) -> Any:
    """Return the device an array lives on."""
    import array_api_compat

    return array_api_compat.device(array)


def to_host(array: Array) -> np.ndarray:
    """Return a small array as NumPy's; large ones should stay where they are."""
    if is_numpy(array):
        return array
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return array.detach().cpu().numpy()
    return np.from_dlpack(array)


def like(
    array: Array,
    values: Any,
    dtype: str = "float64",
) -> Array:
    """Return ``values`` as an array of the same library and on the same device as ``array``."""
    xp = namespace(array)
    kind = getattr(xp, dtype)
    if not is_numpy(array) and isinstance(values, np.ndarray):
        values = np.require(values, requirements=["C", "W"])
        if not is_foreign_host(array):
            values = values.tolist()
    return xp.asarray(values, dtype=kind, device=device_of(array))


def is_foreign_host(array: Array) -> bool:
    """Whether the library of an array reads NumPy's arrays directly."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def dtype_name(array: Array) -> str:
    """Return "float32", "float64", ... whatever the library."""
    return str(array.dtype).rsplit(".", 1)[-1]


def cast(array: Any, dtype: Any) -> Any:
    """Return an array or a sparse matrix in a given precision: itself if it has that."""
    return namespace(array).astype(array, dtype, copy=False) if is_foreign(array) else array.astype(dtype, copy=False)


def on_cuda(array: Array) -> bool:
    """Whether an array is a contiguous torch tensor on a CUDA device, for which there are kernels of our own."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(array, torch.Tensor) or array.device.type != "cuda":
        return False
    return array.stride(1) == 1 and importlib.util.find_spec("triton") is not None


def free_bytes(array: Array) -> float | None:
    """Return the memory left on the device of an array, or None where that is the computer's own."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(array, torch.Tensor) or array.device.type != "cuda":
        return None
    return float(torch.cuda.mem_get_info(array.device)[0])


def readable(count: float) -> str:
    """Write a number of bytes as a person would say it."""
    for unit, power in (("GiB", 30), ("MiB", 20)):
        if count >= 0.1 * 2**power:
            return f"{count / 2**power:.1f} {unit}"
    return f"{count / 2**10:.1f} KiB"


def scatter(
    values: Array,  # (k,)
    index: Array,  # (k,) increasing
    n: int,
) -> Array:  # (n,)
    """Return zeros with ``values`` at the positions ``index``."""
    xp = namespace(values)
    places = xp.arange(n, device=device_of(values))
    nearest = xp.minimum(xp.searchsorted(index, places), xp.full_like(places, index.shape[0] - 1))
    hits = xp.take(index, nearest) == places
    return xp.where(hits, xp.take(values, nearest), xp.zeros(n, dtype=values.dtype, device=device_of(values)))


def order_statistics(
    values: Array,  # (n,)
    ranks: list[int],  # from 0
) -> list[float]:
    """Return the entries that would be at some places if all were sorted."""
    if is_numpy(values):
        ranked = np.partition(values, ranks)
        return [float(ranked[rank]) for rank in ranks]
    xp = namespace(values)
    low, high, some, before = float(xp.min(values)), float(xp.max(values)), values, 0
    while some.shape[0] > SORTED:  # much sooner than sorting all, on an accelerator
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        lower = some <= middle
        count = before + int(xp.sum(xp.astype(lower, xp.int64)))
        if max(ranks) < count:
            some, high = some[lower], middle
        elif min(ranks) >= count:
            some, low, before = some[~lower], middle, count
        else:
            return [order_statistics(values, [rank])[0] for rank in ranks]
    ranked = xp.sort(some)
    return [float(ranked[rank - before]) for rank in ranks]


def positive(array: Array) -> Array:
    """Return the positive part of every entry."""
    if is_numpy(array):
        return np.maximum(array, 0.0)
    return namespace(array).clip(array, min=0.0)


def cumulative_logsumexp(x: Array) -> Array:  # (n,)
    """Return ``log sum_{j <= i} exp x_j`` for each i, without overflow where the library allows."""
    if is_numpy(x):
        return np.logaddexp.accumulate(x)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return torch.logcumsumexp(x, dim=0)
    xp = namespace(x)
    top = xp.max(x)
    return top + xp.log(xp.cumulative_sum(xp.exp(x - top)) + 1e-300)


def symmetric_product(A: Array) -> Array:  # (n, d) -> (d, d)
    """Return ``A' A``, without computing both triangles."""
    if is_numpy(A):
        return A.T @ A  # NumPy recognises it and calls the symmetric routine
    xp, d = namespace(A), A.shape[1]
    if d < TILE * BLOCKS:
        return xp.matrix_transpose(A) @ A
    ends = [min(d, -(-d * i // (BLOCKS * TILE)) * TILE) for i in range(BLOCKS + 1)]
    out = xp.empty((d, d), dtype=A.dtype, device=device_of(A))
    for first, last in pairwise(ends):
        strip = xp.matrix_transpose(A[:, first:last]) @ A[:, first:]
        out[first:last, first:] = strip
        out[last:, first:last] = xp.matrix_transpose(strip[:, last - first :])
    return out


def lower_root(A: Array) -> Array:
    """Return L with ``L L' = A`` for a positive semidefinite ``A``, up to rounding of its largest entries."""
    xp = namespace(A)
    eye = xp.eye(A.shape[0], dtype=A.dtype, device=device_of(A))
    ridge = RIDGE * float(xp.max(xp.abs(A)))
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(A, torch.Tensor):
        lower, info = torch.linalg.cholesky_ex(A + ridge * eye)
        if int(info) == 0:
            return lower
    else:
        try:
            return xp.linalg.cholesky(A + ridge * eye)
        except Exception:  # each library has an error of its own
            pass
    values, vectors = xp.linalg.eigh(A)
    return vectors * xp.sqrt(positive(values))[None, :]


def cholesky(A: Array) -> Callable[[Array], Array] | None:
    """Return a function that solves ``A x = b`` for a positive definite ``A``, or None if it is not."""
    if is_numpy(A):
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        try:
            factor = cho_factor(A, lower=True, check_finite=False)
        except LinAlgError:
            return None
        return lambda b: cho_solve(factor, b, check_finite=False)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(A, torch.Tensor):
        lower, info = torch.linalg.cholesky_ex(A)
        if int(info) != 0:
            return None
        return lambda b: torch.cholesky_solve(b[:, None], lower)[:, 0]
    xp = namespace(A)
    try:
        xp.linalg.cholesky(A)
    except Exception:  # each library has an error of its own
        return None
    return lambda b: xp.linalg.solve(A, b)
