"""The judge: primal value, dual value and gap of any point of any problem. Nothing else reports a gap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from .arrays import Array, like, namespace, positive, to_host
from .grams import BankGram, BasisGram, GramStack, ProductStack
from .grams.energies import Raised
from .grams.rounding import indefinite
from .problem import Certificate, Point, Problem

PRECISION = float(np.finfo(float).eps)  # relative error of one operation
ENTROPY = 40.0  # most that the entropy of a share changes with it in floating point, at the ends: minus its logarithm
WALK = 0.25  # errors of a sum of n terms, as a share of sqrt(n) of them: each is at most half a rounding, either way
ROUNDING = 1e-13  # share of the size of kernels that their products may be off by
NEAR = 1e-3  # how far from 1 the neighbouring scales are
GROWTH = 5.0  # of the steps away from 1 in a search for the best scale
CENT = 0.01  # of the distance to the lower bound: what a better scale must narrow it by to be looked for
BEYOND = 3.0  # times the last move: where the longer side is tried
TRIALS = 100  # of a search between two scales, at most
MANY = 10**7  # entries of all diagonals beyond which samples are taken to be alike, for what rounding may do
ENOUGH = 1e-9  # relative gap from which on a finer scale would be one that rounding chose
Place = tuple[float, float]  # a scale and the value there


def certify(
    problem: Problem,
    point: Point,
    *,
    trust: bool = False,
    rescale: bool = True,
    scale: float = 1.0,
    enough: float = 0.0,
) -> Certificate:
    """Bracket the optimum of ``problem`` from ``point``.

    Parameters
    ----------
    problem : Problem
        What is being solved.
    point : Point
        Duals (repaired here if they are not feasible) and kernel weights (negative ones are taken as zero, and those of
        products without their signs).
    trust : bool, default=False
        Take the point's running products (``q``, ``f``, ``coef_q``) as they are. For watching a fit in progress only:
        every reported certificate is computed from the kernels.
    rescale : bool, default=True
        Whether the primal point may be a multiple of ``K_w beta``, the best one.
    scale : float, default=1.0
        The multiple that it is without ``rescale``.
    enough : float, default=0.0
        Relative gap up to which it is this multiple with ``rescale`` too.

    Returns
    -------
    Certificate
        With ``lower <= optimum <= upper``, whatever rounding did to the products they are computed from: the bounds
        are moved apart by as much as that may be, unless ``trust``.

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
    if np.min(point.weights, initial=0.0) < 0.0:
        kept = np.abs(point.weights) if isinstance(problem.gram, ProductStack) else np.maximum(point.weights, 0.0)
        point = Point(point.beta, kept, coef=point.coef)
    beta, q, f, errors = point.beta, point.q, point.f, NO_ERRORS
    if not trust or q is None or f is None:
        beta = problem.feasible(beta)
        q, f = problem.gram.energies_and_decision(beta, point.weights)
        errors = NO_ERRORS if trust else _errors(problem, beta, point.weights, q)
    lower, dual_scale = dual_value(problem, beta, errors.raised(q))
    lost = dual_value(problem, beta, q)[0] - lower if errors.share else 0.0
    of_model = errors
    if point.coef is not None:
        q, f, of_model = _model(problem, point, trust)
    most = of_model.raised(q)
    upper, scale, intercept = primal_value(problem, point.weights, most, f, lower, rescale, of_model, scale, enough)
    below, above = 0.0, 0.0
    if errors.share:
        below = errors.of_dual(problem, beta, dual_scale, intercept)
        above = upper - primal_value(problem, point.weights, q, f, rescale=False, at=scale)[0]
    rounding = _rounding(problem, point.weights)
    widened = below + max(lost, 0.0) + max(above, 0.0)
    return Certificate(lower - below, upper, scale, intercept, dual_scale, rounding, widened)


