"""The judge: primal value, dual value and gap of any point of any problem. Nothing else reports a gap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

from .arrays import namespace
from .problem import Certificate, Point, Problem

NEAR = 1e-3  # how far from 1 the neighbouring scales are


def certify(problem: Problem, point: Point, *, trust: bool = False, rescale: bool = True) -> Certificate:
    """Bracket the optimum of ``problem`` from ``point``.

    Parameters
    ----------
    problem : Problem
        What is being solved.
    point : Point
        Duals (repaired here if they are not feasible) and kernel weights.
    trust : bool, default=False
        Take the point's running products ``q`` and ``f`` as they are. For watching a fit in progress only:
        every reported certificate is computed from the kernels.
    rescale : bool, default=True
        Whether the primal point may be a multiple of ``K_w beta``, the best one.

    Returns
    -------
    Certificate
        With ``lower <= optimum <= upper``.
    """
    beta, q, f = point.beta, point.q, point.f
    if not trust or q is None or f is None:
        beta = problem.feasible(beta)
        q, f = problem.gram.quad(beta), problem.gram.matvec(beta, point.weights)
    lower, stretch = dual_value(problem, beta, q)
    upper, scale, intercept = primal_value(problem, point.weights, q, f, lower, rescale)
    return Certificate(lower, upper, scale, intercept, stretch)


def dual_value(problem: Problem, beta: np.ndarray, q: np.ndarray) -> tuple[float, float]:
    """Dual objective at a feasible ``beta``, or at a multiple of it that is better: value, multiple."""
    loss, y, C = problem.loss, problem.y, problem.C
    h = problem.penalty.value(q)
    plain = _total(loss.dual(beta, y, C)) - h
    if not problem.penalty.homogeneous:
        return max((plain, 1.0), _shortened(problem, beta, q, plain))
    s = loss.stretch(beta, y, C, h)
    return max((plain, 1.0), (_total(loss.dual(s * beta, y, C)) - s**2 * h, s))


def _shortened(problem: Problem, beta: np.ndarray, q: np.ndarray, plain: float) -> tuple[float, float]:
    """Best dual value between zero and ``beta``, whose own is ``plain``: value, multiple."""
    loss, y, C = problem.loss, problem.y, problem.C

    def value(s: float) -> float:
        return _total(loss.dual(s * beta, y, C)) - problem.penalty.value(s**2 * q)

    zero = 0.0 * beta
    if not namespace(beta).all(loss.project(zero, y, C) == zero):
        return plain, 1.0  # not all of the way from zero is feasible
    if value(1.0 - NEAR) <= plain:  # the value is concave
        return plain, 1.0
    found = minimize_scalar(lambda s: -value(float(s)), bounds=(0.0, 1.0), method="bounded")
    return -float(found.fun), float(found.x)


def primal_value(
    problem: Problem,
    weights: np.ndarray,  # (m,)
    q: np.ndarray,  # (m,)
    f: np.ndarray,  # (n,)
    lower: float = np.inf,
    rescale: bool = True,
) -> tuple[float, float, float]:
    """Primal objective of ``t f + b`` at its best scale ``t`` and bias ``b``: value, t, b.

    The scale is not searched for where its neighbours show, by convexity, that it would narrow the distance to
    ``lower`` by less than a hundredth.
    """
    cost = problem.penalty.cost(weights, q)
    value, moves = _along(problem, cost, f), rescale and cost(1.0) > 0.0
    best = (value(1.0)[0], 1.0)
    sides = (value(1.0 - NEAR)[0] - best[0], value(1.0 + NEAR)[0] - best[0]) if moves else (0.0, 0.0)
    if moves and not 0.0 <= min(sides) <= max(sides) <= 0.01 * (best[0] - lower):
        found = minimize_scalar(lambda t: value(t)[0], bounds=(0.0, 2.0), method="bounded", options={"xatol": 1e-5})
        best = min(best, (float(found.fun), float(found.x)), (value(0.0)[0], 0.0))
    return best[0], best[1], value(best[1])[1]


def _along(problem: Problem, cost: Callable[[float], float], f: np.ndarray) -> Callable[[float], tuple[float, float]]:
    """Return the function ``t -> (primal value at t f, its bias)``."""
    loss, y, C = problem.loss, problem.y, problem.C

    def value(t: float) -> tuple[float, float]:
        scaled = float(t) * f  # a NumPy scalar on the left would take foreign arrays over
        bias = problem.best_bias(scaled)
        return cost(t) + _total(loss.value(scaled + bias, y, C)), bias

    return value


def _total(values: np.ndarray) -> float:
    return float(namespace(values).sum(values))
