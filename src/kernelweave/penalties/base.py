"""What a mixing penalty is: a convex h of the kernels' energies q, its gradient and its primal twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import penalties
    >>> l1 = penalties.L1()
    >>> isinstance(l1, penalties.MixingPenalty), l1.value(np.array([1.0, 4.0])), l1.weights(np.array([1.0, 4.0]))
    (True, 2.0, array([0., 1.]))
    """

    #: h has a gradient everywhere but at zero; solvers that follow the gradient ask for it.
    smooth = True
    #: h(s q) = s h(q): the weights are constrained, not penalised.
    homogeneous = True
    #: the weights bend sharply where kernels enter and leave, which Newton's method does not follow well.
    kinked = False
    #: the weights grow with the energies without end.
    steep = False
    #: kernels with zero weight can be left out without changing the weights of the others.
    sparse = False
    #: the weights are given beforehand.
    fixed = False
    #: weights times prices lie on the simplex: h has no gradient, but a sequence of smooth stages leads to it.
    on_simplex = False
    #: the weights are those of products of kernels, and energies come from a stack of products.
    products = False

    def grouped(self, groups: Sequence[Any]) -> MixingPenalty:
        """Return the penalty for kernels that belong to ``groups``, None for a kernel in no group."""
        return self

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

    def curvature_times(self, q: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Jacobian of :meth:`weights` times the columns of ``x``, shape (m, r)."""
        return self.curvature(q) @ x

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

    def weight_prices(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Price of each weight and two derivatives, where weights must have prices that sum to one; else None."""
        return None

    def block_prices(self) -> tuple[float, float] | None:
        """Return c1 and c2 where the primal penalty is ``c1 sum_k u_k + c2/2 sum_k u_k^2``; else None."""
        return None

    def ceiling(self, m: int) -> np.ndarray:
        """Return what each weight stays below, shape (m,)."""
        return np.full(m, np.inf)

    # -- stages: what solvers that follow gradients follow ------------------------------------------------

    def prices(self, m: int) -> np.ndarray:
        """Return what each weight counts for in the sum that is bounded by one, for weights on a simplex."""
        return np.ones(m)

    def stage(
        self, q: np.ndarray, kind: str = "entropic", shares: np.ndarray | None = None, strength: float = 2.0
    ) -> MixingPenalty:
        """Return the smooth penalty to follow from the energies ``q``: itself, or for l1 the first proximal stage.

        Parameters
        ----------
        q : ndarray of shape (m,)
            Energies, which set the size of the proximal step.
        kind : {"entropic", "euclidean"}, default="entropic"
            How far weights are from the centre: in relative entropy, in which they are smooth but never zero, or in
            squared distance, in which they get zero.
        shares : ndarray of shape (m,), optional
            The centre, a point of the simplex; the even one by default.
        strength : float, default=2.0
            Length of the proximal step times the largest energy over price.
        """
        return self

    def next_stage(self, q: np.ndarray, growth: float, strongest: float = np.inf, floor: float = 0.0) -> MixingPenalty:
        """Return the stage after this one: centred where it ended, with a longer step; itself where there are none."""
        return self

    def stage_strength(self, q: np.ndarray) -> float:
        """Return how far a stage lets weights move from its centre, at the energies ``q``; zero where it is none."""
        return 0.0

    def mixing_gap(self, q: np.ndarray) -> float:
        """Return the part of the duality gap that is due to weights held near a centre; zero where they are not."""
        return 0.0

    def trimmed(self, q: np.ndarray, cut: float) -> np.ndarray:
        """Return the weights, those of a stage without kernels whose share is below ``cut``."""
        return self.weights(q)

    def active(self, q: np.ndarray, cut: float, near: float = 0.9) -> np.ndarray:
        """Return the kernels worth following: all, or for a stage those with a share, or an energy near the top."""
        return np.arange(q.size)

    def widened(self, kernels: np.ndarray, prices: np.ndarray, floor: float) -> MixingPenalty:
        """Return a stage that was restricted to ``kernels`` for all of them, the others at the floor."""
        return self

    def restrict(self, index: np.ndarray, m: int) -> MixingPenalty:
        """Return the penalty on the kernels ``index`` when the other weights are zero."""
        raise NotImplementedError

    def compiled(self, m: int) -> tuple[Any, np.ndarray]:
        """Return the compiled :meth:`weights` rule and its parameters for ``m`` kernels."""
        raise NotImplementedError


def per_kernel(value: Any, m: int, name: str) -> np.ndarray:
    """Return ``value`` as one positive number per kernel, or refuse it by name."""
    if isinstance(value, int | float) and 0.0 < value < np.inf:  # asked for several times in every step
        return np.full(m, float(value))
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a positive number, or one for each kernel; got {value!r}.") from None
    if array.ndim > 1 or (array.ndim == 1 and array.shape[0] != m):
        raise ValueError(f"{name} has shape {array.shape} but there are {m} kernels: give one number or {m}.")
    if not np.all(array > 0) or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be positive and finite for every kernel.")
    return np.ascontiguousarray(np.broadcast_to(array, (m,)))


def square(x: float) -> float:
    """Return ``x * x``, infinite where ``x**2`` of a plain number would be refused."""
    return x * x


def positive_energies(q: np.ndarray) -> np.ndarray:
    """Return ``q`` without rounding below zero, or ones where the whole of it is zero."""
    q = np.maximum(q, 0.0)
    return q if q.max(initial=0.0) > 0 else np.ones_like(q)
