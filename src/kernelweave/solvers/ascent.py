"""Dual ascent for losses with one dual, a row or several columns of duals for each sample, with a bias or without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..grams import CombinableGram
from ..grams.base import support_of
from ..losses import BoundLoss
from ..losses.base import ENTROPY, QUADRATIC, DualTerms
from ..losses.multiclass import own_class
from ..penalties import Fixed
from ..penalties.base import MixingPenalty
from ..problem import Certificate, Point, Problem, Status
from .base import Solver, combinable, late, no_gradient, without_faint_shares
from .simplexes import least_on_simplexes


@dataclass(frozen=True)
class AscentSettings:
    """Constants of the dual ascent."""

    share: float = 0.03  #: of the width of the bounds that what a step leaves undone may take
    slow: float = 0.5  #: share of its width that a step leaves of it after which the next one is to be more precise
    sharper: float = 0.3  #: factor of the share left undone, then
    first: int = 2000  #: samples that the first step works on, at most
    most: int = 4000  #: samples that any other step works on, at most
    near: float = 0.3  #: margin, in units of the slopes, within which a sample is worth working on
    budget: int = 40  #: moves in a step, per sample
    at_least: int = 30_000  #: moves in a step, at least
    turn: int = 5  #: moves per sample after which rows of duals are moved all at once, by an interior point
    square: int = 2500  #: duals up to which that is done
    jitter: float = 1e-12  #: share of the mean curvature that is then added to each one's own
    sweeps: int = 20  #: over the columns of several targets in a step, at most
    swept: float = 0.03  #: share of the first sweep's moves below which those of another end them
    behind: float = 0.3  #: share of the width due to the weights at which a proximal stage is left for the next
    strength: float = 10.0  #: of the first proximal stage
    growth: float = 3.0  #: of the proximal step from stage to stage
    strongest: float = 3e3  #: most strength of a proximal step
    trim: float = 1e-6  #: times tol: share below which a kernel gets weight zero at once
    floor: float = 1e-4  #: times tol: share every kernel keeps while the weights move, so that it can come back
    faint: float = 1e-9  #: share of the largest weight or curvature that is not followed
    least: float = 1e-15  #: share of the objective below which floating point has no more to give
    rounding: float = 1e-13  #: error of a slope, in moves: a rise that cannot be told from none is taken
    inside: float = 1e-9  #: share of its range that a dual of the entropy keeps from the bounds at the start


SETTINGS = AscentSettings()


@dataclass
class AscentState:
    """Duals with ``g[c, i, k] = (K_k beta_c)_i`` and ``q``, the penalty followed, how precise a step is to be."""

    terms: DualTerms | None  # of the duals as a table (n, c); None where they are rows on simplexes
    unit: float  # size of the slopes
    penalty: MixingPenalty
    beta: np.ndarray  # (n, c)
    g: np.ndarray  # (c, n, m)
    q: np.ndarray  # (m,)
    tol: float
    width: float  # of the bounds
    share: float = SETTINGS.share
    rose: bool = True  # whether the last step changed anything
    stuck: bool = False  # whether floating point has no more to give


class Ascent(Solver):
    """Newton's method on the duals, each step solved by greedy coordinate ascent.

    The dual of the mixing is replaced by a quadratic: one combined kernel and a correction of the rank of the kernels
    in play; that of the loss is kept as it is. The model is climbed one dual at a time, two where a bias holds their
    sum, or one sample's row of duals for a joint margin of several classes, always where most is to be gained; several
    targets are climbed column by column. Then the whole move is taken as far as the true objective rises. For l1 the
    weights follow entropic proximal stages.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import DenseGram, Problem, losses, penalties, solve
    >>> x = np.array([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0])
    >>> gram = DenseGram(np.stack([np.outer(x, x), np.exp(-((x[:, None] - x) ** 2))], axis=2))
    >>> loss = losses.CrammerSinger().bind([0, 0, 1, 1, 2, 2], C=10.0)
    >>> solve(Problem(gram, loss, penalties.L1(), dual_sum=None), "ascent").gap <= 1e-3
    True
    """

    name = "ascent"
    needs = (CombinableGram,)
    takes = ("quadratic", "entropic", "margin")
    biasless = True
    several = True
    precise = 1e-15

    def refuse(self, problem: Problem) -> str | None:
        return no_gradient(problem)

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> AscentState:
        shape, m = (problem.shape + (1,))[:2], problem.gram.shape[1]
        terms = _table(problem)
        beta = np.zeros(shape)
        if terms is not None and terms.entropic:
            beta[:] = _inside(problem, terms, start)
        elif start is not None:
            beta[:] = start.reshape(shape)
        width = problem.total_loss(np.zeros(problem.shape), problem.best_bias(np.zeros(problem.shape)))
        flat = Fixed(_flat(problem.penalty, m))
        state = AscentState(terms, _unit(terms), flat, beta, np.zeros((shape[1], shape[0], m)), np.zeros(m), tol, width)
        if beta.any():
            self.refresh(problem, state)
        if start is not None and start.any():
            state.penalty = problem.penalty.stage(state.q, strength=SETTINGS.strength)
        return state

    def step(self, problem: Problem, state: AscentState) -> bool:
        rows = _chosen(problem, state)
        state.rose = _advance(problem, state, rows, _climb(problem, state, rows) - state.beta[rows])
        if state.penalty.fixed and not problem.penalty.fixed:
            state.penalty = problem.penalty.stage(state.q, strength=SETTINGS.strength)
        return True

    def read(self, problem: Problem, state: AscentState) -> Point:
        weights = state.penalty.trimmed(state.q, SETTINGS.trim * state.tol)
        f = (state.g @ weights).T
        return Point(state.beta.reshape(problem.shape).copy(), weights, state.q.copy(), f.reshape(problem.shape))

    def finish(self, problem: Problem, point: Point) -> list[Point]:
        return without_faint_shares(problem, point)

    def adapt(self, problem: Problem, state: AscentState, certificate: Certificate) -> Status | None:
        """Ask for more precision after a step that changed little, and for the next stage where weights are behind."""
        width = certificate.upper - certificate.lower
        state.stuck = not state.rose and state.share * width <= SETTINGS.least * abs(certificate.upper)
        slow = not state.rose or width > SETTINGS.slow * state.width
        state.share, state.width = (SETTINGS.sharper if slow else 1.0) * state.share, width
        if state.penalty.mixing_gap(state.q) > SETTINGS.behind * width:
            floor = SETTINGS.floor * state.tol
            state.penalty = state.penalty.next_stage(state.q, SETTINGS.growth, SETTINGS.strongest, floor)
            state.stuck, state.share = False, SETTINGS.share
        return Status.STALLED if state.stuck else None

    def refresh(self, problem: Problem, state: AscentState) -> None:
        support = support_of(state.beta)
        state.g = combinable(problem).weighted_columns(state.beta[support], support)
        state.q = np.maximum(np.einsum("ic,cik->k", state.beta, state.g), 0.0)


def _flat(penalty: MixingPenalty, m: int) -> np.ndarray:
    return penalty.weights_of_norms(np.ones(m))


def _table(problem: Problem) -> DualTerms | None:
    """Return the description of single duals as tables (n, c), or None where duals are rows on simplexes."""
    terms = problem.loss.terms
    if terms is None or problem.loss.several:
        return terms
    linear, ridge, lower, upper, kink = (part[:, None] for part in terms.parts)
    return DualTerms(linear, ridge, lower, upper, kink, terms.entropic)


def _unit(terms: DualTerms | None) -> float:
    """Return the size of the slopes: that of a margin, of log odds, or half the range of the targets."""
    if terms is None or terms.entropic:
        return 1.0
    return 0.5 * float(np.max(np.ptp(terms.linear, axis=0))) or 1.0


def _inside(problem: Problem, terms: DualTerms, start: np.ndarray | None) -> np.ndarray:
    """Return duals of the entropy away from their bounds, of the right sum where they have one."""
    room = terms.upper - terms.lower
    low, high = terms.lower + SETTINGS.inside * room, terms.upper - SETTINGS.inside * room
    above = np.abs(terms.upper) > np.abs(terms.lower)
    wanted = 0.5 * SETTINGS.inside**0.25 * (terms.upper * above + terms.lower * ~above)
    if start is not None and start.any():
        wanted = np.clip(start.reshape(room.shape), low, high)
    return problem.feasible(wanted.reshape(problem.shape)).reshape(room.shape)


def _chosen(problem: Problem, state: AscentState) -> np.ndarray:
    """Return the samples worth working on: those with duals, and those that err or nearly do."""
    if not state.q.any():
        return np.sort(np.random.default_rng(0).permutation(problem.n)[: SETTINGS.first])
    f = (state.g @ state.penalty.weights(state.q)).T.reshape(problem.shape)
    f = f + problem.best_bias(f)
    worth = np.maximum(problem.loss.gaps(f, state.beta.reshape(problem.shape)), 0.0)
    worth = np.where(state.beta.any(axis=1) | _near(problem, state, f), worth, -np.inf)
    few = np.argsort(-worth, kind="stable")[: SETTINGS.most]
    return np.sort(few[np.isfinite(worth[few])])


def _near(problem: Problem, state: AscentState, f: np.ndarray) -> np.ndarray:
    """Whether a dual of each sample would leave its bound or kink, or would if the margin were a little wider."""
    terms, margin = state.terms, SETTINGS.near * state.unit
    if terms is None:
        return _near_margin(problem, f)
    if terms.entropic:
        return np.ones(problem.n, dtype=bool)
    slope = f.reshape(state.beta.shape) + terms.ridge * state.beta - terms.linear
    rising, falling = terms.directed(slope, state.beta)
    near = ((state.beta < terms.upper) & (rising < margin)) | ((state.beta > terms.lower) & (falling > -margin))
    return near.any(axis=1)


def _near_margin(problem: Problem, f: np.ndarray) -> np.ndarray:
    """Whether each sample's joint margin is short of one, or nearly."""
    known = problem.loss.compiled
    assert known is not None
    rows, own, others = np.arange(f.shape[0]), known[2], f.copy()
    others[rows, own] = -np.inf
    return f[rows, own] - others.max(axis=1) < 1.0 + SETTINGS.near


