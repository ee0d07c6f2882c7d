"""Weights on a simplex by an interior point: shares and the slacks of their energies move together with the duals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class BarrierSettings:
    """Constants of the interior point on the shares of kernels."""

    aim: float = 0.15  #: of the mean product of shares and slacks that a step aims at
    held: float = 0.8  #: the same after a step that was cut short
    short: float = 0.5  #: length of a step up to which it counts as cut short
    first: float = 2.0  #: times the largest energy over price, halved, where the level begins
    boundary: float = 0.95  #: of the way to a share of zero that a step goes, at most


SETTINGS = BarrierSettings()


@dataclass(frozen=True)
class Barrier:
    """Shares ``s_k = d_k^2 w_k`` of l1 and a level above every ``q_k / (2 d_k^2)``; the distances to it are slacks.

    At the optimum a kernel has a share or a slack, not both. On the way the products of the two are alike, and fall.
    """

    prices: np.ndarray  # (m,)
    shares: np.ndarray  # (m,) positive, of sum one
    level: float
    last: float = 1.0  # length of the step that led here

    @classmethod
    def around(cls, prices: np.ndarray, shares: np.ndarray, q: np.ndarray) -> Barrier:
        """Return the shares with a level well above all energies ``q``."""
        return cls(prices, shares, SETTINGS.first * 0.5 * float(np.max(q / prices)))

    @property
    def weights(self) -> np.ndarray:  # (m,)
        """Kernel weights."""
        return self.shares / self.prices

    def trimmed(self, cut: float) -> np.ndarray:  # (m,)
        """Return the weights without kernels whose share is below ``cut``."""
        kept = np.where(self.shares < cut, 0.0, self.shares)
        return kept / kept.sum() / self.prices if kept.any() else self.weights

    def slacks(self, q: np.ndarray) -> np.ndarray:  # (m,)
        """Return how far each kernel is below the level."""
        return self.level - 0.5 * q / self.prices

    def above(self, q: np.ndarray) -> Barrier:
        """Return the same with a level above the energies ``q`` at least."""
        top = 0.5 * float(np.max(q / self.prices))
        return self if self.level > top else Barrier.around(self.prices, self.shares, q)

    def step(self, q: np.ndarray, least: float) -> BarrierStep:
        """Return how shares follow a move of the duals from energies ``q``; ``least`` is what products may sum to."""
        slacks = self.slacks(q)
        share = SETTINGS.aim if self.last > SETTINGS.short else SETTINGS.held
        aim = max(share * float(self.shares @ slacks), least) / q.size
        return BarrierStep(self, aim, self.shares / slacks, aim / slacks - self.shares)


@dataclass(frozen=True)
class BarrierStep:
    """Newton's step on ``s_k slack_k = aim`` and ``sum s = 1``, given what the duals' move is in every kernel."""

    start: Barrier
    aim: float
    rate: np.ndarray  # (m,) shares over slacks: how shares follow energies
    pull: np.ndarray  # (m,) how shares would move if no energy did, but for their sum

    @property
    def push(self) -> np.ndarray:  # (m,)
        """How weights move if no energy does."""
        return (self.pull - self.rate * (self.pull.sum() / self.rate.sum())) / self.start.prices

    @property
    def bend(self) -> np.ndarray:  # (m, m)
        """How weights move with half the change of energies."""
        follow = np.diag(self.rate) - np.outer(self.rate, self.rate) / self.rate.sum()
        return follow / np.outer(self.start.prices, self.start.prices)

    def longest(self, along: np.ndarray) -> float:
        """Return the step up to which no share vanishes, at most one; ``along`` is half the change of energies."""
        change = self._change(along)
        falls = change < 0.0
        room = self.start.shares[falls] / -change[falls]
        return min(1.0, SETTINGS.boundary * float(np.min(room, initial=np.inf)))

    def to(self, along: np.ndarray, t: float, q: np.ndarray) -> Barrier:
        """Return the shares after a step of length t that led to energies ``q``, which the level stays above."""
        raised = (self.pull.sum() + self.rate @ (along / self.start.prices)) / self.rate.sum()
        least = 0.5 * float(np.max(q / self.start.prices)) + self.aim
        shares = self.start.shares + t * self._change(along)
        level = max(self.start.level + t * float(raised), least)
        return Barrier(self.start.prices, shares / shares.sum(), level, t)

    def cost(self, shares: np.ndarray) -> float:
        """Return what the barrier adds to the objective."""
        return -self.aim * float(np.sum(np.log(shares)))

    def _change(self, along: np.ndarray) -> np.ndarray:
        return self.start.prices * (self.push + self.bend @ along)
