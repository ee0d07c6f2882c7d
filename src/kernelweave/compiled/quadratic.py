"""Sequential minimal optimisation of one explicit quadratic: the inner problem of Newton steps on the duals."""

from __future__ import annotations

import numpy as np
from numba import float64, int64, njit

ROW = float64[::1]


@njit(int64(float64[:, ::1], ROW, ROW, ROW, ROW, ROW, float64, int64),
      cache=True, nogil=True, fastmath={"contract", "reassoc"})  # fmt: skip
def quadratic(hessian, gradient, beta, lower, upper, kink, eps, budget):
    """Move ``beta`` in its box, its sum held, until no pair violates by more than ``2 eps``; the steps taken.

    ``gradient`` is that of the quadratic at ``beta``, without the kink ``kink_i |beta_i|`` of each dual at zero, and is
    kept so. A step ends at a kink at the latest, where the next one goes on with the slope behind it.
    """
    n = beta.size
    diagonal = np.empty(n)
    for i in range(n):
        diagonal[i] = hessian[i, i]
    for step in range(budget):
        up, best, worst = -1, np.inf, -np.inf
        for i in range(n):
            rising = gradient[i] + (kink[i] if beta[i] >= 0.0 else -kink[i])
            if rising < best and beta[i] < upper[i]:
                up, best = i, rising
            falling = gradient[i] + (kink[i] if beta[i] > 0.0 else -kink[i])
            if falling > worst and beta[i] > lower[i]:
                worst = falling
        if up < 0 or worst - best <= 2.0 * eps:
            return step
        rises = hessian[up]
        down, gain, bend, steep = -1, 0.0, 1.0, 0.0
        for i in range(n):
            falling = gradient[i] + (kink[i] if beta[i] > 0.0 else -kink[i])
            if falling > best and beta[i] > lower[i]:
                curvature = max(diagonal[up] + diagonal[i] - 2.0 * rises[i], 1e-12)
                merit = (falling - best) ** 2 / curvature
                if merit > gain:
                    down, gain, bend, steep = i, merit, curvature, falling
        if down < 0:
            return step
        top = 0.0 if beta[up] < 0.0 and kink[up] > 0.0 else upper[up]
        bottom = 0.0 if beta[down] > 0.0 and kink[down] > 0.0 else lower[down]
        room_up, room_down = top - beta[up], beta[down] - bottom
        t = min((steep - best) / bend, min(room_up, room_down))
        beta[up] = top if t == room_up else beta[up] + t
        beta[down] = bottom if t == room_down else beta[down] - t
        falls = hessian[down]
        for i in range(n):
            gradient[i] += t * (rises[i] - falls[i])
    return budget