@dataclass
class _Model:
    """The quadratic that stands for the mixing around the duals: one combined kernel and a correction of low rank."""

    kernel: np.ndarray  # (b, b)
    gradient: np.ndarray  # (b, c)
    g: np.ndarray  # (b, a, c) outputs of the kernels whose weights bend
    J: np.ndarray  # (a, a) twice their Jacobian

    def change(self, moved: np.ndarray) -> np.ndarray:  # (b, c)
        """Return what a move of the duals changes in the gradient."""
        bent = self.J @ np.einsum("bac,bc->a", self.g, moved)
        return self.kernel @ moved + np.einsum("bac,a->bc", self.g, bent)

    def gradient_at(self, moved: np.ndarray) -> np.ndarray:  # (b, c)
        """Return the gradient after a move of the duals."""
        return self.gradient + self.change(moved)


def _model(problem: Problem, state: AscentState, rows: np.ndarray) -> _Model:
    weights, curvature = state.penalty.weights(state.q), state.penalty.curvature(state.q)
    metric = weights if weights.any() else _flat(problem.penalty, weights.size)  # where all are silent, any will do
    kernel = combinable(problem).combine(rows, np.where(metric > SETTINGS.faint * metric.max(), metric, 0.0))
    diagonal = np.diag(curvature)
    bent = np.flatnonzero(diagonal > SETTINGS.faint * diagonal.max(initial=0.0))
    J = np.ascontiguousarray(2.0 * curvature[np.ix_(bent, bent)])
    g = np.ascontiguousarray(np.moveaxis(state.g[:, rows][:, :, bent], 0, 2))
    return _Model(kernel, np.ascontiguousarray((state.g[:, rows] @ weights).T), g, J)


