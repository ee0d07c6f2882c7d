"""The optimum by an independent road: each problem written from its definition and given to Clarabel.

Nothing here uses the formulas of the package. A problem is posed in the blocks ``f_k = L_k v_k`` of its kernels
``K_k = L_k L_k'`` and in the kernel weights, as::

    min  1/2 sum_k |v_k|^2 / w_k + r(w) + sum_i L_i(f(x_i) + b)

and a penalty is only what its docstring says of ``w``: a set of allowed weights, or a price ``r`` on them.
"""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np

from kernelweave import losses, penalties

RANK = 1e-13  # share of the largest eigenvalue below which a direction of a kernel is rounding


@dataclass(frozen=True)
class Optimum:
    """What Clarabel found: objective, kernel weights and decision values on the training samples."""

    value: float
    weights: np.ndarray  # (m,)
    decision: np.ndarray  # (n,)


def solve_by_clarabel(stack, y, C, penalty, loss) -> Optimum:
    """Return the optimum of the problem on the kernels ``stack[:, :, k]``."""
    n, m = y.size, stack.shape[2]
    cost = np.broadcast_to(np.asarray(C, dtype=float), (n,))
    unit = np.array([max(np.trace(stack[:, :, k]) / n, 1e-300) for k in range(m)])
    factors = [factor(stack[:, :, k] / unit[k]) for k in range(m)]
    blocks = [cp.Variable(L.shape[1]) for L in factors]
    shares, bias = cp.Variable(m, nonneg=True), cp.Variable()  # shares_k = w_k * unit_k
    f = cp.sum([L @ v for L, v in zip(factors, blocks, strict=True)]) + bias
    energies = cp.Variable(m)  # energies_k >= |v_k|^2 / shares_k
    cones = [cp.SOC(s + e, cp.hstack([2.0 * v, s - e])) for s, e, v in zip(shares, energies, blocks, strict=True)]
    price, allowed = mixing(penalty, cp.multiply(shares, 1.0 / unit), m)
    objective = 0.5 * cp.sum(energies) + price + error(loss, cp.multiply(y, f), cost)
    value = cp.Problem(cp.Minimize(objective), allowed + cones).solve(solver=cp.CLARABEL)
    return Optimum(float(value), shares.value / unit, f.value)


def factor(kernel):
    """Return ``L`` with ``L L' = kernel``, as thin as the kernel's numerical rank."""
    values, vectors = np.linalg.eigh(kernel)
    kept = values > RANK * max(values[-1], 1e-300)
    kept[-1] = True
    return vectors[:, kept] * np.sqrt(np.maximum(values[kept], 0.0))


def error(loss, margin, cost):
    """Return the total loss at the margins ``y f``."""
    short = cp.pos(1.0 - margin)
    if isinstance(loss, losses.Hinge):
        return cost @ short
    if isinstance(loss, losses.SquaredHinge):
        return 0.5 * (cost @ cp.square(short))
    raise NotImplementedError(f"tests/reference.py does not know the loss {loss}.")


def mixing(penalty, w, m):
    """Return the price of the weights ``w`` and the constraints they obey."""
    match penalty:
        case penalties.Fixed():
            return 0.0, [w == (np.full(m, 1.0 / m) if penalty.values is None else np.asarray(penalty.values))]
        case penalties.L1():
            return 0.0, [np.broadcast_to(penalty.d, m) ** 2 @ w <= 1.0]
        case penalties.Lp():
            return 0.0, [length(w, penalty.p) <= 1.0]
        case penalties.MoreauYosida():
            a, d = np.broadcast_to(penalty.a, m), np.broadcast_to(penalty.d, m)
            return 0.0, [d**2 @ odds(w, a**2) <= 1.0]
        case penalties.ElasticNet():
            return 0.5 * penalty.c1**2 * cp.sum(odds(w, np.full(m, penalty.c2))), []
        case penalties.Group():
            labels = np.asarray(penalty.groups)
            inside = [length(w[np.flatnonzero(labels == g)], penalty.within) for g in np.unique(labels)]
            return 0.0, [length(cp.hstack(inside), penalty.between) <= 1.0]
    raise NotImplementedError(f"tests/reference.py does not know the penalty {penalty}.")


def length(w, p):
    """Return the p-norm of nonnegative weights, for 1 < p <= inf."""
    return cp.norm_inf(w) if np.isinf(p) else cp.pnorm(w, p, approx=False)


def odds(w, a):
    """Return ``w / (1 - a w)``, one per kernel, in a form known to be convex."""
    return cp.multiply(1.0 / a, cp.inv_pos(1.0 - cp.multiply(a, w)) - 1.0)
