"""Dual coordinate ascent on explicit features, a sample's duals at a time: several classes, no bias, entropies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..grams import FactorGram
from ..penalties.base import MixingPenalty
from ..problem import Certificate, Point, Problem, Status
from .base import PRECISE, TINY, Solver, factors, host_features, no_gradient
from .coordinate import first_stage, refuse_walk, restage, tightened


@dataclass(frozen=True)
class RowsSettings:
    """Numbers that the solver goes by."""

    # passes in a step
    passes: int = 5
    # number of passes at which the judge is asked first in any case
    look: float = 20.0
    # growth of the number of passes after which the judge is asked again
    patient: float = 1.5
    # the first of these numbers for a problem of TINY size; from then on the judge is asked after every step
    enough: float = 500.0
    # share of the gap asked for that is worked towards
    share: float = 0.7
    # share of the objective below which floating point has no more to give
    least_share: float = 1e-15
    # share of the gap due to the weights to which a proximal stage is solved
    stage: float = 0.3
    # share of its range by which a dual of the entropy is off zero at the start
    inside: float = 1e-3
    # share of the loss of the zero model that stands for the objective while that is not above zero
    worth: float = 0.01


SETTINGS = RowsSettings()


@dataclass
class RowsState:
    """Duals and products in ``work``; the penalty followed, which for l1 is a proximal stage."""

    work: Any
    kind: int
    penalty: MixingPenalty
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


class Rows(Solver):
    """Dual coordinate ascent on features, exact in one sample's duals and the kernel weights together.

    For what `coordinate` does not take: a joint margin of several classes, whose duals are a row for each sample, the
    logistic loss, and problems without a bias. A sample's step reads its features once for each class.

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
    >>> gram, loss = LowRankGram(x, ranks=[1, 1]), losses.CrammerSinger().bind([0, 1, 2, 2], C=1.0)
    >>> problem = Problem(gram, loss, penalties.Lp(2), dual_sum=None)
    >>> solve(problem, "rows", tol=1e-6).converged
    True
    """

    name = "rows"
    needs = (FactorGram,)
    takes = ("quadratic", "entropic", "margin")
    biased = False
    biasless = True
    several = True
    precise = PRECISE

    def __init__(self, random_state: int = 0):
        self.random_state = random_state

    def refuse(self, problem: Problem) -> str | None:
        unknown = f"knows the dual of {problem.loss} only for one target, and as the library has it: use solver='auto'."
        return (
            refuse_walk(problem, self.random_state)
            or no_gradient(problem)
            or (unknown if problem.loss.compiled is None else None)
        )

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> RowsState:
        from ..compiled import rows as engine

        assert problem.loss.compiled is not None
        (kind, box, classes), ranks = problem.loss.compiled, factors(problem).ranks
        outputs = problem.shape[1] if problem.loss.several else 1
        weights = problem.penalty.weights_of_norms(np.ones(ranks.size))
        work = engine.workspace(box, classes, ranks, outputs, weights)
        state = RowsState(work, kind, first_stage(problem.penalty, weights), tol)
        state.look = SETTINGS.enough if problem.n <= TINY else SETTINGS.look
        terms = problem.loss.terms
        if start is not None and start.any():
            work.beta[:] = start.reshape(work.beta.shape)
        elif terms is not None and terms.entropic:
            work.beta[:, 0] = SETTINGS.inside * (terms.lower + terms.upper)  # one of which is zero
        if work.beta.any():
            self.refresh(problem, state)
        return state

    def step(self, problem: Problem, state: RowsState) -> bool:
        from ..compiled import rows as engine

        goal = state.share * state.tol * _value(problem, state)
        within = goal if problem.penalty.smooth else max(0.5 * goal, SETTINGS.stage * state.mixing)
        rule, params = state.penalty.compiled(state.q.size)
        seed, count = int(self.random_state) + state.passes, SETTINGS.passes
        state.met = engine.climb(rule, params, state.kind, host_features(problem), state.work, seed, within, count)
        state.passes += count
        self.refresh(problem, state)
        if not problem.penalty.smooth:
            state.met = restage(problem, state, goal)
            state.work.weights[:] = state.penalty.weights(state.q)
        return state.met or state.passes >= state.look

    def read(self, problem: Problem, state: RowsState) -> Point:
        gram, work = factors(problem), state.work
        state.look = state.passes if problem.n <= TINY else SETTINGS.patient * state.passes
        weights = state.penalty.weights(work.q)
        f = gram.matvec(np.ascontiguousarray(gram.scale_blocks(weights, work.theta.T)))
        return Point(work.beta.reshape(problem.shape).copy(), weights, work.q.copy(), f.reshape(problem.shape))

    def adapt(self, problem: Problem, state: RowsState, certificate: Certificate) -> Status | None:
        return tightened(state, certificate, SETTINGS.least_share)

    def refresh(self, problem: Problem, state: RowsState) -> None:
        work, gram = state.work, factors(problem)
        work.theta[:] = gram.rmatvec(work.beta).T
        work.q[:] = gram.squared_norms(work.theta.T)
        if work.q.any():
            work.weights[:] = state.penalty.weights(work.q)


def _value(problem: Problem, state: RowsState) -> float:
    """Return the dual objective, or something of its size while that is not above zero."""
    value = problem.total_dual(state.work.beta.reshape(problem.shape)) - problem.penalty.value(state.q)
    return value if value > 0 else SETTINGS.worth * problem.total_loss(problem.loss.zero)
