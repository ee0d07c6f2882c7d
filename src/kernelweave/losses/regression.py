"""Losses of the residual ``r = y - f``, for targets that are numbers; several targets are several columns."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from ..arrays import Array, namespace, positive
from .base import DualTerms, Loss, flat_point


class _Residual(Loss):
    """A loss of a number."""

    tasks: tuple[str, ...] = ("regression",)

    def check(self, y: Array) -> None:
        if y.ndim not in (1, 2):
            raise ValueError(f"y has shape {tuple(y.shape)}: give one target for each sample, or a row of them.")
        if not bool(namespace(y).all(namespace(y).isfinite(y))):
            raise ValueError("y holds infinite values or NaN: drop those rows, or replace them by numbers.")


def _unbounded(y: Array) -> tuple[Array, Array]:
    far = 0.0 * y + np.inf
    return -far, far


def _check_number(name: str, value: Any, low: float, high: float, hint: str) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not low < float(value) < high:
        raise ValueError(f"{name} must be a number {hint}; got {value!r}.")


class Squared(_Residual):
    """Least squares, ``(C/2) r^2``; for labels -1 and +1 a classifier without a margin. Every sample counts.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses import Squared
    >>> Squared().value(np.array([0.0, 2.0]), np.ones(2), np.ones(2)).tolist()
    [0.5, 0.5]
    """

    tasks = ("binary", "regression")
    smooth = True

    def value(self, f: Array, y: Array, C: Array) -> Array:
        return 0.5 * C * (y - f) ** 2

    def slope(self, f: Array, y: Array, C: Array) -> Array:
        return C * (f - y)

    def curvature(self, f: Array, y: Array, C: Array) -> Array:
        return C + 0.0 * f

    def terms(self, y: Array, C: Array) -> DualTerms:
        return DualTerms(y, 1.0 / C + 0.0 * y, *_unbounded(y), 0.0 * y)

    def best_bias(self, f: Array, y: Array, C: Array, total: float = 0.0, near: Any = None) -> float:
        xp = namespace(f)
        return (float(xp.sum(C * (y - f))) - total) / float(xp.sum(C + 0.0 * f))


class EpsilonInsensitive(_Residual):
    """Support vector regression's loss, ``C (|r| - epsilon)_+``: small errors cost nothing.

    Parameters
    ----------
    epsilon : float, default=0.1
        Error that costs nothing, in the units of the target.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses import EpsilonInsensitive
    >>> EpsilonInsensitive(0.5).value(np.array([0.0, 0.7]), np.ones(2), np.ones(2)).tolist()
    [0.5, 0.0]
    """

    def __init__(self, epsilon: float = 0.1):
        self.epsilon = epsilon

    def check_parameters(self) -> None:
        _check_number("epsilon", self.epsilon, -1e-300, np.inf, "from 0 on, in the units of y")

    def value(self, f: Array, y: Array, C: Array) -> Array:
        return C * positive(namespace(f).abs(y - f) - self.epsilon)

    def slope(self, f: Array, y: Array, C: Array) -> Array:
        xp, r = namespace(f), y - f
        return xp.where(xp.abs(r) > self.epsilon, -C * xp.sign(r), 0.0 * r)

    def terms(self, y: Array, C: Array) -> DualTerms:
        none = 0.0 * y
        return DualTerms(y, none, none - C, none + C, none + float(self.epsilon))

    def best_bias(self, f: Array, y: Array, C: Array, total: float = 0.0, near: Any = None) -> float:
        """Exact: the slope jumps by C at both ends of where a sample costs nothing."""
        xp, r, C = namespace(f), y - f, C + 0.0 * f
        kinks = xp.concat([r - self.epsilon, r + self.epsilon])
        return flat_point(kinks, xp.concat([C, C]), total - float(xp.sum(C)))


class SquaredEpsilonInsensitive(EpsilonInsensitive):
    """The smooth form of support vector regression's loss, ``(C/2) (|r| - epsilon)_+^2``.

    Parameters
    ----------
    epsilon : float, default=0.1
        Error that costs nothing, in the units of the target.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses import SquaredEpsilonInsensitive
    >>> SquaredEpsilonInsensitive(0.5).value(np.array([-0.5, 0.7]), np.ones(2), np.ones(2)).tolist()
    [0.5, 0.0]
    """

    smooth = True

    def value(self, f: Array, y: Array, C: Array) -> Array:
        return 0.5 * C * positive(namespace(f).abs(y - f) - self.epsilon) ** 2

    def slope(self, f: Array, y: Array, C: Array) -> Array:
        xp, r = namespace(f), y - f
        return -C * xp.sign(r) * positive(xp.abs(r) - self.epsilon)

    def curvature(self, f: Array, y: Array, C: Array) -> Array:
        xp = namespace(f)
        return xp.where(xp.abs(y - f) > self.epsilon, C + 0.0 * f, 0.0 * f)

    def terms(self, y: Array, C: Array) -> DualTerms:
        return DualTerms(y, 1.0 / C + 0.0 * y, *_unbounded(y), 0.0 * y + float(self.epsilon))

    def best_bias(self, f: Array, y: Array, C: Array, total: float = 0.0, near: Any = None) -> float:
        return Loss.best_bias(self, f, y, C, total, near)


class Huber(_Residual):
    """Squared error near zero and absolute error far from it: ``C r^2 / 2``, or ``C (delta |r| - delta^2 / 2)``.

    Parameters
    ----------
    delta : float, default=1.0
        Residual from which errors count by their size and not by its square, in the units of the target.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses import Huber
    >>> Huber(1.0).value(np.array([0.0, 3.0]), np.ones(2), np.ones(2)).tolist()
    [0.5, 1.5]
    """

    smooth = True

    def __init__(self, delta: float = 1.0):
        self.delta = delta

    def check_parameters(self) -> None:
        _check_number("delta", self.delta, 0.0, np.inf, "above 0, in the units of y")

    def value(self, f: Array, y: Array, C: Array) -> Array:
        xp, size = namespace(f), namespace(f).abs(y - f)
        return C * xp.where(size <= self.delta, 0.5 * size**2, self.delta * (size - 0.5 * self.delta))

    def slope(self, f: Array, y: Array, C: Array) -> Array:
        return -C * namespace(f).clip(y - f, min=-self.delta, max=self.delta)

    def curvature(self, f: Array, y: Array, C: Array) -> Array:
        xp = namespace(f)
        return xp.where(xp.abs(y - f) < self.delta, C + 0.0 * f, 0.0 * f)

    def terms(self, y: Array, C: Array) -> DualTerms:
        none = 0.0 * y
        return DualTerms(y, none + 1.0 / C, none - C * self.delta, none + C * self.delta, none)


class Quantile(_Residual):
    """The pinball loss, ``C max(level r, (level - 1) r)``, whose best prediction is a quantile of the target.

    Parameters
    ----------
    level : float, default=0.5
        Which quantile, between 0 and 1; 0.5 is the median.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses import Quantile
    >>> Quantile(0.75).value(np.array([0.0, 3.0]), np.ones(2), np.ones(2)).tolist()
    [0.75, 0.5]
    """

    def __init__(self, level: float = 0.5):
        self.level = level

    def check_parameters(self) -> None:
        _check_number("level", self.level, 0.0, 1.0, "between 0 and 1, both left out: 0.5 is the median")

    def value(self, f: Array, y: Array, C: Array) -> Array:
        r = y - f
        return C * namespace(f).maximum(self.level * r, (self.level - 1.0) * r)

    def slope(self, f: Array, y: Array, C: Array) -> Array:
        xp, r = namespace(f), y - f
        return C * xp.where(r > 0, -self.level + 0.0 * r, xp.where(r < 0, 1.0 - self.level + 0.0 * r, 0.0 * r))

    def terms(self, y: Array, C: Array) -> DualTerms:
        none = 0.0 * y
        return DualTerms(y, none, none + (self.level - 1.0) * C, none + self.level * C, none)

    def best_bias(self, f: Array, y: Array, C: Array, total: float = 0.0, near: Any = None) -> float:
        """Exact: a weighted quantile of the residuals."""
        C = C + 0.0 * f
        return flat_point(y - f, C, total - self.level * float(namespace(f).sum(C)))
