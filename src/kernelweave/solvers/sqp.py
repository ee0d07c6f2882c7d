"""Sequential quadratic programming on the duals: the default for stored kernels."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..losses.base import BoxQuadratic
from ..penalties.base import MixingPenalty
from ..penalties.norms import L1, EntropicProx, Fixed
from ..problem import Certificate, Point, Problem
from .base import Solver
from .smo import exact_step, violation_of

LEAST = 400  # samples below which the first round takes all
START = 0.02  # share of the dual value the first round works towards
ROUND = 0.03  # share of the gap every later round tries to leave
SPARE = 0.3  # share of the tolerance a round may leave
MARGIN = 0.3  # distance from violation at which a sample counts as settled
FOLLOWED = 2.0  # a proximal stage is followed well enough when the duals' gap is this many times the weights'
GROWTH = 4.0  # of the proximal step from stage to stage
TRIM = 1e-2  # times tol: share below which a kernel gets weight zero
FLOOR = 1e-4  # times tol: share every kernel keeps while the weights move, so that it can come back
NEWTON = 50  # most steps in a round
BUDGET = 10_000_000  # pair steps in one quadratic programme, never reached in practice


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
        if not hasattr(problem.loss, "quadratic"):
            return f"needs a loss with a quadratic dual, not {problem.loss}: use loss='hinge' or 'squared_hinge'."
        if not problem.penalty.smooth and not isinstance(problem.penalty, L1):
            return f"follows the gradient of the penalty, which {problem.penalty} lacks: use a smooth one or 'l1'."
        return None

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> SQPState:
        n, m = problem.gram.shape
        box = problem.loss.quadratic(problem.y, problem.C)
        flat = Fixed(problem.penalty.weights_of_norms(np.ones(m)))
        state = SQPState(box, flat, np.zeros(n), np.zeros((n, m)), np.zeros(m), tol)
        if start is None or not start.any():
            _open(state, _sample(problem.y, self.first), flat)
        else:
            state.beta = start.copy()
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

    def heed(self, problem: Problem, state: SQPState, certificate: Certificate) -> bool:
        width = certificate.upper - certificate.lower
        goal = max(ROUND * width, SPARE * state.tol * abs(certificate.upper))
        if state.still and goal >= 0.9 * state.goal:
            return False
        state.goal = goal
        rows = _unsettled(state)
        cold = rows.size > 1.5 * state.local.rows.size
        _open(state, rows, Fixed(state.penalty.weights(state.q)) if cold else state.penalty)
        return True

    def refresh(self, problem: Problem, state: SQPState) -> None:
        support = np.flatnonzero(state.beta)
        state.g = problem.gram.spread(state.beta[support], support)
        state.q = np.maximum(state.beta @ state.g, 0.0)


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
    kernels = _awake(state)
    if kernels.size < state.q.size:
        penalty = penalty.restrict(kernels, state.q.size)
    g = np.ascontiguousarray(state.g[np.ix_(rows, kernels)])
    state.local = Local(rows, kernels, penalty, state.beta[rows], g, state.q[kernels])


def _awake(state: SQPState) -> np.ndarray:
    """Return the kernels with a share worth following, or with an energy near the top."""
    prox = state.penalty
    if not isinstance(prox, EntropicProx):
        return np.arange(state.q.size)
    costs = state.q / prox.prices
    return np.flatnonzero((prox.shares(state.q) > 0.1 * TRIM * state.tol) | (costs > 0.9 * costs.max()))


def _unsettled(state: SQPState) -> np.ndarray:
    """Return the samples that are free, violate optimality, or nearly do."""
    box, beta = state.box, state.beta
    gradient = state.g @ state.penalty.weights(state.q) + box.ridge * beta - box.linear
    up, down = beta < box.upper, beta > box.lower
    free = up & down
    level = np.median(gradient[free]) if free.any() else 0.5 * (gradient[down].max() + gradient[up].min())
    return np.flatnonzero((up & (gradient < level + MARGIN)) | (down & (gradient > level - MARGIN)))


def _newton(problem: Problem, state: SQPState) -> bool:
    """One Newton step on the round's samples; True when the round has reached its goal or can do no more."""
    from ..compiled.quadratic import quadratic

    local = state.local
    box = state.box.take(local.rows)
    weights = local.penalty.weights(local.q)
    hessian = _hessian(problem, local, weights, box.ridge)
    gradient = local.g @ weights + box.ridge * local.beta - box.linear
    eps = 0.01 * min(violation_of(gradient, local.beta, box), 1.0)
    mass = float(np.abs(local.beta).sum() + np.abs(state.beta).sum())
    if np.isfinite(state.goal) and mass:
        eps = max(eps, 0.05 * state.goal / mass)
    beta = local.beta.copy()
    quadratic(hessian, gradient, beta, box.lower, box.upper, max(eps, 1e-15), BUDGET)
    progress = _advance(problem, local, beta, box)
    local.steps += 1
    return _reached(problem, state) or not progress or local.steps >= NEWTON


