"""Smooth stand-ins for l1 that hold the weights near a centre: tools of solvers, not models."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import MixingPenalty

TINY = 1e-300  # what counts as zero under a logarithm
HIGH = 50.0  # exponent beyond which a first guess need not go
LEVELS = 200  # most steps of the search for a level


class ProximalStage(MixingPenalty):
    """One proximal step of :class:`L1`: weights whose shares ``s_k = d_k^2 w_k`` lie on the simplex, near ``center``.

    A solver solves one stage after another, each centred where the last one ended.
    """

    homogeneous = False

    def __init__(self, center: np.ndarray, tau: float, unit_prices: np.ndarray):
        self.center = center
        self.tau = tau
        self.unit_prices = unit_prices

    def prices(self, m: int) -> np.ndarray:
        return self.unit_prices

    def shares(self, q: np.ndarray) -> np.ndarray:
        """Return ``d_k^2 w_k``, a point of the simplex."""
        raise NotImplementedError

    def costs(self, q: np.ndarray) -> np.ndarray:
        """Return the energies over the prices, of which l1 takes the largest."""
        return np.maximum(q, 0.0) / self.unit_prices

    def weights(self, q: np.ndarray) -> np.ndarray:
        return self.shares(q) / self.unit_prices

    def restrict(self, index: np.ndarray, m: int) -> ProximalStage:
        return type(self)(self.center[index], self.tau, self.unit_prices[index])

    def stage_strength(self, q: np.ndarray) -> float:
        """Return the length of the step times the largest energy over price."""
        return self.tau * float(np.max(self.costs(q), initial=0.0))

    def next_stage(self, q: np.ndarray, growth: float, strongest: float = np.inf, floor: float = 0.0) -> ProximalStage:
        top = max(float(np.max(self.costs(q), initial=0.0)), 1e-300)
        tau = min(growth * self.tau, max(strongest / top, self.tau))
        return type(self)(floored(self.shares(q), floor), tau, self.unit_prices)

    def mixing_gap(self, q: np.ndarray) -> float:
        costs = self.costs(q)
        return 0.5 * (float(costs.max()) - float(self.shares(q) @ costs))

    def trimmed(self, q: np.ndarray, cut: float) -> np.ndarray:
        shares = self.shares(q)
        kept = np.where(shares < cut, 0.0, shares)
        return kept / kept.sum() / self.unit_prices if kept.any() else shares / self.unit_prices

    def active(self, q: np.ndarray, cut: float, near: float = 0.9) -> np.ndarray:
        costs = self.costs(q)
        return np.flatnonzero((self.shares(q) > cut) | (costs > near * costs.max()))

    def widened(self, kernels: np.ndarray, prices: np.ndarray, floor: float) -> ProximalStage:
        if kernels.size == prices.size:
            return self
        center = np.zeros(prices.size)
        center[kernels] = self.center
        return type(self)(floored(center, floor), self.tau, prices)


def floored(shares: np.ndarray, floor: float) -> np.ndarray:
    """Return the shares with none below ``floor / m``, on the simplex."""
    raised = np.maximum(shares, floor / shares.size)
    return raised / raised.sum()


class SimplexProx(ProximalStage):
    """The stage of squared distance: ``r(w) = ||s - center||^2 / (2 tau)``; kernels that do not help get zero."""

    kinked = True
    sparse = True

    def shares(self, q: np.ndarray) -> np.ndarray:
        return project_simplex(self.center + 0.5 * self.tau * self.costs(q))

    def value(self, q: np.ndarray) -> float:
        s = self.shares(q)
        return 0.5 * float(s @ self.costs(q)) - float(np.sum((s - self.center) ** 2)) / (2 * self.tau)

    def compiled(self, m: int) -> tuple[Any, np.ndarray]:
        from ..compiled import rules

        return rules.simplex_prox, np.concatenate([[self.tau], self.center, self.unit_prices])


class EntropicProx(ProximalStage):
    """The stage of relative entropy: ``s_k`` is proportional to ``center_k exp(tau q_k / (2 d_k^2))``.

    Smooth, with no kernel ever quite out, so Newton's method follows it well.
    """

    def __init__(self, center: np.ndarray, tau: float, unit_prices: np.ndarray):
        super().__init__(center, tau, unit_prices)
        self.depths = np.log(center)  # asked for many times in a step

    def _exponents(self, q: np.ndarray) -> np.ndarray:
        return self.depths + 0.5 * self.tau * self.costs(q)

    def shares(self, q: np.ndarray) -> np.ndarray:
        exponents = self._exponents(q)
        raised = np.exp(exponents - exponents.max())
        return raised / raised.sum()

    def value(self, q: np.ndarray) -> float:
        exponents = self._exponents(q)
        top = float(exponents.max())
        return (top + float(np.log(np.sum(np.exp(exponents - top))))) / self.tau

    def curvature(self, q: np.ndarray) -> np.ndarray:
        s = self.shares(q)
        return 0.5 * self.tau * (np.diag(s) - np.outer(s, s)) / np.outer(self.unit_prices, self.unit_prices)

    def curvature_times(self, q: np.ndarray, x: np.ndarray) -> np.ndarray:
        s, priced = self.shares(q), x / self.unit_prices[:, None]
        return (0.5 * self.tau * s / self.unit_prices)[:, None] * (priced - s @ priced)

    def norm(self, u: np.ndarray) -> float:
        shares = self.weights_of_norms(u) * self.unit_prices
        apart = float(np.sum(shares * np.log(np.maximum(shares, TINY) / self.center))) / self.tau
        return 0.5 * float(np.sum(self.unit_prices * u**2 / np.maximum(shares, TINY))) + apart

    def weights_of_norms(self, u: np.ndarray) -> np.ndarray:
        """Shares with ``log(s_k / center_k) = tau d_k^2 u_k^2 / (2 s_k^2) - level``, at the level where they sum to 1.

        The logarithm of their sum is convex in the level and falls, so that Newton's method climbs to it.
        """
        from scipy.special import wrightomega

        steep = np.log(self.tau) + np.log(np.maximum(self.unit_prices * u**2, TINY)) - 2.0 * self.depths
        level = 0.5 * float(self.center @ np.exp(np.minimum(steep, HIGH)))
        for _ in range(LEVELS):
            pull = wrightomega(steep + 2.0 * level).real
            exponents = self.depths + 0.5 * pull - level
            top = float(exponents.max())
            raised = np.exp(exponents - top)
            excess = top + float(np.log(raised.sum()))
            last, level = level, level + excess * float(raised.sum()) / float(np.sum(raised / (1.0 + pull)))
            if abs(level - last) <= 1e-15 * abs(level):
                break
        return raised / raised.sum() / self.unit_prices


def project_simplex(v: np.ndarray) -> np.ndarray:
    """Return the point of the simplex nearest to ``v``.

    The threshold solves ``sum (v - theta)_+ = 1``; Newton from below climbs to it in at most ``m`` steps.
    """
    v = v - v.max()  # the projection does not see a shift, and large equal entries stay equal
    theta = -1.0
    for _ in range(v.size + 1):
        above = v > theta
        new = (float(v[above].sum()) - 1.0) / int(above.sum())
        if new <= theta:
            break
        theta = new
    return np.maximum(v - theta, 0.0)