def _model(problem: Problem, point: Point, trust: bool) -> tuple[Any, Array, Errors]:
    """Return energies and decision values of coefficients other than the duals, and what rounding did to them."""
    coef = point.coef
    assert coef is not None
    if trust and point.coef_q is not None and point.f is not None:
        return point.coef_q, point.f, NO_ERRORS
    q, f = problem.gram.energies_and_decision(coef, point.weights)
    return q, f, NO_ERRORS if trust else _errors(problem, coef, point.weights, q)


@dataclass(frozen=True)
class Errors:
    """What rounding may have done to products: to the energies, and to each decision value.

    A sum of n products in floating point is off by about ``sqrt(n)`` roundings of the sum of their sizes, which for
    kernels is bounded by the diagonal: ``|K_k[i, j]| <= sqrt(K_k[i, i] K_k[j, j])``.
    """

    share: float = 0.0  # relative error of a sum
    q: Any = 0.0  # (m,) of the energies; of products, what the energy of weights of length one is off by
    f: Any = 0.0  # (n,) or (n, c) of the decision values

    def raised(self, q: Any) -> Any:
        """Return the largest energies there may be."""
        if not self.share:
            return q
        return q + self.q if isinstance(q, np.ndarray) else Raised(q, self.q)

    def of_dual(self, problem: Problem, beta: Array, scale: float, intercept: Any) -> float:
        """Return what the dual value may be off by through its sum, and through duals that do not quite sum up."""
        xp, values = namespace(beta), problem.loss.dual(scale * beta)
        bias = np.abs(to_host(intercept) if hasattr(intercept, "shape") else intercept)
        size = float(xp.sum(xp.abs(values))) + scale * float(xp.sum(xp.abs(beta))) * float(np.max(bias))
        sums = to_host(xp.sum(beta if beta.ndim > 1 else beta[:, None], axis=0))
        left = np.abs(sums - float(problem.dual_sum or 0.0))
        off = self.share * size + scale * float(np.sum(left * bias))
        if problem.loss.quadratic:
            return off
        moved = xp.abs(beta) if beta.ndim == 1 else xp.max(xp.abs(beta), axis=1)  # at an end it is exact
        return off + ENTROPY * PRECISION * float(xp.sum(problem.loss.C[moved > 0.0]))


NO_ERRORS = Errors()


def _errors(problem: Problem, beta: Array, weights: np.ndarray, energies: np.ndarray) -> Errors:
    """Return what rounding may have done to products of ``beta``, of which these are the energies."""
    gram, xp = problem.gram, namespace(beta)
    share = PRECISION * (2.0 + WALK * float(problem.n) ** 0.5)
    q: Any = 0.0
    whole = xp.abs(beta) if beta.ndim == 1 else xp.sum(xp.abs(beta), axis=1)
    if isinstance(gram, BankGram):  # of too many kernels to look at each for the decision values
        used, q = np.flatnonzero(weights), gram.energy_errors(beta, energies, share)
        diagonal = gram.diagonal_of(used)
        size = xp.sqrt(positive(diagonal @ like(diagonal, weights[used])))
    elif isinstance(gram, BasisGram) and problem.n * weights.size <= MANY:
        size, q = xp.sqrt(positive(gram.diagonal_of(weights))), share * _bounded(gram, whole)
    else:
        diagonal = gram.diagonal() if problem.n * weights.size <= MANY else _even_diagonal(gram, beta)
        degree = gram.degree if isinstance(gram, ProductStack) else 1
        size = xp.sqrt(_powered(diagonal @ like(diagonal, weights), degree))
        if degree > 1:
            largest = _largest_products(diagonal, degree)
            mass = float(whole @ xp.sqrt(largest))
            q = share * mass * mass  # infinite, and no error as a power would be, where that is too large
            if gram.rounded:  # which makes kernels of low rank indefinite
                q += indefinite(gram.rounded, problem.n) * float(whole**2 @ largest)
        elif gram is problem.gram:
            q = share * to_host(whole @ xp.sqrt(_powered(diagonal, 1))) ** 2
        if gram.rounded and degree == 1:
            q = q + indefinite(gram.rounded, problem.n) * to_host(whole**2 @ _powered(diagonal, 1))
    columns = size @ xp.abs(beta)
    f = share * (size * columns if beta.ndim == 1 else size[:, None] * columns[None, :])
    return Errors(share, q, f)


