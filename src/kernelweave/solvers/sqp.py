"""Sequential quadratic programming on working sets of samples and kernels: the default for kernels with entries."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..arrays import cholesky
from ..grams import CachedGram, CombinableGram, EntryGram
from ..losses.base import DualTerms
from ..penalties import Fixed
from ..penalties.base import MixingPenalty
from ..penalties.prox import floored
from ..problem import Certificate, Point, Problem, Status
from .base import Solver, centred_box, combinable, first_duals, no_gradient, unit_of


@dataclass(frozen=True)
class SQPSettings:
    """Constants of the default solver; margins are in units of the slopes, goals are shares of the objective."""

    first: int = 600  #: samples of the first working set
    few: tuple[int, int] = (150, 300)  #: least and most of them where there are many kernels
    third: float = 0.3  #: share of all samples that they are between these
    small: int = 350  #: samples up to which it is all of them
    staged: int = 450  #: the same for l1, whose rounds cost some proximal stages each
    many: int = 64  #: kernels from which only those in play are followed between rounds
    grow: float = 2.5  #: most samples in the next set, per support vector
    leap: float = 6.0  #: the same on demand, where rounds cost more than samples
    spread: float = 1.2  #: the same per free support vector
    extra: int = 50  #: and besides
    nearly: float = 0.6  #: share of all samples from which the set is all of them
    margin: float = 0.05  #: distance from violation at which a sample counts as settled
    wide: float = 0.3  #: the same where a round has changed nothing
    start: float = 0.02  #: share of the dual value that the first round works towards
    part: float = 0.05  #: share of the gap that the others work towards
    spare: float = 0.8  #: share of the tolerance that is always enough
    near: float = 0.03  #: share of the largest energy below it within which a kernel stays in play, at least
    far: float = 0.5  #: and at most; between these it is the gap
    far_on_demand: float = 0.2  #: the same on demand
    slight: float = 0.05  #: share of the gap below which a kernel's share counts for nothing, on demand
    stored: float = 0.3  #: the same share for the kernels that the block holds
    progress: float = 0.7  #: of the distance of the bounds: a round that leaves more has not helped
    behind: float = 0.1  #: share of the gap due to the weights at which a proximal stage is left for the next
    settled: float = 10.0  #: the weights' gap, in gains of the last step, at which it is left too
    first_strength: float = 2.0  #: of the first proximal stage
    growth: float = 3.0  #: of the proximal step from stage to stage
    bolder: float = 3.0  #: the same for gaps below `fine`
    pull: float = 30.0  #: strength of a proximal step that every round may begin with
    pace: float = 10.0  #: over the gap: the strength it may begin with where that is more
    strongest: float = 3e3  #: most strength of a proximal step
    sharpest: float = 3e3  #: the same for gaps below `fine`: beyond it Newton's steps drown in rounding
    fine: float = 1e-5  #: gap below which the block is in double precision
    trim: float = 1e-2  #: times tol: share below which a kernel gets weight zero
    nothing: float = 1e-8  #: share below which it does in the end, whatever the tolerance
    floor: float = 1e-4  #: times tol: share every kernel keeps while the weights move, so that it can come back
    faint: float = 1e-5  #: share of the largest curvature that is not followed
    stale: float = 0.05  #: relative change of the weights up to which rows of the combined kernel are kept
    least_goal: float = 1e-15  #: share of the objective below which floating point has no more to give
    dust: float = 1e-14  #: share of the largest dual that counts as none
    newton: int = 50  #: most Newton steps in a round
    models: int = 8  #: most quadratic programmes in a Newton step
    model: float = 0.3  #: share of the violation to which a Newton step's model is solved
    astray: float = 2.0  #: times the violation: a model in which it grows beyond that is left
    poor: float = 1e-3  #: step within a model below which it is left
    rough: float = 0.1  #: share of its violation to which a quadratic programme is solved
    alone: float = 0.03  #: the same where it is the problem itself, weights being fixed
    inner: float = 0.01  #: share of the violation below which neither need go
    inner_goal: float = 0.1  #: share of the round's goal below which neither need go
    budget: int = 12  #: pair steps in one quadratic programme, per sample
    turn: int = 3  #: pair steps, per sample, between two Newton steps on the free duals
    quick: int = 5000  #: pair steps that are always quicker than one of these
    jitter: float = 1e-10  #: ridge of these, as a share of the mean diagonal; in single precision the root of it
    halvings: int = 8  #: of such a step that does not lower the objective
    near_step: float = 1e-2  #: relative error of a step within a model
    close_step: float = 1e-6  #: the same of a Newton step
    trials: int = 40  #: of either
    rounding: float = 1e-13  #: relative error of a slope: a fall that cannot be told from none is taken
    golden: int = 12  #: trials of the primal's scale
    share: float = 0.15  #: of the stored kernels' bytes that the block may take
    least: int = 2**25  #: bytes that it always may
    tables: float = 0.5  #: share of the memory that the combined kernel may take on demand; columns have the rest
    few_rows: int = 100  #: samples whose combined kernel is always allowed
    batch: int = 128  #: rows computed at a time on demand


SETTINGS = SQPSettings()
EMPTY = np.empty((0, 0, 0))


@dataclass
class Block:
    """Kernels between the samples of a working set, rows filled when first touched.

    Kernels on demand have columns of their own among these samples. Where entries cannot be read one by one, there are
    none, and sums of kernels are formed whole.
    """

    samples: np.ndarray  # (u,)
    kernels: np.ndarray  # (b,) those held
    entries: np.ndarray  # (rows, room, b) without their scales
    slot: np.ndarray  # (room,) row of each sample, -1 where it has none
    count: np.ndarray  # (1,) rows that are filled
    held: bool = False
    stack: np.ndarray = field(default_factory=lambda: EMPTY)  # the stored kernels
    scale: np.ndarray = field(default_factory=lambda: np.empty(0))  # (b,)
    columns: CachedGram | None = None  # of the samples and kernels, computed when asked for

    @property
    def whole(self) -> bool:
        """Whether sums of kernels are formed whole."""
        return not self.held and self.columns is None


@dataclass
class Local:
    """What a round works on: some samples and kernels, their duals and products.

    ``penalty`` is fixed weights at first, where a round begins as an ordinary support vector machine.
    """

    kernels: np.ndarray  # (a,)
    box: DualTerms
    penalty: MixingPenalty
    beta: np.ndarray  # (u,)
    g: np.ndarray  # (u, a)
    q: np.ndarray  # (a,)
    diagonal: np.ndarray  # (u, a)
    place: np.ndarray  # (a,) where the block has the kernels
    combined: np.ndarray  # (u, u) rows of the kernel at `weights`
    formed: np.ndarray  # (u,) those that are there
    row: np.ndarray  # (u,) row of each sample in it, -1 where it has none
    made: np.ndarray  # (1,) rows that are given
    weights: np.ndarray | None = None  # (a,)
    image: np.ndarray | None = None  # (u,) the combined kernel times the last step, where one programme was all of it
    steps: int = 0

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """Return the slope of the objective at the round's duals, without kinks."""
        return self.g @ weights + self.box.ridge * self.beta - self.box.linear


