"""Greedy dual coordinate ascent on a quadratic model, one dual, two, or one sample's row of duals at a time."""

from __future__ import annotations

import numpy as np
from numba import boolean, float64, int64, njit

from .duals import ENTROPY, bend, ease, rise, row_target, steepest, target

ROW, INDEX, TABLE = float64[::1], int64[::1], float64[:, ::1]
FAST = {"contract", "reassoc"}
TRIALS = 180  # halvings or Newton steps in the search for one number
NEARLY = 0.25  # share of the most a row has to gain from which others are visited before looking again
DUST = 1e-13  # share of the cost that counts as no room to move
FLAT = 1e-12  # least curvature, as a share of the largest: below it a step goes as far as it may


@njit(int64(int64, TABLE, ROW, ROW, ROW, ROW, ROW, ROW, ROW, float64, int64), cache=True, nogil=True, fastmath=FAST)
def singles(kind, H, gradient, beta, linear, ridge, lower, upper, kink, least, budget):
    """Move one dual at a time until no move is worth ``least``; ``gradient`` is that of the quadratic part."""
    n = beta.size
    idle, moves, flat = np.zeros(n, dtype=np.bool_), n, 1e-300
    up, own = np.empty(n), np.empty(n)  # of each dual, its slope; and its curvature, as of some moves ago
    for i in range(n):
        flat = max(flat, FLAT * H[i, i])
        up[i] = rise(kind, beta[i], linear[i], ridge[i], lower[i], upper[i])
    for step in range(budget):
        best, worth, fall = -1, least, 0.0
        if moves < n:
            for i in range(n):
                slope = steepest(gradient[i] - up[i], beta[i], kink[i])
                t = min(max(-slope / own[i], lower[i] - beta[i]), upper[i] - beta[i])
                gain = -t * (slope + 0.5 * own[i] * t)
                if gain > worth and not idle[i]:
                    best, worth, fall = i, gain, slope
        if best < 0:
            if moves == 0:
                return step
            for i in range(n):
                own[i] = max(H[i, i], flat) + ease(kind, gradient[i], beta[i], ridge[i], lower[i], upper[i])
            idle[:] = False
            moves = 0
            continue
        i = best
        new = target(kind, gradient[i], max(H[i, i], flat), beta[i], linear[i], ridge[i], lower[i], upper[i],
                     kink[i])
        t = new - beta[i]
        if -0.5 * t * fall <= least:
            idle[i] = True
            continue
        beta[i] = new
        up[i] = rise(kind, new, linear[i], ridge[i], lower[i], upper[i])
        moves += 1
        for j in range(n):
            gradient[j] += t * H[i, j]
    return budget


@njit(float64(TABLE, ROW, ROW, ROW, ROW, int64, int64), cache=True, nogil=True)
def opposite(H, gradient, beta, lower, upper, up, down):
    """How far ``up`` rises and ``down`` falls to the least of the model."""
    curvature = max(H[up, up] + H[down, down] - 2.0 * H[up, down], 0.0)
    low, high = 0.0, min(upper[up] - beta[up], beta[down] - lower[down])
    t = 0.0
    for trial in range(TRIALS):
        a, b = beta[up] + t, beta[down] - t
        value = gradient[up] - gradient[down] + t * curvature
        value += rise(ENTROPY, b, 0.0, 0.0, lower[down], upper[down]) - rise(ENTROPY, a, 0.0, 0.0, lower[up], upper[up])
        if value > 0.0:
            high = t
        else:
            low = t
        steep = curvature + bend(ENTROPY, a, 0.0, lower[up], upper[up])
        steep += bend(ENTROPY, b, 0.0, lower[down], upper[down])
        new = t - value / steep
        new = new if low < new < high and trial % 3 < 2 else 0.5 * (low + high)
        if abs(new - t) <= 1e-15 * high:
            break
        t = new
    return t


@njit(int64(TABLE, ROW, ROW, ROW, ROW, float64, int64), cache=True, nogil=True, fastmath=FAST)
def pairs(H, gradient, beta, lower, upper, least, budget):
    """Move two duals of the entropy by opposite amounts, so that their sum stays, until no move is worth ``least``."""
    n = beta.size
    slope, up, own = np.empty(n), np.empty(n), np.empty(n)
    idle, moves = np.zeros(n, dtype=np.bool_), 1
    for i in range(n):
        up[i] = rise(ENTROPY, beta[i], 0.0, 0.0, lower[i], upper[i])
        own[i] = H[i, i] + ease(ENTROPY, gradient[i], beta[i], 0.0, lower[i], upper[i])
    for step in range(budget):
        level, total = 0.0, 0.0
        for i in range(n):
            slope[i] = gradient[i] - up[i]
            level += slope[i] / own[i]
            total += 1.0 / own[i]
        level /= total
        first, worth = -1, least
        for i in range(n):
            gain = 0.5 * (slope[i] - level) ** 2 / own[i]
            if gain > worth and not idle[i]:
                first, worth = i, gain
        if first < 0:
            if moves == 0:
                return step
            for i in range(n):
                own[i] = H[i, i] + ease(ENTROPY, gradient[i], beta[i], 0.0, lower[i], upper[i])
            idle[:] = False
            moves = 0
            continue
        side = 1.0 if slope[first] > level else -1.0
        other, worth = -1, 0.0
        for j in range(n):
            apart = side * (slope[first] - slope[j])
            if apart > 0.0:
                gain = apart * apart / max(own[first] + own[j] - 2.0 * H[first, j], FLAT * own[first])
                if gain > worth:
                    other, worth = j, gain
        if other < 0:
            idle[first] = True
            continue
        rises, falls = (other, first) if side > 0.0 else (first, other)
        t = opposite(H, gradient, beta, lower, upper, rises, falls)
        if 0.5 * t * (slope[falls] - slope[rises]) <= 0.1 * least:
            idle[first] = True
            continue
        beta[rises] += t
        beta[falls] -= t
        for i in (rises, falls):
            up[i] = rise(ENTROPY, beta[i], 0.0, 0.0, lower[i], upper[i])
            own[i] = H[i, i] + ease(ENTROPY, gradient[i], beta[i], 0.0, lower[i], upper[i])
        moves += 1
        for j in range(n):
            gradient[j] += t * (H[rises, j] - H[falls, j])
    return budget