def _climb(problem: Problem, state: AscentState, rows: np.ndarray) -> np.ndarray:  # (b, c)
    """Return the duals of some samples at which the model is best, about."""
    model = _model(problem, state, rows)
    beta, budget = state.beta[rows], max(SETTINGS.budget * rows.size, SETTINGS.at_least)
    mass = float(np.sum(np.abs(state.beta))) + 1e-300
    undone = state.share * min(state.unit, state.width / mass)  # in slopes, which times duals make a width
    least = 0.25 * undone**2 / max(float(np.mean(np.diag(model.kernel))), 1e-300)
    if state.terms is None:
        return _climb_rows(problem.loss.take(rows), model, beta, (undone, least, budget))
    terms = state.terms.take(rows)
    columns, first = range(beta.shape[1]), 0.0
    for sweep in range(SETTINGS.sweeps if beta.shape[1] > 1 else 1):
        last = beta.copy()
        for c in columns:
            _climb_column(problem, model, terms.column(c), state.beta[rows], beta, c, (undone, least, budget))
        moved = float(np.abs(beta - last).sum())
        first = moved if sweep == 0 else first
        if moved <= SETTINGS.swept * first or late():
            break
    return beta


def _climb_rows(
    loss: BoundLoss,
    model: _Model,
    beta: np.ndarray,  # (b, c)
    limits: tuple[float, float, int],  # slope left undone, gain left undone, moves
) -> np.ndarray:  # (b, c)
    """Return rows of duals at which the model is best, about: row by row, or all at once where that takes too long.

    Where costs are large, or samples contradict one another, single rows pass small moves to and fro.
    """
    from ..compiled import ascent as engine

    assert loss.compiled is not None
    (undone, least, budget), own, before = limits, loss.compiled[2], beta.copy()
    turns = [SETTINGS.turn * own.size, budget] if beta.size - own.size <= SETTINGS.square else [budget]
    for turn, moves in enumerate(turns):
        if turn > 0:
            beta = _all_rows(loss, model, before, beta, undone * float(np.abs(beta).sum()))
        gradient = model.gradient_at(beta - before)
        if engine.rows(model.kernel, gradient, beta, own, loss.C, model.g, model.J, least, moves) < moves:
            break
    return beta


