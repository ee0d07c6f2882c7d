"""Newton's method on factors for losses with a continuous slope, such as logistic, least squares and Huber's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from ..arrays import Array, namespace
from ..grams import FactorGram
from ..penalties.base import MixingPenalty
from ..problem import Certificate, Point, Problem, Status
from .base import Solver, factors, no_gradient
from .reduced import Reduced, sample_of


@dataclass(frozen=True)
class NewtonSettings:
    """Constants of Newton's method."""

    close: float = 0.03  #: relative error of a step, in units of the gap
    loose: float = 1e-2  #: the same at most
    tight: float = 1e-10  #: the same at least; the matrix is nearly exact, so that little is gained by less
    longest: float = 2.0  #: step of a line search, in units of Newton's
    search: float = 1e-2  #: error of that step, and factor of the longest where none of them helps
    trials: int = 4  #: of a line search
    rounding: float = 1e-15  #: relative fall of the objective that counts as none
    halvings: int = 6  #: of a step along which the objective does not fall
    prefer: float = 0.7  #: share of the fall of the objective at which a step that leaves duals that fit is preferred
    patience: int = 3  #: steps in a row without progress after which that is the end
    watch: int = 5  #: steps from one judgement to the next while far from the optimum
    near: float = 1.5  #: times the gap asked for, below which every step is judged
    coarse: float = 1e-2  #: gap at which an answer on some samples is left for all of them
    useful: float = 0.05  #: share of the loss of a constant that duals to begin with must save to be taken
    strength: float = 10.0  #: of the first proximal stage of l1
    growth: float = 5.0  #: of the proximal step from stage to stage
    strongest: float = 1e4  #: most strength of a proximal step
    behind: float = 0.3  #: share of the gap due to the weights at which a proximal stage is left for the next
    floor: float = 1e-4  #: times tol: share every kernel keeps while the weights move, so that it can come back
    trim: float = 1e-6  #: times tol: share below which a kernel gets weight zero at once
    cuts: tuple[float, ...] = (1e-3, 1e-4, 1e-5, 1e-6, 1e-8)  #: shares below which it does at the end, if that holds


SETTINGS = NewtonSettings()


@dataclass
class Model:
    """Decision values ``f = V z`` and a bias, with blocks ``z = w u`` and what they cost under the penalty followed."""

    weights: np.ndarray  # (m,)
    u: Array  # (D,)
    f: Array  # (n,)
    bias: float
    value: float


@dataclass
class NewtonState:
    """A model, and the penalty whose weights follow its u: the problem's own, or a proximal stage of it.

    ``beta`` are the duals of the last step: after a whole one, ``u = V'beta``.
    """

    tol: float
    follow: MixingPenalty
    model: Model
    first: bool = False  # whether it is constant, so that nothing is known of the weights
    beta: Array | None = None  # (n,) need not be feasible
    gap: float = np.inf
    behind: bool = False  # whether the gap is due to the weights, or no step helps any more
    steps: int = 0
    stuck: int = 0
    rough: bool = True
    scout: Problem | None = None  # the problem on some of the samples, while that is what is being solved


