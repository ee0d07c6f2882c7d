"""The compiled face of every loss: what one dual, or one sample's row of duals, wants.

A loss is its kind and, for each sample, linear term, ridge, bounds and kink, the rows of one table: see `DualTerms`.
"""

from __future__ import annotations

import numpy as np
from numba import float64, int64, njit, types

QUADRATIC, ENTROPY, MARGIN, SOFTMAX = 0, 1, 2, 3  # as in `losses.base`
ROW, TABLE = float64[::1], types.Array(float64, 2, "C", readonly=True)
TIP = 1e-16  # share of its range within which a dual of the entropy counts as being at a bound
TRIALS = 180  # halvings or Newton steps in the search for one number


@njit(float64(int64, float64, float64, float64, float64, float64), cache=True, nogil=True)
def rise(kind, beta, linear, ridge, lower, upper):
    """Slope of one dual's term, its kink left out: of a quadratic, or of the entropy between the bounds."""
    if kind == QUADRATIC:
        return linear - ridge * beta
    room = upper - lower
    below = max(beta - lower, TIP * room)
    return np.log(max(upper - beta, TIP * room) / below)


@njit(float64(float64, float64, float64), cache=True, nogil=True)
def steepest(slope, beta, kink):
    """Least slope, by size, of an objective whose slope without the kink at zero is ``slope``."""
    if kink == 0.0:
        return slope
    if beta > 0.0:
        return slope + kink
    if beta < 0.0:
        return slope - kink
    if slope > kink:
        return slope - kink
    return slope + kink if slope < -kink else 0.0


@njit(float64(int64, float64, float64, float64, float64), cache=True, nogil=True)
def bend(kind, beta, ridge, lower, upper):
    """Curvature of one dual's term."""
    if kind == QUADRATIC:
        return ridge
    room = upper - lower
    return room / (max(beta - lower, TIP * room) * max(upper - beta, TIP * room))


@njit(float64(int64, float64, float64, float64, float64, float64), cache=True, nogil=True)
def ease(kind, gradient, beta, ridge, lower, upper):
    """Curvature of one dual's term on its way: where it is or where its gradient alone would take it, if less.

    Near its bounds the entropy bends without limit, which would hide how much a dual has to gain by leaving them.
    """
    here = bend(kind, beta, ridge, lower, upper)
    if kind == QUADRATIC:
        return here
    small = np.exp(-min(abs(gradient), 30.0))
    return min(here, (1.0 + small) ** 2 / (small * (upper - lower)))


@njit(float64(int64, float64, float64, float64, float64, float64, float64, float64, float64), cache=True, nogil=True)
def target(kind, gradient, curvature, beta, linear, ridge, lower, upper, kink):
    """Where the model, with this gradient of its quadratic part, is least in one dual."""
    if kind == QUADRATIC:
        pull = curvature * beta - gradient + linear
        pull = pull - kink if pull > kink else pull + kink if pull < -kink else 0.0
        return min(max(pull / (curvature + ridge), lower), upper)
    room = upper - lower
    low = -gradient - curvature * (upper - beta)  # log odds between which the answer lies
    high = -gradient + curvature * (beta - lower)
    v = 0.5 * (low + high)
    for trial in range(TRIALS):
        small = np.exp(-abs(v))
        share = (1.0 if v > 0 else small) / (1.0 + small)
        value = gradient + curvature * (lower + room * share - beta) + v
        if value > 0.0:
            high = v
        else:
            low = v
        new = v - value / (1.0 + curvature * room * share * (small / (1.0 + small) if v > 0 else 1.0 / (1.0 + small)))
        new = new if low < new < high and trial % 3 < 2 else 0.5 * (low + high)  # Newton's alone may go to and fro
        if abs(new - v) <= 1e-14 * (1.0 + abs(v)):
            break
        v = new
    small = np.exp(-abs(v))
    return lower + room * (1.0 if v > 0 else small) / (1.0 + small)


