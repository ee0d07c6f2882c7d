"""Losses of several decision values for each sample, one for each class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import Array, like, namespace, positive, to_host
from .base import MARGIN, NEWTON, SEARCH, SOFTMAX, Loss, entropy
from .margin import check_one_column

ROUNDING = 1e-12  # share of the costs below which a slope in the bias counts as none
CLOSE = 1e-8  # share of the costs to which the slope is asked for before classes are gone through one by one
SWEEPS = 5  # over the classes, at most


class _AllClasses(Loss):
    """A loss of all classes at once; targets are the positions of the classes, 0, 1, .."""

    tasks = ("multiclass",)
    elementwise = False
    kind = MARGIN

    def check(self, y: Array) -> None:
        check_one_column(self, y)
        xp = namespace(y)
        if not bool(xp.all((y >= 0) & (y == xp.floor(y)))):
            name = type(self).__name__
            raise ValueError(f"y must hold the positions of classes for {name}: whole numbers from 0 on.")

    def shape(self, y: Array) -> tuple[int, ...]:
        return (y.shape[0], max(int(namespace(y).max(y)) + 1, 2))

    def compiled(self, y: Array, C: Array) -> tuple[int, np.ndarray, np.ndarray]:
        return self.kind, np.stack(5 * [np.asarray(C, dtype=float)]), np.asarray(y).astype(np.int64)

    def project(self, beta: Array, y: Array, C: Array) -> Array:
        """Nearest point: ``C 1(c = y) - beta`` is taken to the simplex of size C, row by row."""
        full = C[:, None] * own_class(beta, y)
        return full - on_simplexes(full - beta, C)


class CrammerSinger(_AllClasses):
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

    kind = MARGIN
    takes_bias = False  # the best bias would be a linear programme at every judgement; a constant kernel does the same

    def value(self, f: Array, y: Array, C: Array) -> Array:
        xp, own = namespace(f), own_class(f, y)
        return C * (xp.max(f + 1.0 - own, axis=1) - xp.sum(own * f, axis=1))

    def slope(self, f: Array, y: Array, C: Array) -> Array:
        xp, own = namespace(f), own_class(f, y)
        raised = f + 1.0 - own
        worst = own_class(f, xp.astype(xp.argmax(raised, axis=1), y.dtype))
        wrong = xp.astype(xp.max(raised, axis=1) > xp.sum(own * f, axis=1), f.dtype)
        return (C * wrong)[:, None] * (worst - own)

    def dual(self, beta: Array, y: Array, C: Array) -> Array:
        return namespace(beta).sum(own_class(beta, y) * beta, axis=1)

    def dual_scale(self, beta: Array, y: Array, C: Array, h: float) -> float:
        xp, own = namespace(beta), self.dual(beta, y, C)
        if h <= 0 or not bool(xp.any(own > 0)):
            return 1.0
        room = float(xp.min(C[own > 0] / own[own > 0]))
        return min(float(xp.sum(own)) / (2.0 * h), room)

    def binary(self) -> Loss:
        from .margin import Hinge

        return Hinge()


class Softmax(_AllClasses):
    """Multinomial logistic regression's loss, ``C (log sum_c exp f_c - f_y)``, whose decision values are log odds.

    Targets are the positions of the classes, 0, 1, ..; a sample's row of duals is ``C (1(c = y) - p_c)`` with
    probabilities p.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses import Softmax
    >>> Softmax().value(np.zeros((1, 4)), np.array([2.0]), np.ones(1)).round(4).tolist()
    [1.3863]
    """

    smooth = True
    probabilistic = True
    kind = SOFTMAX

    def value(self, f: Array, y: Array, C: Array) -> Array:
        xp = namespace(f)
        top = xp.max(f, axis=1, keepdims=True)
        own = xp.sum(own_class(f, y) * (f - top), axis=1)
        return C * (xp.log(xp.sum(xp.exp(f - top), axis=1)) - own)

    def slope(self, f: Array, y: Array, C: Array) -> Array:
        return C[:, None] * (self.probabilities(f) - own_class(f, y))

    def curvature_times(self, f: Array, x: Array, y: Array, C: Array) -> Array:
        p = self.probabilities(f)
        return C[:, None] * p * (x - namespace(x).sum(p * x, axis=1, keepdims=True))

    def curvature_between(self, f: Array, y: Array, C: Array) -> Callable[[int, int], Array | None]:
        p = self.probabilities(f)
        return lambda i, j: C * p[:, i] * (float(i == j) - p[:, j])

    def dual(self, beta: Array, y: Array, C: Array) -> Array:
        shares = own_class(beta, y) - beta / C[:, None]
        return -C * namespace(beta).sum(entropy(shares), axis=1)

    def balance(self, beta: Array, y: Array, C: Array, total: float = 0.0) -> Array:
        """Return rows near those given whose columns sum to zero as well: a mixture of probabilities and shares.

        With the shares ``a_c`` of the classes, probabilities that are too small on average in some classes are mixed
        with those of a distribution that makes up for it.
        """
        xp = namespace(beta)
        p = own_class(beta, y) - beta / C[:, None]
        whole = float(xp.sum(C))
        wanted = xp.sum(C[:, None] * own_class(beta, y), axis=0) / whole  # what columns of C p must sum to, over C
        p = xp.where(wanted[None, :] > 0, p, 0.0 * p)  # classes that no sample has cannot have any probability
        p = p / xp.sum(p, axis=1, keepdims=True)
        have = xp.sum(C[:, None] * p, axis=0) / whole
        over = xp.where(have > wanted, have - wanted, 0.0 * have)
        excess = float(xp.max(over / xp.where(have > 0, have, have + 1.0)))
        if excess <= 0.0:
            return C[:, None] * (own_class(beta, y) - p)
        rest = (wanted - (1.0 - excess) * have) / excess
        p = (1.0 - excess) * p + excess * rest[None, :]
        return C[:, None] * (own_class(beta, y) - p)

    def best_bias(self, f: Array, y: Array, C: Array, total: float = 0.0, near: Any = None) -> Array:
        """By damped Newton steps, one bias for each class, which sum to zero; class by class where these get stuck.

        Large decision values make the loss all but piecewise linear, with no curvature to follow.
        """
        enough = CLOSE * float(namespace(f).sum(C))
        bias, slope = self._damped(f, y, C, 0.0 * f[0, :] if near is None else near + 0.0 * f[0, :])
        for _ in range(SWEEPS):
            if slope <= enough:
                break
            bias, slope = self._damped(f, y, C, self._one_by_one(f, y, C, bias))
        return bias

    def _damped(self, f: Array, y: Array, C: Array, bias: Array) -> tuple[Array, float]:
        """Return the bias where damped Newton steps end, and the largest slope of the loss there."""
        xp, c, own = namespace(f), f.shape[1], own_class(f, y)
        whole, damping, cost = float(xp.sum(C)), ROUNDING, C[:, None]
        wanted = xp.sum(cost * own, axis=0)

        def seen(bias: Array) -> tuple[float, Array, np.ndarray]:
            moved = f + bias
            moved = moved - xp.max(moved, axis=1, keepdims=True)
            raised = xp.exp(moved)
            whole_row = xp.sum(raised, axis=1, keepdims=True)
            weighted = (cost / whole_row) * raised
            value = float(xp.sum(C * xp.log(whole_row[:, 0])) - xp.sum(cost * own * moved))
            return value, weighted, to_host(xp.sum(weighted, axis=0) - wanted)

        value, weighted, slope = seen(bias)
        for _ in range(NEWTON):
            steepest = float(np.abs(slope).max())
            if steepest <= ROUNDING * whole or damping > 1.0 / ROUNDING:
                break
            H = np.diag(to_host(xp.sum(weighted, axis=0))) - to_host(xp.matrix_transpose(weighted) @ (weighted / cost))
            step = -np.linalg.solve(H + (damping * whole) * np.eye(c), slope)
            trial = bias + like(f, step - step.mean())
            there = seen(trial)
            level = abs(there[0] - value) <= ROUNDING * abs(value)  # rounding hides which is lower: the slope tells
            if (there[0] < value and not level) or (level and float(np.abs(there[2]).max()) < 0.9 * steepest):
                bias, (value, weighted, slope), damping = trial, there, max(0.1 * damping, ROUNDING)
            else:
                damping *= 100.0
        return bias, float(np.abs(slope).max())

    def _one_by_one(self, f: Array, y: Array, C: Array, bias: Array) -> Array:
        """Return the bias after each class has gone where its own slope is zero, by halving."""
        xp, own = namespace(f), own_class(f, y)
        reach = 2.0 * float(xp.max(xp.abs(f))) + 2.0 * float(xp.max(xp.abs(bias))) + 50.0
        for k, unit in enumerate(np.eye(f.shape[1])):
            low, high, one = -reach, reach, like(f, unit)
            for _ in range(SEARCH):
                middle = 0.5 * (low + high)
                p = self.probabilities(f + bias + middle * one)[:, k]
                low, high = (low, middle) if float(xp.sum(C * (p - own[:, k]))) > 0 else (middle, high)
            bias = bias + 0.5 * (low + high) * one
        return bias - xp.mean(bias)

    def probabilities(self, f: Array) -> Array:
        xp = namespace(f)
        if f.ndim == 1:  # of two classes, as the logistic loss has them
            from .margin import Logistic

            return Logistic().probabilities(f)
        raised = xp.exp(f - xp.max(f, axis=1, keepdims=True))
        return raised / xp.sum(raised, axis=1, keepdims=True)

    def binary(self) -> Loss:
        from .margin import Logistic

        return Logistic()


def own_class(like_this: Array, y: Array) -> Array:  # (n, c)
    """Return 1 at each sample's own class and 0 elsewhere, as ``like_this`` is."""
    xp: Any = namespace(like_this)
    classes = like(like_this, np.arange(like_this.shape[1], dtype=float))
    return xp.astype(xp.astype(y, xp.float64)[:, None] == classes[None, :], like_this.dtype)


def on_simplexes(v: Array, size: Array) -> Array:
    """Return the nearest point of each row whose entries are not negative and sum to ``size``."""
    xp, c = namespace(v), v.shape[1]
    falling = xp.sort(v, axis=1, descending=True)
    counts = like(v, np.arange(1, c + 1, dtype=float))
    levels = (xp.cumulative_sum(falling, axis=1) - size[:, None]) / counts
    last = xp.sum(xp.astype(falling > levels, xp.int64), axis=1) - 1
    places = like(v, np.arange(c), "int64")
    level = xp.sum(levels * xp.astype(places[None, :] == last[:, None], v.dtype), axis=1)
    return positive(v - level[:, None])