class Newton(Solver):
    """Semismooth Newton on the samples that err, with the kernel weights in the same system.

    A step solves for blocks, bias and weights at once. It is gone along the energies, which weights follow however
    steeply; where that would raise the objective, along the blocks, as far as the objective falls. For l1 the weights
    follow entropic proximal stages, and kernels left with a vanishing share get exactly zero.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> V = np.random.default_rng(0).normal(size=(60, 6))
    >>> gram = kw.grams.LowRankGram(V, [2, 2, 2])
    >>> problem = kw.Problem(gram, kw.losses.Squared().bind(V[:, 0] + V[:, 1]), kw.penalties.L1())
    >>> kw.solve(problem, "newton").weights.round(2).tolist()
    [1.0, 0.0, 0.0]
    """

    name = "newton"
    needs = (FactorGram,)
    takes = ("smooth",)
    biasless = True

    def refuse(self, problem: Problem) -> str | None:
        if problem.loss.terms is None:
            return f"needs a loss that is a sum over samples, which {problem.loss} is not: use solver='auto'."
        return no_gradient(problem)

    def init(self, problem: Problem, start: Array | None, tol: float) -> NewtonState:
        scout = None if start is not None else sample_of(problem)
        state = _begin(scout or problem, start, tol)
        state.scout = scout
        return state

    def step(self, problem: Problem, state: NewtonState) -> bool:
        here = state.scout or problem
        if state.behind:
            _next_stage(here, state)
        moved = _first_step(here, state) if state.first else _newton_step(here, state)
        state.stuck = 0 if moved else state.stuck + 1
        state.steps += 1
        _look(here, state)
        if state.scout is not None:
            if state.gap <= SETTINGS.coarse or state.stuck > 0:
                state.scout, state.beta, state.stuck, state.steps = None, None, 0, 0
                state.model = _on_all(problem, state)
            return False
        near = state.gap <= SETTINGS.near * state.tol
        return near or state.steps % SETTINGS.watch == 0 or state.stuck > 0

    def read(self, problem: Problem, state: NewtonState) -> Point:
        if state.scout is not None:  # nothing is known of all samples yet
            return Point(problem.loss.zero, state.model.weights)
        return min(_points(problem, state), key=lambda pair: pair[0])[1]

    def adapt(self, problem: Problem, state: NewtonState, certificate: Certificate) -> Status | None:
        return Status.STALLED if state.stuck >= SETTINGS.patience else None

    def finish(self, problem: Problem, point: Point) -> list[Point]:
        """Return the point of l1 without its smallest weights, from the boldest cut down."""
        if not problem.penalty.on_simplex:
            return []
        shares = point.weights * problem.penalty.prices(point.weights.size)
        cuts = [np.where(shares < cut, 0.0, point.weights) for cut in SETTINGS.cuts]
        return [Point(point.beta, weights) for weights in cuts if weights.any()]


def _begin(problem: Problem, start: Array | None, tol: float) -> NewtonState:
    """Return the state of given duals, or of a model that is constant if that is not much worse."""
    gram, zero = factors(problem), problem.loss.zero
    flat = problem.penalty.weights_of_norms(np.ones(gram.shape[1]))
    bias = problem.best_bias(zero)
    constant = Model(flat, 0.0 * gram.rmatvec(zero), zero, bias, problem.total_loss(zero, bias))
    if start is not None:
        u = gram.rmatvec(start)
        follow = problem.penalty.stage(gram.squared_norms(u), strength=SETTINGS.strength)
        model = _model(problem, follow, u)
        if model.value < (1.0 - SETTINGS.useful) * constant.value:
            return NewtonState(tol, follow, model, beta=start)
    return NewtonState(tol, problem.penalty, constant, first=True)


def _model(problem: Problem, follow: MixingPenalty, u: Array) -> Model:
    """Return the model whose weights follow u."""
    gram = factors(problem)
    q = gram.squared_norms(u)
    weights = follow.weights(q)
    f = gram.matvec(gram.per_column(weights) * u)
    bias = problem.best_bias(f)
    return Model(weights, u, f, bias, float(weights @ q) - follow.value(q) + problem.total_loss(f, bias))


def _seen(problem: Problem, follow: MixingPenalty, z: Array, f: Array, bias: float) -> Model:
    """Return the model of given blocks, with the weights that their norms ask for."""
    gram = factors(problem)
    norms = np.sqrt(gram.squared_norms(z))
    weights = follow.weights_of_norms(norms)
    inverse = np.where(weights > 0, 1.0 / np.where(weights > 0, weights, 1.0), 0.0)
    return Model(weights, gram.per_column(inverse) * z, f, bias, follow.norm(norms) + problem.total_loss(f, bias))


def _on_all(problem: Problem, state: NewtonState) -> Model:
    """Return the model of some samples for all of them."""
    z = _blocks(problem, state.model)
    f = factors(problem).matvec(z)
    return _seen(problem, state.follow, z, f, problem.best_bias(f))


def _blocks(problem: Problem, model: Model) -> Array:  # (D,)
    return factors(problem).per_column(model.weights) * model.u


def _asked(problem: Problem, model: Model) -> Array:  # (n,)
    """Return the duals that a model's errors ask for."""
    return problem.feasible(-problem.loss.slope(model.f + model.bias))


def _known(problem: Problem, state: NewtonState) -> list[tuple[Array, Array, float]]:
    """Return the duals that the errors ask for and those of the last step, each with ``V'beta`` and its dual value."""
    gram, known = factors(problem), []
    for beta in [_asked(problem, state.model), *([] if state.beta is None else [problem.feasible(state.beta)])]:
        u = gram.rmatvec(beta)
        known.append((beta, u, problem.total_dual(beta) - problem.penalty.value(gram.squared_norms(u))))
    return known


