"""Kernels that parameters turn into one kernel, not as a weighted sum: squares, products of powers, sums with gates.

The SVM on each is a convex problem; the choice of the parameters is not.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array, issparse, vstack
from scipy.special import expit, softmax

from ..grams import DenseGram, GramStack, ProductGram
from ..grams.products import ProductEnergies
from ..kernels import RBF, Kernel
from ..penalties.prox import project_simplex
from .base import Assembly
from .expansion import Expansion, decided
from .products import ProductAssembly
from .stacks import KernelAssembly
from .targets import Targets


class Combination(Assembly):
    """Kernels on the training samples, and the one kernel that parameters make of them."""

    @property
    @abstractmethod
    def start(self) -> np.ndarray:  # (p,)
        """Parameters to begin with: they treat all kernels alike."""

    @abstractmethod
    def kernel(self, theta: np.ndarray) -> np.ndarray:  # (p,) -> (n, n)
        """Return the kernel on the training samples."""

    @abstractmethod
    def gradient(
        self,
        theta: np.ndarray,  # (p,)
        beta: np.ndarray,  # (n,)
        kernel: np.ndarray,  # (n, n) at theta
    ) -> np.ndarray:  # (p,)
        """Return the derivative of ``-1/2 beta' K beta``."""

    def project(self, theta: np.ndarray) -> np.ndarray:
        """Return the nearest parameters that are allowed."""
        return theta

    def price(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return what the parameters themselves cost, and its derivative."""
        return 0.0, np.zeros_like(theta)

    def weights(self, theta: np.ndarray) -> np.ndarray:  # (a,) of the kernels kept
        """Return how much each kernel counts."""
        return theta

    @abstractmethod
    def take(self, rows: np.ndarray) -> Combination:
        """Return the same on some of the samples."""

    def at(self, thetas: Sequence[np.ndarray]) -> Assembly:
        """Return what predicts with these parameters, one vector for each problem."""
        return self


@dataclass(frozen=True)
class SquaredSum(ProductAssembly, Combination):
    """The elementwise square of ``sum_a u_a K_a``, with ``u >= 0`` and ``sum_a u_a <= 1``."""

    @property
    def pairs(self) -> ProductGram:
        """The products of two kernels."""
        return ProductGram(self.gram)

    @property
    def start(self) -> np.ndarray:
        return np.full(self.kept.size, 1.0 / self.kept.size)

    def kernel(self, theta: np.ndarray) -> np.ndarray:
        return self.pairs.combine(np.arange(self.gram.shape[0]), theta)

    def gradient(self, theta: np.ndarray, beta: np.ndarray, kernel: np.ndarray) -> np.ndarray:
        return -ProductEnergies(self.pairs, beta).pull(theta)

    def project(self, theta: np.ndarray) -> np.ndarray:
        positive = np.maximum(theta, 0.0)
        return positive if positive.sum() <= 1.0 else project_simplex(theta)

    def take(self, rows: np.ndarray) -> SquaredSum:
        return replace(self, gram=self.gram.take(rows))

    def check_energies(self, gram: GramStack, beta: np.ndarray) -> None:
        self.kernels.check_energies(gram, beta)


def squared_sum(made: KernelAssembly) -> SquaredSum:
    """Return the squares of weighted sums of stored kernels."""
    return SquaredSum(made.gram, made.names, made.groups, made.kept, made.scales, None, made, 2)


@dataclass(frozen=True)
class GaussianProduct(Combination):
    """The product of powers ``k_a^(w_a)`` of Gaussian kernels, with ``w >= 0`` at a price.

    A power of a Gaussian is one of another width, and a product of them is one Gaussian with a width for each column,
    so no kernel but the product is ever computed.
    """

    gram: Any  # None: the samples are all that is stored
    X: Any  # (n, d)
    widths: Any  # (m, d) gamma of each kernel on each column, sparse: most kernels are on few
    cost: float
    power: int
    kernels: list[Kernel]
    scaled: np.ndarray | None = None  # (n_outputs, d) the width of each column, once it is known

    @property
    def storage(self) -> str:
        return "samples only, their kernel computed when needed"

    @property
    def bank(self) -> list[Kernel]:
        return self.kernels

    @property
    def start(self) -> np.ndarray:
        return np.full(self.kept.size, 1.0 / self.kept.size)

    def kernel(self, theta: np.ndarray) -> np.ndarray:
        return gaussian(self.X, None, theta @ self.widths)

    def gradient(self, theta: np.ndarray, beta: np.ndarray, kernel: np.ndarray) -> np.ndarray:
        some = np.flatnonzero(beta)
        X = self.X[some].toarray() if issparse(self.X) else self.X[some]
        X = X.astype(float) - X.mean(axis=0)
        pairs = np.outer(beta[some], beta[some]) * kernel[np.ix_(some, some)]
        return self.widths @ (pairs.sum(axis=1) @ X**2 - np.sum(X * (pairs @ X), axis=0))

    def project(self, theta: np.ndarray) -> np.ndarray:
        return np.maximum(theta, 0.0)

    def price(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        return self.cost * float(np.sum(theta**self.power)) / self.power, self.cost * theta ** (self.power - 1)

    def take(self, rows: np.ndarray) -> GaussianProduct:
        return replace(self, X=self.X[rows])

    def at(self, thetas: Sequence[np.ndarray]) -> GaussianProduct:
        return replace(self, scaled=np.array(thetas) @ self.widths)

    def check_energies(self, gram: GramStack, beta: np.ndarray) -> None:
        """Gaussians are positive semidefinite: there is nothing to refuse."""

    def predictor(
        self, targets: Targets, weights: np.ndarray, coef: np.ndarray, intercept: np.ndarray
    ) -> GaussianExpansion:
        assert self.scaled is not None
        support = np.flatnonzero(coef.any(axis=0))
        shape = (targets.n_rows, len(self.names))
        return GaussianExpansion(self.X[support], self.scaled, coef[:, support], intercept, shape)


def gaussian_product(X: Any, bank: Sequence[Kernel], cost: float, power: int) -> GaussianProduct:
    """Return the products of powers of resolved Gaussian kernels, or say which of them is none."""
    rows = []
    for kernel in bank:
        if type(kernel) is not RBF:
            raise ValueError(
                f"model='gmkl' learns the widths of Gaussian kernels, and {kernel.name} is none: give kernels.rbf(..), "
                "or kernels='auto' for one on each column."
            )
        columns = np.arange(X.shape[1]) if kernel.on is None else np.asarray(kernel.on)
        values = np.full(columns.size, kernel.gamma)
        rows.append(csr_array((values, columns, [0, columns.size]), shape=(1, X.shape[1])))
    names, groups, m = [kernel.name for kernel in bank], [kernel.group for kernel in bank], len(bank)
    ones, widths = np.ones(m), vstack(rows).tocsr()
    return GaussianProduct(None, names, groups, np.arange(m), ones, None, X, widths, cost, power, list(bank))


def gaussian(X: Any, Z: Any, width: np.ndarray) -> np.ndarray:  # (n, d), (p, d), (d,) -> (n, p)
    """Return ``exp(-sum_j width_j (x_j - z_j)^2)``; between samples and themselves if Z is None."""
    used = np.flatnonzero(width)
    if not used.size:
        return np.ones((X.shape[0], (X if Z is None else Z).shape[0]))
    root = np.sqrt(width[used])

    def stretched(A: Any) -> Any:
        return A[:, used].multiply(root).tocsr() if issparse(A) else A[:, used] * root

    return RBF(gamma=1.0)(stretched(X), None if Z is None else stretched(Z))


@dataclass(frozen=True)
class GaussianExpansion:
    """What prediction needs: the support vectors, and the width of each column for each problem."""

    X: Any  # (s, d)
    widths: np.ndarray  # (n_outputs, d)
    coef: np.ndarray  # (n_outputs, s)
    intercept: np.ndarray  # (n_outputs,)
    shape: tuple[int, int]
    degree: ClassVar[int] = 1

    @property
    def like(self) -> Any:
        """The support vectors: new samples must be of their library and precision."""
        return self.X

    def decide(self, X: Any) -> np.ndarray:  # (n, n_outputs)
        """Return the decision values of new samples."""
        return decided(X, self.intercept, self.X.shape[0], self._sums)

    def _sums(self, X: Any) -> np.ndarray:  # (n, n_outputs)
        parts = zip(self.widths, self.coef, strict=True)
        return np.column_stack([gaussian(X, self.X, width) @ coef for width, coef in parts])

    def shares(self, X: Any, owner: np.ndarray, parts: int) -> np.ndarray:  # (n, parts, n_outputs)
        """Return the decision values less the intercepts as what the last part adds: one product has no terms."""
        out = np.zeros((X.shape[0], parts, self.intercept.size))
        out[:, -1] = decided(X, np.zeros(self.intercept.size), self.X.shape[0], self._sums)
        return out


@dataclass(frozen=True)
class Gate:
    """Weights of kernels that depend on the sample: a linear score for each kernel, through softmax or sigmoid.

    Parameters are ``m`` rows of ``d + 1`` numbers: a slope for each column, and a constant. Columns are measured in
    their deviation times ``sqrt(d)``, so that slopes of length one move the score of a typical sample by about one.
    """

    kind: str
    center: np.ndarray  # (d,) mean of each column
    width: np.ndarray  # (d,) its deviation times sqrt(d)

    def __call__(self, X: Any, theta: np.ndarray) -> np.ndarray:  # (n, m)
        """Return the weights of the kernels at each sample."""
        table = theta.reshape(-1, self.center.size + 1)
        slopes = table[:, :-1] / self.width
        scores = X @ slopes.T + (table[:, -1] - slopes @ self.center)
        return softmax(scores, axis=1) if self.kind == "softmax" else expit(scores)

    def back(
        self,
        X: Any,  # (n, d)
        eta: np.ndarray,  # (n, m) the weights there
        change: np.ndarray,  # (n, m) derivative by the weights
    ) -> np.ndarray:  # (p,)
        """Return the derivative by the parameters."""
        if self.kind == "softmax":
            change = eta * (change - np.sum(eta * change, axis=1, keepdims=True))
        else:
            change = eta * (1.0 - eta) * change
        total = change.sum(axis=0)
        slopes = ((X.T @ change).T - np.outer(total, self.center)) / self.width
        return np.column_stack([slopes, total]).ravel()


def make_gate(kind: str, X: Any, weight: np.ndarray) -> Gate:  # (n, d), (n,)
    """Return a gate for samples like these."""
    share = weight / weight.sum()
    center = np.asarray(share @ X, dtype=float).ravel()
    square = np.asarray(share @ X.multiply(X) if issparse(X) else share @ (X - center) ** 2, dtype=float).ravel()
    variance = square - center**2 if issparse(X) else square
    noise = 1e-12 * np.maximum(square, center**2)
    return Gate(kind, center, np.sqrt(center.size * np.where(variance > noise, variance, 1.0)))


@dataclass(frozen=True)
class GatedSum(Combination):
    """The sum of ``eta_a(x) k_a(x, z) eta_a(z)``, each kernel with a gate that depends on the sample."""

    gram: DenseGram
    kernels: KernelAssembly
    X: Any  # (n, d)
    weight: np.ndarray  # (n,) of the samples, in means over them
    gate: Gate
    thetas: Sequence[np.ndarray] = ()  # one for each problem, once they are known

    @property
    def storage(self) -> str:
        return self.kernels.storage

    @property
    def bank(self) -> list[Kernel] | None:
        return self.kernels.bank

    @property
    def start(self) -> np.ndarray:
        return np.zeros(self.kept.size * (self.X.shape[1] + 1))

    def kernel(self, theta: np.ndarray) -> np.ndarray:
        eta = self.gate(self.X, theta)
        return np.einsum("ijk,ik,jk->ij", self.gram.stack, eta * self.gram.scale, eta)

    def gradient(self, theta: np.ndarray, beta: np.ndarray, kernel: np.ndarray) -> np.ndarray:
        some = np.flatnonzero(beta)
        eta, signed = self.gate(self.X[some], theta), beta[some][:, None]
        pulls = np.einsum("ijk,jk->ik", self.gram.stack[np.ix_(some, some)], eta * signed) * self.gram.scale
        return self.gate.back(self.X[some], eta, -signed * pulls)

    def weights(self, theta: np.ndarray) -> np.ndarray:
        """Return the mean of each kernel's gate over the training samples."""
        return np.average(self.gate(self.X, theta), axis=0, weights=self.weight)

    def take(self, rows: np.ndarray) -> GatedSum:
        return replace(self, gram=self.gram.take(rows), X=self.X[rows], weight=self.weight[rows])

    def at(self, thetas: Sequence[np.ndarray]) -> GatedSum:
        return replace(self, thetas=thetas)

    def check_energies(self, gram: GramStack, beta: np.ndarray) -> None:
        self.kernels.check_energies(gram, beta)

    def predictor(
        self, targets: Targets, weights: np.ndarray, coef: np.ndarray, intercept: np.ndarray
    ) -> GatedExpansion:
        expansion = self.kernels.predictor(targets, weights, coef, intercept)
        rows = np.flatnonzero(np.isin(targets.rows, expansion.rows))
        gates = np.stack([self.gate(self.X[rows], theta) for theta in self.thetas], axis=2)  # (s, a, n_outputs)
        places, columns = np.searchsorted(self.kept, expansion.active), []
        for a, k in zip(places.tolist(), expansion.active.tolist(), strict=True):
            column = self.scales[k] * gates[:, a] * expansion.coef
            basis = self.kernels.bases.get(k)
            columns.append(column if basis is None else basis @ (basis.T @ column))
        return GatedExpansion(expansion, columns, self.gate, self.thetas, places)


@dataclass(frozen=True)
class GatedExpansion:
    """What prediction needs: kernels against support vectors, the support vectors' side of each gate, and the gate."""

    kernels: Expansion
    columns: list[np.ndarray]  # (s, n_outputs) coefficients of each kernel, times gate and scale
    gate: Gate
    thetas: Sequence[np.ndarray]  # one for each problem
    places: np.ndarray  # (a,) of the kernels with weight among those with a gate
    degree: ClassVar[int] = 1

    @property
    def like(self) -> Any:
        """The support vectors: new samples must be of their library and precision."""
        return self.kernels.like

    @property
    def shape(self) -> tuple[int, int]:
        """Training rows and kernels."""
        return self.kernels.shape

    def decide(self, X: Any) -> np.ndarray:  # (n, n_outputs)
        """Return the decision values of new samples."""
        return decided(X, self.kernels.intercept, self.kernels.rows.size, self._sums)

    def shares(self, X: Any, owner: np.ndarray, parts: int) -> np.ndarray:  # (n, parts, n_outputs)
        """Return what each part adds to the decision values, each kernel's part being that of its ``owner``."""
        shape, whose = (parts, self.kernels.intercept.size), owner[self.kernels.active]

        def sums(rows: Any) -> np.ndarray:
            out = np.zeros((rows.shape[0], *shape))
            for k, values in self._terms(rows):
                out[:, whose[k]] += values
            return out

        return decided(X, np.zeros(shape), self.kernels.rows.size, sums)

    def _sums(self, X: Any) -> np.ndarray:  # (n, n_outputs)
        return sum((values for _, values in self._terms(X)), np.zeros(self.kernels.intercept.size))

    def _terms(self, X: Any) -> Iterator[tuple[int, np.ndarray]]:
        gates = np.stack([self.gate(X, theta) for theta in self.thetas], axis=2)
        for k, matrix in self.kernels.matrices(X):
            yield k, gates[:, self.places[k]] * (matrix @ self.columns[k])


def gated_sum(made: KernelAssembly, kind: str, weight: np.ndarray) -> GatedSum:
    """Return sums of stored kernels with gates of a kind, "softmax" or "sigmoid"."""
    assert isinstance(made.gram, DenseGram)
    X = made.X.astype(float)
    gate = make_gate(kind, X, weight)
    return GatedSum(made.gram, made.names, made.groups, made.kept, made.scales, None, made, X, weight, gate)
