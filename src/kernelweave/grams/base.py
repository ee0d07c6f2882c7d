"""What a stack of Gram matrices is, however it is stored, and what more some representations can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..arrays import Array, namespace, to_host


class GramStack(ABC):
    """``m`` kernels on ``n`` training samples.

    Two products are required of every representation. What else a solver may ask for is declared below: single entries
    (`EntryGram`), sums of kernels between some samples (`CombinableGram`), features in chunks (`FactorGram`), products
    of kernels (`ProductStack`).

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> gram = kw.DenseGram(np.stack([np.eye(3), np.ones((3, 3))], axis=2))
    >>> isinstance(gram, kw.grams.GramStack), gram.shape
    (True, (3, 2))
    >>> gram.energies(np.ones(3))
    array([3., 9.])
    """

    #: what solvers ask of such a stack, for sentences
    offers: ClassVar[str] = "products with kernels"

    def asarray(self, values: Any) -> Any:
        """Return ``values`` as float64 where the products of this stack are computed."""
        return np.ascontiguousarray(values, dtype=float)

    @property
    def hit_rate(self) -> float:
        """Share of the columns asked for that had been kept; not a number where they are not computed on demand."""
        return float("nan")

    @property
    def rounded(self) -> float:
        """Share of every entry by which it may have been rounded in single precision, each on its own; else zero."""
        return 0.0

    @property
    def on_demand(self) -> bool:
        """Whether entries are computed when they are asked for, and each costs."""
        return False

    def check_penalty(self, penalty: Any) -> None:
        """Refuse a penalty that weighs something else than this stack holds."""
        if penalty.products:
            raise ValueError(f"penalty {penalty} weighs products of kernels: give grams.products_for(gram, penalty).")

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """``(n, m)``: samples and kernels."""

    @abstractmethod
    def energies(
        self,
        beta: Array,  # (n,) or (n, c)
    ) -> Any:  # (m,)
        """Return the energies ``q_k = beta' K_k beta``, summed over the columns of ``beta``."""

    @abstractmethod
    def decision(
        self,
        beta: Array,  # (n,) or (n, c)
        weights: np.ndarray,  # (m,)
    ) -> Array:  # (n,) or (n, c)
        """Return ``f = sum_k w_k K_k beta``."""

    def energies_and_decision(self, beta: Array, weights: np.ndarray) -> tuple[Any, Array]:
        """Return both products of the same duals, which the judge asks for."""
        return self.energies(beta), self.decision(beta, weights)

    @abstractmethod
    def diagonal(self) -> Array:  # (n, m)
        """Return ``K_k[i, i]``."""

    def mean_diagonal(self) -> np.ndarray:  # (m,)
        """Return the mean of ``K_k[i, i]`` over the samples."""
        return to_host(self.diagonal()).mean(axis=0)

    def take(self, index: Any) -> GramStack:
        """Return the stack of the samples ``index`` only."""
        raise TypeError(f"{type(self).__name__} cannot be restricted to some samples: restrict what it is made of.")

    def only(self, kernels: np.ndarray) -> GramStack:
        """Return the stack of some kernels only."""
        raise TypeError(f"{type(self).__name__} cannot be restricted to some kernels: restrict what it is made of.")


