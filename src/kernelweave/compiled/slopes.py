"""Compiled faces of the losses: decision values of one sample in, what its dual moves by out.

Every rule has one signature, so one engine, compiled once, takes any of them as an ordinary argument.
"""

from __future__ import annotations

import numpy as np
from numba import float64, njit, types

SIGNATURE = types.void(float64[::1], float64, float64, float64[::1])  # (f, y, C, out), out is minus the slope
SLOPE = types.FunctionType(SIGNATURE)


@njit(SIGNATURE, cache=True, nogil=True)
def hinge(f, y, C, out):
    out[0] = C * y if y * f[0] < 1.0 else 0.0


@njit(SIGNATURE, cache=True, nogil=True)
def squared_hinge(f, y, C, out):
    out[0] = C * y * max(1.0 - y * f[0], 0.0)


@njit(SIGNATURE, cache=True, nogil=True)
def squared(f, y, C, out):
    out[0] = C * (y - f[0])


@njit(SIGNATURE, cache=True, nogil=True)
def logistic(f, y, C, out):
    margin = y * f[0]
    small = np.exp(-abs(margin))
    out[0] = C * y * (small if margin > 0 else 1.0) / (1.0 + small)


@njit(SIGNATURE, cache=True, nogil=True)
def crammer_singer(f, y, C, out):
    own, worst = int(y), -1
    for c in range(f.size):
        out[c] = 0.0
        if c != own and (worst < 0 or f[c] > f[worst]):
            worst = c
    if 1.0 + f[worst] > f[own]:
        out[own], out[worst] = C, -C
