"""Dual coordinate descent on explicit features: passes over the samples, the kernel weights moving with every step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import boolean, float32, float64, from_dtype, int64, njit, types, uint64

from .duals import steepest
from .rules import RULE


class PassSettings(NamedTuple):
    """Numbers that the passes go by."""

    # bytes of features up to which samples are visited one by one
    cache: int = 2**24
    # neighbours that follow each other beyond that, since memory is read faster in longer pieces
    block: int = 4
    # share of the slope before a step that the slope after it may have, with the other sign; beyond, it is too long
    firm: float = 0.25
    # times that a step is shortened at most
    trials: int = 30
    # passes between extrapolations
    period: int = 2
    # most samples, as a share, that an extrapolation may take to a bound or to the kink
    clipped: float = 0.05
    # extrapolation tried first, in moves since the anchor; then twice as far while the objective falls
    first: float = 0.25
    # longest extrapolation
    longest: float = 10.0
    # rounding of a slope, relative to what it is computed from, within which it says nothing
    noise: float = 1e-13


SETTINGS = PassSettings()
FACTS = np.dtype(
    [
        ("sum", "f8"),  # of beta, less what it is to be
        ("total", "f8"),  # what the sum of beta is to be
        ("bias", "f8"),  # multiplier of the sum
        ("pull", "f8"),  # price of the sum's square
        ("unit", "f8"),  # size of a slope, which is what a sum that is off by one may cost
        ("slack", "f8"),  # about the duality gap: of the samples, each as it was met in the pass, and of their sum
        ("highest", "f8"),  # slopes met in the pass where a step was possible
        ("lowest", "f8"),
        ("ceiling", "f8"),  # the same of the pass before: a sample that cannot move and is beyond them is put aside
        ("floor", "f8"),
        ("active", "i8"),  # samples not put aside
        ("random", "u8"),  # state of the generator that orders the passes
    ]
)


class Work(NamedTuple):
    """What the passes read and write."""

    linear: np.ndarray  # (n,)
    ridge: np.ndarray  # (n,)
    lower: np.ndarray  # (n,)
    upper: np.ndarray  # (n,)
    kink: np.ndarray  # (n,)
    beta: np.ndarray  # (n,)
    u: np.ndarray  # (D,)  V' beta
    anchor: np.ndarray  # (n,)  beta before the last extrapolation
    u_anchor: np.ndarray  # (D,)  and its u
    u_next: np.ndarray  # (D,)  u of the extrapolation on trial
    u_best: np.ndarray  # (D,)  and of the one to take
    drift: np.ndarray  # (D,)  change of u along the extrapolation
    q: np.ndarray  # (m,)  ||u_k||^2
    weights: np.ndarray  # (m,)
    parts: np.ndarray  # (m,)  V_ik . u_k of the sample at hand
    q_next: np.ndarray  # (m,)  after its step
    weights_next: np.ndarray  # (m,)
    norms: np.ndarray  # (n, m)  ||V_ik||^2
    ends: np.ndarray  # (m,)  where the columns of each kernel end
    order: np.ndarray  # (n,)  the active samples first, rising
    blocks: np.ndarray  # (n,)  where to go next
    facts: np.ndarray  # (), of FACTS


PER_COLUMN = ("u", "u_anchor", "u_next", "u_best", "drift")
PER_KERNEL = ("q", "weights", "parts", "q_next", "weights_next")
ROW, INDEX = float64[::1], int64[::1]
WORK = types.NamedTuple(
    (ROW,) * 17 + (float64[:, ::1], INDEX, INDEX, INDEX, types.Array(from_dtype(FACTS), 0, "C")), Work
)
ROWS = [types.Array(kind, 1, "C", readonly=True) for kind in (float32, float64)]
FEATURES = [types.Array(kind, 2, "C", readonly=True) for kind in (float32, float64)]
SPREAD = 0x9E3779B97F4A7C15  # an odd number of many bits, so that no seed begins the generator at zero
FAST = {"contract", "reassoc"}


def workspace(
    V: np.ndarray,  # (n, D)
    ranks: np.ndarray,  # (m,)
    box: tuple[np.ndarray, ...],  # linear, ridge, lower, upper, kink
    total: float,
    seed: int,
) -> Work:
    """Return a work space at ``beta = 0``, whose sum is to be ``total``."""
    (n, D), m, ends = V.shape, ranks.size, np.cumsum(ranks)
    facts = np.zeros((), FACTS)
    facts["total"], facts["sum"] = total, -total
    facts["random"] = (2 * seed + 1) * SPREAD % 2**64
    arrays = dict(zip(Work._fields, (np.array(part, dtype=float) for part in box), strict=False))
    sizes = {"beta": n, "anchor": n} | dict.fromkeys(PER_COLUMN, D) | dict.fromkeys(PER_KERNEL, m)
    arrays |= {name: np.zeros(size) for name, size in sizes.items()}
    work = Work(**arrays, norms=squares(V, ends), ends=ends, order=np.arange(n), blocks=np.arange(n), facts=facts)
    recall(work)
    return work


@njit([float64[:, ::1](features, INDEX) for features in FEATURES], cache=True, nogil=True, fastmath=FAST)
def squares(V, ends):
    """Return ``||V_ik||^2`` of every sample and kernel."""
    out = np.empty((V.shape[0], ends.size))
    for i in range(V.shape[0]):
        start = 0
        for k in range(ends.size):
            row, total = V[i, start : ends[k]], 0.0
            for j in range(row.size):
                total += float64(row[j]) * row[j]
            out[i, k] = total
            start = ends[k]
    return out


@njit([types.void(row, ROW, INDEX, ROW) for row in ROWS], cache=True, nogil=True, fastmath=FAST)
def products(row, u, ends, out):
    """Leave ``row_k . u_k`` of every kernel in ``out``."""
    start = 0
    for k in range(ends.size):
        first, second, total = row[start : ends[k]], u[start : ends[k]], 0.0  # whose indices are plainly in range
        for j in range(first.size):
            total += first[j] * second[j]
        out[k] = total
        start = ends[k]


@njit([types.void(features, int64, float64, ROW) for features in FEATURES], cache=True, nogil=True, fastmath=FAST)
def add_row(V, i, step, u):
    """Add ``step`` times a row to ``u``."""
    for j in range(u.size):
        u[j] += step * V[i, j]


@njit(types.void(WORK), cache=True, nogil=True)
def recall(work):
    """Make all samples active."""
    facts = work.facts[()]
    facts.active, facts.ceiling, facts.floor = work.beta.size, np.inf, -np.inf
    for i in range(work.beta.size):
        work.order[i] = i


@njit(types.void(WORK), cache=True, nogil=True)
def dismiss(work):
    """Drop the samples put aside in the pass, marked by -1, from the active ones."""
    facts, kept = work.facts[()], 0
    for p in range(facts.active):
        if work.order[p] >= 0:
            work.order[kept] = work.order[p]
            kept += 1
    facts.active = kept
    facts.ceiling = facts.highest if facts.highest > 0.0 else np.inf
    facts.floor = facts.lowest if facts.lowest < 0.0 else -np.inf


@njit(uint64(uint64), cache=True, nogil=True)
def scrambled(state):
    """Return the next state of a xorshift generator."""
    state ^= state << uint64(13)
    state ^= state >> uint64(7)
    return state ^ (state << uint64(17))


@njit(int64(WORK, int64), cache=True, nogil=True)
def shuffle(work, size):
    """Order the blocks of active samples at random; how many there are."""
    facts, blocks = work.facts[()], work.blocks
    count = (facts.active + size - 1) // size
    for b in range(count):
        blocks[b] = b
    for b in range(count - 1, 0, -1):
        facts.random = scrambled(facts.random)
        other = int64(facts.random % uint64(b + 1))
        blocks[b], blocks[other] = blocks[other], blocks[b]
    return count


@njit(float64(RULE, ROW, WORK, int64, float64, float64, float64), cache=True, nogil=True, fastmath=FAST)
def slope_after(rule, params, work, i, t, flat, bend):
    """Slope of the objective after a step t of sample i; leaves the energies and weights there."""
    s, c, q, w = work.parts, work.norms[i], work.q_next, work.weights_next
    for k in range(q.size):
        q[k] = max(work.q[k] + t * (2.0 * s[k] + t * c[k]), 0.0)
    rule(params, q, w)
    total = flat + t * bend
    for k in range(q.size):
        total += w[k] * (s[k] + t * c[k])
    return total


@njit(float64(float64, float64, float64, float64, float64, float64), cache=True, nogil=True)
def shortfall(slope, beta, ridge, lower, upper, kink):
    """Duality gap of one sample: what it could gain if nothing else counted, from its slope without the kink."""
    pull = ridge * beta - slope
    soft = pull - kink if pull > kink else pull + kink if pull < -kink else 0.0
    if ridge > 0.0:
        best = min(max(soft / ridge, lower), upper)
    else:
        best = upper if soft > 0.0 else lower if soft < 0.0 else min(max(0.0, lower), upper)
    move = best - beta
    return kink * (abs(beta) - abs(best)) - move * (slope + 0.5 * ridge * move)


@njit(float64(RULE, ROW, WORK, int64, float64, float64, float64, float64), cache=True, nogil=True)
def across(rule, params, work, i, slope, curvature, flat, bend):
    """Return the step of a dual that meets the kink on its way: to there, unless the objective falls beyond."""
    beta, kink = work.beta[i], work.kink[i]
    beyond = steepest(slope_after(rule, params, work, i, -beta, flat, bend), 0.0, kink)
    if beyond * beta <= 0.0:
        return -beta
    far = (curvature * beta - slope + np.copysign(kink, beta)) / curvature
    return -beta if beta * far >= 0.0 else min(max(far, work.lower[i]), work.upper[i]) - beta


@njit(boolean(WORK, int64, float64), cache=True, nogil=True)
def settled(work, i, slope):
    """Whether a sample that cannot move is to be put aside: its slopes are beyond those met in the pass before."""
    facts, beta, kink = work.facts[()], work.beta[i], work.kink[i]
    rising, falling = slope + (kink if beta >= 0.0 else -kink), slope + (kink if beta > 0.0 else -kink)
    return (beta == work.upper[i] or rising > facts.ceiling) and (beta == work.lower[i] or falling < facts.floor)


@njit([boolean(RULE, ROW, features, WORK, int64) for features in FEATURES], cache=True, nogil=True, fastmath=FAST)
def visit(rule, params, V, work, i):
    """Take the best step of one sample; False if it is at a bound, or the kink, and to be put aside."""
    facts, beta, kink = work.facts[()], work.beta[i], work.kink[i]
    products(V[i], work.u, work.ends, work.parts)
    flat, bend = facts.bias + facts.pull * facts.sum - work.linear[i] + work.ridge[i] * beta, facts.pull + work.ridge[i]
    slope, curvature = flat, bend + 1e-300
    for k in range(work.q.size):
        slope += work.weights[k] * work.parts[k]
        curvature += work.weights[k] * work.norms[i, k]
    low, high, steep = work.lower[i] - beta, work.upper[i] - beta, steepest(slope, beta, kink)
    t = min(max(-steep / curvature, low), high)
    if t == 0.0:
        facts.highest, facts.lowest = max(facts.highest, 0.0), min(facts.lowest, 0.0)
        return not settled(work, i, slope)
    facts.highest, facts.lowest = max(facts.highest, steep), min(facts.lowest, steep)
    facts.slack += shortfall(slope, beta, work.ridge[i], work.lower[i], work.upper[i], kink)
    if kink > 0.0 and beta * (beta + t) < 0.0:
        t = across(rule, params, work, i, slope, curvature, flat, bend)
    for _ in range(SETTINGS.trials):
        after = steepest(slope_after(rule, params, work, i, t, flat, bend), beta + t, kink)
        if after * steep >= 0.0 or abs(after) <= SETTINGS.firm * abs(steep):
            break
        t *= steep / (steep - after)
    for k in range(work.q.size):
        work.q[k], work.weights[k] = work.q_next[k], work.weights_next[k]
    work.beta[i] = work.lower[i] if t == low else work.upper[i] if t == high else beta + t
    facts.sum += t
    add_row(V, i, t, work.u)
    return True


@njit(float64(WORK, int64, float64), cache=True, nogil=True)
def within(work, i, target):
    """Return where a dual on its way to ``target`` has to stop: at a bound, or at the kink if it has one."""
    if work.kink[i] > 0.0 and work.beta[i] * target <= 0.0:
        return 0.0
    return min(max(target, work.lower[i]), work.upper[i])


@njit([boolean(RULE, ROW, features, WORK, float64) for features in FEATURES], cache=True, nogil=True, fastmath=FAST)
def still_falls(rule, params, V, work, t):
    """Whether the objective falls where ``t`` times the move since the anchor, as far as duals may go, would lead."""
    facts, beta, u = work.facts[()], work.beta, work.u
    for j in range(u.size):
        work.drift[j] = u[j] - work.u_anchor[j]
        work.u_next[j] = u[j] + t * work.drift[j]
    slope, along, total, room = 0.0, 0.0, facts.sum, SETTINGS.clipped * beta.size
    for i in range(beta.size):
        move = beta[i] - work.anchor[i]
        if move != 0.0:
            target = beta[i] + t * move
            end = within(work, i, target)
            total += end - beta[i]
            if end == target:
                along += move
                slope += move * (work.ridge[i] * target - work.linear[i] + np.copysign(work.kink[i], target))
            else:
                add_row(V, i, end - target, work.u_next)
                add_row(V, i, -move, work.drift)
                room -= 1.0
                if room < 0.0:
                    return False
    products(work.u_next, work.u_next, work.ends, work.q_next)
    rule(params, work.q_next, work.weights_next)
    products(work.drift, work.u_next, work.ends, work.parts)
    slope += along * (facts.bias + facts.pull * total)
    noise = 0.0
    for k in range(work.q.size):
        slope += work.weights_next[k] * work.parts[k]
        noise += SETTINGS.noise * work.weights_next[k] * work.q_next[k]
    return slope < -noise


@njit([types.void(RULE, ROW, features, WORK) for features in FEATURES], cache=True, nogil=True)
def extrapolate(rule, params, V, work):
    """Go on as since the anchor while the objective falls; what was before is the new anchor.

    The next move holds this extrapolation too, which gives it momentum: with large C that saves most passes.
    """
    facts, beta = work.facts[()], work.beta
    t = 0.0
    while t < SETTINGS.longest and still_falls(rule, params, V, work, max(2.0 * t, SETTINGS.first)):
        t = max(2.0 * t, SETTINGS.first)
        work.u_best[:] = work.u_next
    work.u_anchor[:] = work.u
    if t > 0.0:
        work.u[:] = work.u_best
    facts.sum = -facts.total
    for i in range(beta.size):
        before = beta[i]
        if before != work.anchor[i]:
            beta[i] = within(work, i, before + t * (before - work.anchor[i]))
        work.anchor[i] = before
        facts.sum += beta[i]


@njit([boolean(RULE, ROW, features, WORK, float64, int64) for features in FEATURES], cache=True, nogil=True)
def descend(rule, params, V, work, goal, count):
    """Make up to ``count`` passes; True when one over all samples met a gap of at most ``goal``."""
    facts, order = work.facts[()], work.order
    for turn in range(count):
        if turn % SETTINGS.period == 0:
            extrapolate(rule, params, V, work)
        products(work.u, work.u, work.ends, work.q)
        rule(params, work.q, work.weights)
        facts.slack, facts.highest, facts.lowest = 0.0, -np.inf, np.inf
        whole = facts.active == order.size
        size = SETTINGS.block if facts.active * V.shape[1] * V.itemsize > SETTINGS.cache else 1
        for b in range(shuffle(work, size)):
            first = size * work.blocks[b]
            for p in range(first, min(first + size, facts.active)):
                if not visit(rule, params, V, work, order[p]):
                    order[p] = -1
        still = facts.slack == 0.0  # those at hand can do nothing about the sum
        facts.bias += facts.pull * facts.sum
        facts.slack += facts.unit * abs(facts.sum)
        if facts.slack > goal:
            dismiss(work)
        elif whole:
            return True
        if facts.slack <= goal or still:
            recall(work)
    return False
