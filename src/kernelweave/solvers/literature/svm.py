"""A trained SVM and what it proves: what published methods that move the kernel weights by themselves ask for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...problem import Certificate, Point, Problem, Status
from ..base import entries, unit_of
from ..svm import combined, smo


@dataclass(frozen=True)
class TrainingSettings:
    """Constants of how precisely SVMs are trained; violations are in units of the slopes."""

    first: float = 0.1  #: times tol: violation asked for at first
    sharper: float = 0.2  #: factor of the violation where that is not enough
    least: float = 1e-12  #: violation below which an SVM is not asked to go
    own: float = 0.5  #: share of the gap due to the weights below which the SVM is what is behind


SETTINGS = TrainingSettings()


@dataclass(frozen=True)
class TrainedSVM:
    """An SVM trained at ``weights``.

    With the duals' own value ``total = sum_i D_i(beta_i)``, its ``value`` is ``total - 1/2 beta' K_w beta``. Duals that
    are feasible are so at any weights, so that ``total - 1/2 v'q`` bounds the value at every v from below.
    """

    weights: np.ndarray  # (m,)
    beta: np.ndarray  # (n,)
    f: np.ndarray  # (n,)
    total: float
    value: float

    def point(self, q: np.ndarray) -> Point:
        """Return the SVM as a point, once its energies are known."""
        return Point(self.beta, self.weights, q, self.f)


def train(
    problem: Problem,
    weights: np.ndarray,  # (m,)
    beta: np.ndarray,  # (n,)
    eps: float,
    kernel: np.ndarray | None = None,  # (n, n)
) -> TrainedSVM:
    """Train an SVM from the duals ``beta`` to a violation of ``eps``; ``kernel`` is the weighted sum, if known."""
    kernel = combined(entries(problem), weights) if kernel is None else kernel
    beta = problem.feasible(smo(kernel, problem.loss.box, beta, eps)[0])
    f = kernel @ beta
    total = problem.total_dual(beta)
    return TrainedSVM(weights, beta, f, total, total - 0.5 * float(beta @ f))


def behind(problem: Problem, point: Point, certificate: Certificate) -> bool:
    """Whether most of the gap of a trained SVM is its own, not that of its weights, which are bounded."""
    assert point.q is not None
    mixing = problem.penalty.value(point.q) - 0.5 * float(point.weights @ point.q)
    return mixing < SETTINGS.own * (certificate.upper - certificate.lower)


def first_eps(problem: Problem, tol: float) -> float:
    """Return the violation to ask for at first where the gap is to be ``tol``."""
    return max(SETTINGS.first * tol * unit_of(problem), least_eps(problem))


def least_eps(problem: Problem) -> float:
    """Return the violation below which an SVM is not asked to go."""
    return SETTINGS.least * unit_of(problem)


def sharper(problem: Problem, eps: float) -> tuple[float, Status | None]:
    """Return the violation to ask for after ``eps`` was not enough, or that this is the end."""
    least = least_eps(problem)
    return max(SETTINGS.sharper * eps, least), Status.STALLED if eps <= least else None
