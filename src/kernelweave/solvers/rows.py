"""Dual coordinate ascent on explicit features, a sample's duals at a time: several classes, no bias, entropies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import is_numpy
from ..losses import Logistic
from ..penalties.base import MixingPenalty
from ..penalties.norms import Fixed
from ..problem import Certificate, Point, Problem, Status
from .ascent import box_of, has_duals
from .base import TINY, Solver, no_gradient
from .coordinate import LEAST_SHARE, restage

PASSES = 5  # in a step
SHARE = 0.7  # of the gap asked for that is worked towards
STAGE = 0.3  # share of the gap due to the weights to which a proximal stage is solved
PRECISE = 1e-11  # relative gap to which problems of TINY size are solved,
ENOUGH = 500.0  # in this many passes at most
PATIENT = 1.5  # growth of the number of passes after which the judge is asked in any case


@dataclass
class RowsState:
    """Duals, the functions they lead to and their energies; the penalty followed, which for l1 is a proximal stage."""

    kind: int
    box: np.ndarray  # (4, n) linear, ridge, lower, upper
    penalty: MixingPenalty
    beta: np.ndarray  # (n, c)
    theta: np.ndarray  # (c, D)
    q: np.ndarray  # (m,)
    weights: np.ndarray  # (m,)
    tol: float
    share: float = SHARE
    mixing: float = 0.0  # gap due to the weights when the proximal stage began
    passes: int = 0
    look: float = 20.0  # number of passes at which the judge is asked in any case
    met: bool = False


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
    >>> gram, y = LowRankGram(x, ranks=[1, 1]), [0, 1, 2, 2]
    >>> problem = Problem(gram, losses.CrammerSinger(), penalties.Lp(2), y, C=1.0, bias=False)
    >>> solve(problem, "rows", tol=1e-6).converged
    True
    """

    name = "rows"
    needs = ("fold", "lift", "features")
    needs_quadratic = False
    biased = False
    biasless = True
    joint = True

    def __init__(self, random_state: int = 0):
        self.random_state = random_state

    def refuse(self, problem: Problem) -> str | None:
        loss = problem.loss
        if not is_numpy(problem.gram.features):
            return "runs on NumPy features: convert X to NumPy."
        if not isinstance(self.random_state, (int, np.integer)) or self.random_state < 0:
            return f"takes a whole number from 0 on as random_state, not {self.random_state!r}."
        if not has_duals(loss):
            return f"knows no dual of {loss}: use solver='mirror'."
        return no_gradient(problem)

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> RowsState:
        shape, (D, m) = (problem.shape + (1,))[:2], (problem.gram.features.shape[1], problem.gram.shape[1])
        weights = problem.penalty.weights_of_norms(np.ones(m))
        penalty = problem.penalty if problem.penalty.smooth else Fixed(weights.copy())
        kind, box = _duals(problem)
        tol = min(tol, PRECISE) if shape[0] <= TINY else tol
        state = RowsState(kind, box, penalty, np.zeros(shape), np.zeros((shape[1], D)), np.zeros(m), weights, tol)
        state.look = ENOUGH if shape[0] <= TINY else state.look
        if start is not None and start.any():
            state.beta[:] = start.reshape(shape)
        elif isinstance(problem.loss, Logistic):
            state.beta[:, 0] = 1e-3 * problem.y * problem.C
        if state.beta.any():
            self.refresh(problem, state)
        return state

    def step(self, problem: Problem, state: RowsState) -> bool:
        from ..compiled import rows as engine

        goal = state.share * state.tol * _value(problem, state)
        within = goal if problem.penalty.smooth else max(0.5 * goal, STAGE * state.mixing)
        rule, params = state.penalty.compiled(state.q.size)
        V, ends = problem.gram.features, np.cumsum(problem.gram.ranks)
        order, seed = np.empty(problem.y.size, dtype=np.int64), int(self.random_state) + state.passes
        state.met = engine.climb(rule, params, state.kind, V, ends, problem.y, state.box, order, seed, state.theta,
                                 state.beta, state.q, state.weights, within, PASSES)  # fmt: skip
        state.passes += PASSES
        self.refresh(problem, state)
        if not problem.penalty.smooth:
            state.met = restage(problem, state, goal)
            state.weights[:] = state.penalty.weights(state.q)
        return state.met or state.passes >= state.look

    def read(self, problem: Problem, state: RowsState) -> Point:
        gram = problem.gram
        state.look = PATIENT * state.passes
        weights = state.penalty.weights(state.q)
        f = gram.lift(np.ascontiguousarray(gram.weigh(weights, state.theta.T)))
        return Point(state.beta.reshape(problem.shape).copy(), weights, state.q.copy(), f.reshape(problem.shape))

    def heed(self, problem: Problem, state: RowsState, certificate: Certificate) -> Status | None:
        if state.met:
            state.share *= float(np.clip(0.9 * state.tol / max(certificate.gap, 1e-300), 0.2, 0.9))
        return None if state.share * state.tol > LEAST_SHARE else Status.STALLED

    def refresh(self, problem: Problem, state: RowsState) -> None:
        state.theta[:] = problem.gram.fold(state.beta).T
        state.q[:] = problem.gram.energies(state.theta.T)
        state.weights[:] = state.penalty.weights(state.q) if state.q.any() else state.weights


def _duals(problem: Problem) -> tuple[int, np.ndarray]:
    """Return what kind of duals a loss has, and their box; a joint margin has only costs."""
    from ..compiled import rows as engine

    box = box_of(problem)
    if box is None:
        return engine.MARGIN, np.stack(4 * [problem.C])
    kind: Any = engine.ENTROPY if isinstance(problem.loss, Logistic) else engine.BOX
    return kind, np.stack([box.linear, box.ridge, box.lower, box.upper])


def _value(problem: Problem, state: RowsState) -> float:
    """Return the dual objective, or something of its size while that is not above zero."""
    dual = float(np.sum(problem.loss.dual(state.beta.reshape(problem.shape), problem.y, problem.C)))
    value = dual - problem.penalty.value(state.q)
    return value if value > 0 else 0.01 * float(np.sum(problem.C))
