"""What a loss is: its value, its concave dual, the feasible duals and the best bias."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..arrays import namespace, positive


@dataclass(frozen=True)
class BoxQuadratic:
    """A dual ``sum_i linear_i beta_i - ridge_i beta_i^2 / 2`` on the box ``lower <= beta <= upper``."""

    linear: np.ndarray  # (n,)
    ridge: np.ndarray  # (n,)
    lower: np.ndarray  # (n,)
    upper: np.ndarray  # (n,)

    def take(self, index: np.ndarray) -> BoxQuadratic:
        """Return the part of the samples ``index``."""
        return BoxQuadratic(self.linear[index], self.ridge[index], self.lower[index], self.upper[index])


class Loss(BaseEstimator):
    """What an error costs.

    ``value`` is L, ``dual`` is ``D(beta) = min_f L(f) + beta f``, so that ``L(f) - D(beta) + beta f >= 0`` always.
    All take targets ``y`` and costs ``C`` of shape (n,), as arrays of NumPy or of any library with the array API.
    With these four faces, `value`, `slope`, `dual` and, where not all duals are feasible, `project`, a loss of your
    own is learned by the solver `mirror`. Two more are asked for by name: ``quadratic(y, C)``, the dual as a
    box-constrained quadratic, and ``bend(f, y, C)``, the second derivative of a loss whose slope is continuous.
    """

    def value(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        """Loss of each sample at decision values ``f``."""
        raise NotImplementedError

    def slope(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        """A subgradient of each sample's loss."""
        raise NotImplementedError

    def dual(self, beta: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        """Dual value of each sample; only meaningful for feasible ``beta``."""
        raise NotImplementedError

    def project(self, beta: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        """Return a point near ``beta`` at which the dual is finite."""
        return beta

    def balance(self, beta: np.ndarray) -> np.ndarray:
        """Return a point near the feasible ``beta`` that sums to zero, as it must with a bias.

        The heavier sign is scaled down, which stays inside any convex domain that holds zero.
        """
        xp = namespace(beta)
        plus, minus = float(xp.sum(positive(beta))), float(xp.sum(positive(-beta)))
        if plus == minus:
            return beta
        keep = min(plus, minus)
        up, down = keep / plus if plus else 0.0, keep / minus if minus else 0.0
        return up * positive(beta) - down * positive(-beta)

    def compiled(self) -> Any:
        """Return the compiled rule of one sample's slope, or None; `mirror` then asks `slope`, which takes longer."""
        return None

    def rule(self) -> Any:
        """Return `compiled`, unless a subclass changed the slope and not the rule."""
        owner = next(kind for kind in type(self).__mro__ if "compiled" in vars(kind))
        return self.compiled() if type(self).slope is owner.slope else None  # type: ignore[attr-defined]

    def shape(self, y: np.ndarray) -> tuple[int, ...]:
        """Shape of the duals and of the decision values."""
        return tuple(y.shape)

    def check(self, y: np.ndarray) -> None:
        """Refuse targets that the loss cannot read."""

    def stretch(self, beta: np.ndarray, y: np.ndarray, C: np.ndarray, h: float) -> float:
        """Return the scale ``s`` of ``beta`` with the best dual value when ``h(s^2 q) = s^2 h(q)``."""
        return 1.0

    def best_bias(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> float:
        """Return the bias of least total loss, by bisection on its slope."""
        xp = namespace(f)
        reach = float(xp.max(xp.abs(f)) + xp.max(xp.abs(y)) + 1.0)
        low, high = -reach, reach
        for _ in range(200):
            middle = 0.5 * (low + high)
            if middle in (low, high):
                break
            if float(xp.sum(self.slope(f + middle, y, C))) > 0:
                high = middle
            else:
                low = middle
        return 0.5 * (low + high)
