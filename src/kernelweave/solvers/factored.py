"""A preconditioner for Newton's steps on kernels: the curvature of the loss cut down to its diagonal, and factored."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..arrays import cholesky

FAINT = 1e-12  # share of the largest curvature, of a sample or of the weights, that any other counts for at least


class Factored:
    """The inverse of ``I + D S``, D being diagonal and S one kernel and a correction of the rank of the kernels.

    With ``D = R^2`` that is ``R (I + R S R)^-1 R^-1``: a factor of the size of the samples for each column of decision
    values, one for all where D is alike in them, and a small one for the correction.
    """

    def __init__(
        self,
        roots: np.ndarray,  # (n, c)
        solves: list[Callable[[np.ndarray], np.ndarray]],
        correction: np.ndarray,  # (c, n, r)
    ):
        self.roots, self.solves = roots, solves
        self.U = np.moveaxis(correction * roots.T[:, :, None], 0, 1).reshape(roots.size, -1)  # by sample, then column
        self.Y = self._plain(self.U)
        self.small = cholesky(np.eye(self.U.shape[1]) + self.U.T @ self.Y)

    @classmethod
    def of(
        cls,
        kernel: np.ndarray,  # (n, n)
        diagonal: np.ndarray,  # (n,) or (n, c)
        outputs: np.ndarray,  # (n, m) or (c, n, m)
        bend: np.ndarray,  # (m, m)
    ) -> Factored | None:
        """Return the inverse, None where it cannot be had in floating point, or where D is zero and none is needed."""
        n = kernel.shape[0]
        if not np.any(diagonal > 0):
            return None
        roots = np.sqrt(np.maximum(diagonal, FAINT * np.max(diagonal))).reshape(n, -1)
        alike, solves = bool(np.all(roots == roots[:, :1])), list[Callable[[np.ndarray], np.ndarray]]()
        for root in roots.T[:1] if alike else roots.T:
            square = kernel * root[:, None]
            square *= root
            square.flat[:: n + 1] += 1.0
            solve = cholesky(square)
            if solve is None:
                return None
            solves.append(solve)
        values, vectors = np.linalg.eigh(bend)
        kept = values > FAINT * values[-1]
        found = cls(roots, solves, outputs.reshape(-1, n, bend.shape[0]) @ (vectors[:, kept] * np.sqrt(values[kept])))
        return found if found.small is not None else None

    def __call__(self, residual: np.ndarray) -> np.ndarray:
        """Return the inverse times a residual."""
        assert self.small is not None
        y = self._plain((residual.reshape(self.roots.shape) / self.roots).reshape(-1, 1))
        y = y[:, 0] - self.Y @ self.small(self.U.T @ y[:, 0])
        return (self.roots * y.reshape(self.roots.shape)).reshape(residual.shape)

    def _plain(self, v: np.ndarray) -> np.ndarray:  # (n c, r)
        """Solve without the correction."""
        (n, c), r = self.roots.shape, v.shape[1]
        if len(self.solves) == 1:
            return self.solves[0](v.reshape(n, c * r)).reshape(n * c, r)
        v = v.reshape(n, c, r)
        return np.stack([self.solves[j](v[:, j]) for j in range(c)], axis=1).reshape(n * c, r)
