"""Newton's method with conjugate gradients, for every loss with a curvature: rows of probabilities and survival too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import Array, cholesky, device_of, like, lower_root, namespace, scatter, to_host
from ..certify import dual_value
from ..grams import BasisGram, CombinableGram, FactorGram, TensorGram
from ..grams.tensors import WeightedSum
from ..penalties import Fixed
from ..penalties.base import MixingPenalty
from ..problem import Certificate, Point, Problem, Status
from .barrier import Barrier, BarrierStep
from .base import TINY, Solver, combinable, late, no_gradient, without_faint_shares
from .factored import Factored


@dataclass(frozen=True)
class NewtonCGSettings:
    """Constants of Newton's method with conjugate gradients."""

    loose: float = 0.3  #: share of the residual that the first steps leave
    settling: int = 10  #: steps of a problem of TINY size from one judgement to the next, until it is settled
    settled: float = 1e-11  #: relative difference of duals and slopes at which it is
    closer: float = 0.03  #: the same on kernels, which take longer to read than to multiply with
    tightest: float = 1e-8  #: share that any step leaves, at least
    direct: int = 1500  #: unknowns up to which a step is solved by a matrix, on the computer's own processor
    few: float = 0.5  #: share of the samples that have a curvature up to which a matrix is formed from these alone
    direct_device: int = 12000  #: the same on an accelerator
    table: int = 2**26  #: entries of the columns of the basis that are bent at a time where a loss is no sum of samples
    width: int = 64  #: these columns, at most
    near: float = 0.01  #: share of the residual to be left from which on that pays
    iterations: int = 400  #: of conjugate gradients in a step, at most
    factored: float = 0.02  #: times the samples: iterations that cost as much as a factor of a kernel
    dense: float = 0.1  #: the same of a matrix that is not symmetric, and has to be formed
    read: float = 50.0  #: times the kernels: samples up to which to read these takes longer than a factor
    exact: float = 1e-9  #: share of the residual that a step with such a factor leaves
    pure: float = 0.1  #: times tol: share of the objective that it may cost to leave nothing of the residual in duals
    same: float = 1e-2  #: times tol: share of the duals' sum by which feasible ones differ and yet count as the same
    promising: float = 3.0  #: times tol: gap, not at the best scales, from which on the judge is asked
    unjudged: int = 5  #: steps without a judgement, at most
    cuts: tuple[float, ...] = (1e-2, 1e-3, 1e-4, 1e-6)  #: shares of l1 below which kernels are left out
    least: float = 0.03  #: times tol: share of the objective that shares times slacks need not fall below
    missed: float = 0.1  #: times tol: share of the objective that this may cost
    halvings: int = 30  #: of a step along which the objective does not fall
    finest: int = 100  #: of the way on which a first kernel comes in, which may be a short one where kernels are large
    armijo: float = 1e-4  #: share of the promised fall that a step must bring
    rounding: float = 1e-14  #: share of the objective by which it may seem to rise
    behind: float = 0.3  #: share of the width due to the weights at which a proximal stage is left for the next
    strength: float = 10.0  #: of the first proximal stage
    growth: float = 3.0  #: of the proximal step from stage to stage
    strongest: float = 3e3  #: most strength of a proximal step
    floor: float = 1e-4  #: times tol: share every kernel keeps while the weights move, so that it can come back
    trim: float = 1e-6  #: times tol: share below which a kernel gets weight zero at once
    slow: float = 0.5  #: share of its width that a step leaves of it after which the next one is solved more closely
    patience: int = 6  #: steps without any fall after which that is the end


SETTINGS = NewtonCGSettings()


@dataclass
class NewtonCGState:
    """A model ``f = K_w beta`` with what its kernels make of beta, and how closely the next step is to be solved."""

    penalty: MixingPenalty
    beta: Array  # as the problem's duals are
    image: Any  # what the kernels make of it
    q: np.ndarray  # (m,)
    f: Array  # K_w beta
    bias: Any
    value: float  # of the objective with the penalty followed
    tol: float
    close: float = SETTINGS.loose
    width: float = np.inf
    stuck: int = 0
    barrier: Barrier | None = None  # the weights of l1 on kernels, which are then not those of the penalty followed
    hard: bool = False  # whether conjugate gradients took long enough for a factor to pay
    unjudged: int = 0
    known: tuple[Array, Array] | None = None  # duals, and their sums in the basis

    @property
    def weights(self) -> np.ndarray:  # (m,)
        """Kernel weights."""
        return self.penalty.weights(self.q) if self.barrier is None else self.barrier.weights


