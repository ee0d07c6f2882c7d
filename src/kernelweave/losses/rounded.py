"""Losses with their corners rounded about given duals, as an augmented Lagrangian has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import Array, like, namespace
from .base import BoundLoss, DualTerms

TRIALS = 100  # steps of the search for the bias
BALANCED = 1e-15  # of the sum of all bounds: error of the duals' sum that counts as none


class RoundedLoss(BoundLoss):
    """A loss less what keeps its duals near given ones: ``max_b D(b) - b f - (b - a)^2 / (2 rate)``, which is smooth.

    Its duals have the domain of the loss's own. As the given duals come near the optimum, its corners matter no more.

    Parameters
    ----------
    loss : BoundLoss
        A loss whose dual is a quadratic between bounds, or a joint margin.
    near : array
        The duals, as the loss has them.
    rate : array of shape (n,), or as the duals are
        How fast duals move with the errors.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.losses import Hinge
    >>> from kernelweave.losses.rounded import RoundedLoss
    >>> rounded = RoundedLoss(Hinge().bind([1.0, 1.0]), np.zeros(2), np.full(2, 2.0))
    >>> rounded.value(np.array([0.0, 0.9])).round(3).tolist()
    [0.75, 0.01]
    """

    def __init__(self, loss: BoundLoss, near: Array, rate: Array):
        self.loss, self.y, self.C, self.n, self._cost = loss.loss, loss.y, loss.C, loss.n, loss._cost
        self.base, self.near, self.rate = loss, near, rate
        self._latest: tuple[Array, tuple[Array, Array]] | None = None  # decision values, and the answer to them

    @cached_property
    def terms(self) -> DualTerms | None:
        """Those of the loss itself, whose duals have the same domain."""
        return self.base.terms

    @property
    def smooth(self) -> bool:
        return True

    def beside(self, array: Array) -> RoundedLoss:
        return self

    def column(self, c: int) -> RoundedLoss:
        """Return the loss of one of several targets."""
        return RoundedLoss(self.base.column(c), self.near[:, c], self.rate[:, c] if self.rate.ndim == 2 else self.rate)

    def duals(self, f: Array) -> Array:
        """Return the duals that decision values ask for."""
        return self._answer(f)[0]

    def _answer(self, f: Array) -> tuple[Array, Array]:
        """Return the duals, and where they give way: how fast, or among which classes."""
        if self._latest is None or self._latest[0] is not f:
            self._latest = f, self._answered(f)
        return self._latest[1]

    def _answered(self, f: Array) -> tuple[Array, Array]:
        if self.base.terms is None:
            aim = self.near + self.rate[:, None] * (self._own(f) - f)
            beta = self.base.project(aim)
            return beta, self.C[:, None] * self._own(f) - beta > 0
        return self._response.at(f)

    @cached_property
    def _response(self) -> _Response:
        return _Response.of(self.base.box, self.near, self.rate)

    def _own(self, f: Array) -> Array:
        """Return 1 at each sample's own class and 0 elsewhere: the linear part of the dual of a joint margin."""
        from .multiclass import own_class

        return own_class(f, self.y)

    def value(self, f: Any) -> Array:
        beta = self._answer(f)[0]
        xp = namespace(beta)
        apart = beta * f + (beta - self.near) ** 2 / (
            2.0 * (self.rate if beta.ndim == self.rate.ndim else self.rate[:, None])
        )
        return self.base.dual(beta) - (apart if self.base.terms is not None else xp.sum(apart, axis=1))

    def slope(self, f: Any) -> Array:
        return -self._answer(f)[0]

    def curvature(self, f: Any) -> Array:
        if self.base.terms is None:
            raise NotImplementedError
        return self._answer(f)[1]

    def curvature_times(self, f: Array, x: Array) -> Array:
        give = self._answer(f)[1]
        if self.base.terms is not None:
            return give * x
        xp = namespace(x)
        inside = xp.where(give, x, 0.0 * x)
        count = xp.sum(xp.astype(give, x.dtype), axis=1, keepdims=True)
        mean = xp.sum(inside, axis=1, keepdims=True) / count
        return self.rate[:, None] * xp.where(give, x - mean, 0.0 * x)

    def curvature_between(self, f: Array) -> Callable[[int, int], Array | None]:
        give = self._answer(f)[1]
        if self.base.terms is not None:
            return lambda i, j: give if give.ndim == 1 else (give[:, i] if i == j else None)
        xp = namespace(f)
        inside = xp.astype(give, f.dtype)
        share = inside / xp.sum(inside, axis=1, keepdims=True)
        return lambda i, j: self.rate * inside[:, i] * (float(i == j) - share[:, j])

    def best_bias(self, f: Array, total: float = 0.0, near: Any = None) -> Any:
        """Return the bias, one for each column, at which the duals sum to ``total``."""
        if len(self.shape) > 1:
            return like(f, np.array([self.column(c).best_bias(f[:, c], total) for c in range(self.shape[1])]))
        xp, response = namespace(f), self._response
        away = response.free(f)
        low, high = response.ends(away)
        enough = BALANCED * float(xp.sum(response.upper - response.lower))
        bias = 0.0 if near is None else float(near)
        for _ in range(TRIALS):
            bias = bias if low < bias < high else 0.5 * (low + high)
            beta, give = response.within(away - bias * response.soft)
            excess = float(xp.sum(beta)) - total
            if abs(excess) <= enough or bias in (low, high):
                break
            low, high = (bias, high) if excess > 0 else (low, bias)
            bend = float(xp.sum(give))
            bias = bias + excess / bend if bend > 0 else high
        return bias