def _largest_products(diagonal: Array, degree: int) -> Array:  # (n, m) -> (n,)
    """Return the largest diagonal that products of kernels can have, for weights of length one.

    ``sum_a u_a d_a`` is at most the length of ``d`` in the norm dual to the one of the weights.
    """
    xp, dual = namespace(diagonal), degree / (degree - 1)
    largest = xp.max(_powered(diagonal, 1), axis=1)  # apart, as the powers of large numbers are too large
    relative = positive(diagonal) / (largest + (largest == 0.0))[:, None]
    lengths = largest * xp.sum(relative**dual, axis=1) ** (1.0 / dual)
    return lengths**degree


def _bounded(gram: BasisGram, whole: Array) -> np.ndarray:  # (m,)
    """Return the square of ``sum_i b_i sqrt(K_k[i, i])``, at most, where the diagonal of each kernel costs much."""
    return float(namespace(whole).sum(whole)) * np.maximum(gram.summed_diagonal(whole), 0.0)


def _even_diagonal(gram: GramStack, beta: Array) -> Array:  # (n, m)
    """Return the mean of the diagonal for every sample, where to look at each would take long."""
    nothing = 0.0 * (beta if beta.ndim == 1 else beta[:, 0])
    return nothing[:, None] + like(beta, gram.mean_diagonal())[None, :]


def _powered(values: Array, degree: int) -> Array:
    return positive(values) ** degree


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
    scaled = problem.total_dual(s * beta) - s * s * h
    return (scaled, s) if scaled > plain else (plain, 1.0)


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
    errors: Errors = NO_ERRORS,
    at: float = 1.0,
    enough: float = 0.0,
) -> tuple[float, float, Any]:
    """Primal objective of ``t f + b`` at its best scale ``t`` and bias ``b``: value, t, b; at most, with ``errors``.

    The scale is not searched for where its neighbours show, by convexity, that it would narrow the distance to
    ``lower`` by less than a hundredth. Without ``rescale`` it is ``at``, as it is where the gap is ``enough`` there.
    """
    cost = problem.penalty.cost(weights, q)
    value, moves = _along(problem, cost, f, errors), rescale and cost(1.0) > 0.0
    first, bias = value(at)
    if not moves or (enough and first - lower <= enough * abs(first)):
        return first, at, bias
    first, bias = (first, bias) if at == 1.0 else value(1.0)
    sides = value(1.0 - NEAR)[0] - first, value(1.0 + NEAR)[0] - first
    if 0.0 <= min(sides) <= max(sides) <= CENT * (first - lower):
        return first, 1.0, bias
    best = min((first, 1.0), _lowest(lambda t: value(t)[0], first, sides, lower), (value(0.0)[0], 0.0))
    upper, bias = _along(problem, cost, f, errors)(best[1])  # the bias is the model's: sought from scratch
    return upper, best[1], bias


def _lowest(
    value: Callable[[float], float], at_one: float, sides: tuple[float, float], lower: float
) -> tuple[float, float]:
    """Return the least value of a convex function of the scale, and where: steps away from 1 grow until it rises."""
    way, far = (-1.0 if sides[0] < sides[1] else 1.0), NEAR
    side = [(1.0 - NEAR, at_one + sides[0]), (1.0 + NEAR, at_one + sides[1])]
    if min(sides) >= 0.0:
        return _between(value, (side[0], (1.0, at_one), side[1]), lower)
    behind, here = (1.0, at_one), side[way > 0]
    while True:
        far = min(GROWTH * far, 1.0)
        ahead = (1.0 + way * far, value(1.0 + way * far))
        if far == 1.0 or ahead[1] >= here[1]:
            break
        behind, here = here, ahead
    if ahead[1] < here[1]:  # still falling at the end
        middle = 0.5 * (here[0] + ahead[0])
        behind, here = here, (middle, value(middle))
    first, last = sorted((behind, ahead))
    return _between(value, (first, here, last), lower)