@njit(float64(TABLE, float64[:, :, ::1], ROW, ROW), cache=True, nogil=True, fastmath=FAST)
def refresh(gradient, g, pull, seen):
    """Bring what ``pull`` adds to the gradient up to date."""
    n, c = gradient.shape
    for b in range(pull.size):
        change = pull[b] - seen[b]
        if change != 0.0:
            for i in range(n):
                for k in range(c):
                    gradient[i, k] += g[i, b, k] * change
        seen[b] = pull[b]
    return 0.0


@njit(float64(TABLE, TABLE, INDEX, ROW, TABLE, float64, ROW, boolean[::1]), cache=True, nogil=True)
def look(gradient, beta, y, C, K, flat, gains, idle):
    """Leave in ``gains`` about four times what each row has to gain; the most of those not idle."""
    n, c = beta.shape
    worth = 0.0
    for i in range(n):
        own, cost = y[i], C[i]
        highest, lowest = -np.inf, np.inf
        for k in range(c):
            slope = gradient[i, k] - (1.0 if k == own else 0.0)
            highest = max(highest, slope)
            if slope < lowest and (cost if k == own else 0.0) - beta[i, k] > DUST * cost:
                lowest = slope
        gains[i] = max(highest - lowest, 0.0) ** 2 / max(K[i, i], flat)
        if not idle[i]:
            worth = max(worth, gains[i])
    return worth


@njit(int64(TABLE, TABLE, TABLE, INDEX, ROW, float64[:, :, ::1], TABLE, float64, int64),
      cache=True, nogil=True, fastmath=FAST)  # fmt: skip
def rows(K, gradient, beta, y, C, g, J, least, budget):
    """Move one sample's row of duals at a time until no move is worth ``least``.

    The model is ``<gradient, move> + <move, K move> / 2 + s'J s / 2`` with ``s_k = <g_k, move>``. What J adds to the
    gradient is exact for the row at hand, and brought up to date for the choice of rows now and then.
    """
    (n, c), a = beta.shape, J.shape[0]
    pull, seen, s = np.zeros(a), np.zeros(a), np.empty(a)
    here, new, move = np.empty(c), np.empty(c), np.empty(c)
    idle, moves, p = np.zeros(n, dtype=np.bool_), n, n
    gains, flat = np.zeros(n), 1e-300
    for i in range(n):
        flat = max(flat, FLAT * K[i, i])
    worth = 0.0
    for step in range(budget):
        while p < n and (idle[p] or gains[p] < max(4.0 * least, NEARLY * worth)):
            p += 1
        if p == n:  # those that had most to gain have been visited: look again
            worth = look(gradient, beta, y, C, K, flat, gains, idle)
            if worth <= 4.0 * least or moves >= n:
                if moves == 0:
                    return step
                refresh(gradient, g, pull, seen)
                idle[:] = False
                moves = 0
            else:
                p = 0
            continue
        i, curvature = p, max(K[p, p], flat)
        p += 1
        for k in range(c):
            here[k] = gradient[i, k]
        for b in range(a):
            for k in range(c):
                here[k] += g[i, b, k] * (pull[b] - seen[b])
        if row_target(here, y[i], C[i], curvature, beta[i], new) <= least:
            idle[i] = True
            continue
        slope, square = 0.0, 0.0
        for k in range(c):
            move[k] = new[k] - beta[i, k]
            slope += move[k] * (here[k] - here[y[i]] + 1.0 if k != y[i] else 0.0)
            square += move[k] * move[k]
        square *= curvature
        for b in range(a):
            s[b] = 0.0
            for k in range(c):
                s[b] += g[i, b, k] * move[k]
        for b in range(a):
            for d in range(a):
                square += s[b] * J[b, d] * s[d]
        t = min(1.0, -slope / square) if square > 0.0 else 1.0
        for k in range(c):
            if move[k] != 0.0:
                by = t * move[k]
                beta[i, k] = new[k] if t == 1.0 else beta[i, k] + by
                for j in range(n):
                    gradient[j, k] += by * K[i, j]
        for b in range(a):
            for d in range(a):
                pull[b] += t * J[b, d] * s[d]
        moves += 1
    return budget
