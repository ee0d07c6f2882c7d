"""How samples meet features: raw columns per kernel, a matrix that mixes them, and what prediction keeps of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy.sparse import issparse

from ..arrays import Array, cast, device_of, dtype_name, is_foreign, is_numpy, like, namespace, to_host
from ..kernels import Kernel, evaluate
from ..kernels.base import columns_of, known_features, rows_of

CHUNK = 2**20  # entries worked on at a time on the computer's own processor
DEVICE_CHUNK = 2**26  # the same on an accelerator, where small pieces would starve it


class Source(Protocol):
    """Raw columns of some kernels, computed together because they share work."""

    @property
    def positions(self) -> tuple[int, ...]:
        """Which kernels they are."""
        ...

    @property
    def width(self) -> int:
        """Raw columns of each kernel."""
        ...

    def raw(self, X: Any) -> Iterator[tuple[int, Array]]:
        """Yield the position of each kernel and its raw columns, (n, width)."""
        ...

    def diagonal(self, place: int, X: Any) -> Array:
        """Return k(x, x) for the kernel at a place among `positions`."""
        ...

    def only(self, new: Mapping[int, int]) -> Source | None:
        """Return the source of the kernels that are keys of ``new``, renumbered; None if there are none."""
        ...


@dataclass(frozen=True)
class Landmarks:
    """Kernels between samples and the same landmarks."""

    positions: tuple[int, ...]
    kernels: tuple[Kernel, ...]
    Z: Any  # (width, d)

    @property
    def width(self) -> int:
        return self.Z.shape[0]

    def raw(self, X: Any) -> Iterator[tuple[int, Array]]:
        for place, matrix in evaluate(self.kernels, X, self.Z):
            yield self.positions[place], matrix

    def diagonal(self, place: int, X: Any) -> Array:
        return self.kernels[place].diagonal(X)

    def only(self, new: Mapping[int, int]) -> Landmarks | None:
        kept = [place for place, k in enumerate(self.positions) if k in new]
        if not kept:
            return None
        positions = tuple(new[self.positions[place]] for place in kept)
        return Landmarks(positions, tuple(self.kernels[place] for place in kept), self.Z)


@dataclass(frozen=True)
class Waves:
    """Cosines and sines of the same projections, at the frequencies of each kernel."""

    positions: tuple[int, ...]
    columns: tuple[int, ...] | None
    draws: Array  # (d, width / 2)
    factors: tuple[float, ...]  # of the projections, one per kernel
    sizes: tuple[float, ...]  # k(x, x), one per kernel

    @property
    def width(self) -> int:
        return 2 * self.draws.shape[1]

    def raw(self, X: Any) -> Iterator[tuple[int, Array]]:
        xp = namespace(self.draws)
        projections = columns_of(X, self.columns) @ cast(self.draws, X.dtype)
        for k, factor, size in zip(self.positions, self.factors, self.sizes, strict=True):
            angles = factor * projections
            yield k, (2.0 * size / self.width) ** 0.5 * xp.concat([xp.cos(angles), xp.sin(angles)], axis=1)

    def diagonal(self, place: int, X: Any) -> Array:
        xp = namespace(self.draws)
        return xp.full((X.shape[0],), self.sizes[place], dtype=xp.float64, device=device_of(self.draws))

    def only(self, new: Mapping[int, int]) -> Waves | None:
        kept = [place for place, k in enumerate(self.positions) if k in new]
        if not kept:
            return None
        positions = tuple(new[self.positions[place]] for place in kept)
        factors, sizes = (tuple(values[place] for place in kept) for values in (self.factors, self.sizes))
        return replace(self, positions=positions, factors=factors, sizes=sizes)


@dataclass(frozen=True)
class Explicit:
    """A kernel whose features are known functions of the samples."""

    positions: tuple[int, ...]  # one
    kernel: Kernel
    width: int

    def raw(self, X: Any) -> Iterator[tuple[int, Array]]:
        yield self.positions[0], known_features(self.kernel, X)

    def diagonal(self, place: int, X: Any) -> Array:
        return self.kernel.diagonal(X)

    def only(self, new: Mapping[int, int]) -> Explicit | None:
        k = self.positions[0]
        return replace(self, positions=(new[k],)) if k in new else None


@dataclass(frozen=True)
class Maps:
    """The features of new samples: those that the training samples have in the Gram stack, for any sample.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> from kernelweave.grams import Nystroem
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> made = Nystroem(rank=3).factorise(K.linear(), X, share=np.ones(3) / 3, normalize=None, random_state=0)
    >>> np.abs(made.maps.transform(np.array([[2.0]]))).round(6)
    array([[2.]])
    >>> made.maps.predictor(np.array([[1.0]])).decide(X).shape
    (3, 1)
    """

    sources: tuple[Source, ...]
    mixes: tuple[Array, ...]  # (width, rank) of each kernel

    def transform(self, X: Any) -> Array:  # (n, d) -> (n, D)
        """Return the features of samples, in their precision."""
        blocks = [join(features(self.sources, self.mixes, piece)) for _, piece in pieces(X, self.entries)]
        return namespace(blocks[0]).concat(blocks, axis=0)

    def predictor(
        self,
        z: Array,  # (D,) or (D, c)
    ) -> Predictor:
        """Return what computes ``transform(X) @ z``, and holds only the kernels whose part of ``z`` is not zero."""
        ends = np.cumsum([mix.shape[1] for mix in self.mixes]).tolist()
        starts = [0, *ends[:-1]]
        used = np.abs(to_host(z)).reshape(z.shape[0], -1).max(axis=1) > 0
        active = [k for k, (a, b) in enumerate(zip(starts, ends, strict=True)) if used[a:b].any()]
        new = {k: place for place, k in enumerate(active)}
        sources = tuple(part for source in self.sources if (part := source.only(new)) is not None)
        coefs = tuple(cast(self.mixes[k], z.dtype) @ z[starts[k] : ends[k], ...] for k in active)
        return Predictor(sources, coefs, tuple(active), z[:0, ...])

    def only(self, kernels: np.ndarray) -> Maps:
        """Return the maps of some kernels only."""
        new = {int(k): place for place, k in enumerate(kernels)}
        sources = tuple(part for source in self.sources if (part := source.only(new)) is not None)
        return Maps(sources, tuple(self.mixes[k] for k in new))

    def rescaled(
        self,
        factors: np.ndarray,  # (m,)
    ) -> Maps:
        """Return the maps of each kernel times its factor."""
        return Maps(self.sources, tuple(mix * float(f) ** 0.5 for mix, f in zip(self.mixes, factors, strict=True)))

    @property
    def entries(self) -> int:
        """Numbers that a sample is worked on with."""
        return max([source.width for source in self.sources] + [sum(mix.shape[1] for mix in self.mixes)])


@dataclass(frozen=True)
class Predictor:
    """A linear function of the features, folded into coefficients of the raw columns."""

    sources: tuple[Source, ...]
    coefs: tuple[Array, ...]  # (width,) or (width, c) for each kernel of `active`
    active: tuple[int, ...]  # positions among the kernels of the Gram stack
    empty: Array  # (0,) or (0, c): library, device and precision of the values

    def decide(self, X: Any) -> Array:  # (n,) or (n, c)
        """Return the values for the rows of X, some rows at a time."""
        return self.shares(X, np.zeros(max(self.active, default=0) + 1, dtype=int), 1)[:, 0, ...]

    def shares(
        self,
        X: Any,
        owner: np.ndarray,  # (m,) the part that each kernel of the Gram stack belongs to
        parts: int,
    ) -> Array:  # (n, parts) or (n, parts, c)
        """Return the values of each part for the rows of X; they sum to `decide`."""
        xp, empty = namespace(self.empty), self.empty
        shape = (parts, *empty.shape[1:])
        blocks = [xp.zeros((0, *shape), dtype=empty.dtype, device=device_of(empty))]
        for rows, piece in pieces(X, max((source.width for source in self.sources), default=1)):
            total = xp.zeros((rows.stop - rows.start, *shape), dtype=empty.dtype, device=device_of(empty))
            for source in self.sources:
                for k, raw in source.raw(piece):
                    part = int(owner[self.active[k]])
                    total[:, part, ...] = total[:, part, ...] + cast(raw, empty.dtype) @ self.coefs[k]
            blocks.append(total)
        return xp.concat(blocks, axis=0)


# -- rows and pieces --------------------------------------------------------------------------------------


def anchor(X: Any) -> Array:
    """Return an array of the library, device and precision that features of X have."""
    return np.empty(0, dtype=X.dtype) if issparse(X) else X


def take_rows(X: Any, index: Array) -> Any:
    """Return the samples at some positions, sparse or not."""
    return namespace(X).take(X, like(X, index, "int64"), axis=0) if is_foreign(X) else X[index]


def take_columns(table: Array, index: np.ndarray) -> Array:
    """Return the columns of a table at some positions."""
    return table[:, index] if is_numpy(table) else namespace(table).take(table, like(table, index, "int64"), axis=1)


def on_host(X: Any) -> bool:
    """Whether samples lie in the computer's own memory."""
    return not is_foreign(X) or "cpu" in str(device_of(X)).lower()


