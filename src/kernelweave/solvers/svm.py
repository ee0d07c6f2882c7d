"""One support vector machine on one kernel, which solvers that move the weights by themselves train again and again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..grams import CombinableGram, GramStack, LowRankGram, ProductStack
from ..losses.base import DualTerms
from ..penalties import Fixed
from ..problem import Problem, Solution
from .base import mismatch, solve_quietly
from .interior import Interior


@dataclass(frozen=True)
class SVMSettings:
    """Constants of SVMs on one kernel."""

    steps: int = 200  #: of a solver on one kernel, at most
    budget: int = 1000  #: pair steps of SMO, per sample
    rank: float = 1e-12  #: of the largest eigenvalue: those below it are rounding


SETTINGS = SVMSettings()


def at_weights(problem: Problem, weights: np.ndarray) -> Problem:
    """Return the same problem with the kernel weights held fixed."""
    return replace(problem, penalty=Fixed(weights))


def on_kernel(problem: Problem, gram: GramStack) -> Problem:
    """Return the problem of one SVM: the same loss on a stack of one kernel."""
    return replace(problem, gram=gram, penalty=Fixed())


def combined(
    gram: CombinableGram | ProductStack,
    weights: np.ndarray,  # (m,)
) -> np.ndarray:  # (n, n)
    """Return the weighted kernel between all samples."""
    return gram.combine(np.arange(gram.shape[0]), weights)


def smo(
    kernel: np.ndarray,  # (n, n)
    box: DualTerms,
    beta: np.ndarray,  # (n,)
    eps: float,
) -> tuple[np.ndarray, bool]:
    """Run SMO on one kernel from ``beta``, leaving the kernel as it was: duals, and whether they came to ``eps``."""
    from ..compiled.quadratic import quadratic

    beta, n = beta.copy(), beta.size
    gradient = kernel @ beta + box.ridge * beta - box.linear
    diagonal = kernel.diagonal().copy()
    kernel.flat[:: n + 1] += box.ridge
    steps = quadratic(kernel, gradient, beta, box.lower, box.upper, box.kink, eps, SETTINGS.budget * n)
    kernel.flat[:: n + 1] = diagonal
    with np.errstate(over="ignore", invalid="ignore"):
        bounded = np.isfinite(beta @ gradient)
    if not bounded:  # duals without bounds on a kernel that rounding made indefinite
        raise np.linalg.LinAlgError("The kernel is indefinite by more than the loss makes up for.")
    return beta, steps < SETTINGS.budget * n


def on_features(
    problem: Problem,
    kernel: np.ndarray,  # (n, n)
    tol: float,
) -> Solution:
    """Train an SVM on features of its kernel, which huge costs do not slow down, to a relative gap of ``tol``."""
    values, vectors = np.linalg.eigh(kernel)
    kept = values > SETTINGS.rank * values[-1]
    kept[-1] = True
    features = vectors[:, kept] * np.sqrt(np.maximum(values[kept], 0.0))
    one = on_kernel(problem, LowRankGram(features, [features.shape[1]]))
    interior = Interior()
    refused = mismatch(one, interior) or interior.refuse(one)
    return solve_quietly(one, "auto" if refused else interior, tol=tol, max_iter=SETTINGS.steps)