@njit(types.void(int64, ROW, int64, TABLE, int64, ROW), cache=True, nogil=True)
def response(kind, f, own, box, i, out):
    """Leave in ``out`` minus a subgradient of sample i's loss at decision values ``f``: the dual that they ask for."""
    linear, ridge, lower, upper, kink = box[0, i], box[1, i], box[2, i], box[3, i], box[4, i]
    if kind == QUADRATIC:
        pull = linear - f[0]
        pull = pull - kink if pull > kink else pull + kink if pull < -kink else 0.0
        if ridge > 0.0:
            out[0] = min(max(pull / ridge, lower), upper)
        else:
            out[0] = upper if pull > 0.0 else lower if pull < 0.0 else min(max(0.0, lower), upper)
    elif kind == ENTROPY:
        small = np.exp(-abs(f[0]))
        out[0] = lower + (upper - lower) * (small if f[0] > 0 else 1.0) / (1.0 + small)
    elif kind == MARGIN:
        worst = -1
        for c in range(f.size):
            out[c] = 0.0
            if c != own and (worst < 0 or f[c] > f[worst]):
                worst = c
        if 1.0 + f[worst] > f[own]:
            out[own], out[worst] = upper, -upper
    else:
        top, total = -np.inf, 0.0
        for c in range(f.size):
            top = max(top, f[c])
        for c in range(f.size):
            out[c] = np.exp(f[c] - top)
            total += out[c]
        for c in range(f.size):
            out[c] = (upper if c == own else 0.0) - upper * out[c] / total


@njit(float64(int64, ROW, ROW, int64, TABLE, int64), cache=True, nogil=True)
def shortfall(kind, f, beta, own, box, i):
    """One sample's part of the duality gap: ``L(f) - D(beta) + beta f``."""
    linear, ridge, lower, upper, kink = box[0, i], box[1, i], box[2, i], box[3, i], box[4, i]
    if kind == MARGIN:
        worst, along = 0.0, 0.0
        for k in range(f.size):
            worst = max(worst, f[k] - f[own] + (0.0 if k == own else 1.0))
            along += beta[k] * f[k]
        return upper * worst - beta[own] + along
    if kind == SOFTMAX:
        top, total, along, spread = -np.inf, 0.0, 0.0, 0.0
        for k in range(f.size):
            top = max(top, f[k])
        for k in range(f.size):
            total += np.exp(f[k] - top)
            along += beta[k] * f[k]
            share = (1.0 if k == own else 0.0) - beta[k] / upper
            if share > 0.0:
                spread -= share * np.log(share)
        return upper * (top + np.log(total) - f[own] - spread) + along
    b, value = beta[0], f[0]
    if kind == ENTROPY:
        cost = upper - lower
        spread = 0.0
        for part in ((b - lower) / cost, (upper - b) / cost):
            if part > 0.0:
                spread -= part * np.log(part)
        loss = max(value if upper == 0.0 else -value, 0.0) + np.log1p(np.exp(-abs(value)))
        return cost * (loss - spread) + b * value
    pull = linear - value
    soft = pull - kink if pull > kink else pull + kink if pull < -kink else 0.0
    if ridge > 0.0:
        best = min(max(soft / ridge, lower), upper)
    else:
        best = upper if soft > 0.0 else lower if soft < 0.0 else min(max(0.0, lower), upper)
    most = pull * best - kink * abs(best) - 0.5 * ridge * best * best
    return most - pull * b + kink * abs(b) + 0.5 * ridge * b * b


@njit(float64(ROW, int64, float64, float64, ROW, ROW), cache=True, nogil=True)
def row_target(gradient, own, cost, curvature, beta, out):
    """Leave in ``out`` the row at which the model of one sample's margin is least; how much lower it is there."""
    c = beta.size
    top = -np.inf
    for k in range(c):
        out[k] = gradient[k] / curvature - beta[k]
        if k == own:
            out[k] += cost - 1.0 / curvature
        top = max(top, out[k])
    for k in range(c):
        out[k] -= top  # only differences count, and next to no curvature makes all of them huge
    level = -cost
    for _ in range(c + 1):
        total, count = -cost, 0
        for k in range(c):
            if out[k] > level:
                total += out[k]
                count += 1
        new = total / count
        if new <= level:
            break
        level = new
    gain, rest, own_slope = 0.0, 0.0, gradient[own] - 1.0
    for k in range(c):
        if k != own:
            out[k] = min(level - out[k], 0.0)
            rest += out[k]
            move = out[k] - beta[k]
            gain -= move * (gradient[k] - own_slope + 0.5 * curvature * move)
    out[own] = min(-rest, cost)  # so that the row sums to zero whatever rounding did to the level
    return gain - 0.5 * curvature * (out[own] - beta[own]) ** 2
