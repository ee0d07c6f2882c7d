"""Newton steps of the default solver on the samples of a round: quadratic programmes, line searches, goals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from .. import threads
from ..arrays import cholesky
from ..losses.base import DualTerms
from ..penalties.base import MixingPenalty
from ..penalties.prox import floored
from ..problem import Problem
from .base import combinable
from .sqp_records import SETTINGS, Block, Local, SQPState

CLOSE = 4.0 * float(np.finfo(float).eps)  # of the size of duals: what their sum may be off by

# -- Newton's steps --


def newton_step(problem: Problem, state: SQPState) -> bool:
    """One Newton step on the round's samples; True when the round has reached its goal or can do no more."""
    local, box = state.local, state.local.box
    weights = local.penalty.weights(local.q)
    _recombine(problem, state, weights)
    gradient = local.gradient(weights)
    level, violation = conditions(gradient, local.beta, box)
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


def conditions(gradient: np.ndarray, beta: np.ndarray, box: DualTerms) -> tuple[float, float]:
    """Return the slope at free samples, which is minus the bias, and by how much the best pair violates optimality."""
    from ..compiled.working_set import conditions

    return conditions(gradient, beta, box.lower, box.upper, box.kink)


def _recombine(problem: Problem, state: SQPState, weights: np.ndarray) -> None:
    """Have rows of the combined kernel at weights near ``weights``: the last ones, where they are."""
    local = state.local
    if local.weights is not None:
        apart = float(np.abs(weights - local.weights).sum())
        rough = state.tol >= SETTINGS.fine and not local.penalty.fixed  # a programme is the problem itself there
        if apart <= (SETTINGS.stale if rough else 0.0) * float(np.abs(weights).sum()):
            return
    local.weights = np.where(weights > SETTINGS.faint * weights.max(initial=0.0), weights, 0.0)
    local.formed[:] = state.block.whole
    if state.block.whole:
        full = np.zeros(state.q.size, dtype=state.dtype)
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
            level, violation = conditions(gradient, beta, box)
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
        t = Line(penalty, q, along, 0.0, box, last, delta, level, *further).search(SETTINGS.near_step)
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
        self.bend = self.g = np.empty((0, beta.size), dtype=dtype)  # a row for each kernel
        if not local.penalty.fixed:
            bend, g = 2.0 * local.penalty.curvature_times(q, local.g.T), local.g.T
            own = np.einsum("ki,ki->k", np.abs(bend), np.abs(g))
            kept = np.flatnonzero(own > SETTINGS.faint * own.max(initial=0.0))
            if kept.size:
                bend, g = (bend, g) if kept.size == own.size else (bend[kept], g[kept])
                self.diagonal += np.einsum("ki,ki->i", bend, g)
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
        return (self.bend @ delta) @ self.g

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
        square = rows[:, free] + self.bend[:, free].astype(float).T @ self.g[:, free]
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
        tried = (beta[free] + 0.5**halving * step for halving in range(SETTINGS.halvings))
        for wanted in chain(tried, [_to_bound(beta[free], step, low, high)]):
            moved = _cut_off(wanted, low, high, float(beta[free].sum()))
            delta = moved - beta[free]
            change = delta @ rows + (self.bend[:, free] @ delta) @ self.g
            change[free] += part.ridge * delta
            if float(slope @ delta) + 0.5 * float(delta @ change[free]) < 0.0:
                beta[free] = moved
                self.gradient += change
                return True
        return False


def _to_bound(beta: np.ndarray, step: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return where a step first meets a bound.

    No part of it is cut off there, so the quadratic has fallen; and one dual less is free, of which there may be more
    than the rank of the kernel tells apart.
    """
    with np.errstate(all="ignore"):
        room = np.where(step > 0, high - beta, low - beta)
        shares = np.where(step != 0, room / step, np.inf)
        first = int(np.argmin(shares))
        moved = beta + min(float(shares[first]), 1.0) * step
    if shares[first] < 1.0:
        moved[first] = high[first] if step[first] > 0 else low[first]
    return moved


def _cut_off(wanted: np.ndarray, low: np.ndarray, high: np.ndarray, total: float) -> np.ndarray:
    """Return the point between bounds nearest to ``wanted`` whose sum is ``total``.

    It is ``wanted`` less a shift, cut off: Newton's method on the sum, which is piecewise linear in the shift, or
    halving where that leads out of where the shift is.
    """
    moved = np.clip(wanted, low, high)
    size = float(np.max(np.abs(wanted - moved), initial=0.0))
    if size == 0.0:
        return wanted
    down, up, shift = -size * wanted.size, size * wanted.size, 0.0
    for _ in range(100):
        excess = float(moved.sum()) - total
        if abs(excess) <= CLOSE * float(np.abs(moved).sum()):
            break
        down, up = (shift, up) if excess > 0 else (down, shift)
        between = int(np.count_nonzero((moved > low) & (moved < high)))
        last, shift = shift, shift + excess / between if between else np.inf
        shift = shift if down < shift < up else 0.5 * (down + up)
        if shift == last:
            break
        moved = np.clip(wanted - shift, low, high)
    return moved


@dataclass
class Line:
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
    line = Line(local.penalty, local.q, along, bend, box, local.beta, delta, level)
    t = line.search(SETTINGS.close_step)
    slope = float(weights @ along) + line.flat
    if line.kinked:
        slope += float(box.kink @ np.where(local.beta == 0, np.abs(delta), np.sign(local.beta) * delta))
    local.beta = snapped(beta if t == 1.0 else local.beta + t * delta, box)
    local.g += columns if t == 1.0 else t * columns
    local.q = np.maximum(local.q + t * (2.0 * along + t * bend), 0.0)
    return t, -0.5 * t * slope


def _block_products(block: Block, index: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """Return the sum of ``delta_i`` times the kernels between sample ``index_i`` of the set and all of it."""
    from ..compiled.working_set import hold_rows, products

    rows, size = (block.stack, block.samples, block.kernels, block.entries, block.slot), block.samples.size
    hold_rows(index, *rows, block.count)
    out = np.empty((size, block.kernels.size))
    threads.spread(partial(products, *rows, index, delta, out), size, index.size * out.size)
    return out * block.scale


def _dust(beta: np.ndarray) -> float:
    return SETTINGS.dust * float(np.abs(beta).max(initial=0.0))


def snapped(beta: np.ndarray, box: DualTerms) -> np.ndarray:
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
    share = SETTINGS.spare * state.tol if small else SETTINGS.first_goal(state.q.size)
    loss = float(local.box.linear @ local.beta - local.box.kink @ np.abs(local.beta))
    return share * max(abs(loss), 0.5 * float(local.penalty.weights(local.q) @ local.q))


def _slack(local: Local, goal: float, unit: float) -> float:
    """Duality gap that is due to the duals, the weights taken as they are, at the best scale of the primal."""
    from ..compiled.working_set import slack

    beta, box, weights = local.beta, local.box, local.penalty.weights(local.q)
    f = local.g @ weights
    gradient = f + box.ridge * beta - box.linear
    level, violation = conditions(gradient, beta, box)
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
