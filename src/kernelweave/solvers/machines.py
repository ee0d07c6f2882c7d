"""Support vector machines at fixed kernel weights: what every method that moves the weights by themselves asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..grams import LowRankGram
from ..losses.base import BoxQuadratic
from ..penalties import Fixed
from ..problem import Certificate, Point, Problem, Solution, Status
from .base import solve_quietly

NEEDS = ("combine", "spread")  # sums of kernels, which have to be matrices of their own and not products of others
LEAST_EPS = 1e-12  # violation below which a machine is not asked to go
FIRST = 0.1  # times tol: violation that machines are asked for at first,
SHARPER = 0.2  # and by which it falls where that is not enough
RANK = 1e-12  # of the largest eigenvalue: those below it are rounding
STEPS = 200  # of a solver on one kernel, at most
BUDGET = 1000  # pair steps of one machine, per sample


@dataclass(frozen=True)
class Machine:
    """A machine trained at ``weights``.

    With the duals' own value ``total = sum_i D_i(beta_i)``, its ``value`` is ``total - 1/2 beta' K_w beta``. Duals that
    are feasible are so at any weights, so that ``total - 1/2 v'q`` bounds the value at every v from below.
    """

    weights: np.ndarray  # (m,)
    beta: np.ndarray  # (n,)
    f: np.ndarray  # (n,)
    total: float
    value: float

    def point(self, q: np.ndarray) -> Point:
        """Return the machine as a point, once its energies are known."""
        return Point(self.beta, self.weights, q, self.f)


def train(
    problem: Problem,
    weights: np.ndarray,  # (m,)
    beta: np.ndarray,  # (n,)
    eps: float,
    kernel: np.ndarray | None = None,  # (n, n)
) -> Machine:
    """Train a machine from the duals ``beta`` to a violation of ``eps``; ``kernel`` is the weighted sum, if known."""
    kernel = combined(problem, weights) if kernel is None else kernel
    box = problem.loss.quadratic(problem.y, problem.C)
    beta = problem.feasible(smo(kernel, box, beta, eps)[0])
    f = kernel @ beta
    total = float(np.sum(problem.loss.dual(beta, problem.y, problem.C)))
    return Machine(weights, beta, f, total, total - 0.5 * float(beta @ f))


def combined(problem: Problem, weights: np.ndarray) -> np.ndarray:
    """Return ``sum_k w_k K_k`` on all samples."""
    return problem.gram.combine(np.arange(problem.y.size), weights)


def smo(kernel: np.ndarray, box: BoxQuadratic, beta: np.ndarray, eps: float) -> tuple[np.ndarray, bool]:
    """Run SMO on one kernel from ``beta``, leaving the kernel as it was: duals, and whether they came to ``eps``."""
    from ..compiled.quadratic import quadratic

    beta, n = beta.copy(), beta.size
    gradient = kernel @ beta + box.ridge * beta - box.linear
    diagonal = kernel.diagonal().copy()
    kernel.flat[:: n + 1] += box.ridge
    steps = quadratic(kernel, gradient, beta, box.lower, box.upper, eps, BUDGET * n)
    kernel.flat[:: n + 1] = diagonal
    return beta, steps < BUDGET * n


def on_features(problem: Problem, kernel: np.ndarray, tol: float) -> Solution:
    """Train a machine on features of its kernel, which huge costs do not slow down, to a relative gap of ``tol``."""
    values, vectors = np.linalg.eigh(kernel)
    kept = values > RANK * values[-1]
    kept[-1] = True
    features = vectors[:, kept] * np.sqrt(np.maximum(values[kept], 0.0))
    gram = LowRankGram(features, [features.shape[1]])
    chosen = "interior" if problem.bias and hasattr(problem.loss, "quadratic") else "auto"
    return solve_quietly(replace(problem, gram=gram, penalty=Fixed()), chosen, tol=tol, max_iter=STEPS)


def behind(problem: Problem, point: Point, certificate: Certificate) -> bool:
    """Whether most of the gap of a trained machine is its own, not that of its weights, which are bounded."""
    assert point.q is not None
    mixing = problem.penalty.value(point.q) - 0.5 * float(point.weights @ point.q)
    return mixing < 0.5 * (certificate.upper - certificate.lower)


def sharper(eps: float) -> tuple[float, Status | None]:
    """Return the violation to ask for after ``eps`` was not enough, or that this is the end."""
    return max(SHARPER * eps, LEAST_EPS), Status.STALLED if eps <= LEAST_EPS else None


def first_eps(tol: float) -> float:
    """Return the violation to ask for at first where the gap is to be ``tol``."""
    return max(FIRST * tol, LEAST_EPS)
