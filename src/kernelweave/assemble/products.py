"""Products of kernels at the door: the kernel that is 1 everywhere, and prediction by squares of weighted sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import block_diag

from ..arrays import readable
from ..grams import FactorProducts, GramStack, ProductGram, products_for
from ..grams.factorproducts import check_degree
from ..penalties import MixingPenalty
from .base import Assembly
from .expansion import Expansion, decided
from .factors import FactorAssembly
from .memory import check_products_memory
from .parameters import Options
from .stacks import KernelAssembly
from .targets import Targets

UNITY = "unity"  # name of the kernel that is 1 everywhere


def weighs_products(penalty: Any) -> bool:
    """Whether what is given in the place of a penalty weighs products of kernels."""
    return isinstance(penalty, MixingPenalty) and penalty.products


def check_products(penalty: Any, options: Options) -> None:
    """Refuse products of more than two kernels that are only approximated, before any work is done."""
    if weighs_products(penalty) and options.approximation is not None:
        check_degree(penalty.degree)


def paired(assembly: Assembly, penalty: Any, options: Options) -> Assembly:
    """Return the assembly of what a penalty weighs: the kernels, or products of them."""
    if not weighs_products(penalty):
        return assembly
    names, groups = assembly.names, assembly.groups
    kept, scales, lost = assembly.kept, assembly.scales, assembly.lost
    gram = products_for(assembly.gram, penalty)
    if gram.linear_terms:
        kept, scales = np.append(kept, len(names)), np.append(scales, 1.0)
        names, groups = [*names, UNITY], [*groups, None]
        lost = None if lost is None else np.append(lost, 0.0)
    if isinstance(gram, FactorProducts):
        assert isinstance(assembly, FactorAssembly)
        check_products_memory(gram, options.memory)
        return FactorProductAssembly(gram, names, groups, kept, scales, lost, assembly)
    assert isinstance(assembly, KernelAssembly)
    return ProductAssembly(gram, names, groups, kept, scales, lost, assembly, gram.degree)


@dataclass(frozen=True)
class ProductAssembly(Assembly):
    """Kernels as matrices whose products are weighed; the kernel that is 1 everywhere, if there, is the last."""

    kernels: KernelAssembly
    degree: int

    @property
    def storage(self) -> str:
        return f"{self.kernels.storage}, products not stored"

    def check_energies(self, gram: GramStack, beta: np.ndarray) -> None:
        """Refuse an answer along which a kernel shows that it is not positive semidefinite."""
        assert isinstance(gram, ProductGram)
        self.kernels.check_energies(gram.base, beta)

    def predictor(
        self, targets: Targets, weights: np.ndarray, coef: np.ndarray, intercept: np.ndarray
    ) -> ProductExpansion:
        m = len(self.kernels.names)
        expansion = self.kernels.predictor(targets, weights[:, :m], coef, intercept)
        active = expansion.active.tolist()
        bases = {place: self.kernels.bases[k] for place, k in enumerate(active) if k in self.kernels.bases}
        return ProductExpansion(expansion, bases, weights[:, m:].sum(axis=1), self.degree)


@dataclass(frozen=True)
class ProductExpansion:
    """What prediction needs: an expansion whose kernels are added up and raised to a power before they count."""

    kernels: Expansion
    bases: dict[int, np.ndarray]  # positive eigenvectors of each clipped kernel, by its place
    shift: np.ndarray  # (n_outputs,) weight of the kernel that is 1 everywhere
    degree: int

    @property
    def like(self) -> Any:
        """The support vectors: new samples must be of their library and precision."""
        return self.kernels.like

    @property
    def shape(self) -> tuple[int, int]:
        """Training rows and kernels that a precomputed stack must have."""
        return self.kernels.shape

    def decide(self, X: Any) -> np.ndarray:  # (n, n_outputs)
        """Return the decision values of new samples."""
        return decided(X, self.kernels.intercept, self.kernels.rows.size * self.shift.size, self._sums)

    def _sums(self, X: Any) -> np.ndarray:  # (n, n_outputs)
        parts = zip(self._mixed(X), self.kernels.coef.T, strict=True)
        return np.column_stack([mixed**self.degree @ coef for mixed, coef in parts])

    def _mixed(self, X: Any) -> np.ndarray:  # (n_outputs, n, s)
        """Return each problem's weighted sum of the kernels between new samples and support vectors."""
        mixed = np.tile(self.shift[:, None, None], (1, X.shape[0], self.kernels.rows.size))
        for k, matrix in self.kernels.matrices(X):
            if k in self.bases:
                matrix = (matrix @ self.bases[k]) @ self.bases[k].T
            for p, weight in enumerate(self.kernels.weights[k]):
                mixed[p] += weight * matrix
        return mixed


@dataclass(frozen=True)
class FactorProductAssembly(Assembly):
    """Kernels as features whose products are weighed; the kernel that is 1 everywhere, if there, is the last."""

    gram: FactorProducts
    factors: FactorAssembly

    @property
    def storage(self) -> str:
        return f"{self.factors.storage}, products {readable(self.gram.nbytes)}"

    def check_energies(self, gram: GramStack, beta: np.ndarray) -> None:
        """Features are positive semidefinite by construction, and so are products: there is nothing to refuse."""

    def predictor(
        self, targets: Targets, weights: np.ndarray, coef: np.ndarray, intercept: np.ndarray
    ) -> FactorProductExpansion:
        forms = [self.gram.form(beta, u) for beta, u in zip(coef, weights[:, self.kept], strict=True)]
        parts = [_directions(form) for form in forms]
        directions, signs = np.hstack([part[0] for part in parts]), block_diag(*[part[1][:, None] for part in parts])
        D = self.factors.gram.features.shape[1]
        linear, shift = self.factors.maps.predictor(directions[:D]), directions[D:].sum(axis=0)
        shape = (targets.n_rows, len(self.names))
        return FactorProductExpansion(linear, shift, signs, intercept, self.factors.like, shape)


def _directions(
    form: np.ndarray,  # (D, D)
) -> tuple[np.ndarray, np.ndarray]:  # (D, r), (r,)
    """Return directions g and signs s with ``v' form v = sum_j s_j (g_j'v)^2``; columns without weight stay out."""
    live = np.flatnonzero(form.any(axis=0)) if form.any() else np.arange(1)
    values, vectors = np.linalg.eigh(form[np.ix_(live, live)])
    directions = np.zeros((form.shape[0], live.size))
    directions[live] = vectors * np.sqrt(np.abs(values))
    return directions, np.sign(values)


@dataclass(frozen=True)
class FactorProductExpansion:
    """What prediction needs: each problem's quadratic form of the features, as signed squares of linear functions."""

    linear: Any  # decide(X) -> (n, r) values of the linear functions
    shift: np.ndarray  # (r,) added to them, for the kernel that is 1 everywhere
    signs: np.ndarray  # (r, n_outputs) of their squares, 0 where they are another problem's
    intercept: np.ndarray  # (n_outputs,)
    like: np.ndarray  # of the precision that new samples must have
    shape: tuple[int, int]
    degree: ClassVar[int] = 2

    def decide(self, X: Any) -> np.ndarray:  # (n, n_outputs)
        """Return the decision values of new samples."""
        return decided(X, self.intercept, self.shift.size, self._sums)

    def _sums(self, X: Any) -> np.ndarray:  # (n, n_outputs)
        return (self.linear.decide(X) + self.shift) ** 2 @ self.signs