@dataclass
class SQPState:
    """Duals with ``g[i, k] = (K_k beta)_i`` of the kernels ``known``, and ``q`` of all; the round under way."""

    box: DualTerms
    penalty: MixingPenalty
    beta: np.ndarray  # (n,)
    g: np.ndarray  # (n, m)
    q: np.ndarray  # (m,)
    known: np.ndarray  # (m,) whether g is kept up to date
    weights: np.ndarray  # (m,)
    diagonal: np.ndarray  # (n, m)
    tol: float
    unit: float  # size of the slopes
    lower: float = -np.inf
    upper: float = np.inf
    goal: float = np.inf  # objective accuracy the round works towards
    still: bool = False  # whether the last round changed nothing
    judge: bool = False  # whether to be judged before anything else
    helped: bool = True  # whether the last round narrowed the bounds
    wary: bool = False  # whether the last round was misled by the kernels it left out
    buffer: np.ndarray = field(default_factory=lambda: np.empty(0))
    block: Block = field(init=False)
    local: Local = field(init=False)

    @property
    def dtype(self) -> Any:
        """Precision of the block."""
        return _precision(self.tol)


def _precision(tol: float) -> Any:
    return np.float32 if tol >= SETTINGS.fine else np.float64


class SQP(Solver):
    """Newton's method on the duals of a working set, each step a few quadratic programmes solved by SMO.

    The Hessian of the dual is one combined kernel plus a correction of the rank of the kernels in play. A round works
    on the samples that may still move and the kernels that may still matter; of these, entries are read when a pair of
    duals first asks for them. Then all products move by what changed, and the judge looks. For l1 the weights follow
    entropic proximal steps, and kernels left with a vanishing share get exactly zero.

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

    def refuse(self, problem: Problem) -> str | None:
        return no_gradient(problem)

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> SQPState:
        n, m = problem.gram.shape
        flat = Fixed(problem.penalty.weights_of_norms(np.ones(m)))
        state = SQPState(
            centred_box(problem), flat, first_duals(problem), np.zeros((n, m)), np.zeros(m), np.ones(m, dtype=bool),
            flat.weights(np.ones(m)), np.asarray(problem.gram.diagonal()), tol, unit_of(problem),
        )  # fmt: skip
        if start is not None and start.any():
            state.beta = _snapped(start, state.box)
        if state.beta.any():
            self.refresh(problem, state)
        few = min(_first_size(problem), largest_set(problem, tol))
        samples = _first_samples(state.box.linear, few)
        if start is not None and start.any():
            state.penalty = problem.penalty.stage(state.q, strength=SETTINGS.pull)
            state.weights = state.penalty.weights(state.q)
            state.judge = n > few
        if not state.judge:
            both = np.union1d(samples, np.flatnonzero(state.beta))
            _open(problem, state, both if both.size <= largest_set(problem, tol) else samples, np.arange(m))
        return state

    def lean(self, problem: Problem, state: SQPState, weights: np.ndarray) -> None:
        if not problem.penalty.on_simplex or not state.judge:
            return
        shares = weights * problem.penalty.prices(weights.size)
        center = floored(shares / max(float(shares.sum()), 1e-300), SETTINGS.floor * state.tol)
        state.penalty = problem.penalty.stage(state.q, "entropic", center, SETTINGS.pull)
        state.weights = weights

    def step(self, problem: Problem, state: SQPState) -> bool:
        if state.judge:  # a start is looked at before a first set is chosen
            state.judge = False
            return True
        done = _newton(problem, state)
        if done:
            _close(problem, state)
        return done

    def read(self, problem: Problem, state: SQPState) -> Point:
        return Point(state.beta.copy(), state.weights, state.q.copy(), state.g @ state.weights)

    def finish(self, problem: Problem, point: Point) -> list[Point]:
        """Return the point of l1 without kernels whose share is next to nothing."""
        shares = point.weights * problem.penalty.prices(point.weights.size)
        faint = (shares > 0) & (shares < SETTINGS.nothing)
        if not problem.penalty.on_simplex or not faint.any():
            return []
        return [Point(point.beta, np.where(faint, 0.0, point.weights))]

    def adapt(self, problem: Problem, state: SQPState, certificate: Certificate) -> Status | None:
        before = state.upper - state.lower
        state.lower, state.upper = max(state.lower, certificate.lower), min(state.upper, certificate.upper)
        width, size = max(state.upper - state.lower, 0.0), abs(state.upper)
        state.helped = width < SETTINGS.progress * before
        goal = max(SETTINGS.spare * state.tol * size, min(SETTINGS.part * width, SETTINGS.start * abs(state.lower)))
        least = SETTINGS.least_goal * size
        if state.still and state.goal <= least:
            return Status.STALLED
        state.goal = max(min(goal, 0.1 * state.goal) if state.still else goal, least)
        gap = width / size if size else 1.0
        _hold_back(problem.penalty, state, max(SETTINGS.pull, SETTINGS.pace / max(gap, 1e-300)))
        kernels, stored = _in_play(state, gap, problem.gram.on_demand)
        samples = _chosen(state, largest_set(problem, state.tol), problem.gram.on_demand)
        _learn(problem, state, kernels, samples)
        _open(problem, state, samples, kernels, stored)
        return None

    def refresh(self, problem: Problem, state: SQPState) -> None:
        state.g = combinable(problem).products(state.beta)
        state.q = np.maximum(state.beta @ state.g, 0.0)
        state.known[:] = True


# -- choosing samples and kernels --


def _first_size(problem: Problem) -> int:
    """Return how many samples the first round works on."""
    n, m = problem.gram.shape
    if problem.penalty.fixed and isinstance(problem.gram, EntryGram) and problem.gram.stored is not None:
        return n  # one quadratic programme is all there is
    if n <= (SETTINGS.staged if problem.penalty.on_simplex else SETTINGS.small):
        return n
    return int(np.clip(SETTINGS.third * n, *SETTINGS.few)) if m > SETTINGS.many else SETTINGS.first


def _first_samples(linear: np.ndarray, count: int) -> np.ndarray:
    """Return a seeded choice of samples, as many with small as with large linear terms, in order; all of a few.

    These are the two classes where there are classes.
    """
    if count >= linear.size:
        return np.arange(linear.size)
    rng = np.random.default_rng(0)
    large = linear > linear.mean()
    one, other = (rng.permutation(np.flatnonzero(side)) for side in (large, ~large))
    half = min(one.size, max(count // 2, count - other.size))
    return np.sort(np.concatenate([one[:half], other[: count - half]]))


def largest_set(problem: Problem, tol: float) -> int:
    """Return the most samples whose combined kernel fits: all, where kernels are stored."""
    if not isinstance(problem.gram, CachedGram):
        return problem.n
    room = SETTINGS.tables * problem.gram.own_memory / np.dtype(_precision(tol)).itemsize
    return min(max(int(room**0.5), SETTINGS.few_rows), problem.n)


def _chosen(state: SQPState, largest: int, on_demand: bool) -> np.ndarray:
    """Return the samples that are free, violate optimality or are near it, the worst first if they are many."""
    beta, box = state.beta, state.box
    gradient = _gradient(state)
    rising, falling = box.directed(gradient, beta)
    up, down, level = beta < box.upper, beta > box.lower, _conditions(gradient, beta, box)[0]
    score = np.maximum(np.where(up, level - rising, -np.inf), np.where(down, falling - level, -np.inf))
    free = up & down & (rising == falling)
    found = np.flatnonzero(free | (score > -(SETTINGS.wide if state.still else SETTINGS.margin) * state.unit))
    grow = SETTINGS.leap if on_demand else SETTINGS.grow
    wanted = max(grow * np.count_nonzero(beta), SETTINGS.spread * np.count_nonzero(free) + SETTINGS.extra)
    most = min(beta.size if state.still else int(wanted), largest)
    if np.count_nonzero(free) < most:
        score[free] = np.inf
    if found.size < 2 or (not on_demand and min(found.size, most) >= SETTINGS.nearly * beta.size):
        found = np.arange(beta.size)
        most = largest
    if found.size > most:
        found = np.sort(found[np.argpartition(-score[found], most)[:most]])
    return found


def _in_play(state: SQPState, gap: float, on_demand: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the kernels that the next round follows, and those that its block holds.

    Kernels with a weight or with an energy near the largest; while rounds do not help, those of the last round too.
    On demand, a weight that matters.
    """
    m, every, cut = state.q.size, np.arange(state.q.size), SETTINGS.trim * state.tol
    near = 1.0 - float(np.clip(gap, SETTINGS.near, SETTINGS.far_on_demand if on_demand else SETTINGS.far))
    if on_demand:
        found = state.penalty.active(state.q, max(cut, SETTINGS.slight * gap), near)
    else:
        found = np.union1d(np.flatnonzero(state.weights), state.penalty.active(state.q, cut, near))
    if not state.helped:
        found = np.union1d(found, state.local.kernels)
    if state.wary:
        found = every
    if m > SETTINGS.many:
        return found, found
    stored = state.penalty.active(state.q, cut, min(near, 1.0 - SETTINGS.stored))
    return found, np.union1d(found, stored)