@dataclass(frozen=True)
class _Response:
    """The duals of greatest ``D(b) - b f - (b - a)^2 / (2 rate)``: between bounds, lines in the decision values f."""

    middle: Array  # (n,) the dual at f = 0, were there no bounds and no kink
    soft: Array  # (n,) how fast it falls with f
    flat: Array | None  # (n,) how far from zero it must be to be kept there by a kink no more; None without kinks
    lower: Array  # (n,)
    upper: Array  # (n,)

    @classmethod
    def of(cls, terms: DualTerms, near: Array, rate: Array) -> _Response:
        """Return that of duals described by ``terms``, held near given ones."""
        soft = 1.0 / (terms.ridge + 1.0 / rate)
        flat = terms.kink * soft if terms.kinked else None
        return cls((terms.linear + near / rate) * soft, soft, flat, terms.lower, terms.upper)

    def free(self, f: Array) -> Array:
        """Return the duals at decision values, were there no bounds and no kink."""
        return self.middle - f * self.soft

    def at(self, f: Array) -> tuple[Array, Array]:
        """Return the duals that decision values ask for, and how fast they give way."""
        return self.within(self.free(f))

    def within(self, free: Array) -> tuple[Array, Array]:
        """Return the same from the duals without bounds and kink."""
        xp = namespace(free)
        if self.flat is not None:
            free = xp.sign(free) * xp.maximum(xp.abs(free) - self.flat, 0.0 * free)
        inside = (free > self.lower) & (free < self.upper)
        if self.flat is not None:
            inside = inside & (free != 0.0)
        beta = xp.minimum(xp.maximum(free, self.lower), self.upper)
        return beta, xp.where(inside, self.soft, 0.0 * self.soft)

    def ends(self, free: Array) -> tuple[float, float]:
        """Return constants below and above which all duals are at a bound."""
        xp = namespace(free)
        flat = 0.0 if self.flat is None else self.flat
        low = xp.min((free - flat - xp.abs(self.lower) - xp.abs(self.upper)) / self.soft)
        high = xp.max((free + flat + xp.abs(self.lower) + xp.abs(self.upper)) / self.soft)
        return float(low), float(high)