def _points(problem: Problem, state: NewtonState) -> list[tuple[float, Point]]:
    """Return the points to offer, each after the width of its own bounds."""
    gram, penalty, points = factors(problem), problem.penalty, []
    weights = state.follow.trimmed(gram.squared_norms(state.model.u), SETTINGS.trim * state.tol)
    for beta, u, lower in _known(problem, state):
        q = gram.squared_norms(u)
        f = gram.matvec(gram.per_column(weights) * u)
        upper = penalty.norm(weights * np.sqrt(q)) + problem.total_loss(f, problem.best_bias(f))
        points.append((upper - lower, Point(beta, weights, q, f)))
    return points


def _look(problem: Problem, state: NewtonState) -> None:
    """Estimate the gap, and whether the weights are what is behind."""
    model = state.model
    q = factors(problem).squared_norms(model.u)
    upper = problem.penalty.norm(model.weights * np.sqrt(q)) + problem.total_loss(model.f, model.bias)
    width = upper - max(lower for _, _, lower in _known(problem, state))
    state.gap = width / max(abs(upper), 1e-300)
    mixing = state.follow.mixing_gap(q)
    state.behind = mixing > SETTINGS.behind * width or (state.stuck > 0 and mixing > 0)


def _next_stage(problem: Problem, state: NewtonState) -> None:
    """See the model, which stays as it is, under the next proximal stage."""
    model, floor = state.model, SETTINGS.floor * state.tol
    q = factors(problem).squared_norms(model.u)
    state.follow = state.follow.next_stage(q, SETTINGS.growth, SETTINGS.strongest, floor)
    state.model = _seen(problem, state.follow, _blocks(problem, model), model.f, model.bias)


def _first_step(problem: Problem, state: NewtonState) -> bool:
    """Leave a constant model, by all kernels at flat weights or, where they have a price, by those worth it there."""
    gram, model, penalty = factors(problem), state.model, problem.penalty
    if penalty.homogeneous:
        u, bias = _goal(problem, state, np.zeros((gram.shape[1],) * 2))
        weights = model.weights
    else:
        u, bias = gram.rmatvec(_asked(problem, model)), model.bias
        q = gram.squared_norms(u)
        weights = penalty.weights(q)
        weights = weights * _affordable(penalty, weights * np.sqrt(q), model.value)
    found = _searched(problem, penalty, model, gram.per_column(weights) * u, bias - model.bias)
    if found is None:
        return False
    state.first = False
    state.follow = penalty.stage(gram.squared_norms(found.u), strength=SETTINGS.strength)
    state.model = _seen(problem, state.follow, _blocks(problem, found), found.f, found.bias)
    return True


def _affordable(penalty: MixingPenalty, norms: np.ndarray, value: float) -> float:
    """Return a power of ten, 1 at most, by which blocks of these norms cost no more than a value."""
    return next((t for t in 10.0 ** -np.arange(300.0) if penalty.norm(t * norms) <= value), 0.0)


def _newton_step(problem: Problem, state: NewtonState) -> bool:
    """Go to where the linearised conditions hold, or as far as the objective falls; whether it did."""
    gram, model, follow = factors(problem), state.model, state.follow
    jacobian = follow.curvature(gram.squared_norms(model.u))
    goal, bias = _goal(problem, state, jacobian)
    step, slip = goal - model.u, bias - model.bias
    whole, curved = _model(problem, follow, goal), _curved(problem, follow, model, jacobian, step, 1.0)
    found, fall = _lowest(model, curved), model.value - whole.value
    if fall > 0.0 and fall >= SETTINGS.prefer * (model.value - curved.value):
        found = whole
    if found is None:
        shorter = _halved(problem, follow, model, jacobian, step)
        found = _lowest(model, shorter, _searched(problem, follow, model, _bent(gram, model, jacobian, step), slip))
    if found is not whole:
        found = _woken(problem, follow, found or model) or found
    if found is None and jacobian.any():  # as if the weights were fixed
        goal, bias = _goal(problem, state, 0.0 * jacobian)
        step = gram.per_column(model.weights) * (goal - model.u)
        found = _searched(problem, follow, model, step, bias - model.bias)
    if found is None:
        return False
    state.model, state.first = found, not found.weights.any()
    return model.value - found.value > SETTINGS.rounding * abs(model.value)


def _lowest(model: Model, *others: Model | None) -> Model | None:
    """Return the best of some models, or None where none is better than ``model``."""
    better = [other for other in others if other is not None and other.value < model.value]
    return min(better, key=lambda other: other.value, default=None)


