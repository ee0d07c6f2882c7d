"""How kernel weights take part in a Newton step on the duals: they follow the energies, or are unknowns too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import namespace
from ..penalties import ElasticNet
from ..penalties.base import MixingPenalty

STEEP = 2.0  # how many times too steep a price may be at a weight
HEADROOM = 1.05  # by which the first level lies above the energies


def limit_of(x: Any, dx: Any) -> float:
    """Return the step along dx at which an entry of the positive x would be zero."""
    worst = float(namespace(x).max(-dx / x))
    return 1.0 / worst if worst > 0 else np.inf


@dataclass
class Turn:
    """A direction of the weights, their slacks and the level."""

    weights: np.ndarray | float = 0.0  # (m,)
    slack: np.ndarray | float = 0.0  # (m,)
    level: float = 0.0
    limit: float = np.inf
    odds: np.ndarray | float = 0.0  # (m,)


class Following:
    """Weights that are the penalty's answer to the energies, with their Jacobian."""

    count = 0.0

    def __init__(self, penalty: MixingPenalty):
        self.penalty = penalty
        self.weights: Any = None

    def begin(self, q: np.ndarray, count: float, mu: float) -> None:
        """Start at the energies q."""
        self.update(q)

    def update(self, q: np.ndarray) -> None:
        """Take note of new energies."""
        self.q, self.weights, self.jacobian = q, self.penalty.weights(q), self.penalty.curvature(q)

    def product(self, turn: Turn | None = None, t: float = 0.0) -> float:
        """Return what is left of the complementarity, after a step if one is given."""
        return 0.0

    def aim(self, target: float, affine: Turn, dq: np.ndarray | float) -> Any:
        """Return what a direction is asked to repair."""
        return None

    def pull(self, aim: Any) -> np.ndarray | None:
        """Return how much the weights move whatever the duals do."""
        return None

    def turn(self, aim: Any, inner: np.ndarray) -> Turn:
        """Return the direction of the weights once that of the duals is known, by ``inner_k = u_k'du_k``."""
        return Turn()

    def move(self, turn: Turn, t: float) -> None:
        """Go a step t."""


