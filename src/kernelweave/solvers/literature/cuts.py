"""Cutting planes on the kernel weights: what every SVM proves about all weights, and the steps of methods on it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linprog

from ...grams import EntryGram
from ...problem import Certificate, Point, Problem, Status
from ..base import Solver, l1_only
from .svm import TrainedSVM, behind, first_eps, sharper, train


@dataclass(frozen=True)
class CutSettings:
    """Constants of methods on cutting planes."""

    rough: float = 0.3  #: share of the width between the bounds of the cuts that the gap of an SVM's own may be
    flat: int = 10  #: SVMs that do not bring the bounds of the cuts nearer, after which they are taken not to
    feasibility: float = 1e-10  #: precision of the linear programme, of its constraints and of its multipliers


SETTINGS = CutSettings()


@dataclass
class Cuts:
    """Lower bounds ``total_j - 1/2 s'costs_j`` on what an SVM at the shares ``s`` is worth, one from each SVM.

    ``lower`` is the least that their maximum can be on the simplex, ``upper`` the least value that an SVM has at most:
    its primal value, as that of its duals is less where it was trained roughly.
    """

    betas: list[np.ndarray] = field(default_factory=list)  # (n,) each
    totals: list[float] = field(default_factory=list)
    costs: list[np.ndarray] = field(default_factory=list)  # (m,) each
    lower: float = -np.inf
    upper: float = np.inf

    def add(self, svm: TrainedSVM, costs: np.ndarray, most: float) -> None:
        """Take note of the cut that an SVM gives, and of its value, which is at ``most`` that."""
        self.betas.append(svm.beta)
        self.totals.append(svm.total)
        self.costs.append(costs)
        self.upper = min(self.upper, most)

    def lowest(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the shares where the largest cut is lowest, and the duals that prove it: a mixture of those seen.

        None where HiGHS gives up.
        """
        count, m = len(self.totals), self.costs[0].size
        size, precise = max(abs(self.upper), 1e-300), SETTINGS.feasibility
        answer = linprog(
            np.append(np.zeros(m), 1.0),
            A_ub=np.hstack([-0.5 * np.array(self.costs) / size, -np.ones((count, 1))]),
            b_ub=-np.array(self.totals) / size,
            A_eq=np.append(np.ones(m), 0.0)[None, :],
            b_eq=[1.0],
            bounds=[(0.0, None)] * m + [(None, None)],
            method="highs",
            options={"primal_feasibility_tolerance": precise, "dual_feasibility_tolerance": precise},
        )
        if not answer.success:
            return None
        self.lower = size * float(answer.fun)
        shares, mixture = np.maximum(answer.x[:-1], 0.0), np.maximum(-answer.ineqlin.marginals, 0.0)
        return shares / shares.sum(), mixture @ np.array(self.betas) / mixture.sum()


@dataclass
class CutState:
    """The cuts so far, the shares of the next SVM, the point reached, and a proof where the cuts close the gap."""

    shares: np.ndarray  # (m,)
    beta: np.ndarray  # (n,)
    point: Point
    eps: float
    tol: float
    cuts: Cuts = field(default_factory=Cuts)
    proof: Point | None = None
    width: float = np.inf  # the least between the bounds of the cuts so far,
    flat: int = 0  # and the SVMs since then
    rough: float = 0.0  # the gap of the last SVM's own
    lost: bool = False  # whether the linear programme had no answer


class Cutting(Solver):
    """What methods on cutting planes share; they differ in where the next SVM is trained."""

    needs = (EntryGram,)
    kinks = False

    def refuse(self, problem: Problem) -> str | None:
        return l1_only(problem)

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> CutState:
        n, m = problem.gram.shape
        shares, beta = np.full(m, 1.0 / m), np.zeros(n) if start is None else start
        return CutState(shares, beta, Point(beta, shares / problem.penalty.prices(m)), first_eps(problem, tol), tol)

    def step(self, problem: Problem, state: CutState) -> bool:
        if state.proof is not None:
            state.point, state.proof = state.proof, None
            return True
        cuts, prices = state.cuts, problem.penalty.prices(state.shares.size)
        svm = train(problem, state.shares / prices, state.beta, state.eps)
        q = problem.gram.energies(svm.beta)
        state.point, state.beta = svm.point(q), svm.beta
        most = problem.total_loss(svm.f, problem.best_bias(svm.f)) + 0.5 * float(svm.beta @ svm.f)
        cuts.add(svm, q / prices, most)
        state.rough = most - svm.value
        found = cuts.lowest()
        if found is None:
            state.lost = True
            return True
        lowest, mixture = found
        state.shares = self.choose(state, lowest)
        if cuts.upper - cuts.lower <= state.tol * abs(cuts.upper):
            state.proof = Point(mixture, lowest / prices)
        return True

    @abstractmethod
    def choose(self, state: CutState, lowest: np.ndarray) -> np.ndarray:
        """Return the shares of the next SVM; ``lowest`` are those where the largest cut is lowest."""

    @property
    def rough(self) -> float:
        """The share of the width between the bounds of the cuts that the gap of an SVM's own may be."""
        return SETTINGS.rough

    def read(self, problem: Problem, state: CutState) -> Point:
        return state.point

    def adapt(self, problem: Problem, state: CutState, certificate: Certificate) -> Status | None:
        width = state.cuts.upper - state.cuts.lower
        state.flat = 0 if width < state.width else state.flat + 1
        state.width, end = min(width, state.width), None
        rough = state.rough > self.rough * width
        if rough or state.point.q is None or behind(problem, state.point, certificate):
            state.eps, end = sharper(problem, state.eps)
        return Status.STALLED if state.lost or (end and state.flat >= SETTINGS.flat) else None
