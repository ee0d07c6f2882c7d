"""Features that are made from the samples again at every pass, where they would not fit in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..arrays import Array, cast, device_of, dtype_name, is_numpy, like, namespace, symmetric_product
from .base import FactorGram
from .lowrank import LowRankGram
from .maps import Maps, anchor, features, join, on_host, pieces, take_rows

STORED = 2**25  # entries of the features of some samples up to which they are held
DEVICE_PIECE = 2**29  # entries of features made at a time on an accelerator


class RecomputedGram(FactorGram):
    """Kernels whose features are made from the samples at every pass: memory for a few pieces of them at a time.

    Raw columns of kernels are in the precision of the samples, sums in float64. Vectors live where the samples do.

    Parameters
    ----------
    maps : Maps
        From samples to features.
    X : array or CSR matrix of shape (n, d)
        The samples, in memory, on a device, or mapped from a file; read at every pass, never changed.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> from kernelweave.grams import Nystroem, RecomputedGram
    >>> X, share = np.random.default_rng(0).normal(size=(50, 2)), np.full(50, 1 / 50)
    >>> made = Nystroem(rank=5).factorise(K.rbf(gamma=[0.1, 1.0]), X, share=share, normalize=None, random_state=0)
    >>> again, beta = RecomputedGram(made.maps, X), np.arange(50.0)
    >>> bool(np.allclose(again.rmatvec(beta), made.gram.rmatvec(beta)))
    True
    """

    def __init__(self, maps: Maps, X: Any):
        self.maps, self.X = maps, X
        self.ranks = np.array([mix.shape[1] for mix in maps.mixes], dtype=np.int64)

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], self.ranks.size

    @property
    def columns(self) -> int:
        return int(self.ranks.sum())

    @property
    def on_host(self) -> bool:
        return on_host(self.X)

    @property
    def host_features(self) -> np.ndarray | None:
        return None

    @property
    def costly(self) -> bool:
        return True

    @property
    def holding(self) -> str:
        return "recomputed from X at each pass"

    def asarray(self, values: Any) -> Array:
        base = anchor(self.X)
        return np.ascontiguousarray(values, dtype=float) if is_numpy(base) else like(base, values)

    def rmatvec(self, beta: Array) -> Array:
        return self._mixed_sums(self._folded(rows, piece, beta) for rows, piece in self._pieces())

    def matvec(self, z: Array) -> Array:
        coefs = self._coefs(z)
        return namespace(z).concat([self._lifted(piece, coefs, z) for _, piece in self._pieces()])

    def weighted(self, theta: Array, rows: Array | None = None, rough: bool = False) -> Array:
        return self._moments(theta, rows, rough)[0]

    def moments(self, theta: Array, rows: Array | None = None, rough: bool = False) -> tuple[Array, Array]:
        return self._moments(theta, rows, rough)

    def _moments(self, theta: Array, rows: Array | None, rough: bool) -> tuple[Array, Array]:
        """Return ``V' diag(theta) V`` and ``V' theta``, from the rows that count."""
        xp, D = namespace(theta), self.columns
        total = xp.zeros((D, D), dtype=xp.float64, device=device_of(theta))
        sums = xp.zeros((D,), dtype=xp.float64, device=device_of(theta))
        for part, piece in self._pieces():
            weight = theta[part]
            if rows is not None:
                some = xp.nonzero(weight)[0]
                if not some.shape[0]:
                    continue
                piece, weight = take_rows(piece, some), xp.take(weight, some)
            V = self._made(piece, getattr(xp, dtype_name(self.X)) if rough else xp.float64)
            sums = sums + xp.matrix_transpose(V) @ cast(weight, V.dtype)
            total = total + cast(symmetric_product(V * cast(xp.sqrt(weight), V.dtype)[:, None]), xp.float64)
        return total, sums

    def diagonal(self) -> Array:  # (n, m)
        xp = namespace(self.asarray(np.zeros(1)))
        blocks = [
            xp.stack([xp.sum(cast(V, xp.float64) ** 2, axis=1) for V in features(*self._parts, piece)], axis=1)
            for _, piece in self._pieces()
        ]
        return xp.concat(blocks)

    def take(self, index: Any) -> FactorGram:
        """Return the stack of the samples ``index`` only: held, where that is little."""
        few = take_rows(self.X, index)
        if few.shape[0] * self.columns > STORED:
            return RecomputedGram(self.maps, few)
        return LowRankGram(self.maps.transform(few), self.ranks)

    def only(self, kernels: np.ndarray) -> RecomputedGram:
        """Return the stack of some kernels only."""
        return RecomputedGram(self.maps.only(kernels), self.X)

    # -- pieces of samples --------------------------------------------------------------------------------

    @property
    def _parts(self) -> tuple[Any, Any]:
        return self.maps.sources, self.maps.mixes

    def _pieces(self) -> Iterator[tuple[slice, Any]]:
        return pieces(self.X, self.maps.entries, DEVICE_PIECE)

    def _raw(self, piece: Any) -> Iterator[tuple[int, Array]]:
        for source in self.maps.sources:
            yield from source.raw(piece)

    def _made(self, piece: Any, dtype: Any) -> Array:
        """Return the features of some samples, mixed in a precision."""
        blocks = {k: cast(raw, dtype) @ cast(self.maps.mixes[k], dtype) for k, raw in self._raw(piece)}
        return join([blocks[k] for k in range(self.ranks.size)])

    def _coefs(self, z: Array) -> list[Array]:
        """Return what z is as coefficients of each kernel's raw columns."""
        both = zip(self.maps.mixes, self.segments(), strict=True)
        return [cast(mix, z.dtype) @ z[s : s + r, ...] for mix, (s, r) in both]

    def _lifted(self, piece: Any, coefs: list[Array], z: Array) -> Array:
        xp = namespace(z)
        total = xp.zeros((piece.shape[0], *z.shape[1:]), dtype=z.dtype, device=device_of(z))
        for k, raw in self._raw(piece):
            total = total + _times(raw, coefs[k])
        return total

    def _folded(self, rows: slice, piece: Any, beta: Array) -> list[Array]:
        part = beta[rows, ...]
        sums = {k: LowRankGram(raw, [raw.shape[1]]).rmatvec(part) for k, raw in self._raw(piece)}
        return [sums[k] for k in range(self.ranks.size)]

    def _mixed_sums(self, sums: Iterator[list[Array]]) -> Array:
        """Return the sums of raw columns over pieces as sums of features."""
        total = next(sums)
        for more in sums:
            total = [a + b for a, b in zip(total, more, strict=True)]
        xp = namespace(total[0])
        parts = [xp.matrix_transpose(cast(m, t.dtype)) @ t for m, t in zip(self.maps.mixes, total, strict=True)]
        return xp.concat(parts)


def _times(raw: Array, coef: Array) -> Array:
    """Return raw columns times coefficients, in the precision of these."""
    return LowRankGram(raw, [raw.shape[1]]).matvec(coef)
