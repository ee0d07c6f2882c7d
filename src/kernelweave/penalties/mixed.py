"""The penalty that thins kernels out while it stays strongly convex: a squared p-norm and a price per kernel."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from .base import MixingPenalty, positive_energies, square


class Mixed(MixingPenalty):
    """A squared norm of the block norms and their sum: ``1/2 |u|_p^2 + alpha sum_k u_k``, with p a little above 1.

    Parameters
    ----------
    alpha : float, default=0.0
        Price of using a kernel; kernels below it get exactly zero, perhaps all of them. The `a` of Orabona and Luo,
        whose loss is a mean, times C and the number of samples.
    exponent : float, optional
        The dual exponent ``p / (p - 1)``, at least 2; by default ``max(2, 2 ln m)`` for m kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.penalties import Mixed
    >>> Mixed(0.5, exponent=2).weights(np.array([4.0, 1.0, 0.25])).tolist()
    [0.75, 0.5, 0.0]
    """

    def __init__(self, alpha: float = 0.0, exponent: float | None = None):
        self.alpha = alpha
        self.exponent = exponent

    @property
    def homogeneous(self) -> bool:  # type: ignore[override]
        """Whether weights are constrained, which they are where kernels have no price."""
        return self.alpha == 0

    @property
    def sparse(self) -> bool:  # type: ignore[override]
        """Whether kernels get exactly zero."""
        return self.alpha > 0

    def check(self, m: int) -> None:
        alpha: Any = self.alpha
        exponent: Any = 2 if self.exponent is None else self.exponent
        if not isinstance(alpha, Real) or not 0 <= float(alpha) < np.inf:
            raise ValueError(f"alpha must be a number from 0 on, one for all kernels; got {alpha!r}.")
        if not isinstance(exponent, Real) or not 2 <= float(exponent) < np.inf:
            raise ValueError(f"exponent must be a number from 2 on, or None; got {exponent!r}.")

    def power(self, m: int) -> float:
        """Return the dual exponent for ``m`` kernels."""
        return max(2.0, 2.0 * float(np.log(m))) if self.exponent is None else float(self.exponent)

    def _excess(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
        """Return the roots of q, what is left of them after the price, its norm, and its shape (of norm one)."""
        q = positive_energies(q) if self.homogeneous else np.maximum(q, 0.0)
        root = np.sqrt(q)
        v = np.maximum(root - self.alpha, 0.0)
        top, s = float(v.max(initial=0.0)), self.power(q.size)
        if top == 0.0:
            return root, v, 0.0, v
        norm = top * float(np.sum((v / top) ** s)) ** (1.0 / s)
        return root, v, norm, v / norm

    def value(self, q: np.ndarray) -> float:
        return 0.5 * square(self._excess(q)[2]) if np.any(q > 0) else 0.0

    def weights(self, q: np.ndarray) -> np.ndarray:
        root, v, _, z = self._excess(q)
        shrunk = np.divide(v, root, out=np.zeros_like(v), where=v > 0)
        return shrunk * z ** (self.power(q.size) - 2.0)

    def curvature(self, q: np.ndarray) -> np.ndarray:
        root, v, _, z = self._excess(q)
        s, kept = self.power(q.size), v > 0
        inverse = np.divide(1.0, root, out=np.zeros_like(root), where=kept & (root > 1e-100))
        steep = inverse * z ** (s - 1.0)
        own = z ** (s - 2.0) * inverse**2 * (s - 1.0 - v * inverse)
        return 0.5 * (np.diag(np.where(kept, own, 0.0)) + (2.0 - s) * np.outer(steep, steep))

    def norm(self, u: np.ndarray) -> float:
        return 0.5 * square(self._length(u)) + self.alpha * float(u.sum())

    def _length(self, u: np.ndarray) -> float:
        top, s = float(u.max(initial=0.0)), self.power(u.size)
        p = s / (s - 1.0)
        return top * float(np.sum((u / top) ** p)) ** (1.0 / p) if top > 0 else 0.0

    def weights_of_norms(self, u: np.ndarray) -> np.ndarray:
        length, s = self._length(u), self.power(u.size)
        if length == 0.0:
            return np.zeros_like(u)
        slope = length * (u / length) ** (1.0 / (s - 1.0)) + self.alpha
        return np.divide(u, slope, out=np.zeros_like(u), where=slope > 0)

    def restrict(self, index: np.ndarray, m: int) -> Mixed:
        return Mixed(self.alpha, self.power(m))

    def compiled(self, m: int) -> tuple[Any, np.ndarray]:
        from ..compiled import rules

        return rules.mixed, np.array([self.alpha, self.power(m)], dtype=float)
