"""The universal sequential minimal optimisation engine, on one working set of samples."""

from __future__ import annotations

import numpy as np
from numba import float64, int64, njit, types

from .rules import RULE

EVALUATIONS = 60  # of the slope in one line search
FIRM = 0.01  # a line search ends when the slope has fallen to this share
REFRESH = 16  # steps between refreshes of the weighted diagonal


@njit(float64(RULE, float64[::1], float64[::1], float64[::1], float64[::1], float64[::1], float64[::1],
              float64, float64, float64), cache=True, nogil=True)  # fmt: skip
def slope_at(rule, params, q, b, c, moved, w, t, linear, ridge):
    """Slope of the objective at step t; leaves q(t) in ``moved`` and its weights in ``w``."""
    for k in range(q.size):
        moved[k] = max(q[k] + t * (2.0 * b[k] + t * c[k]), 0.0)
    rule(params, moved, w)
    total = linear + t * ridge
    for k in range(q.size):
        total += w[k] * (b[k] + t * c[k])
    return total


@njit(float64(RULE, float64[::1], float64[::1], float64[::1], float64[::1], float64[::1], float64[::1],
              float64, float64, float64, float64, float64, float64), cache=True, nogil=True)  # fmt: skip
def line_search(rule, params, q, b, c, moved, w, linear, ridge, slope, curvature, limit, firm):
    """Step in (0, limit] where the slope vanishes, or the limit where it is still downhill."""
    first = -slope / curvature if curvature > 0.0 else limit
    if first >= limit:
        if slope_at(rule, params, q, b, c, moved, w, limit, linear, ridge) <= 0.0:
            return limit
        first = 0.5 * limit
    target = firm * -slope
    low, high, slope_low, slope_high, t = 0.0, limit, slope, np.inf, first
    side = 0
    for trial in range(EVALUATIONS):
        at = slope_at(rule, params, q, b, c, moved, w, t, linear, ridge)
        if abs(at) <= target:
            return t
        if at < 0.0:
            low, slope_low = t, at
            if side == -1:
                slope_high *= 0.5
            side = -1
        else:
            high, slope_high = t, at
            if side == 1:
                slope_low *= 0.5
            side = 1
        if np.isinf(slope_high):
            t = min(2.0 * t, limit)
            if t == low:
                return low
        elif trial % 4 == 3:
            t = 0.5 * (low + high)
        else:
            t = (low * slope_high - high * slope_low) / (slope_high - slope_low)
        if not low < t < high and not np.isinf(slope_high):
            t = 0.5 * (low + high)
    return low


@njit(types.Tuple((int64, float64))(
    RULE, float64[::1], float64[:, :, ::1], float64[:, ::1], float64[::1], float64[::1],
    float64[::1], float64[::1], float64[::1], float64[::1], float64[::1], float64, int64), cache=True, nogil=True,
    fastmath={"contract", "reassoc"})  # fmt: skip
def smo(rule, params, kernel, g, q, beta, linear, ridge, lower, upper, kink, eps, budget):
    """Move ``beta`` (and with it ``g`` (m, n) and ``q``) to a violation below ``2 eps``; steps and violation.

    A step ends at the latest where a dual passes zero, if it has a kink there.
    """
    m, n = g.shape
    w, moved, b, c = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    gradient, diagonal, row = np.empty(n), np.empty(n), np.empty(n)
    violation = 0.0
    for step in range(budget):
        rule(params, q, w)
        for i in range(n):
            gradient[i] = ridge[i] * beta[i] - linear[i]
        for k in range(m):
            if w[k] > 0.0:
                for i in range(n):
                    gradient[i] += w[k] * g[k, i]
        if step % REFRESH == 0:
            diagonal[:] = 0.0
            for k in range(m):
                if w[k] > 0.0:
                    for i in range(n):
                        diagonal[i] += w[k] * kernel[i, k, i]
        up, best, worst = -1, np.inf, -np.inf
        for i in range(n):
            rising = gradient[i] + (kink[i] if beta[i] >= 0.0 else -kink[i])
            if beta[i] < upper[i] and rising < best:
                up, best = i, rising
            falling = gradient[i] + (kink[i] if beta[i] > 0.0 else -kink[i])
            if beta[i] > lower[i] and falling > worst:
                worst = falling
        violation = worst - best
        if up < 0 or violation <= 2.0 * eps:
            return step, violation
        row[:] = 0.0
        for k in range(m):
            if w[k] > 0.0:
                for i in range(n):
                    row[i] += w[k] * kernel[up, k, i]
        down, gain, steep = -1, 0.0, 0.0
        for i in range(n):
            falling = gradient[i] + (kink[i] if beta[i] > 0.0 else -kink[i])
            if beta[i] > lower[i] and falling > best:
                bend = diagonal[up] + diagonal[i] - 2.0 * row[i] + ridge[up] + ridge[i]
                merit = (falling - best) ** 2 / max(bend, 1e-12)
                if merit > gain:
                    down, gain, steep = i, merit, falling
        if down < 0:
            return step, violation
        curvature = ridge[up] + ridge[down]
        for k in range(m):
            b[k] = g[k, up] - g[k, down]
            c[k] = max(kernel[up, k, up] + kernel[down, k, down] - 2.0 * kernel[up, k, down], 0.0)
            curvature += w[k] * c[k]
        flat = ridge[up] * beta[up] - ridge[down] * beta[down] - linear[up] + linear[down]
        flat += (kink[up] if beta[up] >= 0.0 else -kink[up]) - (kink[down] if beta[down] > 0.0 else -kink[down])
        top = 0.0 if beta[up] < 0.0 and kink[up] > 0.0 else upper[up]
        bottom = 0.0 if beta[down] > 0.0 and kink[down] > 0.0 else lower[down]
        room_up, room_down = top - beta[up], beta[down] - bottom
        t = line_search(rule, params, q, b, c, moved, w, flat, ridge[up] + ridge[down],
                        best - steep, curvature, min(room_up, room_down), FIRM)  # fmt: skip
        if t <= 0.0:
            return step, violation
        beta[up] = top if t == room_up else beta[up] + t
        beta[down] = bottom if t == room_down else beta[down] - t
        for k in range(m):
            q[k] = max(q[k] + t * (2.0 * b[k] + t * c[k]), 0.0)
            for i in range(n):
                g[k, i] += t * (kernel[up, k, i] - kernel[down, k, i])
    return budget, violation