class NewtonCG(Solver):
    """Newton's method on the decision values, each step solved by conjugate gradients; for all losses with a curvature.

    With ``f = K_w beta``, the slope of the objective in beta is ``S (beta + L'(f))``, S being the derivative of f: one
    combined kernel plus a correction of the rank of the kernels in play. A step solves
    ``(I + L'' S) x = -L'(f) - beta`` by conjugate gradients in the inner product of S, which need the curvature of the
    loss only as products with it. So the loss may be no sum over samples (survival), or have rows of decision values
    (softmax), and kernels may be stored or features of any library. The best bias is followed exactly. For l1 the
    weights follow entropic proximal stages.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import DenseGram, Problem, losses, penalties, solve
    >>> x = np.linspace(-1.0, 1.0, 12)
    >>> gram = DenseGram(np.stack([np.outer(x, x), np.exp(-((x[:, None] - x) ** 2))], axis=2))
    >>> loss = losses.Softmax().bind(np.repeat([0, 1, 2], 4), C=10.0)
    >>> solve(Problem(gram, loss, penalties.L1()), "newton-cg").gap <= 1e-3
    True
    """

    name = "newton-cg"
    needs = (FactorGram, CombinableGram, TensorGram)
    takes = ("smooth",)
    biasless = True
    several = True
    precise = 1e-11

    def refuse(self, problem: Problem) -> str | None:
        return no_gradient(problem)

    def init(self, problem: Problem, start: Any, tol: float) -> NewtonCGState:
        state = begin(problem, start, tol)
        if isinstance(state.image, Outputs):
            state.close = SETTINGS.tightest if problem.n <= TINY else SETTINGS.closer
        if state.q.any():
            _lead(problem, state)
        return state

    def step(self, problem: Problem, state: NewtonCGState) -> bool:
        if state.barrier is None:
            advance(problem, state)
            last = problem.penalty.fixed or state.penalty is problem.penalty
            for _ in range(SETTINGS.settling if problem.n <= TINY and last else 0):
                if state.stuck or late() or _settled(problem, state):
                    break
                advance(problem, state)
        else:
            _advance_all(problem, state, state.barrier)
        if state.barrier is None and state.penalty.fixed and not problem.penalty.fixed:
            _lead(problem, state)
        state.unjudged = 0 if state.stuck or _promising(problem, state) else state.unjudged + 1
        return state.unjudged % SETTINGS.unjudged == 0

    def read(self, problem: Problem, state: NewtonCGState) -> Point:
        weights = _trimmed(problem, state)
        if isinstance(state.image, Outputs) and not state.stuck and _promising(problem, state):
            return Point(problem.feasible(state.beta), weights, state.q, state.image.mixed(weights))
        duals, q = _better_duals(problem, state)
        return Point(duals, weights, q, state.image.mixed(weights), state.beta, state.q)

    def adapt(self, problem: Problem, state: NewtonCGState, certificate: Certificate) -> Status | None:
        width = certificate.upper - certificate.lower
        if state.stuck or width > SETTINGS.slow * state.width:
            state.close = max(0.1 * state.close, SETTINGS.tightest)
        state.width = width
        if state.penalty.mixing_gap(state.q) > SETTINGS.behind * width:
            floor = SETTINGS.floor * state.tol
            follow(problem, state, state.penalty.next_stage(state.q, SETTINGS.growth, SETTINGS.strongest, floor))
            state.stuck = 0
        return Status.STALLED if state.stuck >= SETTINGS.patience else None

    def refresh(self, problem: Problem, state: NewtonCGState) -> None:
        recompute(problem, state)

    def finish(self, problem: Problem, point: Point) -> list[Point]:
        return without_faint_shares(problem, point)


@dataclass
class Outputs:
    """What kernels make of duals as numbers for each sample and kernel."""

    beta: Array
    g: Array  # (n, m) or (c, n, m) K_k beta

    def inner(self, other: Outputs) -> np.ndarray:  # (m,)
        """Return the inner product of both duals in every kernel, summed over columns."""
        return other.along(self.beta)

    def along(self, x: Array) -> np.ndarray:  # (m,)
        """Return the inner product with duals x in every kernel."""
        xp, g = namespace(x), self.g
        if x.ndim == 1:
            return to_host(xp.matrix_transpose(g) @ x)
        return to_host(sum(xp.matrix_transpose(g[c, ...]) @ x[:, c] for c in range(x.shape[1])))

    def energies(self) -> np.ndarray:  # (m,)
        """Return the energy of the duals in every kernel."""
        return np.maximum(self.inner(self), 0.0)

    def mixed(self, weights: np.ndarray) -> Array:
        """Return decision values: the weighted sum over kernels."""
        xp, w = namespace(self.g), like(self.g, weights)
        return self.g @ w if self.g.ndim == 2 else xp.matrix_transpose(self.g @ w)

    def moved(self, other: Outputs, t: float) -> Outputs:
        """Return what kernels make of these duals plus t times others."""
        return Outputs(self.beta + t * other.beta, self.g + t * other.g)

    def times(self, t: float) -> Outputs:
        """Return what kernels make of t times the duals."""
        return Outputs(t * self.beta, t * self.g)