def _all_rows(
    loss: BoundLoss,
    model: _Model,
    before: np.ndarray,  # (b, c)
    beta: np.ndarray,  # (b, c)
    undone: float,  # gap that may be left
) -> np.ndarray:  # (b, c)
    """Return rows of duals at which the model is best, by an interior point; unknowns are those of other classes."""
    own = own_class(beta, loss.y)
    row, other = np.nonzero(own == 0)
    mine = loss.y[row].astype(np.int64)
    apart = model.g[row, :, mine] - model.g[row, :, other]
    alike = (other[:, None] == other) * 1.0 + (mine[:, None] == mine)
    alike -= (other[:, None] == mine) * 1.0 + (mine[:, None] == other)
    square = model.kernel[np.ix_(row, row)] * alike + apart @ model.J @ apart.T
    square.flat[:: row.size + 1] += SETTINGS.jitter * float(np.mean(np.diag(square)))
    slopes = model.gradient_at(beta - before) - own
    linear = slopes[row, mine] - slopes[row, other] + square @ beta[row, other]
    moved = np.zeros(beta.shape)
    moved[row, other] = -least_on_simplexes(square, linear, row, loss.C, -beta[row, other], undone)
    moved = loss.project(moved - own * moved.sum(axis=1, keepdims=True))
    delta = moved - beta
    better = float(np.sum(slopes * delta)) + 0.5 * float(np.sum(delta * model.change(delta))) < 0.0
    return moved if better else beta


