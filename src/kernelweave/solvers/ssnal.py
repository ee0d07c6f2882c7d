"""Semismooth Newton on the augmented Lagrangian of the errors, with the kernel weights in the same step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..arrays import Array, cholesky, device_of, like, namespace, scatter
from ..grams import FactorGram
from ..losses.base import DualTerms
from ..penalties.base import MixingPenalty
from ..problem import Certificate, Point, Problem, Status
from .base import Solver, factors
from .reduced import slope_unit


@dataclass(frozen=True)
class SsNALSettings:
    """Constants of the semismooth Newton method."""

    growth: float = 3.0  #: of the sharpness from one round to the next
    warm: float = 9.0  #: sharpness of the first round after a start was given
    sharpest: float = 1e5  #: inverse of the least width the loss's corner is rounded to, in units of the errors
    bluntest: float = 1.0  #: inverse of the largest
    inner: float = 0.3  #: gradient, relative to the move of the multipliers, at which a round is over
    last: float = 0.01  #: the same where the round may be the last: the duals then stand for the blocks
    flat: float = 0.1  #: share of the first slope at which a line search ends
    faint: float = 1e-8  #: share of the largest block norm below which a kernel counts as absent
    spark: float = 1e-7  #: share of the largest block norm that a kernel is given when it comes back
    nudge: float = 1e-4  #: relative change of a block norm by which the weights are differentiated
    ridge: float = 1e-10  #: relative ridge on the Newton matrix
    spare: float = 1e-14  #: share of the curvature along the bias that must be left for it to move
    balance: float = 1e-15  #: of the sum of all bounds: error of the duals' sum that counts as none
    trials: int = 100  #: steps of the search for the bias
    search: int = 40  #: steps of a line search
    longest: int = 100  #: steps after which a round is cut off
    cuts: int = 5  #: rounds cut off one after the other after which floating point has no more to give


SETTINGS = SsNALSettings()


@dataclass
class SsNALState:
    """Primal blocks ``x`` with their decision values, and multipliers ``alpha`` of the errors.

    ``p`` are the multipliers that the point asks for, which are feasible duals, and ``folded`` is ``V'p``.
    """

    tol: float
    rate: Array  # (n,) how fast multipliers move with the error, at sharpness 1
    alpha: Array  # (n,)
    x: Array  # (D,)
    f: Array  # (n,) V x
    sharpness: float = 1.0
    bias: float = 0.0
    p: Array = field(init=False)  # (n,)
    free: Array = field(init=False)  # (n,) whether p is strictly inside the bounds
    folded: Array = field(init=False)  # (D,)
    q: np.ndarray = field(init=False)  # (m,)
    norms: np.ndarray = field(init=False)  # (m,) of the blocks of x
    weights: np.ndarray = field(init=False)  # (m,)
    settled: bool = False
    steps: int = 0  # of this round
    cuts: int = 0  # rounds cut off up to the last one


class SsNAL(Solver):
    """Newton's method on the primal blocks, with the corner of the loss rounded less from round to round.

    For losses of two straight pieces: the hinge and the quantile loss, whose duals are linear between two bounds. A
    round minimises ``Omega(||x_1||, .., ||x_m||)`` plus the augmented Lagrangian of the errors, in the blocks ``x``
    of the features and the bias, by Newton steps with an exact line search. A step's matrix is the D x D Gram matrix
    of the samples on the rounded corner, as at fixed weights, plus the penalty's curvature along the blocks, of rank m:
    weights move with every step and there is no alternation. Kernels that a step would take past zero are left out,
    and come back if the duals ask for them.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> V = np.array([[1.0, 0.0], [2.0, 1.0], [-1.0, 1.0], [-2.0, 0.0]])
    >>> gram = kw.grams.LowRankGram(V, ranks=[1, 1])
    >>> problem = kw.Problem(gram, kw.losses.Hinge().bind([1.0, 1.0, -1.0, -1.0]), kw.penalties.L1())
    >>> kw.solve(problem, kw.solvers.SsNAL()).weights.round(3).tolist()
    [1.0, 0.0]
    """

    name = "ssnal"
    needs = (FactorGram,)
    takes = ("quadratic",)
    kinks = False
    biasless = True

    def refuse(self, problem: Problem) -> str | None:
        terms, xp = problem.loss.box, namespace(problem.loss.box.ridge)
        if bool(xp.any(terms.ridge > 0)) or not bool(xp.all(xp.isfinite(terms.upper - terms.lower))):
            return f"rounds the corner of two straight pieces, which {problem.loss} does not have: use solver='newton'."
        return None

    def init(self, problem: Problem, start: Array | None, tol: float) -> SsNALState:
        gram, zero, terms = factors(problem), problem.loss.zero, problem.loss.box
        rate = (terms.upper - terms.lower) / slope_unit(problem)
        state = SsNALState(tol, rate, zero, gram.rmatvec(zero), zero)
        if start is not None and bool(namespace(start).any(start != 0)):
            folded, penalty = gram.rmatvec(start), problem.penalty
            q = gram.squared_norms(folded)
            weights = penalty.weights(q) if penalty.smooth else penalty.weights_of_norms(np.ones(q.size))
            x = gram.per_column(weights) * folded
            state = SsNALState(tol, rate, start, x, gram.matvec(x), sharpness=SETTINGS.warm)
        _probe(problem, state)
        return state

    def step(self, problem: Problem, state: SsNALState) -> bool:
        if state.settled:
            state.alpha, state.sharpness = state.p, min(SETTINGS.growth * state.sharpness, SETTINGS.sharpest)
            state.steps = 0
            _probe(problem, state)
        dx, slip = _direction(problem, state)
        df = factors(problem).matvec(dx)
        t = _exact_step(problem, state, dx, df + slip)
        state.x, state.f, state.bias = state.x + t * dx, state.f + t * df, state.bias + t * slip
        _probe(problem, state)
        if t == 0 and not state.settled and state.norms.any():  # too sharp a corner to see where to go
            state.sharpness = max(state.sharpness / SETTINGS.growth**2, SETTINGS.bluntest)
            _probe(problem, state)
        state.settled |= t == 0
        state.steps += 1
        if state.settled:
            state.cuts = 0
        elif state.steps >= SETTINGS.longest:
            state.settled, state.cuts = True, state.cuts + 1
        return state.settled

    def adapt(self, problem: Problem, state: SsNALState, certificate: Certificate) -> Status | None:
        return Status.STALLED if state.cuts >= SETTINGS.cuts else None

    def read(self, problem: Problem, state: SsNALState) -> Point:
        gram = factors(problem)
        f = gram.matvec(gram.per_column(state.weights) * state.folded)
        return Point(state.p, state.weights.copy(), state.q.copy(), f)

    def refresh(self, problem: Problem, state: SsNALState) -> None:
        state.f = factors(problem).matvec(state.x)
        _probe(problem, state)


def _probe(problem: Problem, state: SsNALState) -> None:
    """Bring multipliers, weights and the question whether the round is over up to date with ``x`` and ``f``."""
    gram, terms, slope = factors(problem), problem.loss.box, state.sharpness * state.rate
    aim = state.alpha + slope * (terms.linear - state.f)
    if problem.bias:
        state.bias, aim = _balanced(terms, slope, aim, state.bias)
    state.free = (aim > terms.lower) & (aim < terms.upper)
    state.p = terms.project(aim)
    state.folded = gram.rmatvec(state.p)
    state.q = gram.squared_norms(state.folded)
    _wake(problem, state)
    live = state.weights > 0
    off = gram.squared_norms(state.x - gram.per_column(state.weights) * state.folded)
    gradient = float(np.sum(off[live] / state.weights[live]))
    moved = float(namespace(aim).sum((state.p - state.alpha) ** 2 / slope))
    near = _own_gap(problem, state) <= state.tol
    state.settled = gradient <= (SETTINGS.last if near else SETTINGS.inner) ** 2 * moved


def _balanced(terms: DualTerms, slope: Array, aim: Array, bias: float) -> tuple[float, Array]:
    """Return the bias at which ``aim - slope bias``, put within the bounds, sums to zero, and that aim."""
    xp, width = namespace(aim), terms.upper - terms.lower
    low, high = float(xp.min((aim - terms.upper) / slope)), float(xp.max((aim - terms.lower) / slope))
    enough = SETTINGS.balance * float(xp.sum(width))
    for _ in range(SETTINGS.trials):
        bias = bias if low < bias < high else 0.5 * (low + high)
        moved = aim - bias * slope
        excess = float(xp.sum(terms.project(moved)))
        if abs(excess) <= enough or bias in (low, high):
            break
        low, high = (bias, high) if excess > 0 else (low, bias)
        inside = (moved > terms.lower) & (moved < terms.upper)
        bend = float(xp.sum(xp.where(inside, slope, 0.0 * slope)))
        bias = bias + excess / bend if bend > 0 else high
    return bias, moved


def _wake(problem: Problem, state: SsNALState) -> None:
    """Set norms and weights of the blocks; an absent kernel is given a little block if the duals ask for it."""
    gram, penalty, roots = factors(problem), problem.penalty, np.sqrt(state.q)
    norms = np.sqrt(gram.squared_norms(state.x))
    top = float(norms.max())
    absent = norms <= SETTINGS.faint * top
    called = absent & (roots > _slope(penalty, norms) * (1.0 + SETTINGS.faint)) if top > 0 else np.zeros_like(absent)
    if called.any():
        share = np.where(called, SETTINGS.spark * top / np.where(called, roots, 1.0), 0.0)
        spark = gram.per_column(share) * state.folded
        state.x, state.f = state.x + spark, state.f + gram.matvec(spark)
        norms = np.where(called, SETTINGS.spark * top, norms)
    state.norms = norms
    state.weights = penalty.weights_of_norms(norms if top > 0 else np.ones_like(norms))
    state.weights[absent & ~called & (top > 0)] = 0.0


def _own_gap(problem: Problem, state: SsNALState) -> float:
    """Return the relative gap between the blocks' primal value and the multipliers' dual value."""
    upper = problem.penalty.norm(state.norms) + problem.total_loss(state.f, problem.best_bias(state.f))
    lower = problem.total_dual(state.p) - problem.penalty.value(state.q)
    return (upper - lower) / max(upper, 1e-300)


def _direction(problem: Problem, state: SsNALState) -> tuple[Array, float]:
    """Return the Newton step of the blocks and of the bias; kernels it takes past zero are stopped there."""
    gram, xp = factors(problem), namespace(state.rate)
    theta = xp.where(state.free, state.sharpness * state.rate, 0.0 * state.rate)
    matrix = gram.weighted(theta, xp.nonzero(state.free)[0])
    side, total = gram.rmatvec(theta), float(xp.sum(theta)) if problem.bias else np.inf
    radial = (state.norms > 0) & (state.weights > 0)
    cut = np.zeros_like(state.norms)
    for _ in range(3):
        dx, slip = _newton(problem, state, matrix, side, total, radial, cut)
        along = gram.inner(state.x, dx)
        past = radial & (along < -(state.norms**2))
        if not past.any():
            break
        radial &= ~past
        for share in (0.9, 1.0):
            slope = _slope(problem.penalty, np.where(past, (1.0 - share) * state.norms, state.norms))
            cut = np.where(past & (np.sqrt(state.q) < slope), share, cut)
    return dx, slip


def _slope(penalty: MixingPenalty, norms: np.ndarray) -> np.ndarray:
    """Return the slope of the primal penalty in each norm, at least from what counts as absent on."""
    norms = np.maximum(norms, SETTINGS.faint * norms.max())
    weights = penalty.weights_of_norms(norms)
    return np.where(weights > 0, norms / np.where(weights > 0, weights, 1.0), np.inf)


def _newton(
    problem: Problem,
    state: SsNALState,
    matrix: Array,  # (D, D)
    side: Array,  # (D,)
    total: float,
    radial: np.ndarray,  # (m,) whether a kernel's curvature along its block is followed
    cut: np.ndarray,  # (m,) share of a kernel's block that is given up, the rest of it staying as it is
) -> tuple[Array, float]:
    """Solve the Newton system, scaled so that the penalty's part is near the identity."""
    gram, xp = factors(problem), namespace(matrix)
    root = gram.per_column(np.sqrt(state.weights))
    inverse = gram.per_column(_inverse(np.sqrt(state.weights)))
    z, side = state.x * inverse, root * side
    gradient = z - root * state.folded
    hat = state.x * gram.per_column(_inverse(state.norms) * radial)
    kernel = like(matrix, np.repeat(np.arange(gram.ranks.size), gram.ranks), "int64")
    bend = like(matrix, _bend(problem.penalty, state.norms, state.weights, radial))
    bend = xp.take(xp.take(bend, kernel, axis=0), kernel, axis=1)
    matrix = matrix * (root[:, None] * root[None, :])
    stop = gram.per_column(cut)
    push = gradient - matrix @ (stop * z)
    moving = np.repeat((state.weights > 0) & (cut == 0), gram.ranks)
    if not moving.any():
        return -root * stop * z, float(side @ (stop * z)) / total if total > 0 else 0.0
    inside = like(matrix, np.flatnonzero(moving), "int64")
    solve = _factor(matrix, bend * (hat[:, None] * hat[None, :]), inside)
    push_in, side_in = xp.take(push, inside), xp.take(side, inside)
    lean, tilt = solve(push_in), solve(side_in)
    spare = total - float(side_in @ tilt)
    slip = float(side_in @ lean) + float(side @ (stop * z))
    slip = slip / spare if spare > SETTINGS.spare * total else 0.0
    dz = scatter(-lean - slip * tilt, inside, z.shape[0]) - stop * z
    return root * dz, slip


