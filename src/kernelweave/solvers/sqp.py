"""Sequential quadratic programming on the duals: the default for stored kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm
from scipy.optimize import minimize_scalar

from ..arrays import cholesky
from ..grams import CombinableGram
from ..losses.base import DualTerms
from ..penalties import Fixed
from ..penalties.base import MixingPenalty
from ..penalties.prox import floored
from ..problem import Certificate, Point, Problem, Status
from .base import Solver, centred_box, combinable, first_duals, no_gradient, unit_of
from .smo import exact_step, level_of, violation_of


@dataclass(frozen=True)
class SQPSettings:
    """Constants of the default solver; margins are in units of the slopes, goals are shares of the objective."""

    least: int = 1000  #: samples up to which the first round takes all, and goes to the end
    start: float = 0.02  #: share of the dual value that rounds on new samples work towards
    spare: float = 0.5  #: share of the tolerance that the other rounds work towards
    margin: float = 0.3  #: distance from violation at which a sample counts as settled when a round begins
    narrow: float = 0.05  #: the same near the end, at least
    wide: float = 0.7  #: the same within a round, where less is known
    behind: float = 0.1  #: share of the gap due to the weights at which a proximal stage is left for the next
    settled: float = 10.0  #: the weights' gap, in gains of the last step, at which it is left too
    first_strength: float = 2.0  #: of the first proximal stage
    growth: float = 3.0  #: of the proximal step from stage to stage
    pull: float = 30.0  #: most strength of the first proximal step after the samples changed much
    strongest: float = 3e3  #: most strength of a proximal step: beyond it Newton's steps drown in rounding
    trim: float = 1e-2  #: times tol: share below which a kernel gets weight zero
    nothing: float = 1e-8  #: share below which it does in the end, whatever the tolerance
    floor: float = 1e-4  #: times tol: share every kernel keeps while the weights move, so that it can come back
    faint: float = 1e-9  #: share of the largest weight or curvature that is not followed
    least_goal: float = 1e-15  #: share of the objective below which floating point has no more to give
    dust: float = 1e-14  #: share of the largest dual that counts as none
    newton: int = 50  #: most steps in a round
    inner: float = 0.01  #: share of the violation to which a quadratic programme is solved
    inner_goal: float = 0.1  #: share of the round's goal to which it is, where that is less
    budget: int = 200  #: pair steps in one quadratic programme, per sample
    turn: int = 8  #: pair steps, per sample, between two Newton steps on the free duals
    jitter: float = 1e-10  #: ridge of these, as a share of the mean diagonal
    halvings: int = 8  #: of such a step that does not lower the objective


SETTINGS = SQPSettings()


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

    box: DualTerms
    penalty: MixingPenalty
    beta: np.ndarray  # (n,)
    g: np.ndarray  # (n, m)
    q: np.ndarray  # (m,)
    tol: float
    unit: float  # size of the slopes
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
        Share of the samples, drawn evenly from those with large and with small targets, that the first round works on.

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

    def __init__(self, first: float = 0.25):
        self.first = first

    def refuse(self, problem: Problem) -> str | None:
        share: Any = self.first
        if not isinstance(share, Real) or not 0 < float(share) <= 1:
            return f"takes a share of the samples, above 0 and up to 1, as first, not {share!r}."
        return no_gradient(problem)

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> SQPState:
        n, m = problem.gram.shape
        box = centred_box(problem)
        flat = Fixed(problem.penalty.weights_of_norms(np.ones(m)))
        state = SQPState(box, flat, first_duals(problem), np.zeros((n, m)), np.zeros(m), tol, unit_of(problem))
        if start is None or not start.any():
            if state.beta.any():
                self.refresh(problem, state)
            _open(state, np.union1d(_sample(box.linear, self.first), np.flatnonzero(state.beta)), flat)
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
        weights = state.penalty.trimmed(state.q, SETTINGS.trim * state.tol)
        return Point(state.beta.copy(), weights, state.q.copy(), state.g @ weights)

    def finish(self, problem: Problem, point: Point) -> list[Point]:
        """Return the point of l1 without kernels whose share is next to nothing."""
        shares = point.weights * problem.penalty.prices(point.weights.size)
        faint = (shares > 0) & (shares < SETTINGS.nothing)
        if not problem.penalty.on_simplex or not faint.any():
            return []
        return [Point(point.beta, np.where(faint, 0.0, point.weights))]

    def adapt(self, problem: Problem, state: SQPState, certificate: Certificate) -> Status | None:
        gradient = _gradient(state)
        violation = violation_of(gradient, state.beta, state.box) / state.unit
        margin = float(np.clip(3.0 * violation, SETTINGS.narrow, SETTINGS.margin))
        rows = _unsettled(gradient, state.beta, state.box, margin * state.unit)
        cold = rows.size > 1.5 * state.local.rows.size
        whole = cold or state.still or rows.size < 2
        rows = np.arange(state.beta.size) if whole else rows
        size = abs(certificate.upper)
        goal = SETTINGS.start * abs(certificate.lower) if cold else SETTINGS.spare * state.tol * size
        least = SETTINGS.least_goal * size
        if state.still and state.goal <= least:
            return Status.STALLED
        goal = max(min(goal, 0.1 * state.goal) if state.still else goal, least)
        state.goal = goal
        _open(state, rows, Fixed(state.penalty.weights(state.q)) if cold else state.penalty)
        return None

    def refresh(self, problem: Problem, state: SQPState) -> None:
        support = np.flatnonzero(state.beta)
        state.g = combinable(problem).weighted_columns(state.beta[support], support)
        state.q = np.maximum(state.beta @ state.g, 0.0)


def _gradient(state: SQPState) -> np.ndarray:
    return state.g @ state.penalty.weights(state.q) + state.box.ridge * state.beta - state.box.linear


def _sample(linear: np.ndarray, share: float) -> np.ndarray:
    """Return a seeded share of the samples with small and with large linear terms, in order; all of a small problem.

    These are the two classes where there are classes.
    """
    share = max(share, SETTINGS.least / linear.size)
    if share >= 1:
        return np.arange(linear.size)
    rng = np.random.default_rng(0)
    large = linear > linear.mean()
    parts = [rng.permutation(np.flatnonzero(side)) for side in (~large, large)]
    return np.sort(np.concatenate([part[: int(np.ceil(share * part.size))] for part in parts]))


def _open(state: SQPState, rows: np.ndarray, penalty: MixingPenalty) -> None:
    """Begin a round on ``rows`` with the kernels that are active."""
    every = np.arange(state.q.size)
    found = state.penalty.active(state.q, 0.1 * SETTINGS.trim * state.tol)
    kernels = every if state.wary or 4 * found.size >= every.size else found
    if kernels.size < state.q.size:
        penalty = penalty.restrict(kernels, state.q.size)
    g = np.ascontiguousarray(state.g[np.ix_(rows, kernels)])
    state.moved = state.beta.copy()
    state.local = Local(rows, kernels, penalty, state.beta[rows], g, state.q[kernels])


def _unsettled(gradient: np.ndarray, beta: np.ndarray, box: DualTerms, margin: float) -> np.ndarray:
    """Return the samples that are free, violate optimality, or are within ``margin`` of doing so."""
    rising, falling = box.directed(gradient, beta)
    up, down, level = beta < box.upper, beta > box.lower, level_of(gradient, beta, box)
    return np.flatnonzero((up & (rising < level + margin)) | (down & (falling > level - margin)))


def _shrink(state: SQPState) -> None:
    """Let go, for the rest of the round, of samples that are far from mattering."""
    local = state.local
    box = state.box.take(local.rows)
    gradient = local.g @ local.penalty.weights(local.q) + box.ridge * local.beta - box.linear
    margin = max(SETTINGS.wide * state.unit, violation_of(gradient, local.beta, box))
    kept = _unsettled(gradient, local.beta, box, margin)
    if 2 <= kept.size < 0.75 * local.rows.size:
        local.rows, local.beta, local.g = local.rows[kept], local.beta[kept], local.g[kept]


def _newton(problem: Problem, state: SQPState) -> bool:
    """One Newton step on the round's samples; True when the round has reached its goal or can do no more."""
    local = state.local
    box = state.box.take(local.rows)
    weights = local.penalty.weights(local.q)
    hessian = _hessian(problem, local, weights, box.ridge)
    gradient = local.g @ weights + box.ridge * local.beta - box.linear
    level = level_of(gradient, local.beta, box)
    eps = SETTINGS.inner * min(violation_of(gradient, local.beta, box), state.unit)
    mass = float(np.abs(state.moved).sum())
    if np.isfinite(state.goal) and mass > 0:
        eps = max(eps, SETTINGS.inner_goal * state.goal / mass)
    beta, eps = local.beta.copy(), max(eps, 1e-15 * state.unit)
    _programme(hessian, gradient, beta, box, eps)
    followed = local.penalty
    t, fall = _advance(problem, local, beta, box, level)
    local.steps += 1
    state.moved[local.rows] = local.beta
    done = _reached(problem, state, t, fall)
    done = done or (fall <= 0.0 and local.penalty is followed) or local.steps >= SETTINGS.newton
    if not done:
        _shrink(state)
    return done