def _learn(problem: Problem, state: SQPState, kernels: np.ndarray, samples: np.ndarray) -> None:
    """Have the products of kernels that come into play; those of others are let go of where that saves time."""
    fresh = kernels[~state.known[kernels]]
    if fresh.size:
        support = np.flatnonzero(state.beta)
        state.g[:, fresh] = combinable(problem).weighted_columns(state.beta[support], support, None, fresh)
        state.known[fresh] = True
    every = state.q.size <= SETTINGS.many and samples.size < state.beta.size and bool(state.known.all())
    if not every or problem.gram.on_demand:
        state.known[:] = False
        state.known[kernels] = True


def _hold_back(penalty: MixingPenalty, state: SQPState, strength: float) -> None:
    """Weaken the proximal step that a round begins with, which samples that joined would make too bold."""
    if state.penalty.stage_strength(state.q) > strength:
        center = state.penalty.center
        state.penalty = penalty.stage(state.q, "entropic", center, strength)


# -- rounds --


def _open(
    problem: Problem, state: SQPState, samples: np.ndarray, kernels: np.ndarray, stored: np.ndarray | None = None
) -> None:
    """Begin a round on some samples and kernels."""
    block = _block(problem, state, samples, kernels, kernels if stored is None else stored)
    samples = block.samples
    u, m, dtype = samples.size, state.q.size, np.float64 if block.whole else state.dtype
    penalty = state.penalty if kernels.size == m else state.penalty.restrict(kernels, m)
    state.block = block
    state.local = Local(
        kernels, state.box.take(samples), penalty, state.beta[samples],
        state.g[np.ix_(samples, kernels)], state.q[kernels],
        state.diagonal[np.ix_(samples, kernels)], np.searchsorted(block.kernels, kernels),
        np.empty((u, u), dtype=dtype), np.zeros(u, dtype=bool),
        np.arange(u) if block.whole else np.full(u, -1), np.zeros(1, dtype=np.int64),
    )  # fmt: skip


