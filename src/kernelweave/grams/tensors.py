"""Kernels between samples of another library than NumPy, computed there: stored, or in blocks when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays import Array, cast, device_of, dtype_name, like, namespace, readable, to_host
from ..kernels import Kernel, evaluate
from .base import GramStack
from .dense import DenseGram
from .lowrank import LowRankGram
from .maps import pieces, take_rows
from .rounding import rounding_of


class TensorGram(GramStack):
    """Kernels on samples that are tensors, where these are.

    Sums are in double precision whatever the precision of the kernels, which is that of the samples.

    Parameters
    ----------
    kernels : sequence of Kernel
        Resolved on X.
    X : array of shape (n, d)
        The samples, of any library.
    scale : ndarray of shape (m,), optional
        What each kernel is multiplied by.
    stored : bool, default=True
        Whether to keep the kernels' matrices; else they are computed in every product, some rows at a time.
    room : float, default=inf
        Bytes that the matrix of one weighted sum of kernels may take; where it needs more, that is computed too.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> from kernelweave.grams import TensorGram
    >>> TensorGram([K.Linear()], np.array([[1.0], [2.0]])).energies(np.array([1.0, 1.0]))
    array([9.])
    """

    offers = "kernels of any array library"

    def __init__(
        self,
        kernels: Sequence[Kernel],
        X: Array,
        scale: np.ndarray | None = None,
        stored: bool = True,
        room: float = np.inf,
    ):
        self.kernels, self.X, self.room = list(kernels), X, room
        self.scale = np.ones(len(self.kernels)) if scale is None else np.asarray(scale, dtype=float)
        self.matrices = self._all() if stored else None
        self._rounded: float | None = None

    def _all(self) -> list[Array]:
        """Return every kernel's matrix."""
        xp, n = namespace(self.X), self.X.shape[0]
        out = [xp.empty((n, n), dtype=self.X.dtype, device=device_of(self.X)) for _ in self.kernels]
        for rows, piece in pieces(self.X, n):
            for k, block in evaluate(self.kernels, piece, self.X):
                out[k][rows, :] = block
        return out

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape[0], len(self.kernels)

    @property
    def rounded(self) -> float:
        if self._rounded is None:
            self._rounded = rounding_of(self.kernels, self.X)
        return self._rounded

    @property
    def storage(self) -> str:
        """How the kernels are stored, as a phrase."""
        n, m = self.shape
        size = readable(n * n * m * np.dtype(dtype_name(self.X)).itemsize)
        where = f"on {device_of(self.X)}"
        return (
            f"dense {dtype_name(self.X)} {where}, {size}" if self.matrices else f"computed in blocks {where}, of {size}"
        )

    @property
    def on_demand(self) -> bool:
        return self.matrices is None

    def asarray(self, values: Any) -> Array:
        return like(self.X, values)

    def _blocks(self) -> Iterator[tuple[slice, int, Array]]:
        """Yield rows, kernel and these rows of it."""
        n = self.X.shape[0]
        if self.matrices is not None:
            for k, matrix in enumerate(self.matrices):
                yield slice(0, n), k, matrix
            return
        for rows, piece in pieces(self.X, n):
            for k, block in evaluate(self.kernels, piece, self.X):
                yield rows, k, block

    def products(self, beta: Array) -> Array:  # (n, m) or (c, n, m)
        """Return ``K_k beta`` for every kernel."""
        xp, (n, m) = namespace(beta), self.shape
        out = xp.zeros((*beta.shape[1:], n, m), dtype=xp.float64, device=device_of(beta))
        for rows, k, block in self._blocks():
            values = float(self.scale[k]) * _product(block, beta)
            out[..., rows, k] = values if beta.ndim == 1 else xp.matrix_transpose(values)
        return out

    def multiplier(
        self,
        weights: np.ndarray,  # (m,)
    ) -> Callable[[Array], Array]:
        """Return what multiplies with ``sum_k w_k K_k``, a matrix of its own where there is room for it."""
        xp, n = namespace(self.X), self.X.shape[0]
        mix = weights * self.scale
        if n * n * np.dtype(dtype_name(self.X)).itemsize > self.room:
            return lambda x: self._decision(x, weights)
        kernel = xp.zeros((n, n), dtype=self.X.dtype, device=device_of(self.X))
        for rows, k, block in self._blocks():
            if mix[k]:
                kernel[rows, :] += float(mix[k]) * block
        return WeightedSum(kernel)

    def _decision(self, x: Array, weights: np.ndarray) -> Array:
        out, mix = 0.0 * x, weights * self.scale
        for rows, k, block in self._blocks():
            if mix[k]:
                out[rows, ...] += float(mix[k]) * _product(block, x)
        return out

    def energies(self, beta: Array) -> np.ndarray:
        return self.energies_and_decision(beta, np.zeros(len(self.kernels)))[0]

    def decision(self, beta: Array, weights: np.ndarray) -> Array:
        return self._decision(beta, weights)

    def energies_and_decision(self, beta: Array, weights: np.ndarray) -> tuple[np.ndarray, Array]:
        """Return both products of the same duals, from one look at the kernels."""
        xp, products, w = namespace(beta), self.products(beta), like(beta, weights)
        if beta.ndim == 1:
            return to_host(beta @ products), products @ w
        energies = sum(beta[:, c] @ products[c, ...] for c in range(beta.shape[1]))
        return to_host(energies), xp.matrix_transpose(products @ w)

    def diagonal(self) -> Array:  # (n, m)
        """Return ``K_k[i, i]``."""
        xp = namespace(self.X)
        columns = [cast(kernel.diagonal(self.X), xp.float64) for kernel in self.kernels]
        return xp.stack(columns, axis=1) * like(self.X, self.scale)

    def take(self, index: Any) -> TensorGram:
        """Return the stack of the samples ``index`` only, computed anew."""
        X = take_rows(self.X, index) if isinstance(index, np.ndarray) else namespace(self.X).take(self.X, index, axis=0)
        return TensorGram(self.kernels, X, self.scale, self.matrices is not None, self.room)

    def only(self, kernels: np.ndarray) -> TensorGram:
        """Return the stack of some kernels only."""
        found = TensorGram([self.kernels[k] for k in kernels], self.X, self.scale[kernels], False, self.room)
        found.matrices = None if self.matrices is None else [self.matrices[k] for k in kernels]
        found._rounded = self._rounded
        return found

    def rescaled(self, factors: np.ndarray) -> TensorGram:
        """Return the same kernels, not a copy, each times its factor."""
        found = TensorGram(self.kernels, self.X, self.scale * factors, False, self.room)
        found.matrices, found._rounded = self.matrices, self._rounded
        return found

    def to_host(self) -> DenseGram:
        """Return the kernels as a stored stack of NumPy."""
        X = to_host(self.X)
        stack = np.stack([kernel(X) for kernel in self.kernels], axis=2)
        return DenseGram(stack, self.scale, rounding_of(self.kernels, X))


class WeightedSum:
    """A weighted sum of kernels as a matrix."""

    def __init__(self, matrix: Array):
        self.matrix = matrix

    def __call__(self, x: Array) -> Array:
        """Return its product with x, summed in the precision of x."""
        return _product(self.matrix, x)

    def among(self, index: Array) -> Array:  # (b,) -> (b, b)
        """Return it between some samples, in double precision."""
        xp = namespace(self.matrix)
        return cast(xp.take(xp.take(self.matrix, index, axis=0), index, axis=1), xp.float64)


def _product(matrix: Array, x: Array) -> Array:
    """Return ``matrix @ x``, summed in the precision of x."""
    return LowRankGram(matrix, [matrix.shape[1]]).matvec(x)