def _climb_column(
    problem: Problem,
    model: _Model,
    terms: DualTerms,
    before: np.ndarray,  # (b, c)
    beta: np.ndarray,  # (b, c)
    c: int,
    limits: tuple[float, float, int],  # slope left undone, gain left undone, moves
) -> None:
    """Climb the model in the duals of one column, those of the others as they are; ``beta`` follows."""
    from ..compiled import ascent as engine
    from ..compiled.quadratic import quadratic

    (undone, least, budget), own, moved = limits, model.g[:, :, c], beta - before
    single = np.ascontiguousarray(beta[:, c])
    gradient = model.gradient[:, c] + own @ (model.J @ np.einsum("bac,bc->a", model.g, moved))
    if moved[:, c].any():
        gradient = gradient + model.kernel @ moved[:, c]
    hessian = model.kernel + own @ model.J @ own.T
    if not problem.bias:
        kind = ENTROPY if terms.entropic else QUADRATIC
        linear, ridge, lower, upper, kink = terms.parts
        slope = np.ascontiguousarray(gradient)
        engine.singles(kind, hessian, slope, single, linear, ridge, lower, upper, kink, least, budget)
    elif terms.entropic:
        engine.pairs(hessian, np.ascontiguousarray(gradient), single, terms.lower, terms.upper, least, budget)
    else:
        gradient = gradient + terms.ridge * single - terms.linear
        hessian.flat[:: single.size + 1] += terms.ridge
        quadratic(hessian, gradient, single, terms.lower, terms.upper, terms.kink, 0.25 * undone, budget)
    beta[:, c] = single


def _advance(problem: Problem, state: AscentState, rows: np.ndarray, delta: np.ndarray) -> bool:
    """Move by ``delta`` as far as the objective rises; whether it did."""
    moved = np.flatnonzero(delta.any(axis=1))
    if moved.size == 0:
        return False
    rows, delta = rows[moved], delta[moved]
    columns = combinable(problem).weighted_columns(delta, rows)
    along = np.einsum("ic,cik->k", delta, state.g[:, rows])
    bend = np.maximum(np.einsum("ic,cik->k", delta, columns[:, rows]), 0.0)
    rise = _rise(problem, state, rows, delta)

    def slope(t: float) -> float:
        energies = np.maximum(state.q + t * (2.0 * along + t * bend), 0.0)
        return float(state.penalty.weights(energies) @ (along + t * bend)) - rise(t)

    t = _zero(slope, SETTINGS.rounding * state.unit * float(np.abs(delta).sum()))
    state.beta[rows] += t * delta
    if state.terms is not None:
        state.beta[rows] = state.terms.take(rows).project(state.beta[rows])
    state.g += t * columns
    state.q = np.maximum(state.q + t * (2.0 * along + t * bend), 0.0)
    return t > 0.0


def _rise(problem: Problem, state: AscentState, rows: np.ndarray, delta: np.ndarray) -> Callable[[float], float]:
    """Return the slope of the losses' duals along ``delta`` as a function of the step."""
    start = state.beta[rows]
    if state.terms is None:
        known = problem.loss.compiled
        assert known is not None
        total = float(np.sum(delta[np.arange(rows.size), known[2][rows]]))
        return lambda t: total
    part = state.terms.take(rows)
    if not part.entropic:
        return lambda t: float(
            np.sum((part.linear - part.ridge * (start + t * delta) - part.kink * np.sign(start + t * delta)) * delta)
        )

    def rise(t: float) -> float:
        low, high = start + t * delta - part.lower, part.upper - start - t * delta
        return float(np.sum(np.log(np.maximum(high, 1e-300) / np.maximum(low, 1e-300)) * delta))

    return rise


def _zero(slope: Callable[[float], float], rounding: float) -> float:
    """Return the step in [0, 1] at which a rising slope stops being negative."""
    if slope(1.0) <= rounding:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(middle) <= 0.0 else (low, middle)
    return low
