"""Interior point on factors: kernel weights and duals in one Newton system."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arrays import Array, namespace, to_host
from ..grams import FactorGram
from ..losses.base import DualTerms
from ..problem import Certificate, Point, Problem, Status
from .base import Solver, factors
from .mixing import FixedWeights, SmoothWeights, WeightStep, mixing_of
from .reduced import Reduced, sample_of, slope_unit


@dataclass(frozen=True)
class InteriorSettings:
    """Constants of the interior point."""

    start: float = 1.0  #: first product of a dual and its multiplier, in units of their sizes
    timid: float = 0.05  #: first step on all samples, after some, below which it starts at larger products
    higher: float = 10.0  #: times larger
    highest: float = 1e4  #: times the first, at most
    halfway: float = 0.5  #: share of its size that a dual has at the start, before all are scaled down
    boundary: float = 0.995  #: share of the way to the boundary that a step may go
    correctors: int = 3  #: directions added for centrality, while they lengthen the step
    longer: float = 0.1  #: by which, and by a tenth of itself, a corrector is to lengthen the step
    smooth: float = 30.0  #: samples that the barrier of one weight counts for
    part: float = 0.005  #: share of the samples that the barrier of all weights counts for, at least
    span: float = 10.0  #: how far from the aim a product may lie before a corrector minds
    coarse: float = 1e-2  #: gap at which an answer on some samples is left for all of them
    close: float = 0.03  #: error of a direction, in units of the gap
    loose: float = 1e-2  #: the same at most
    enough: float = 0.01  #: gap to aim for, in units of the gap asked for
    zero: float = 1e-9  #: objective that counts as none, in units of the largest possible loss
    stuck: float = 1e-6  #: step below which no progress is made
    patience: int = 3  #: steps in a row without progress after which that is the end
    faint: tuple[float, ...] = (1e-3, 1e-5)  #: shares of the largest weight below which a weight may be dropped
    watch: int = 4  #: steps from one judgement to the next while far from the optimum
    near: float = 10.0  #: times the gap asked for, below which every step is judged
    newton: int = 8  #: steps that find a dual between two bounds at equal products, where it has a ridge
    mehrotra: float = 1e-2  #: gap from which on points of the alternation are judged
    reweigh: float = 0.3  #: share of the certified gap at which the alternation changes its weights
    fine: float = 0.2  #: share of the gap asked for at which it does in any case


SETTINGS = InteriorSettings()


@dataclass
class Part:
    """A part of every dual: ``sign`` times a number from zero on, at most ``width`` where it has an end."""

    sign: Array | float  # (n,)
    width: Array | None  # (n,)


@dataclass
class Side:
    """One bound of a part: its slack and multiplier are positive, and their product is on its way to zero."""

    part: int
    slack: Array  # (n,)
    multiplier: Array  # (n,)
    sign: float  # of the slack as the part grows


@dataclass
class InteriorState:
    """Duals ``beta = offset + sum of the parts`` inside their bounds, on their way to the optimum.

    ``u`` is on its own way to ``V'beta``; ``apart`` is what it lacks. Weights and decision values belong to u, and so
    does ``spread``, which is u as the basis of the kernels sees it.
    """

    mix: SmoothWeights
    tol: float
    terms: Any = None  # DualTerms
    total: float | None = 0.0  # what the duals sum to
    unit: float = 1.0  # size of the multipliers
    size: Any = None  # (n,) of the duals
    offset: Any = None  # (n,)
    parts: list[Part] = field(default_factory=list)
    u: Any = None  # (D,)
    apart: Any = None  # (D,)
    spread: Any = None  # Spread
    f: Any = None  # (n,)
    sides: list[Side] = field(default_factory=list)
    bias: float = 0.0
    gap: float = np.inf  # of the products, relative to the objective
    value: float = 0.0  # size of the objective, where it is one to compare with
    share: float = 1.0  # of the largest possible loss that it is
    steps: int = 0
    stuck: int = 0
    rough: bool = True
    scout: Problem | None = None  # the problem on some of the samples, while that is what is being solved
    height: float = 1.0  # of the products at the start, in units of the usual ones
    scouted: bool = False  # began at an answer on some of the samples
    posed: bool = False  # and has not gone a step from there

    @property
    def beta(self) -> Array:  # (n,)
        """The duals."""
        beta = self.offset
        for side in self.sides:
            if side.sign > 0:
                beta = beta + self.parts[side.part].sign * side.slack
        return beta

    @property
    def count(self) -> float:
        """Number of products."""
        return len(self.sides) * self.offset.shape[0] + self.mix.count

    def product(self) -> float:
        """Return the sum of all products."""
        return sum(float(side.slack @ side.multiplier) for side in self.sides) + self.mix.product()


class Interior(Solver):
    """Primal-dual interior point with the kernel weights as unknowns: learning them costs as much as one SVM.

    Each step solves one linear system of the size of the features, by predictor, corrector and centrality
    correctors. The number of steps hardly depends on the cost C, the penalty or the number of samples. Duals are
    kept between their bounds; one with a kink at zero is the difference of two that are not negative.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> V = np.random.default_rng(0).normal(size=(60, 6))
    >>> gram = kw.grams.LowRankGram(V, [3, 3])
    >>> problem = kw.Problem(gram, kw.losses.Hinge().bind(np.sign(V[:, 0])), kw.penalties.L1())
    >>> kw.solve(problem, "interior").converged
    True
    """

    name = "interior"
    needs = (FactorGram,)
    takes = ("quadratic",)
    kinks = True
    biasless = True
    summed = True

    def refuse(self, problem: Problem) -> str | None:
        terms = problem.loss.box
        xp = namespace(terms.lower)
        free = xp.isinf(terms.lower) & xp.isinf(terms.upper)
        if bool(xp.any(free & (terms.kink <= 0))):
            return f"needs duals with a bound, which {problem.loss} has not: use solver='newton'."
        if terms.kinked and bool(xp.any((terms.lower >= 0) | (terms.upper <= 0))):
            return f"takes a kink only where duals may have both signs, and those of {problem.loss} may not."
        if any(_uneven(part.width, terms.ridge) for part in split(terms)[1]):
            return f"takes duals that are all bounded alike, and those of {problem.loss} are not: use solver='auto'."
        return None

    def init(self, problem: Problem, start: Array | None, tol: float) -> InteriorState:
        scout = None if start is not None else sample_of(problem)
        state = begin(scout or problem, mixing_of(problem.penalty, problem.gram.shape[1]), start, tol)
        state.scout = scout
        return state

    def step(self, problem: Problem, state: InteriorState) -> bool:
        if state.scout is None:
            _Step(factors(problem), state).take()
            state.steps += 1
            if state.scouted and state.stuck >= SETTINGS.patience and not state.gap <= SETTINGS.coarse:
                begin_higher(factors(problem), state)
            near = state.gap <= SETTINGS.near * state.tol
            return near or state.steps % SETTINGS.watch == 0 or state.stuck > 0
        _Step(factors(state.scout), state).take()
        if state.gap <= SETTINGS.coarse or state.stuck > 0:
            state.scout = None
            pose(problem, state, state.u + state.apart)
        return False

    def read(self, problem: Problem, state: InteriorState) -> Point:
        gram, weights = factors(problem), state.mix.weights
        if state.scout is not None:  # nothing is known of all samples yet
            return Point(problem.loss.zero, weights)
        u = state.u + state.apart
        f = state.f if not np.any(to_host(state.apart)) else gram.matvec(gram.per_column(weights) * u)
        return Point(state.beta, weights, gram.squared_norms(u), f)

    def adapt(self, problem: Problem, state: InteriorState, certificate: Certificate) -> Status | None:
        return Status.STALLED if state.stuck >= SETTINGS.patience else None

    def finish(self, problem: Problem, point: Point) -> list[Point]:
        beta, weights = on_bounds(problem, point), point.weights
        if not problem.penalty.sparse:
            return [Point(beta, weights)]
        strict, mild = (np.where(weights < faint * weights.max(), 0.0, weights) for faint in SETTINGS.faint)
        return [Point(beta, strict), Point(point.beta, strict), Point(point.beta, mild), Point(beta, weights)]


class Mehrotra(Interior):
    """Interior point at fixed weights inside an alternation over them, as SVMs on features were first solved.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.solvers.literature.Mehrotra().name
    'mehrotra'
    """

    name = "mehrotra"

    def init(self, problem: Problem, start: Array | None, tol: float) -> InteriorState:
        weights = problem.penalty.weights_of_norms(np.ones(problem.gram.shape[1]))
        return begin(problem, FixedWeights(weights), start, tol)

    def step(self, problem: Problem, state: InteriorState) -> bool:
        _Step(factors(problem), state).take()
        state.steps += 1
        return state.gap <= SETTINGS.mehrotra or state.stuck > 0

    def adapt(self, problem: Problem, state: InteriorState, certificate: Certificate) -> Status | None:
        if state.stuck >= SETTINGS.patience:
            return Status.STALLED
        if state.gap > max(SETTINGS.reweigh * certificate.gap, SETTINGS.fine * state.tol):
            return None
        norms = state.mix.weights * np.sqrt(state.mix.q)
        state.mix = FixedWeights(problem.penalty.weights_of_norms(norms))
        centre(factors(problem), state, state.u + state.apart)
        return None


def split(terms: DualTerms) -> tuple[Array, list[Part]]:
    """Return what the parts of the duals begin at, and the parts: one from the nearer bound on, or two from zero on."""
    xp = namespace(terms.lower)
    if terms.kinked:
        return 0.0 * terms.linear, [Part(1.0, _width(terms.upper)), Part(-1.0, _width(-terms.lower))]
    low = xp.abs(terms.lower) <= xp.abs(terms.upper)
    one = 1.0 + 0.0 * terms.linear
    return xp.where(low, terms.lower, terms.upper), [Part(xp.where(low, one, -one), _width(terms.upper - terms.lower))]


def _width(width: Array) -> Array | None:
    return None if bool(namespace(width).all(namespace(width).isinf(width))) else width


def _uneven(width: Array | None, ridge: Array) -> bool:
    """Whether some duals have an end and others none, or none has an end or a ridge to hold it."""
    xp = namespace(ridge)
    return bool(xp.any(ridge <= 0)) if width is None else bool(xp.any(xp.isinf(width)))


def begin(problem: Problem, mix: SmoothWeights, start: Array | None, tol: float) -> InteriorState:
    """Return a central point: from the duals given, or from those that pull all samples alike, of the right size."""
    state = InteriorState(mix, tol)
    bind(problem, state)
    if start is None or not bool(namespace(start).any(start != 0)):
        start = _first(problem, state)
    centre(factors(problem), state, factors(problem).rmatvec(start))
    return state


def _first(problem: Problem, state: InteriorState) -> Array:  # (n,)
    """Return duals half of the way to where the linear terms pull them, less if the kernels hold them back."""
    xp, terms = namespace(state.offset), state.terms
    pull = terms.linear - (xp.mean(terms.linear) if problem.bias else 0.0)
    bound = xp.where(pull > 0, terms.upper, -terms.lower)
    size = xp.minimum(xp.where(xp.isfinite(bound), bound, state.size), state.size)
    start = problem.feasible(SETTINGS.halfway * xp.sign(pull) * size)
    if problem.dual_sum:
        return start
    curvature = 2.0 * problem.penalty.value(problem.gram.energies(start)) + float(terms.ridge @ start**2)
    gain = float(terms.linear @ start - terms.kink @ xp.abs(start))
    return start * (min(1.0, max(gain, 0.0) / curvature) if curvature else 1.0)


def pose(problem: Problem, state: InteriorState, u: Array) -> None:
    """Make ``state`` a central point of ``problem`` around u, the answer on some of its samples."""
    bind(problem, state)
    centre(factors(problem), state, u)
    state.scouted = state.posed = True


def begin_higher(gram: FactorGram, state: InteriorState) -> None:
    """Begin at larger products, while there are any: a feature that few samples have may have been fitted too well."""
    if state.height < SETTINGS.highest:
        state.height *= SETTINGS.higher
        centre(gram, state, state.u)


def bind(problem: Problem, state: InteriorState) -> None:
    """Let ``state`` know the duals of ``problem``: their terms, their parts and their sizes."""
    state.terms, state.total, state.unit = problem.loss.box, problem.dual_sum, slope_unit(problem)
    state.offset, state.parts = split(state.terms)
    state.size = _size(state.terms, state.parts, state.unit)


def _size(terms: DualTerms, parts: list[Part], unit: float) -> Array:  # (n,)
    """Return the size of each dual: the width of its bounds, or what its ridge allows where that is less."""
    xp = namespace(terms.ridge)
    stiff = terms.ridge > 0
    size = unit / xp.where(stiff, terms.ridge, 1.0 + 0.0 * terms.ridge)
    if parts[0].width is None:
        return size
    return xp.where(stiff, xp.minimum(size, parts[0].width), parts[0].width)


def barrier_count(gram: FactorGram) -> float:
    """Return how many samples the barrier of the weights counts for."""
    n, m = gram.shape
    return min(2.0 * n, max(SETTINGS.smooth * m, SETTINGS.part * n))


def mean_product(state: InteriorState) -> float:
    """Return the mean of the products of the samples."""
    return state.product() / state.count


def centre(gram: FactorGram, state: InteriorState, u: Array) -> None:
    """Put the duals where all products with multipliers are equal, for the weights and decision values of u."""
    terms, state.u, state.spread = state.terms, u, gram.spread(u)
    mu = SETTINGS.start * state.height * state.unit * float(namespace(u).mean(state.size))
    state.mix.begin(gram.squared_norms(u), barrier_count(gram), mu)
    state.f = gram.basis.matvec(state.spread.mixed(state.mix.weights))
    slope = state.f + state.bias + terms.ridge * state.offset - terms.linear
    state.sides = []
    for place, part in enumerate(state.parts):
        own = part.sign * slope + terms.kink
        slacks = balanced(own, terms.ridge, part.width, mu)
        state.sides += [Side(place, x, mu / x, sign) for x, sign in zip(slacks, (1.0, -1.0), strict=False)]
    state.apart = gram.rmatvec(state.beta) - u
    state.gap, state.stuck = np.inf, 0


def balanced(slope: Array, ridge: Array, width: Array | None, mu: float) -> tuple[Array, ...]:
    """Return the a with ``slope + ridge a = mu / a - mu / (width - a)``, and ``width - a`` where there is a width."""
    if width is None:
        return (_above_zero(slope, ridge, mu),)
    xp = namespace(slope)
    high = slope + 0.5 * ridge * width < 0  # nearer to the upper bound, from which it is then seen
    steep = xp.where(high, -slope - ridge * width, slope)
    push = xp.where(steep > 0, steep, 0.0 * steep) * width
    near = 2.0 * mu * width / (push + 2.0 * mu + xp.sqrt(push**2 + 4.0 * mu**2))  # the answer without a ridge
    if bool(xp.any(ridge > 0)):
        near = xp.minimum(near, _above_zero(steep, ridge, mu))
        for _ in range(SETTINGS.newton):  # from above, on a convex function
            room = width - near
            excess = (steep + ridge * near + mu / room) * near - mu
            near = near - excess / (steep + 2.0 * ridge * near + mu * width / room**2)
    far = width - near
    return xp.where(high, far, near), xp.where(high, near, far)


def _above_zero(slope: Array, ridge: Array, mu: float) -> Array:
    """Return the positive a with ``slope + ridge a = mu / a``."""
    xp = namespace(slope)
    root = xp.sqrt(slope**2 + 4.0 * ridge * mu)
    down = slope < 0
    stiff = xp.where(down & (ridge > 0), ridge, 1.0 + 0.0 * ridge)
    return xp.where(down, (root - slope) / (2.0 * stiff), 2.0 * mu / (root + xp.abs(slope)))


def on_bounds(problem: Problem, point: Point) -> Array:
    """Return the duals with those that are nearer to a bound, or a kink, than their slope is to zero put on it."""
    terms, beta, unit = problem.loss.box, point.beta, slope_unit(problem)
    xp, scale = namespace(beta), _size(terms, split(terms)[1], unit) / unit
    f = problem.gram.decision(beta, point.weights)
    slope = f + problem.best_bias(f) + terms.ridge * beta - terms.linear
    found = xp.where(beta - terms.lower < (slope - terms.kink) * scale, terms.lower, beta)
    found = xp.where(terms.upper - beta < (-slope - terms.kink) * scale, terms.upper, found)
    return xp.where(xp.abs(beta) < (terms.kink - xp.abs(slope)) * scale, 0.0 * beta, found)


@dataclass
class _Direction:
    """Where duals, multipliers, bias, weights and ``Q'beta`` go."""

    a: list[Array]  # (n,) of each part
    multipliers: list[Array]
    bias: float
    folded: Array  # (r,)
    turn: WeightStep
    fall: Array  # (n,) how fast the first of a sample's slacks and multipliers falls, relative to it


