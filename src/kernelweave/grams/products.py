"""All products of two kernels or more, none of them formed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import readable
from ..kernels import evaluate
from .base import CombinableGram, GramStack, ProductStack
from .basis import BasisGram
from .cached import COMBINED, CachedGram
from .dense import DenseGram
from .energies import Matrix, Top, largest
from .factorproducts import FactorProducts
from .lowrank import LowRankGram

FORMED = 128  # kernels up to which the matrix of energies is formed: one matrix product is cheaper than many passes
TILE = 2**20  # kernel entries worked on at a time
ROUNDING = 1e-6  # of the largest that an energy could be: how far below zero rounding may put it


class ProductGram(ProductStack):
    """The products of the kernels in a stack: ``K_a o K_b``, entry by entry, or of more than two.

    Weights are one number ``u_a`` per kernel and stand for ``sum_ab u_a u_b K_a o K_b``, the elementwise square (or
    higher power) of ``K_u = sum_a u_a K_a``. The energies are the matrix ``M_ab = beta' (K_a o K_b) beta``, from the
    samples with coefficients only; with many kernels it is not formed either.

    Parameters
    ----------
    base : DenseGram or CachedGram
        The kernels.
    linear_terms : bool, default=False
        Count the kernel that is 1 everywhere among them, as the last; it is not stored.
    degree : int, default=2
        Kernels in a product.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.grams import DenseGram, ProductGram
    >>> x = np.array([1.0, 2.0])
    >>> pairs = ProductGram(DenseGram(np.outer(x, x)[:, :, None]), linear_terms=True)
    >>> pairs.combine(np.arange(2), np.array([1.0, 3.0])).tolist()
    [[16.0, 25.0], [25.0, 49.0]]
    >>> pairs.energies(np.array([1.0, 0.0])).matrix.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    def __init__(self, base: GramStack, linear_terms: bool = False, degree: int = 2):
        if not isinstance(base, DenseGram | CachedGram):
            raise TypeError(
                f"Products of kernels need the kernels' entries, which {type(base).__name__} does not have: "
                "use FactorProducts for features of low rank."
            )
        self.base, self.linear_terms, self.degree = base, bool(linear_terms), int(degree)

    @property
    def shape(self) -> tuple[int, int]:
        n, m = self.base.shape
        return n, m + self.linear_terms

    @property
    def rounded(self) -> float:
        return self.degree * self.base.rounded

    @property
    def explicit(self) -> bool:
        return False

    @property
    def hit_rate(self) -> float:
        return self.base.hit_rate

    def energies(self, beta: np.ndarray, near: np.ndarray | None = None) -> Matrix | ProductEnergies:
        """Return the energies of the products; ``near`` is a guess of the weights they lead to."""
        energies = ProductEnergies(self, beta, near)
        formed = self.degree == 2 and (self.shape[1] <= FORMED or isinstance(self.base, CachedGram))
        return Matrix(energies.matrix()) if formed else energies

    def decision(self, beta: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return ``f = (K_u o K_u) beta``."""
        from ..compiled import products

        support, columns = np.flatnonzero(beta), np.arange(beta.size)
        scaled, shift = self.split(weights)
        f = np.zeros(beta.size)
        for part in self.parts(support, columns):
            stack, rows, there = self.entries(support[part], columns)
            f += products.decision(stack, rows, there, beta[support[part]], scaled, shift, self.degree)
        return f

    def combine(
        self,
        index: np.ndarray,  # (b,)
        weights: np.ndarray,  # (m,)
    ) -> np.ndarray:  # (b, b)
        """Return the elementwise power of ``sum_a u_a K_a`` between the chosen samples."""
        m, need = self.base.shape[1], 8 * index.size**2
        if isinstance(self.base, CachedGram) and need > max(self.base.memory, COMBINED):
            raise ValueError(
                f"penalty='spectral' needs one combined kernel of {index.size} samples, {readable(need)}, but memory= "
                f"allows {readable(self.base.memory)}: use a larger memory= in bytes, or fewer rows."
            )
        mixed = self.base.combine(index, weights[:m])
        mixed += weights[m:].sum()
        mixed **= self.degree
        return mixed

    def diagonal(self) -> np.ndarray:  # (n, m)
        """Return ``K_k[i, i]``."""
        return np.hstack([self.base.diagonal(), np.ones((self.shape[0], int(self.linear_terms)))])

    def take(self, index: np.ndarray) -> ProductGram:
        """Return the products on the samples ``index`` only."""
        return ProductGram(self.base.take(index), self.linear_terms, self.degree)

    def split(self, weights: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the factors of the kernels' stored entries, and the weight of the kernel that is 1 everywhere."""
        m = self.base.shape[1]
        return weights[:m] * self.base.scale, float(weights[m:].sum())

    def parts(self, rows: np.ndarray, columns: np.ndarray) -> Iterator[slice]:
        """Yield some of the rows at a time."""
        step = max(1, TILE // max(columns.size * self.base.shape[1], 1))
        for first in range(0, rows.size, step):
            yield slice(first, min(first + step, rows.size))

    def entries(self, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return an array with the kernels between some samples, and where in it they are; before scaling."""
        if isinstance(self.base, DenseGram):
            return self.base.stack, rows, columns
        out = np.empty((rows.size, columns.size, self.base.shape[1]))
        for k, matrix in evaluate(self.base.kernels, self.base.X[rows], self.base.X[columns]):
            out[:, :, k] = matrix
        return out, np.arange(rows.size), np.arange(columns.size)


class ProductEnergies:
    """Energies ``beta' (K_a o K_b o ..) beta`` of all products of kernels, known by what they pull weights to.

    A pull reads each entry of each kernel between support vectors once, so its cost grows with the number of kernels
    and not with that of their products.
    """

    def __init__(self, gram: ProductGram, beta: np.ndarray, near: np.ndarray | None = None):
        self.gram, self.near, self.degree = gram, near, gram.degree
        self.support = np.flatnonzero(beta)
        self.beta = beta[self.support]
        self.size = np.sqrt(np.abs(gram.diagonal()[self.support]))  # (s, m) no entry is above the product of two

    @cached_property
    def top(self) -> Top:
        """The largest energy of weights of length one."""
        return largest(self, self.gram.shape[1], self.near)

    def pull(self, weights: np.ndarray) -> np.ndarray:  # (m,)
        """Return ``sum T_ab.. u_b ..``."""
        from ..compiled import products

        scaled, shift = self.gram.split(weights)
        out, total = np.zeros(scaled.size), 0.0
        for part, seen in self._halves():
            stack, rows, columns = self.gram.entries(self.support[part], self.support[: part.stop])
            some, more = products.pull(stack, rows, columns, self.beta[part], seen, scaled, shift, self.degree)
            out, total = out + some, total + more
        out = np.append(out * self.gram.base.scale, [total] * self.gram.linear_terms)
        others = (self.size**2 @ np.abs(weights)) ** (0.5 * (self.degree - 1))
        return _not_negative(out, (np.abs(self.beta) * others) @ self.size)

    def matrix(self) -> np.ndarray:  # (m, m)
        """Return the energies of pairs, by one matrix product."""
        m = self.gram.base.shape[1]
        out, linear = np.zeros((m, m)), np.zeros(m)
        for part, seen in self._halves():
            stack, rows, columns = self.gram.entries(self.support[part], self.support[: part.stop])
            entries = stack[np.ix_(rows, columns)].reshape(-1, m).astype(float, copy=False)
            weighted = np.outer(self.beta[part], seen).reshape(-1, 1) * entries
            out += entries.T @ weighted
            linear += weighted.sum(axis=0)
        scale = self.gram.base.scale
        out = np.outer(scale, scale) * (0.5 * (out + out.T))
        if self.gram.linear_terms:
            edge = (linear * scale)[:, None]
            out = np.block([[out, edge], [edge.T, np.full((1, 1), self.beta.sum() ** 2)]])
        return _not_negative(out, (self.size.T * np.abs(self.beta)) @ self.size)

    def _halves(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield rows of pairs and the duals up to the last of them, those before the first standing for two."""
        for part in self.gram.parts(self.support, self.support):
            yield part, self.beta[: part.stop] * np.where(np.arange(part.stop) < part.start, 2.0, 1.0)


def _not_negative(
    energies: np.ndarray,
    reach: np.ndarray,  # their size is at most its square
) -> np.ndarray:
    """Return energies of positive semidefinite kernels, which products are too, without rounding below zero."""
    if np.any(energies < -ROUNDING * reach**2):
        raise ValueError(
            "A product of kernels has a negative energy, so one of them is not positive semidefinite and nothing can "
            "be certified: leave it out, or drop the negative part of its spectrum."
        )
    return np.maximum(energies, 0.0)


def products_for(gram: GramStack, penalty: Any) -> ProductStack:
    """Return the products of the kernels of a stack that a penalty such as `SpectralNorm` weighs.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.grams import DenseGram, products_for
    >>> from kernelweave.penalties import SpectralNorm
    >>> products_for(DenseGram(np.ones((2, 2, 3))), SpectralNorm(linear_terms=True)).shape
    (2, 4)
    """
    penalty.check(gram.shape[1])
    if not isinstance(gram, CombinableGram) or isinstance(gram, BasisGram):
        shared = isinstance(gram, BasisGram)
        what = "are a basis that kernels share" if shared else "are kernels of another library"
        how = "use" if shared else "convert X yourself and use"
        raise TypeError(
            f"Products of kernels run on NumPy's kernels or features, and these {what}: {how} "
            "approximation='nystroem' or none, or use a penalty that adds kernels, such as 'lp'."
        )
    if isinstance(gram, LowRankGram):
        return FactorProducts(gram, penalty.linear_terms, penalty.degree)
    return ProductGram(gram, penalty.linear_terms, penalty.degree)
