"""Losses of the classification margin ``y f``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import is_numpy, namespace, positive
from .base import BoxQuadratic, Loss

SEARCH = 60  # halvings of an interval in which a number is searched for


class _Margin(Loss):
    """What the hinge and its square share: a quadratic dual on a box at zero."""

    def quadratic(self, y: np.ndarray, C: np.ndarray) -> BoxQuadratic:
        """Return the dual as a box-constrained quadratic."""
        raise NotImplementedError

    def dual(self, beta: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        box = self.quadratic(y, C)
        return box.linear * beta - 0.5 * box.ridge * beta**2

    def project(self, beta: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        box, xp = self.quadratic(y, C), namespace(beta)
        return xp.minimum(xp.maximum(beta, box.lower), box.upper)

    def stretch(self, beta: np.ndarray, y: np.ndarray, C: np.ndarray, h: float) -> float:
        box, xp = self.quadratic(y, C), namespace(beta)
        curvature = 2.0 * h + float(box.ridge @ beta**2)
        moved = beta != 0
        if curvature <= 0 or not xp.any(moved):
            return 1.0
        room = xp.where(beta > 0, box.upper, box.lower)[moved] / beta[moved]
        return max(min(float(box.linear @ beta) / curvature, float(xp.min(room))), 0.0)


class Hinge(_Margin):
    """The support vector machine's loss, ``C (1 - y f)_+``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses import Hinge
    >>> Hinge().value(np.array([0.5, 2.0]), np.ones(2), np.ones(2)).tolist()
    [0.5, 0.0]
    """

    def compiled(self) -> Any:
        from ..compiled import slopes

        return slopes.hinge

    def value(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        return C * positive(1.0 - y * f)

    def slope(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        return namespace(f).where(y * f < 1.0, -C * y, 0.0 * y)

    def quadratic(self, y: np.ndarray, C: np.ndarray) -> BoxQuadratic:
        xp, none = namespace(y), 0.0 * y
        return BoxQuadratic(y, none, xp.where(y > 0, none, -C), xp.where(y > 0, C, none))

    def best_bias(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> float:
        """Exact: the middle of the breakpoints ``y_i - f_i`` where the slope is zero, or changes sign."""
        xp, kinks, last = namespace(f), y - f, y.shape[0] - 1
        if float(xp.max(C)) == float(xp.min(C)):
            count = int(xp.sum(xp.astype(y > 0, xp.int64)))
            ends = [min(max(count - 1, 0), last), min(count, last)]
            ranked = np.partition(kinks, ends) if is_numpy(kinks) else xp.sort(kinks)
            return 0.5 * float(ranked[ends[0]] + ranked[ends[1]])
        order = xp.argsort(kinks)
        below = xp.cumulative_sum(xp.take(C, order))
        wanted = float(xp.sum(xp.where(y > 0, C, 0.0 * C)))
        counts = [int(xp.sum(xp.astype(below < wanted * slack, xp.int64))) for slack in (1 - 1e-12, 1 + 1e-12)]
        return 0.5 * sum(float(kinks[order[min(count, last)]]) for count in counts)


class SquaredHinge(_Margin):
    """The smooth margin loss, ``(C/2) (1 - y f)_+^2``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses import SquaredHinge
    >>> SquaredHinge().value(np.array([0.0, 2.0]), np.ones(2), np.ones(2)).tolist()
    [0.5, 0.0]
    """

    def compiled(self) -> Any:
        from ..compiled import slopes

        return slopes.squared_hinge

    def value(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        return 0.5 * C * positive(1.0 - y * f) ** 2

    def slope(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        return -C * y * positive(1.0 - y * f)

    def bend(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        return namespace(f).where(y * f < 1.0, C, 0.0 * C)

    def quadratic(self, y: np.ndarray, C: np.ndarray) -> BoxQuadratic:
        xp, none = namespace(y), 0.0 * y
        far = none + np.inf
        return BoxQuadratic(y, 1.0 / C, xp.where(y > 0, none, -far), xp.where(y > 0, far, none))


class Squared(_Margin):
    """Least squares, ``(C/2) (y - f)^2``; for labels a classifier without a margin, and every sample counts.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses import Squared
    >>> Squared().value(np.array([0.0, 2.0]), np.ones(2), np.ones(2)).tolist()
    [0.5, 0.5]
    """

    def compiled(self) -> Any:
        from ..compiled import slopes

        return slopes.squared

    def value(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        return 0.5 * C * (y - f) ** 2

    def slope(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        return C * (f - y)

    def bend(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        return C

    def quadratic(self, y: np.ndarray, C: np.ndarray) -> BoxQuadratic:
        far = 0.0 * y + np.inf
        return BoxQuadratic(y, 1.0 / C, -far, far)

    def balance(self, beta: np.ndarray) -> np.ndarray:
        return beta - namespace(beta).mean(beta)

    def best_bias(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> float:
        return float(C @ (y - f)) / float(namespace(f).sum(C))


class Logistic(Loss):
    """The logistic loss, ``C log(1 + exp(-y f))``, whose decision values are log odds; every sample counts.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses import Logistic
    >>> Logistic().value(np.zeros(1), np.ones(1), np.full(1, 2.0)).round(4).tolist()
    [1.3863]
    """

    def compiled(self) -> Any:
        from ..compiled import slopes

        return slopes.logistic

    def value(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        return -C * log_sigmoid(y * f)

    def slope(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        return -C * y * sigmoid(-y * f)

    def bend(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        return C * sigmoid(f) * sigmoid(-f)

    def dual(self, beta: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        share = y * beta / C
        return -C * (_entropy(share) + _entropy(1.0 - share))

    def project(self, beta: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        xp = namespace(beta)
        return y * xp.minimum(positive(y * beta), C)

    def stretch(self, beta: np.ndarray, y: np.ndarray, C: np.ndarray, h: float) -> float:
        xp, a = namespace(beta), y * beta
        if not xp.any(a > 0):
            return 1.0
        a, C = a[a > 0], C[a > 0]
        low, high = 0.0, float(xp.min(C / a))
        for _ in range(SEARCH):
            s = 0.5 * (low + high)
            room = positive(C - s * a) + 1e-300
            rises = float(xp.sum(a * (xp.log(room) - xp.log(s * a)))) > 2.0 * s * h
            low, high = (s, high) if rises else (low, s)
        return low

    def best_bias(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> float:
        """By Newton's method between the biases that would do if all decision values were the least, or the largest."""
        xp = namespace(f)
        plus = float(xp.sum(xp.where(y > 0, C, 0.0 * C)))
        odds = float(np.log(max(plus, 1e-300)) - np.log(max(float(xp.sum(C)) - plus, 1e-300)))
        low, high = odds - float(xp.max(f)), odds - float(xp.min(f))
        bias = 0.5 * (low + high)
        for _ in range(SEARCH):
            slope, bend = (float(xp.sum(face(f + bias, y, C))) for face in (self.slope, self.bend))
            low, high = (low, bias) if slope > 0 else (bias, high)
            last, bias = bias, bias - slope / bend if bend > 0 else low
            bias = bias if low < bias < high else 0.5 * (low + high)
            if abs(bias - last) <= 1e-15 * (1.0 + abs(bias)):
                break
        return bias


def log_sigmoid(x: np.ndarray) -> np.ndarray:
    """Return ``-log(1 + exp(-x))``; nothing overflows."""
    xp = namespace(x)
    return -(positive(-x) + xp.log1p(xp.exp(-xp.abs(x))))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return ``1 / (1 + exp(-x))``; nothing overflows."""
    xp = namespace(x)
    small = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, 1.0 + 0.0 * x, small) / (1.0 + small)


def _entropy(t: np.ndarray) -> np.ndarray:
    """Return ``t log t``, zero where t is not above zero."""
    xp, there = namespace(t), t > 0
    return xp.where(there, t * xp.log(xp.where(there, t, 1.0 + 0.0 * t)), 0.0 * t)
