"""Dual coordinate descent on explicit features, the kernel weights moving with every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..grams import FactorGram
from ..losses.base import DualTerms
from ..penalties.base import MixingPenalty
from ..problem import Certificate, Point, Problem, Status
from .base import Solver, factors, host_features, no_gradient, unit_of


@dataclass(frozen=True)
class CoordinateSettings:
    """Numbers that the solver goes by."""

    # price of the square of the duals' sum, in curvatures of a dual where it counts
    pull: float = 0.03
    # passes in a step, at least and at most
    passes: int = 6
    most: int = 100
    # entries of the features that a step reads, where that is more than the least number of passes
    work: int = 2**21
    # number of passes at which the judge is asked first in any case
    look: float = 30.0
    # growth of the number of passes after which the judge is asked again
    patient: float = 1.5
    # share of the gap asked for that is worked towards: samples met early in a pass are better by its end
    share: float = 1.5
    # share of the objective below which floating point has no more to give
    least_share: float = 1e-15
    # share of the gap due to the weights to which a proximal stage is solved
    stage: float = 0.3


@dataclass(frozen=True)
class StageSettings:
    """How the proximal stages of l1 follow each other, here and in `rows`."""

    # length of the first proximal step times the largest energy over price
    strength: float = 2.0
    # growth of the proximal step where the gap due to the weights does not fall enough from stage to stage
    growth: float = 2.0
    # share to which it has to fall
    fall: float = 0.5


SETTINGS = CoordinateSettings()
STAGES = StageSettings()


@dataclass
class CoordinateState:
    """Duals and products in ``work``; the penalty followed, which for l1 is a proximal stage."""

    work: Any
    penalty: MixingPenalty
    curvature: np.ndarray  # (m,) mean over the samples of each kernel's entries
    ridge: float  # what the loss adds to that
    tol: float
    share: float = SETTINGS.share
    stages: int = 0  # proximal stages begun
    mixing: float = 0.0  # gap due to the weights when the latest of them began
    passes: int = 0
    look: float = SETTINGS.look
    met: bool = False  # whether the goal was met in the last step

    @property
    def q(self) -> np.ndarray:
        return self.work.q


class Coordinate(Solver):
    """Dual coordinate descent: one sample at a time, exact in the duals and the kernel weights together.

    A sample's step costs as much as for one kernel: it reads the sample's features, and the energies and weights of
    all kernels follow in closed form. Samples settled at a bound, or at zero where the loss forgives small errors, are
    put aside, passes are extrapolated with momentum, and the bias is a multiplier updated after each pass. Best for
    small C; with large C its passes become many.

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
    >>> problem = Problem(gram, losses.Hinge().bind(np.sign(x[:, 0]), C=1.0), penalties.Lp(2))
    >>> solve(problem, "coordinate", tol=1e-6).converged
    True
    """

    name = "coordinate"
    needs = (FactorGram,)
    biasless = True
    summed = True

    def __init__(self, random_state: int = 0):
        self.random_state = random_state

    def refuse(self, problem: Problem) -> str | None:
        return refuse_walk(problem, self.random_state) or no_gradient(problem)

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> CoordinateState:
        from ..compiled import coordinate as engine

        gram, terms = factors(problem), problem.loss.box
        total = float(problem.dual_sum or 0.0)
        work = engine.workspace(host_features(problem), gram.ranks, terms.parts, total, self.random_state)
        weights = problem.penalty.weights_of_norms(np.ones(gram.ranks.size))
        work.weights[:], work.facts["unit"] = weights, unit_of(problem) if problem.bias else 0.0
        penalty = first_stage(problem.penalty, weights)
        state = CoordinateState(work, penalty, work.norms.mean(axis=0), _ridge(terms), tol)
        if start is None and total:
            start = problem.feasible(problem.loss.zero)
        if start is not None and start.any():
            work.beta[:] = start
            self.refresh(problem, state)
            work.weights[:] = state.penalty.weights(work.q)
            f = gram.matvec(gram.scale_blocks(work.weights, work.u))
            work.facts["bias"] = problem.best_bias(f)
        elif np.all((terms.lower < 0) & (terms.upper > 0)):
            work.facts["bias"] = problem.best_bias(problem.loss.zero)
        return state

    def step(self, problem: Problem, state: CoordinateState) -> bool:
        from ..compiled import coordinate as engine

        work, V = state.work, host_features(problem)
        goal = state.share * state.tol * abs(_value(problem, state))
        within = goal if problem.penalty.smooth else max(0.5 * goal, SETTINGS.stage * state.mixing)
        rule, params = state.penalty.compiled(work.q.size)
        if problem.bias:
            work.facts["pull"] = SETTINGS.pull * (float(state.curvature @ work.weights) + state.ridge)
        count = int(np.clip(SETTINGS.work // V.size, SETTINGS.passes, SETTINGS.most))
        state.met = engine.descend(rule, params, V, work, within, count)
        state.passes += count
        if not problem.penalty.smooth:
            state.met = restage(problem, state, goal)
        return state.met or state.passes >= state.look

    def read(self, problem: Problem, state: CoordinateState) -> Point:
        gram = factors(problem)
        state.look = SETTINGS.patient * state.passes
        beta = problem.feasible(state.work.beta)
        u = gram.rmatvec(beta)
        q = gram.squared_norms(u)
        weights = state.penalty.weights(q)
        return Point(beta, weights, q, gram.matvec(gram.scale_blocks(weights, u)))

    def adapt(self, problem: Problem, state: CoordinateState, certificate: Certificate) -> Status | None:
        return tightened(state, certificate, SETTINGS.least_share)

    def refresh(self, problem: Problem, state: CoordinateState) -> None:
        work, gram = state.work, factors(problem)
        work.u[:] = gram.rmatvec(work.beta)
        work.q[:] = gram.squared_norms(work.u)
        work.facts["sum"] = work.beta.sum() - work.facts["total"]
        work.anchor[:], work.u_anchor[:] = work.beta, work.u


def _value(problem: Problem, state: CoordinateState) -> float:
    """Return the dual objective, of duals that may not quite have the sum they should."""
    return problem.total_dual(state.work.beta) - problem.penalty.value(state.work.q)


def _ridge(terms: DualTerms) -> float:
    """Return the mean curvature of the duals' terms; for those that are straight, their slope over their range."""
    room = np.where(terms.ridge > 0, 1.0, terms.upper - terms.lower)
    return float(np.mean(np.where(terms.ridge > 0, terms.ridge, np.abs(terms.linear) / room)))


