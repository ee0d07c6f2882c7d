"""Prediction with kernels themselves: weights, support vectors, and no training Gram matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kernels import Kernel, evaluate

BLOCK = 32 * 2**20  # bytes of one kernel's entries computed at a time when predicting


@dataclass(frozen=True)
class Expansion:
    """What prediction needs: kernels with weight, samples with coefficients, and nothing else."""

    kernels: list[Kernel] | None  # (a,) None for precomputed stacks
    active: np.ndarray  # (a,) positions among all kernels
    rows: np.ndarray  # (s,) positions among the training rows
    X: Any  # (s, d) None for precomputed stacks
    weights: np.ndarray  # (a, n_problems) times the kernels' scales
    coef: np.ndarray  # (s, n_problems)
    clipped: dict[int, np.ndarray]  # coefficients of each clipped kernel, by its place in `active`
    intercept: np.ndarray  # (n_problems,)
    shape: tuple[int, int]  # training rows and kernels that a precomputed stack must have

    @property
    def like(self) -> Any:
        """The support vectors: new samples must be of their library and precision."""
        return self.X

    def decide(self, X: Any) -> np.ndarray:  # (n, n_problems)
        """Return the decision values of new samples, some rows at a time."""
        out = np.tile(self.intercept, (X.shape[0], 1))
        step = max(1, BLOCK // (8 * max(self.rows.size, 1)))
        for start in range(0, X.shape[0] if self.rows.size else 0, step):
            block = slice(start, start + step)
            for k, matrix in self.matrices(X[block]):
                out[block] += (matrix @ self.clipped.get(k, self.coef)) * self.weights[k]
        if not np.all(np.isfinite(out)):
            raise ValueError("X leads to NaN or infinite kernel values: check how it was made, or scale it.")
        return out

    def matrices(self, X: Any) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the place of each kernel with weight, and the kernel between new samples and support vectors."""
        if self.kernels is not None:
            return evaluate(self.kernels, X, self.X)
        return ((k, X[:, self.rows, column]) for k, column in enumerate(self.active))
