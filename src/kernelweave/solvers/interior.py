"""Interior point on factors: kernel weights and duals in one Newton system."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..arrays import Array, namespace, to_host
from ..penalties import Fixed
from ..problem import Certificate, Point, Problem, Status
from .base import Solver
from .mixing import Following, Turn, mixing_of
from .reduced import Reduced

START = 1.0  # first product of a dual and its multiplier, in units of the cost
BOUNDARY = 0.995  # share of the way to the boundary that a step may go
CORRECTORS = 3  # directions added for centrality, while they lengthen the step
SMOOTH = 30.0  # samples that the barrier of one weight counts for
SPAN = 10.0  # how far from the aim a product may lie before a corrector minds
COARSE = 1e-2  # gap at which an answer on some samples is left for all of them
LEAST, PER_COLUMN = 2000, 5  # samples to begin with: so many, and so many for each column
WORTH = 8  # how many times more samples there must be for that
CLOSE = 0.03  # error of a direction, in units of the gap
LOOSE = 1e-2  # the same at most
ENOUGH = 0.01  # gap to aim for, in units of the gap asked for
STUCK = 1e-6  # step below which no progress is made
FAINT = (1e-3, 1e-5)  # shares of the largest weight below which a weight may be dropped
WATCH = 4  # steps from one judgement to the next while far from the optimum


@dataclass
class Side:
    """One bound of the duals: its slack and multiplier are positive, and their product is on its way to zero."""

    slack: Array  # (n,)
    multiplier: Array  # (n,)
    sign: float  # of the slack as the dual grows


@dataclass
class InteriorState:
    """A point inside the box, in the duals ``a = y beta >= 0``, on its way to the optimum.

    ``u`` is on its own way to ``V'beta``; ``apart`` is what it lacks. Weights and decision values belong to u.
    """

    mix: Following
    tol: float
    sign: Any = None  # (n,)
    linear: Any = None  # (n,)
    ridge: Any = None  # (n,)
    upper: Any = None  # (n,) None where there is no upper bound
    u: Any = None  # (D,)
    apart: Any = None  # (D,)
    f: Any = None  # (n,)
    sides: list[Side] = field(default_factory=list)
    bias: float = 0.0
    gap: float = np.inf  # of the products, relative to the objective
    value: float = 0.0  # of the objective, where it is positive
    share: float = 1.0  # of the largest possible loss that it is
    steps: int = 0
    stuck: int = 0
    rough: bool = True
    scout: Problem | None = None  # the problem on some of the samples, while that is what is being solved

    @property
    def a(self) -> Array:
        return self.sides[0].slack

    @property
    def count(self) -> float:
        return len(self.sides) * self.sign.shape[0] + self.mix.count

    def product(self) -> float:
        return sum(float(side.slack @ side.multiplier) for side in self.sides) + self.mix.product()


class Interior(Solver):
    """Primal-dual interior point with the kernel weights as unknowns: learning the kernel costs one machine.

    Each step solves one linear system of the size of the features, by predictor, corrector and centrality
    correctors. The number of steps hardly depends on the cost C, the penalty or the number of samples.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> V = np.random.default_rng(0).normal(size=(60, 6))
    >>> gram = kw.grams.LowRankGram(V, [3, 3])
    >>> problem = kw.Problem(gram, kw.losses.Hinge(), kw.penalties.L1(), np.sign(V[:, 0]), 1.0)
    >>> kw.solve(problem, "interior").converged
    True
    """

    name = "interior"
    needs = ("fold", "lift", "weighted")

    def refuse(self, problem: Problem) -> str | None:
        box = problem.loss.quadratic(problem.y, problem.C)
        xp = namespace(problem.y)
        if bool(xp.any(xp.isinf(box.lower) & xp.isinf(box.upper))):
            return f"needs duals with a bound, which {problem.loss} has not: use solver='newton'."
        return None

    def init(self, problem: Problem, start: Array | None, tol: float) -> InteriorState:
        scout = None if start is not None else sample_of(problem)
        state = begin(scout or problem, mixing_of(problem.penalty, problem.gram.shape[1]), start, tol)
        state.scout = scout
        return state

    def step(self, problem: Problem, state: InteriorState) -> bool:
        if state.scout is None:
            _Step(problem.gram, state).take()
            state.steps += 1
            return state.gap <= 10.0 * state.tol or state.steps % WATCH == 0 or state.stuck > 0
        _Step(state.scout.gram, state).take()
        if state.gap <= COARSE or state.stuck > 0:
            state.scout = None
            pose(problem, state, state.u + state.apart)
        return False

    def read(self, problem: Problem, state: InteriorState) -> Point:
        gram, weights = problem.gram, state.mix.weights
        if state.scout is not None:  # nothing is known of all samples yet
            return Point(0.0 * problem.y, weights)
        u = state.u + state.apart
        f = state.f if not np.any(to_host(state.apart)) else gram.lift(gram.per_column(weights) * u)
        return Point(state.sign * state.a, weights, gram.energies(u), f)

    def heed(self, problem: Problem, state: InteriorState, certificate: Certificate) -> Status | None:
        return Status.STALLED if state.stuck >= 3 else None

    def finish(self, problem: Problem, point: Point) -> list[Point]:
        beta, weights = on_bounds(problem, point), point.weights
        if not problem.penalty.sparse:
            return [Point(beta, weights)]
        strict, mild = (np.where(weights < faint * weights.max(), 0.0, weights) for faint in FAINT)
        return [Point(beta, strict), Point(point.beta, strict), Point(point.beta, mild), Point(beta, weights)]


class Mehrotra(Interior):
    """Interior point at fixed weights inside an alternation over them, as low-rank machines were first solved.

    Examples
    --------
    >>> import kernelweave as kw
    >>> kw.solvers.Mehrotra().name
    'mehrotra'
    """

    name = "mehrotra"

    def init(self, problem: Problem, start: Array | None, tol: float) -> InteriorState:
        weights = problem.penalty.weights_of_norms(np.ones(problem.gram.shape[1]))
        return begin(problem, Following(Fixed(weights)), start, tol)

    def step(self, problem: Problem, state: InteriorState) -> bool:
        _Step(problem.gram, state).take()
        state.steps += 1
        return state.gap <= 1e-2 or state.stuck > 0

    def heed(self, problem: Problem, state: InteriorState, certificate: Certificate) -> Status | None:
        if state.stuck >= 3:
            return Status.STALLED
        if state.gap > max(0.3 * certificate.gap, 0.2 * state.tol):
            return None
        norms = state.mix.weights * np.sqrt(state.mix.q)
        weights = problem.penalty.weights_of_norms(norms)
        state.mix = Following(Fixed(weights))
        state.u = state.u + state.apart
        centre(problem.gram, state, START)
        return None


def sample_of(problem: Problem) -> Problem | None:
    """Return the problem on few samples at as much more cost, if there are many; its answer is a good beginning."""
    n, D = problem.gram.features.shape
    few = max(LEAST, PER_COLUMN * D)
    if n < WORTH * few:
        return None
    rows = np.sort(np.random.default_rng(0).choice(n, few, replace=False, shuffle=False))
    gram = problem.gram.take(rows)
    index = problem.gram.positions(rows)
    xp = namespace(problem.y)
    y, C = xp.take(problem.y, index), xp.take(problem.C, index)
    both = bool(xp.any(y > 0)) and bool(xp.any(y < 0))
    return Problem(gram, problem.loss, problem.penalty, y, C * (n / few)) if both else None


def begin(problem: Problem, mix: Following, start: Array | None, tol: float) -> InteriorState:
    """Return a central point: from the duals given, or from those of a nearest-mean classifier of the right size."""
    xp, y = namespace(problem.y), problem.y
    box = problem.loss.quadratic(y, problem.C)
    if start is None or not bool(xp.any(start != 0)):
        size = xp.where(y > 0, box.upper, -box.lower)
        size = xp.where(xp.isfinite(size), size, problem.C)
        start = problem.feasible(0.5 * y * size)
        curvature = 2.0 * problem.penalty.value(problem.gram.quad(start)) + float(box.ridge @ start**2)
        start = start * (min(1.0, float(box.linear @ start) / curvature) if curvature else 1.0)
    state = InteriorState(mix, tol)
    pose(problem, state, problem.gram.fold(start))
    return state


def pose(problem: Problem, state: InteriorState, u: Array) -> None:
    """Make ``state`` a central point of ``problem`` around u."""
    xp, y = namespace(problem.y), problem.y
    box = problem.loss.quadratic(y, problem.C)
    upper = xp.where(y > 0, box.upper, -box.lower)
    state.sign, state.linear, state.ridge, state.u = y, y * box.linear, box.ridge, u
    state.upper = upper if bool(xp.all(xp.isfinite(upper))) else None
    centre(problem.gram, state, START)


def barrier_count(gram: Any) -> float:
    """Return how many samples the barrier of the weights counts for."""
    n, m = gram.shape
    return min(2.0 * n, SMOOTH * m)


def mean_product(state: InteriorState) -> float:
    """Return the mean of the products of the samples."""
    return state.product() / state.count


def centre(gram: Any, state: InteriorState, share: float) -> None:
    """Put the duals where all products with multipliers are equal, for the weights and decision values of u."""
    xp = namespace(state.sign)
    size = state.upper if state.upper is not None else 1.0 / state.ridge
    mu = share * float(xp.mean(size))
    state.mix.begin(gram.energies(state.u), barrier_count(gram), mu)
    state.f = gram.lift(gram.per_column(state.mix.weights) * state.u)
    slope = state.sign * (state.f + state.bias) - state.linear
    if state.upper is None:
        root = xp.sqrt(slope**2 + 4.0 * state.ridge * mu)
        a = xp.where(slope < 0, (root - slope) / (2.0 * state.ridge), 2.0 * mu / (root + xp.abs(slope)))
        state.sides = [Side(a, mu / a, 1.0)]
    else:
        steep = xp.abs(slope) * state.upper
        near = 2.0 * mu * state.upper / (steep + 2.0 * mu + xp.sqrt(steep**2 + 4.0 * mu**2))
        a = xp.where(slope < 0, state.upper - near, near)
        room = xp.where(slope < 0, near, state.upper - near)
        state.sides = [Side(a, mu / a, 1.0), Side(room, mu / room, -1.0)]
    state.apart = gram.fold(state.sign * state.a) - state.u
    state.gap, state.stuck = np.inf, 0


def on_bounds(problem: Problem, point: Point) -> Array:
    """Return the duals with those that are nearer to a bound than their slope is to zero put on it."""
    xp, y, C = namespace(problem.y), problem.y, problem.C
    box = problem.loss.quadratic(y, C)
    f = problem.gram.matvec(point.beta, point.weights)
    slope = y * (f + problem.loss.best_bias(f, y, C)) + box.ridge * point.beta * y - y * box.linear
    share = point.beta * y / C
    upper = xp.where(y > 0, box.upper, box.lower)
    beta = xp.where(share < slope, 0.0 * y, point.beta)
    return xp.where((share - 1.0 > slope) & xp.isfinite(upper), upper, beta)


@dataclass
class _Direction:
    """Where duals, multipliers, bias, weights and ``V'beta`` go."""

    a: Array  # (n,)
    multipliers: list[Array]
    bias: float
    folded: Array  # (D,)
    turn: Turn
    fall: Array  # (n,) how fast the first of a sample's slacks and multipliers falls, relative to it


