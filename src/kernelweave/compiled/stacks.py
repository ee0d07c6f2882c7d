"""Products with a stored stack, samples first; accumulation in float64 whatever the storage."""

from __future__ import annotations

import numpy as np
from numba import float32, float64, int64, njit

CHUNK = 4096  # doubles of the output kept in the first-level cache while columns stream by


@njit([float64[::1](float32[:, :, ::1], float64[::1], int64[::1]),
       float64[::1](float64[:, :, ::1], float64[::1], int64[::1])], cache=True, nogil=True, fastmath={"contract", "reassoc"})  # fmt: skip
def quad(stack, beta, support):
    m = stack.shape[2]
    q = np.zeros(m)
    row = np.empty(m)
    for a in range(support.size):
        i = support[a]
        row[:] = 0.5 * beta[i] * stack[i, i]
        for b in range(a):
            j = support[b]
            weight = beta[j]
            for k in range(m):
                row[k] += weight * stack[i, j, k]
        for k in range(m):
            q[k] += 2.0 * beta[i] * row[k]
    return q


@njit([float64[::1](float32[:, :, ::1], float64[::1], int64[::1], float64[::1], int64[::1]),
       float64[::1](float64[:, :, ::1], float64[::1], int64[::1], float64[::1], int64[::1])], cache=True, nogil=True, fastmath={"contract", "reassoc"})  # fmt: skip
def matvec(stack, beta, support, weights, active):
    n, m = stack.shape[0], stack.shape[2]
    f = np.zeros(n)
    whole = 2 * active.size > m
    for i in support:
        for j in range(n):
            total = 0.0
            if whole:
                for k in range(m):
                    total += weights[k] * stack[i, j, k]
            else:
                for k in active:
                    total += weights[k] * stack[i, j, k]
            f[j] += beta[i] * total
    return f


@njit([float64[::1](float32[:, ::1], float64[::1], int64[::1]),
       float64[::1](float64[:, ::1], float64[::1], int64[::1])], cache=True, nogil=True, fastmath={"contract", "reassoc"})  # fmt: skip
def spread(flat, delta, index):
    size = flat.shape[1]
    out = np.zeros(size)
    for start in range(0, size, CHUNK):
        stop = min(start + CHUNK, size)
        a = 0
        while a + 4 <= index.size:
            d0, d1, d2, d3 = delta[a], delta[a + 1], delta[a + 2], delta[a + 3]
            r0, r1, r2, r3 = flat[index[a]], flat[index[a + 1]], flat[index[a + 2]], flat[index[a + 3]]
            for c in range(start, stop):
                out[c] += d0 * r0[c] + d1 * r1[c] + d2 * r2[c] + d3 * r3[c]
            a += 4
        while a < index.size:
            row, d = flat[index[a]], delta[a]
            for c in range(start, stop):
                out[c] += d * row[c]
            a += 1
    return out


@njit([float64[:, ::1](float32[:, :, ::1], int64[::1], float64[::1], int64[::1]),
       float64[:, ::1](float64[:, :, ::1], int64[::1], float64[::1], int64[::1])], cache=True, nogil=True, fastmath={"contract", "reassoc"})  # fmt: skip
def combine(stack, index, weights, active):
    """Weighted sum of kernels between chosen samples; the lower triangle is read, the upper copied from it."""
    b, m = index.size, weights.size
    out = np.empty((b, b))
    whole = 3 * active.size > m
    for r in range(b):
        row = stack[index[r]]
        for c in range(r + 1):
            entry = row[index[c]]
            total = 0.0
            if whole:
                for k in range(m):
                    total += weights[k] * entry[k]
            else:
                for k in active:
                    total += weights[k] * entry[k]
            out[r, c] = total
    for r in range(b):
        for c in range(r):
            out[c, r] = out[r, c]
    return out


@njit([float64[:, ::1](float32[:, :, ::1], float64[::1], int64[::1], int64[::1], int64[::1]),
       float64[:, ::1](float64[:, :, ::1], float64[::1], int64[::1], int64[::1], int64[::1])], cache=True, nogil=True, fastmath={"contract", "reassoc"})  # fmt: skip
def spread_part(stack, delta, index, rows, kernels):
    """Columns ``index`` times ``delta``, at some rows and for some kernels only."""
    a = kernels.size
    out = np.zeros((rows.size, a))
    whole = a == stack.shape[2]
    for s in range(index.size):
        weight, column = delta[s], stack[index[s]]
        for r in range(rows.size):
            entry, target = column[rows[r]], out[r]
            if whole:
                for k in range(a):
                    target[k] += weight * entry[k]
            else:
                for k in range(a):
                    target[k] += weight * entry[kernels[k]]
    return out


@njit([float64[:, :, ::1](float32[:, :, ::1], int64[::1], int64[::1], float64[::1]),
       float64[:, :, ::1](float64[:, :, ::1], int64[::1], int64[::1], float64[::1])], cache=True, nogil=True)  # fmt: skip
def block(stack, index, kernels, scale):
    b, a = index.size, kernels.size
    out = np.empty((b, a, b))
    for r in range(b):
        for c in range(b):
            for k in range(a):
                out[r, k, c] = stack[index[r], index[c], kernels[k]] * scale[kernels[k]]
    return out
