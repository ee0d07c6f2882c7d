"""Dual coordinate descent on explicit features, the kernel weights moving with every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import is_numpy
from ..penalties.base import MixingPenalty
from ..penalties.norms import Fixed
from ..penalties.prox import SimplexProx
from ..problem import Certificate, Point, Problem, Status
from .base import Solver, no_gradient

PULL = 0.03  # price of the square of the duals' sum, in curvatures of a dual where it counts
PASSES = 6  # in a step, or
WORK = 2**21  # as many as read so many entries of the features,
MOST = 100  # but no more than these
SHARE = 1.5  # of the gap asked for that is worked towards: samples met early in a pass are better by its end
PATIENT = 1.5  # growth of the number of passes after which the judge is asked in any case
STAGE = 0.3  # share of the gap due to the weights to which a proximal stage is solved
GROWTH = 2.0  # of the proximal step, where the gap due to the weights does not fall to
FALL = 0.5  # this share from stage to stage
LEAST_SHARE = 1e-15  # of the objective below which floating point has no more to give


@dataclass
class CoordinateState:
    """Duals and products in ``work``; the penalty followed, which for l1 is a proximal stage."""

    work: Any
    penalty: MixingPenalty
    norms: np.ndarray  # (m,) mean of a sample's
    tol: float
    share: float = SHARE
    mixing: float = 0.0  # gap due to the weights when the proximal stage began
    passes: int = 0
    look: float = 30.0  # number of passes at which the judge is asked in any case
    met: bool = False  # whether the goal was met in the last step

    @property
    def q(self) -> np.ndarray:
        return self.work.q


class Coordinate(Solver):
    """Dual coordinate descent: one sample at a time, exact in the duals and the kernel weights together.

    A sample's step costs as much as for one kernel: it reads the sample's features, and the energies and weights of
    all kernels follow in closed form. Samples settled at a bound are put aside, passes are extrapolated with momentum,
    and the bias is a multiplier updated after each pass. Best for small C; with large C its passes become many.

    Parameters
    ----------
    random_state : int, default=0
        Seed of the order in which samples are visited.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import Problem, losses, penalties, solve
    >>> from kernelweave.grams import LowRankGram
    >>> x = np.array([[-2.0, 1.0], [-1.0, 0.0], [1.0, 0.5], [2.0, 0.0]])
    >>> gram = LowRankGram(x, ranks=[1, 1])
    >>> problem = Problem(gram, losses.Hinge(), penalties.Lp(2), np.sign(x[:, 0]), C=1.0)
    >>> solve(problem, "coordinate", tol=1e-6).converged
    True
    """

    name = "coordinate"
    needs = ("fold", "lift", "features")

    def __init__(self, random_state: int = 0):
        self.random_state = random_state

    def refuse(self, problem: Problem) -> str | None:
        if not is_numpy(problem.gram.features):
            return "runs on NumPy features: use solver='auto', or move the features to the host."
        if not isinstance(self.random_state, (int, np.integer)) or self.random_state < 0:
            return f"takes a whole number from 0 on as random_state, not {self.random_state!r}."
        return no_gradient(problem)

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> CoordinateState:
        from ..compiled import coordinate as engine

        gram, m = problem.gram, problem.gram.shape[1]
        box = problem.loss.quadratic(problem.y, problem.C)
        work = engine.workspace(
            gram.features, gram.ranks, (box.linear, box.ridge, box.lower, box.upper), self.random_state
        )
        work.weights[:] = problem.penalty.weights_of_norms(np.ones(m))
        penalty = problem.penalty if problem.penalty.smooth else Fixed(work.weights.copy())
        state = CoordinateState(work, penalty, work.norms.mean(axis=0), tol)
        if start is not None and start.any():
            work.beta[:] = start
            self.refresh(problem, state)
            work.weights[:] = penalty.weights(work.q)
            f = gram.lift(gram.per_column(work.weights) * work.u)
            work.facts["bias"] = problem.loss.best_bias(f, problem.y, problem.C)
        return state

    def step(self, problem: Problem, state: CoordinateState) -> bool:
        from ..compiled import coordinate as engine

        work, V = state.work, problem.gram.features
        goal = state.share * state.tol * _value(problem, state)
        within = goal if problem.penalty.smooth else max(0.5 * goal, STAGE * state.mixing)
        rule, params = state.penalty.compiled(work.q.size)
        work.facts["pull"] = PULL * float(state.norms @ work.weights + np.mean(1.0 / problem.C))
        count = int(np.clip(WORK // V.size, PASSES, MOST))
        state.met = engine.descend(rule, params, V, work, within, count)
        state.passes += count
        if not problem.penalty.smooth:
            state.met = restage(problem, state, goal)
        return state.met or state.passes >= state.look

    def read(self, problem: Problem, state: CoordinateState) -> Point:
        gram = problem.gram
        state.look = PATIENT * state.passes
        beta = problem.feasible(state.work.beta)
        u = gram.fold(beta)
        q = gram.energies(u)
        weights = state.penalty.weights(q)
        return Point(beta, weights, q, gram.lift(gram.per_column(weights) * u))

    def heed(self, problem: Problem, state: CoordinateState, certificate: Certificate) -> Status | None:
        if state.met:
            state.share *= float(np.clip(0.9 * state.tol / max(certificate.gap, 1e-300), 0.2, 0.9))
        return None if state.share * state.tol > LEAST_SHARE else Status.STALLED

    def refresh(self, problem: Problem, state: CoordinateState) -> None:
        work = state.work
        work.u[:] = problem.gram.fold(work.beta)
        work.q[:] = problem.gram.energies(work.u)
        work.facts["sum"] = work.beta.sum()
        work.anchor[:], work.u_anchor[:] = work.beta, work.u


def _value(problem: Problem, state: CoordinateState) -> float:
    """Return the dual objective, of duals that may not quite sum to zero."""
    work = state.work
    return float(np.sum(problem.loss.dual(work.beta, problem.y, problem.C))) - problem.penalty.value(work.q)


def restage(problem: Problem, state: Any, goal: float) -> bool:
    """Begin the next proximal stage of l1 if this one is done; True if none is needed."""
    q, prox = state.q, state.penalty
    prices = problem.penalty.prices(q.size)
    costs = q / prices
    if not isinstance(prox, SimplexProx) and costs.any():
        center = prox.weights(q) * prices
        state.mixing = _mixing(center, costs)
        state.penalty = SimplexProx(center, 2.0 / float(costs.max()), prices)
    if not isinstance(prox, SimplexProx) or not state.met:
        return False
    shares = prox.shares(q)
    mixing = _mixing(shares, costs)
    if mixing <= 0.5 * goal:
        state.mixing = mixing
        return True
    tau = GROWTH * prox.tau if mixing > FALL * state.mixing else prox.tau
    state.penalty, state.mixing = SimplexProx(shares, tau, prices), mixing
    return False


def _mixing(shares: np.ndarray, costs: np.ndarray) -> float:
    """Return the part of the gap that is due to the shares of the kernels."""
    return 0.5 * (float(costs.max()) - float(shares @ costs))