def _between(value: Callable[[float], float], places: tuple[Place, Place, Place], lower: float) -> tuple[float, float]:
    """Return the least value of a convex function between the outer two of three places, and where.

    Trials are at the bottom of the parabola through the three and, in turn, on the longer side, a few times as far as
    the last one moved. They end where by convexity no other would narrow the distance to ``lower`` by a hundredth.
    """
    a, b, c = places
    move = np.inf
    for trial in range(TRIALS):
        left, right = b[0] - a[0], c[0] - b[0]
        most = max((a[1] - b[1]) / left * right, (c[1] - b[1]) / right * left)
        if not most > max(CENT * (b[1] - lower), PRECISION * abs(b[1])):
            break
        if trial and b[1] - lower <= ENOUGH * abs(b[1]):  # one parabola is exact to more than values tell
            break
        t = _bottom(a, b, c)
        if trial % 2 or not a[0] < t < c[0] or t == b[0]:
            aside = min(BEYOND * move, 0.5 * max(left, right))
            t = b[0] - aside if left > right else b[0] + aside
        if not a[0] < t < c[0] or t == b[0]:
            break
        new, move = (t, value(t)), abs(t - b[0])
        if new[1] <= b[1]:
            a, b, c = (a, new, b) if t < b[0] else (b, new, c)
        else:
            a, c = (new, c) if t < b[0] else (a, new)
    return min((b, a, c), key=lambda place: place[1])[::-1]  # the middle one where they are alike


def _bottom(a: Place, b: Place, c: Place) -> float:
    """Return where the parabola through three places is lowest; the second where they are on a line."""
    left, right = b[0] - a[0], c[0] - b[0]
    down, up = (a[1] - b[1]) / left, (c[1] - b[1]) / right
    bend = (down + up) / (left + right)
    return b[0] - 0.5 * (up - bend * right) / bend if bend > 0.0 else b[0]


def _along(
    problem: Problem, cost: Callable[[float], float], f: Array, errors: Errors
) -> Callable[[float], tuple[float, Any]]:
    """Return the function ``t -> (primal value at t f, its bias)``; the bias is sought from the last one on."""
    near: Any = None

    def value(t: float) -> tuple[float, Any]:
        nonlocal near
        scaled = float(t) * f  # a NumPy scalar on the left would take foreign arrays over
        near = problem.best_bias(scaled, near)
        if not errors.share:
            return cost(t) + problem.total_loss(scaled, near), near
        return (cost(t) + _most_loss(problem, scaled, near, t, errors)) * (1.0 + errors.share), near

    return value


def _most_loss(problem: Problem, f: Array, bias: Any, t: float, errors: Errors) -> float:
    """Return the largest loss that decision values ``f + bias`` may have, given their errors."""
    xp = namespace(f)
    off = float(t) * errors.f + PRECISION * (xp.abs(f) + xp.abs(bias + 0.0 * f))
    if problem.loss.elementwise and problem.loss.separable:  # convex: largest at an end
        ends = xp.maximum(problem.loss.value(f + bias - off), problem.loss.value(f + bias + off))
        return problem.total_loss(f, bias) + float(xp.sum(ends - problem.loss.value(f + bias)))
    worst = xp.max(off, axis=1) if f.ndim > 1 else xp.max(off)
    return problem.total_loss(f, bias) + 2.0 * float(xp.sum(problem.loss.C * worst))
