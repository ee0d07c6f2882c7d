"""Rounds of the default solver: which samples and kernels they work on, how they begin and how they end."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..grams import CachedGram, DenseGram, EntryGram
from ..penalties.base import MixingPenalty
from ..problem import Problem
from .base import combinable
from .sqp_records import EMPTY, SETTINGS, Block, Local, SQPState, precision
from .sqp_steps import Line, conditions

# -- choosing samples and kernels --


def first_size(problem: Problem) -> int:
    """Return how many samples the first round works on."""
    n, m = problem.gram.shape
    stored = isinstance(problem.gram, EntryGram) and problem.gram.stored is not None
    if problem.penalty.fixed and stored:
        return n  # one quadratic programme is all there is
    every = SETTINGS.every_stored if stored and m <= SETTINGS.many else SETTINGS.every
    if n <= every[not problem.penalty.on_simplex]:
        return n
    return int(np.clip(SETTINGS.third * n, *SETTINGS.few)) if m > SETTINGS.many else SETTINGS.first


def first_samples(linear: np.ndarray, count: int) -> np.ndarray:
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
    room = SETTINGS.tables * problem.gram.own_memory / np.dtype(precision(problem.penalty, tol)).itemsize
    return min(max(int(room**0.5), SETTINGS.few_rows), problem.n)


def chosen(state: SQPState, largest: int, on_demand: bool) -> np.ndarray:
    """Return the samples that are free, violate optimality or are near it, the worst first if they are many."""
    beta, box = state.beta, state.box
    gradient = slopes(state)
    rising, falling = box.directed(gradient, beta)
    up, down, level = beta < box.upper, beta > box.lower, conditions(gradient, beta, box)[0]
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


def in_play(state: SQPState, gap: float, on_demand: bool) -> tuple[np.ndarray, np.ndarray]:
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


def learn(problem: Problem, state: SQPState, kernels: np.ndarray, samples: np.ndarray) -> None:
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


def hold_back(penalty: MixingPenalty, state: SQPState, strength: float) -> None:
    """Weaken the proximal step that a round begins with, which samples that joined would make too bold."""
    if state.penalty.stage_strength(state.q) > strength:
        center = state.penalty.center
        state.penalty = penalty.stage(state.q, "entropic", center, strength)


# -- rounds --


def open_round(
    problem: Problem, state: SQPState, samples: np.ndarray, kernels: np.ndarray, stored: np.ndarray | None = None
) -> None:
    """Begin a round on some samples and kernels."""
    block = _block(problem, state, samples, kernels, kernels if stored is None else stored)
    samples = block.samples
    m, dtype = state.q.size, np.float64 if block.whole else state.dtype
    penalty = state.penalty if kernels.size == m else state.penalty.restrict(kernels, m)
    rows = _rows(problem, state, block, kernels, dtype)
    state.block = block
    state.local = Local(
        kernels, state.box.take(samples), penalty, state.beta[samples],
        state.g[np.ix_(samples, kernels)], state.q[kernels],
        state.diagonal[np.ix_(samples, kernels)], np.searchsorted(block.kernels, kernels),
        *rows,
    )  # fmt: skip


def _rows(problem: Problem, state: SQPState, block: Block, kernels: np.ndarray, dtype: Any) -> tuple[Any, ...]:
    """Return the rows of the combined kernel that a round begins with: those of the last one on the same samples."""
    old: Any = getattr(state, "local", None)
    u, alike = block.samples.size, old is not None and block.held and np.array_equal(old.kernels, kernels)
    if alike and np.array_equal(state.block.samples, block.samples):
        return old.combined, old.formed, old.row, old.made, old.weights
    row = np.arange(u) if block.whole else np.full(u, -1)
    return _table(problem, state, u, dtype), np.zeros(u, dtype=bool), row, np.zeros(1, dtype=np.int64), None


def _table(problem: Problem, state: SQPState, size: int, dtype: Any) -> np.ndarray:
    """Return room for the combined kernel of a round: that of the last one, as fresh memory costs time."""
    if state.table.size < size**2 or state.table.dtype != dtype:
        state.table = np.empty(max(largest_set(problem, state.tol), size) ** 2, dtype=dtype)
    return state.table[: size**2].reshape(size, size)


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


def take_over(problem: Problem, state: SQPState) -> None:
    """Begin with the copies of entries that the last problem on the same kernels left, if nobody else has them."""
    gram = problem.gram
    if not isinstance(gram, DenseGram):
        return
    try:
        buffer, table, block, local = gram.left.pop()
    except IndexError:  # which asking first would not exclude, with several threads
        return
    if buffer.dtype == state.dtype:
        state.buffer, state.table, state.block, state.local = buffer, table, block, local


def hand_over(problem: Problem, state: SQPState) -> None:
    """Leave copies of entries for the next problem on the same kernels."""
    gram = problem.gram
    if not isinstance(gram, DenseGram) or state.buffer.nbytes + state.table.nbytes > SETTINGS.kept:
        return
    if getattr(state, "local", None) is not None and state.block.held:
        gram.left.append((state.buffer, state.table, state.block, state.local))


def close_round(problem: Problem, state: SQPState) -> None:
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
    last = _is_last(problem, state)
    if np.count_nonzero(state.known) == local.kernels.size:
        if last:
            state.beta[index] = moved
            _renew(problem, state)
            return
        _spread(problem, state, index, delta)
        state.beta[index] = moved
        if local.kernels.size < m:
            _learn_energies(problem, state)
        return
    columns = _columns(problem, state, index, delta, last)
    along, bend = delta @ state.g[index], np.maximum(delta @ columns[index], 0.0)
    level = conditions(slopes(state), state.beta, state.box)[0]
    line = Line(state.penalty, state.q, along, bend, state.box.take(index), state.beta[index], delta, level)
    t = line.search(SETTINGS.close_step)
    state.wary = t < 1.0
    state.beta[index] = moved if t == 1.0 else state.beta[index] + t * delta
    state.g += columns if t == 1.0 else t * columns
    state.q = np.maximum(state.q + t * (2.0 * along + t * bend), 0.0)


def _is_last(problem: Problem, state: SQPState) -> bool:
    """Whether a round on stored kernels worked towards the gap that is asked for, so that the judge will confirm it.

    The judge computes all products from the kernels; where the round ends with these, it finds them there.
    """
    stored = isinstance(problem.gram, EntryGram) and problem.gram.stored is not None
    return stored and np.isfinite(state.goal) and state.goal <= state.tol * abs(state.upper)


def _renew(problem: Problem, state: SQPState) -> None:
    """Have all products from the kernels."""
    state.beta = problem.feasible(state.beta)
    state.g = combinable(problem).products(state.beta)
    state.q = np.maximum(state.beta @ state.g, 0.0)
    state.known[:] = True


def _columns(problem: Problem, state: SQPState, index: np.ndarray, delta: np.ndarray, last: bool) -> np.ndarray:
    """Return all products of the duals that changed, by their new ones where these are asked for anyway."""
    if not last:
        return combinable(problem).weighted_columns(delta, index)
    beta = state.beta.copy()
    beta[index] += delta
    return combinable(problem).products(problem.feasible(beta)) - state.g


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


def slopes(state: SQPState) -> np.ndarray:
    return state.g @ state.weights + state.box.ridge * state.beta - state.box.linear