@dataclass
class Folded:
    """What kernels of low rank make of duals as numbers for each column of the features."""

    gram: FactorGram
    u: Array  # (D,) or (D, c) V' beta

    def inner(self, other: Folded) -> np.ndarray:  # (m,)
        """Return the inner product of both duals in every kernel, summed over columns."""
        return self.gram.inner(self.u, other.u)

    def energies(self) -> np.ndarray:  # (m,)
        """Return the energy of the duals in every kernel."""
        return self.gram.squared_norms(self.u)

    def mixed(self, weights: np.ndarray) -> Array:
        """Return decision values: the weighted sum over kernels."""
        return self.gram.matvec(self.gram.scale_blocks(weights, self.u))

    def moved(self, other: Folded, t: float) -> Folded:
        """Return what kernels make of these duals plus t times others."""
        return Folded(self.gram, self.u + t * other.u)

    def times(self, t: float) -> Folded:
        """Return what kernels make of t times the duals."""
        return Folded(self.gram, t * self.u)

    def unfolded(self) -> Array:  # (D,) or (D, c)
        """Return them as sums of all kernels' features."""
        return self.u

    def outputs(self) -> Array:  # (c r, m)
        """Return each kernel's part in the basis, classes one below the other."""
        u = self.u if self.u.ndim > 1 else self.u[:, None]
        return namespace(u).concat([_outputs(self.gram, u[:, i]) for i in range(u.shape[1])], axis=0)


@dataclass
class Tabled(Folded):
    """The same of kernels in one basis, as a column for each kernel in it: cheap to move and to weigh."""

    z: Array  # (r,) Q'beta
    g: Array  # (r, m) each kernel's part

    @classmethod
    def of(cls, gram: BasisGram, z: Array) -> Tabled:
        """Return what kernels make of duals whose sums in the basis are z."""
        return cls(gram, None, z, gram.parts_of(z))

    def inner(self, other: Any) -> np.ndarray:  # (m,)
        return other.z @ self.g

    def energies(self) -> np.ndarray:  # (m,)
        return np.maximum(self.inner(self), 0.0)

    def mixed(self, weights: np.ndarray) -> Array:
        return self.gram.basis.matvec(self.g @ weights)

    def moved(self, other: Any, t: float) -> Tabled:
        return Tabled(self.gram, None, self.z + t * other.z, self.g + t * other.g)

    def times(self, t: float) -> Tabled:
        return Tabled(self.gram, None, t * self.z, t * self.g)

    def unfolded(self) -> Array:  # (D,)
        return self.gram.unfold(self.z)

    def outputs(self) -> Array:  # (r, m)
        return self.g


def image_of(problem: Problem, beta: Array) -> Any:
    """Return what the kernels make of duals: in features where there are any."""
    if isinstance(problem.gram, FactorGram):
        return _in_features(problem, problem.gram.basis.rmatvec(beta))
    assert isinstance(problem.gram, CombinableGram | TensorGram)
    return Outputs(beta, problem.gram.products(beta))


def _in_features(problem: Problem, z: Array) -> Folded:
    """Return what kernels of low rank make of duals whose sums in their basis are z."""
    gram = problem.gram
    assert isinstance(gram, FactorGram)
    if isinstance(gram, BasisGram) and z.ndim == 1 and problem.n > TINY and gram.tabled:
        return Tabled.of(gram, z)
    return Folded(gram, gram.unfold(z))


def begin(problem: Problem, start: Any, tol: float) -> NewtonCGState:
    """Return a model of the duals ``start``, or of none, at even weights."""
    m = problem.gram.shape[1]
    flat = Fixed(problem.penalty.weights_of_norms(np.ones(m)))
    zero = problem.loss.zero
    started = start is not None and bool(namespace(start).any(start != 0))
    state = NewtonCGState(flat, start if started else zero, None, np.zeros(m), zero, 0.0, np.inf, tol)
    recompute(problem, state)
    return state


def recompute(problem: Problem, state: NewtonCGState) -> None:
    """Recompute running products from the kernels."""
    state.image = image_of(problem, state.beta)
    state.q = state.image.energies()
    if state.barrier is not None:
        state.barrier = state.barrier.above(state.q)
    follow(problem, state, state.penalty)


