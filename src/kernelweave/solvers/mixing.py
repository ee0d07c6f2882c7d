"""How kernel weights take part in a Newton step on the duals: they follow the energies, or are unknowns too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import namespace
from ..penalties.base import MixingPenalty


@dataclass(frozen=True)
class MixingSettings:
    """Constants of the weights' part in a Newton step."""

    steep: float = 2.0  #: how many times too steep a price may be at a weight
    headroom: float = 1.05  #: by which the first level lies above the energies
    first_odds: float = 0.1  #: least odds at the start, times c2
    faint: float = 1e-24  #: share of the largest energy below which the root of an energy is not followed
    tiny: float = 1e-30  #: energy below which it is not in any case


SETTINGS = MixingSettings()


def limit_of(x: Any, dx: Any) -> float:
    """Return the step along dx at which an entry of the positive x would be zero."""
    worst = float(namespace(x).max(-dx / x))
    return 1.0 / worst if worst > 0 else np.inf


@dataclass
class WeightStep:
    """A direction of the weights, their slacks and the level."""

    weights: np.ndarray | float = 0.0  # (m,)
    slack: np.ndarray | float = 0.0  # (m,)
    level: float = 0.0
    limit: float = np.inf
    odds: np.ndarray | float = 0.0  # (m,)


class SmoothWeights:
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

    def value(self, q: np.ndarray) -> float:
        """Return what the dual objective pays for the energies q."""
        return self.penalty.value(q)

    def product(self, turn: WeightStep | None = None, t: float = 0.0) -> float:
        """Return what is left of the complementarity, after a step if one is given."""
        return 0.0

    def aim(self, target: float, affine: WeightStep, dq: np.ndarray | float) -> Any:
        """Return what a direction is asked to repair."""
        return None

    def pull(self, aim: Any) -> np.ndarray | None:
        """Return how much the weights move whatever the duals do."""
        return None

    def turn(self, aim: Any, inner: np.ndarray) -> WeightStep:
        """Return the direction of the weights once that of the duals is known, by ``inner_k = u_k'du_k``."""
        return WeightStep()

    def move(self, turn: WeightStep, t: float) -> None:
        """Go a step t."""


class FixedWeights(SmoothWeights):
    """Weights that stay as they are, as between two updates of an alternation."""

    def __init__(self, weights: np.ndarray):
        self.weights = weights
        self.jacobian = np.zeros((weights.size, weights.size))

    def update(self, q: np.ndarray) -> None:
        self.q = q

    def value(self, q: np.ndarray) -> float:
        return 0.5 * float(self.weights @ q)


