"""Sparse mixing by proximal points, each solved by SMO; exact zeros."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..penalties.norms import L1, Fixed
from ..penalties.prox import SimplexProx
from ..problem import Certificate, Point, Problem, Status
from .base import Solver
from .smo import SMOState, begin, point_of, recompute, sweep, tighten

ROUGH = 0.3  # violation of the first machine: weights that will change are not worth more
FIRM = 0.01  # to which the next ones come down
MANY = 2000  # samples from which that saves time


@dataclass
class ProximalState:
    """A SMO state whose penalty is the current proximal step; ``warming`` until a first SVM has been solved.

    ``reach`` is the length of the step times the largest cost of a kernel: how far weights may move.
    """

    smo: SMOState
    warming: bool
    reach: float = 2.0


class Proximal(Solver):
    """Proximal point method on the kernel weights, with universal SMO inside.

    Each stage holds the weights near the last ones, which makes the penalty smooth; the weights it ends with are
    exactly zero for kernels that do not help.

    Parameters
    ----------
    working_set : int or "auto", default="auto"
        Samples in a working set of the inner SMO.
    """

    name = "proximal"
    needs = ("block", "spread")

    def __init__(self, working_set: int | str = "auto"):
        self.working_set = working_set

    def refuse(self, problem: Problem) -> str | None:
        if not isinstance(problem.penalty, L1):
            return f"is for penalty='l1', not {problem.penalty}: use solver='smo'."
        return None

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> ProximalState:
        m = problem.gram.shape[1]
        prices = problem.penalty.prices(m)
        smo = begin(problem, Fixed(1.0 / (m * prices)), start)
        smo.eps = ROUGH if smo.beta.size > MANY else FIRM
        state = ProximalState(smo, warming=True)
        if smo.q.any():
            self._leave_warm_up(problem, state)
        return state

    def step(self, problem: Problem, state: ProximalState) -> bool:
        ready = sweep(problem, state.smo, self.working_set)
        if ready and state.warming and state.smo.q.any():
            self._leave_warm_up(problem, state)
            return False
        return ready

    def _leave_warm_up(self, problem: Problem, state: ProximalState) -> None:
        smo = state.smo
        prices = problem.penalty.prices(smo.q.size)
        tau = state.reach / float(np.max(smo.q / prices))
        smo.penalty = SimplexProx(np.full(smo.q.size, 1.0 / smo.q.size), tau, prices)
        state.warming = False

    def read(self, problem: Problem, state: ProximalState) -> Point:
        return point_of(state.smo, state.smo.weights)

    def heed(self, problem: Problem, state: ProximalState, certificate: Certificate) -> Status | None:
        smo = state.smo
        prox = smo.penalty
        if not isinstance(prox, SimplexProx):
            return tighten(smo)
        shares = prox.shares(smo.q)
        costs = smo.q / prox.prices
        mixing = 0.5 * (float(costs.max()) - float(shares @ costs))
        end = None
        if mixing < 0.3 * (certificate.upper - certificate.lower):
            end = tighten(smo)
        else:
            state.reach *= 2.0
            smo.eps = min(smo.eps, max(0.3 * smo.eps, FIRM))
        smo.penalty = SimplexProx(shares, state.reach / float(costs.max()), prox.prices)
        return end

    def refresh(self, problem: Problem, state: ProximalState) -> None:
        recompute(problem, state.smo)
