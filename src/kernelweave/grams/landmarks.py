"""Which samples stand for all of them: drawn evenly, by clusters, by leverage, or chosen greedily."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.random import sample_without_replacement

from ..arrays import Array, cast, device_of, dtype_name, is_foreign, like, namespace, to_host
from ..kernels import Kernel, evaluate
from ..kernels.vector import squared_distances
from .maps import anchor, precision, rows_of, take_rows

CANDIDATES = 10_000  # least number of samples looked at where all of them would be too many
LLOYD = 10  # rounds of clustering in libraries without a clustering of their own
BLOCK = 32  # columns of a greedy factorisation stored together


def draw_landmarks(
    landmarks: Any,
    count: int,
    kernels: Sequence[Kernel],
    X: Any,  # (n, d)
    rng: np.random.RandomState,
) -> Any:  # (count or fewer, d)
    """Return landmarks by the name of a method, or the ones given.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.grams.landmarks import draw_landmarks
    >>> draw_landmarks("uniform", 2, [], np.eye(5), np.random.RandomState(0)).shape
    (2, 5)
    """
    if not isinstance(landmarks, str):
        return _given(landmarks, X)
    if landmarks not in METHODS:
        known = ", ".join(map(repr, METHODS))
        raise ValueError(f"landmarks={landmarks!r} is not known: use {known}, or an array of landmarks.")
    return METHODS[landmarks](min(count, X.shape[0]), kernels, X, rng)


def _given(landmarks: Any, X: Any) -> Any:
    Z = landmarks if is_foreign(landmarks) or hasattr(landmarks, "tocsr") else np.asarray(landmarks)
    if Z.ndim != 2 or Z.shape[1] != X.shape[1] or Z.shape[0] == 0:
        raise ValueError(f"landmarks must have shape (p, {X.shape[1]}), as X has columns; got {tuple(Z.shape)}.")
    if is_foreign(Z) and not is_foreign(X):
        raise TypeError("landmarks must be NumPy's where X is, not an array of another library.")
    own = like(X, Z, dtype_name(X)) if is_foreign(X) else cast(Z, X.dtype)
    return own.copy() if hasattr(own, "copy") else own + 0.0  # the model must not change with the user's array


def _uniform(count: int, kernels: Sequence[Kernel], X: Any, rng: np.random.RandomState) -> Any:
    return take_rows(X, indices(X.shape[0], count, rng))


def indices(n: int, count: int, rng: np.random.RandomState) -> np.ndarray:
    """Return positions of some of n samples, drawn evenly, in their order; soon done however large n is."""
    return np.sort(sample_without_replacement(n, count, random_state=rng))


def _candidates(count: int, X: Any, rng: np.random.RandomState) -> Any:
    some = max(CANDIDATES, 20 * count)
    return X if some >= X.shape[0] else take_rows(X, indices(X.shape[0], some, rng))


def _kmeans(count: int, kernels: Sequence[Kernel], X: Any, rng: np.random.RandomState) -> Any:
    """Centres of clusters, of some of the samples where there are many."""
    some = _candidates(count, X, rng)
    if count == some.shape[0]:
        return some.copy() if hasattr(some, "copy") else some + 0.0
    if is_foreign(X):
        return _lloyd(count, some, rng)
    from sklearn.cluster import MiniBatchKMeans

    batch = max(1024, 4 * count)
    model = MiniBatchKMeans(count, n_init=1, max_iter=20, batch_size=batch, random_state=rng)
    return cast(model.fit(some).cluster_centers_, X.dtype)


def _lloyd(count: int, X: Array, rng: np.random.RandomState) -> Array:
    """Centres by alternating assignment and averaging; one that no sample is nearest to stays where it is."""
    xp = namespace(X)
    Z = take_rows(X, indices(X.shape[0], count, rng))
    clusters = xp.arange(count, device=device_of(X))
    for _ in range(LLOYD):
        nearest = xp.argmin(squared_distances(X, Z), axis=1)
        member = cast(nearest[:, None] == clusters[None, :], X.dtype)
        size = xp.sum(member, axis=0)[:, None]
        mean = (xp.matrix_transpose(member) @ X) / xp.where(size > 0, size, xp.ones_like(size))
        Z = xp.where(size > 0, mean, Z)
    return Z


def _leverage(count: int, kernels: Sequence[Kernel], X: Any, rng: np.random.RandomState) -> Any:
    """Samples drawn half evenly, half by their ridge leverage: a mean over kernels, estimated from an even sketch."""
    some = _candidates(count, X, rng)
    n = some.shape[0]
    sketch = take_rows(some, indices(n, min(n, 2 * count), rng))
    inner = dict(evaluate(kernels, sketch))
    chance = np.full(n, len(kernels) / n)
    for k, outer in evaluate(kernels, some, sketch):
        chance += _scores(to_host(inner.pop(k)), to_host(outer), to_host(kernels[k].diagonal(some)), count)
    return take_rows(some, np.sort(rng.choice(n, count, replace=False, p=chance / chance.sum())))


def _scores(W: np.ndarray, K: np.ndarray, diagonal: np.ndarray, count: int) -> np.ndarray:
    """Return ``k(x, x) - k(x, S) (K_SS + ridge)^-1 k(S, x)``, scaled to sum to 1.

    The ridge is the mean, over ``count``, of the spectrum that ``count`` landmarks cannot hold.
    """
    values, vectors = np.linalg.eigh(W.astype(float))
    values = np.maximum(values[::-1], 0.0)
    ridge = max(values[count:].sum() / count, 1e-12 * values[0])
    if not ridge:
        return np.zeros(diagonal.size)
    held = ((K @ vectors[:, ::-1]) ** 2 / (values + ridge)).sum(axis=1)
    scores = np.maximum(diagonal - held, 0.0)
    return scores / max(scores.sum(), np.finfo(float).tiny)


METHODS = {"uniform": _uniform, "kmeans": _kmeans, "leverage": _leverage}


def greedy_pivots(
    kernel: Kernel,
    X: Any,  # (n, d)
    rank: int | None,
    tol: float | None,
) -> list[int]:
    """Return the samples that an incomplete Cholesky factorisation picks, each the worst represented so far.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> from kernelweave.grams.landmarks import greedy_pivots
    >>> greedy_pivots(K.Linear(), np.array([[1.0, 0.0], [0.0, 3.0], [2.0, 0.0]]), None, 1e-3)
    [1, 2]
    """
    like_X = anchor(X)
    xp = namespace(like_X)
    left = cast(kernel.diagonal(X), xp.float64)
    whole, floor = float(xp.sum(left)), 10 * precision(X) * float(xp.max(left))
    pivots: list[int] = []
    blocks: list[Array] = []  # rows of the factor's transpose, BLOCK at a time
    while len(pivots) < min(X.shape[0], rank or X.shape[0]):
        pivot = int(xp.argmax(left))
        worst = float(left[pivot])
        if not worst > floor or (tol is not None and float(xp.sum(left)) <= tol * whole):
            break
        place = len(pivots) % BLOCK
        if place == 0:
            blocks.append(xp.zeros((BLOCK, X.shape[0]), dtype=like_X.dtype, device=device_of(like_X)))
        column = kernel(X, rows_of(X, slice(pivot, pivot + 1)))[:, 0]
        for block in blocks:
            column = column - block[:, pivot] @ block
        column = column / worst**0.5
        blocks[-1][place, :] = column
        left = left - cast(column, xp.float64) ** 2
        pivots.append(pivot)
    return pivots
