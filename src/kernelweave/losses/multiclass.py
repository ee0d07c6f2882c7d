"""Losses of several decision values for each sample, one for each class."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import namespace, positive
from .base import Loss


class CrammerSinger(Loss):
    """The joint margin of all classes, ``C max_c [1(c != y) + f_c - f_y]``.

    Targets are the positions of the classes, 0, 1, ..; duals have a row for each sample that sums to zero, with an
    entry up to C for its own class and none above zero for the others.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses import CrammerSinger
    >>> CrammerSinger().value(np.array([[2.0, 0.5, 0.0], [0.0, 0.5, 0.2]]), np.array([0.0, 2.0]), np.ones(2)).tolist()
    [0.0, 1.3]
    """

    def check(self, y: np.ndarray) -> None:
        xp = namespace(y)
        if not xp.all((y >= 0) & (y == xp.floor(y))):
            raise ValueError("y must hold the positions of classes for CrammerSinger: whole numbers from 0 on.")

    def shape(self, y: np.ndarray) -> tuple[int, ...]:
        return (y.shape[0], max(int(namespace(y).max(y)) + 1, 2))

    def compiled(self) -> Any:
        from ..compiled import slopes

        return slopes.crammer_singer

    def value(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        xp, own = namespace(f), own_class(f, y)
        return C * (xp.max(f + 1.0 - own, axis=1) - xp.sum(own * f, axis=1))

    def slope(self, f: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        xp, own = namespace(f), own_class(f, y)
        raised = f + 1.0 - own
        worst = own_class(f, xp.astype(xp.argmax(raised, axis=1), y.dtype))
        wrong = xp.astype(xp.max(raised, axis=1) > xp.sum(own * f, axis=1), f.dtype)
        return (C * wrong)[:, None] * (worst - own)

    def dual(self, beta: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        return namespace(beta).sum(own_class(beta, y) * beta, axis=1)

    def project(self, beta: np.ndarray, y: np.ndarray, C: np.ndarray) -> np.ndarray:
        """Nearest point: ``C 1(c = y) - beta`` is taken to the simplex of size C, row by row."""
        full = C[:, None] * own_class(beta, y)
        return full - _on_simplexes(full - beta, C)

    def stretch(self, beta: np.ndarray, y: np.ndarray, C: np.ndarray, h: float) -> float:
        xp, own = namespace(beta), self.dual(beta, y, C)
        if h <= 0 or not xp.any(own > 0):
            return 1.0
        room = float(xp.min(C[own > 0] / own[own > 0]))
        return min(float(xp.sum(own)) / (2.0 * h), room)


def own_class(like: np.ndarray, y: np.ndarray) -> np.ndarray:  # (n, c)
    """Return 1 at each sample's own class and 0 elsewhere, as ``like`` is."""
    xp = namespace(like)
    classes = xp.arange(like.shape[1], dtype=y.dtype)
    return xp.astype(y[:, None] == classes[None, :], like.dtype)


def _on_simplexes(v: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return the nearest point of each row whose entries are not negative and sum to ``size``."""
    xp, c = namespace(v), v.shape[1]
    falling = xp.sort(v, axis=1, descending=True)
    counts = xp.arange(1, c + 1, dtype=v.dtype)
    levels = (xp.cumulative_sum(falling, axis=1) - size[:, None]) / counts
    last = xp.sum(xp.astype(falling > levels, xp.int64), axis=1) - 1
    level = xp.sum(levels * xp.astype(xp.arange(c)[None, :] == last[:, None], v.dtype), axis=1)
    return positive(v - level[:, None])