class Barrier(Following):
    """Weights as unknowns of the penalty's own optimality, kept positive by a barrier.

    With the price ``c_k(w_k)`` of each weight: ``q_k + s_k = t c_k'(w_k)``, ``sum_k c_k(w_k) = 1`` and ``w_k s_k`` on
    its way to zero. At the start the weights are those of
    an interior point, at the end those of the penalty, so that neither kernels that leave (l1) nor weights that react
    violently to energies (p near 1) disturb Newton's method.
    """

    def begin(self, q: np.ndarray, count: float, mu: float) -> None:
        m = q.size
        self.ceiling = self.penalty.ceiling(m)
        self.share, self.count = count / m, count
        if self.weights is None:
            self.weights = self.penalty.weights_of_norms(np.ones(m))
        slope = self._toll()[1]
        self.level = HEADROOM * float(np.max(q / slope)) or 1.0
        self.slack = np.maximum(self.level * slope - q, 2.0 * self.share * mu / self.weights)
        self.update(q)

    def _toll(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        toll = self.penalty.toll(self.weights)
        assert toll is not None
        return toll

    def update(self, q: np.ndarray) -> None:
        self.q = q
        self._descend(q + self.slack)
        self.price, self.slope, bend = self._toll()
        self.give = 1.0 / (self.slack / self.weights + self.level * bend)
        self.lean = self.give * self.slope
        self.kappa = float(self.slope @ self.lean)
        self.jacobian = np.diag(self.give) - np.outer(self.lean, self.lean) / self.kappa

    def _descend(self, wanted: np.ndarray) -> None:
        """Bring down weights that are much too near their ceiling, where slopes go as one over a square."""
        _, slope, bend = self._toll()
        excess = self.level * slope / wanted
        high = np.isfinite(self.ceiling) & (excess > STEEP)
        lower = self.weights - 2.0 * slope * (np.sqrt(excess) - 1.0) / np.where(high, bend, 1.0)
        self.weights = np.where(high, np.maximum(lower, 0.1 * self.weights), self.weights)

    def product(self, turn: Turn | None = None, t: float = 0.0) -> float:
        turn = turn or Turn()
        return 0.5 * float((self.weights + t * turn.weights) @ (self.slack + t * turn.slack))

    def aim(self, target: float, affine: Turn, dq: np.ndarray | float) -> tuple[np.ndarray, np.ndarray, float]:
        push = (2.0 * self.share * target - affine.weights * affine.slack) / self.weights - self.slack
        missing = self.slack + self.q + dq - self.level * self.slope
        return self.give * (push + missing), push, 1.0 - float(np.sum(self.price))

    def pull(self, aim: tuple[np.ndarray, np.ndarray, float]) -> np.ndarray:
        own, _, short = aim
        return own - self.lean * self._rise(own, short)

    def _rise(self, step: np.ndarray, short: float) -> float:
        return (float(self.slope @ step) - short) / self.kappa

    def turn(self, aim: tuple[np.ndarray, np.ndarray, float], inner: np.ndarray) -> Turn:
        own, push, short = aim
        step = own + 2.0 * self.give * inner
        rise = self._rise(step, short)
        weights = step - self.lean * rise
        slack = push - self.slack / self.weights * weights
        limit = min(limit_of(self.weights, weights), limit_of(self.slack, slack))
        if np.all(np.isfinite(self.ceiling)):
            limit = min(limit, limit_of(self.ceiling - self.weights, -weights))
        return Turn(weights, slack, rise, min(limit, limit_of(np.array([self.level]), np.array([rise]))))

    def move(self, turn: Turn, t: float) -> None:
        self.weights = self.weights + t * turn.weights
        self.slack = self.slack + t * turn.slack
        self.level += t * turn.level


class Odds(Following):
    """Weights of the elastic net by their odds ``o = w / (1 - c2 w)``, in which its optimality is linear.

    ``|u_k| + s_k = c1 (1 + c2 o_k)`` with ``o_k s_k`` on its way to zero; near its ceiling a weight hardly moves while
    its odds do.
    """

    penalty: ElasticNet
    odds: np.ndarray  # (m,)

    def begin(self, q: np.ndarray, count: float, mu: float) -> None:
        c1, c2, m = self.penalty.c1, self.penalty.c2, q.size
        self.share, self.count = count / m, count
        root = np.sqrt(q)
        if self.weights is None:
            self.odds = np.maximum(root / c1 - 1.0, 0.1) / c2
        self.slack = np.maximum(c1 * (1.0 + c2 * self.odds) - root, self.share * mu / (c1 * self.odds))
        self.update(q)

    def update(self, q: np.ndarray) -> None:
        c1, c2 = self.penalty.c1, self.penalty.c2
        self.q, self.root, self.spread = q, np.sqrt(np.maximum(q, max(1e-24 * q.max(), 1e-30))), 1.0 + c2 * self.odds
        self.weights = self.odds / self.spread
        self.give = 1.0 / (self.slack / self.odds + c1 * c2)
        self.jacobian = np.diag(0.5 * self.give / (self.root * self.spread**2))

    def product(self, turn: Turn | None = None, t: float = 0.0) -> float:
        turn = turn or Turn()
        return self.penalty.c1 * float((self.odds + t * turn.odds) @ (self.slack + t * turn.slack))

    def aim(self, target: float, affine: Turn, dq: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        push = (self.share * target / self.penalty.c1 - affine.odds * affine.slack) / self.odds - self.slack
        missing = self.slack + self.root - self.penalty.c1 * self.spread
        return self.give * (push + missing), push

    def pull(self, aim: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        return aim[0] / self.spread**2

    def turn(self, aim: tuple[np.ndarray, np.ndarray], inner: np.ndarray) -> Turn:
        own, push = aim
        odds = own + self.give * inner / self.root
        slack = push - self.slack / self.odds * odds
        limit = min(limit_of(self.odds, odds), limit_of(self.slack, slack))
        return Turn(odds / self.spread**2, slack, 0.0, limit, odds)

    def move(self, turn: Turn, t: float) -> None:
        self.odds = self.odds + t * turn.odds
        self.slack = self.slack + t * turn.slack


def mixing_of(penalty: MixingPenalty, m: int) -> Following:
    """Return how the weights of a penalty take part."""
    if isinstance(penalty, ElasticNet):
        return Odds(penalty)
    separable = penalty.toll(penalty.weights_of_norms(np.ones(m))) is not None
    return Barrier(penalty) if separable else Following(penalty)
