"""Alternation: a support vector machine at fixed weights, then the weights its block norms ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..losses import Hinge
from ..losses.base import BoxQuadratic
from ..problem import Certificate, Point, Problem, Status
from .base import Solver
from .machines import LEAST_EPS, combined, smo

Machine = Callable[[np.ndarray, np.ndarray, np.ndarray, float], np.ndarray]


@dataclass
class AlternatingState:
    """Weights, the duals of the machine at those weights, and their products."""

    box: BoxQuadratic
    weights: np.ndarray  # (m,)
    beta: np.ndarray  # (n,)
    g: np.ndarray  # (n, m)
    q: np.ndarray  # (m,)
    eps: float = 1e-2
    width: float = np.inf


class Alternating(Solver):
    """Solve a single-kernel machine, update the weights in closed form, repeat; works for every penalty here.

    With `Lp` this is the analytic update of Kloft, Brefeld, Sonnenburg and Zien (JMLR 2011); with `L1`, and with `Lp`
    alike, the group-lasso method of Xu, Jin, Yang, King and Lyu (ICML 2010).

    Parameters
    ----------
    machine : "smo", "libsvm" or callable, default="smo"
        The single-kernel solver: this library's SMO, warm-started; scikit-learn's LIBSVM; or a function
        ``(kernel, y, C, eps) -> beta`` of signed duals, with kernel (n, n), y and C (n,) and eps the violation allowed.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.solvers.Alternating(machine="libsvm").name
    'alternating'
    """

    name = "alternating"
    needs = ("combine", "spread")

    def __init__(self, machine: str | Machine = "smo"):
        self.machine = machine

    def refuse(self, problem: Problem) -> str | None:
        if self.machine not in ("smo", "libsvm") and not callable(self.machine):
            return f"knows the machines 'smo' and 'libsvm', or a function, not {self.machine!r}."
        if self.machine != "smo" and not isinstance(problem.loss, Hinge):
            return "takes only loss='hinge' with a machine that is not 'smo'."
        return None

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> AlternatingState:
        n, m = problem.gram.shape
        box = problem.loss.quadratic(problem.y, problem.C)
        weights = problem.penalty.weights_of_norms(np.ones(m))
        state = AlternatingState(box, weights, np.zeros(n), np.zeros((n, m)), np.zeros(m))
        if start is not None and start.any():
            state.beta = start.copy()
            self.refresh(problem, state)
            state.weights = problem.penalty.weights(state.q) if problem.penalty.smooth else weights
            state.eps = 1e-4
        return state

    def step(self, problem: Problem, state: AlternatingState) -> bool:
        beta = self._machine(problem, state, combined(problem, state.weights))
        state.beta = problem.feasible(beta)
        self.refresh(problem, state)
        return True

    def _machine(self, problem: Problem, state: AlternatingState, kernel: np.ndarray) -> np.ndarray:
        if self.machine == "smo":
            return smo(kernel, state.box, state.beta, state.eps)[0]
        if self.machine == "libsvm":
            return _libsvm(kernel, problem.y, problem.C, state.eps)
        return np.asarray(self.machine(kernel, problem.y, problem.C, state.eps))  # type: ignore[operator]

    def read(self, problem: Problem, state: AlternatingState) -> Point:
        return Point(state.beta.copy(), state.weights.copy(), state.q.copy(), state.g @ state.weights)

    def heed(self, problem: Problem, state: AlternatingState, certificate: Certificate) -> Status | None:
        width = certificate.upper - certificate.lower
        if width > 0.9 * state.width:
            state.eps = max(0.2 * state.eps, LEAST_EPS)
        state.width = width
        state.weights = problem.penalty.weights_of_norms(state.weights * np.sqrt(state.q))
        return None

    def refresh(self, problem: Problem, state: AlternatingState) -> None:
        support = np.flatnonzero(state.beta)
        state.g = problem.gram.spread(state.beta[support], support)
        state.q = np.maximum(state.beta @ state.g, 0.0)


def _libsvm(kernel: np.ndarray, y: np.ndarray, C: np.ndarray, eps: float) -> np.ndarray:
    """Run scikit-learn's LIBSVM on one kernel; signed duals."""
    from sklearn.svm import SVC

    machine = SVC(kernel="precomputed", C=1.0, tol=2.0 * eps).fit(kernel, y, sample_weight=C)
    beta = np.zeros(y.size)
    beta[machine.support_] = machine.dual_coef_[0]
    return beta