def _inverse(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, 1.0 / np.where(values > 0, values, 1.0), 0.0)


def _bend(penalty: MixingPenalty, norms: np.ndarray, weights: np.ndarray, radial: np.ndarray) -> np.ndarray:
    """Return the penalty's curvature in the norms ``radial``, less that of the quadratic which touches it from above.

    Scaled by the roots of the weights on both sides, so that the quadratic's is the identity.
    """
    index, nudge = np.flatnonzero(radial), SETTINGS.nudge
    rates = np.empty((index.size, index.size))
    for place, k in enumerate(index):
        nudged = [norms * np.exp(np.where(np.arange(norms.size) == k, h, 0.0)) for h in (-nudge, nudge)]
        less, more = (np.log(penalty.weights_of_norms(u)[index]) for u in nudged)
        rates[:, place] = (more - less) / (2.0 * nudge)
    stiff = norms[index] / np.sqrt(weights[index])
    rates = stiff[:, None] * rates / stiff
    values, vectors = np.linalg.eigh(-0.5 * (rates + rates.T))
    bend = np.zeros((norms.size, norms.size))
    bend[np.ix_(index, index)] = (vectors * np.maximum(values, -1.0)) @ vectors.T
    return bend


def _factor(matrix: Array, bend: Array, inside: Array) -> Callable[[Array], Array]:
    """Factor the identity plus both matrices on the columns ``inside``; without ``bend`` if that is not definite."""
    xp = namespace(matrix)
    eye = xp.eye(inside.shape[0], dtype=matrix.dtype, device=device_of(matrix))
    part = _square(matrix, inside)
    ridge = SETTINGS.ridge * float(xp.max(xp.abs(part)))
    solve = cholesky(part + _square(bend, inside) + (1.0 + ridge) * eye) or cholesky(part + (1.0 + ridge) * eye)
    if solve is None:
        raise FloatingPointError("The Newton matrix is not definite: are the features finite?")
    return solve


