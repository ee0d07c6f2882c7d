"""Effects of all columns and all pairs of columns, none of the kernels formed: all are scored by one matrix product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays import Array, cast, is_numpy, like, namespace, to_host
from ..kernels.base import row_products
from .base import BankGram, GramStack, support_of
from .dense import DenseGram
from .lowrank import LowRankGram

BLOCK = 2**24  # entries of the matrix of moments computed at a time
MANY = 20_000  # kernels from which all are scored in single precision, and the best of them again in double
NEAR = 0.98  # of the largest energy: those above it are scored again
AGAIN = 256  # and at most so many
SINGLE = float(np.finfo(np.float32).eps / np.finfo(np.float64).eps)  # roundings of double precision in one of single
STORED = 2**26  # entries of kernels as matrices up to which these may take the place of features
FEWER = 0.6  # of the samples: more columns of features than that, and matrices are quicker


class ColumnSets(Sequence[tuple[int, ...]]):
    """The single columns, then the pairs of columns in the order of their first and second, as a list never made.

    Parameters
    ----------
    columns : sequence of int
        The columns.

    Examples
    --------
    >>> from kernelweave.grams.effects import ColumnSets
    >>> sets = ColumnSets([0, 1, 5])
    >>> len(sets), sets[1], sets[5], sets.places([0, 4])
    (6, (1,), (1, 5), [(0,), (0, 2)])
    """

    def __init__(self, columns: Sequence[int]):
        self.columns = list(columns)

    def __len__(self) -> int:
        d = len(self.columns)
        return d * (d + 1) // 2

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        if not -len(self) <= k < len(self):
            raise IndexError(k)
        return tuple(self.columns[j] for j in self.places([int(k) % len(self)])[0])

    def places(self, kernels: Any) -> list[tuple[int, ...]]:
        """Return which of the columns each of some kernels looks at, as places in the list of them."""
        d = len(self.columns)
        k = np.asarray(kernels, dtype=np.int64)
        back = np.maximum(d * (d - 1) // 2 - 1 - np.maximum(k - d, 0), 0)  # counted from the last pair
        row = ((np.sqrt(8.0 * back + 1.0) - 1.0) / 2.0).astype(np.int64)
        first = d - 2 - row
        second = d - 1 - (back - row * (row + 1) // 2)
        return [
            (int(one),) if one < d else (int(i), int(j)) for one, i, j in zip(k, first, second, strict=True)
        ]


class EffectsGram(BankGram):
    """One kernel for each of d columns, ``Phi_j Phi_j'``, and one for each pair, ``Phi_i Phi_i' o Phi_j Phi_j'``.

    In pairs, only the first of a column's features may take part.

    Only the features ``Phi`` of single columns are held. With ``W = Phi' diag(beta) Phi``, the energy of the pair
    (i, j) is the squared length of the block (i, j) of W, so that all energies come from one matrix product. Where
    kernels are many it is computed in single precision, and the largest energies again in double.

    Parameters
    ----------
    features : list of d arrays of shape (n, r_j)
        Features of each column, of NumPy or any library with the array API.
    scale : array of shape (d (d + 1) / 2,), optional
        Factor of each kernel: columns first, then pairs in the order of their first and second column.
    pair_rank : int, optional
        Features of a column that take part in pairs; all by default.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.grams import EffectsGram
    >>> gram = EffectsGram([np.array([[1.0], [2.0]]), np.array([[0.0], [3.0]])])
    >>> gram.energies(np.array([1.0, -1.0]))
    array([ 1.,  9., 36.])
    """

    def __init__(self, features: Sequence[Array], scale: np.ndarray | None = None, pair_rank: int | None = None):
        self.parts = list(features)
        self.pair_rank = pair_rank
        self.paired = [part[:, :pair_rank] for part in self.parts]
        self.ranks = np.array([part.shape[1] for part in self.paired])
        self.sets = ColumnSets(range(len(self.parts)))
        self.scale = np.ones(len(self.sets)) if scale is None else np.asarray(scale, dtype=float)
        self._grouped = [self._group(rank) for rank in sorted(set(self.ranks.tolist()))]

    def _group(self, rank: int) -> tuple[int, np.ndarray, Array]:
        """Return the columns of a rank, and their features side by side, in the precision they are scored in."""
        members = np.flatnonzero(self.ranks == rank)
        xp = namespace(self.parts[0])
        stacked = xp.concat([self.paired[j] for j in members.tolist()], axis=1)
        return rank, members, cast(stacked, xp.float32) if len(self.sets) >= MANY else stacked

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.parts[0].shape[0]), len(self.sets)

    def asarray(self, values: Any) -> Array:
        first = self.parts[0]
        return np.ascontiguousarray(values, dtype=float) if is_numpy(first) else like(first, values)

    # -- scoring all kernels ------------------------------------------------------------------------------

    def energies(self, beta: Array) -> np.ndarray:  # (m,)
        columns = [beta] if beta.ndim == 1 else [beta[:, c] for c in range(beta.shape[1])]
        d, m = len(self.parts), len(self.sets)
        pairs = np.zeros((d, d))
        for column in columns:
            self._score(column, pairs)
        q = np.empty(m)
        q[:d] = to_host(namespace(beta).stack([self._single(j, beta) for j in range(d)]))
        q[d:] = (pairs + pairs.T)[np.triu_indices(d, 1)]
        q *= self.scale
        again = self._again(q)
        q[again] = [self._exact(i, j, beta) for i, j in self.sets.places(again)]
        q[again] *= self.scale[again]
        return q

    def _again(self, q: np.ndarray) -> np.ndarray:
        """Return the pairs of a large bank that are scored in double precision: the best of those near the largest."""
        d, m = len(self.parts), len(self.sets)
        if m < MANY:
            return np.empty(0, dtype=int)
        best = d + np.argpartition(-q[d:], min(AGAIN, m - d - 1))[:AGAIN]
        return best[q[best] >= NEAR * q[d:].max()]

    def energy_errors(self, beta: Array, q: np.ndarray, share: float) -> np.ndarray:  # (m,)
        """Return how far energies may be off, by the sizes of the sums that the moments are.

        The sum over samples of ``|beta phi_i phi_j|`` is at most the root of that of ``|beta| phi_i^2`` times that of
        ``|beta| phi_j^2``.
        """
        xp, d = namespace(beta), len(self.parts)
        whole = xp.abs(beta) if beta.ndim == 1 else xp.sum(xp.abs(beta), axis=1)
        tables = (_row_squares(self.parts), _row_squares(self.paired))
        singles, squares = (to_host(whole @ cast(table, whole.dtype)) for table in tables)
        first, second = np.triu_indices(d, 1)
        shares = np.full(q.size, share * (SINGLE if q.size >= MANY else 1.0))
        shares[:d] = shares[self._again(q)] = share
        sums = np.concatenate([singles * float(xp.sum(whole)), squares[first] * squares[second]]) * self.scale
        off = shares * np.sqrt(sums)
        return off * (2.0 * np.sqrt(np.maximum(q, 0.0)) + off)

    def _score(self, beta: Array, pairs: np.ndarray) -> None:
        """Add the squared lengths of the blocks of ``Phi' diag(beta) Phi`` to ``pairs``, each in one of its places."""
        rows = support_of(beta) if is_numpy(beta) else None
        groups = [(r, members, V if rows is None else V[rows]) for r, members, V in self._grouped]
        weight = beta if rows is None else beta[rows]
        for g, (rank, members, V) in enumerate(groups):
            step = max(1, BLOCK // max(1, rank * sum(W.shape[1] for _, _, W in groups)))
            for first in range(0, members.size, step):
                last = min(first + step, members.size)
                weighted = cast(weight, V.dtype)[:, None] * V[:, first * rank : last * rank]
                later = _squared_lengths(weighted, rank, V[:, first * rank :], rank)
                pairs[np.ix_(members[first:last], members[first:])] += np.triu(later, 1)
                for width, others, W in groups[g + 1 :]:
                    pairs[np.ix_(members[first:last], others)] += _squared_lengths(weighted, rank, W, width)

    def _single(self, j: int, beta: Array) -> Array:  # ()
        u = namespace(beta).matrix_transpose(cast(self.parts[j], beta.dtype)) @ beta
        return namespace(u).sum(u * u)

    def _exact(self, i: int, j: int, beta: Array) -> float:
        V = row_products(cast(self.paired[i], beta.dtype), cast(self.paired[j], beta.dtype))
        u = namespace(beta).matrix_transpose(V) @ beta
        return float(namespace(u).sum(u * u))

    # -- some kernels -------------------------------------------------------------------------------------

    def features(self, kernels: Any) -> Iterator[Array]:
        """Yield the features of some kernels, (n, r_j) or (n, r_i r_j), before their scale."""
        for places in self.sets.places(kernels):
            yield self.parts[places[0]] if len(places) == 1 else row_products(*(self.paired[j] for j in places))

    def blocks(self, kernels: np.ndarray) -> Iterator[Array]:
        for k, V in zip(kernels, self.features(kernels), strict=True):
            yield float(self.scale[k]) ** 0.5 * V

    def decision(self, beta: Array, weights: np.ndarray) -> Array:
        xp = namespace(beta)
        f = 0.0 * beta
        used = np.flatnonzero(weights)
        for k, V in zip(used.tolist(), self.features(used), strict=True):
            V = cast(V, beta.dtype)
            f = f + float(weights[k] * self.scale[k]) * (V @ (xp.matrix_transpose(V) @ beta))
        return f

    def diagonal(self) -> Array:  # (n, m)
        xp = namespace(self.parts[0])
        singles, squares = (_row_squares(some) for some in (self.parts, self.paired))
        first, second = (like(squares, index, "int64") for index in np.triu_indices(len(self.parts), 1))
        pairs = xp.take(squares, first, axis=1) * xp.take(squares, second, axis=1)
        return xp.concat([singles, pairs], axis=1) * like(singles, self.scale)

    def diagonal_of(self, kernels: np.ndarray) -> Array:  # (n, a)
        xp, places = namespace(self.parts[0]), self.sets.places(kernels)
        singles, squares = (_row_squares(some) for some in (self.parts, self.paired))
        first, last = (np.array([some[end] for some in places], dtype=np.int64) for end in (0, -1))
        one, other = (like(squares, index, "int64") for index in (first, last))
        pairs = xp.take(squares, one, axis=1) * xp.take(squares, other, axis=1)
        alone = like(squares, (first == last).astype(float))
        return (alone * xp.take(singles, one, axis=1) + (1.0 - alone) * pairs) * like(squares, self.scale[kernels])

    def only(self, kernels: np.ndarray, matrices: Matrices | None = None) -> GramStack:
        """Return the stack of some kernels only, as features, or as matrices where that is quicker.

        Those in ``matrices`` are valid until it is asked for others.
        """
        n, columns = self.shape[0], sum(self._rank(places) for places in self.sets.places(kernels))
        if is_numpy(self.parts[0]) and columns > FEWER * n and n * n * len(kernels) <= STORED:
            each = (matrices or Matrices()).of(self, kernels)
            return DenseGram(np.moveaxis(each, 0, 2), self.scale[kernels])
        blocks = list(self.blocks(kernels))
        return LowRankGram(namespace(blocks[0]).concat(blocks, axis=1), [block.shape[1] for block in blocks])

    def _rank(self, places: tuple[int, ...]) -> int:
        """Return how many features the kernel of one column or of two has."""
        return self.parts[places[0]].shape[1] if len(places) == 1 else int(np.prod(self.ranks[list(places)]))

    def take(self, index: Any) -> EffectsGram:
        """Return the bank on the samples ``index`` only (a copy)."""
        xp = namespace(self.parts[0])
        places = index if is_numpy(self.parts[0]) or not is_numpy(index) else like(self.parts[0], index, "int64")
        return EffectsGram([xp.take(part, places, axis=0) for part in self.parts], self.scale, self.pair_rank)


class Matrices:
    """Some kernels of a bank between its samples, in memory taken up once: fresh pages cost more than what they hold.

    A kernel that stays in its place is not computed again.
    """

    def __init__(self) -> None:
        self.entries = np.empty((0, 0, 0))
        self.held = np.empty(0, dtype=np.int64)

    def of(self, gram: EffectsGram, kernels: np.ndarray) -> np.ndarray:  # (a, n, n)
        """Return the kernels, before their scale, one after the other."""
        n, m = gram.shape
        if self.held.size < len(kernels):
            self.entries = np.empty((min(STORED // n**2, m), n, n))  # memory is taken up when it is first written
            self.held = np.full(self.entries.shape[0], -1)
        for place in np.flatnonzero(self.held[: len(kernels)] != kernels):
            (V,) = gram.features(kernels[[place]])
            np.matmul(V, V.T, out=self.entries[place])
            self.held[place] = kernels[place]
        return self.entries[: len(kernels)]


def _squared_lengths(A: Array, a: int, B: Array, b: int) -> np.ndarray:  # (n, p a), (n, q b) -> (p, q)
    """Return the squared lengths of the blocks of ``A' B``, of a rows and b columns each, on the host."""
    xp = namespace(A)
    W = xp.matrix_transpose(A) @ B
    blocks = xp.reshape(W * W, (A.shape[1] // a, a, B.shape[1] // b, b))
    return to_host(xp.sum(xp.sum(blocks, axis=3), axis=1)).astype(float)


def _row_squares(features: Sequence[Array]) -> Array:  # (n, d)
    """Return the squared length of each row of each table."""
    xp = namespace(features[0])
    return xp.stack([xp.sum(cast(part, xp.float64) ** 2, axis=1) for part in features], axis=1)


def mean_diagonals(gram: EffectsGram, share: Array) -> np.ndarray:  # (m,)
    """Return the mean of the diagonal of each kernel of a bank, by the shares of the samples, before their scale."""
    singles, squares = (_row_squares(some) for some in (gram.parts, gram.paired))
    xp = namespace(squares)
    pairs = to_host(xp.matrix_transpose(squares * share[:, None]) @ squares)
    return np.concatenate([to_host(share @ singles), pairs[np.triu_indices(len(gram.parts), 1)]])
