"""Sparse rows times dense ones, where both are small whole numbers."""

from __future__ import annotations

import numpy as np
from numba import njit

from .stacks import FAST

TILE = 512  # dense rows worked on together, so that their entries stay in the second-level cache


@njit(**FAST)
def distances(data, indices, indptr, across, from_zero, to_zero, out):
    """Leave in ``out`` squared distances of sparse rows from the columns of ``across``; squared norms are given."""
    for left in range(0, out.shape[1], TILE):
        width = min(TILE, out.shape[1] - left)
        right = left + width
        norms = to_zero[left:right]
        for r in range(out.shape[0]):
            target, p, end = out[r, left:right], indptr[r], indptr[r + 1]
            for j in range(width):
                target[j] = from_zero[r] + norms[j]
            while p + 4 <= end:
                v0, v1 = np.float32(-2.0) * data[p], np.float32(-2.0) * data[p + 1]
                v2, v3 = np.float32(-2.0) * data[p + 2], np.float32(-2.0) * data[p + 3]
                z0, z1 = across[indices[p], left:right], across[indices[p + 1], left:right]
                z2, z3 = across[indices[p + 2], left:right], across[indices[p + 3], left:right]
                for j in range(width):
                    target[j] += v0 * z0[j] + v1 * z1[j] + v2 * z2[j] + v3 * z3[j]
                p += 4
            while p < end:
                value, column = np.float32(-2.0) * data[p], across[indices[p], left:right]
                for j in range(width):
                    target[j] += value * column[j]
                p += 1
