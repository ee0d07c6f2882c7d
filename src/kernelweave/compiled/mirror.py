"""Stochastic mirror descent: passes over the samples, each met once, with all kernels' weights moving along."""

from __future__ import annotations

import numpy as np
from numba import boolean, float32, float64, int64, njit, types

from .duals import ROW, TABLE, response
from .rules import RULE

INDEX = int64[::1]
REALS = (float32, float64)
STACKS = [(types.Array(kind, 3, "C", readonly=True), kind[:, :, ::1]) for kind in REALS]
FEATURES = [types.Array(kind, 2, "C", readonly=True) for kind in REALS]
FAST = {"contract", "reassoc"}


@njit(types.void(RULE, ROW, float64[:, ::1], ROW, float64, ROW, ROW, ROW), cache=True, nogil=True)
def answer(rule, params, parts, norms, ratio, q, weights, f):
    """Leave the weights after ``norms`` in ``weights``, and in ``f`` what they make of ``parts`` (m, c) of a sample."""
    for k in range(norms.size):
        q[k] = ratio * ratio * max(norms[k], 0.0)
    rule(params, q, weights)
    f[:] = 0.0
    if ratio == 0.0:
        return
    for k in range(norms.size):
        if weights[k] > 0.0:
            for c in range(f.size):
                f[c] += ratio * weights[k] * parts[k, c]


@njit(boolean(float64[:, ::1], ROW, ROW, ROW), cache=True, nogil=True)
def lengthen(parts, own, move, norms):
    """Add to ``norms`` what a move of the sample with these parts and kernel entries does; whether there is any."""
    size = 0.0
    for c in range(move.size):
        size += move[c] * move[c]
    if size == 0.0:
        return False
    for k in range(norms.size):
        along = 0.0
        for c in range(move.size):
            along += move[c] * parts[k, c]
        norms[k] += 2.0 * along + size * own[k]
    return True


@njit([types.void(sums, TABLE, int64, float64[:, ::1]) for _, sums in STACKS], cache=True, nogil=True)
def gather(sums, scale, i, parts):
    """Leave the kernels' outputs at sample i in ``parts``."""
    for k in range(parts.shape[0]):
        for c in range(parts.shape[1]):
            parts[k, c] = sums[c, i, k] * scale[0, k]


@njit([types.void(columns, int64, ROW, sums) for columns, sums in STACKS], cache=True, nogil=True, fastmath=FAST)
def add_column(stack, i, move, sums):
    """Add the column of sample i to the sums of every class that moves; each entry is fetched once."""
    n, m = stack.shape[1], stack.shape[2]
    for j in range(n):
        source = stack[i, j]
        for c in range(move.size):
            if move[c] != 0.0:
                step, target = move[c], sums[c, j]
                for k in range(m):
                    target[k] += step * source[k]


@njit([types.void(RULE, ROW, int64, TABLE, INDEX, columns, TABLE, INDEX, sums, ROW, float64[:, ::1], int64, float64)
       for columns, sums in STACKS], cache=True, nogil=True)  # fmt: skip
def epoch_on_kernels(rule, params, kind, box, classes, stack, scale, order, sums, norms, beta, done, total):
    """Visit the samples in ``order``, of ``total``; ``sums`` (c, n, m), ``norms`` and ``beta`` follow."""
    m, c = sums.shape[2], sums.shape[0]
    q, weights, own = np.empty(m), np.empty(m), np.empty(m)
    parts, f, move = np.empty((m, c)), np.empty(c), np.empty(c)
    for s in range(order.size):
        i, t = order[s], done + s
        gather(sums, scale, i, parts)
        answer(rule, params, parts, norms, total / t if t > 0 else 0.0, q, weights, f)
        response(kind, f, classes[i], box, i, move)
        for k in range(m):
            own[k] = stack[i, i, k] * scale[0, k]
        if lengthen(parts, own, move, norms):
            add_column(stack, i, move, sums)
            for a in range(c):
                beta[i, a] += move[a]


@njit([types.void(features, int64, INDEX, float64[:, ::1], float64[:, ::1], ROW) for features in FEATURES],
      cache=True, nogil=True, fastmath=FAST)  # fmt: skip
def project(V, i, ends, theta, parts, own):
    """Leave each kernel's outputs at sample i, and its entry of sample i, in ``parts`` and ``own``."""
    start = 0
    for k in range(ends.size):
        row, total = V[i, start : ends[k]], 0.0
        for j in range(row.size):
            total += float64(row[j]) * row[j]
        own[k] = total
        for c in range(theta.shape[0]):
            part, total = theta[c, start : ends[k]], 0.0
            for j in range(row.size):
                total += row[j] * part[j]
            parts[k, c] = total
        start = ends[k]


@njit([types.void(features, int64, ROW, float64[:, ::1]) for features in FEATURES],
      cache=True, nogil=True, fastmath=FAST)  # fmt: skip
def add_row(V, i, move, theta):
    """Add a sample's features times each entry of its move to ``theta`` (c, D)."""
    for c in range(move.size):
        step = move[c]
        if step != 0.0:
            target = theta[c]
            for j in range(target.size):
                target[j] += step * V[i, j]


@njit([types.void(RULE, ROW, int64, TABLE, INDEX, features, INDEX, INDEX, float64[:, ::1], ROW, float64[:, ::1], int64,
                  float64) for features in FEATURES], cache=True, nogil=True)  # fmt: skip
def epoch_on_features(rule, params, kind, box, classes, V, ends, order, theta, norms, beta, done, total):
    """Visit the samples in ``order``, of ``total``; ``theta`` (c, D), ``norms`` and ``beta`` follow."""
    m, c = ends.size, theta.shape[0]
    q, weights, own = np.empty(m), np.empty(m), np.empty(m)
    parts, f, move = np.empty((m, c)), np.empty(c), np.empty(c)
    for s in range(order.size):
        i, t = order[s], done + s
        project(V, i, ends, theta, parts, own)
        answer(rule, params, parts, norms, total / t if t > 0 else 0.0, q, weights, f)
        response(kind, f, classes[i], box, i, move)
        if lengthen(parts, own, move, norms):
            add_row(V, i, move, theta)
            for a in range(c):
                beta[i, a] += move[a]