class _Step:
    """One Newton step: the system at a state, and the directions it gives."""

    def __init__(self, gram: Any, state: InteriorState):
        self.gram, self.state = gram, state
        self.gap = state.product()
        self.mu = mean_product(state)
        residual = state.sign * (state.f + state.bias) + state.ridge * state.a - state.linear
        stiffness = state.ridge
        for side in state.sides:
            residual = residual - side.sign * side.multiplier
            stiffness = stiffness + side.multiplier / side.slack
        self.residual = residual
        mix, v = state.mix, gram.per_column(state.mix.weights) * state.u
        close = min(LOOSE, CLOSE * state.gap * state.share) * float(v @ v) ** 0.5
        self.system = Reduced(gram, state.u, mix.weights, mix.jacobian, 1.0 / stiffness, close, state.rough)
        self.short = -float(state.sign @ state.a)
        self.lag = self._bent(mix.jacobian, state.apart)

    def _bent(self, jacobian: np.ndarray, x: Array) -> Array:
        """Return the curvature of the mixture times x."""
        per, state = self.gram.per_column, self.state
        return per(state.mix.weights) * x + per(2.0 * jacobian @ self.gram.inner(state.u, x)) * state.u

    def take(self) -> None:
        """Go the step."""
        state = self.state
        affine = self._direction([0.0 * side.slack for side in state.sides], 0.0, None)
        left = self._product(affine, self._length(affine)) / self.gap
        aim = max(max(left, 0.0) ** 3 * self.mu, ENOUGH * state.tol * state.value / state.count)
        targets = [
            aim - side.sign * affine.a * move for side, move in zip(state.sides, affine.multipliers, strict=True)
        ]
        best = self._direction(targets, aim, affine)
        t = self._length(best)
        for _ in range(CORRECTORS):
            if t >= 1.0:
                break
            wanted = min(1.0, 1.1 * t + 0.1)
            targets = self._centred(targets, aim, best, wanted)
            trial = self._direction(targets, aim, affine)
            if self._length(trial) < t + 0.1 * (wanted - t):
                break
            best, t = trial, self._length(trial)
        self._move(best, t)

    def _direction(self, targets: list[Array], aim: float, affine: _Direction | None) -> _Direction:
        """Return the direction in which products go to their targets, to first order."""
        state, per = self.state, self.gram.per_column
        r = -self.residual
        for side, target in zip(state.sides, targets, strict=True):
            r = r + side.sign * (target / side.slack - side.multiplier)
        pushed = self.lag
        dq = self.gram.energies(affine.folded + state.apart) if affine else 0.0
        goal = state.mix.aim(aim, affine.turn if affine else Turn(), dq)
        pull = state.mix.pull(goal)
        if pull is not None:
            pushed = pushed + per(pull) * state.u
            if affine:
                pushed = pushed + per(np.asarray(affine.turn.weights)) * (affine.folded + state.apart)
        x, bias, folded = self.system.solve(state.sign * r, pushed, self.short)
        turn = state.mix.turn(goal, self.gram.inner(state.u, folded + state.apart))
        a, multipliers = state.sign * x, []
        xp, fall = namespace(x), 0.0 * x
        for side, target in zip(state.sides, targets, strict=True):
            move = (target - side.sign * side.multiplier * a) / side.slack - side.multiplier
            multipliers.append(move)
            fall = xp.maximum(fall, xp.maximum(-side.sign * a / side.slack, -move / side.multiplier))
        return _Direction(a, multipliers, bias, folded, turn, fall)

    def _length(self, d: _Direction) -> float:
        """Return the longest step that takes nothing beyond its bound."""
        fall = float(namespace(d.fall).max(d.fall))
        return min(1.0, BOUNDARY * d.turn.limit, BOUNDARY / fall if fall > 0 else 1.0)

    def _moved(self, d: _Direction, t: float) -> list[tuple[Array, Array]]:
        """Return slacks and multipliers after a step t."""
        return [
            (side.slack + (t * side.sign) * d.a, side.multiplier + t * move)
            for side, move in zip(self.state.sides, d.multipliers, strict=True)
        ]

    def _product(self, d: _Direction, t: float) -> float:
        """Return the sum of all products after a step t."""
        moved = self._moved(d, t)
        return self.state.mix.product(d.turn, t) + sum(float(slack @ multiplier) for slack, multiplier in moved)

    def _centred(self, targets: list[Array], aim: float, d: _Direction, t: float) -> list[Array]:
        """Return targets that bring outlying products of a step t back to the neighbourhood of the aim."""
        xp, new = namespace(d.a), []
        for side, move, target in zip(self.state.sides, d.multipliers, targets, strict=True):
            reached = (side.slack + (t * side.sign) * d.a) * (side.multiplier + t * move)
            back = xp.clip(reached, min=aim / SPAN, max=aim * SPAN) - reached
            new.append(target + xp.clip(back, min=-SPAN * aim))
        return new

    def _move(self, d: _Direction, t: float) -> None:
        state, gram = self.state, self.gram
        for side, moved in zip(state.sides, self._moved(d, t), strict=True):
            side.slack, side.multiplier = moved
        state.bias += t * d.bias
        state.u = state.u + t * (d.folded + state.apart)
        state.apart = (1.0 - t) * state.apart
        state.mix.move(d.turn, t)
        state.mix.update(gram.energies(state.u))
        state.f = gram.lift(gram.per_column(state.mix.weights) * state.u)
        state.stuck = state.stuck + 1 if t < STUCK else 0
        state.rough = state.rough and not self.system.failed
        q = gram.energies(state.u + state.apart)
        value = float((state.linear - 0.5 * state.ridge * state.a) @ state.a) - state.mix.penalty.value(q)
        state.value = max(value, 0.0)
        state.gap = state.product() / value if value > 0 else np.inf
        if value > 0 and state.upper is not None:
            state.share = value / float(namespace(d.a).sum(state.upper))
