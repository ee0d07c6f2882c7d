"""The loss of samples without labels: which of them are unlike the rest."""

from __future__ import annotations

from typing import Any

from ..arrays import Array, namespace, positive
from .base import DualTerms, Loss, flat_point
from .margin import check_one_column


class OneClass(Loss):
    """The one-class support vector machine's loss, ``C (-f)_+``: a sample is to have a decision value from zero on.

    With a bias b at the price of ``+ b``, and costs ``C = 1 / (nu n)``, so that duals sum to one, about a share nu of
    the samples falls below zero. Targets play no part.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses import OneClass
    >>> OneClass().value(np.array([0.5, -2.0]), np.ones(2), np.ones(2)).tolist()
    [0.0, 2.0]
    """

    tasks = ("outliers",)

    def check(self, y: Array) -> None:
        check_one_column(self, y)

    def value(self, f: Array, y: Array, C: Array) -> Array:
        return C * positive(-f)

    def slope(self, f: Array, y: Array, C: Array) -> Array:
        return namespace(f).where(f < 0, -C + 0.0 * f, 0.0 * f)

    def terms(self, y: Array, C: Array) -> DualTerms:
        none = 0.0 * y
        return DualTerms(none, none, none, none + C, none)

    def best_bias(self, f: Array, y: Array, C: Array, total: float = 0.0, near: Any = None) -> float:
        """Exact: the slope jumps by C at each ``-f_i``."""
        return flat_point(-f, C, total - float(namespace(f).sum(C)))