class CombinableGram(GramStack):
    """Kernels whose weighted sum can be formed between some samples, and whose columns can be added up.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> gram = kw.DenseGram(np.stack([np.eye(3), np.ones((3, 3))], axis=2))
    >>> isinstance(gram, kw.grams.CombinableGram), gram.combine(np.array([0, 2]), np.array([1.0, 0.5])).tolist()
    (True, [[1.5, 0.5], [0.5, 1.5]])
    """

    offers = "sums of kernels between some samples"

    @property
    def combinable(self) -> bool:
        """Whether these can be had: not of features of another library."""
        return True

    @abstractmethod
    def combine(
        self,
        index: np.ndarray,  # (b,)
        weights: np.ndarray,  # (m,)
    ) -> np.ndarray:  # (b, b)
        """Return ``sum_k w_k K_k`` between the chosen samples."""

    @abstractmethod
    def weighted_columns(
        self,
        delta: np.ndarray,  # (b,) or (b, c)
        index: np.ndarray,  # (b,)
        rows: np.ndarray | None = None,  # (r,)
        kernels: np.ndarray | None = None,  # (a,)
    ) -> np.ndarray:  # (r, a) or (c, r, a)
        """Return ``sum_i delta_i K_k[rows, i]``, reading only the columns ``index``; by default everywhere."""

    def products(
        self,
        beta: np.ndarray,  # (n,) or (n, c)
    ) -> np.ndarray:  # (n, m) or (c, n, m)
        """Return ``K_k beta`` for every kernel."""
        support = support_of(beta)
        return self.weighted_columns(beta[support], support)


