"""Products with features of single precision, summed in double precision as the features are read."""

from __future__ import annotations

import numpy as np
from numba import float32, float64, njit, types

FEATURES = types.Array(float32, 2, "C", readonly=True)
TABLE = types.Array(float64, 2, "C", readonly=True)
FAST = {"contract", "reassoc"}


def rmatvec(
    V: np.ndarray,  # (n, D)
    beta: np.ndarray,  # (n,) or (n, c)
) -> np.ndarray:  # (D,) or (D, c)
    """Return ``V' beta``."""
    totals = _fold(V, np.ascontiguousarray(beta if beta.ndim == 2 else beta[:, None]))
    return totals.T.reshape(V.shape[1], *beta.shape[1:])


def matvec(
    V: np.ndarray,  # (n, D)
    z: np.ndarray,  # (D,) or (D, c)
) -> np.ndarray:  # (n,) or (n, c)
    """Return ``V z``."""
    values = _lift(V, np.ascontiguousarray((z if z.ndim == 2 else z[:, None]).T))
    return values.reshape(V.shape[0], *z.shape[1:])


@njit(float64[:, ::1](FEATURES, TABLE), cache=True, nogil=True, fastmath=FAST)
def _fold(V, beta):  # (n, D), (n, c) -> (c, D)
    n, D = V.shape
    c = beta.shape[1]
    out = np.zeros((c, D))
    for i in range(n):
        for k in range(c):
            b = beta[i, k]
            if b != 0.0:
                for j in range(D):
                    out[k, j] += b * V[i, j]
    return out


@njit(float64[:, ::1](FEATURES, TABLE), cache=True, nogil=True, fastmath=FAST)
def _lift(V, z):  # (n, D), (c, D) -> (n, c)
    n, D = V.shape
    c = z.shape[0]
    out = np.empty((n, c))
    for i in range(n):
        for k in range(c):
            total = 0.0
            for j in range(D):
                total += V[i, j] * z[k, j]
            out[i, k] = total
    return out
