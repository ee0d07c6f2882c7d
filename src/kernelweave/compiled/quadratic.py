"""Sequential minimal optimisation of one explicit quadratic: the inner problem of Newton steps on the duals."""

from __future__ import annotations

import numpy as np
from numba import float64, int64, njit


@njit(int64(float64[:, ::1], float64[::1], float64[::1], float64[::1], float64[::1], float64, int64),
      cache=True, nogil=True, fastmath={"contract", "reassoc"})  # fmt: skip
def quadratic(hessian, gradient, beta, lower, upper, eps, budget):
    """Move ``beta`` in its box, its sum held, until no pair violates by more than ``2 eps``; the steps taken.

    ``gradient`` is that of the quadratic at ``beta`` and is kept so.
    """
    n = beta.size
    diagonal = np.empty(n)
    for i in range(n):
        diagonal[i] = hessian[i, i]
    for step in range(budget):
        up, best, worst = -1, np.inf, -np.inf
        for i in range(n):
            if gradient[i] < best and beta[i] < upper[i]:
                up, best = i, gradient[i]
            if gradient[i] > worst and beta[i] > lower[i]:
                worst = gradient[i]
        if up < 0 or worst - best <= 2.0 * eps:
            return step
        rises = hessian[up]
        down, gain, bend = -1, 0.0, 1.0
        for i in range(n):
            if gradient[i] > best and beta[i] > lower[i]:
                curvature = max(diagonal[up] + diagonal[i] - 2.0 * rises[i], 1e-12)
                merit = (gradient[i] - best) ** 2 / curvature
                if merit > gain:
                    down, gain, bend = i, merit, curvature
        if down < 0:
            return step
        room_up, room_down = upper[up] - beta[up], beta[down] - lower[down]
        t = min((gradient[down] - best) / bend, min(room_up, room_down))
        beta[up] = upper[up] if t == room_up else beta[up] + t
        beta[down] = lower[down] if t == room_down else beta[down] - t
        falls = hessian[down]
        for i in range(n):
            gradient[i] += t * (rises[i] - falls[i])
    return budget