class _Step:
    """One Newton step: the system at a state, and the directions it gives."""

    def __init__(self, gram: FactorGram, state: InteriorState):
        self.gram, self.state = gram, state
        self.gap = state.product()
        self.mu = mean_product(state)
        terms, beta, bias = state.terms, state.beta, state.total is not None
        slope = state.f + state.bias + terms.ridge * beta - terms.linear
        self.residuals = [part.sign * slope + terms.kink for part in state.parts]
        self.stiffness = [0.0 * slope for _ in state.parts]
        for side in state.sides:
            self.residuals[side.part] = self.residuals[side.part] - side.sign * side.multiplier
            with np.errstate(over="ignore"):  # a dual on its bound to the last digit gives way no more
                self.stiffness[side.part] = self.stiffness[side.part] + side.multiplier / side.slack
        theta = 1.0 / (terms.ridge + self._held())
        mix, v = state.mix, state.spread.mixed(state.mix.weights)
        close = min(SETTINGS.loose, SETTINGS.close * state.gap * state.share) * float(v @ v) ** 0.5
        self.system = Reduced(gram, state.spread, mix.weights, mix.jacobian, theta, close, state.rough, bias)
        self.short = (state.total or 0.0) - float(namespace(beta).sum(beta))
        self.along = gram.inner(state.u, state.apart)
        straight = gram.fold(gram.scale_blocks(mix.weights, state.apart))
        self.lag = straight + state.spread.mixed(2.0 * mix.jacobian @ self.along)
        self.swerve: Array = None  # what the predictor's step of the duals and that of the weights are together
        self.dq: Any = 0.0  # squares of the predictor's step

    def _held(self) -> Array:
        """Return the stiffness of the duals, whose parts give way together."""
        return self.stiffness[0] if len(self.stiffness) == 1 else 1.0 / sum(1.0 / own for own in self.stiffness)

    def _predict(self, affine: _Direction) -> None:
        """Take note of what is quadratic in the predictor's step."""
        change = self.gram.unfold(affine.folded) + self.state.apart
        self.dq = self.gram.squared_norms(change)
        if np.any(affine.turn.weights):
            self.swerve = self.gram.fold(self.gram.scale_blocks(np.asarray(affine.turn.weights), change))

    def take(self) -> None:
        """Go the step."""
        state = self.state
        if self.gap == 0.0:  # every product has come to zero in floating point: there is nothing left to aim at
            state.stuck = SETTINGS.patience
            return
        affine = self._direction([0.0 * side.slack for side in state.sides], 0.0, None)
        self._predict(affine)
        left = self._product(affine, self._length(affine)) / self.gap
        aim = max(max(left, 0.0) ** 3 * self.mu, SETTINGS.enough * state.tol * state.value / state.count)
        targets = [
            aim - side.sign * affine.a[side.part] * move
            for side, move in zip(state.sides, affine.multipliers, strict=True)
        ]
        best = self._direction(targets, aim, affine)
        t = self._length(best)
        for _ in range(SETTINGS.correctors):
            if t >= 1.0:
                break
            wanted = min(1.0, (1.0 + SETTINGS.longer) * t + SETTINGS.longer)
            targets = self._centred(targets, aim, best, wanted)
            trial = self._direction(targets, aim, affine)
            if self._length(trial) < t + SETTINGS.longer * (wanted - t):
                break
            best, t = trial, self._length(trial)
        if not np.isfinite(t) or not bool(namespace(best.folded).all(namespace(best.folded).isfinite(best.folded))):
            state.stuck = SETTINGS.patience  # floating point has no direction to give: the state is as good as it gets
            return
        if state.posed and t < SETTINGS.timid and state.height < SETTINGS.highest:
            begin_higher(self.gram, state)
            return
        state.posed = False
        self._move(best, t)

    def _direction(self, targets: list[Array], aim: float, affine: _Direction | None) -> _Direction:
        """Return the direction in which products go to their targets, to first order."""
        state = self.state
        r = [-residual for residual in self.residuals]
        for side, target in zip(state.sides, targets, strict=True):
            r[side.part] = r[side.part] + side.sign * (target / side.slack - side.multiplier)
        pushed = self.lag
        goal = state.mix.aim(aim, affine.turn if affine else WeightStep(), self.dq)
        pull = state.mix.pull(goal)
        if pull is not None:
            pushed = pushed + state.spread.mixed(pull)
            if self.swerve is not None:
                pushed = pushed + self.swerve
        x, bias, folded = self.system.solve(self._joined(r), pushed, self.short)
        turn = state.mix.turn(goal, state.spread.inner(folded) + self.along)
        a, multipliers = self._shared(x, r), []
        xp, fall = namespace(x), 0.0 * x
        for side, target in zip(state.sides, targets, strict=True):
            own = side.sign * a[side.part]
            move = (target - side.multiplier * own) / side.slack - side.multiplier
            multipliers.append(move)
            fall = xp.maximum(fall, xp.maximum(-own / side.slack, -move / side.multiplier))
        return _Direction(a, multipliers, bias, folded, turn, fall)

    def _joined(self, r: list[Array]) -> Array:
        """Return what the right sides of the parts are for the duals."""
        if len(r) == 1:
            return self.state.parts[0].sign * r[0]
        (plus, minus), (up, down) = self.stiffness, r
        return (up * minus - down * plus) / (plus + minus)

    def _shared(self, x: Array, r: list[Array]) -> list[Array]:
        """Return the moves of the parts, where the duals move by x."""
        if len(r) == 1:
            return [self.state.parts[0].sign * x]
        (plus, minus), both = self.stiffness, r[0] + r[1]
        return [(both + minus * x) / (plus + minus), (both - plus * x) / (plus + minus)]

    def _length(self, d: _Direction) -> float:
        """Return the longest step that takes nothing beyond its bound."""
        fall = float(namespace(d.fall).max(d.fall))
        return min(1.0, SETTINGS.boundary * d.turn.limit, SETTINGS.boundary / fall if fall > 0 else 1.0)

    def _moved(self, d: _Direction, t: float) -> list[tuple[Array, Array]]:
        """Return slacks and multipliers after a step t."""
        return [
            (side.slack + (t * side.sign) * d.a[side.part], side.multiplier + t * move)
            for side, move in zip(self.state.sides, d.multipliers, strict=True)
        ]

    def _product(self, d: _Direction, t: float) -> float:
        """Return the sum of all products after a step t."""
        moved = self._moved(d, t)
        return self.state.mix.product(d.turn, t) + sum(float(slack @ multiplier) for slack, multiplier in moved)

    def _centred(self, targets: list[Array], aim: float, d: _Direction, t: float) -> list[Array]:
        """Return targets that bring outlying products of a step t back to the neighbourhood of the aim."""
        new, span = [], SETTINGS.span
        for (slack, multiplier), target in zip(self._moved(d, t), targets, strict=True):
            xp, reached = namespace(slack), slack * multiplier
            back = xp.clip(reached, min=aim / span, max=aim * span) - reached
            new.append(target + xp.clip(back, min=-span * aim))
        return new

    def _move(self, d: _Direction, t: float) -> None:
        state, gram = self.state, self.gram
        for side, moved in zip(state.sides, self._moved(d, t), strict=True):
            side.slack, side.multiplier = moved
        state.bias += t * d.bias
        state.u = state.u + t * (gram.unfold(d.folded) + state.apart)
        state.spread = gram.spread(state.u)
        state.apart = (1.0 - t) * state.apart
        state.mix.move(d.turn, t)
        state.mix.update(gram.squared_norms(state.u))
        state.f = gram.basis.matvec(state.spread.mixed(state.mix.weights))
        state.stuck = state.stuck + 1 if t < SETTINGS.stuck else 0
        state.rough = state.rough and not self.system.failed
        self._measure()

    def _measure(self) -> None:
        """Compare the products with the objective, or its size where it may be negative, as that of outliers."""
        state, xp = self.state, namespace(self.state.offset)
        q = self.gram.squared_norms(state.u + state.apart)
        value = float(xp.sum(state.terms.value(state.beta))) - state.mix.value(q)
        width = state.parts[0].width
        most = np.inf if width is None else state.unit * float(xp.sum(width))
        if state.total:
            value = max(abs(value), SETTINGS.zero * most)
        state.value = max(value, 0.0)
        state.gap = state.product() / value if value > 0 else np.inf
        if value > 0 and np.isfinite(most):
            state.share = value / most
