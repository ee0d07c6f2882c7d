"""What a stack of Gram matrices is, however it is stored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np


class GramStack(ABC):
    """``m`` kernels on ``n`` training samples.

    Two products are required of every representation. Anything else a solver asks for by name (``block``,
    ``spread``, ``take``, ...) is a capability that a representation may lack.
    """

    if TYPE_CHECKING:

        def __getattr__(self, capability: str) -> Any: ...

    def asarray(self, values: Any) -> Any:
        """Return ``values`` as float64 where the products of this stack are computed."""
        return np.ascontiguousarray(values, dtype=float)

    @property
    def hit_rate(self) -> float:
        """Share of the columns asked for that had been kept; not a number where they are not computed on demand."""
        return float("nan")

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """``(n, m)``: samples and kernels."""

    @abstractmethod
    def quad(
        self,
        beta: np.ndarray,  # (n,) or (n, c)
    ) -> np.ndarray:  # (m,)
        """Return the energies ``q_k = beta' K_k beta``, summed over the columns of ``beta``."""

    @abstractmethod
    def matvec(
        self,
        beta: np.ndarray,  # (n,) or (n, c)
        weights: np.ndarray,  # (m,)
    ) -> np.ndarray:  # (n,) or (n, c)
        """Return ``f = sum_k w_k K_k beta``."""

    def products(
        self,
        beta: np.ndarray,  # (n,) or (n, c)
    ) -> np.ndarray:  # (n, m) or (c, n, m)
        """Return ``K_k beta`` for every kernel, for representations that can ``spread``."""
        support = support_of(beta)
        return self.spread(beta[support], support)


def support_of(beta: np.ndarray) -> np.ndarray:
    """Return the samples whose dual, or row of duals, is not zero."""
    return np.flatnonzero(beta if beta.ndim == 1 else beta.any(axis=1))
