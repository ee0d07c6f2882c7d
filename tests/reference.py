"""The optimum by an independent road: each problem written from its definition and given to Clarabel.

Nothing here uses the formulas of the package. A problem is prepared in the blocks ``f_k = L_k v_k`` of its
kernels ``K_k = L_k L_k'`` and in the kernel weights, as::

    min  1/2 sum_k |v_k|^2 / w_k + r(w) + sum_i L_i(f(x_i) + b)

and a penalty is only what its docstring says of ``w``: a set of allowed weights, or a price ``r`` on them.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass, replace

import cvxpy as cp
import numpy as np
from sklearn.base import clone

from kernelweave import losses, penalties
from kernelweave.arrays import to_host

RANK = 1e-12  # share of the largest eigenvalue below which a direction of a kernel is rounding
GOOD, FAIR = 1e-8, 1e-6
TIGHT = {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}
SLOW = {"max_step_fraction": 0.8}
ATTEMPTS = [TIGHT, {"equilibrate_enable": False}, {**TIGHT, **SLOW}, SLOW]


@dataclass(frozen=True)
class Optimum:
    """What Clarabel found: objective and its accuracy, kernel weights, decision values on the samples."""

    value: float
    accuracy: float
    weights: np.ndarray  # (m,)
    decision: np.ndarray  # (n,) or (n, c)


class Inaccurate(RuntimeError):
    """Clarabel came to no optimum worth comparing with."""


def solve_by_clarabel(stack, y, C, penalty, loss, dual_sum=0.0, fair=FAIR) -> Optimum:
    """Return the optimum of the problem on the kernels ``stack[:, :, k]``; without a bias if ``dual_sum`` is None."""
    if isinstance(penalty, penalties.Fixed):
        return with_fixed_weights(stack, y, C, penalty.values, loss, dual_sum, fair)
    n, m = stack.shape[0], stack.shape[2]
    y, cost, loss, scale = rescaled(loss, y, np.broadcast_to(np.asarray(C, dtype=float), (n,)))
    unit = np.array([max(np.trace(stack[:, :, k]) / n, 1e-300) for k in range(m)])
    factors = [factor(stack[:, :, k] / unit[k]) for k in range(m)]
    columns = columns_of(loss, y)
    blocks = [cp.Variable((L.shape[1], *columns)) for L in factors]
    shares = cp.Variable(m, nonneg=True)  # shares_k = w_k * unit_k
    f, price = cp.sum([L @ v for L, v in zip(factors, blocks, strict=True)]), 0.0
    if dual_sum is not None:
        bias = cp.Variable((1, *columns))
        f, price = f + np.ones((n, 1)) @ bias, dual_sum * scale * cp.sum(bias)
    errors, size = error(loss, f, y, cost) + price, size_of(loss, y, cost, columns)
    blocks = [cp.vec(v, order="C") for v in blocks] if columns else blocks
    if isinstance(penalty, penalties.Mixed):
        return with_block_norms(penalty, blocks, unit / scale**2, scale * f, errors, size, fair)
    energies = cp.Variable(m)  # energies_k >= |v_k|^2 / shares_k
    tied = zip(shares, energies, blocks, strict=True)
    cones = [cp.SOC(s + e, cp.hstack([2.0 * v, s - e])) for s, e, v in tied]
    price, allowed = mixing(penalty, cp.multiply(shares, 1.0 / unit), m)
    objective = 0.5 * scale**2 * cp.sum(energies) + price + errors
    value, accuracy = minimum(objective, allowed + cones, size, fair)
    return Optimum(value, accuracy, shares.value / unit, scale * f.value)


def rescaled(loss, y, cost):
    """Return targets near one in size, and costs and a loss with which the same model, over the scale, costs the same.

    Cones whose entries are far from one in size are not told apart well.
    """
    scale = float(np.abs(y).max()) if "regression" in loss.tasks else 1.0
    if scale == 0.0 or scale == 1.0:
        return y, cost, loss, 1.0
    lengths = {name: value / scale for name, value in loss.get_params().items() if name in ("epsilon", "delta")}
    power = 1.0 if type(loss) in (losses.EpsilonInsensitive, losses.Quantile) else 2.0
    return y / scale, cost * scale**power, clone(loss).set_params(**lengths), scale


def optimum_of(problem, stack=None) -> Optimum:
    """Return the optimum of a problem, whose kernels are ``stack`` where the problem does not store them."""
    bound = problem.loss
    stack = problem.gram.stack * problem.gram.scale if stack is None else stack
    y, C = to_host(bound.y), to_host(bound.C)
    return solve_by_clarabel(stack, y, C, problem.penalty, bound.loss, problem.dual_sum)


def columns_of(loss, y) -> tuple[int, ...]:
    """Return how many decision values a sample has, as the end of a shape: none, or their number."""
    if isinstance(loss, losses.Cox):
        return ()
    if isinstance(loss, losses.CrammerSinger | losses.Softmax):
        return (max(int(y.max()) + 1, 2),)
    return tuple(y.shape[1:])


def size_of(loss, y, cost, columns) -> float:
    """Return what the zero model costs, or the sum of the costs where that is nothing."""
    zero = error(loss, cp.Constant(np.zeros((cost.size, *columns))), y, cost).value
    return float(zero) if zero > 0 else float(cost.sum())


def with_block_norms(penalty, blocks, unit, f, errors, size, fair) -> Optimum:
    """Return the optimum where the price is of the norms of the blocks, and weights follow from those."""
    u = cp.Variable(len(blocks), nonneg=True)
    s = penalty.power(len(blocks))
    price = 0.5 * cp.square(cp.pnorm(u, s / (s - 1.0), approx=False)) + penalty.alpha * cp.sum(u)
    cones = [cp.SOC(length, v / np.sqrt(scale)) for length, v, scale in zip(u, blocks, unit, strict=True)]
    value, accuracy = minimum(price + errors, cones, size, fair)
    return Optimum(value, accuracy, penalty.weights_of_norms(u.value), f.value)


def with_fixed_weights(stack, y, C, values, loss, dual_sum, fair) -> Optimum:
    """Return the optimum of the support vector machine on one kernel, whose weight is then 1."""
    m = stack.shape[2]
    w = np.full(m, 1.0 / m) if values is None else np.asarray(values)
    one = (stack @ w)[:, :, None]
    return replace(solve_by_clarabel(one, y, C, penalties.L1(), loss, dual_sum, fair), weights=w)


def minimum(objective, constraints, size, fair=FAIR) -> tuple[float, float]:
    """Return the minimum and how well Clarabel's primal and dual values and its residuals agree there.

    Its tolerances are absolute below one, so the objective is enlarged: first by ``size``, the zero model's,
    then by what was found. Its conic form is sturdier than the quadratic one. The best attempt counts.
    """
    best = np.inf
    for options in ATTEMPTS:
        problem = cp.Problem(cp.Minimize(objective * (100.0 / size)), constraints)
        data, chain, inverse = problem.get_problem_data(cp.CLARABEL, solver_opts={"use_quad_obj": False})
        answer = chain.solve_via_data(problem, data, solver_opts=options)
        error = error_of(answer)
        if error < best:
            best, value = error, answer.obj_val * size / 100.0
            with warnings.catch_warnings(action="ignore"), suppress(cp.SolverError):
                problem.unpack_results(answer, chain, inverse)
                best = max(best, abs(float(objective.value) / value - 1.0))  # where epigraphs are not quite attained
        if best <= GOOD:
            break
        size = abs(value) if best < 1e-2 else size
    if best > fair:
        raise Inaccurate(f"Clarabel's best attempt is accurate to {best:.1e} only.")
    return value, best


def error_of(answer) -> float:
    """Return how far an answer of Clarabel is from satisfying the conditions of optimality, relatively."""
    apart = abs(answer.obj_val_dual / answer.obj_val - 1.0) if answer.obj_val != 0 else np.inf
    return max(apart, answer.r_prim, answer.r_dual)


def factor(kernel):
    """Return ``L`` with ``L L' = kernel``, as thin as the kernel's numerical rank."""
    values, vectors = np.linalg.eigh(kernel)
    kept = values > RANK * max(values[-1], 1e-300)
    kept[-1] = True
    return vectors[:, kept] * np.sqrt(np.maximum(values[kept], 0.0))


def error(loss, f, y, cost):
    """Return the total loss at decision values ``f``, from its definition."""
    match loss:
        case losses.Hinge():
            return cost @ cp.pos(1.0 - cp.multiply(y, f))
        case losses.SquaredHinge():
            return 0.5 * (cost @ cp.square(cp.pos(1.0 - cp.multiply(y, f))))
        case losses.Logistic():
            return cost @ cp.logistic(-cp.multiply(y, f))
        case losses.OneClass():
            return cost @ cp.pos(-f)
        case losses.CrammerSinger():
            own = np.eye(f.shape[1])[y.astype(int)]
            return cost @ (cp.max(f + 1.0 - own, axis=1) - cp.sum(cp.multiply(own, f), axis=1))
        case losses.Softmax():
            own = np.eye(f.shape[1])[y.astype(int)]
            return cost @ (cp.log_sum_exp(f, axis=1) - cp.sum(cp.multiply(own, f), axis=1))
        case losses.Cox():
            return partial_likelihood(f, y[:, 0] > 0, y[:, 1], cost)
    each = cost if y.ndim == 1 else np.repeat(cost[:, None], y.shape[1], axis=1)
    return cp.sum(cp.multiply(each, residual_error(loss, y - f)))


def residual_error(loss, r):
    """Return the loss of each residual ``r = y - f``."""
    match loss:
        case losses.Squared():
            return 0.5 * cp.square(r)
        case losses.SquaredEpsilonInsensitive():
            return 0.5 * cp.square(cp.pos(cp.abs(r) - loss.epsilon))
        case losses.EpsilonInsensitive():
            return cp.pos(cp.abs(r) - loss.epsilon)
        case losses.Huber():
            return 0.5 * cp.huber(r, loss.delta)
        case losses.Quantile():
            return cp.maximum(loss.level * r, (loss.level - 1.0) * r)
    raise NotImplementedError(f"tests/reference.py does not know the loss {loss}.")


def partial_likelihood(f, event, time, cost):
    """Return ``sum_i C_i [log sum_{j at risk} w_j exp f_j - f_i]`` over the events i, with weights ``C_j / max C``."""
    raised, total = f + np.log(cost / cost.max()), -(cost * event) @ f
    for moment in np.unique(time[event]):
        deaths = float(cost[event & (time == moment)].sum())
        total = total + deaths * cp.log_sum_exp(raised[np.flatnonzero(time >= moment)])
    return total


def mixing(penalty, w, m):
    """Return the price of the weights ``w`` and the constraints they obey."""
    match penalty:
        case penalties.L1():
            return 0.0, [np.broadcast_to(penalty.d, m) ** 2 @ w <= 1.0]
        case penalties.Lp():
            return 0.0, [length(w, penalty.p) <= 1.0]
        case penalties.SquaredLp():
            return 0.5 * penalty.strength * cp.square(length(w, penalty.p)), []
        case penalties.MoreauYosida():
            odds, cones = odds_of(w, np.broadcast_to(penalty.a, m) ** 2)
            return 0.0, [np.broadcast_to(penalty.d, m) ** 2 @ odds <= 1.0, *cones]
        case penalties.ElasticNet():
            odds, cones = odds_of(w, np.full(m, penalty.c2))
            return 0.5 * penalty.c1**2 * cp.sum(odds), cones
        case penalties.Group():
            labels = np.asarray(penalty.groups)
            inside = [length(w[np.flatnonzero(labels == g)], penalty.within) for g in np.unique(labels)]
            return 0.0, [length(cp.hstack(inside), penalty.between) <= 1.0]
    raise NotImplementedError(f"tests/reference.py does not know the penalty {penalty}.")


def length(w, p):
    """Return the p-norm of nonnegative weights, for 1 < p <= inf."""
    return cp.norm_inf(w) if np.isinf(p) else cp.pnorm(w, p, approx=False)


def odds_of(w, a):
    """Return variables not below ``w / (1 - a w)`` and the cones that say so: ``(1 + a o)(1 - a w) >= 1``."""
    odds = cp.Variable(a.size, nonneg=True)
    up, down = 1.0 + cp.multiply(a, odds), 1.0 - cp.multiply(a, w)
    return odds, [cp.SOC(s + t, cp.hstack([2.0, s - t])) for s, t in zip(up, down, strict=True)]
