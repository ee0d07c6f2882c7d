"""Newton's method on an augmented Lagrangian: corners of the loss, rounded less from round to round."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arrays import Array, namespace
from ..grams import CombinableGram, FactorGram, TensorGram
from ..losses.rounded import RoundedLoss
from ..problem import Certificate, Point, Problem, Status
from .base import Solver, no_gradient, without_faint_shares
from .newton_cg import SETTINGS as NEWTON
from .newton_cg import NewtonCGState, advance, begin, follow, image_of, recompute, take_stage
from .reduced import slope_unit


@dataclass(frozen=True)
class LagrangianSettings:
    """Constants of the augmented Lagrangian."""

    first: float = 3.0  #: inverse of the width that corners are rounded to in the first round, in units of the errors
    warm: float = 9.0  #: the same after a start was given
    growth: float = 3.0  #: of it from round to round
    sharpest: float = 1e4  #: the largest
    settled: float = 0.5  #: share of what the rounding costs at which a round is over
    enough: float = 0.05  #: share of the gap asked for at which it is in any case
    slow: float = 0.5  #: share of its gap that a step leaves of a round after which the next is solved more closely
    patience: int = 6  #: steps without any fall after which that is the end
    nearer: float = 0.5  #: share of the gap at which the judge was last asked within a round for asking again


SETTINGS = LagrangianSettings()


@dataclass
class LagrangianState:
    """The problem of the round, with its loss rounded about the duals of the last, and Newton's state on it."""

    tol: float
    rate: Array  # how fast duals move with the errors, at sharpness 1
    near: Array  # the duals that the loss is rounded about
    sharpness: float
    inner: NewtonCGState | None = None
    round: Problem | None = None
    beta: Any = None  # the duals that the model's errors ask for
    q: Any = None  # (m,)
    gap: float = np.inf  # of the round
    settled: bool = False
    turned: bool = False  # whether the weights begin a new stage, so that the next round is no sharper
    stuck: int = 0
    width: float = np.inf  # the gap that the judge is likely to find, as a share of the objective
    asked: float = np.inf  # the same when it was last asked within a round


class Lagrangian(Solver):
    """Proximal steps on the duals, each a smooth problem for Newton's method with conjugate gradients.

    For losses with corners, hinge and joint margin among them, on whatever Newton's method with conjugate gradients
    takes: kernels, features or a basis, of any library. A round has the loss rounded about the duals of the last one,
    less and less; the duals of a round are feasible, so that the judge's gap is that of the loss itself.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import Problem, losses, penalties, solve
    >>> from kernelweave.grams import LowRankGram
    >>> x = np.array([[-2.0, 1.0], [-1.0, 0.0], [1.0, 0.5], [2.0, 0.0]])
    >>> gram, loss = LowRankGram(x, ranks=[1, 1]), losses.CrammerSinger().bind([0, 1, 2, 2], C=1.0)
    >>> solve(Problem(gram, loss, penalties.Lp(2), dual_sum=None), "lagrangian", tol=1e-6).converged
    True
    """

    name = "lagrangian"
    needs = (FactorGram, CombinableGram, TensorGram)
    takes = ("quadratic", "margin")
    biasless = True
    several = True
    summed = True
    precise = 1e-9

    def refuse(self, problem: Problem) -> str | None:
        terms = problem.loss.terms
        if terms is not None and not bool(
            namespace(terms.lower).all(namespace(terms.lower).isfinite(terms.upper - terms.lower))
        ):
            return f"rounds corners of losses with bounded duals, and those of {problem.loss} are not: use 'newton-cg'."
        return no_gradient(problem)

    def init(self, problem: Problem, start: Any, tol: float) -> LagrangianState:
        loss = problem.loss
        rate = loss.C if loss.terms is None else (loss.box.upper - loss.box.lower) / slope_unit(problem)
        started = start is not None and bool(namespace(start).any(start != 0))
        state = LagrangianState(tol, rate, start if started else problem.feasible(loss.zero), SETTINGS.first)
        if started:
            state.sharpness = SETTINGS.warm
        _pose(problem, state)
        assert state.round is not None
        state.inner = begin(state.round, start if started else None, tol)
        if started:
            take_stage(state.round, state.inner)
        return state

    def step(self, problem: Problem, state: LagrangianState) -> bool:
        inner = state.inner
        assert inner is not None
        if state.settled:
            state.near = problem.feasible(state.beta)
            if not state.turned:
                state.sharpness = min(SETTINGS.growth * state.sharpness, SETTINGS.sharpest)
            state.turned = False
            _pose(problem, state)
            assert state.round is not None
            follow(state.round, inner, inner.penalty)
            inner.close, state.gap = NEWTON.loose, np.inf
        assert state.round is not None
        advance(state.round, inner)
        if inner.penalty.fixed and not problem.penalty.fixed:
            take_stage(state.round, inner)
        _look(problem, state)
        return _is_worth_judging(problem, state)

    def read(self, problem: Problem, state: LagrangianState) -> Point:
        inner = state.inner
        assert inner is not None
        weights = inner.penalty.trimmed(inner.q, NEWTON.trim * state.tol)
        if state.beta is None:
            return Point(problem.feasible(problem.loss.zero), weights)
        return Point(state.beta, weights, state.q, inner.image.mixed(weights), inner.beta, inner.q)

    def adapt(self, problem: Problem, state: LagrangianState, certificate: Certificate) -> Status | None:
        inner, width = state.inner, certificate.upper - certificate.lower
        assert inner is not None and state.round is not None
        if inner.penalty.mixing_gap(inner.q) > NEWTON.behind * width:
            floor = NEWTON.floor * state.tol
            follow(state.round, inner, inner.penalty.next_stage(inner.q, NEWTON.growth, NEWTON.strongest, floor))
            inner.stuck, state.stuck, state.turned = 0, 0, True
        state.stuck = state.stuck + 1 if inner.stuck else 0
        return Status.STALLED if state.stuck >= SETTINGS.patience else None

    def refresh(self, problem: Problem, state: LagrangianState) -> None:
        assert state.inner is not None and state.round is not None
        recompute(state.round, state.inner)

    def finish(self, problem: Problem, point: Point) -> list[Point]:
        faint = without_faint_shares(problem, point)
        own = Point(point.beta, faint[0].weights if faint else point.weights)  # duals have more zeros
        return [own, *faint]


