"""Losses of the classification margin ``y f``."""

from __future__ import annotations

import numpy as np

from .base import BoxQuadratic, Loss


def balance(beta: np.ndarray) -> np.ndarray:
    """Scale the heavier sign down so that ``beta`` sums to zero; stays inside any box that holds zero."""
    plus, minus = float(beta[beta > 0].sum()), float(-beta[beta < 0].sum())
    if plus == minus:
        return beta
    keep = min(plus, minus)
    factor = np.where(beta > 0, keep / plus if plus else 0.0, keep / minus if minus else 0.0)
    return beta * factor


class _Margin(Loss):
    """What the hinge and its square share: a quadratic dual on a box at zero."""

    def quadratic(self, y: np.ndarray, C: np.ndarray) -> BoxQuadratic:
        """Return the dual as a box-constrained quadratic."""
        raise NotImplementedError

    def dual(self, beta: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        box = self.quadratic(y, C)
        return box.linear * beta - 0.5 * box.ridge * beta**2

    def project(self, beta: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        box = self.quadratic(y, C)
        return balance(np.clip(beta, box.lower, box.upper))

    def stretch(self, beta: np.ndarray, y: np.ndarray, C: np.ndarray, h: float) -> float:
        box = self.quadratic(y, C)
        curvature = 2.0 * h + float(box.ridge @ beta**2)
        room = np.where(beta > 0, box.upper, box.lower)[beta != 0] / beta[beta != 0]
        if curvature <= 0 or room.size == 0:
            return 1.0
        return max(min(float(box.linear @ beta) / curvature, float(room.min())), 0.0)


class Hinge(_Margin):
    """The support vector machine's loss, ``C (1 - y f)_+``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses import Hinge
    >>> Hinge().value(np.array([0.5, 2.0]), np.ones(2), np.ones(2)).tolist()
    [0.5, 0.0]
    """

    def value(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        return C * np.maximum(1.0 - y * f, 0.0)

    def slope(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        return np.where(y * f < 1.0, -C * y, 0.0)

    def quadratic(self, y: np.ndarray, C: np.ndarray) -> BoxQuadratic:
        return BoxQuadratic(y, np.zeros_like(y), np.where(y > 0, 0.0, -C), np.where(y > 0, C, 0.0))

    def best_bias(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> float:
        """Exact: the middle of the breakpoints ``y_i - f_i`` where the slope is zero, or changes sign."""
        kinks = y - f
        if np.ptp(C) == 0:
            ends = np.clip(np.count_nonzero(y > 0) - np.array([1, 0]), 0, y.size - 1)
            return float(np.partition(kinks, ends)[ends].mean())
        order = np.argsort(kinks)
        wanted = float(C[y > 0].sum()) * np.array([1 - 1e-12, 1 + 1e-12])
        ends = np.minimum(np.searchsorted(np.cumsum(C[order]), wanted), y.size - 1)
        return float(kinks[order[ends]].mean())


class SquaredHinge(_Margin):
    """The smooth margin loss, ``(C/2) (1 - y f)_+^2``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses import SquaredHinge
    >>> SquaredHinge().value(np.array([0.0, 2.0]), np.ones(2), np.ones(2)).tolist()
    [0.5, 0.0]
    """

    def value(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        return 0.5 * C * np.maximum(1.0 - y * f, 0.0) ** 2

    def slope(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        return -C * y * np.maximum(1.0 - y * f, 0.0)

    def quadratic(self, y: np.ndarray, C: np.ndarray) -> BoxQuadratic:
        far = np.full_like(y, np.inf)
        return BoxQuadratic(y, 1.0 / C, np.where(y > 0, 0.0, -far), np.where(y > 0, far, 0.0))