def _lead(problem: Problem, state: NewtonCGState) -> None:
    """Let the weights move: by an interior point for l1 on kernels, else by the penalty or its first stage."""
    if not problem.penalty.on_simplex or isinstance(state.image, Folded):
        take_stage(problem, state)
    elif state.q.any():
        prices = problem.penalty.prices(state.q.size)
        state.barrier = Barrier.around(prices, np.full(state.q.size, 1.0 / state.q.size), state.q)
        follow(problem, state, state.penalty)


def _settled(problem: Problem, state: NewtonCGState) -> bool:
    """Whether duals are the slope of the loss at their model, as far as numbers go."""
    xp, slope = namespace(state.beta), problem.loss.slope(state.f + state.bias)
    return float(xp.max(xp.abs(slope + state.beta))) <= SETTINGS.settled * float(xp.max(xp.abs(slope)))


def take_stage(problem: Problem, state: NewtonCGState) -> None:
    """Follow the penalty, or its first stage."""
    follow(problem, state, problem.penalty.stage(state.q, strength=SETTINGS.strength))


def advance(problem: Problem, state: NewtonCGState) -> None:
    """Take one step of Newton's method, the weights being those of the penalty followed."""
    if not state.weights.any():
        _leave_nothing(problem, state)
    curvature = state.penalty.curvature(state.q)
    system = _System(problem, state, 2.0 * curvature if state.q.any() and np.any(curvature) else None)
    x, fall = system.solve(state.close)
    moved = _search(problem, state, x, system.image_of(x), -fall)
    state.stuck = 0 if moved else state.stuck + 1


def _advance_all(problem: Problem, state: NewtonCGState, barrier: Barrier) -> None:
    """Take one step of Newton's method in the duals and the weights, as far as their objective or the gap falls."""
    move = barrier.step(state.q, SETTINGS.least * state.tol * abs(_primal(problem, state, barrier.weights)))
    system = _System(problem, state, move.bend)
    system.residual = system.residual - system.curved(state.image.mixed(move.push))
    image = image_of(problem, system.solve(state.close)[0])
    along, bend = image.inner(state.image), image.energies()
    value, gap, _ = _barred(problem, state, barrier, move, state.image, state.q, state.f)
    t = move.longest(along)
    for _ in range(SETTINGS.halvings):
        q = np.maximum(state.q + t * (2.0 * along + t * bend), 0.0)
        there, weights = state.image.moved(image, t), move.to(along, t, q)
        f = there.mixed(weights.weights)
        reached, left, bias = _barred(problem, state, weights, move, there, q, f)
        if reached <= value + SETTINGS.rounding * abs(value) or left < gap:
            state.beta, state.image, state.q, state.f, state.bias = there.beta, there, q, f, bias
            state.barrier, state.value, state.stuck = weights, reached - move.cost(weights.shares), 0
            return
        t *= 0.5
    state.stuck += 1


def _barred(
    problem: Problem,
    state: NewtonCGState,
    barrier: Barrier,
    move: BarrierStep,
    image: Outputs,
    q: np.ndarray,
    f: Array,
) -> tuple[float, float, Any]:
    """Return the objective of weights and duals with the barrier of a step, the gap if they are feasible, the bias."""
    bias = problem.best_bias(f, state.bias)
    value = 0.5 * float(barrier.weights @ q) + problem.total_loss(f, bias)
    beta, same = _feasible(problem, image.beta, state.tol)
    gap = value - problem.total_dual(beta) + problem.penalty.value(q) if same else np.inf
    return value + move.cost(barrier.shares), gap, bias


def _trimmed(problem: Problem, state: NewtonCGState) -> np.ndarray:  # (m,)
    """Return the weights without kernels whose shares are not missed."""
    if state.barrier is None:
        return state.penalty.trimmed(state.q, SETTINGS.trim * state.tol)
    whole = _primal(problem, state, state.weights)
    for cut in SETTINGS.cuts:
        weights = state.barrier.trimmed(cut)
        if _primal(problem, state, weights) <= whole + SETTINGS.missed * state.tol * abs(whole):
            return weights
    return state.weights


def _primal(problem: Problem, state: NewtonCGState, weights: np.ndarray) -> float:
    """Return the primal objective of the duals at some weights."""
    f = state.image.mixed(weights)
    return problem.penalty.cost(weights, state.q)(1.0) + problem.total_loss(f, problem.best_bias(f, state.bias))


def _feasible(problem: Problem, beta: Array, tol: float) -> tuple[Array, bool]:
    """Return feasible duals, and whether they are the given ones up to what products with these may be off by."""
    xp, found = namespace(beta), problem.feasible(beta)
    moved, whole = (float(xp.sum(xp.abs(part))) for part in (found - beta, found))
    return found, moved <= SETTINGS.same * tol * whole


