"""Dual coordinate ascent on explicit features for any loss here: one sample's dual, or row of duals, at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import boolean, float32, float64, int64, njit, types

from .duals import MARGIN, ROW, TABLE, rise, row_target, shortfall, steepest, target
from .mirror import add_row, project
from .rules import RULE


class RowSettings(NamedTuple):
    """Numbers that the passes go by."""

    # share of the slope before a step that the slope after it may have, with the other sign; beyond, it is too long
    firm: float = 0.25
    # times that a step is shortened at most
    trials: int = 30
    # share of its part of the goal below which a sample that did not move is put aside
    settled: float = 1e-2


class RowWork(NamedTuple):
    """What the passes read and write."""

    box: np.ndarray  # (5, n)  linear, ridge, bounds and kink
    classes: np.ndarray  # (n,)  own class of each sample, for a joint margin
    ends: np.ndarray  # (m,)  where the columns of each kernel end
    order: np.ndarray  # (n,)  the active samples first
    theta: np.ndarray  # (c, D)  V' beta
    beta: np.ndarray  # (n, c)
    q: np.ndarray  # (m,)
    weights: np.ndarray  # (m,)


SETTINGS = RowSettings()
INDEX, WRITTEN = int64[::1], float64[:, ::1]
FEATURES = [types.Array(kind, 2, "C", readonly=True) for kind in (float32, float64)]
WORK = types.NamedTuple((TABLE, INDEX, INDEX, INDEX, WRITTEN, WRITTEN, ROW, ROW), RowWork)


def workspace(
    box: np.ndarray,  # (5, n)
    classes: np.ndarray,  # (n,)
    ranks: np.ndarray,  # (m,)
    outputs: int,
    weights: np.ndarray,  # (m,)
) -> RowWork:
    """Return a work space at ``beta = 0``, with ``outputs`` decision values for a sample."""
    n, ends = classes.size, np.cumsum(ranks)
    box = np.ascontiguousarray(box)
    box.flags.writeable = False
    theta, beta = np.zeros((outputs, int(ends[-1]))), np.zeros((n, outputs))
    return RowWork(box, classes, ends, np.arange(n), theta, beta, np.zeros(ends.size), weights.copy())


@njit(float64(RULE, ROW, int64, TABLE, int64, int64, ROW, ROW, float64, ROW, ROW, ROW, ROW, ROW, float64),
      cache=True, nogil=True)  # fmt: skip
def slope_after(rule, params, kind, box, i, label, beta, move, size, along, own, q, q_next, weights, t):
    """Slope of the objective after a step t along the move; leaves the energies and weights there."""
    for k in range(q.size):
        q_next[k] = max(q[k] + t * (2.0 * along[k] + t * size * own[k]), 0.0)
    rule(params, q_next, weights)
    total = 0.0
    for k in range(q.size):
        total += weights[k] * (along[k] + t * size * own[k])
    if kind == MARGIN:
        return total - move[label]
    here = beta[0] + t * move[0]
    rises = rise(kind, here, box[0, i], box[1, i], box[2, i], box[3, i])
    if box[4, i] == 0.0:
        return total - move[0] * rises
    return move[0] * steepest(total / move[0] - rises, here, box[4, i])


@njit(float64(ROW, ROW, WRITTEN, ROW, ROW), cache=True, nogil=True)
def aim(new, beta, parts, move, along):
    """Leave the way from a sample's duals to ``new`` in ``move``, and what it does to energies; its length squared."""
    size = 0.0
    for a in range(move.size):
        move[a] = new[a] - beta[a]
        size += move[a] * move[a]
    if size > 0.0:
        for k in range(along.size):
            along[k] = 0.0
            for a in range(move.size):
                along[k] += move[a] * parts[k, a]
    return size


@njit(float64(ROW, ROW, WRITTEN, ROW), cache=True, nogil=True)
def decide(weights, own, parts, f):
    """Leave the decision values of a sample in ``f``; the curvature of its duals."""
    f[:], curvature = 0.0, 1e-300
    for k in range(weights.size):
        curvature += weights[k] * own[k]
        for a in range(f.size):
            f[a] += weights[k] * parts[k, a]
    return curvature