def refuse_walk(problem: Problem, random_state: object) -> str | None:
    """Return why compiled passes over features in random order cannot be made, or None."""
    if factors(problem).host_features is None:
        return "runs on NumPy features of each kernel, held in memory: use solver='auto'."
    if not isinstance(random_state, (int, np.integer)) or random_state < 0:
        return f"takes a whole number from 0 on as random_state, not {random_state!r}."
    return None


def tightened(state: Any, certificate: Certificate, least: float) -> Status | None:
    """Work towards a smaller share of the gap where the goal was met and the gap was not; or say that there is none."""
    if state.met:
        state.share *= float(np.clip(0.9 * state.tol / max(certificate.gap, 1e-300), 0.2, 0.9))
    return None if state.share * state.tol > least else Status.STALLED


def first_stage(penalty: MixingPenalty, weights: np.ndarray) -> MixingPenalty:
    """Return the penalty to begin with: itself, or for l1 a stage whose step is zero, so that weights stay."""
    m = weights.size
    return penalty.stage(np.ones(m), kind="euclidean", shares=weights * penalty.prices(m), strength=0.0)


def restage(problem: Problem, state: Any, goal: float) -> bool:
    """Begin the next proximal stage of l1 if this one is done; True if none is needed."""
    q, stage = state.q, state.penalty
    if state.stages == 0:
        if q.any():
            shares = stage.weights(q) * stage.prices(q.size)
            state.stages, state.mixing = 1, stage.mixing_gap(q)
            state.penalty = problem.penalty.stage(q, kind="euclidean", shares=shares, strength=STAGES.strength)
        return False
    if not state.met:
        return False
    mixing, last = stage.mixing_gap(q), state.mixing
    state.mixing = mixing
    if mixing <= 0.5 * goal:
        return True
    state.penalty = stage.next_stage(q, STAGES.growth if mixing > STAGES.fall * last else 1.0)
    return False