def piece_rows(X: Any, width: int, device_chunk: int = DEVICE_CHUNK) -> int:
    """Return how many rows of ``width`` entries, or of X, make a piece of decent size."""
    return max(1, (CHUNK if on_host(X) else device_chunk) // max(width, X.shape[1], 1))


def pieces(X: Any, width: int, device_chunk: int = DEVICE_CHUNK) -> Iterator[tuple[slice, Any]]:
    """Yield slices of rows, and the rows."""
    n, step = X.shape[0], piece_rows(X, width, device_chunk)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        yield rows, X if step >= n else rows_of(X, rows)


def features(sources: Sequence[Source], mixes: Sequence[Array | None], X: Any) -> list[Array]:
    """Return the features of each kernel, the raw columns themselves where there is nothing to mix."""
    blocks: dict[int, Array] = {}
    for source in sources:
        for k, raw in source.raw(X):
            mix = mixes[k]
            blocks[k] = raw if mix is None else raw @ cast(mix, raw.dtype)
    return [blocks[k] for k in sorted(blocks)]


def join(blocks: Sequence[Array]) -> Array:
    """Return the features of all kernels side by side."""
    return blocks[0] if len(blocks) == 1 else namespace(blocks[0]).concat(blocks, axis=1)


def precision(X: Any) -> float:
    """Return the rounding unit of samples."""
    return float(np.finfo(dtype_name(X)).eps)