class EntryGram(CombinableGram):
    """Kernels whose entries can be read.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> gram = kw.DenseGram(np.stack([np.eye(3), np.ones((3, 3))], axis=2))
    >>> isinstance(gram, kw.grams.EntryGram), gram.block(np.array([0, 2]), np.array([1])).shape
    (True, (2, 1, 2))
    """

    offers = "the entries of kernels"

    @abstractmethod
    def block(
        self,
        index: np.ndarray,  # (b,)
        kernels: np.ndarray,  # (a,)
    ) -> np.ndarray:  # (b, a, b)
        """Return the chosen kernels between the chosen samples, as float64, kernels in the middle."""

    @property
    def stored(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The entries ``stack[i, j, k]`` and the scale of each kernel, for compiled code; None if not stored."""
        return None


class FactorGram(GramStack):
    """Kernels held as features, ``K_k = V_k V_k'``, side by side or in one basis: sums over chunks of samples.

    Vectors with an entry per sample, or per column of the features, live where the features are.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> gram = kw.LowRankGram(np.hstack([np.eye(3), np.ones((3, 1))]), [3, 1])
    >>> isinstance(gram, kw.grams.FactorGram), gram.columns, gram.ranks.tolist()
    (True, 4, [3, 1])
    """

    offers = "features of low rank"
    ranks: np.ndarray  # (m,) columns of each kernel

    @property
    def basis(self) -> FactorGram:
        """What all kernels are made of: a table whose products cost a pass over the samples."""
        return self

    def fold(self, x: Array) -> Array:  # (D,) or (D, c) -> (r,) or (r, c)
        """Return what a combination of the kernels' features is in the basis: itself, where they share none."""
        return x

    def unfold(self, z: Array) -> Array:  # (r,) or (r, c) -> (D,) or (D, c)
        """Return the transpose of `fold`: from sums of the basis to sums of the kernels' features."""
        return z

    def on(self, features: Array) -> FactorGram:
        """Return the same kernels on other samples, given by their features."""
        raise TypeError(f"{type(self).__name__} holds no features that others could take the place of.")

    def rescaled(self, factors: np.ndarray) -> FactorGram:
        """Return the same with each kernel times its factor."""
        raise TypeError(f"{type(self).__name__} holds no features that could be scaled.")

    def core(self, weights: np.ndarray) -> Array | None:  # (r, r)
        """Return the weighted sum of the kernels in the basis they share, or None where they share none."""
        return None

    def outputs(self, u: Array) -> Array:  # (D,) -> (r, m)
        """Return each kernel's part of ``u`` in the basis that kernels share."""
        raise NotImplementedError

    def spread(self, u: Array) -> Spread:  # (D,)
        """Return a combination of the kernels' features, kernel by kernel, as the basis sees it."""
        return Spread(self, u, None if self.basis is self else self.outputs(u))

    @property
    @abstractmethod
    def columns(self) -> int:
        """Number D of columns of the features."""

    @property
    @abstractmethod
    def on_host(self) -> bool:
        """Whether the features lie in the computer's own memory."""

    @property
    @abstractmethod
    def host_features(self) -> np.ndarray | None:
        """The features (n, D) for compiled code, or None where they are not NumPy's."""

    @abstractmethod
    def rmatvec(
        self,
        beta: Array,  # (n,) or (n, c)
    ) -> Array:  # (D,) or (D, c)
        """Return ``V' beta``."""

    @abstractmethod
    def matvec(
        self,
        z: Array,  # (D,) or (D, c)
    ) -> Array:  # (n,) or (n, c)
        """Return ``V z``."""

    @abstractmethod
    def weighted(
        self,
        theta: Array,  # (n,) not negative
        rows: Array | None = None,  # positions of the samples that count, all of them if None
        rough: bool = False,
    ) -> Array:  # (D, D)
        """Return ``V' diag(theta) V``; ``rough`` multiplies in the features' precision."""

    def moments(
        self,
        theta: Array,  # (n,) not negative
        rows: Array | None = None,
        rough: bool = False,
    ) -> tuple[Array, Array]:  # (D, D), (D,)
        """Return `weighted` and ``V' theta``, in one pass over the samples where passes cost."""
        return self.weighted(theta, rows, rough), self.rmatvec(theta)

    @property
    def costly(self) -> bool:
        """Whether every product is a pass over samples that costs far more than the product."""
        return False

    @property
    def holding(self) -> str:
        """How the features are held, as a phrase."""
        raise NotImplementedError

    @abstractmethod
    def take(self, index: Any) -> FactorGram:
        """Return the stack of the samples ``index`` only."""

    def energies(self, beta: Array) -> np.ndarray:
        return self.squared_norms(self.rmatvec(beta))

    def decision(self, beta: Array, weights: np.ndarray) -> Array:
        return self.matvec(self.scale_blocks(weights, self.rmatvec(beta)))

    def energies_and_decision(self, beta: Array, weights: np.ndarray) -> tuple[Any, Array]:
        u = self.rmatvec(beta)
        return self.squared_norms(u), self.matvec(self.scale_blocks(weights, u))

    @property
    def starts(self) -> np.ndarray:  # (m,)
        """First column of each kernel."""
        return np.concatenate([[0], np.cumsum(self.ranks)[:-1]])

    def segments(self) -> Iterator[tuple[int, int]]:
        """First column and number of columns of each kernel."""
        return zip(self.starts.tolist(), self.ranks.tolist(), strict=True)

    def inner(
        self,
        u: Array,  # (D,) or (D, c)
        v: Array,  # the same
    ) -> np.ndarray:  # (m,)
        """Return ``u_k'v_k`` of each kernel's parts, on the host."""
        products = u * v if u.ndim == 1 else namespace(u).sum(u * v, axis=1)
        return np.add.reduceat(to_host(products), self.starts)

    def squared_norms(
        self,
        u: Array,  # (D,) or (D, c)
    ) -> np.ndarray:  # (m,)
        """Return ``||u_k||^2`` of each kernel's part of ``u``, on the host."""
        return self.inner(u, u)

    def per_column(
        self,
        weights: np.ndarray,  # (m,)
    ) -> Array:  # (D,)
        """Return the weight of each column's kernel."""
        return self.asarray(np.repeat(weights, self.ranks))

    def scale_blocks(
        self,
        weights: np.ndarray,  # (m,)
        u: Array,  # (D,) or (D, c)
    ) -> Array:
        """Return ``u`` with each kernel's part times its weight."""
        columns = self.per_column(weights)
        return columns * u if u.ndim == 1 else columns[:, None] * u


@dataclass(frozen=True)
class Spread:
    """A combination ``u`` of the kernels' features, kernel by kernel, as the basis sees it.

    Where kernels share a basis, what would be a product with all their features is one with a column for each kernel.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> spread = kw.LowRankGram(np.eye(3), [2, 1]).spread(np.array([1.0, 2.0, 3.0]))
    >>> spread.mixed(np.array([1.0, 10.0])), spread.inner(np.ones(3))
    (array([ 1.,  2., 30.]), array([3., 3.]))
    """

    gram: FactorGram
    u: Array  # (D,)
    table: Array | None  # (r, m): each kernel's part in the basis, where they share one

    def mixed(self, weights: np.ndarray) -> Array:  # (m,) -> (r,)
        """Return the weighted sum of the kernels' parts in the basis."""
        if self.table is None:
            return self.gram.scale_blocks(weights, self.u)
        return self.table @ self.gram.asarray(weights)

    def inner(self, z: Array) -> np.ndarray:  # (r,) -> (m,)
        """Return the inner product of each kernel's part with sums ``z`` of the basis, on the host."""
        if self.table is None:
            return self.gram.inner(self.u, z)
        return to_host(namespace(z).matrix_transpose(self.table) @ z)


class BankGram(GramStack):
    """Kernels too many to hold, of which all can be scored at once, and some be had.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> columns = np.random.default_rng(0).normal(size=(3, 5, 1))
    >>> gram = kw.grams.EffectsGram(list(columns))
    >>> isinstance(gram, kw.grams.BankGram), gram.shape, gram.only(np.array([0, 4])).shape
    (True, (5, 6), (5, 2))
    """

    offers = "a bank that scores all of its kernels"

    def check_penalty(self, penalty: Any) -> None:
        super().check_penalty(penalty)
        if not penalty.on_simplex:
            raise ValueError(f"penalty {penalty} would give all kernels of a large bank weight: use penalty='l1'.")

    @abstractmethod
    def only(self, kernels: np.ndarray, matrices: Any = None) -> GramStack:
        """Return the stack of some kernels only, in a form that solvers take; ``matrices`` is memory to reuse."""

    @abstractmethod
    def diagonal_of(self, kernels: np.ndarray) -> Array:  # (n, a)
        """Return ``K_k[i, i]`` of some kernels."""

    @abstractmethod
    def blocks(self, kernels: np.ndarray) -> Iterator[Array]:
        """Yield the features of some kernels, (n, r_k)."""

    @abstractmethod
    def energy_errors(self, beta: Array, q: np.ndarray, share: float) -> np.ndarray:  # (m,)
        """Return what rounding may have done to the energies q, ``share`` of the size of a sum in double precision."""


class ProductStack(GramStack):
    """Products of kernels, weighed by one number for each kernel.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> gram = kw.DenseGram(np.stack([np.eye(3), np.ones((3, 3))], axis=2))
    >>> isinstance(kw.grams.ProductGram(gram), kw.grams.ProductStack)
    True
    """

    offers = "products of kernels"
    linear_terms: bool
    degree: int

    def check_penalty(self, penalty: Any) -> None:
        if not penalty.products:
            raise ValueError(f"penalty {penalty} weighs kernels, not products of them: give the kernels themselves.")
        if (self.linear_terms, self.degree) != (penalty.linear_terms, penalty.degree):
            what = type(self).__name__
            raise ValueError(f"linear_terms or degree differs between the penalty and {what}: give the kernels.")

    @property
    @abstractmethod
    def explicit(self) -> bool:
        """Whether a support vector machine is trained on product features, or on the combined kernel."""

    @abstractmethod
    def energies(self, beta: np.ndarray, near: np.ndarray | None = None) -> Any:
        """Return the energies of the products; ``near`` is a guess of the weights they lead to."""

    @abstractmethod
    def combine(
        self,
        index: np.ndarray,  # (b,)
        weights: np.ndarray,  # (m,)
    ) -> np.ndarray:  # (b, b)
        """Return the elementwise power of ``sum_a u_a K_a`` between the chosen samples."""


def support_of(beta: np.ndarray) -> np.ndarray:
    """Return the samples whose dual, or row of duals, is not zero."""
    return np.flatnonzero(beta if beta.ndim == 1 else beta.any(axis=1))
