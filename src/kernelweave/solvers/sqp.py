"""Sequential quadratic programming on the duals: the default for stored kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm
from scipy.optimize import minimize_scalar

from ..losses.base import BoxQuadratic
from ..penalties.base import MixingPenalty
from ..penalties.norms import L1, Fixed
from ..penalties.prox import EntropicProx
from ..problem import Certificate, Point, Problem, Status
from .base import TINY, Solver, no_gradient
from .smo import exact_step, level_of, violation_of

LEAST = 1000  # samples up to which the first round takes all, and goes to the end
PRECISE = 1e-11  # relative gap to which problems of TINY size are solved
START = 0.02  # share of the dual value that rounds on new samples work towards
SPARE = 0.5  # share of the tolerance that the other rounds work towards
MARGIN = 0.3  # distance from violation at which a sample counts as settled when a round begins,
NARROW = 0.05  # at least this near the end,
WIDE = 0.7  # and within a round, where less is known
BEHIND = 0.1  # share of the gap due to the weights at which a proximal stage is left for the next
SETTLED = 10.0  # or the weights' gap, in gains of the last step, at which it is
GROWTH = 3.0  # of the proximal step from stage to stage
PULL = 30.0  # most strength of the first proximal step after the samples changed much
STRONGEST = 3e3  # most strength of a proximal step: beyond it Newton's steps drown in rounding
TRIM = 1e-2  # times tol: share below which a kernel gets weight zero
FLOOR = 1e-4  # times tol: share every kernel keeps while the weights move, so that it can come back
LEAST_GOAL = 1e-15  # share of the objective below which floating point has no more to give
DUST = 1e-14  # share of the largest dual that counts as none
NEWTON = 50  # most steps in a round
BUDGET = 200  # pair steps in one quadratic programme, per sample


@dataclass
class Local:
    """What a round works on: some samples and kernels, their duals and products.

    ``penalty`` is fixed weights at first, where a round begins as an ordinary support vector machine.
    """

    rows: np.ndarray  # (b,)
    kernels: np.ndarray  # (a,)
    penalty: MixingPenalty
    beta: np.ndarray  # (b,)
    g: np.ndarray  # (b, a)
    q: np.ndarray  # (a,)
    steps: int = 0


@dataclass
class SQPState:
    """Duals with ``g[i, k] = (K_k beta)_i`` and ``q`` as of the last round, and the round under way."""

    box: BoxQuadratic
    penalty: MixingPenalty
    beta: np.ndarray  # (n,)
    g: np.ndarray  # (n, m)
    q: np.ndarray  # (m,)
    tol: float
    goal: float = np.inf  # objective accuracy the round works towards
    still: bool = False  # whether the last round changed nothing
    wary: bool = False  # whether the last round was misled by what it left out
    moved: np.ndarray = field(init=False)  # (n,) duals of the round under way, also of samples it has let go
    local: Local = field(init=False)


class SQP(Solver):
    """Newton's method on the duals, each step a quadratic programme solved by SMO.

    The Hessian of the dual is one combined kernel plus a correction of the rank of the kernels in play, so a step
    costs about as much as a support vector machine. A round works on the samples and kernels that are not settled
    and reads nothing else; then all products move at once and the judge looks. For l1 the weights follow entropic
    proximal steps, and kernels left with a vanishing share get exactly zero.

    Parameters
    ----------
    first : float, default=0.25
        Share of the samples, drawn evenly from the classes, that the first round works on.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.solvers.SQP().name
    'sqp'
    """

    name = "sqp"
    needs = ("combine", "spread")

    def __init__(self, first: float = 0.25):
        self.first = first

    def refuse(self, problem: Problem) -> str | None:
        share: Any = self.first
        if not isinstance(share, Real) or not 0 < float(share) <= 1:
            return f"takes a share of the samples, above 0 and up to 1, as first, not {share!r}."
        return no_gradient(problem)

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> SQPState:
        n, m = problem.gram.shape
        box = problem.loss.quadratic(problem.y, problem.C)
        flat = Fixed(problem.penalty.weights_of_norms(np.ones(m)))
        tol = min(tol, PRECISE) if n <= TINY else tol
        state = SQPState(box, flat, np.zeros(n), np.zeros((n, m)), np.zeros(m), tol)
        if start is None or not start.any():
            _open(state, _sample(problem.y, self.first), flat)
        else:
            state.beta = _snapped(start, box)
            self.refresh(problem, state)
            _open(state, np.arange(n), flat)
            state.local.penalty = _followed(problem.penalty, state)
        return state

    def step(self, problem: Problem, state: SQPState) -> bool:
        done = _newton(problem, state)
        if done:
            _close(problem, state)
        return done

    def read(self, problem: Problem, state: SQPState) -> Point:
        weights = state.penalty.weights(state.q)
        if isinstance(state.penalty, EntropicProx):
            shares = state.penalty.shares(state.q)
            shares[shares < TRIM * state.tol] = 0.0
            weights = shares / shares.sum() / state.penalty.prices
        return Point(state.beta.copy(), weights, state.q.copy(), state.g @ weights)

    def heed(self, problem: Problem, state: SQPState, certificate: Certificate) -> Status | None:
        gradient = _gradient(state)
        margin = float(np.clip(3.0 * violation_of(gradient, state.beta, state.box), NARROW, MARGIN))
        rows = _unsettled(gradient, state.beta, state.box, margin)
        cold = rows.size > 1.5 * state.local.rows.size
        whole = cold or state.still or rows.size < 2
        rows = np.arange(state.beta.size) if whole else rows
        goal = START * abs(certificate.lower) if cold else SPARE * state.tol * abs(certificate.upper)
        least = LEAST_GOAL * abs(certificate.upper)
        if state.still and state.goal <= least:
            return Status.STALLED
        goal = max(min(goal, 0.1 * state.goal) if state.still else goal, least)
        state.goal = goal
        _open(state, rows, Fixed(state.penalty.weights(state.q)) if cold else state.penalty)
        return None

    def refresh(self, problem: Problem, state: SQPState) -> None:
        support = np.flatnonzero(state.beta)
        state.g = problem.gram.spread(state.beta[support], support)
        state.q = np.maximum(state.beta @ state.g, 0.0)


def _gradient(state: SQPState) -> np.ndarray:
    return state.g @ state.penalty.weights(state.q) + state.box.ridge * state.beta - state.box.linear


def _sample(y: np.ndarray, share: float) -> np.ndarray:
    """Return a seeded share of each class, in order; all of a small problem."""
    share = max(share, LEAST / y.size)
    if share >= 1:
        return np.arange(y.size)
    rng = np.random.default_rng(0)
    parts = [rng.permutation(np.flatnonzero(y == s)) for s in (-1, 1)]
    return np.sort(np.concatenate([part[: int(np.ceil(share * part.size))] for part in parts]))


def _open(state: SQPState, rows: np.ndarray, penalty: MixingPenalty) -> None:
    """Begin a round on ``rows`` with the kernels that are awake."""
    kernels = np.arange(state.q.size) if state.wary else _awake(state.penalty, state.q, state.tol)
    if kernels.size < state.q.size:
        penalty = penalty.restrict(kernels, state.q.size)
    g = np.ascontiguousarray(state.g[np.ix_(rows, kernels)])
    state.moved = state.beta.copy()
    state.local = Local(rows, kernels, penalty, state.beta[rows], g, state.q[kernels])


def _awake(prox: MixingPenalty, q: np.ndarray, tol: float) -> np.ndarray:
    """Return the kernels with a share worth following, or with an energy near the top; all, unless few are."""
    every = np.arange(q.size)
    if not isinstance(prox, EntropicProx):
        return every
    costs = q / prox.prices
    awake = np.flatnonzero((prox.shares(q) > 0.1 * TRIM * tol) | (costs > 0.9 * costs.max()))
    return awake if 4 * awake.size < q.size else every


def _unsettled(gradient: np.ndarray, beta: np.ndarray, box: BoxQuadratic, margin: float) -> np.ndarray:
    """Return the samples that are free, violate optimality, or are within ``margin`` of doing so."""
    up, down, level = beta < box.upper, beta > box.lower, level_of(gradient, beta, box)
    return np.flatnonzero((up & (gradient < level + margin)) | (down & (gradient > level - margin)))


def _shrink(state: SQPState) -> None:
    """Let go, for the rest of the round, of samples that are far from mattering."""
    local = state.local
    box = state.box.take(local.rows)
    gradient = local.g @ local.penalty.weights(local.q) + box.ridge * local.beta - box.linear
    kept = _unsettled(gradient, local.beta, box, max(WIDE, violation_of(gradient, local.beta, box)))
    if 2 <= kept.size < 0.75 * local.rows.size:
        local.rows, local.beta, local.g = local.rows[kept], local.beta[kept], local.g[kept]


def _newton(problem: Problem, state: SQPState) -> bool:
    """One Newton step on the round's samples; True when the round has reached its goal or can do no more."""
    from ..compiled.quadratic import quadratic

    local = state.local
    box = state.box.take(local.rows)
    weights = local.penalty.weights(local.q)
    hessian = _hessian(problem, local, weights, box.ridge)
    gradient = local.g @ weights + box.ridge * local.beta - box.linear
    level = level_of(gradient, local.beta, box)
    eps = 0.01 * min(violation_of(gradient, local.beta, box), 1.0)
    mass = float(np.abs(state.moved).sum())
    if np.isfinite(state.goal) and mass > 0:
        eps = max(eps, 0.1 * state.goal / mass)
    beta = local.beta.copy()
    quadratic(hessian, gradient, beta, box.lower, box.upper, max(eps, 1e-15), BUDGET * beta.size)
    followed = local.penalty
    t, fall = _advance(problem, local, beta, box, level)
    local.steps += 1
    state.moved[local.rows] = local.beta
    done = _reached(problem, state, t, fall) or (fall <= 0.0 and local.penalty is followed) or local.steps >= NEWTON
    if not done:
        _shrink(state)
    return done


