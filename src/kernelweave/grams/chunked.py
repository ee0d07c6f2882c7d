"""Features in Dask chunks: every product is a pass of tasks, one for each chunk, and a sum of what they return."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..chunks import Chunks
from .base import FactorGram
from .lowrank import LowRankGram
from .maps import Maps
from .recomputed import STORED, RecomputedGram


class ChunkedGram(FactorGram):
    """Kernels whose features lie in chunks, made from the samples' chunks where these are.

    Vectors with an entry for each sample are NumPy's, here; tasks are sent their parts of them, and return sums of the
    size of the features, added up in a tree, or numbers for their own rows.

    Parameters
    ----------
    blocks : Chunks
        A stack of the kernels for each chunk.
    ranks : array of shape (m,)
        Columns of each kernel.
    stored : bool
        Whether the blocks hold their features, or make them at every pass.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> from kernelweave.chunks import read_chunks
    >>> from kernelweave.grams import ChunkedGram, Nystroem
    >>> X, share = np.random.default_rng(0).normal(size=(50, 2)), np.full(50, 1 / 50)
    >>> made = Nystroem(rank=5).factorise(K.rbf(gamma=[0.1, 1.0]), X, share=share, normalize=None, random_state=0)
    >>> rows = read_chunks(da.from_array(X, chunks=(20, 2)))
    >>> again, beta = ChunkedGram.of(rows, made.maps, stored=False), np.arange(50.0)
    >>> bool(np.allclose(again.rmatvec(beta), made.gram.rmatvec(beta)))
    True
    """

    def __init__(self, blocks: Chunks, ranks: np.ndarray, stored: bool):
        self.blocks, self.ranks, self.stored = blocks, np.asarray(ranks, dtype=np.int64), stored

    @classmethod
    def of(cls, chunks: Chunks, maps: Maps, stored: bool) -> ChunkedGram:
        """Return the kernels that maps make of samples in chunks."""
        ranks = np.array([mix.shape[1] for mix in maps.mixes])
        row_bytes = int(ranks.sum()) * chunks.dtype.itemsize
        return cls(chunks.made(_block, [maps, stored], stored, _joined, row_bytes), ranks, stored)

    @property
    def shape(self) -> tuple[int, int]:
        return self.blocks.shape[0], self.ranks.size

    @property
    def columns(self) -> int:
        return int(self.ranks.sum())

    @property
    def on_host(self) -> bool:
        return True

    @property
    def host_features(self) -> np.ndarray | None:
        return None

    @property
    def costly(self) -> bool:
        return True

    @property
    def holding(self) -> str:
        many = f"in {len(self.blocks.parts)} chunks"
        return f"{many}, kept by the workers" if self.stored else f"{many}, recomputed from X at each pass"

    def rmatvec(self, beta: np.ndarray) -> np.ndarray:
        return self.blocks.total(_folded, split=[beta])

    def matvec(self, z: np.ndarray) -> np.ndarray:
        return np.concatenate(self.blocks.each(_lifted, shared=[z]))

    def weighted(self, theta: np.ndarray, rows: np.ndarray | None = None, rough: bool = False) -> np.ndarray:
        return self.moments(theta, rows, rough)[0]

    def moments(
        self, theta: np.ndarray, rows: np.ndarray | None = None, rough: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        return self.blocks.total(_moments, shared=[rows is not None, rough], split=[theta])

    def diagonal(self) -> np.ndarray:  # (n, m)
        return np.concatenate(self.blocks.each(_diagonal))

    def take(self, index: Any) -> FactorGram:
        """Return the stack of the samples ``index`` only: here, where that is little."""
        order = np.asarray(index)
        sorted_rows = np.sort(order)
        few = self.blocks.only(sorted_rows)
        if order.size * self.columns > STORED:
            if not np.array_equal(order, sorted_rows):
                raise ValueError("index must be increasing for rows in chunks.")
            return ChunkedGram(few, self.ranks, self.stored)
        features = np.concatenate(few.each(_features))
        return LowRankGram(features[np.argsort(np.argsort(order, kind="stable"), kind="stable")], self.ranks)


def _block(X: np.ndarray, maps: Maps, stored: bool, number: int, start: int) -> FactorGram:
    return LowRankGram(maps.transform(X), [mix.shape[1] for mix in maps.mixes]) if stored else RecomputedGram(maps, X)


def _joined(blocks: list[LowRankGram]) -> LowRankGram:
    if len(blocks) == 1:
        return blocks[0]
    return LowRankGram(np.concatenate([block.features for block in blocks]), blocks[0].ranks)


def _folded(block: FactorGram, beta: np.ndarray) -> np.ndarray:
    return block.rmatvec(np.ascontiguousarray(beta))


def _lifted(block: FactorGram, z: np.ndarray) -> np.ndarray:
    return block.matvec(z)


def _moments(block: FactorGram, few: bool, rough: bool, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return block.moments(theta, np.flatnonzero(theta) if few else None, rough)


def _diagonal(block: FactorGram) -> np.ndarray:
    return block.diagonal()


def _features(block: Any) -> np.ndarray:
    return block.maps.transform(block.X) if isinstance(block, RecomputedGram) else block.features
