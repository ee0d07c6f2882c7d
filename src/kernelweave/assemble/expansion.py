"""Prediction with kernels themselves: weights, support vectors, and no training Gram matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..arrays import namespace
from ..kernels import Kernel, evaluate
from .absent import AbsentRows

BLOCK = 32 * 2**20  # bytes of one kernel's entries computed at a time when predicting


def decided(
    X: Any,  # (n, d)
    base: np.ndarray,  # (n_outputs,) or (parts, n_outputs)
    width: int,
    sums: Callable[[Any], np.ndarray],
) -> np.ndarray:  # (n, n_outputs) or (n, parts, n_outputs)
    """Return ``base`` plus what ``sums`` returns of some rows at a time, as ``width`` numbers a row allow."""
    out = np.tile(base, (X.shape[0],) + (1,) * base.ndim)
    step = max(1, BLOCK // (8 * max(width, 1)))
    for start in range(0, X.shape[0] if width else 0, step):
        block = slice(start, start + step)
        out[block] += sums(X[block])
    return finite(out)


def finite(decisions: Any) -> Any:
    """Return decision values, or refuse those that are no numbers."""
    if not bool(namespace(decisions).all(namespace(decisions).isfinite(decisions))):
        raise ValueError("X leads to NaN or infinite kernel values: check how it was made, or scale it.")
    return decisions


@dataclass(frozen=True)
class Expansion:
    """What prediction needs: kernels with weight, samples with coefficients, and nothing else."""

    kernels: list[Kernel] | None  # (a,) None for precomputed stacks
    active: np.ndarray  # (a,) positions among all kernels
    rows: np.ndarray  # (s,) positions among the training rows
    X: Any  # (s, d) None for precomputed stacks
    weights: np.ndarray  # (a, n_outputs) times the kernels' scales
    coef: np.ndarray  # (s, n_outputs)
    clipped: dict[int, np.ndarray]  # coefficients of each clipped kernel, by its place in `active`
    intercept: np.ndarray  # (n_outputs,)
    shape: tuple[int, int]  # training rows and kernels that a precomputed stack must have
    absent: AbsentRows | None = None  # of a precomputed stack whose samples may lack kernels
    degree: ClassVar[int] = 1

    @property
    def like(self) -> Any:
        """The support vectors: new samples must be of their library and precision."""
        return self.X

    def decide(self, X: Any) -> np.ndarray:  # (n, n_outputs)
        """Return the decision values of new samples."""
        return decided(X, self.intercept, self.rows.size, self._sums)

    def shares(self, X: Any, owner: np.ndarray, parts: int) -> np.ndarray:  # (n, parts, n_outputs)
        """Return what each part adds to the decision values, each kernel's part being that of its ``owner``."""
        places = owner[self.active]

        def sums(rows: Any) -> np.ndarray:
            out = np.zeros((rows.shape[0], parts, self.intercept.size))
            for k, values in self.terms(rows):
                out[:, places[k]] += values
            return out

        return decided(X, np.zeros((parts, self.intercept.size)), self.rows.size, sums)

    def _sums(self, X: Any) -> np.ndarray:  # (n, n_outputs)
        return sum((values for _, values in self.terms(X)), np.zeros(self.intercept.size))

    def terms(self, X: Any) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the place of each kernel with weight, and what it adds to the decision values."""
        for k, matrix in self.matrices(X):
            yield k, (matrix @ self.clipped.get(k, self.coef)) * self.weights[k]

    def matrices(self, X: Any) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the place of each kernel with weight, and the kernel between new samples and support vectors."""
        if self.kernels is not None:
            return evaluate(self.kernels, X, self.X)
        if self.absent is None:
            return ((k, X[:, self.rows, column]) for k, column in enumerate(self.active))
        known = self.absent
        return ((k, known.filled(X[:, :, column], column)[:, self.rows]) for k, column in enumerate(self.active))