@njit(float64(RULE, ROW, int64, TABLE, int64, int64, float64, ROW, ROW, WRITTEN, ROW, ROW, ROW, ROW, ROW, ROW, ROW),
      cache=True, nogil=True)  # fmt: skip
def choose(rule, params, kind, box, i, label, curvature, f, beta, parts, own, q, q_next, w_next, new, move, along):
    """Leave where the model of a sample's duals is least in ``new``, and the way there; its length squared.

    A way across the kink at zero ends there, unless the objective falls beyond.
    """
    if kind == MARGIN:
        row_target(f, label, box[3, i], curvature, beta, new)
        return aim(new, beta, parts, move, along)
    far = target(kind, f[0], curvature, beta[0], box[0, i], box[1, i], box[2, i], box[3, i], box[4, i])
    if box[4, i] > 0.0 and beta[0] * far < 0.0:
        new[0] = 0.0
        size = aim(new, beta, parts, move, along)
        if slope_after(rule, params, kind, box, i, label, beta, move, size, along, own, q, q_next, w_next, 1.0) >= 0.0:
            return size
    new[0] = far
    return aim(new, beta, parts, move, along)


@njit(
    float64(RULE, ROW, int64, TABLE, int64, int64, ROW, ROW, float64, ROW, ROW, ROW, ROW, ROW), cache=True, nogil=True
)
def length(rule, params, kind, box, i, label, beta, move, size, along, own, q, q_next, weights):
    """How far to go along the move, at most once, leaving the energies and weights there; 0 if it does not pay."""
    t, low, high = 1.0, 0.0, 1.0
    first = slope_after(rule, params, kind, box, i, label, beta, move, size, along, own, q, q_next, weights, 0.0)
    if not first < 0.0:
        return 0.0
    last = slope_after(rule, params, kind, box, i, label, beta, move, size, along, own, q, q_next, weights, 1.0)
    for _ in range(SETTINGS.trials):
        if last <= -SETTINGS.firm * first and (last >= SETTINGS.firm * first or t == 1.0):
            break
        if last > 0.0:
            high = t
        else:
            low = t
        t = 0.5 * (low + high)
        last = slope_after(rule, params, kind, box, i, label, beta, move, size, along, own, q, q_next, weights, t)
    return t


@njit([boolean(RULE, ROW, int64, features, WORK, int64, float64, int64) for features in FEATURES],
      cache=True, nogil=True)  # fmt: skip
def climb(rule, params, kind, V, work, seed, goal, count):
    """Make up to ``count`` passes; True when one over all samples met a gap of at most ``goal``."""
    np.random.seed(seed)
    box, classes, ends, order, theta, beta, q, weights = work
    n, m, c = order.size, ends.size, theta.shape[0]
    parts, f, new, move = np.empty((m, c)), np.empty(c), np.empty(c), np.empty(c)
    own, along, q_next, w_next = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    for p in range(n):
        order[p] = p
    active = n
    for _ in range(count):
        for p in range(active - 1, 0, -1):
            other = np.random.randint(0, p + 1)
            order[p], order[other] = order[other], order[p]
        slack, kept = 0.0, 0
        for p in range(active):
            i, label = order[p], classes[order[p]]
            project(V, i, ends, theta, parts, own)
            curvature = decide(weights, own, parts, f)
            short = shortfall(kind, f, beta[i], label, box, i)
            slack += short
            size = choose(rule, params, kind, box, i, label, curvature, f, beta[i], parts, own, q, q_next, w_next,
                          new, move, along)  # fmt: skip
            if size > 0.0 or short * n > SETTINGS.settled * goal:
                order[kept] = i
                kept += 1
            if size == 0.0:
                continue
            t = length(rule, params, kind, box, i, label, beta[i], move, size, along, own, q, q_next, w_next)
            if t == 0.0:
                continue
            for k in range(m):
                q[k], weights[k] = q_next[k], w_next[k]
            for a in range(c):
                move[a] *= t
                beta[i, a] = new[a] if t == 1.0 else beta[i, a] + move[a]
            add_row(V, i, move, theta)
        if slack > goal:
            active = kept if kept > 0 else n
        elif active == n:
            return True
        else:
            active = n
        if active == n:
            for p in range(n):
                order[p] = p
    return False
