"""All products of two kernels of low rank, from their features."""

from __future__ import annotations

import numpy as np

from ..arrays import is_numpy, kind_of
from .base import ProductStack
from .energies import Matrix
from .lowrank import LowRankGram

FEW = 2  # samples for each product of features from which these are quicker and smaller than the combined kernel


def check_degree(degree: int) -> None:
    """Refuse products of more than two kernels of low rank."""
    if degree != 2:
        raise ValueError(
            f"SpectralNorm(degree={degree}) needs the kernels' entries, which features of low rank do not have: use "
            "degree=2, or approximation=None."
        )


class FactorProducts(ProductStack):
    """The products of two kernels in a stack of features: ``K_a o K_b`` with ``K_a = V_a V_a'``, entry by entry.

    As in `ProductGram`, weights are one number ``u_a`` per kernel and stand for the elementwise square of
    ``K_u = sum_a u_a K_a``. The energies ``beta' (K_a o K_b) beta`` are the squared lengths of the blocks of
    ``V' diag(beta) V``, so that neither they nor decision values need a product of features, or the kernels' entries.

    Parameters
    ----------
    base : LowRankGram
        The kernels, as features of NumPy.
    linear_terms : bool, default=False
        Count the kernel that is 1 everywhere among them, as the last.
    degree : int, default=2
        Kernels in a product; with features there is no other.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.grams import FactorProducts, LowRankGram
    >>> pairs = FactorProducts(LowRankGram(np.array([[1.0], [2.0]]), ranks=[1]), linear_terms=True)
    >>> pairs.combine(np.arange(2), np.array([1.0, 3.0])).round(12).tolist()
    [[16.0, 25.0], [25.0, 49.0]]
    >>> pairs.energies(np.array([1.0, 0.0])).matrix.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    def __init__(self, base: LowRankGram, linear_terms: bool = False, degree: int = 2):
        check_degree(degree)
        if not is_numpy(base.features):
            raise TypeError(
                f"Products of kernels run on NumPy, and the features are a {kind_of(base.features)}: convert X "
                "yourself, or use a penalty that adds kernels, such as 'lp'."
            )
        self.base, self.linear_terms, self.degree = base, bool(linear_terms), int(degree)
        self.columns = _with_ones(base) if linear_terms else base

    @property
    def shape(self) -> tuple[int, int]:
        return self.columns.shape

    @property
    def width(self) -> int:
        """Columns of the product features."""
        D = self.columns.features.shape[1]
        return D * (D + 1) // 2

    @property
    def explicit(self) -> bool:
        """Whether an SVM is trained on product features, which are then few, or on the combined kernel."""
        return FEW * self.width <= self.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes that an SVM takes: product features, or one combined kernel."""
        n = self.shape[0]
        return 8 * n * (self.width if self.explicit else n)

    def energies(self, beta: np.ndarray, near: np.ndarray | None = None) -> Matrix:
        """Return the energies of the products; they need no guess ``near`` of the weights they lead to."""
        squares, starts = self.moments(beta) ** 2, self.columns.starts
        return Matrix(np.add.reduceat(np.add.reduceat(squares, starts, axis=0), starts, axis=1))

    def decision(self, beta: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return ``f = (K_u o K_u) beta``."""
        form, f = self.form(beta, weights), np.empty(beta.size)
        for rows in self.columns.chunks():
            V = self.columns.features[rows].astype(float, copy=False)
            f[rows] = np.sum((V @ form) * V, axis=1)
        return f

    def combine(
        self,
        index: np.ndarray,  # (b,)
        weights: np.ndarray,  # (m,)
    ) -> np.ndarray:  # (b, b)
        """Return the elementwise square of ``sum_a u_a K_a`` between the chosen samples."""
        V = self._weighed(weights)[index]
        mixed = V @ V.T
        mixed *= mixed
        return mixed

    def features(
        self,
        weights: np.ndarray,  # (m,)
    ) -> LowRankGram:
        """Return the elementwise square of ``sum_a u_a K_a`` as one kernel: products of each two weighed columns."""
        V = self._weighed(weights)
        n, d = V.shape
        out, first = np.empty((n, d * (d + 1) // 2)), 0
        for j in range(d):
            some = out[:, first : first + d - j]
            np.multiply(V[:, [j]], V[:, j:], out=some)
            some[:, 1:] *= np.sqrt(2.0)
            first += d - j
        return LowRankGram(out, [first])

    def moments(self, beta: np.ndarray) -> np.ndarray:  # (D, D)
        """Return ``W = V' diag(beta) V``, from the samples with coefficients only."""
        size = np.abs(beta)
        above, below = (self.columns.weighted(size, np.flatnonzero(side)) for side in (beta > 0, beta < 0))
        return above - below

    def form(self, beta: np.ndarray, weights: np.ndarray) -> np.ndarray:  # (D, D)
        """Return ``P W P`` with the weight of each column in P: a sample with features v has the value v' P W P v."""
        columns = self.columns.per_column(weights)
        return columns[:, None] * self.moments(beta) * columns

    def diagonal(self) -> np.ndarray:  # (n, m)
        """Return ``K_k[i, i]``."""
        return self.columns.diagonal()

    def take(self, index: np.ndarray) -> FactorProducts:
        """Return the products on the samples ``index`` only (a copy)."""
        return FactorProducts(self.base.take(index), self.linear_terms, self.degree)

    def _weighed(self, weights: np.ndarray) -> np.ndarray:
        """Return the columns of kernels with weight, times the root of it."""
        columns = self.columns.per_column(weights)
        live = np.flatnonzero(columns)
        return self.columns.features[:, live] * np.sqrt(columns[live])


def _with_ones(base: LowRankGram) -> LowRankGram:
    ones = np.ones((base.shape[0], 1), dtype=base.features.dtype)
    return LowRankGram(np.hstack([base.features, ones]), np.append(base.ranks, 1))