def _better_duals(problem: Problem, state: NewtonCGState) -> tuple[Array, np.ndarray]:
    """Return feasible duals and their energies: the slopes of the loss, or the model's where these are better.

    Where errors cost much, slopes are decision values' rounding times that cost.
    """
    slopes = problem.feasible(-problem.loss.slope(state.f + state.bias))
    q = image_of(problem, slopes).energies()
    if isinstance(state.image, Folded):  # on which each step is judged, and slopes do
        return slopes, q
    own, same = _feasible(problem, state.beta, state.tol)
    own_q = state.q if same else image_of(problem, own).energies()
    if dual_value(problem, own, own_q) > dual_value(problem, slopes, q):
        return own, own_q
    return slopes, q


def _promising(problem: Problem, state: NewtonCGState) -> bool:
    """Whether the judge may find the gap small enough; on features it is asked in any case."""
    if isinstance(state.image, Folded):
        return True
    beta, same = _feasible(problem, state.beta, state.tol)
    if not same:
        return False
    upper = _primal(problem, state, state.weights)
    lower = problem.total_dual(beta) - problem.penalty.value(state.q)
    return upper - lower <= SETTINGS.promising * state.tol * abs(upper)


def follow(problem: Problem, state: NewtonCGState, penalty: MixingPenalty) -> None:
    """Take a penalty to follow: its weights, decision values and objective."""
    state.penalty = penalty
    state.f = state.image.mixed(state.weights)
    state.value, state.bias = _objective(problem, penalty, state.q, state.f, state.bias)


def _objective(problem: Problem, penalty: MixingPenalty, q: np.ndarray, f: Array, near: Any) -> tuple[float, Any]:
    """Return the objective of the weights that the energies ask for, with the best bias, and that."""
    bias = problem.best_bias(f, near)
    mixing = float(penalty.weights(q) @ q) - penalty.value(q)
    return mixing + problem.total_loss(f, bias), bias


def _leave_nothing(problem: Problem, state: NewtonCGState) -> None:
    """Leave the model without kernels, where they have a price, along the duals that its errors ask for."""
    beta = problem.feasible(-problem.loss.slope(state.f + state.bias))
    image = image_of(problem, beta)
    q = image.energies()
    if not state.penalty.weights(q).any():
        return
    low, high = 0.0, 1.0  # multiples of the duals between which the first kernel comes in
    for _ in range(SETTINGS.finest):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if state.penalty.weights(middle**2 * q).any() else (middle, high)
    for halving in range(SETTINGS.finest):
        t = high + (1.0 - high) * 0.5**halving
        f = t * image.mixed(state.penalty.weights(t**2 * q))
        value, bias = _objective(problem, state.penalty, t**2 * q, f, state.bias)
        if value < state.value:
            state.beta, state.image, state.q = t * beta, image.times(t), t**2 * q
            state.f, state.value, state.bias, state.stuck = f, value, bias, 0
            return


