"""Gram matrices that are never stored: columns computed when asked for, the latest kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np

from .. import threads
from ..arrays import readable
from ..kernels import Kernel, PreparedKernels, evaluate
from ..kernels.vector import side_by_side
from .base import EntryGram, support_of
from .factors import refuse_infinite
from .rounding import rounding_of

PARTS = 4  # in which samples are divided for several threads
SPARE = 0.1  # share of the memory that sums of all parts may take besides
PIECE = 2**19  # entries of one kernel computed at a time: a matrix product pays, and they stay in the cache
COMBINED = 2**28  # bytes of a combined kernel that are always allowed
SQUARE = 2048  # side of the blocks in which products between two lists of samples are computed

Matrices = Iterator[tuple[slice, int, np.ndarray]]  # which samples, a kernel's number and its matrix there


class CachedGram(EntryGram):
    """Kernels on samples, a sample's column of all of them computed when it is asked for.

    Memory is that of the columns kept, which are the ones used last, of a few numbers per sample and kernel, and of the
    samples in double precision, once for each choice of columns that Gaussian kernels look at. Products that read
    every column once (`energies`, `decision`, `products`) pass the kept columns by and are in the precision of X.

    Parameters
    ----------
    kernels : list of Kernel
        Resolved on X.
    X : array or CSR matrix of shape (n, d), float32 or float64
        The training samples.
    scale : ndarray of shape (m,), optional
        Each kernel is multiplied by its scale wherever it is used.
    memory : float, default=2**30
        Bytes that the columns kept may take.
    dtype : dtype, default="float32"
        Of the columns kept.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> from kernelweave.grams import CachedGram
    >>> gram = CachedGram([K.Linear()], np.eye(3), memory=24)
    >>> gram.weighted_columns(np.array([2.0]), np.array([1])).tolist()
    [[0.0], [2.0], [0.0]]
    >>> gram.energies(np.array([1.0, 2.0, 0.0])).tolist()
    [5.0]
    """

    def __init__(
        self,
        kernels: Sequence[Kernel],
        X: Any,
        scale: np.ndarray | None = None,
        *,
        memory: float = 2.0**30,
        dtype: Any = "float32",
    ):
        self.kernels, self.X, self.memory, self.dtype = list(kernels), X, memory, np.dtype(dtype)
        n, m = self.shape
        self.scale = np.ones(m) if scale is None else np.ascontiguousarray(scale, dtype=float)
        column = n * m * self.dtype.itemsize
        room = int(min(n, memory // column))
        if room < 1:
            raise ValueError(
                f"memory={memory:g} does not hold one sample's column of all kernels, which takes {column} bytes: "
                "use a larger memory= in bytes, or fewer kernels."
            )
        self._prepared = PreparedKernels(self.kernels, X)
        self._columns = np.empty((room, m * n), dtype=self.dtype)  # kernels first: written and read as they come
        self._slot_of = np.full(n, -1)  # sample -> place in `_columns`
        self._held = np.full(room, -1)  # place -> sample
        self._used = np.zeros(room, dtype=np.int64)  # place -> when last asked for
        self._asked = self._found = self._clock = 0
        self._rounded: float | None = None
        self._source: CachedGram | None = None  # what this is a part of, which counts its columns too
        self.sharers = 1  # solves at a time, which share the memory
        self._lock = Lock()  # several problems may share these columns on threads

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], len(self.kernels)

    @property
    def rounded(self) -> float:
        if self._rounded is None:
            self._rounded = rounding_of(self.kernels, self.X)
        return self._rounded

    @property
    def on_demand(self) -> bool:
        return True

    @property
    def hit_rate(self) -> float:
        """Share of the columns asked for that had been kept, so far."""
        return self._found / self._asked if self._asked else float("nan")

    @property
    def storage(self) -> str:
        """How the kernels are stored, as a phrase."""
        n, m = self.shape
        kept, whole = self._columns.nbytes, n * n * m * self.dtype.itemsize
        return f"columns on demand, {self.dtype.name}, at most {readable(kept)} of {readable(whole)} kept"

    def energies(self, beta: np.ndarray, kernels: np.ndarray | None = None) -> np.ndarray:
        """Return the energies of all kernels, or of some and zeros for the others."""
        support = support_of(beta)
        q = np.zeros(self.shape[1])
        for first in range(0, support.size, SQUARE):
            block = support[first : first + SQUARE]
            rows = support[: first + block.size]
            seen = (np.where(rows < block[0], 2.0, 1.0) * beta[rows].T).T  # blocks beside the diagonal stand for two
            work = partial(_energies, seen, beta[block], self.shape[1])
            q += sum(self._in_parts(work, PreparedKernels(self.kernels, self.X[block]), rows, kernels))
        return q * self.scale

    def decision(self, beta: np.ndarray, weights: np.ndarray) -> np.ndarray:
        f, scaled, support = np.zeros(beta.shape), weights * self.scale, support_of(beta)

        def part(matrices: Matrices) -> np.ndarray:
            found = (scaled[k] * _dot(matrix.T, beta[support[piece]]) for piece, k, matrix in matrices)
            return sum(found, np.zeros(beta.shape))

        return sum(self._in_parts(part, self._prepared, support, np.flatnonzero(scaled)), f)

    def energies_and_decision(self, beta: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return both products of the same duals; kernels with a weight are computed once for both."""
        if beta.ndim == 2:
            return super().energies_and_decision(beta, weights)
        support, active = support_of(beta), np.flatnonzero(weights)
        products = self._weighted_columns_part(beta[support], support, None, active)
        energies = self.energies(beta, np.flatnonzero(weights == 0))
        energies[active] = beta @ products
        return energies, products @ weights[active]

    def products(self, beta: np.ndarray) -> np.ndarray:
        support = support_of(beta)
        return self._weighted_columns_part(beta[support], support, None, np.arange(self.shape[1]))

    def weighted_columns(
        self,
        delta: np.ndarray,  # (b,) or (b, c)
        index: np.ndarray,  # (b,)
        rows: np.ndarray | None = None,  # (r,)
        kernels: np.ndarray | None = None,  # (a,)
    ) -> np.ndarray:  # (r, a) or (c, r, a)
        """Return ``sum_i delta_i K_k[rows, i]``, reading only the columns ``index``; by default everywhere.

        The columns are kept, unless only some rows or kernels of them are asked for.
        """
        from ..compiled import stacks

        n, m = self.shape
        if rows is not None or kernels is not None or delta.ndim == 2:
            return self._weighted_columns_part(delta, index, rows, np.arange(m) if kernels is None else kernels)
        out = np.zeros(m * n)
        index, places = np.unique(index, return_inverse=True)
        delta = np.bincount(places, weights=delta, minlength=index.size)
        with self._lock:
            for first in range(0, index.size, self._held.size):
                some = slice(first, first + self._held.size)
                where, part = self._fetch(index[some]), np.empty(m * n)
                work = partial(stacks.weighted_columns, self._columns, delta[some], where, out=part)
                threads.spread(work, m * n, where.size * m * n)
                out += part
        return np.multiply(out.reshape(m, n).T, self.scale, order="C")

    def _weighted_columns_part(
        self, delta: np.ndarray, index: np.ndarray, rows: np.ndarray | None, kernels: np.ndarray
    ) -> np.ndarray:
        prepared = self._prepared if rows is None else PreparedKernels(self.kernels, self.X[rows])
        shape = kernels.size, prepared.Z.shape[0], *delta.shape[1:]
        place = {k: i for i, k in enumerate(kernels.tolist())}

        def part(matrices: Matrices) -> np.ndarray:
            found = np.zeros(shape)
            for piece, k, matrix in matrices:
                found[place[k]] += _dot(matrix.T, delta[piece])
            return found

        out, *others = self._in_parts(part, prepared, index, kernels, 8 * math.prod(shape))
        for other in others:
            out += other
        return np.ascontiguousarray(out.T) * self.scale[kernels]

    def combine(
        self,
        index: np.ndarray,  # (b,)
        weights: np.ndarray,  # (m,)
    ) -> np.ndarray:  # (b, b)
        """Return ``sum_k w_k K_k`` between the chosen samples, if that is not much more than the columns may take."""
        need = 8 * index.size**2
        if need > max(self.memory, COMBINED):
            raise ValueError(
                f"A combined kernel of {index.size} samples takes {readable(need)}, but memory={self.memory:g} allows "
                f"{readable(self.memory)}: use solver='auto', which needs none, or a larger memory= in bytes."
            )
        out, scaled = np.zeros((index.size, index.size)), weights * self.scale
        prepared = PreparedKernels(self.kernels, self.X[index])

        def fill(matrices: Matrices) -> None:
            for piece, k, matrix in matrices:
                out[piece] += scaled[k] * matrix

        self._in_parts(fill, prepared, index, np.flatnonzero(scaled))
        return out

    def block(
        self,
        index: np.ndarray,  # (b,)
        kernels: np.ndarray,  # (a,)
    ) -> np.ndarray:  # (b, a, b)
        """Return the chosen kernels between the chosen samples, as float64, kernels in the middle."""
        out = np.empty((index.size, kernels.size, index.size))
        bank = [self.kernels[k] for k in kernels]
        for place, matrix in _told(bank, evaluate(bank, self.X[index])):
            out[:, place] = self.scale[kernels[place]] * matrix
        return out

    def mixed_columns(
        self,
        index: np.ndarray,  # (b,) distinct
        weights: np.ndarray,  # (m,)
    ) -> np.ndarray:  # (b, n)
        """Return columns of ``sum_k w_k K_k``, in the precision of those kept; the columns of all kernels are kept."""
        from ..compiled import stacks

        out, scaled = np.empty((index.size, self.shape[0]), self.dtype), (weights * self.scale).astype(self.dtype)
        with self._lock:
            for first in range(0, index.size, self._held.size):
                some = slice(first, first + self._held.size)
                stacks.mixed_columns(self._columns, self._fetch(index[some]), scaled, out[some])
        return out

    def diagonal(self) -> np.ndarray:  # (n, m)
        """Return ``K_k[i, i]``."""
        return np.stack([kernel.diagonal(self.X) for kernel in self.kernels], axis=1) * self.scale

    def take(self, index: np.ndarray) -> CachedGram:
        """Return the stack of the samples ``index`` only, with columns of its own: of their kernels the same share."""
        n, m = self.shape
        column = index.size * m * self.dtype.itemsize
        memory = max(self.memory * (index.size / n) ** 2, column)
        return self._other(self.kernels, self.X[index], self.scale, memory)

    def among(self, samples: np.ndarray, kernels: np.ndarray, memory: float, dtype: Any) -> CachedGram:
        """Return the stack of some samples and kernels, with columns of its own in so many bytes, or one column."""
        bank, dtype = [self.kernels[k] for k in kernels], np.dtype(dtype)
        memory = max(memory, samples.size * kernels.size * dtype.itemsize)
        part = CachedGram(bank, self.X[samples], self.scale[kernels], memory=memory, dtype=dtype)
        part._source = self
        return part

    @property
    def own_memory(self) -> float:
        """Bytes that one of the solves at a time may take."""
        return self.memory / self.sharers

    def rescaled(self, factors: np.ndarray) -> CachedGram:
        """Return the same with each kernel times its factor, and columns of its own."""
        return self._other(self.kernels, self.X, self.scale * factors, self.memory)

    def only(self, kernels: np.ndarray) -> CachedGram:
        """Return the stack of some kernels only, with columns of its own: as many as are kept of all."""
        n, m = self.shape
        memory = max(self.memory * kernels.size / m, n * kernels.size * self.dtype.itemsize)
        bank = [self.kernels[k] for k in kernels]
        return self._other(bank, self.X, self.scale[kernels], memory)

    def _other(self, kernels: list[Kernel], X: Any, scale: np.ndarray, memory: float) -> CachedGram:
        other = CachedGram(kernels, X, scale, memory=memory, dtype=self.dtype)
        other.sharers = self.sharers
        return other

    def __reduce__(self) -> Any:
        return _made, (self.kernels, self.X, self.scale, self.memory, self.dtype)  # columns are computed again

    def _fetch(self, index: np.ndarray) -> np.ndarray:
        """Return where the columns of distinct samples are, computing those that are not at hand."""
        self._clock += 1
        slots = self._slot_of[index]
        missing = index[slots < 0]
        for gram in (self,) if self._source is None else (self, self._source):
            gram._asked += index.size
            gram._found += index.size - missing.size
        self._used[slots[slots >= 0]] = self._clock
        if missing.size:
            oldest = np.argsort(self._used, kind="stable")[: missing.size]
            self._slot_of[self._held[oldest][self._held[oldest] >= 0]] = -1
            self._held[oldest], self._slot_of[missing], self._used[oldest] = -1, -1, 0
            n = self.shape[0]

            def fill(matrices: Matrices) -> None:
                for piece, k, matrix in matrices:
                    self._columns[oldest[piece], k * n : (k + 1) * n] = matrix

            self._in_parts(fill, self._prepared, missing)
            self._held[oldest], self._slot_of[missing], self._used[oldest] = missing, oldest, self._clock
        return self._slot_of[index]

    def _in_parts(
        self,
        work: Callable[[Matrices], Any],
        prepared: PreparedKernels,
        samples: np.ndarray,
        kernels: np.ndarray | None = None,
        held: int = 0,
    ) -> list[Any]:
        """Return what ``work`` makes of the kernels of each part of ``samples``, on several threads where that is safe.

        It takes ``held`` bytes for each part, which is to be little of the memory. How many parts there are does not
        depend on the threads, so that sums of them do not either.
        """
        size = samples.size * max(prepared.Z.shape[0], 1) * (len(self.kernels) if kernels is None else kernels.size)
        apart = size >= threads.LARGE and side_by_side(self.kernels) and PARTS * held <= SPARE * self.memory
        edges = np.linspace(0, samples.size, PARTS + 1 if apart else 2).astype(int).tolist()

        def some(first: int, last: int) -> list[Any]:
            ranges = pairwise(edges[first : last + 1])
            return [work(self._pieces(prepared, samples, kernels, *ends)) for ends in ranges]

        if not apart:
            return some(0, 1)
        with threads.one_for_blas():
            return [made for found in threads.spread(some, PARTS, size, step=1) for made in found]

    def _pieces(
        self, prepared: PreparedKernels, samples: np.ndarray, kernels: np.ndarray | None, first: int, last: int
    ) -> Matrices:
        """Yield which of ``samples``, which kernel, and its matrix between them and the samples of ``prepared``."""
        step = max(1, PIECE // max(prepared.Z.shape[0], 1))
        among = None if kernels is None else set(kernels.tolist())
        for begin in range(first, last, step):
            piece = slice(begin, min(begin + step, last))
            for k, matrix in _told(self.kernels, prepared(self.X[samples[piece]], among)):
                yield piece, k, matrix


def _made(kernels: list[Kernel], X: Any, scale: np.ndarray, memory: float, dtype: Any) -> CachedGram:
    return CachedGram(kernels, X, scale, memory=memory, dtype=dtype)


def _told(kernels: list[Kernel], matrices: Iterator[tuple[int, np.ndarray]]) -> Iterator[tuple[int, np.ndarray]]:
    """Pass matrices on, or say by name which kernel is not finite."""
    while True:
        with np.errstate(over="ignore", invalid="ignore"):
            found = next(matrices, None)
        if found is None:
            return
        if not np.isfinite(found[1].sum()) and not np.all(np.isfinite(found[1])):
            refuse_infinite(kernels[found[0]])
        yield found


def _energies(left: np.ndarray, right: np.ndarray, m: int, matrices: Matrices) -> np.ndarray:
    q = np.zeros(m)
    for piece, k, matrix in matrices:
        q[k] += np.sum(left[piece] * _dot(matrix, right))
    return q


def _dot(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return ``matrix @ vector``, summed in float64 whatever the precision of the matrix."""
    if matrix.dtype == np.float64:
        return matrix @ vector
    from ..compiled import features

    if matrix.flags.c_contiguous:
        return features.matvec(matrix, vector)
    return features.rmatvec(np.ascontiguousarray(matrix.T), vector)
