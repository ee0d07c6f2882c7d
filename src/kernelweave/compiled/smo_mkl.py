"""Sequential minimal optimisation of the dual of the squared p-norm, as published in 2010, on a stored stack."""

from __future__ import annotations

import numpy as np
from numba import njit

from .rules import squared_lp
from .stacks import FAST

NEWTON = 60  # most steps of a line search
FIRM = 0.01  # a line search ends when the slope has fallen to this share
FAINT = 1e-12  # share of the largest energy below which a kernel's own curvature is not followed


@njit(**FAST)
def bends(params, q, w, own):
    """Leave in ``own``, and return as joint, what change of the weights adds to the second derivative of the penalty.

    Where ``q / 2`` has slopes b, that is ``sum_k own_k b_k^2 + joint (w'b)^2``.
    """
    p = params[0]
    top, energy = 0.0, 0.0
    for k in range(q.size):
        top = max(top, q[k])
        energy += w[k] * q[k]
    if energy <= 0.0:
        own[:] = 0.0
        return 0.0
    for k in range(q.size):
        own[k] = 2.0 / (p - 1.0) * w[k] / max(q[k], FAINT * top)
    return 2.0 * (p - 2.0) / ((p - 1.0) * energy)


@njit(**FAST)
def newton(params, q, b, c, moved, w, own, linear, ridge, limit):
    """Step in (0, limit] where the slope of the objective vanishes, or the limit where it is still downhill."""
    low, high, t, target, beyond = 0.0, limit, 0.0, 0.0, False
    for trial in range(NEWTON):
        for k in range(q.size):
            moved[k] = max(q[k] + t * (2.0 * b[k] + t * c[k]), 0.0)
        squared_lp(params, moved, w)
        joint = bends(params, moved, w, own)
        slope, bend, along = linear + t * ridge, ridge, 0.0
        for k in range(q.size):
            e = b[k] + t * c[k]
            slope += w[k] * e
            bend += w[k] * c[k] + own[k] * e * e
            along += w[k] * e
        bend += joint * along * along
        if trial == 0:
            target = FIRM * -slope
        if abs(slope) <= target or (t == limit and slope < 0.0):
            return t
        if slope < 0.0:
            low = t
        else:
            high, beyond = t, True
        t = t - slope / bend if bend > 0.0 else np.inf
        if not low < t < high:
            if beyond:
                t = 0.5 * (low + high)
            else:
                t = limit if np.isfinite(limit) else 2.0 * low + 1.0
    return low


@njit(**FAST)
def smo_mkl(params, stack, scale, diagonal, g, q, beta, linear, ridge, lower, upper, eps, budget):
    """Move ``beta`` (and with it ``g`` (n, m) and ``q``) to a violation below ``2 eps``; steps and violation."""
    n, m = g.shape
    w, own, moved, b, c = np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    gradient, violation = np.empty(n), 0.0
    for step in range(budget):
        squared_lp(params, q, w)
        up, best, worst = -1, np.inf, -np.inf
        for i in range(n):
            total = ridge[i] * beta[i] - linear[i]
            for k in range(m):
                total += w[k] * g[i, k]
            gradient[i] = total
            if beta[i] < upper[i] and total < best:
                up, best = i, total
            if beta[i] > lower[i] and total > worst:
                worst = total
        violation = worst - best
        if up < 0 or violation <= 2.0 * eps:
            return step, violation
        joint = bends(params, q, w, own)
        down, gain = -1, 0.0
        for i in range(n):
            if beta[i] > lower[i] and gradient[i] > best:
                bend, along = ridge[up] + ridge[i], 0.0
                for k in range(m):
                    e = g[up, k] - g[i, k]
                    bend += w[k] * (diagonal[up, k] + diagonal[i, k] - 2.0 * scale[k] * stack[up, i, k])
                    bend += own[k] * e * e
                    along += w[k] * e
                merit = (gradient[i] - best) ** 2 / max(bend + joint * along * along, 1e-12)
                if merit > gain:
                    down, gain = i, merit
        if down < 0:
            return step, violation
        for k in range(m):
            b[k] = g[up, k] - g[down, k]
            c[k] = max(diagonal[up, k] + diagonal[down, k] - 2.0 * scale[k] * stack[up, down, k], 0.0)
        flat = ridge[up] * beta[up] - ridge[down] * beta[down] - linear[up] + linear[down]
        limit = min(upper[up] - beta[up], beta[down] - lower[down])
        t = newton(params, q, b, c, moved, w, own, flat, ridge[up] + ridge[down], limit)
        if t <= 0.0:
            return step, violation
        beta[up] = upper[up] if t == upper[up] - beta[up] else beta[up] + t
        beta[down] = lower[down] if t == beta[down] - lower[down] else beta[down] - t
        for k in range(m):
            q[k] = max(q[k] + t * (2.0 * b[k] + t * c[k]), 0.0)
        for i in range(n):
            for k in range(m):
                g[i, k] += t * scale[k] * (stack[up, i, k] - stack[down, i, k])
    return budget, violation