class _System:
    """The equations of one step, ``(I + L'' S) x = -L'(f) - beta``, by products only."""

    def __init__(self, problem: Problem, state: NewtonCGState, bend: np.ndarray | None):
        self.problem, self.state, self.bend = problem, state, bend
        self.weights = state.weights
        self.kernel = _combined(problem, self.weights)
        self.f = state.f + state.bias
        self.duals = -problem.loss.slope(self.f)
        self.residual = self.duals - state.beta
        self._folded: Array | None = None  # what the basis makes of the solution, where it is known with it
        self.ones = _constants(problem)
        self.pulls = [problem.loss.curvature_times(self.f, one) for one in self.ones]
        table = np.array([[self.inner(one, pull) for pull in self.pulls] for one in self.ones])
        self.inverse = np.linalg.pinv(table) if self.ones else table

    def inner(self, a: Array, b: Array) -> float:
        return float(namespace(a).sum(a * b))

    def smooth(self, x: Array) -> Array:
        """Return ``S x``."""
        state, gram = self.state, self.problem.gram
        if self.kernel is not None:
            out = self.kernel(x)
            return out if self.bend is None else out + state.image.mixed(self.bend @ state.image.along(x))
        assert isinstance(gram, FactorGram)
        u = gram.rmatvec(x)
        z = gram.scale_blocks(self.weights, u)
        if self.bend is not None:
            own = state.image.unfolded()
            z = z + gram.scale_blocks(self.bend @ gram.inner(u, own), own)
        return gram.matvec(z)

    def curved(self, x: Array) -> Array:
        """Return the curvature of the loss at its best bias times ``x``."""
        out = self.problem.loss.curvature_times(self.f, x)
        if not self.ones:
            return out
        shares = self.inverse @ np.array([self.inner(pull, x) for pull in self.pulls])
        return out - sum(float(share) * pull for share, pull in zip(shares, self.pulls, strict=True))

    def solve(self, close: float) -> tuple[Array, float]:
        """Return x, and how fast the objective falls along it to first order.

        By a matrix of the size of the features, or of the samples that give way, where that is small.
        """
        gram, loss = self.problem.gram, self.problem.loss
        if isinstance(gram, FactorGram) and self._unknowns(gram) <= self._most(gram, close):
            found = self._in_basis(gram)
        elif isinstance(self.kernel, WeightedSum) and loss.terms is not None and self.f.ndim == 1:
            found = self._among_samples(self.kernel)
        else:
            found = None
        if found is None:
            x, change = self._iterated(close)
            found = x, self.inner(self.residual, change)
        return found

    def image_of(self, x: Array) -> Any:
        """Return what the kernels make of the solution x."""
        gram = self.problem.gram
        if self._folded is None or not isinstance(gram, FactorGram):
            return image_of(self.problem, x)
        return _in_features(self.problem, self._folded)

    def _unknowns(self, gram: FactorGram) -> int:
        return gram.basis.columns * (1 if self.f.ndim == 1 else self.f.shape[1])

    def _most(self, gram: FactorGram, close: float) -> int:
        """Return how many unknowns are few enough for a matrix."""
        if not self.problem.loss.separable and (close > SETTINGS.near or gram.basis.costly):
            return 0  # whose columns, as many as samples, are not had in one pass
        return SETTINGS.direct if gram.on_host else SETTINGS.direct_device

    def _in_basis(self, gram: FactorGram) -> tuple[Array, float] | None:
        """Solve for ``y = Q'x`` (r, c): ``y = Q'r - W T y`` with ``S = Q T Q'``, ``W = Q' L'' Q``; None if that fails.

        Rows of matrices are ordered by class, then by column of the basis.
        """
        xp, shape = namespace(self.f), self.f.shape
        c, few = (1 if len(shape) == 1 else shape[1]), self._giving(gram.basis)
        basis = gram.basis if few is None else gram.basis.take(few)
        W = self._bent_basis(basis, c, few)
        pulls = [_stacked(basis.rmatvec(pull if few is None else pull[few])) for pull in self.pulls]
        for pull, row in zip(pulls, self.inverse, strict=True):
            other = sum((float(share) * own for share, own in zip(row, pulls, strict=True)), 0.0 * pull)
            W = W - pull[:, None] * other[None, :]
        L = lower_root(self._core(gram, c))
        inner = xp.matrix_transpose(L) @ W @ L
        solve = cholesky(inner + xp.eye(inner.shape[0], dtype=inner.dtype, device=device_of(inner)))
        if solve is None:
            return None
        aim = self._aim(gram)
        s = L @ solve(xp.matrix_transpose(L) @ aim)
        change, self._folded = basis.matvec(_apart(s, shape)), _apart(aim - W @ s, shape)
        if few is not None:
            change = scatter(change, few, self.problem.n)
        return self.residual - self.curved(change), float(aim @ s)

    def _giving(self, basis: FactorGram) -> np.ndarray | None:
        """Return the samples whose losses have a curvature, where these are few and at hand."""
        if self.f.ndim > 1 or basis.host_features is None or not self.problem.loss.separable:
            return None
        rows = np.flatnonzero(self.problem.loss.curvature(self.f))
        return rows if 0 < rows.size <= SETTINGS.few * self.problem.n else None

    def _aim(self, gram: FactorGram) -> Array:  # (c r,)
        """Return ``Q'r``, from sums that are known already where they are."""
        known, image = self.state.known, self.state.image
        if known is not None and isinstance(image, Tabled) and np.array_equal(known[0], self.duals):
            return known[1] - image.z
        return _stacked(gram.basis.rmatvec(self.residual))

    def _bent_basis(self, basis: FactorGram, c: int, few: np.ndarray | None) -> Array:  # (c r, c r)
        """Return ``Q' L'' Q``, from the samples that Q has."""
        xp, loss, rows = namespace(self.f), self.problem.loss, []
        if not loss.separable:
            return self._bent_by_columns(basis)
        bend = loss.curvature_between(self.f)
        if few is not None:
            return basis.weighted(loss.curvature(self.f)[few])
        blocks: dict[tuple[int, int], Array] = {}
        for i in range(c):
            for j in range(i + 1):
                theta = bend(i, j)
                if theta is None:
                    blocks[i, j] = xp.zeros((basis.columns,) * 2, dtype=xp.float64, device=device_of(self.f))
                else:
                    blocks[i, j] = basis.weighted(theta) if i == j else -basis.weighted(-theta)
                blocks[j, i] = blocks[i, j]
        for i in range(c):
            rows.append(xp.concat([blocks[i, j] for j in range(c)], axis=1))
        return xp.concat(rows, axis=0)

    def _bent_by_columns(self, basis: FactorGram) -> Array:  # (r, r)
        """Return ``Q' L'' Q`` by products of the curvature with some columns of Q at a time."""
        xp, r = namespace(self.f), basis.columns
        eye = xp.eye(r, dtype=xp.float64, device=device_of(self.f))
        strips, step = [], max(1, min(SETTINGS.width, SETTINGS.table // self.problem.n))
        for first in range(0, r, step):
            Q = basis.matvec(eye[:, first : first + step])
            strips.append(basis.rmatvec(self.problem.loss.curvature_times(self.f, Q)))
        W = xp.concat(strips, axis=1)
        return 0.5 * (W + xp.matrix_transpose(W))

    def _core(self, gram: FactorGram, c: int) -> Array:  # (c r, c r)
        """Return T: the weighted kernels in the basis, for each class, and how weights follow."""
        xp, one = namespace(self.f), gram.core(self.weights)
        if one is None:
            columns = gram.per_column(self.weights)
            one = columns[:, None] * xp.eye(columns.shape[0], dtype=xp.float64, device=device_of(columns))
        zero = 0.0 * one
        T = xp.concat([xp.concat([one if i == j else zero for j in range(c)], axis=1) for i in range(c)], axis=0)
        if self.bend is None:
            return T
        g = self.state.image.outputs()
        return T + (g @ like(g, self.bend)) @ xp.matrix_transpose(g)

    def _among_samples(self, kernel: WeightedSum) -> tuple[Array, float] | None:
        """Solve for the samples that give way only, by their square of the kernel; None where they are too many."""
        xp, gram = namespace(self.f), self.problem.gram
        d = self.problem.loss.curvature(self.f)
        some = xp.nonzero(d > 0)[0]
        count = int(some.shape[0])
        most = SETTINGS.direct if "cpu" in str(device_of(self.f)).lower() else SETTINGS.direct_device
        if not 0 < count <= most:
            return None
        image = self.smooth(self.residual)
        square = kernel.among(some)
        if self.bend is not None:
            g = xp.take(self.state.image.g, some, axis=0)
            square = square + (g @ gram.asarray(self.bend)) @ xp.matrix_transpose(g)
        solve = cholesky(square + (1.0 / xp.take(d, some))[:, None] * xp.eye(count, dtype=d.dtype, device=device_of(d)))
        if solve is None:
            return None
        z = solve(xp.take(image, some))
        if self.ones:
            tilt = solve(xp.ones_like(z))
            z = z - (float(xp.sum(z)) / float(xp.sum(tilt))) * tilt
        x = self.residual - scatter(z, some, self.f.shape[0])
        return x, self.inner(self.residual, self.smooth(x))

    def _iterated(self, close: float) -> tuple[Array, Array]:
        """Return x and ``S x`` by conjugate gradients, to a share ``close`` of the residual in the norm of S.

        Where they take longer than a factor of the kernel would, that is had, and makes them few.
        """
        residual, image = self.residual, self.smooth(self.residual)
        x, change, p, along = (0.0 * residual for _ in range(4))
        size = first = self.inner(residual, image)
        last, factor, patience = np.inf, None, 0 if self.state.hard or self._reads_longer else self._patience
        for count in range(SETTINGS.iterations):
            if size <= close**2 * first or size <= 0.0:
                break
            if count == patience:
                if self._is_dense:
                    self.state.hard = True
                    return self._dense()
                factor, last = self._factor(), np.inf
                self.state.hard = factor is not None
                close = min(close, SETTINGS.exact) if factor is not None else close
            z, smoothed = residual, image
            if factor is not None:
                z = factor(residual)
                smoothed = self.smooth(z)
            rho = self.inner(residual, smoothed)
            if not rho > 0.0:  # what is left is rounding
                break
            p, along, last = z + (rho / last) * p, smoothed + (rho / last) * along, rho
            bent = self.curved(along)
            length = self.inner(p, along) + self.inner(along, bent)
            if not length > 0.0:
                break
            t = rho / length
            x, change = x + t * p, change + t * along
            residual = residual - t * (p + bent)
            image = self.smooth(residual)
            size = self.inner(residual, image)
        costs = size + self.inner(image, self.curved(image))
        if costs <= SETTINGS.pure * self.state.tol * abs(self.state.value):
            x, change = x + residual, change + image  # so that duals are the slope of the loss, as the step has it
        return x, change

    @property
    def _patience(self) -> int:
        """How many iterations cost as much as a factor of a kernel, or as the matrix itself."""
        return int((SETTINGS.dense if self._is_dense else SETTINGS.factored) * self.problem.n)

    @property
    def _reads_longer(self) -> bool:
        """Whether to go through the kernels once, as each step does, takes longer than a factor."""
        n, m = self.problem.gram.shape
        return self.problem.loss.elementwise and n <= SETTINGS.read * m

    @property
    def _is_dense(self) -> bool:
        """Whether stored kernels, and a loss of one decision value a sample that is no sum, ask for a matrix."""
        return isinstance(self.kernel, _Symmetric) and not self.problem.loss.elementwise and self.f.ndim == 1

    def _factor(self) -> Factored | None:
        """Return a preconditioner: for stored kernels of NumPy, and losses that bend in single decision values."""
        loss, state = self.problem.loss, self.state
        if not isinstance(self.kernel, _Symmetric) or not loss.elementwise:
            return None
        bend = np.zeros(2 * (state.q.size,)) if self.bend is None else self.bend
        return Factored.of(self.kernel.matrix, loss.curvature(self.f), state.image.g, bend)

    def _dense(self) -> tuple[Array, Array]:
        """Solve by the matrix ``I + L'' S`` itself."""
        assert isinstance(self.kernel, _Symmetric)
        kernel = self.kernel.matrix
        if self.bend is not None:
            g = self.state.image.g
            kernel = kernel + (g @ self.bend) @ g.T
        matrix = self.problem.loss.curvature_times(self.f, kernel)
        matrix.flat[:: matrix.shape[0] + 1] += 1.0
        x = np.linalg.solve(matrix, self.residual)
        return x, self.smooth(x)


class _Symmetric:
    """A combined kernel as a matrix of NumPy."""

    def __init__(self, matrix: np.ndarray):
        self.matrix = matrix

    def __call__(self, x: np.ndarray) -> np.ndarray:
        # a few short rows times a symmetric matrix: half the time of the matrix times a few columns
        return self.matrix @ x if x.ndim == 1 else (x.T @ self.matrix).T


def _combined(problem: Problem, weights: np.ndarray) -> Callable[[Array], Array] | None:
    """Return what multiplies with the combined kernel, None where there are features."""
    if isinstance(problem.gram, FactorGram):
        return None
    if isinstance(problem.gram, TensorGram):
        return problem.gram.multiplier(weights)
    return _Symmetric(combinable(problem).combine(np.arange(problem.n), weights))


def _stacked(table: Array) -> Array:  # (r,) or (r, c) -> (c r,)
    """Return a table's columns one below the other."""
    xp = namespace(table)
    return table if table.ndim == 1 else xp.reshape(xp.matrix_transpose(table), (-1,))


def _apart(rows: Array, shape: tuple[int, ...]) -> Array:  # (c r,) -> (r,) or (r, c)
    """Return such a column as a table again, for decision values of some shape."""
    xp = namespace(rows)
    return rows if len(shape) == 1 else xp.matrix_transpose(xp.reshape(rows, (shape[1], -1)))


def _outputs(gram: FactorGram, u: Array) -> Array:  # (D,) -> (r, m)
    """Return each kernel's part of u in the basis."""
    if gram.basis is not gram:
        return gram.outputs(u)
    return u[:, None] * gram.asarray(np.repeat(np.eye(gram.ranks.size), gram.ranks, axis=0))


def _constants(problem: Problem) -> list[Array]:
    """Return the directions in which a bias moves decision values: one for each column, none without a bias."""
    if not problem.bias:
        return []
    one = problem.loss.zero + 1.0
    if not problem.loss.several:
        return [one]
    return [one * like(one, row) for row in np.eye(problem.shape[1])]


def _search(problem: Problem, state: NewtonCGState, x: Array, image: Any, slope: float) -> bool:
    """Go along x as far as the objective falls enough, and most; False where it does not, as seen in floating point."""
    along, bend, t, best = image.inner(state.image), image.energies(), 1.0, None
    for _ in range(SETTINGS.halvings):
        q = np.maximum(state.q + t * (2.0 * along + t * bend), 0.0)
        there = state.image.moved(image, t)
        f = there.mixed(state.penalty.weights(q))
        value, bias = _objective(problem, state.penalty, q, f, state.bias)
        if best is not None and value >= best[0]:
            break
        if value < state.value + SETTINGS.armijo * t * min(slope, 0.0):
            best = value, t, there, q, f, bias
            if t == 1.0:
                break
        t *= 0.5
    if best is None:
        return False
    state.value, t, state.image, state.q, state.f, state.bias = best
    state.beta = state.beta + t * x
    return True
