"""Alternation: a support vector machine at fixed weights, then the weights its block norms ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...grams import EntryGram
from ...problem import Certificate, Point, Problem, Status
from ..base import Solver, entries, unit_of
from ..svm import combined, smo
from .svm import least_eps
from .terms import MarginTerms, margin_terms

Trainer = Callable[[np.ndarray, np.ndarray, np.ndarray, float], np.ndarray]


@dataclass(frozen=True)
class AlternatingSettings:
    """Constants of the alternation; violations are in units of the slopes."""

    first: float = 1e-2  #: violation of the first SVM
    warm: float = 1e-4  #: violation of the first SVM where duals are given
    slow: float = 0.9  #: factor of the gap above which the SVM is what is behind
    sharper: float = 0.2  #: factor of the violation where it is


SETTINGS = AlternatingSettings()


@dataclass
class AlternatingState:
    """Weights, the duals of the SVM at those weights, and their products."""

    weights: np.ndarray  # (m,)
    beta: np.ndarray  # (n,)
    g: np.ndarray  # (n, m)
    q: np.ndarray  # (m,)
    eps: float
    width: float = np.inf


class Alternating(Solver):
    """Train an SVM on one kernel, update the weights in closed form, repeat; works for every penalty here.

    With `Lp` this is the analytic update of Kloft, Brefeld, Sonnenburg and Zien (JMLR 2011); with `L1`, and with `Lp`
    alike, the group-lasso method of Xu, Jin, Yang, King and Lyu (ICML 2010).

    Parameters
    ----------
    machine : "smo", "libsvm" or callable, default="smo"
        The single-kernel solver: this library's SMO, warm-started; scikit-learn's LIBSVM; or a function
        ``(kernel, y, C, eps) -> beta`` of signed duals, with kernel (n, n), y and C (n,) and eps the violation allowed.
        All but "smo" are for the hinge.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.solvers.literature.Alternating(machine="libsvm").name
    'alternating'
    """

    name = "alternating"
    needs = (EntryGram,)
    kinks = False

    def __init__(self, machine: str | Trainer = "smo"):
        self.machine = machine

    def refuse(self, problem: Problem) -> str | None:
        if self.machine not in ("smo", "libsvm") and not callable(self.machine):
            return f"knows the machines 'smo' and 'libsvm', or a function, not {self.machine!r}."
        if self.machine != "smo" and _hinge(problem) is None:
            return "takes only loss='hinge' with a machine that is not 'smo'."
        return None

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> AlternatingState:
        (n, m), unit = problem.gram.shape, unit_of(problem)
        weights = problem.penalty.weights_of_norms(np.ones(m))
        state = AlternatingState(weights, np.zeros(n), np.zeros((n, m)), np.zeros(m), SETTINGS.first * unit)
        if start is not None and start.any():
            state.beta = start.copy()
            self.refresh(problem, state)
            state.weights = problem.penalty.weights(state.q) if problem.penalty.smooth else weights
            state.eps = SETTINGS.warm * unit
        return state

    def step(self, problem: Problem, state: AlternatingState) -> bool:
        beta = self._train(problem, state, combined(entries(problem), state.weights))
        state.beta = problem.feasible(beta)
        self.refresh(problem, state)
        return True

    def _train(self, problem: Problem, state: AlternatingState, kernel: np.ndarray) -> np.ndarray:
        if self.machine == "smo":
            return smo(kernel, problem.loss.box, state.beta, state.eps)[0]
        hinge = _hinge(problem)
        assert hinge is not None
        trainer = _libsvm if self.machine == "libsvm" else self.machine
        return np.asarray(trainer(kernel, hinge.sign, hinge.cap, state.eps))  # type: ignore[operator]

    def read(self, problem: Problem, state: AlternatingState) -> Point:
        return Point(state.beta.copy(), state.weights.copy(), state.q.copy(), state.g @ state.weights)

    def adapt(self, problem: Problem, state: AlternatingState, certificate: Certificate) -> Status | None:
        width = certificate.upper - certificate.lower
        if width > SETTINGS.slow * state.width:
            state.eps = max(SETTINGS.sharper * state.eps, least_eps(problem))
        state.width = width
        state.weights = problem.penalty.weights_of_norms(state.weights * np.sqrt(state.q))
        return None

    def refresh(self, problem: Problem, state: AlternatingState) -> None:
        support = np.flatnonzero(state.beta)
        state.g = entries(problem).weighted_columns(state.beta[support], support)
        state.q = np.maximum(state.beta @ state.g, 0.0)


def _hinge(problem: Problem) -> MarginTerms | None:
    """Return the dual as that of the hinge, or None where it is another."""
    found = margin_terms(problem.loss.box)
    return found if found is not None and found.hinge else None


def _libsvm(kernel: np.ndarray, y: np.ndarray, C: np.ndarray, eps: float) -> np.ndarray:
    """Run scikit-learn's LIBSVM on one kernel; signed duals."""
    from sklearn.svm import SVC

    trained = SVC(kernel="precomputed", C=1.0, tol=2.0 * eps).fit(kernel, y, sample_weight=C)
    beta = np.zeros(y.size)
    beta[trained.support_] = trained.dual_coef_[0]
    return beta
