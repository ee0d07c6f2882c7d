"""Products with a stored stack, samples first; accumulation in float64 whatever the storage."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .prefetch import prefetch

# No signatures: stacks come as float32 or float64, writable or not, and each kind is compiled when first met.
FAST: Any = {"cache": True, "nogil": True, "fastmath": {"contract", "reassoc"}}
CHUNK = 32768  # doubles of the output kept in the second-level cache while columns stream by
AHEAD = 12  # samples ahead for which entries are asked for
FETCHED = 512  # bytes of one entry of all kernels up to which that pays
LINE = 64  # bytes of a cache line
TILE = 64  # rows worked on together where a kernel is turned over
QUICK: Any = {**FAST, "fastmath": {*FAST["fastmath"], "nnan", "nsz"}}  # for loops that look for the least or the most


@njit(**FAST)
def energies(stack, beta, support, first, last):
    """Part of the energies: that of support vectors from ``first`` to ``last`` with those before them."""
    m = stack.shape[2]
    q = np.zeros(m)
    row = np.empty(m)
    for a in range(first, last):
        i = support[a]
        row[:], column, b = 0.5 * beta[i] * stack[i, i], stack[i], 0
        while b + 4 <= a:
            j0, j1, j2, j3 = support[b], support[b + 1], support[b + 2], support[b + 3]
            d0, d1, d2, d3 = beta[j0], beta[j1], beta[j2], beta[j3]
            e0, e1, e2, e3 = column[j0], column[j1], column[j2], column[j3]
            for k in range(m):
                row[k] += d0 * e0[k] + d1 * e1[k] + d2 * e2[k] + d3 * e3[k]
            b += 4
        while b < a:
            weight, entry = beta[support[b]], column[support[b]]
            for k in range(m):
                row[k] += weight * entry[k]
            b += 1
        for k in range(m):
            q[k] += 2.0 * beta[i] * row[k]
    return q


@njit(**FAST)
def decision(stack, beta, support, weights, active):
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


@njit(**FAST)
def weighted_columns(flat, delta, index, first, last, out):
    """Leave in ``out`` columns ``index`` times ``delta``, from ``first`` to ``last``."""
    for start in range(first, last, CHUNK):
        stop, a = min(start + CHUNK, last), 0
        part = out[start:stop]  # indices that begin at zero are what compilers make wide loops of
        part[:] = 0.0
        while a + 4 <= index.size:
            d0, d1, d2, d3 = delta[a], delta[a + 1], delta[a + 2], delta[a + 3]
            r0, r1 = flat[index[a], start:stop], flat[index[a + 1], start:stop]
            r2, r3 = flat[index[a + 2], start:stop], flat[index[a + 3], start:stop]
            for c in range(part.size):
                part[c] += d0 * r0[c] + d1 * r1[c] + d2 * r2[c] + d3 * r3[c]
            a += 4
        while a < index.size:
            row, d = flat[index[a], start:stop], delta[a]
            for c in range(part.size):
                part[c] += d * row[c]
            a += 1


@njit(**FAST)
def mixed_columns(columns, places, weights, out):
    """Leave in ``out`` (places, n) the weighted sum over kernels of columns that hold one kernel after the other."""
    n = out.shape[1]
    for r in range(places.size):
        column, target = columns[places[r]], out[r]
        target[:] = 0.0
        for k in range(weights.size):
            weight, part = weights[k], column[k * n : (k + 1) * n]
            if weight != 0.0:
                for j in range(n):
                    target[j] += weight * part[j]


@njit(**FAST)
def energies_joint(stack, beta, support):
    """Energies of duals with a row for each sample; each entry of a kernel is read once."""
    m, c = stack.shape[2], beta.shape[1]
    q = np.zeros(m)
    for a in range(support.size):
        i = support[a]
        for b in range(a + 1):
            j = support[b]
            weight = 0.0
            for k in range(c):
                weight += beta[i, k] * beta[j, k]
            if a != b:
                weight *= 2.0
            if weight != 0.0:
                for k in range(m):
                    q[k] += weight * stack[i, j, k]
    return q


@njit(**FAST)
def decision_joint(stack, beta, support, weights, active):
    n, m, c = stack.shape[0], stack.shape[2], beta.shape[1]
    f = np.zeros((n, c))
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
            for k in range(c):
                f[j, k] += beta[i, k] * total
    return f


@njit(**FAST)
def weighted_columns_joint(stack, delta, index, rows, kernels):
    """Columns ``index`` times the rows of ``delta``, at some rows and for some kernels only, (c, rows, kernels)."""
    a, c, whole = kernels.size, delta.shape[1], kernels.size == stack.shape[2]
    out = np.zeros((c, rows.size, a))
    for r in range(rows.size):
        block = stack[rows[r]]
        for s in range(index.size):
            entry = block[index[s]]
            for p in range(c):
                weight, target = delta[s, p], out[p, r]
                if weight == 0.0:
                    continue
                if whole:
                    for k in range(a):
                        target[k] += weight * entry[k]
                else:
                    for k in range(a):
                        target[k] += weight * entry[kernels[k]]
    return out


@njit(**FAST)
def combine(stack, index, weights, active):
    """Weighted sum of kernels between chosen samples; the lower triangle is read, the upper copied from it."""
    b, m = index.size, weights.size
    out = np.empty((b, b))
    few = 3 * active.size < m
    for r in range(b):
        row = stack[index[r]]
        for c in range(r + 1):
            entry = row[index[c]]
            total = 0.0
            if few:
                for k in active:
                    total += weights[k] * entry[k]
            else:
                for k in range(m):
                    total += weights[k] * entry[k]
            out[r, c] = total
    for top in range(0, b, TILE):
        for left in range(0, top + TILE, TILE):
            for r in range(top, min(top + TILE, b)):
                for c in range(left, min(left + TILE, r)):
                    out[c, r] = out[r, c]
    return out


@njit(**FAST)
def weighted_columns_part(stack, delta, index, rows, kernels):
    """Columns ``index`` times ``delta``, at some rows and for some kernels only."""
    out = np.zeros((rows.size, kernels.size))
    add_columns(stack, delta, index, rows, kernels, out)
    return out


@njit(**FAST)
def add_columns(stack, delta, index, rows, kernels, out):
    """Add columns ``index`` times ``delta``, at some rows and for some kernels, to ``out`` (rows, kernels)."""
    a, whole = kernels.size, kernels.size == stack.shape[2]
    together = max(CHUNK // max(a, 1), 1)
    for top in range(0, rows.size, together):
        bottom = min(top + together, rows.size)
        s = 0
        while s + 4 <= index.size:
            c0, c1, c2, c3 = stack[index[s]], stack[index[s + 1]], stack[index[s + 2]], stack[index[s + 3]]
            d0, d1, d2, d3 = delta[s], delta[s + 1], delta[s + 2], delta[s + 3]
            for r in range(top, bottom):
                j, target = rows[r], out[r]
                e0, e1, e2, e3 = c0[j], c1[j], c2[j], c3[j]
                if whole:
                    for k in range(a):
                        target[k] += d0 * e0[k] + d1 * e1[k] + d2 * e2[k] + d3 * e3[k]
                else:
                    for k in range(a):
                        z = kernels[k]
                        target[k] += d0 * e0[z] + d1 * e1[z] + d2 * e2[z] + d3 * e3[z]
            s += 4
        while s < index.size:
            column, weight = stack[index[s]], delta[s]
            for r in range(top, bottom):
                entry, target = column[rows[r]], out[r]
                for k in range(a):
                    target[k] += weight * entry[kernels[k]]
            s += 1


@njit(**FAST)
def block(stack, index, kernels, scale):
    b, a = index.size, kernels.size
    out = np.empty((b, a, b))
    for r in range(b):
        for c in range(b):
            for k in range(a):
                out[r, k, c] = stack[index[r], index[c], kernels[k]] * scale[kernels[k]]
    return out


@njit(**FAST)
def cut(stack, rows, columns, out):
    """Leave in ``out`` the kernels between some samples and others."""
    size, m = stack.shape[2] * stack.itemsize, stack.shape[2]
    for r in range(rows.size):
        source, target = stack[rows[r]], out[r]
        base = source.ctypes.data
        for c in range(columns.size):
            if size <= FETCHED and c + AHEAD < columns.size:
                place = base + columns[c + AHEAD] * size
                for line in range(0, size, LINE):
                    prefetch(place + line)
            entry, copied = source[columns[c]], target[c]
            for k in range(m):
                copied[k] = entry[k]


@njit(**FAST)
def asymmetry(stack):
    """Largest ``|K_k[i, j] - K_k[j, i]|`` of each kernel, not a number where an entry is not."""
    n, m = stack.shape[0], stack.shape[2]
    worst = np.zeros(m)
    for top in range(0, n, TILE):
        for left in range(0, top + TILE, TILE):
            for i in range(top, min(top + TILE, n)):
                for j in range(left, min(left + TILE, i + 1)):
                    for k in range(m):
                        apart = abs(stack[i, j, k] - stack[j, i, k])
                        if not apart <= worst[k] and worst[k] == worst[k]:
                            worst[k] = apart
    return worst


@njit(**FAST)
def turned(stack, sizes, first, last):
    """Sums of ``s_i s_j K_k[i, j]`` over j > i less those over j < i, for i from ``first`` to ``last``, each kernel.

    Over all samples they are zero for symmetric kernels.
    """
    n, m = stack.shape[0], stack.shape[2]
    total, row, turns = np.zeros(m), np.empty(m), sizes.copy()
    turns[:first] *= -1.0
    for i in range(first, last):
        row[:], turns[i], column = 0.0, 0.0, stack[i]
        for j in range(n):  # one after the other: memory is twice as slow where several are read side by side
            turn, entry = turns[j], column[j]
            for k in range(m):
                row[k] += turn * entry[k]
        total += sizes[i] * row
        turns[i] = -sizes[i]
    return total


# -- the same for stacks that hold one kernel after the other, ``kernels[k, i, j]`` --


@njit(**FAST)
def energies_of_each(kernels, beta, support, first, last):
    """Energies of the kernels from ``first`` to ``last``; zeros are multiplied too where they are few."""
    q = np.zeros(last - first)
    few = 3 * support.size < beta.size
    for k in range(first, last):
        for a in range(support.size):
            i = support[a]
            row, total = kernels[k, i], 0.5 * beta[i] * kernels[k, i, i]
            if few:
                for b in range(a):
                    total += beta[support[b]] * row[support[b]]
            else:
                for j in range(i):
                    total += beta[j] * row[j]
            q[k - first] += 2.0 * beta[i] * total
    return q


@njit(**FAST)
def columns_of_each(kernels, chosen, delta, index, rows, first, last, out):
    """Leave in ``out`` (chosen, rows), from ``first`` to ``last`` of the kernels chosen, columns times ``delta``."""
    n = kernels.shape[1]
    whole = np.empty(n)
    for c in range(first, last):
        weighted_columns(kernels[chosen[c]], delta, index, 0, n, whole)
        for r in range(rows.size):
            out[c, r] = whole[rows[r]]


@njit(**FAST)
def turned_of_each(kernels, sizes, first, last):
    """Return what `turned` sums up to over all samples, for the kernels from ``first`` to ``last``."""
    total, turns = np.zeros(last - first), np.empty(sizes.size)
    for k in range(first, last):
        turns[:] = sizes
        for i in range(sizes.size):
            row, summed, turns[i] = kernels[k, i], 0.0, 0.0
            for j in range(row.size):
                summed += turns[j] * row[j]
            total[k - first] += sizes[i] * summed
            turns[i] = -sizes[i]
    return total
