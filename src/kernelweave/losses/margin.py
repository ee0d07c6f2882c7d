"""Losses of the classification margin ``y f``, for labels -1 and +1."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array, namespace, positive
from .base import DualTerms, Loss, flat_point


class _Margin(Loss):
    """A loss of two classes."""

    def check(self, y: Array) -> None:
        check_one_column(self, y)
        if not bool(namespace(y).all((y == 1) | (y == -1))):
            raise ValueError(f"y must hold -1 and +1 for {type(self).__name__}: write classes as these two numbers.")


def check_one_column(loss: Loss, y: Array) -> None:
    """Refuse targets that are not one number for each sample."""
    if y.ndim != 1:
        raise ValueError(f"y has shape {tuple(y.shape)}, but {type(loss).__name__} takes one number for each sample.")


class Hinge(_Margin):
    """The support vector machine's loss, ``C (1 - y f)_+``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses import Hinge
    >>> Hinge().value(np.array([0.5, 2.0]), np.ones(2), np.ones(2)).tolist()
    [0.5, 0.0]
    """

    def value(self, f: Array, y: Array, C: Array) -> Array:
        return C * positive(1.0 - y * f)

    def slope(self, f: Array, y: Array, C: Array) -> Array:
        return namespace(f).where(y * f < 1.0, -C * y, 0.0 * y)

    def terms(self, y: Array, C: Array) -> DualTerms:
        xp, none = namespace(y), 0.0 * y
        return DualTerms(y, none, xp.where(y > 0, none, -C), xp.where(y > 0, C, none), none)

    def best_bias(self, f: Array, y: Array, C: Array, total: float = 0.0, near: Any = None) -> float:
        """Exact: the middle of where the slope, which jumps by C at each ``y_i - f_i``, is zero or changes sign."""
        xp = namespace(f)
        return flat_point(y - f, C, total - float(xp.sum(xp.where(y > 0, C, 0.0 * C))))

    def joint(self) -> Loss:
        from .multiclass import CrammerSinger

        return CrammerSinger()


class SquaredHinge(_Margin):
    """The smooth margin loss, ``(C/2) (1 - y f)_+^2``.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses import SquaredHinge
    >>> SquaredHinge().value(np.array([0.0, 2.0]), np.ones(2), np.ones(2)).tolist()
    [0.5, 0.0]
    """

    smooth = True

    def value(self, f: Array, y: Array, C: Array) -> Array:
        return 0.5 * C * positive(1.0 - y * f) ** 2

    def slope(self, f: Array, y: Array, C: Array) -> Array:
        return -C * y * positive(1.0 - y * f)

    def curvature(self, f: Array, y: Array, C: Array) -> Array:
        return namespace(f).where(y * f < 1.0, C, 0.0 * C)

    def terms(self, y: Array, C: Array) -> DualTerms:
        xp, none = namespace(y), 0.0 * y
        far = none + np.inf
        return DualTerms(y, 1.0 / C, xp.where(y > 0, none, -far), xp.where(y > 0, far, none), none)


class Logistic(_Margin):
    """The logistic loss, ``C log(1 + exp(-y f))``, whose decision values are log odds; every sample counts.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses import Logistic
    >>> Logistic().value(np.zeros(1), np.ones(1), np.full(1, 2.0)).round(4).tolist()
    [1.3863]
    """

    smooth = True
    probabilistic = True

    def value(self, f: Array, y: Array, C: Array) -> Array:
        return -C * log_sigmoid(y * f)

    def slope(self, f: Array, y: Array, C: Array) -> Array:
        return -C * y * sigmoid(-y * f)

    def curvature(self, f: Array, y: Array, C: Array) -> Array:
        return C * sigmoid(f) * sigmoid(-f)

    def terms(self, y: Array, C: Array) -> DualTerms:
        xp, none = namespace(y), 0.0 * y
        return DualTerms(none, none, xp.where(y > 0, none, -C), xp.where(y > 0, C, none), none, entropic=True)

    def bias_range(self, f: Array, y: Array, C: Array, total: float) -> tuple[float, float]:
        """The biases that would do if all decision values were the largest, or the least."""
        xp = namespace(f)
        plus = float(xp.sum(xp.where(y > 0, C, 0.0 * C))) - total
        odds = float(np.log(max(plus, 1e-300)) - np.log(max(float(xp.sum(C)) - plus, 1e-300)))
        return odds - float(xp.max(f)), odds - float(xp.min(f))

    def joint(self) -> Loss:
        from .multiclass import Softmax

        return Softmax()

    def probabilities(self, f: Array) -> Array:
        """Two columns from one decision value; of each class against the rest, scaled to sum to one."""
        xp = namespace(f)
        if f.ndim == 1:
            return xp.stack([sigmoid(-f), sigmoid(f)], axis=1)
        logs = log_sigmoid(f)
        chances = xp.exp(logs - xp.max(logs, axis=1, keepdims=True))
        return chances / xp.sum(chances, axis=1, keepdims=True)


def log_sigmoid(x: Array) -> Array:
    """Return ``-log(1 + exp(-x))``; nothing overflows."""
    xp = namespace(x)
    return -(positive(-x) + xp.log1p(xp.exp(-xp.abs(x))))


def sigmoid(x: Array) -> Array:
    """Return ``1 / (1 + exp(-x))``; nothing overflows."""
    xp = namespace(x)
    small = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, 1.0 + 0.0 * x, small) / (1.0 + small)
