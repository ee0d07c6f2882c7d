"""How far below zero single precision may have put the eigenvalues of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import cast, dtype_name, is_foreign, namespace, to_host
from ..kernels import Kernel, evaluate
from .maps import take_rows

SINGLE = float(np.finfo(np.float32).epsneg)  # what rounding to single precision does to a number, at most
BEYOND = np.uint64(2**26 - 1)  # last digits of double precision, zero in numbers of single and in halves of their sums
LONG = np.uint64(2**31 - 1)  # the same and some digits of single precision: zero in short numbers, such as counts
PROPER = np.uint64(2**29 - 1)  # zero in numbers of single precision
WHOLE = 2.0**24  # up to which single precision has every whole number
SOME = 256  # samples that kernels are computed on twice, in single and in double precision
FEW = 64  # of them, beside which it is seen how errors grow
STRIDE = 8  # of them in turn, one is looked at first for digits beyond single precision
PRODUCTS = 12  # with the errors, which show the largest eigenvalue nearly
MARGIN = 1.5  # for what these products and these samples do not show


def indefinite(rounded: float, n: int) -> float:
    """Return how far below zero eigenvalues may be after entries of size one were rounded, either way, by such a share.

    By the semicircle law: twice the root of n times the spread of an even distribution, and duals seek them out.
    """
    return rounded * (1.0 + 2.0 * (n / 3.0) ** 0.5)


def looks_single(
    stack: np.ndarray,  # (n, n, m)
) -> bool:
    """Whether a kernel's entries are numbers of single precision, or halves of their sums, and not short or whole."""
    if stack.dtype == np.float32:
        return True
    index, kernels, each = _evenly(stack.shape[0], FEW), np.arange(stack.shape[2]), (0, 1)
    for some in (index[::STRIDE], index):  # most kernels show at a few entries already that they are not
        entries = np.ascontiguousarray(stack[np.ix_(some, some, kernels)], dtype=float)
        left = ~np.any(entries.view(np.uint64) & BEYOND, axis=each)
        kernels, entries = kernels[left], np.ascontiguousarray(entries[:, :, left])
        if not kernels.size:
            return False
    digits = entries.view(np.uint64)
    single = np.any(digits & LONG, axis=each)
    whole = np.all(entries == np.rint(entries), axis=each)  # such as sums of products of counts
    cut = np.any(np.abs(entries) > WHOLE, axis=each) & ~np.any(digits & PROPER, axis=each)
    return bool(np.any(single & (~whole | cut)))


def rounding_of(kernels: Sequence[Kernel], X: Any) -> float:
    """Return the share of entries that kernels computed on X are rounded by, if every entry were on its own.

    Zero in double precision. In single precision errors of computing, such as those of large products, come to those of
    writing entries down, and may have a sign in common. So kernels are computed twice on some samples, and the largest
    eigenvalue of the difference is continued to all of them as it grew from few samples to some.
    """
    if dtype_name(X) != "float32":
        return 0.0
    n = X.shape[0]
    some = take_rows(X, _evenly(n, SOME))
    double = cast(some, namespace(some).float64 if is_foreign(some) else np.float64)
    try:
        exact = dict(evaluate(kernels, double))
    except Exception:  # of a user's function that takes single precision only: what writing entries down does is known
        return SINGLE if len(kernels) == 1 else max(rounding_of([kernel], X) for kernel in kernels)
    largest = SINGLE
    for k, matrix in evaluate(kernels, some):
        largest = max(largest, _share(to_host(matrix), to_host(exact.pop(k)), n))
    return largest


def _share(
    single: np.ndarray,  # (s, s)
    double: np.ndarray,  # (s, s)
    n: int,
) -> float:
    """Return by what share entries of n samples would have been rounded, each on its own, for errors as these."""
    root = np.sqrt(np.maximum(np.diagonal(double), 0.0))
    if not np.all(np.isfinite(single)) or not root.any():
        return 0.0  # told by name where all samples are looked at
    size = np.outer(*2 * [np.where(root > 0.0, root, 1.0)])
    errors, moved = _beyond_scales((single.astype(float) - double) / size, double / size)
    s = errors.shape[0]
    norm = _length(errors)
    if s < n and norm > 0.0:
        few = _length(errors[np.ix_(*2 * [_evenly(s, FEW)])])
        power = np.log(norm / few) / np.log(s / FEW) if few > 0.0 else 1.0
        norm *= (n / s) ** float(np.clip(power, 0.5, 1.0))
    return (MARGIN * norm + n * moved**2) / indefinite(1.0, n)


def _beyond_scales(
    errors: np.ndarray,  # (s, s)
    kernel: np.ndarray,  # (s, s)
) -> tuple[np.ndarray, float]:
    """Return errors less those of samples that are a little longer or shorter, and by how much at most they are.

    A kernel with its row and column i times ``1 + d_i`` is as definite as before. Lengths of samples, of which squared
    distances are made, are rounded so, and large sums of products have errors of one sign.
    """
    square = kernel**2
    sums = square.sum(axis=1)
    sums[sums == 0.0] = 1.0  # samples on which the kernel is zero
    d = np.linalg.solve(np.diag(sums) + square, (kernel * errors).sum(axis=1))
    return errors - (d[:, None] + d[None, :]) * kernel, float(np.abs(d).max())


def _length(errors: np.ndarray) -> float:
    """Return the largest eigenvalue in size, nearly: the spectral norm of a symmetric matrix."""
    vector: Any = np.random.default_rng(0).normal(size=errors.shape[0])
    size = 0.0
    for _ in range(PRODUCTS):
        vector = np.dot(errors, vector / max(float(np.linalg.norm(vector)), 1e-300))
        size = max(size, float(np.linalg.norm(vector)))
    return size


def _evenly(n: int, most: int) -> np.ndarray:
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))