def _square(matrix: Array, index: Array) -> Array:
    xp = namespace(matrix)
    return matrix if index.shape[0] == matrix.shape[0] else xp.take(xp.take(matrix, index, axis=0), index, axis=1)


def _exact_step(problem: Problem, state: SsNALState, dx: Array, df: Array) -> float:
    """Return the step in [0, 1] at which the augmented Lagrangian stops falling."""
    gram, penalty, terms = factors(problem), problem.penalty, problem.loss.box
    slope_of_aim = state.sharpness * state.rate
    aim = state.alpha + slope_of_aim * (terms.linear - state.f - state.bias)
    gain = slope_of_aim * df
    energy, along = gram.squared_norms(state.x), gram.inner(state.x, dx)
    bend = gram.squared_norms(dx)

    def slope(t: float) -> float:
        norms = np.sqrt(np.maximum(energy + t * (2.0 * along + t * bend), 0.0))
        weights = penalty.weights_of_norms(norms)
        rise = (along + t * bend) * _inverse(np.where(norms > 0, weights, 0.0))
        return float(np.sum(rise)) - float(terms.project(aim - t * gain) @ df)

    return _root(slope)


def _root(slope: Callable[[float], float]) -> float:
    """Return where in [0, 1] an increasing function is near zero, relative to its value at 0."""
    low, high, t = 0.0, 1.0, 1.0
    first = below = slope(1e-12)  # to the right of a kink that may be at 0
    above = 0.0
    if first >= 0:
        return 0.0
    for attempt in range(SETTINGS.search):
        value = slope(t)
        if abs(value) <= SETTINGS.flat * abs(first) or (t == 1.0 and value < 0):
            break
        if value < 0:
            low, below = t, value
        else:
            high, above = t, value
        t = 0.5 * (low + high) if attempt % 3 == 2 or above == below else (low * above - high * below) / (above - below)
        t = min(max(t, 0.95 * low + 0.05 * high), 0.05 * low + 0.95 * high)
    return t