def _programme(hessian: np.ndarray, gradient: np.ndarray, beta: np.ndarray, box: DualTerms, eps: float) -> None:
    """Solve a step's quadratic programme by SMO; where many duals are free, Newton steps on these come in between.

    ``beta`` and ``gradient``, which is without kinks, follow.
    """
    from ..compiled.quadratic import quadratic

    bounds, n = (box.lower, box.upper, box.kink), beta.size
    left = SETTINGS.budget
    while left > 0:
        turn = min(SETTINGS.turn, left)
        if quadratic(hessian, gradient, beta, *bounds, eps, turn * n) < turn * n:
            return
        left -= turn
        if not _newton_on_free(hessian, gradient, beta, box):
            break
    quadratic(hessian, gradient, beta, *bounds, eps, left * n)


def _newton_on_free(hessian: np.ndarray, gradient: np.ndarray, beta: np.ndarray, box: DualTerms) -> bool:
    """Move the free duals to where the quadratic is least, cut off at bounds and kinks; False where it is no use."""
    free = np.flatnonzero((beta > box.lower) & (beta < box.upper) & ((beta != 0) | (box.kink == 0)))
    if free.size < 2:
        return False
    part, sign = box.take(free), np.sign(beta[free])
    square = hessian[np.ix_(free, free)]
    square.flat[:: free.size + 1] += SETTINGS.jitter * float(np.mean(np.diag(hessian)))
    solve = cholesky(square)
    if solve is None:
        return False
    slope = gradient[free] + part.kink * sign
    lean, level = solve(slope), solve(np.ones(free.size))
    step = level * (lean.sum() / level.sum()) - lean
    low = np.where((part.kink > 0) & (sign > 0), 0.0, part.lower)
    high = np.where((part.kink > 0) & (sign < 0), 0.0, part.upper)
    for halving in range(SETTINGS.halvings):
        moved = _cut_off(beta[free] + 0.5**halving * step, low, high, float(beta[free].sum()))
        delta = moved - beta[free]
        change = hessian[:, free] @ delta
        if float(slope @ delta) + 0.5 * float(delta @ change[free]) < 0.0:
            beta[free] = moved
            gradient += change
            return True
    return False


