"""What a kernel must be, symmetric and positive semidefinite, and what to do where it is not."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.utils import check_random_state

from .. import threads
from ..grams.dense import kernels_first, part_of

ASYMMETRY = 1e-6  # of a kernel's largest diagonal entry: what rounding may explain
SLACK = 1e-8  # of a kernel's mean diagonal: the negative eigenvalue that rounding may explain
LEAST = 0.25  # product of two sizes that samples are given, at least
UNEVEN = 1e-10  # of the same, for each sample: what rounding may leave of the sum of a symmetric kernel
CHECK_FLOPS = 4e7  # most work spent on looking for negative eigenvalues


def check_symmetric(stack: np.ndarray, names: list[str], source: str) -> None:
    """Refuse NaN, infinity and asymmetry: one reading of every entry, and a comparison where that shows something."""
    stack = stack if kernels_first(stack) is not None else np.ascontiguousarray(stack)
    largest = np.abs(np.einsum("iik->ik", stack)).max(axis=0)
    if _looks_symmetric(stack, largest):
        return
    from ..compiled.stacks import asymmetry

    worst = asymmetry(stack)
    broken = np.flatnonzero(~np.isfinite(worst))
    if broken.size:
        way_out = ", drop that kernel, or use missing='absent' if samples lack it" if source == "X" else ", or drop it"
        raise ValueError(f"{names[broken[0]]} holds NaN or infinity: check how {source} was made{way_out}.")
    uneven = np.flatnonzero(worst > ASYMMETRY * largest)
    if uneven.size:
        k = uneven[0]
        raise ValueError(
            f"{names[k]} is not symmetric, entries (i, j) and (j, i) differ by up to {worst[k]:.3g}: "
            f"check how {source} was made, or use (K + K.T) / 2."
        )


def _looks_symmetric(stack: np.ndarray, largest: np.ndarray) -> bool:
    """Whether ``sum_(i < j) s_i s_j (K[i, j] - K[j, i])`` is next to nothing for every kernel.

    Sizes ``s`` are random numbers of either sign, so that pairs of entries that differ will not make up for one
    another but by rare chance, and not near zero, so that one pair that differs by `ASYMMETRY` cannot hide, while
    rounding is far from showing.
    """
    from ..compiled.stacks import turned, turned_of_each

    n, m = stack.shape[0], stack.shape[2]
    each, rng = kernels_first(stack), np.random.default_rng(0)
    sizes = rng.uniform(LEAST**0.5, 1.0, n) * rng.choice([-1.0, 1.0], n)
    if each is None:
        edges = np.rint(np.linspace(0, n, threads.PIECES + 1)).astype(int)
        with np.errstate(invalid="ignore"):  # infinities
            sums = threads.summed(partial(turned, stack, sizes), edges, stack.size)
    else:
        sums = np.concatenate(threads.spread(partial(turned_of_each, each, sizes), m, stack.size))
    limit = min(LEAST * ASYMMETRY, n**-0.5 * ASYMMETRY, n * UNEVEN)
    return bool(np.all(np.isfinite(sums)) and np.all(np.abs(sums) <= limit * largest))


def check_definite(stack: np.ndarray, names: list[str], unknown: list[int], random_state: Any) -> bool:
    """Refuse kernels with a negative eigenvalue; True if not all samples were looked at, which can be too dear."""
    if not unknown:
        return False
    index = some_samples(stack.shape[0], len(unknown), random_state)
    looked, places = stack, np.array(unknown, dtype=int)
    if index.size < stack.shape[0]:  # these entries are few, unless they are those of other kernels too
        every = places.size == stack.shape[2]  # which is quicker
        looked = part_of(stack, index, index) if every else stack[np.ix_(index, index, places)]
        places = np.arange(places.size)
    for first in range(0, places.size, 32):
        some = looked[:, :, places[first : first + 32]].reshape(index.size**2, -1)
        kernels = np.ascontiguousarray(some.T, dtype=float).reshape(-1, index.size, index.size)
        if not _are_definite(kernels, _precision(kernels, stack.dtype)):
            k = unknown[first + next(j for j, K in enumerate(kernels) if not _has_factor(K))]
            values = np.linalg.eigvalsh(stack[np.ix_(index, index, np.array([k]))][:, :, 0].astype(float))
            refuse_indefinite(names[k], float(values[0] / max(values[-1], 1e-300)))
    return index.size < stack.shape[0]


def some_samples(n: int, kernels: int, random_state: Any) -> np.ndarray:
    """Return as many samples, in order, as can be looked at in reasonable time: all of a few."""
    size = min(n, max(64, int((3 * CHECK_FLOPS / max(kernels, 1)) ** (1 / 3))))
    if size == n:
        return np.arange(n)
    rng = check_random_state(0 if random_state is None else random_state)
    return np.sort(rng.choice(n, size, replace=False))


def refuse_indefinite(name: str, least: float | None = None) -> None:
    """Refuse a kernel, whose least eigenvalue is ``least`` times the largest."""
    size = "" if least is None else f" (its least eigenvalue is {least:.1e} of the largest)"
    raise ValueError(
        f"{name} is not positive semidefinite{size}, so nothing could be certified: use psd='clip' to drop the "
        "negative part of its spectrum, psd='trust' if it is rounding, or leave the kernel out."
    )


def _are_definite(kernels: np.ndarray, dtype: np.dtype) -> bool:
    """Whether all of (b, n, n) kernels have a Cholesky factor once rounding is allowed for, which is added to them."""
    diagonal = np.einsum("kii->ki", kernels)
    empty = ~diagonal.any(axis=1)
    empty[empty] = ~kernels[empty].any(axis=(1, 2))
    diagonal += (_slack(kernels, dtype) + empty)[:, None]  # an exact zero counts as one
    return _has_factor(kernels)


def _precision(kernels: np.ndarray, dtype: np.dtype) -> np.dtype:
    """Return the precision that kernels were rounded to: single if every entry is a number of that, else their own."""
    for some in (kernels[:, 0], kernels):  # a row each tells already in most cases
        with np.errstate(over="ignore"):
            single = some.astype(np.float32)
        if not np.array_equal(single, some):
            return dtype
    return np.dtype(np.float32)


def _has_factor(kernels: np.ndarray) -> bool:
    try:
        np.linalg.cholesky(kernels)
    except np.linalg.LinAlgError:
        return False
    return True


def _slack(
    kernels: np.ndarray,  # (..., n, n)
    dtype: np.dtype,
) -> np.ndarray:  # (...)
    """Return how negative an eigenvalue of each kernel may be on account of rounding."""
    diagonal = np.abs(np.diagonal(kernels, axis1=-2, axis2=-1))
    rounding = 4 * float(np.finfo(dtype).eps) * np.sqrt(kernels.shape[-1])
    return np.maximum(SLACK * diagonal.mean(axis=-1), rounding * diagonal.max(axis=-1))


def clip(stack: np.ndarray, unknown: list[int], owned: bool) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Replace indefinite kernels by their positive parts; also return the eigenvectors that were kept."""
    bases: dict[int, np.ndarray] = {}
    for k in unknown:
        K = stack[:, :, k].astype(float)
        values, vectors = eigh(K)
        if values[0] >= -_slack(K, stack.dtype):
            continue
        stack = stack if owned else stack.copy()
        owned = True
        positive = values > 0
        basis = vectors[:, positive]
        stack[:, :, k] = (basis * values[positive]) @ basis.T
        bases[k] = basis
    return stack, bases


def positive_part(
    K: np.ndarray,  # (n, n)
    sample_weight: np.ndarray,  # (n,) positive
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return K without the negative part of its spectrum, and P with ``K P`` that part kept; None if K is definite.

    A sample of weight 2 counts as two, so the spectrum is that of ``S K S``, with S the roots of the weights.
    """
    root = np.sqrt(sample_weight)
    counted = root[:, None] * K * root
    values, vectors = eigh(counted)
    if values[0] >= -_slack(counted, counted.dtype):
        return K, None
    positive = values > 0
    basis = vectors[:, positive]
    left = basis / root[:, None]
    return (left * values[positive]) @ left.T, (root[:, None] * basis) @ left.T
