"""Semismooth Newton on the augmented Lagrangian of the hinge's slack, with the kernel weights in the same step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..arrays import Array, cholesky, device_of, like, namespace, spread
from ..losses import Hinge
from ..penalties.base import MixingPenalty
from ..problem import Point, Problem
from .base import Solver

GROWTH = 3.0  # of the sharpness from one round to the next
SHARPEST = 1e5  # inverse of the least width the hinge's corner is rounded to
INNER = 0.3  # gradient, relative to the move of the multipliers, at which a round is over
LAST = 0.01  # the same where the round may be the last: the duals then stand for the blocks
FLAT = 0.1  # share of the first slope at which a line search ends
FAINT = 1e-8  # share of the largest block norm below which a kernel counts as absent
SPARK = 1e-7  # share of the largest block norm that a kernel is given when it comes back
NUDGE = 1e-4  # relative change of a block norm by which the weights are differentiated
RIDGE = 1e-10  # relative ridge on the Newton matrix


@dataclass
class SsNALState:
    """Primal blocks ``x`` with their decision values, and multipliers ``alpha`` of the slack.

    ``p`` are the multipliers that the point asks for; signed, they are feasible duals, and ``folded`` is ``V' (y p)``.
    """

    tol: float
    alpha: Array  # (n,)
    x: Array  # (D,)
    f: Array  # (n,) V x
    sharpness: float = 1.0
    bias: float = 0.0
    p: Array = field(init=False)  # (n,)
    free: Array = field(init=False)  # (n,) whether p is strictly inside the box
    folded: Array = field(init=False)  # (D,)
    q: np.ndarray = field(init=False)  # (m,)
    norms: np.ndarray = field(init=False)  # (m,) of the blocks of x
    weights: np.ndarray = field(init=False)  # (m,)
    settled: bool = False


class SsNAL(Solver):
    """Newton's method on the primal blocks, with the corner of the hinge rounded less from round to round.

    A round minimises ``Omega(||x_1||, .., ||x_m||)`` plus the augmented Lagrangian of the slacks, in the blocks ``x``
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
    >>> problem = kw.Problem(gram, kw.losses.Hinge(), kw.penalties.L1(), np.array([1.0, 1.0, -1.0, -1.0]), C=1.0)
    >>> kw.solve(problem, kw.solvers.SsNAL()).weights.round(3).tolist()
    [1.0, 0.0]
    """

    name = "ssnal"
    needs = ("fold", "lift", "weighted")

    def refuse(self, problem: Problem) -> str | None:
        if not isinstance(problem.loss, Hinge):
            return f"rounds the corner of the hinge, and {problem.loss} has none: use solver='newton'."
        return None

    def init(self, problem: Problem, start: Array | None, tol: float) -> SsNALState:
        gram, y = problem.gram, problem.y
        m = gram.shape[1]
        zero = 0.0 * y
        state = SsNALState(tol, zero, gram.fold(zero), zero)
        if start is not None and bool(namespace(start).any(start != 0)):
            folded, penalty = gram.fold(start), problem.penalty
            weights = penalty.weights(gram.energies(folded)) if penalty.smooth else penalty.weights_of_norms(np.ones(m))
            x = gram.per_column(weights) * folded
            state = SsNALState(tol, y * start, x, gram.lift(x), sharpness=GROWTH**2)
        _probe(problem, state)
        return state

    def step(self, problem: Problem, state: SsNALState) -> bool:
        if state.settled:
            state.alpha, state.sharpness = state.p, min(GROWTH * state.sharpness, SHARPEST)
            _probe(problem, state)
        dx, slip = _direction(problem, state)
        df = problem.gram.lift(dx)
        t = _exact_step(problem, state, dx, df + slip)
        state.x, state.f, state.bias = state.x + t * dx, state.f + t * df, state.bias + t * slip
        _probe(problem, state)
        state.settled |= t == 0
        return state.settled

    def read(self, problem: Problem, state: SsNALState) -> Point:
        f = problem.gram.lift(problem.gram.per_column(state.weights) * state.folded)
        return Point(problem.y * state.p, state.weights.copy(), state.q.copy(), f)

    def refresh(self, problem: Problem, state: SsNALState) -> None:
        state.f = problem.gram.lift(state.x)
        _probe(problem, state)


def _probe(problem: Problem, state: SsNALState) -> None:
    """Bring multipliers, weights and the question whether the round is over up to date with ``x`` and ``f``."""
    gram, y, C = problem.gram, problem.y, problem.C
    xp, slope = namespace(y), state.sharpness * C
    state.bias, aim = _balanced(y, C, slope, state.alpha + slope * (1.0 - y * state.f), state.bias)
    state.free = (aim > 0) & (aim < C)
    state.p = _clip(aim, C)
    state.folded = gram.fold(y * state.p)
    state.q = gram.energies(state.folded)
    _wake(problem, state)
    live = state.weights > 0
    off = gram.energies(state.x - gram.per_column(state.weights) * state.folded)
    gradient = float(np.sum(off[live] / state.weights[live]))
    moved = float(xp.sum((state.p - state.alpha) ** 2 / slope))
    near = _own_gap(problem, state) <= state.tol
    state.settled = gradient <= (LAST if near else INNER) ** 2 * moved


def _clip(aim: Array, C: Array) -> Array:
    xp = namespace(aim)
    return xp.minimum(xp.maximum(aim, 0.0 * C), C)


def _balanced(y: Array, C: Array, slope: Array, aim: Array, bias: float) -> tuple[float, Array]:
    """Return the bias at which the clipped ``aim - slope y bias`` balance the classes, and that aim."""
    xp = namespace(y)
    low = float(xp.min(xp.where(y > 0, aim - C, -aim) / slope))
    high = float(xp.max(xp.where(y > 0, aim, C - aim) / slope))
    enough = 1e-15 * float(xp.sum(C))
    for _ in range(100):
        bias = bias if low < bias < high else 0.5 * (low + high)
        moved = aim - bias * slope * y
        excess = float(xp.sum(y * _clip(moved, C)))
        if abs(excess) <= enough or bias in (low, high):
            break
        low, high = (bias, high) if excess > 0 else (low, bias)
        bend = float(xp.sum(xp.where((moved > 0) & (moved < C), slope, 0.0 * slope)))
        bias = bias + excess / bend if bend > 0 else high
    return bias, moved


def _wake(problem: Problem, state: SsNALState) -> None:
    """Set norms and weights of the blocks; an absent kernel is given a little block if the duals ask for it."""
    gram, penalty, roots = problem.gram, problem.penalty, np.sqrt(state.q)
    norms = np.sqrt(gram.energies(state.x))
    top = float(norms.max())
    absent = norms <= FAINT * top
    called = absent & (roots > _slope(penalty, norms) * (1.0 + FAINT)) if top > 0 else np.zeros_like(absent)
    if called.any():
        spark = gram.per_column(np.where(called, SPARK * top / np.where(called, roots, 1.0), 0.0)) * state.folded
        state.x, state.f = state.x + spark, state.f + gram.lift(spark)
        norms = np.where(called, SPARK * top, norms)
    state.norms = norms
    state.weights = penalty.weights_of_norms(norms if top > 0 else np.ones_like(norms))
    state.weights[absent & ~called & (top > 0)] = 0.0


def _own_gap(problem: Problem, state: SsNALState) -> float:
    """Return the relative gap between the blocks' primal value and the multipliers' dual value."""
    xp, loss, y, C = namespace(problem.y), problem.loss, problem.y, problem.C
    bias = loss.best_bias(state.f, y, C)
    upper = problem.penalty.norm(state.norms) + float(xp.sum(loss.value(state.f + bias, y, C)))
    return 1.0 - (float(xp.sum(state.p)) - problem.penalty.value(state.q)) / upper


def _direction(problem: Problem, state: SsNALState) -> tuple[Array, float]:
    """Return the Newton step of the blocks and of the bias; kernels it takes past zero are stopped there."""
    gram, xp = problem.gram, namespace(problem.y)
    theta = xp.where(state.free, state.sharpness * problem.C, 0.0 * problem.C)
    matrix = gram.weighted(theta, xp.nonzero(state.free)[0])
    side, total = gram.fold(theta), float(xp.sum(theta))
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
    norms = np.maximum(norms, FAINT * norms.max())
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
    gram, xp = problem.gram, namespace(matrix)
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
    slip = slip / spare if spare > 1e-14 * total else 0.0
    dz = spread(-lean - slip * tilt, inside, z.shape[0]) - stop * z
    return root * dz, slip


def _inverse(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, 1.0 / np.where(values > 0, values, 1.0), 0.0)


def _bend(penalty: MixingPenalty, norms: np.ndarray, weights: np.ndarray, radial: np.ndarray) -> np.ndarray:
    """Return the penalty's curvature in the norms ``radial``, less that of the quadratic which touches it from above.

    Scaled by the roots of the weights on both sides, so that the quadratic's is the identity.
    """
    index = np.flatnonzero(radial)
    rates = np.empty((index.size, index.size))
    for place, k in enumerate(index):
        nudged = [norms * np.exp(np.where(np.arange(norms.size) == k, h, 0.0)) for h in (-NUDGE, NUDGE)]
        less, more = (np.log(penalty.weights_of_norms(u)[index]) for u in nudged)
        rates[:, place] = (more - less) / (2.0 * NUDGE)
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
    ridge = RIDGE * float(xp.max(xp.abs(part)))
    solve = cholesky(part + _square(bend, inside) + (1.0 + ridge) * eye) or cholesky(part + (1.0 + ridge) * eye)
    if solve is None:
        raise FloatingPointError("The Newton matrix is not definite: are the features finite?")
    return solve


def _square(matrix: Array, index: Array) -> Array:
    xp = namespace(matrix)
    return matrix if index.shape[0] == matrix.shape[0] else xp.take(xp.take(matrix, index, axis=0), index, axis=1)


def _exact_step(problem: Problem, state: SsNALState, dx: Array, df: Array) -> float:
    """Return the step in [0, 1] at which the augmented Lagrangian stops falling."""
    gram, penalty, y, C = problem.gram, problem.penalty, problem.y, problem.C
    xp, gain = namespace(y), state.sharpness * C * y * df
    aim = state.alpha + state.sharpness * C * (1.0 - y * (state.f + state.bias))
    energy, along = gram.energies(state.x), gram.inner(state.x, dx)
    bend = gram.energies(dx)

    def slope(t: float) -> float:
        norms = np.sqrt(np.maximum(energy + t * (2.0 * along + t * bend), 0.0))
        weights = penalty.weights_of_norms(norms)
        rise = (along + t * bend) * _inverse(np.where(norms > 0, weights, 0.0))
        return float(np.sum(rise)) - float(xp.sum(_clip(aim - t * gain, C) * y * df))

    return _root(slope)


def _root(slope: Callable[[float], float]) -> float:
    """Return where in [0, 1] an increasing function is near zero, relative to its value at 0."""
    low, high, t = 0.0, 1.0, 1.0
    first = below = slope(1e-12)  # to the right of a kink that may be at 0
    above = 0.0
    if first >= 0:
        return 0.0
    for attempt in range(40):
        value = slope(t)
        if abs(value) <= FLAT * abs(first) or (t == 1.0 and value < 0):
            break
        if value < 0:
            low, below = t, value
        else:
            high, above = t, value
        t = 0.5 * (low + high) if attempt % 3 == 2 or above == below else (low * above - high * below) / (above - below)
        t = min(max(t, 0.95 * low + 0.05 * high), 0.05 * low + 0.95 * high)
    return t
