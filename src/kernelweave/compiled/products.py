"""Sums over pairs of samples of products of kernels, each entry read once."""

from __future__ import annotations

import numpy as np
from numba import njit

from .stacks import FAST


@njit(inline="always", **FAST)
def mix(entry, weights, shift):
    """Return ``w'k + shift`` of one entry of all kernels."""
    mixed = shift
    for k in range(weights.size):
        mixed += weights[k] * entry[k]
    return mixed


@njit(**FAST)
def pull(stack, rows, columns, left, right, weights, shift, degree):
    """Sum over pairs of ``left_i right_j (w'k + shift)^(degree - 1) k``, k the kernels' entries; the same without k."""
    m = weights.size
    out, total = np.zeros(m), 0.0
    for a in range(rows.size):
        row = stack[rows[a]]
        for b in range(columns.size):
            entry = row[columns[b]]
            mixed = mix(entry, weights, shift)
            mixed = left[a] * right[b] * (mixed if degree == 2 else mixed ** (degree - 1))
            total += mixed
            for k in range(m):
                out[k] += mixed * entry[k]
    return out, total


@njit(**FAST)
def decision(stack, rows, columns, left, weights, shift, degree):
    """Sum over rows of ``left_i (w'k + shift)^degree`` at each column."""
    f = np.zeros(columns.size)
    for a in range(rows.size):
        row = stack[rows[a]]
        for b in range(columns.size):
            entry = row[columns[b]]
            mixed = mix(entry, weights, shift)
            f[b] += left[a] * (mixed * mixed if degree == 2 else mixed**degree)
    return f