def _hessian(problem: Problem, local: Local, weights: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """Return the Hessian of the dual at the round's point: ``K_w + 2 G (dw/dq) G'`` and the loss's own."""
    full = np.zeros(problem.gram.shape[1])
    full[local.kernels] = np.where(weights > 1e-9 * weights.max(initial=0.0), weights, 0.0)
    hessian = problem.gram.combine(local.rows, full)
    curvature = local.penalty.curvature(local.q)
    bent = np.flatnonzero(np.diag(curvature) > 1e-9 * np.diag(curvature).max(initial=0.0))
    if bent.size:
        g = local.g[:, bent]
        hessian += (g @ (2.0 * curvature[np.ix_(bent, bent)])) @ g.T
    hessian.flat[:: ridge.size + 1] += ridge
    return hessian


def _advance(problem: Problem, local: Local, beta: np.ndarray, box: BoxQuadratic) -> bool:
    """Move towards ``beta`` as far as the objective falls; whether it fell."""
    delta = beta - local.beta
    index = np.flatnonzero(delta)
    if index.size == 0:
        return False
    spread = problem.gram.spread(delta[index], local.rows[index], local.rows, local.kernels)
    along, bend = delta @ local.g, np.maximum(delta @ spread, 0.0)
    t = exact_step(local.penalty, local.q, along, bend, box, local.beta, delta)
    local.beta = beta if t == 1.0 else local.beta + t * delta
    local.g += spread if t == 1.0 else t * spread
    local.q = np.maximum(local.q + t * (2.0 * along + t * bend), 0.0)
    return t > 0.0


def _reached(problem: Problem, state: SQPState) -> bool:
    """Whether the round's goal is met; where not, the penalty moves on once it has been followed well enough."""
    local = state.local
    if isinstance(local.penalty, Fixed) and not isinstance(problem.penalty, Fixed):
        local.penalty = _followed(problem.penalty, state)
        return False
    goal = state.goal if np.isfinite(state.goal) else START * float(state.box.linear[local.rows] @ local.beta)
    slack = _slack(problem, local)
    prox = local.penalty
    if not isinstance(prox, EntropicProx):
        return slack <= 0.5 * goal
    shares, costs = prox.shares(local.q), local.q / prox.prices
    mixing = 0.5 * (float(costs.max()) - float(shares @ costs))
    if mixing > 0.5 * goal and slack <= max(FOLLOWED * mixing, 0.5 * goal):
        local.penalty = EntropicProx(_floored(shares, state.tol), GROWTH * prox.tau, prox.prices)
    return slack <= 0.5 * goal and mixing <= 0.5 * goal


def _slack(problem: Problem, local: Local) -> float:
    """Duality gap that is due to the duals, the weights taken as they are."""
    loss, y, C = problem.loss, problem.y[local.rows], problem.C[local.rows]
    f = local.g @ local.penalty.weights(local.q)
    f = f + loss.best_bias(f, y, C)
    return float(np.sum(loss.value(f, y, C) - loss.dual(local.beta, y, C) + local.beta * f))


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
        pull = before.tau * float(np.max(state.q / before.prices))
    shares = local.penalty.weights(local.q) * prices
    return EntropicProx(_floored(shares, state.tol), pull / max(float(np.max(local.q / prices)), 1e-300), prices)


def _floored(shares: np.ndarray, tol: float) -> np.ndarray:
    """Return the shares with none below the floor, on the simplex."""
    shares = np.maximum(shares, FLOOR * tol / shares.size)
    return shares / shares.sum()


def _close(problem: Problem, state: SQPState) -> None:
    """End a round: move all products by what its samples did."""
    local, rows = state.local, state.local.rows
    state.penalty = _widened(local, state)
    delta = local.beta - state.beta[rows]
    index = np.flatnonzero(delta)
    state.still = index.size == 0
    if state.still:
        return
    spread = problem.gram.spread(delta[index], rows[index])
    along, bend = delta @ state.g[rows], np.maximum(delta @ spread[rows], 0.0)
    t = exact_step(state.penalty, state.q, along, bend, state.box.take(rows), state.beta[rows], delta)
    state.beta[rows] = local.beta if t == 1.0 else state.beta[rows] + t * delta
    state.g += spread if t == 1.0 else t * spread
    state.q = np.maximum(state.q + t * (2.0 * along + t * bend), 0.0)
    state.still = t == 0.0


def _widened(local: Local, state: SQPState) -> MixingPenalty:
    """Return the round's penalty for all kernels, those asleep at the floor."""
    prox, before = local.penalty, state.penalty
    if local.kernels.size == state.q.size or not isinstance(prox, EntropicProx):
        return prox
    center = np.zeros(state.q.size)
    center[local.kernels] = prox.center
    return EntropicProx(_floored(center, state.tol), prox.tau, before.prices)