def _hessian(problem: Problem, local: Local, weights: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """Return the Hessian of the dual at the round's point: ``K_w + 2 G (dw/dq) G'`` and the loss's own."""
    full = np.zeros(problem.gram.shape[1])
    full[local.kernels] = np.where(weights > 1e-9 * weights.max(initial=0.0), weights, 0.0)
    hessian = problem.gram.combine(local.rows, full)
    curvature = local.penalty.curvature(local.q)
    bent = np.flatnonzero(np.diag(curvature) > 1e-9 * np.diag(curvature).max(initial=0.0))
    if bent.size:
        g = local.g[:, bent]
        bend = g @ (2.0 * curvature[np.ix_(bent, bent)])
        hessian = dgemm(1.0, bend, g, trans_b=True, beta=1.0, c=hessian.T, overwrite_c=True).T
    hessian.flat[:: ridge.size + 1] += ridge
    return hessian


def _advance(
    problem: Problem, local: Local, beta: np.ndarray, box: BoxQuadratic, level: float
) -> tuple[float, float]:
    """Move towards ``beta`` as far as the objective falls; how far, from 0 to 1, and about how much it fell."""
    delta = beta - local.beta
    index = np.flatnonzero(np.abs(delta) > _dust(beta))
    if index.size == 0:
        return 1.0, 0.0
    spread = problem.gram.spread(delta[index], local.rows[index], local.rows, local.kernels)
    along, bend = delta @ local.g, np.maximum(delta @ spread, 0.0)
    t = exact_step(local.penalty, local.q, along, bend, box, local.beta, delta, level)
    slope = float(local.penalty.weights(local.q) @ along + (box.ridge * local.beta - box.linear - level) @ delta)
    beta = beta if t == 1.0 else local.beta + t * delta
    local.beta = _snapped(beta, box)
    local.g += spread if t == 1.0 else t * spread
    local.q = np.maximum(local.q + t * (2.0 * along + t * bend), 0.0)
    return t, -0.5 * t * slope


def _dust(beta: np.ndarray) -> float:
    return DUST * float(np.abs(beta).max(initial=0.0))


def _snapped(beta: np.ndarray, box: BoxQuadratic) -> np.ndarray:
    """Return the duals with those next to a bound on it: others would seem to violate optimality and could not move."""
    dust = _dust(beta)
    beta = np.where(beta - box.lower <= dust, box.lower, beta)
    return np.where(box.upper - beta <= dust, box.upper, beta)


def _reached(problem: Problem, state: SQPState, t: float, fall: float) -> bool:
    """Whether the round's goal is met; where not, the penalty moves on if the weights are what is behind."""
    local = state.local
    if isinstance(local.penalty, Fixed) and not isinstance(problem.penalty, Fixed):
        local.penalty = _followed(problem.penalty, state)
        return False
    slack, mixing = _slack(problem, local), 0.0
    prox = local.penalty
    if isinstance(prox, EntropicProx):
        shares, costs = prox.shares(local.q), local.q / prox.prices
        mixing = 0.5 * (float(costs.max()) - float(shares @ costs))
    share = SPARE * state.tol if state.beta.size <= LEAST else START
    goal = state.goal if np.isfinite(state.goal) else share * float(state.box.linear[local.rows] @ local.beta)
    if slack + mixing <= goal:
        return True
    if mixing > 0.5 * goal and t > 0.5 and mixing > min(BEHIND * (slack + mixing), SETTLED * fall):
        tau = min(GROWTH * prox.tau, max(STRONGEST / float(costs.max()), prox.tau))
        local.penalty = EntropicProx(_floored(shares, state.tol), tau, prox.prices)
    return False


def _slack(problem: Problem, local: Local) -> float:
    """Duality gap that is due to the duals, the weights taken as they are, at the best scale of the primal.

    Samples outside the round are settled: their loss is linear along the scale, and ``sum_i beta_i f_i = w'q``.
    """
    loss, y, C, beta = problem.loss, problem.y[local.rows], problem.C[local.rows], local.beta
    weights = local.penalty.weights(local.q)
    f, energy = local.g @ weights, float(weights @ local.q)
    dual, inside = float(np.sum(loss.dual(beta, y, C))), float(beta @ f)
    box = loss.quadratic(y, C)
    free = (beta < box.upper) & (beta > box.lower)

    def gap(t: float) -> float:
        bias = float(np.median((y - t * f)[free])) if free.any() else loss.best_bias(t * f, y, C)
        primal = float(np.sum(loss.value(t * f + bias, y, C) + bias * beta))
        return 0.5 * (t * t + 1.0) * energy - t * (energy - inside) + primal - dual

    return min(gap(1.0), float(minimize_scalar(gap, bounds=(0.5, 1.5), method="bounded", options={"xatol": 1e-4}).fun))


def _followed(penalty: MixingPenalty, state: SQPState) -> MixingPenalty:
    """Return the penalty to follow after fixed weights: the problem's own, or an entropic step for l1.

    The step keeps its strength relative to the energies, which have grown with the number of samples.
    """
    if not isinstance(penalty, L1):
        return penalty
    local, before = state.local, state.penalty
    prices = penalty.prices(state.q.size)[local.kernels]
    pull = 2.0
    if isinstance(before, EntropicProx):
        pull = min(before.tau * float(np.max(state.q / before.prices)), PULL)
    shares = local.penalty.weights(local.q) * prices
    return EntropicProx(_floored(shares, state.tol), pull / max(float(np.max(local.q / prices)), 1e-300), prices)


def _floored(shares: np.ndarray, tol: float) -> np.ndarray:
    """Return the shares with none below the floor, on the simplex."""
    shares = np.maximum(shares, FLOOR * tol / shares.size)
    return shares / shares.sum()


def _close(problem: Problem, state: SQPState) -> None:
    """End a round: move all products by what its samples did."""
    state.penalty = _widened(problem, state)
    index = np.flatnonzero(state.moved != state.beta)
    state.still, state.wary = index.size == 0, False
    if state.still:
        return
    local = state.local
    if local.g.shape == state.g.shape:  # the round was about everything, so its products are all there are
        state.beta, state.g, state.q = state.moved, local.g, local.q
        return
    delta = state.moved[index] - state.beta[index]
    spread = problem.gram.spread(delta, index)
    along, bend = delta @ state.g[index], np.maximum(delta @ spread[index], 0.0)
    level = level_of(_gradient(state), state.beta, state.box)
    t = exact_step(state.penalty, state.q, along, bend, state.box.take(index), state.beta[index], delta, level)
    state.beta = state.moved if t == 1.0 else state.beta + t * (state.moved - state.beta)
    state.g += spread if t == 1.0 else t * spread
    state.q = np.maximum(state.q + t * (2.0 * along + t * bend), 0.0)
    state.wary = t < 1.0


def _widened(problem: Problem, state: SQPState) -> MixingPenalty:
    """Return the round's penalty for all kernels, those asleep at the floor."""
    local = state.local
    prox = local.penalty
    if local.kernels.size == state.q.size or not isinstance(prox, EntropicProx):
        return prox
    center = np.zeros(state.q.size)
    center[local.kernels] = prox.center
    return EntropicProx(_floored(center, state.tol), prox.tau, problem.penalty.prices(state.q.size))