class WeightBarrier(SmoothWeights):
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
        slope = self._prices()[1]
        self.level = SETTINGS.headroom * float(np.max(q / slope)) or 1.0
        self.slack = np.maximum(self.level * slope - q, 2.0 * self.share * mu / self.weights)
        self.update(q)

    def _prices(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        weight_prices = self.penalty.weight_prices(self.weights)
        assert weight_prices is not None
        return weight_prices

    def update(self, q: np.ndarray) -> None:
        self.q = q
        self._descend(q + self.slack)
        self.price, self.slope, bend = self._prices()
        self.give = 1.0 / (self.slack / self.weights + self.level * bend)
        self.lean = self.give * self.slope
        self.kappa = float(self.slope @ self.lean)
        self.jacobian = np.diag(self.give) - np.outer(self.lean, self.lean) / self.kappa

    def _descend(self, wanted: np.ndarray) -> None:
        """Bring down weights that are much too near their ceiling, where slopes go as one over a square."""
        _, slope, bend = self._prices()
        excess = self.level * slope / wanted
        high = np.isfinite(self.ceiling) & (excess > SETTINGS.steep)
        lower = self.weights - 2.0 * slope * (np.sqrt(excess) - 1.0) / np.where(high, bend, 1.0)
        self.weights = np.where(high, np.maximum(lower, 0.1 * self.weights), self.weights)

    def product(self, turn: WeightStep | None = None, t: float = 0.0) -> float:
        turn = turn or WeightStep()
        return 0.5 * float((self.weights + t * turn.weights) @ (self.slack + t * turn.slack))

    def aim(self, target: float, affine: WeightStep, dq: np.ndarray | float) -> tuple[np.ndarray, np.ndarray, float]:
        push = (2.0 * self.share * target - affine.weights * affine.slack) / self.weights - self.slack
        missing = self.slack + self.q + dq - self.level * self.slope
        return self.give * (push + missing), push, 1.0 - float(np.sum(self.price))

    def pull(self, aim: tuple[np.ndarray, np.ndarray, float]) -> np.ndarray:
        own, _, short = aim
        return own - self.lean * self._rise(own, short)

    def _rise(self, step: np.ndarray, short: float) -> float:
        return (float(self.slope @ step) - short) / self.kappa

    def turn(self, aim: tuple[np.ndarray, np.ndarray, float], inner: np.ndarray) -> WeightStep:
        own, push, short = aim
        step = own + 2.0 * self.give * inner
        rise = self._rise(step, short)
        weights = step - self.lean * rise
        slack = push - self.slack / self.weights * weights
        limit = min(limit_of(self.weights, weights), limit_of(self.slack, slack))
        if np.all(np.isfinite(self.ceiling)):
            limit = min(limit, limit_of(self.ceiling - self.weights, -weights))
        return WeightStep(weights, slack, rise, min(limit, limit_of(np.array([self.level]), np.array([rise]))))

    def move(self, turn: WeightStep, t: float) -> None:
        self.weights = self.weights + t * turn.weights
        self.slack = self.slack + t * turn.slack
        self.level += t * turn.level


class ElasticNetBarrier(SmoothWeights):
    """Weights of the elastic net by their odds ``o = w / (1 - c2 w)``, in which its optimality is linear.

    ``|u_k| + s_k = c1 (1 + c2 o_k)`` with ``o_k s_k`` on its way to zero; near its ceiling a weight hardly moves while
    its odds do.
    """

    odds: np.ndarray  # (m,)

    def __init__(self, penalty: MixingPenalty, c1: float, c2: float):
        super().__init__(penalty)
        self.c1, self.c2 = c1, c2

    def begin(self, q: np.ndarray, count: float, mu: float) -> None:
        c1, c2, m = self.c1, self.c2, q.size
        self.share, self.count = count / m, count
        root = np.sqrt(q)
        if self.weights is None:
            self.odds = np.maximum(root / c1 - 1.0, SETTINGS.first_odds) / c2
        self.slack = np.maximum(c1 * (1.0 + c2 * self.odds) - root, self.share * mu / (c1 * self.odds))
        self.update(q)

    def update(self, q: np.ndarray) -> None:
        c1, c2 = self.c1, self.c2
        self.q, self.inflation = q, 1.0 + c2 * self.odds
        self.root = np.sqrt(np.maximum(q, max(SETTINGS.faint * q.max(), SETTINGS.tiny)))
        self.weights = self.odds / self.inflation
        self.give = 1.0 / (self.slack / self.odds + c1 * c2)
        self.jacobian = np.diag(0.5 * self.give / (self.root * self.inflation**2))

    def product(self, turn: WeightStep | None = None, t: float = 0.0) -> float:
        turn = turn or WeightStep()
        return self.c1 * float((self.odds + t * turn.odds) @ (self.slack + t * turn.slack))

    def aim(self, target: float, affine: WeightStep, dq: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        push = (self.share * target / self.c1 - affine.odds * affine.slack) / self.odds - self.slack
        missing = self.slack + self.root - self.c1 * self.inflation
        return self.give * (push + missing), push

    def pull(self, aim: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        return aim[0] / self.inflation**2

    def turn(self, aim: tuple[np.ndarray, np.ndarray], inner: np.ndarray) -> WeightStep:
        own, push = aim
        odds = own + self.give * inner / self.root
        slack = push - self.slack / self.odds * odds
        limit = min(limit_of(self.odds, odds), limit_of(self.slack, slack))
        return WeightStep(odds / self.inflation**2, slack, 0.0, limit, odds)

    def move(self, turn: WeightStep, t: float) -> None:
        self.odds = self.odds + t * turn.odds
        self.slack = self.slack + t * turn.slack


def mixing_of(penalty: MixingPenalty, m: int) -> SmoothWeights:
    """Return how the weights of a penalty take part."""
    blocks = penalty.block_prices()
    if blocks is not None:
        return ElasticNetBarrier(penalty, *blocks)
    separable = penalty.weight_prices(penalty.weights_of_norms(np.ones(m))) is not None
    return WeightBarrier(penalty) if separable else SmoothWeights(penalty)
