"""Sparse mixing by proximal points, each solved by SMO; exact zeros."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..grams import EntryGram
from ..penalties import Fixed
from ..problem import Certificate, Point, Problem, Status
from .base import Solver, l1_only
from .smo import SMOState, begin, point_of, recompute, sweep, tighten


@dataclass(frozen=True)
class ProximalSettings:
    """Constants of the proximal point method."""

    rough: float = 0.3  #: violation of the first SVM, in units of the slopes: its weights will change
    firm: float = 0.01  #: violation to which the next ones come down
    many: int = 2000  #: samples from which a rough beginning saves time
    strength: float = 2.0  #: of the first stage
    growth: float = 2.0  #: of the proximal step where the weights are what is behind
    behind: float = 0.3  #: share of the gap due to the weights from which they are


SETTINGS = ProximalSettings()


@dataclass
class ProximalState:
    """A SMO state whose penalty is the current proximal step; ``warming`` until a first SVM has been solved.

    ``strength`` is the length of the step times the largest energy over price: how far weights may move.
    """

    smo: SMOState
    warming: bool
    strength: float = SETTINGS.strength


class Proximal(Solver):
    """Proximal point method on the kernel weights, with universal SMO inside.

    Each stage holds the weights near the last ones, which makes the penalty smooth; the weights it ends with are
    exactly zero for kernels that do not help.

    Parameters
    ----------
    working_set : int or "auto", default="auto"
        Samples in a working set of the inner SMO.

    Examples
    --------
    >>> import kernelweave as kw
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = kw.MKLClassifier(solver=kw.solvers.Proximal()).fit(X[50:], y[50:])
    >>> clf.solver_, clf.dual_gap_ <= 1e-3
    ('proximal', True)
    """

    name = "proximal"
    needs = (EntryGram,)
    summed = True

    def __init__(self, working_set: int | str = "auto"):
        self.working_set = working_set

    def refuse(self, problem: Problem) -> str | None:
        return l1_only(problem)

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> ProximalState:
        m = problem.gram.shape[1]
        smo = begin(problem, Fixed(1.0 / (m * problem.penalty.prices(m))), start)
        smo.eps = smo.unit * (SETTINGS.rough if smo.beta.size > SETTINGS.many else SETTINGS.firm)
        state = ProximalState(smo, warming=True)
        if start is not None and smo.q.any():
            self._leave_warm_up(problem, state)
        return state

    def step(self, problem: Problem, state: ProximalState) -> bool:
        ready = sweep(problem, state.smo, self.working_set)
        if ready and state.warming and state.smo.q.any():
            self._leave_warm_up(problem, state)
            return False
        return ready

    def _leave_warm_up(self, problem: Problem, state: ProximalState) -> None:
        state.smo.penalty = problem.penalty.stage(state.smo.q, "euclidean", strength=state.strength)
        state.warming = False

    def read(self, problem: Problem, state: ProximalState) -> Point:
        return point_of(state.smo, state.smo.weights)

    def adapt(self, problem: Problem, state: ProximalState, certificate: Certificate) -> Status | None:
        smo = state.smo
        if state.warming:
            return tighten(smo)
        end, firm = None, smo.unit * SETTINGS.firm
        if smo.penalty.mixing_gap(smo.q) < SETTINGS.behind * (certificate.upper - certificate.lower):
            end = tighten(smo)
        else:
            state.strength *= SETTINGS.growth
            smo.eps = min(smo.eps, max(0.3 * smo.eps, firm))
        shares = smo.weights * problem.penalty.prices(smo.q.size)
        smo.penalty = problem.penalty.stage(smo.q, "euclidean", shares, state.strength)
        return end

    def refresh(self, problem: Problem, state: ProximalState) -> None:
        recompute(problem, state.smo)
