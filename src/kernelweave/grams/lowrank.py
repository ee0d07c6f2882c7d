"""Kernels of low rank, held as factors: ``K_k = V_k V_k'``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays import (
    Array,
    device_of,
    dtype_name,
    is_numpy,
    like,
    namespace,
    on_cuda,
    readable,
    symmetric_product,
    to_host,
)
from ..threads import in_order
from .base import CombinableGram, FactorGram

CHUNK = 2**22  # entries of the features worked on at a time on the computer's own processor
AHEAD = 2**27  # entries of pieces and of matrices made of them that several threads may hold
SPARSE = 0.25  # share of a vector's entries, at most, that are not zero where only their rows are read
MANY = 2**17  # entries of the features from which that pays
DEVICE_CHUNK = 2**27  # the same on an accelerator, where small pieces would starve it


class LowRankGram(FactorGram, CombinableGram):
    """Kernels given by explicit features, side by side: linear in the samples in memory and in time.

    Products accumulate in float64 whatever the precision of the features. The features stay in the library and
    on the device they come from; vectors with an entry per sample live there too.

    Parameters
    ----------
    features : array of shape (n, D), float32 or float64
        ``[V_1, .., V_m]``, of NumPy, torch or any library with the array API. It is read, never changed.
    ranks : sequence of int
        Columns of each kernel, in order; they add up to D.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.grams import LowRankGram
    >>> LowRankGram(np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]), ranks=[2, 1]).energies(np.array([1.0, -1.0]))
    array([2., 1.])
    """

    def __init__(self, features: Array, ranks: Sequence[int] | np.ndarray):
        if features.ndim != 2 or dtype_name(features) not in ("float32", "float64"):
            raise ValueError("features must have shape (n, D) and hold float32 or float64.")
        given = np.asarray(ranks)
        whole = given.ndim == 1 and (given.dtype.kind in "iu" or given.size == 0) and bool(np.all(given >= 1))
        if not whole or int(given.sum()) != features.shape[1]:
            raise ValueError(f"ranks must be whole numbers from 1 on that add up to the {features.shape[1]} columns.")
        self.ranks = given.astype(np.int64)
        self.features = np.ascontiguousarray(features) if is_numpy(features) else features

    @property
    def shape(self) -> tuple[int, int]:
        return self.features.shape[0], self.ranks.size

    @property
    def columns(self) -> int:
        return self.features.shape[1]

    @property
    def holding(self) -> str:
        n, D = self.features.shape
        return readable(np.dtype(dtype_name(self.features)).itemsize * n * D)

    @property
    def combinable(self) -> bool:
        return is_numpy(self.features)

    @property
    def host_features(self) -> np.ndarray | None:
        return self.features if is_numpy(self.features) else None

    @property
    def on_host(self) -> bool:
        """Whether the features lie in the computer's own memory."""
        return is_numpy(self.features) or "cpu" in str(device_of(self.features)).lower()

    def asarray(self, values: Any) -> Array:
        if is_numpy(self.features):
            return np.ascontiguousarray(values, dtype=float)
        return like(self.features, values)

    # -- what solvers on factors ask for ------------------------------------------------------------------

    def rmatvec(
        self,
        beta: Array,  # (n,) or (n, c)
    ) -> Array:  # (D,) or (D, c)
        """Return ``V' beta``."""
        V, xp = self.features, namespace(self.features)
        if is_numpy(V) and beta.ndim == 1 and V.size >= MANY:
            rows = np.flatnonzero(beta)
            if rows.size <= SPARSE * beta.size:
                V, beta = V[rows], beta[rows]
        if V.dtype == beta.dtype:
            return xp.matrix_transpose(V) @ beta
        if is_numpy(V):
            return _compiled().rmatvec(V, beta)
        if beta.ndim == 1 and on_cuda(V):
            device = _device()
            parts = xp.empty((device.CHUNKS, V.shape[1]), dtype=beta.dtype, device=device_of(V))
            return xp.sum(device.rmatvec(V, beta, parts), axis=0)
        total = xp.zeros((V.shape[1], *beta.shape[1:]), dtype=beta.dtype, device=device_of(V))
        for rows in self.chunks():
            total = total + xp.matrix_transpose(xp.astype(V[rows, :], beta.dtype)) @ beta[rows, ...]
        return total

    def matvec(
        self,
        z: Array,  # (D,) or (D, c)
    ) -> Array:  # (n,) or (n, c)
        """Return ``V z``."""
        V, xp = self.features, namespace(self.features)
        if V.dtype == z.dtype:
            return V @ z
        if is_numpy(V):
            return _compiled().matvec(V, z)
        if z.ndim == 1 and on_cuda(V):
            return _device().matvec(V, z, xp.empty(V.shape[0], dtype=z.dtype, device=device_of(V)))
        return xp.concat([xp.astype(V[rows, :], z.dtype) @ z for rows in self.chunks()])

    def weighted(
        self,
        theta: Array,  # (n,) not negative
        rows: Array | None = None,  # positions of the samples that count, all of them if None
        rough: bool = False,
    ) -> Array:  # (D, D)
        """Return ``V' diag(theta) V``, a sum over chunks of rows; ``rough`` multiplies in the features' precision."""
        xp = namespace(theta)
        root = xp.sqrt(theta)
        kind = self.features.dtype if rough else xp.float64
        total = xp.zeros((self.features.shape[1],) * 2, dtype=xp.float64, device=device_of(theta))

        def product(piece: Any) -> Array:
            block = self._scaled(_part(self.features, piece), xp.astype(_part(root, piece), kind))
            return xp.astype(symmetric_product(block), xp.float64)

        for part in self._each(product, self.chunks(rows)):
            total = total + part
        return total

    def _each(self, work: Callable[[Any], Array], pieces: Iterator[Any]) -> Iterator[Array]:
        """Yield what work makes of pieces of the features, on several threads of the computer's own processor.

        That is a matrix with a row for each feature, so many features leave less threads.
        """
        if not is_numpy(self.features):
            return map(work, pieces)
        entries = min(CHUNK, self.features.size)
        return in_order(work, pieces, entries, max(2, AHEAD // (entries + self.features.shape[1] ** 2)))

    def _scaled(self, V: Array, root: Array) -> Array:
        """Return the rows of V, each times its entry of ``root``, in the higher precision of the two."""
        if V.dtype != root.dtype and on_cuda(V):
            xp = namespace(V)
            return _device().scale(V, root, xp.empty(V.shape, dtype=root.dtype, device=device_of(V)))
        return V * root[:, None]

    def combine(self, index: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return ``sum_k w_k K_k`` between the chosen samples, in the precision of the weights."""
        precision = np.result_type(weights, np.float32)
        size = np.sqrt(self.per_column(weights)).astype(precision, copy=False)
        used = np.flatnonzero(size)
        V = self.features if np.array_equal(index, np.arange(self.features.shape[0])) else self.features[index]
        V = (V if used.size == size.size else V[:, used]).astype(precision, copy=False) * size[used]
        return V @ V.T

    def weighted_columns(
        self,
        delta: np.ndarray,  # (b,) or (b, c)
        index: np.ndarray,  # (b,)
        rows: np.ndarray | None = None,  # (r,)
        kernels: np.ndarray | None = None,  # (a,)
    ) -> np.ndarray:  # (r, a) or (c, r, a)
        """Return ``sum_i delta_i K_k[rows, i]``, for NumPy's features; by default everywhere."""
        V = self.features if rows is None else self.features[rows]
        chosen = np.arange(self.ranks.size) if kernels is None else kernels
        table = delta if delta.ndim == 2 else delta[:, None]
        u = self.features[index].T.astype(float) @ table
        out = np.empty((table.shape[1], V.shape[0], chosen.size))
        for place, k in enumerate(chosen):
            part = slice(self.starts[k], self.starts[k] + self.ranks[k])
            out[:, :, place] = (V[:, part] @ u[part]).T
        return out if delta.ndim == 2 else out[0]

    def products(self, beta: Array) -> Array:  # (n, m) or (c, n, m)
        """Return ``K_k beta`` for every kernel, where the features are."""
        V, xp, u = self.features, namespace(self.features), self.rmatvec(beta)
        parts = [xp.astype(V[:, s : s + r], u.dtype, copy=False) @ u[s : s + r, ...] for s, r in self.segments()]
        return xp.stack(parts, axis=1) if beta.ndim == 1 else xp.permute_dims(xp.stack(parts, axis=2), (1, 0, 2))

    def diagonal(self) -> Array:  # (n, m)
        """Return ``K_k[i, i]``."""
        V, xp = self.features, namespace(self.features)
        squares = [xp.sum(xp.astype(V[:, s : s + r], xp.float64) ** 2, axis=1) for s, r in self.segments()]
        return xp.stack(squares, axis=1)

    def take(self, index: Any) -> LowRankGram:
        """Return the stack of the samples ``index`` only (a copy)."""
        xp = namespace(self.features)
        return LowRankGram(xp.take(self.features, self.positions(index), axis=0), self.ranks)

    def only(self, kernels: np.ndarray) -> LowRankGram:
        """Return the stack of some kernels only (a copy)."""
        starts, ranks = self.starts[kernels], self.ranks[kernels]
        columns = np.concatenate([np.arange(s, s + r) for s, r in zip(starts, ranks, strict=True)])
        return LowRankGram(namespace(self.features).take(self.features, self.positions(columns), axis=1), ranks)

    def on(self, features: Array) -> LowRankGram:
        """Return the same kernels on other samples, given by their features."""
        return LowRankGram(features, self.ranks if features.shape[1] == self.columns else [features.shape[1]])

    def rescaled(self, factors: np.ndarray) -> LowRankGram:
        """Return the stack with each kernel times its factor (a copy)."""
        xp, V = namespace(self.features), self.features
        return LowRankGram(xp.astype(V * self.per_column(np.sqrt(factors)), V.dtype, copy=False), self.ranks)

    def to_host(self) -> LowRankGram:
        """Return the same in the computer's own memory."""
        return self if is_numpy(self.features) else LowRankGram(to_host(self.features), self.ranks)

    def positions(self, index: Any) -> Array:
        """Return positions of samples as an array beside the features."""
        return index if is_numpy(self.features) or not is_numpy(index) else like(self.features, index, "int64")

    def chunks(self, rows: Array | None = None) -> Iterator[Any]:
        """Yield slices of the samples, or pieces of the positions ``rows``."""
        V = self.features
        size = CHUNK if self.on_host else DEVICE_CHUNK
        step = max(1, size // V.shape[1])
        count = V.shape[0] if rows is None else rows.shape[0]
        for start in range(0, count, step):
            part = slice(start, min(start + step, count))
            yield part if rows is None else rows[part]


def _part(values: Array, piece: Any) -> Array:
    return values[piece, ...] if isinstance(piece, slice) else namespace(values).take(values, piece, axis=0)


def _device() -> Any:
    from ..compiled import device

    return device


def _compiled() -> Any:
    """Return the products for NumPy's features of single precision."""
    from ..compiled import features

    return features
