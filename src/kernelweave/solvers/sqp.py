"""Sequential quadratic programming on working sets of samples and kernels: the default for kernels with entries."""

from __future__ import annotations

import numpy as np

from ..grams import CombinableGram
from ..penalties import Fixed
from ..penalties.prox import floored
from ..problem import Certificate, Point, Problem, Status
from .base import Solver, centred_box, combinable, first_duals, no_gradient, unit_of
from .sqp_records import SETTINGS, SQPState, precision
from .sqp_rounds import (
    chosen,
    close_round,
    first_samples,
    first_size,
    hand_over,
    hold_back,
    in_play,
    largest_set,
    learn,
    open_round,
    take_over,
)
from .sqp_steps import newton_step, snapped


class SQP(Solver):
    """Newton's method on the duals of a working set, each step a few quadratic programmes solved by SMO.

    The Hessian of the dual is one combined kernel plus a correction of the rank of the kernels in play. A round works
    on the samples that may still move and the kernels that may still matter; of these, entries are read when a pair of
    duals first asks for them. Then all products move by what changed, and the judge looks. For l1 the weights follow
    entropic proximal steps, and kernels left with a vanishing share get exactly zero.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.solvers.SQP().name
    'sqp'
    """

    name = "sqp"
    needs = (CombinableGram,)
    summed = True
    precise = 1e-13

    def refuse(self, problem: Problem) -> str | None:
        return no_gradient(problem)

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> SQPState:
        n, m = problem.gram.shape
        flat = Fixed(problem.penalty.weights_of_norms(np.ones(m)))
        state = SQPState(
            centred_box(problem), flat, first_duals(problem), np.zeros((n, m)), np.zeros(m), np.ones(m, dtype=bool),
            flat.weights(np.ones(m)), np.asarray(problem.gram.diagonal()), tol, precision(problem.penalty, tol),
            unit_of(problem),
        )  # fmt: skip
        take_over(problem, state)
        if start is not None and start.any():
            state.beta = snapped(start, state.box)
        if state.beta.any():
            self.refresh(problem, state)
        few = min(first_size(problem), largest_set(problem, tol))
        samples = first_samples(state.box.linear, few)
        if start is not None and start.any():
            state.penalty = problem.penalty.stage(state.q, strength=SETTINGS.pull)
            state.weights = state.penalty.weights(state.q)
            state.judge = n > few
        if not state.judge:
            both = np.union1d(samples, np.flatnonzero(state.beta))
            open_round(problem, state, both if both.size <= largest_set(problem, tol) else samples, np.arange(m))
        return state

    def lean(self, problem: Problem, state: SQPState, weights: np.ndarray) -> None:
        if not problem.penalty.on_simplex or not state.judge:
            return
        shares = weights * problem.penalty.prices(weights.size)
        center = floored(shares / max(float(shares.sum()), 1e-300), SETTINGS.floor * state.tol)
        state.penalty = problem.penalty.stage(state.q, "entropic", center, SETTINGS.pull)
        state.weights = weights

    def step(self, problem: Problem, state: SQPState) -> bool:
        if state.judge:  # a start is looked at before a first set is chosen
            state.judge = False
            return True
        done = newton_step(problem, state)
        if done:
            close_round(problem, state)
        return done

    def read(self, problem: Problem, state: SQPState) -> Point:
        return Point(state.beta.copy(), state.weights, state.q.copy(), state.g @ state.weights)

    def finish(self, problem: Problem, point: Point) -> list[Point]:
        """Return the point of l1 without kernels whose share is next to nothing."""
        shares = point.weights * problem.penalty.prices(point.weights.size)
        faint = (shares > 0) & (shares < SETTINGS.nothing)
        if not problem.penalty.on_simplex or not faint.any():
            return []
        return [Point(point.beta, np.where(faint, 0.0, point.weights))]

    def leave(self, problem: Problem, state: SQPState) -> None:
        hand_over(problem, state)

    def adapt(self, problem: Problem, state: SQPState, certificate: Certificate) -> Status | None:
        before = state.upper - state.lower
        state.lower, state.upper = max(state.lower, certificate.lower), min(state.upper, certificate.upper)
        width, size = max(state.upper - state.lower, 0.0), abs(state.upper)
        state.helped = width < SETTINGS.progress * before
        first = SETTINGS.first_goal(state.q.size) * abs(state.lower)
        goal = max(SETTINGS.spare * state.tol * size, min(SETTINGS.part * width, first))
        least = SETTINGS.least_goal * size
        if state.still and state.goal <= least:
            return Status.STALLED
        state.goal = max(min(goal, 0.1 * state.goal) if state.still else goal, least)
        gap = width / size if size else 1.0
        hold_back(problem.penalty, state, max(SETTINGS.pull, SETTINGS.pace / max(gap, 1e-300)))
        kernels, stored = in_play(state, gap, problem.gram.on_demand)
        samples = chosen(state, largest_set(problem, state.tol), problem.gram.on_demand)
        learn(problem, state, kernels, samples)
        open_round(problem, state, samples, kernels, stored)
        return None

    def refresh(self, problem: Problem, state: SQPState) -> None:
        state.g = combinable(problem).products(state.beta)
        state.q = np.maximum(state.beta @ state.g, 0.0)
        state.known[:] = True
