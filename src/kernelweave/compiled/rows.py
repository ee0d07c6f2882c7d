"""Dual coordinate ascent on explicit features for any loss here: one sample's dual, or row of duals, at a time."""

from __future__ import annotations

import numpy as np
from numba import boolean, float32, float64, int64, njit, types

from .ascent import rise, row_target, target
from .mirror import add_row, project
from .rules import RULE

ROW, INDEX, TABLE = float64[::1], int64[::1], float64[:, ::1]
FEATURES = [types.Array(kind, 2, "C", readonly=True) for kind in (float32, float64)]
BOX, ENTROPY, MARGIN = 0, 1, 2  # kinds of duals: a quadratic on a box, the entropy on one, the joint margin
FIRM = 0.25  # a step is too long if the slope after it is this share of the slope before, with the other sign,
TRIALS = 30  # and is shortened this often at most
SETTLED = 1e-2  # share of its part of the goal below which a sample that did not move is put aside


@njit(float64(int64, ROW, ROW, TABLE, ROW, int64), cache=True, nogil=True)
def shortfall(kind, f, beta, box, y, i):
    """One sample's part of the duality gap: ``L(f) - D(beta) + beta f``; ``box`` holds linear, ridge and bounds."""
    if kind == MARGIN:
        own, worst, along = int(y[i]), 0.0, 0.0
        for k in range(f.size):
            worst = max(worst, f[k] - f[own] + (0.0 if k == own else 1.0))
            along += beta[k] * f[k]
        return box[3, i] * worst - beta[own] + along
    linear, ridge, lower, upper = box[0, i], box[1, i], box[2, i], box[3, i]
    b, value = beta[0], f[0]
    if kind == ENTROPY:
        cost = upper - lower
        entropy = 0.0
        for part in ((b - lower) / cost, (upper - b) / cost):
            if part > 0.0:
                entropy -= part * np.log(part)
        loss = max(value if upper == 0.0 else -value, 0.0) + np.log1p(np.exp(-abs(value)))
        return cost * (loss - entropy) + b * value
    if ridge > 0.0:
        best = min(max((linear - value) / ridge, lower), upper)
    else:
        best = upper if linear > value else lower
    return (linear - value) * best - 0.5 * ridge * best * best - (linear - value) * b + 0.5 * ridge * b * b


@njit(float64(RULE, ROW, int64, TABLE, ROW, int64, ROW, ROW, float64, ROW, ROW, ROW, ROW, ROW, float64),
      cache=True, nogil=True)  # fmt: skip
def slope_after(rule, params, kind, box, y, i, beta, move, size, along, own, q, q_next, weights, t):
    """Slope of the objective after a step t along a move; leaves the energies and weights there."""
    for k in range(q.size):
        q_next[k] = max(q[k] + t * (2.0 * along[k] + t * size * own[k]), 0.0)
    rule(params, q_next, weights)
    total = 0.0
    for k in range(q.size):
        total += weights[k] * (along[k] + t * size * own[k])
    if kind == MARGIN:
        return total - move[int(y[i])]
    return total - move[0] * rise(kind == ENTROPY, beta[0] + t * move[0], box[0, i], box[1, i], box[2, i], box[3, i])


@njit([boolean(RULE, ROW, int64, features, INDEX, ROW, TABLE, INDEX, int64, TABLE, TABLE, ROW, ROW, float64, int64)
       for features in FEATURES], cache=True, nogil=True)  # fmt: skip
def climb(rule, params, kind, V, ends, y, box, order, seed, theta, beta, q, weights, goal, count):
    """Make up to ``count`` passes; True when one over all samples met a gap of at most ``goal``."""
    np.random.seed(seed)
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
            i = order[p]
            project(V, i, ends, theta, parts, own)
            f[:], curvature = 0.0, 1e-300
            for k in range(m):
                curvature += weights[k] * own[k]
                for a in range(c):
                    f[a] += weights[k] * parts[k, a]
            short = shortfall(kind, f, beta[i], box, y, i)
            slack += short
            if kind == MARGIN:
                row_target(f, int(y[i]), box[3, i], curvature, beta[i], new)
            else:
                linear, ridge, lower, upper = box[0, i], box[1, i], box[2, i], box[3, i]
                new[0] = target(kind == ENTROPY, f[0], curvature, beta[i, 0], linear, ridge, lower, upper)
            size = 0.0
            for a in range(c):
                move[a] = new[a] - beta[i, a]
                size += move[a] * move[a]
            if size == 0.0:
                if short * n > SETTLED * goal:
                    order[kept] = i
                    kept += 1
                continue
            order[kept] = i
            kept += 1
            for k in range(m):
                along[k] = 0.0
                for a in range(c):
                    along[k] += move[a] * parts[k, a]
            t, low, high = 1.0, 0.0, 1.0
            first = slope_after(rule, params, kind, box, y, i, beta[i], move, size, along, own, q, q_next, w_next, 0.0)
            last = slope_after(rule, params, kind, box, y, i, beta[i], move, size, along, own, q, q_next, w_next, 1.0)
            for _ in range(TRIALS):
                if last <= -FIRM * first and (last >= FIRM * first or (high == 1.0 and t == 1.0)):
                    break
                if last > 0.0:
                    high = t
                else:
                    low = t
                t = 0.5 * (low + high)
                last = slope_after(rule, params, kind, box, y, i, beta[i], move, size, along, own, q, q_next, w_next, t)
            if not first < 0.0:
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
