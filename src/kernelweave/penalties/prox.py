"""Smooth stand-ins for l1 that hold the weights near a centre: tools of solvers, not models."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import MixingPenalty


class SimplexProx(MixingPenalty):
    """One proximal step of :class:`L1`: weights on the simplex, held near ``center``.

    ``r(w) = ||s - center||^2 / (2 tau)`` with ``s_k = d_k^2 w_k`` on the simplex. A solver's tool, not a model.
    """

    homogeneous = False
    kinked = True
    sparse = True

    def __init__(self, center: np.ndarray, tau: float, prices: np.ndarray):
        self.center = center
        self.tau = tau
        self.prices = prices

    def shares(self, q: np.ndarray) -> np.ndarray:
        """Return ``d_k^2 w_k``, a point of the simplex."""
        return project_simplex(self.center + 0.5 * self.tau * np.maximum(q, 0.0) / self.prices)

    def weights(self, q: np.ndarray) -> np.ndarray:
        return self.shares(q) / self.prices

    def value(self, q: np.ndarray) -> float:
        s, costs = self.shares(q), np.maximum(q, 0.0) / self.prices
        return 0.5 * float(s @ costs) - float(np.sum((s - self.center) ** 2)) / (2 * self.tau)

    def restrict(self, index: np.ndarray, m: int) -> SimplexProx:
        return SimplexProx(self.center[index], self.tau, self.prices[index])

    def compiled(self, m: int) -> tuple[Any, np.ndarray]:
        from ..compiled import rules

        return rules.simplex_prox, np.concatenate([[self.tau], self.center, self.prices])


class EntropicProx(MixingPenalty):
    """One multiplicative step of :class:`L1`: weights on the simplex, held near ``center`` in relative entropy.

    Smooth, with no kernel ever quite out, so Newton's method follows it well. A solver's tool, not a model.
    """

    homogeneous = False

    def __init__(self, center: np.ndarray, tau: float, prices: np.ndarray):
        self.center = center
        self.tau = tau
        self.prices = prices

    def shares(self, q: np.ndarray) -> np.ndarray:
        """Return ``d_k^2 w_k``, a point of the simplex."""
        exponent = np.log(self.center) + 0.5 * self.tau * np.maximum(q, 0.0) / self.prices
        raised = np.exp(exponent - exponent.max())
        return raised / raised.sum()

    def weights(self, q: np.ndarray) -> np.ndarray:
        return self.shares(q) / self.prices

    def restrict(self, index: np.ndarray, m: int) -> EntropicProx:
        return EntropicProx(self.center[index], self.tau, self.prices[index])

    def curvature(self, q: np.ndarray) -> np.ndarray:
        s = self.shares(q)
        return 0.5 * self.tau * (np.diag(s) - np.outer(s, s)) / np.outer(self.prices, self.prices)


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