def _curved(
    problem: Problem, follow: MixingPenalty, model: Model, jacobian: np.ndarray, step: Array, t: float
) -> Model:
    """Return the model at a share t of a step along which weights rise in proportion and fall as exponentials.

    Where the energies change much, weights that follow them overshoot, and those that follow a line change their sign.
    """
    gram = factors(problem)
    change = t * 2.0 * jacobian @ gram.inner(model.u, step)
    rate = np.where(model.weights > 0, change / np.where(model.weights > 0, model.weights, 1.0), 0.0)
    weights = model.weights * np.where(rate > 0, 1.0 + rate, np.exp(np.minimum(rate, 0.0)))
    z = gram.per_column(weights) * (model.u + t * step)
    f = gram.matvec(z)
    return _seen(problem, follow, z, f, problem.best_bias(f))


def _halved(problem: Problem, follow: MixingPenalty, model: Model, jacobian: np.ndarray, step: Array) -> Model | None:
    """Return the model at a half of such a step, or a quarter .., while that gets better; None if none is."""
    best = None
    for power in range(1, SETTINGS.halvings):
        found = _curved(problem, follow, model, jacobian, step, 0.5**power)
        if best is not None and found.value >= best.value:
            break
        best = found if found.value < model.value else None
    return best


def _woken(problem: Problem, follow: MixingPenalty, model: Model) -> Model | None:
    """Return a better model with kernels that were left out though they are worth their price, or None."""
    left_out = model.weights == 0
    if not left_out.any():
        return None
    gram, u = factors(problem), factors(problem).rmatvec(_asked(problem, model))
    weights = np.where(left_out, follow.weights(gram.squared_norms(u)), 0.0)
    return _searched(problem, follow, model, gram.per_column(weights) * u, 0.0) if weights.any() else None


def _goal(problem: Problem, state: NewtonState, jacobian: np.ndarray) -> tuple[Array, float]:
    """Return ``V'beta`` of the duals that answer the errors of the linearised model, and its bias."""
    gram, model = factors(problem), state.model
    f, u = model.f + model.bias, model.u
    theta, slope = problem.loss.curvature(f), problem.loss.slope(f)
    if not bool(namespace(theta).any(theta > 0)):  # no sample has a curvature: the duals stay as they are
        state.beta = problem.feasible(-slope)
        return gram.rmatvec(state.beta), model.bias
    behind = gram.per_column(model.weights) * u - _bent(gram, model, jacobian, u)
    z = _blocks(problem, model)
    if state.first:
        z = gram.per_column(model.weights) * gram.rmatvec(slope)
    z = gram.fold(z)
    close = min(max(SETTINGS.close * state.gap, SETTINGS.tight), SETTINGS.loose) * float(z @ z) ** 0.5
    system = Reduced(gram, gram.spread(u), model.weights, jacobian, theta, close, state.rough, problem.bias)
    state.beta, level, folded = system.solve(f, gram.fold(behind), 0.0, -slope)
    state.rough = state.rough and not system.failed
    return gram.unfold(folded), level


def _bent(gram: FactorGram, model: Model, jacobian: np.ndarray, x: Array) -> Array:
    """Return the curvature of the mixture times x."""
    turned = gram.per_column(2.0 * jacobian @ gram.inner(model.u, x))
    return gram.per_column(model.weights) * x + turned * model.u


def _searched(problem: Problem, follow: MixingPenalty, model: Model, step: Array, slip: float) -> Model | None:
    """Return the best model along a step of the blocks and of the bias, or None where the objective does not fall."""
    gram, z = factors(problem), _blocks(problem, model)
    f = gram.matvec(step)
    energies, along, bend = gram.squared_norms(z), gram.inner(z, step), gram.squared_norms(step)

    def value(t: float) -> float:
        norms = np.sqrt(np.maximum(energies + t * (2.0 * along + t * bend), 0.0))
        return follow.norm(norms) + problem.total_loss(model.f + t * f, model.bias + t * slip)

    longest = SETTINGS.longest
    for _ in range(SETTINGS.trials):
        options = {"xatol": SETTINGS.search * longest}
        best = minimize_scalar(lambda t: value(float(t)), bounds=(0.0, longest), method="bounded", options=options)
        if float(best.fun) < model.value:
            t = float(best.x)
            moved = model.f + t * f
            return _seen(problem, follow, z + t * step, moved, problem.best_bias(moved))
        longest *= SETTINGS.search
    return None
