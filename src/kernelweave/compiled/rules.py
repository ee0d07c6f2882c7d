"""Compiled faces of the penalties: energies q in, kernel weights out.

Every rule has one signature, so one engine, compiled once, takes any of them as an ordinary argument.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

SIGNATURE = types.void(types.float64[::1], types.float64[::1], types.float64[::1])  # (params, q, out)
RULE = types.FunctionType(SIGNATURE)


@njit(SIGNATURE, cache=True)
def fixed(params, q, out):
    for k in range(q.size):
        out[k] = params[k]


@njit(SIGNATURE, cache=True)
def lp(params, q, out):
    p = params[0]
    top = 0.0
    for k in range(q.size):
        top = max(top, q[k])
    if np.isinf(p):
        out[:] = 1.0
        return
    if top <= 0.0:
        out[:] = q.size ** (-1.0 / p)
        return
    power = 1.0 / (p - 1.0)
    total = 0.0
    for k in range(q.size):
        x = max(q[k], 0.0) / top
        raised = x if p == 2.0 else x**power
        out[k] = raised
        total += x * raised
    out /= total ** (1.0 / p)


@njit(SIGNATURE, cache=True)
def squared_lp(params, q, out):
    lp(params, q, out)
    energy = 0.0
    for k in range(q.size):
        energy += out[k] * max(q[k], 0.0)
    out *= energy / (2.0 * params[1])


@njit(SIGNATURE, cache=True)
def moreau_yosida(params, q, out):
    m = q.size
    top = 0.0
    for k in range(m):
        top = max(top, q[k])
    level = 0.0
    for _ in range(m + 1):
        weighted, total = 0.0, 1.0
        for k in range(m):
            a, d = params[k], params[m + k]
            own = np.sqrt(max(q[k], 0.0) if top > 0.0 else 1.0) / d
            if own > level:
                slope = (d / a) ** 2
                weighted += slope * own
                total += slope
        new = weighted / total
        if new <= level * (1 + 1e-15):
            break
        level = new
    for k in range(m):
        a, d = params[k], params[m + k]
        own = np.sqrt(max(q[k], 0.0) if top > 0.0 else 1.0) / d
        out[k] = (1.0 - level / own) / a**2 if own > level else 0.0


@njit(SIGNATURE, cache=True)
def elastic_net(params, q, out):
    c1, c2 = params[0], params[1]
    for k in range(q.size):
        root = np.sqrt(max(q[k], 0.0))
        out[k] = (1.0 - c1 / root) / c2 if root > c1 else 0.0


@njit(SIGNATURE, cache=True)
def mixed(params, q, out):
    alpha, s = params[0], params[1]
    top = 0.0
    for k in range(q.size):
        top = max(top, q[k])
    bare = alpha == 0.0 and top <= 0.0
    top = 1.0 if bare else np.sqrt(top) - alpha
    total = 0.0
    for k in range(q.size):
        out[k] = max((1.0 if bare else np.sqrt(max(q[k], 0.0))) - alpha, 0.0)
        if out[k] > 0.0:
            total += (out[k] / top) ** s
    if total <= 0.0:
        return
    norm = top * total ** (1.0 / s)
    for k in range(q.size):
        v = out[k]
        if v > 0.0:
            out[k] = v / (1.0 if bare else np.sqrt(q[k])) * (v / norm) ** (s - 2.0)


@njit(SIGNATURE, cache=True)
def group(params, q, out):
    s, t, count = params[0], params[1], int(params[2])
    m = q.size
    top = np.zeros(count)
    for k in range(m):
        g = int(params[3 + k])
        top[g] = max(top[g], q[k])
    shape = np.zeros(count)  # s-norm of the group scaled to maximum one
    for k in range(m):
        g = int(params[3 + k])
        out[k] = max(q[k], 0.0) / top[g] if top[g] > 0.0 else 1.0
        shape[g] += out[k] ** s
    for g in range(count):
        shape[g] = shape[g] ** (1.0 / s)
    norms = shape * top if top.max() > 0.0 else shape
    overall = norms.max() * np.sum((norms / norms.max()) ** t) ** (1.0 / t)
    for k in range(m):
        g = int(params[3 + k])
        out[k] = (norms[g] / overall) ** (t - 1.0) * (out[k] / shape[g]) ** (s - 1.0)


@njit(SIGNATURE, cache=True)
def simplex_prox(params, q, out):
    m = q.size
    tau = params[0]
    top = -np.inf
    for k in range(m):
        out[k] = params[1 + k] + 0.5 * tau * max(q[k], 0.0) / params[1 + m + k]
        top = max(top, out[k])
    out -= top
    theta = -1.0
    for _ in range(m + 1):
        total, count = -1.0, 0
        for k in range(m):
            if out[k] > theta:
                total += out[k]
                count += 1
        new = total / count
        if new <= theta:
            break
        theta = new
    for k in range(m):
        out[k] = max(out[k] - theta, 0.0) / params[1 + m + k]