def _block(problem: Problem, state: SQPState, samples: np.ndarray, kernels: np.ndarray, stored: np.ndarray) -> Block:
    """Return the block of a round: the last one with some samples more, where that does, or an empty one."""
    from ..compiled import working_set as engine

    gram, old = problem.gram, getattr(state, "block", None)
    if isinstance(gram, CachedGram):
        return _block_on_demand(gram, state, old, samples, kernels)
    if not isinstance(gram, EntryGram) or gram.stored is None:
        return Block(samples, kernels, EMPTY, np.arange(samples.size), np.zeros(1, dtype=np.int64))
    stack, scale = gram.stored
    if old is not None and old.held and np.isin(kernels, old.kernels).all():
        joining = np.setdiff1d(samples, old.samples)
        size = old.samples.size + joining.size
        if size <= old.slot.size and size <= 1.4 * samples.size:
            both = np.concatenate([old.samples, joining])
            engine.extend(stack, both, old.kernels, old.entries, old.slot, old.samples.size)
            return Block(both, old.kernels, old.entries, old.slot, old.count, True, stack, old.scale)
    room = min(int(1.3 * samples.size) + 20, stack.shape[0])
    limit = max(int(SETTINGS.share * stack.nbytes), SETTINGS.least) // np.dtype(state.dtype).itemsize
    if state.buffer.size == 0:  # memory is taken up when it is first written
        state.buffer = np.empty(min(limit, stack.size), dtype=state.dtype)
    rows = min(state.buffer.size // (room * stored.size), room) if stored.size > 1 else 0
    entries = state.buffer[: rows * room * stored.size].reshape(rows, room, stored.size)
    return Block(samples, stored, entries, np.full(room, -1), np.zeros(1, dtype=np.int64), True, stack, scale[stored])


def _block_on_demand(
    gram: CachedGram, state: SQPState, old: Block | None, samples: np.ndarray, kernels: np.ndarray
) -> Block:
    """Return the last block, where a round needs no other samples and kernels, or a new one without columns yet."""
    near = old is not None and old.samples.size <= 1.4 * samples.size and np.isin(samples, old.samples).all()
    if old is not None and near and np.isin(kernels, old.kernels).all():
        return old
    columns = gram.among(samples, kernels, (1.0 - SETTINGS.tables) * gram.own_memory, state.dtype)
    none = np.empty((0, 0, 0), dtype=state.dtype)
    return Block(samples, kernels, none, np.full(samples.size, -1), np.zeros(1, dtype=np.int64), columns=columns)


def _close(problem: Problem, state: SQPState) -> None:
    """End a round: move all products by what its samples did."""
    local, samples, m = state.local, state.block.samples, state.q.size
    state.penalty = local.penalty.widened(local.kernels, problem.penalty.prices(m), SETTINGS.floor * state.tol)
    state.weights = np.zeros(m)
    state.weights[local.kernels] = local.penalty.trimmed(local.q, SETTINGS.trim * state.tol)
    changed = np.flatnonzero(local.beta != state.beta[samples])
    state.still, state.wary = changed.size == 0, False
    if state.still:
        return
    index, moved = samples[changed], local.beta[changed]
    delta = moved - state.beta[index]
    if np.count_nonzero(state.known) == local.kernels.size:
        _spread(problem, state, index, delta)
        state.beta[index] = moved
        if local.kernels.size < m:
            _learn_energies(problem, state)
        return
    columns = combinable(problem).weighted_columns(delta, index)
    along, bend = delta @ state.g[index], np.maximum(delta @ columns[index], 0.0)
    level = _conditions(_gradient(state), state.beta, state.box)[0]
    line = _Line(state.penalty, state.q, along, bend, state.box.take(index), state.beta[index], delta, level)
    t = line.search(SETTINGS.close_step)
    state.wary = t < 1.0
    state.beta[index] = moved if t == 1.0 else state.beta[index] + t * delta
    state.g += columns if t == 1.0 else t * columns
    state.q = np.maximum(state.q + t * (2.0 * along + t * bend), 0.0)


def _learn_energies(problem: Problem, state: SQPState) -> None:
    """Have the energies of kernels that the round did not follow."""
    if not isinstance(problem.gram, CachedGram):
        state.q = np.maximum(problem.gram.energies(state.beta), 0.0)
        return
    others = np.setdiff1d(np.arange(state.q.size), state.local.kernels)
    state.q[others] = np.maximum(problem.gram.energies(state.beta, others)[others], 0.0)


def _spread(problem: Problem, state: SQPState, index: np.ndarray, delta: np.ndarray) -> None:
    """Move the products of the kernels of a round, which has them for its own samples, by the duals that changed."""
    local, samples = state.local, state.block.samples
    outside = np.ones(state.beta.size, dtype=bool)
    outside[samples] = False
    rest, kernels = np.flatnonzero(outside), local.kernels
    if rest.size:
        part = None if kernels.size == state.q.size else kernels
        state.g[np.ix_(rest, kernels)] += combinable(problem).weighted_columns(delta, index, rest, part)
    state.g[np.ix_(samples, kernels)] = local.g
    state.q[kernels] = local.q


def _gradient(state: SQPState) -> np.ndarray:
    return state.g @ state.weights + state.box.ridge * state.beta - state.box.linear


# -- Newton's steps --


def _newton(problem: Problem, state: SQPState) -> bool:
    """One Newton step on the round's samples; True when the round has reached its goal or can do no more."""
    local, box = state.local, state.local.box
    weights = local.penalty.weights(local.q)
    _recombine(problem, state, weights)
    gradient = local.gradient(weights)
    level, violation = _conditions(gradient, local.beta, box)
    eps = SETTINGS.inner * min(violation, state.unit)
    mass = float(np.abs(state.beta).sum() + np.abs(local.beta).sum() - np.abs(state.beta[state.block.samples]).sum())
    if mass > 0:
        goal = state.goal if np.isfinite(state.goal) else _first_goal(state)
        eps = max(eps, SETTINGS.inner_goal * goal / mass)
    beta = _model(state, weights, gradient, level, violation, max(eps, 1e-15 * state.unit))
    followed = local.penalty
    t, fall = _advance(problem, state, beta, level, weights)
    local.steps += 1
    done = _reached(problem, state, t, fall)
    return done or (fall <= 0.0 and local.penalty is followed) or local.steps >= SETTINGS.newton


def _conditions(gradient: np.ndarray, beta: np.ndarray, box: DualTerms) -> tuple[float, float]:
    """Return the slope at free samples, which is minus the bias, and by how much the best pair violates optimality."""
    from ..compiled.working_set import conditions

    return conditions(gradient, beta, box.lower, box.upper, box.kink)


def _recombine(problem: Problem, state: SQPState, weights: np.ndarray) -> None:
    """Have rows of the combined kernel at weights near ``weights``: the last ones, where they are."""
    local = state.local
    if local.weights is not None:
        apart = float(np.abs(weights - local.weights).sum())
        if apart <= (SETTINGS.stale if state.tol >= SETTINGS.fine else 0.0) * float(np.abs(weights).sum()):
            return
    local.weights = np.where(weights > SETTINGS.faint * weights.max(initial=0.0), weights, 0.0)
    local.formed[:] = state.block.whole
    if state.block.whole:
        full = np.zeros(state.q.size)
        full[local.kernels] = local.weights
        local.combined = combinable(problem).combine(state.block.samples, full)


def _model(
    state: SQPState, weights: np.ndarray, gradient: np.ndarray, level: float, violation: float, eps: float
) -> np.ndarray:
    """Return duals near the least of ``h(q + 2 G'd) + 1/2 d'K_w d`` and the loss's own terms.

    The penalty is kept as it is and only the energies are taken as linear; quadratic programmes lead there.
    """
    local, box, penalty = state.local, state.local.box, state.local.penalty
    local.image = None
    beta, q, first, enough = local.beta.copy(), local.q, violation, max(SETTINGS.model * violation, 4.0 * eps)
    turned = np.zeros(beta.size)  # K_w times the step
    for trial in range(1 if penalty.fixed else SETTINGS.models):
        if trial > 0:
            gradient = local.g @ weights + turned + box.ridge * beta - box.linear
            level, violation = _conditions(gradient, beta, box)
            if violation <= enough or violation > SETTINGS.astray * first:
                break
        before, last = gradient.copy(), beta.copy()
        programme = _Programme(state, q, gradient, beta)
        rough = SETTINGS.alone if penalty.fixed else SETTINGS.rough
        rough = rough if state.tol >= SETTINGS.fine else SETTINGS.inner
        if not programme.solve(max(eps, rough * min(violation, state.unit))) or penalty.fixed:
            local.image = gradient - before - box.ridge * (beta - last) if penalty.fixed else None
            break
        delta = beta - last
        image = gradient - before - box.ridge * delta - programme.correction(delta)
        along = delta @ local.g
        further = float(turned @ delta), float(image @ delta)
        t = _Line(penalty, q, along, 0.0, box, last, delta, level, *further).search(SETTINGS.near_step)
        q, turned = q + 2.0 * t * along, turned + t * image
        if t < 1.0:
            beta = last + t * delta
        if t < SETTINGS.poor:
            break
        weights = penalty.weights(q)
    return beta


class _Programme:
    """One quadratic programme: the combined kernel and what the weights' own change adds, rows made when touched."""

    def __init__(self, state: SQPState, q: np.ndarray, gradient: np.ndarray, beta: np.ndarray):
        local, block = state.local, state.block
        self.box, self.gradient, self.beta, self.state = local.box, gradient, beta, state
        assert local.weights is not None
        dtype = local.combined.dtype
        self.diagonal = local.diagonal @ local.weights + local.box.ridge
        self.bend = self.g = np.empty((beta.size, 0), dtype=dtype)
        if not local.penalty.fixed:
            bend = 2.0 * local.penalty.curvature_times(q, local.g.T).T
            own = np.einsum("ik,ik->k", np.abs(bend), np.abs(local.g))
            kept = np.flatnonzero(own > SETTINGS.faint * own.max(initial=0.0))
            if kept.size:
                bend, g = (bend, local.g) if kept.size == own.size else (bend[:, kept], local.g[:, kept])
                self.diagonal += np.einsum("ik,ik->i", bend, g)
                self.bend, self.g = (np.ascontiguousarray(table, dtype=dtype) for table in (bend, g))
        weights = self.weights = np.zeros(block.kernels.size, dtype=dtype)
        weights[local.place] = local.weights
        weights *= block.scale.astype(dtype) if block.held else 1.0
        self.rows = (
            block.stack, block.samples, block.kernels, block.entries, block.slot, block.count, weights,
            local.combined, local.formed, local.row, local.made,
        )  # fmt: skip

    def solve(self, eps: float) -> int:
        """Move the duals, and the gradient with them, to a violation below ``2 eps``; the pair steps taken."""
        from ..compiled.working_set import programme

        box, n, taken = self.box, self.beta.size, 0
        bounds, model = (box.ridge, box.lower, box.upper, box.kink), (self.bend, self.g, self.diagonal)
        budget, turn = max(SETTINGS.budget * n, SETTINGS.quick), max(SETTINGS.turn * n, SETTINGS.quick)
        left = turn
        while taken < budget:
            steps, lacking = programme(*self.rows, *model, self.gradient, self.beta, *bounds, eps, left)
            taken, left = taken + steps, left - steps
            if lacking >= 0:
                self.form(self.likely(lacking, eps))
            elif left > 0 or not self.on_free():
                break
            else:
                left = min(turn, budget - taken)
        return taken

    def likely(self, wanted: int, eps: float) -> np.ndarray:
        """Return a sample whose row is wanted, and those that will want theirs next: they violate most."""
        beta, box, formed = self.beta, self.box, self.state.local.formed
        rising, falling = box.directed(self.gradient, beta)
        rising, falling = np.where(beta < box.upper, rising, np.inf), np.where(beta > box.lower, falling, -np.inf)
        score = np.where(formed, -np.inf, np.maximum(falling.max() - rising, falling - rising.min()))
        score[wanted] = np.inf
        found = np.flatnonzero(score > 2.0 * eps)
        if found.size > SETTINGS.batch:
            found = found[np.argpartition(-score[found], SETTINGS.batch)[: SETTINGS.batch]]
        return found

    def form(self, index: np.ndarray) -> None:
        """Compute rows of the combined kernel, on demand."""
        local, columns = self.state.local, self.state.block.columns
        index = index[~local.formed[index]]
        if columns is None or index.size == 0:
            return
        new = index[local.row[index] < 0]
        local.row[new] = local.made[0] + np.arange(new.size)
        local.made[0] += new.size
        for first in range(0, index.size, SETTINGS.batch):
            some = index[first : first + SETTINGS.batch]
            local.combined[local.row[some]] = columns.mixed_columns(some, self.weights)
        local.formed[index] = True

    def correction(self, delta: np.ndarray) -> np.ndarray:
        """Return the part of the Hessian times ``delta`` that is due to the weights' own change."""
        return self.g @ (delta @ self.bend)

    def on_free(self) -> bool:
        """Move the free duals to where the quadratic is least, cut off at bounds and kinks; False if that is no use."""
        from ..compiled.working_set import make_rows

        beta, box = self.beta, self.box
        free = np.flatnonzero((beta > box.lower) & (beta < box.upper) & ((beta != 0) | (box.kink == 0)))
        if free.size < 2:
            return False
        self.form(free)
        make_rows(free, *self.rows)
        rows = self.state.local.combined[self.state.local.row[free]]
        part, sign = box.take(free), np.sign(beta[free])
        square = rows[:, free] + self.bend[free].astype(float) @ self.g[free].T
        jitter = SETTINGS.jitter if rows.dtype == np.float64 else SETTINGS.jitter**0.5
        square.flat[:: free.size + 1] += part.ridge + jitter * float(self.diagonal.mean())
        solve = cholesky(square)
        if solve is None:
            return False
        slope = self.gradient[free] + part.kink * sign
        lean, level = solve(slope), solve(np.ones(free.size))
        step = level * (lean.sum() / level.sum()) - lean
        low = np.where((part.kink > 0) & (sign > 0), 0.0, part.lower)
        high = np.where((part.kink > 0) & (sign < 0), 0.0, part.upper)
        for halving in range(SETTINGS.halvings):
            moved = _cut_off(beta[free] + 0.5**halving * step, low, high, float(beta[free].sum()))
            delta = moved - beta[free]
            change = delta @ rows + self.g @ (delta @ self.bend[free])
            change[free] += part.ridge * delta
            if float(slope @ delta) + 0.5 * float(delta @ change[free]) < 0.0:
                beta[free] = moved
                self.gradient += change
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


@dataclass
class _Line:
    """The objective along a step: energies as a quadratic, the loss's own terms, and what else there is.

    ``level`` is what the gradient is near; without it a sum of the step that is not quite zero would matter.
    """

    penalty: MixingPenalty
    q: np.ndarray  # (a,)
    along: np.ndarray  # (a,) half the slope of q
    bend: np.ndarray | float  # (a,) its curvature
    box: DualTerms
    beta: np.ndarray  # (u,)
    delta: np.ndarray  # (u,)
    level: float
    flat: float = 0.0  # further slope
    steep: float = 0.0  # further curvature

    def __post_init__(self) -> None:
        box, beta, delta = self.box, self.beta, self.delta
        self.flat += float((box.ridge * beta - box.linear - self.level) @ delta)
        self.steep += float(box.ridge @ delta**2)
        self.kinks = box.kink * delta
        self.kinked = bool(self.kinks.any())

    def slope(self, t: float) -> float:
        energies = np.maximum(self.q + t * (2.0 * self.along + t * self.bend), 0.0)
        kink = float(np.sign(self.beta + t * self.delta) @ self.kinks) if self.kinked else 0.0
        return float(self.penalty.weights(energies) @ (self.along + t * self.bend)) + self.flat + t * self.steep + kink

    def search(self, close: float) -> float:
        """Return the step in [0, 1] at which the objective stops falling, to a relative error of ``close``."""
        box, delta = self.box, np.abs(self.delta)
        high_slope = self.slope(1.0)
        if high_slope <= SETTINGS.rounding * float((np.abs(box.linear) + box.kink) @ delta):
            return 1.0
        low, high, low_slope = 0.0, 1.0, self.slope(0.0)
        if low_slope >= 0.0:  # all of it is rounding
            return 1.0
        for trial in range(SETTINGS.trials):
            t = (low * high_slope - high * low_slope) / (high_slope - low_slope)
            if trial % 3 == 2 or not low < t < high:
                t = 0.5 * (low + high)
            slope = self.slope(t)
            if slope <= 0.0:
                low, low_slope = t, slope
            else:
                high, high_slope = t, slope
            if high - low <= close * high:
                break
        return low


def _advance(
    problem: Problem, state: SQPState, beta: np.ndarray, level: float, weights: np.ndarray
) -> tuple[float, float]:
    """Move towards ``beta`` as far as the objective falls; how far, from 0 to 1, and about how much it fell."""
    local, block, box = state.local, state.block, state.local.box
    delta = beta - local.beta
    index = np.flatnonzero(np.abs(delta) > _dust(beta))
    if index.size == 0:
        return 1.0, 0.0
    if local.image is not None and local.kernels.size == 1 and weights[0] > 0:
        columns = local.image[:, None] / weights[0]
    elif block.held:
        columns = _block_products(block, index, delta[index])
        columns = columns if local.place.size == block.kernels.size else columns[:, local.place]
    elif block.columns is not None:
        columns = block.columns.weighted_columns(delta[index], index)[:, local.place]
    else:
        samples = block.samples
        columns = combinable(problem).weighted_columns(delta[index], samples[index], samples, local.kernels)
    along, bend = delta @ local.g, np.maximum(delta @ columns, 0.0)
    line = _Line(local.penalty, local.q, along, bend, box, local.beta, delta, level)
    t = line.search(SETTINGS.close_step)
    slope = float(weights @ along) + line.flat
    if line.kinked:
        slope += float(box.kink @ np.where(local.beta == 0, np.abs(delta), np.sign(local.beta) * delta))
    local.beta = _snapped(beta if t == 1.0 else local.beta + t * delta, box)
    local.g += columns if t == 1.0 else t * columns
    local.q = np.maximum(local.q + t * (2.0 * along + t * bend), 0.0)
    return t, -0.5 * t * slope


def _block_products(block: Block, index: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """Return the sum of ``delta_i`` times the kernels between sample ``index_i`` of the set and all of it."""
    from ..compiled import threads
    from ..compiled.working_set import hold_rows, products

    rows, size = (block.stack, block.samples, block.kernels, block.entries, block.slot), block.samples.size
    hold_rows(index, *rows, block.count)
    out = np.empty((size, block.kernels.size))
    threads.spread(partial(products, *rows, index, delta, out), size, index.size * out.size)
    return out * block.scale


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


# -- goals --


def _reached(problem: Problem, state: SQPState, t: float, fall: float) -> bool:
    """Whether the round's goal is met; where not, the penalty moves on if the weights are what is behind."""
    local = state.local
    if local.penalty.fixed and not problem.penalty.fixed:
        local.penalty = _followed(problem.penalty, state)
        return False
    goal = state.goal if np.isfinite(state.goal) else _first_goal(state)
    mixing = local.penalty.mixing_gap(local.q)
    slack = _slack(local, goal - mixing, state.unit)
    if slack + mixing <= goal:
        return True
    behind = min(SETTINGS.behind * (slack + mixing), SETTINGS.settled * fall)
    if mixing > 0.5 * goal and t > 0.5 and mixing > behind:
        coarse = state.tol >= SETTINGS.fine
        growth = SETTINGS.growth if coarse else SETTINGS.bolder
        strongest = SETTINGS.strongest if coarse else SETTINGS.sharpest
        local.penalty = local.penalty.next_stage(local.q, growth, strongest, SETTINGS.floor * state.tol)
    return False


def _first_goal(state: SQPState) -> float:
    """Return the accuracy that the first round works towards, from the size of the dual value of its samples.

    If it is about everything, and that is little, it goes to the end.
    """
    local = state.local
    small = local.g.shape == state.g.shape and local.q.size <= SETTINGS.many
    share = SETTINGS.spare * state.tol if small else SETTINGS.start
    loss = float(local.box.linear @ local.beta - local.box.kink @ np.abs(local.beta))
    return share * max(abs(loss), 0.5 * float(local.penalty.weights(local.q) @ local.q))


def _slack(local: Local, goal: float, unit: float) -> float:
    """Duality gap that is due to the duals, the weights taken as they are, at the best scale of the primal."""
    from ..compiled.working_set import slack

    beta, box, weights = local.beta, local.box, local.penalty.weights(local.q)
    f = local.g @ weights
    gradient = f + box.ridge * beta - box.linear
    level, violation = _conditions(gradient, beta, box)
    reach = min(0.5, 3.0 * violation / unit + 1e-4)
    return slack(f, beta, *box.parts, level, float(weights @ local.q), goal, reach, SETTINGS.golden)


def _followed(penalty: MixingPenalty, state: SQPState) -> MixingPenalty:
    """Return the penalty to follow after fixed weights: the problem's own, or a proximal stage for l1."""
    if not penalty.on_simplex:
        return penalty
    local, m = state.local, state.q.size
    own = penalty.restrict(local.kernels, m) if local.kernels.size < m else penalty
    strength = min(state.penalty.stage_strength(state.q), SETTINGS.pull) or SETTINGS.first_strength
    shares = local.penalty.weights(local.q) * own.prices(local.kernels.size)
    return own.stage(local.q, "entropic", floored(shares, SETTINGS.floor * state.tol), strength)
