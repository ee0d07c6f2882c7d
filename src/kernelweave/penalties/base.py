"""What a mixing penalty is: a convex h of the kernels' energies q, its gradient and its primal twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator


class MixingPenalty(BaseEstimator):
    """How kernels are mixed.

    One penalty ``r`` on the weights gives the three faces every room needs::

        value(q)    h(q)     = max_{w >= 0}  1/2 w'q - r(w)                  seen by the dual
        weights(q)  2 grad h = the maximising w                             which kernels matter
        norm(u)     Omega(u) = min_{w >= 0}  1/2 sum u_k^2 / w_k + r(w)      seen by the primal
        weights_of_norms(u)  = the minimising w                             what alternation needs

    with ``q_k = beta' K_k beta`` and ``u_k = ||f_k||``.
    """

    #: h has a gradient everywhere but at zero; solvers that follow the gradient ask for it.
    smooth = True
    #: h(s q) = s h(q): the weights are constrained, not penalised.
    homogeneous = True
    #: the weights bend sharply where kernels enter and leave, which Newton's method does not follow well.
    kinked = False
    #: kernels with zero weight can be left out without changing the weights of the others.
    sparse = False

    def check(self, m: int) -> None:
        """Refuse parameters that do not fit ``m`` kernels."""

    def value(self, q: np.ndarray) -> float:
        """Value of h at the energies ``q``; what rounding left below zero counts as zero."""
        raise NotImplementedError

    def weights(self, q: np.ndarray) -> np.ndarray:
        """Kernel weights ``2 grad h(q)``; at ``q = 0`` those of a constant ``q``."""
        raise NotImplementedError

    def curvature(self, q: np.ndarray) -> np.ndarray:
        """Jacobian of :meth:`weights`, shape (m, m): twice the Hessian of h."""
        raise NotImplementedError

    def norm(self, u: np.ndarray) -> float:
        """Primal penalty of the block norms ``u``."""
        raise NotImplementedError

    def weights_of_norms(self, u: np.ndarray) -> np.ndarray:
        """Weights that attain :meth:`norm`."""
        raise NotImplementedError

    def cost(self, weights: np.ndarray, q: np.ndarray) -> Callable[[float], float]:
        """Primal penalty of ``t K_w beta`` as a function of ``t``, from the energies ``q`` of ``beta``."""
        u = weights * np.sqrt(np.maximum(q, 0.0))
        return lambda t: self.norm(t * u)

    def toll(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Price of each weight and two derivatives, where weights must have prices that sum to one; else None."""
        return None

    def ceiling(self, m: int) -> np.ndarray:
        """Return what each weight stays below, shape (m,)."""
        return np.full(m, np.inf)

    def restrict(self, index: np.ndarray, m: int) -> MixingPenalty:
        """Return the penalty on the kernels ``index`` when the other weights are zero."""
        raise NotImplementedError

    def compiled(self, m: int) -> tuple[Any, np.ndarray]:
        """Return the compiled :meth:`weights` rule and its parameters for ``m`` kernels."""
        raise NotImplementedError


def per_kernel(value: Any, m: int, name: str) -> np.ndarray:
    """Return ``value`` as one positive number per kernel, or refuse it by name."""
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a positive number, or one for each kernel; got {value!r}.") from None
    if array.ndim > 1 or (array.ndim == 1 and array.shape[0] != m):
        raise ValueError(f"{name} has shape {array.shape} but there are {m} kernels: give one number or {m}.")
    if not np.all(array > 0) or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be positive and finite for every kernel.")
    return np.ascontiguousarray(np.broadcast_to(array, (m,)))


def awake(q: np.ndarray) -> np.ndarray:
    """Return ``q`` without rounding below zero, or ones where the whole of it is zero."""
    q = np.maximum(q, 0.0)
    return q if q.max(initial=0.0) > 0 else np.ones_like(q)
