"""The judge: primal value, dual value and gap of any point of any problem. Nothing else reports a gap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from .arrays import Array, namespace
from .problem import Certificate, Point, Problem

ROUNDING = 1e-13  # share of the size of kernels that their products may be off by
NEAR = 1e-3  # how far from 1 the neighbouring scales are
GROWTH = 5.0  # of the steps away from 1 in a search for the best scale
FINE = 1e-3  # share of the interval it is in to which that is found


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

    Examples
    --------
    >>> import numpy as np
    >>> import kernelweave as kw
    >>> X, y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2 * 2.0 - 1.0
    >>> gram = kw.DenseGram(np.stack([X @ X.T, (X @ X.T + 1.0) ** 2], axis=2))
    >>> problem = kw.Problem(gram, kw.losses.Hinge().bind(y, np.ones(20)), kw.penalties.Lp(2.0))
    >>> found = kw.solve(problem, tol=1e-6)
    >>> bounds = kw.certify(problem, kw.problem.Point(found.beta, found.weights))
    >>> bounds.lower <= found.certificate.upper * (1 + 1e-9) and bounds.gap < 1e-5
    True
    """
    beta, q, f = point.beta, point.q, point.f
    if not trust or q is None or f is None:
        beta = problem.feasible(beta)
        q, f = problem.gram.energies_and_decision(beta, point.weights)
    lower, dual_scale = dual_value(problem, beta, q)
    upper, scale, intercept = primal_value(problem, point.weights, q, f, lower, rescale)
    return Certificate(lower, upper, scale, intercept, dual_scale, _rounding(problem, point.weights))


def _rounding(problem: Problem, weights: np.ndarray) -> float:
    """Return what products of duals whose sum is held may be off by: the optimum may be zero, while they are not."""
    if not problem.dual_sum or problem.penalty.products:
        return 0.0
    diagonal = problem.gram.mean_diagonal()
    return ROUNDING * float(problem.dual_sum) ** 2 * float(diagonal @ weights)


def dual_value(problem: Problem, beta: Array, q: Any) -> tuple[float, float]:
    """Dual objective at a feasible ``beta``, or at a multiple of it that is better: value, multiple."""
    h = problem.penalty.value(q)
    plain = problem.total_dual(beta) - h
    if problem.dual_sum:  # a multiple would have another sum
        return plain, 1.0
    if not problem.penalty.homogeneous:
        return max((plain, 1.0), _shortened(problem, beta, q, plain))
    s = problem.loss.dual_scale(beta, h)
    return max((plain, 1.0), (problem.total_dual(s * beta) - s**2 * h, s))


def _shortened(problem: Problem, beta: Array, q: Any, plain: float) -> tuple[float, float]:
    """Best dual value between zero and ``beta``, whose own is ``plain``: value, multiple."""

    def value(s: float) -> float:
        return problem.total_dual(s * beta) - problem.penalty.value(s**2 * q)

    zero = 0.0 * beta
    if not bool(namespace(beta).all(problem.loss.project(zero) == zero)):
        return plain, 1.0  # not all of the way from zero is feasible
    if value(1.0 - NEAR) <= plain:  # the value is concave
        return plain, 1.0
    found = minimize_scalar(lambda s: -value(float(s)), bounds=(0.0, 1.0), method="bounded")
    return -float(found.fun), float(found.x)


def primal_value(
    problem: Problem,
    weights: np.ndarray,  # (m,)
    q: Any,  # (m,)
    f: Array,  # (n,) or (n, c)
    lower: float = np.inf,
    rescale: bool = True,
) -> tuple[float, float, Any]:
    """Primal objective of ``t f + b`` at its best scale ``t`` and bias ``b``: value, t, b.

    The scale is not searched for where its neighbours show, by convexity, that it would narrow the distance to
    ``lower`` by less than a hundredth.
    """
    cost = problem.penalty.cost(weights, q)
    value, moves = _along(problem, cost, f), rescale and cost(1.0) > 0.0
    best = (value(1.0)[0], 1.0)
    sides = (value(1.0 - NEAR)[0] - best[0], value(1.0 + NEAR)[0] - best[0]) if moves else (0.0, 0.0)
    if moves and not 0.0 <= min(sides) <= max(sides) <= 0.01 * (best[0] - lower):
        best = min(best, _lowest(lambda t: value(t)[0], best[0], sides), (value(0.0)[0], 0.0))
    return best[0], best[1], value(best[1])[1]


def _lowest(value: Callable[[float], float], at_one: float, sides: tuple[float, float]) -> tuple[float, float]:
    """Return the least value of a convex function of the scale, and where: steps away from 1 grow until it rises."""
    way, last, far = (-1.0 if sides[0] < sides[1] else 1.0), NEAR, GROWTH * NEAR
    lowest, next_one = at_one + min(sides), value(1.0 + way * far)
    while far < 1.0 and next_one < lowest:
        lowest, last, far = next_one, far, min(GROWTH * far, 1.0)
        next_one = value(1.0 + way * far)
    ends = sorted((1.0 + way * last / GROWTH, 1.0 + way * far))
    if min(sides) >= 0.0:
        ends = [1.0 - NEAR, 1.0 + NEAR]
    found = minimize_scalar(value, bounds=ends, method="bounded", options={"xatol": 1e-5 + FINE * (ends[1] - ends[0])})
    return float(found.fun), float(found.x)


def _along(problem: Problem, cost: Callable[[float], float], f: Array) -> Callable[[float], tuple[float, Any]]:
    """Return the function ``t -> (primal value at t f, its bias)``; the bias is sought from the last one on."""
    near: Any = None

    def value(t: float) -> tuple[float, Any]:
        nonlocal near
        scaled = float(t) * f  # a NumPy scalar on the left would take foreign arrays over
        near = problem.best_bias(scaled, near)
        return cost(t) + problem.total_loss(scaled, near), near

    return value
