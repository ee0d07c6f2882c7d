"""Products of kernels at the door: the kernel that is 1 everywhere, and prediction by squares of weighted sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..penalties import Fixed, SpectralNorm
from ..problem import Problem
from .base import Assembly
from .expansion import BLOCK, Expansion
from .labels import Targets
from .parameters import Options
from .stacks import KernelAssembly

UNITY = "unity"  # name of the kernel that is 1 everywhere


def check_products(penalty: Any, options: Options) -> None:
    """Refuse products of kernels that are only approximated."""
    if isinstance(penalty, SpectralNorm) and options.approximation is not None:
        raise ValueError(
            "penalty='spectral' multiplies kernels entry by entry, which features of low rank do not have: use "
            "approximation=None, or a penalty that adds kernels, such as 'lp'."
        )


def paired(assembly: Assembly, penalty: Any) -> Assembly:
    """Return the assembly of what a penalty weighs: the kernels, or all pairs of them."""
    if not isinstance(penalty, SpectralNorm):
        return assembly
    assert isinstance(assembly, KernelAssembly)
    names, kept, scales = assembly.names, assembly.kept, assembly.scales
    if penalty.linear_terms:
        names, kept, scales = [*names, UNITY], np.append(kept, len(names)), np.append(scales, 1.0)
    return ProductAssembly(assembly.gram, names, kept, scales, None, assembly, penalty.degree)


@dataclass(frozen=True)
class ProductAssembly(Assembly):
    """Kernels as matrices whose products are weighed; the kernel that is 1 everywhere, if there, is the last."""

    kernels: KernelAssembly
    degree: int

    @property
    def storage(self) -> str:
        return f"{self.kernels.storage}, products not stored"

    def check_energies(self, problem: Problem, beta: np.ndarray) -> None:
        """Refuse an answer along which a kernel shows that it is not positive semidefinite."""
        self.kernels.check_energies(replace(problem, gram=problem.gram.base, penalty=Fixed()), beta)

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
    shift: np.ndarray  # (n_problems,) weight of the kernel that is 1 everywhere
    degree: int

    @property
    def like(self) -> Any:
        """The support vectors: new samples must be of their library and precision."""
        return self.kernels.like

    @property
    def shape(self) -> tuple[int, int]:
        """Training rows and kernels that a precomputed stack must have."""
        return self.kernels.shape

    def decide(self, X: Any) -> np.ndarray:  # (n, n_problems)
        """Return the decision values of new samples, some rows at a time."""
        rows, coef = self.kernels.rows.size, self.kernels.coef
        out = np.tile(self.kernels.intercept, (X.shape[0], 1))
        step = max(1, BLOCK // (8 * max(rows, 1) * self.shift.size))
        for start in range(0, X.shape[0] if rows else 0, step):
            block = slice(start, start + step)
            for p, mixed in enumerate(self._mixed(X[block])):
                out[block, p] += mixed**self.degree @ coef[:, p]
        if not np.all(np.isfinite(out)):
            raise ValueError("X leads to NaN or infinite kernel values: check how it was made, or scale it.")
        return out

    def _mixed(self, X: Any) -> np.ndarray:  # (n_problems, n, s)
        """Return each problem's weighted sum of the kernels between new samples and support vectors."""
        mixed = np.tile(self.shift[:, None, None], (1, X.shape[0], self.kernels.rows.size))
        for k, matrix in self.kernels.matrices(X):
            if k in self.bases:
                matrix = (matrix @ self.bases[k]) @ self.bases[k].T
            for p, weight in enumerate(self.kernels.weights[k]):
                mixed[p] += weight * matrix
        return mixed