def _cut_off(wanted: np.ndarray, low: np.ndarray, high: np.ndarray, total: float) -> np.ndarray:
    """Return the point between bounds nearest to ``wanted`` whose sum is ``total``, by halving the shift it takes."""
    size = float(np.max(np.abs(wanted - np.clip(wanted, low, high)), initial=0.0))
    if size == 0.0:
        return wanted
    down, up = -size * wanted.size, size * wanted.size
    for _ in range(100):
        shift = 0.5 * (down + up)
        excess = float(np.clip(wanted - shift, low, high).sum()) - total
        down, up = (shift, up) if excess > 0 else (down, shift)
    return np.clip(wanted - shift, low, high)


def _hessian(problem: Problem, local: Local, weights: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """Return the Hessian of the dual at the round's point: ``K_w + 2 G (dw/dq) G'`` and the loss's own."""
    full = np.zeros(problem.gram.shape[1])
    full[local.kernels] = np.where(weights > SETTINGS.faint * weights.max(initial=0.0), weights, 0.0)
    hessian = combinable(problem).combine(local.rows, full)
    curvature = local.penalty.curvature(local.q)
    bent = np.flatnonzero(np.diag(curvature) > SETTINGS.faint * np.diag(curvature).max(initial=0.0))
    if bent.size:
        g = local.g[:, bent]
        bend = g @ (2.0 * curvature[np.ix_(bent, bent)])
        hessian = dgemm(1.0, bend, g, trans_b=True, beta=1.0, c=hessian.T, overwrite_c=True).T
    hessian.flat[:: ridge.size + 1] += ridge
    return hessian


def _advance(
    problem: Problem, local: Local, beta: np.ndarray, box: DualTerms, level: float
) -> tuple[float, float]:
    """Move towards ``beta`` as far as the objective falls; how far, from 0 to 1, and about how much it fell."""
    delta = beta - local.beta
    index = np.flatnonzero(np.abs(delta) > _dust(beta))
    if index.size == 0:
        return 1.0, 0.0
    columns = combinable(problem).weighted_columns(delta[index], local.rows[index], local.rows, local.kernels)
    along, bend = delta @ local.g, np.maximum(delta @ columns, 0.0)
    t = exact_step(local.penalty, local.q, along, bend, box, local.beta, delta, level)
    slope = float(local.penalty.weights(local.q) @ along + (box.ridge * local.beta - box.linear - level) @ delta)
    if box.kinked:
        slope += float(box.kink @ np.where(local.beta == 0, np.abs(delta), np.sign(local.beta) * delta))
    beta = beta if t == 1.0 else local.beta + t * delta
    local.beta = _snapped(beta, box)
    local.g += columns if t == 1.0 else t * columns
    local.q = np.maximum(local.q + t * (2.0 * along + t * bend), 0.0)
    return t, -0.5 * t * slope


def _dust(beta: np.ndarray) -> float:
    return SETTINGS.dust * float(np.abs(beta).max(initial=0.0))


def _snapped(beta: np.ndarray, box: DualTerms) -> np.ndarray:
    """Return the duals with those next to a bound, or a kink, on it.

    Others would seem to violate optimality and could not move.
    """
    dust = _dust(beta)
    beta = np.where((np.abs(beta) <= dust) & (box.kink > 0), 0.0, beta)
    beta = np.where(beta - box.lower <= dust, box.lower, beta)
    return np.where(box.upper - beta <= dust, box.upper, beta)


def _reached(problem: Problem, state: SQPState, t: float, fall: float) -> bool:
    """Whether the round's goal is met; where not, the penalty moves on if the weights are what is behind."""
    local = state.local
    if local.penalty.fixed and not problem.penalty.fixed:
        local.penalty = _followed(problem.penalty, state)
        return False
    slack, mixing = _slack(problem, local), local.penalty.mixing_gap(local.q)
    goal = state.goal if np.isfinite(state.goal) else _first_goal(state)
    if slack + mixing <= goal:
        return True
    behind = min(SETTINGS.behind * (slack + mixing), SETTINGS.settled * fall)
    if mixing > 0.5 * goal and t > 0.5 and mixing > behind:
        floor = SETTINGS.floor * state.tol
        local.penalty = local.penalty.next_stage(local.q, SETTINGS.growth, SETTINGS.strongest, floor)
    return False


def _first_goal(state: SQPState) -> float:
    """Return the accuracy that the first round works towards, from the size of the dual value of its samples."""
    local, box = state.local, state.box.take(state.local.rows)
    share = SETTINGS.spare * state.tol if state.beta.size <= SETTINGS.least else SETTINGS.start
    loss = float(box.linear @ local.beta - box.kink @ np.abs(local.beta))
    return share * max(abs(loss), 0.5 * float(local.penalty.weights(local.q) @ local.q))


def _slack(problem: Problem, local: Local) -> float:
    """Duality gap that is due to the duals, the weights taken as they are, at the best scale of the primal.

    Samples outside the round are settled: their loss is linear along the scale, and ``sum_i beta_i f_i = w'q``.
    """
    loss, beta = problem.loss.take(local.rows), local.beta
    weights = local.penalty.weights(local.q)
    f, energy = local.g @ weights, float(weights @ local.q)
    dual, inside, held = float(np.sum(loss.dual(beta))), float(beta @ f), float(beta.sum())
    box = loss.box
    free = (beta < box.upper) & (beta > box.lower) & ((beta != 0) | (box.kink == 0))
    at = box.linear - box.ridge * beta - box.kink * np.sign(beta)  # what decision values of free samples are in the end

    def gap(t: float) -> float:
        bias = float(np.median((at - t * f)[free])) if free.any() else loss.best_bias(t * f, held)
        primal = float(np.sum(loss.value(t * f + bias) + bias * beta))
        return 0.5 * (t * t + 1.0) * energy - t * (energy - inside) + primal - dual

    return min(gap(1.0), float(minimize_scalar(gap, bounds=(0.5, 1.5), method="bounded", options={"xatol": 1e-4}).fun))


def _followed(penalty: MixingPenalty, state: SQPState) -> MixingPenalty:
    """Return the penalty to follow after fixed weights: the problem's own, or a proximal stage for l1.

    The stage keeps its strength relative to the energies, which have grown with the number of samples.
    """
    if not penalty.on_simplex:
        return penalty
    local, m = state.local, state.q.size
    own = penalty.restrict(local.kernels, m) if local.kernels.size < m else penalty
    strength = min(state.penalty.stage_strength(state.q), SETTINGS.pull) or SETTINGS.first_strength
    shares = local.penalty.weights(local.q) * own.prices(local.kernels.size)
    return own.stage(local.q, "entropic", floored(shares, SETTINGS.floor * state.tol), strength)


def _close(problem: Problem, state: SQPState) -> None:
    """End a round: move all products by what its samples did."""
    prices = problem.penalty.prices(state.q.size)
    state.penalty = state.local.penalty.widened(state.local.kernels, prices, SETTINGS.floor * state.tol)
    index = np.flatnonzero(state.moved != state.beta)
    state.still, state.wary = index.size == 0, False
    if state.still:
        return
    local = state.local
    if local.g.shape == state.g.shape:  # the round was about everything, so its products are all there are
        state.beta, state.g, state.q = state.moved, local.g, local.q
        return
    delta = state.moved[index] - state.beta[index]
    columns = combinable(problem).weighted_columns(delta, index)
    along, bend = delta @ state.g[index], np.maximum(delta @ columns[index], 0.0)
    level = level_of(_gradient(state), state.beta, state.box)
    t = exact_step(state.penalty, state.q, along, bend, state.box.take(index), state.beta[index], delta, level)
    state.beta = state.moved if t == 1.0 else state.beta + t * (state.moved - state.beta)
    state.g += columns if t == 1.0 else t * columns
    state.q = np.maximum(state.q + t * (2.0 * along + t * bend), 0.0)
    state.wary = t < 1.0