def _pose(problem: Problem, state: LagrangianState) -> None:
    """Round the loss about the duals of the last round."""
    state.round = replace(problem, loss=RoundedLoss(problem.loss, state.near, state.sharpness * state.rate))
    state.settled = False


def _look(problem: Problem, state: LagrangianState) -> None:
    """Compare what is left of the round with what its rounding costs; a step that left much is not close enough."""
    inner, loss, xp = state.inner, problem.loss, namespace(problem.loss.zero)
    assert inner is not None and state.round is not None
    rounded = state.round.loss
    assert isinstance(rounded, RoundedLoss)
    state.beta = problem.feasible(rounded.duals(inner.f + inner.bias))
    state.q = _energies(problem, inner, state.beta)
    rate = rounded.rate if rounded.rate.ndim == state.beta.ndim else rounded.rate[:, None]
    apart = float(xp.sum((state.beta - state.near) ** 2 / (2.0 * rate)))
    dual = float(xp.sum(loss.dual(state.beta)))
    gap = inner.value - (dual - apart - inner.penalty.value(state.q))
    upper = problem.penalty.cost(inner.weights, inner.q)(1.0) + problem.total_loss(inner.f, inner.bias)
    state.width = (upper - dual + problem.penalty.value(state.q)) / max(abs(upper), 1e-300)
    if gap > SETTINGS.slow * state.gap or inner.stuck:
        inner.close = max(0.1 * inner.close, NEWTON.tightest)
    state.gap = gap
    state.settled = gap <= max(SETTINGS.settled * apart, SETTINGS.enough * state.tol * abs(dual)) or inner.stuck > 0


def _is_worth_judging(problem: Problem, state: LagrangianState) -> bool:
    """Whether a round is over, or the gap is likely to be small enough already."""
    inner = state.inner
    assert inner is not None
    if state.settled or inner.penalty is not problem.penalty:  # whose stages end by what the judge says
        state.asked = np.inf
        return state.settled
    near = state.width <= min(state.tol, SETTINGS.nearer * state.asked)
    state.asked = state.width if near else state.asked
    return near


def _energies(problem: Problem, inner: NewtonCGState, beta: Array) -> Any:  # (m,)
    """Return the energies of duals, whose sums in a basis the next step may ask for."""
    gram = problem.gram
    if not isinstance(gram, FactorGram):
        return image_of(problem, beta).energies()
    sums = gram.basis.rmatvec(beta)
    inner.known = beta, sums
    return gram.squared_norms(gram.unfold(sums))
