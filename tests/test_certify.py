"""The judge: its bounds hold for any point, cannot be talked up, and are kept apart by the loop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelweave import DenseGram, Problem, certify, losses, penalties, solve
from kernelweave.certify import Errors, primal_value
from kernelweave.problem import Certificate, Point, Status
from kernelweave.solvers.base import Solver
from reference import optimum_of
from registry import BINARY, CASES, PENALTIES, Case, label, sized

N, M = 16, 4
each_case = pytest.mark.parametrize("case", CASES, ids=str)
USUAL = [penalties.Fixed(), penalties.L1(), penalties.Lp(4 / 3), penalties.ElasticNet(c1=0.4, c2=0.5)]
CROSS = [(penalty, Case(loss)) for penalty in PENALTIES for loss in BINARY]
CROSS += [(penalty, case) for penalty in USUAL for case in CASES if case.loss not in BINARY or case.columns]
each_pair = pytest.mark.parametrize(("penalty", "case"), CROSS, ids=label)


def points(n=N, seed=1):
    return np.random.default_rng(seed).normal(size=(n, 2))


def kernels(n=N, seed=1):
    """Return noisy labels and four kernels."""
    X, rng = points(n, seed), np.random.default_rng(seed + 100)
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    far = ((X[:, None] - X) ** 2).sum(axis=2)
    return y, np.stack([np.exp(-far), np.exp(-0.1 * far), X @ X.T, (1 + X @ X.T) ** 2], axis=2)


def problem_of(penalty=None, loss=None, C=1.0, n=N):
    y, stack = kernels(n)
    penalty = sized(penalty or penalties.Lp(2), M)
    return Problem(DenseGram(stack), (loss or losses.Hinge()).bind(y, C), penalty)


def posed(penalty, case, C=1.0, dual_sum="first"):
    """Return a problem with a loss of any kind, and targets for it."""
    X, stack = points(N), kernels(N)[1]
    bound = case.bind(np.random.default_rng(3), N, C, X[:, 0] * X[:, 1])
    dual_sum = case.dual_sums[0] if dual_sum == "first" else dual_sum
    return Problem(DenseGram(stack), bound, sized(penalty or penalties.Lp(2), M), dual_sum)


def full_point(problem, beta, weights):
    return Point(beta, weights, problem.gram.energies(beta), problem.gram.decision(beta, weights))


def primal_by_hand(problem, coef, weights, bias):
    """Return the primal objective of ``f = K_w coef + bias`` by plain formulas."""
    K = problem.gram.stack * problem.gram.scale
    table = coef.reshape(len(coef), -1)
    u = weights * np.sqrt(np.maximum(np.einsum("ic,ijk,jc->k", table, K, table), 0.0))
    f = (K @ weights) @ coef + bias
    price = (problem.dual_sum or 0.0) * float(np.sum(bias))
    return problem.penalty.norm(u) + float(np.sum(problem.loss.value(f))) + price


# -- bounds --


@each_pair
def test_bounds_hold_at_any_point(penalty, case, rng):
    for dual_sum in case.dual_sums:
        problem = posed(penalty, case, np.linspace(0.5, 3.0, N), dual_sum)
        best = optimum_of(problem).value
        for _ in range(10):
            size, weights = 10.0 ** rng.uniform(-3, 3), rng.exponential(size=M) * rng.integers(0, 2, M)
            towards = -problem.loss.slope(problem.loss.zero)
            beta = size * (rng.integers(0, 2) * towards + rng.normal(size=problem.shape))
            found = certify(problem, Point(beta, weights))
            assert found.lower <= best + 1e-6 * abs(best)
            assert found.upper >= best - 1e-6 * abs(best)
            assert np.all(np.isfinite([found.lower, found.upper, found.scale, np.sum(found.intercept)]))


@each_pair
def test_bounds_meet_at_the_optimum(penalty, case):
    problem = posed(penalty, case)
    found = solve(problem, tol=1e-6)
    again = certify(problem, Point(found.beta, found.weights))
    assert again.gap <= 1e-5
    assert again.upper == pytest.approx(optimum_of(problem).value, rel=1e-5)


@pytest.mark.parametrize("loss", BINARY, ids=label)
def test_certificate_at_nothing_is_the_trivial_one(loss):
    problem = problem_of(loss=loss)
    found = certify(problem, Point(np.zeros(N), np.zeros(M)))
    trivial = min(float(np.sum(problem.loss.value(np.full(N, b)))) for b in np.linspace(-1, 1, 201))
    assert found.lower == 0
    assert found.upper == pytest.approx(trivial, rel=1e-3)


@each_case
def test_certificate_at_nothing_is_the_best_constant(case):
    for dual_sum in case.dual_sums:
        problem = posed(None, case, 1.0, dual_sum)
        found = certify(problem, Point(problem.loss.zero, np.zeros(M)))
        bias = 0.0 if dual_sum is None else problem.loss.best_bias(problem.loss.zero, dual_sum)
        assert found.upper == pytest.approx(problem.total_loss(problem.loss.zero, bias), rel=1e-12)
        assert found.lower <= found.upper + 1e-12 * abs(found.upper)


@each_pair
def test_upper_bound_is_attained_by_its_scale_and_intercept(penalty, case, rng):
    problem = posed(penalty, case)
    beta = problem.feasible(rng.normal(size=problem.shape))
    weights = problem.penalty.weights(rng.random(M))
    found = certify(problem, Point(beta, weights))
    by_hand = primal_by_hand(problem, found.scale * beta, weights, found.intercept)
    assert by_hand == pytest.approx(found.upper, rel=1e-9)


# -- refinements --


def test_scale_rescues_the_upper_bound_at_large_cost():
    problem = problem_of(penalties.Lp(4 / 3), C=1e5)
    good = solve(problem, tol=1e-6)
    point = full_point(problem, 0.999 * good.coef, good.weights)
    bias = problem.loss.best_bias(point.f)
    plain = primal_by_hand(problem, point.beta, point.weights, bias)
    scaled, scale, _ = primal_value(problem, point.weights, point.q, point.f)
    assert plain > 1.3 * good.certificate.upper
    assert scaled < 1.001 * good.certificate.upper
    assert scale == pytest.approx(1 / 0.999, rel=1e-4)


def test_scale_never_hurts(rng):
    problem = problem_of(C=10.0)
    for _ in range(10):
        beta = problem.feasible(rng.normal(size=N))
        point = full_point(problem, beta, rng.random(M))
        bias = problem.loss.best_bias(point.f)
        plain = primal_by_hand(problem, point.beta, point.weights, bias)
        assert certify(problem, point).upper <= plain + 1e-9


@each_case
def test_lower_bound_takes_the_best_multiple_of_the_duals(case):
    problem = posed(None, case)
    beta = solve(problem, tol=1e-6).beta
    if problem.dual_sum or not np.array_equal(problem.loss.project(problem.loss.zero), problem.loss.zero):
        assert certify(problem, Point(beta, np.zeros(M))).dual_scale == 1.0  # other multiples are not feasible
        return
    full = certify(problem, Point(beta, np.zeros(M))).lower
    shorter = certify(problem, Point(0.1 * beta, np.zeros(M)))
    if case.loss.elementwise or isinstance(case.loss, losses.CrammerSinger):  # whose best multiple is known
        assert shorter.lower == pytest.approx(full, rel=1e-4)
    assert shorter.lower <= full + 1e-6 * abs(full)


@pytest.mark.parametrize("penalty", [penalties.Mixed(0.1), penalties.ElasticNet()], ids=label)
@pytest.mark.parametrize("loss", BINARY, ids=label)
def test_lower_bound_is_never_worse_than_nothing_where_weights_have_a_price(penalty, loss):
    problem = problem_of(penalty, loss, C=1e3)
    judged = certify(problem, Point(problem.feasible(500.0 * problem.loss.y), np.ones(M)))
    assert judged.lower >= -1e-6 * judged.upper


def test_infeasible_duals_are_repaired(rng):
    problem = problem_of()
    wild = rng.normal(scale=10.0, size=N)
    mended = problem.feasible(wild)
    assert certify(problem, Point(wild, np.ones(M))) == certify(problem, Point(mended, np.ones(M)))


@each_case
def test_a_model_may_have_coefficients_of_its_own(case, rng):
    """The lower bound is that of the duals, the upper that of the coefficients, feasible or not."""
    problem = posed(None, case)
    beta, coef = problem.feasible(rng.normal(size=problem.shape)), 5.0 * rng.normal(size=problem.shape)
    weights = problem.penalty.weights(rng.random(M))
    found = certify(problem, Point(beta, weights, coef=coef))
    assert found.lower == pytest.approx(certify(problem, Point(beta, weights)).lower, rel=1e-9, abs=1e-9)
    by_hand = primal_by_hand(problem, found.scale * coef, weights, found.intercept)
    assert by_hand == pytest.approx(found.upper, rel=1e-9)


def test_running_products_of_coefficients_are_ignored_unless_trusted(rng):
    problem = problem_of()
    beta, coef = problem.feasible(rng.normal(size=N)), rng.normal(size=N)
    honest = certify(problem, Point(beta, np.full(M, 0.5), coef=coef))
    lying = Point(beta, np.full(M, 0.5), np.full(M, 1e-9), 5.0 * problem.loss.y, coef, np.full(M, 1e-9))
    assert certify(problem, lying) == honest
    assert certify(problem, lying, trust=True).upper < 1e-3 * honest.upper


# -- the judge cannot be fooled --


def test_running_products_are_ignored_unless_trusted(rng):
    problem = problem_of()
    beta, weights = problem.feasible(rng.normal(size=N)), np.full(M, 0.5)
    honest = certify(problem, Point(beta, weights))
    lying = Point(beta, weights, q=np.full(M, 1e-9), f=5.0 * problem.loss.y)
    assert certify(problem, lying) == honest
    assert certify(problem, lying, trust=True).upper < 1e-3 * honest.upper


def test_trust_needs_both_products():
    problem = problem_of()
    point = Point(np.zeros(N), np.ones(M), q=np.zeros(M))
    assert certify(problem, point, trust=True) == certify(problem, Point(point.beta, point.weights), trust=True)


class Scripted(Solver):
    """Offers given points one after the other, whatever they are worth."""

    name = "scripted"

    def __init__(self, points=()):
        self.points = points

    def init(self, problem, start, tol):
        return {"next": -1, "refreshed": 0}

    def step(self, problem, state):
        state["next"] += 1
        return True

    def read(self, problem, state):
        return self.points[min(state["next"], len(self.points) - 1)]

    def refresh(self, problem, state):
        state["refreshed"] += 1


def half_good_points(problem):
    """Return the optimum's solution, a point with only its lower and one with only its upper bound."""
    good = solve(problem, tol=1e-8)
    lower = full_point(problem, good.beta, np.eye(M)[2] * 1e-3)
    upper = full_point(problem, good.coef * 0.5, 2.0 * good.weights)
    return good, lower, upper


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (1, 0, 2), (2, 0, 1)])
def test_best_bounds_are_kept_apart(order):
    problem = problem_of(penalties.ElasticNet(0.1, 0.5))
    good, *halves = half_good_points(problem)
    poor = full_point(problem, np.zeros(N), np.zeros(M))
    points = [[*halves, poor][i] for i in order]
    alone = [certify(problem, point) for point in points]
    assert min(found.gap for found in alone) > 1e-2
    found = solve(problem, Scripted(points), tol=1e-12, max_iter=len(points))
    assert found.certificate.lower == pytest.approx(max(c.lower for c in alone), rel=1e-12)
    assert found.certificate.upper == pytest.approx(min(c.upper for c in alone), rel=1e-12)
    assert found.gap <= 1e-6
    assert_allclose(found.beta, good.beta)
    by_hand = primal_by_hand(problem, found.coef, found.weights, found.intercept)
    assert by_hand == pytest.approx(found.certificate.upper, rel=1e-9)


def test_a_lying_solver_is_found_out():
    problem = problem_of()
    q = np.full(M, 1e-9)
    liar = Point(np.zeros(N), np.zeros(M), q=q, f=5.0 * problem.loss.y)
    found = solve(problem, Scripted([liar]), max_iter=3)
    assert found.status is Status.MAX_ITER
    assert found.certificate == certify(problem, Point(np.zeros(N), np.zeros(M)))


def test_drifted_products_are_recomputed_and_the_fit_goes_on():
    problem = problem_of()
    good = solve(problem, tol=1e-6)
    true = full_point(problem, good.beta, good.weights)
    poor = full_point(problem, 0.3 * good.beta, good.weights)
    drifted = replace(poor, f=true.f * 1e3, q=poor.q * 1e-6)
    found = solve(problem, Scripted([drifted, true]), max_iter=5, tol=1e-4)
    assert found.converged
    assert found.gap == pytest.approx(certify(problem, Point(found.beta, found.weights)).gap, abs=1e-6)


def test_what_duals_of_several_targets_do_not_sum_up_to_counts_for_each():
    y, stack = kernels()
    problem = Problem(DenseGram(stack), losses.Squared().bind(np.stack([y, 2.0 * y, -y], axis=1)), penalties.L1())
    beta, bias = np.full((N, 3), 1e-9), np.array([5.0, -3.0, 4.0])
    moved = abs(float(beta.sum(axis=0) @ np.abs(bias)))  # by which a bias changes the value of such duals
    assert Errors().of_dual(problem, beta, 1.0, bias) >= moved * (1 - 1e-12)


# -- the record --


def test_gap_is_relative_and_never_negative():
    assert Certificate(9.0, 10.0).gap == pytest.approx(0.1)
    assert Certificate(10.0 + 1e-9, 10.0).gap == 0.0
    assert Certificate(0.0, 0.0).gap == 0.0
    assert "9 <= optimum <= 10" in str(Certificate(9.0, 10.0))


def test_problem_refuses_targets_of_another_length():
    y, stack = kernels()
    with pytest.raises(ValueError, match="y has 15 entries but the kernels hold 16 samples"):
        Problem(DenseGram(stack), losses.Hinge().bind(y[1:], 1.0), penalties.L1())
    with pytest.raises(TypeError, match=r"loss must be bound to its targets, got Hinge\(\): write loss.bind"):
        Problem(DenseGram(stack), losses.Hinge(), penalties.L1())
    with pytest.raises(ValueError, match="dual_sum must be None for Cox"):
        Problem(DenseGram(stack), losses.Cox().bind(np.ones((N, 2))), penalties.L1())
    with pytest.raises(ValueError, match="there are 4 kernels"):
        Problem(DenseGram(stack), losses.Hinge().bind(y, 1.0), penalties.L1(d=[1.0, 2.0]))


@pytest.mark.parametrize("penalty", [penalties.L1(), penalties.Lp(2.0), penalties.ElasticNet(0.5)], ids=str)
def test_negative_weights_of_kernels_are_no_way_below_the_optimum(penalty):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = np.sign(X[:, 0] + 0.5 * rng.normal(size=40))
    gram = DenseGram(np.stack([np.outer(x, x) for x in X.T], axis=2))
    problem = Problem(gram, losses.Hinge().bind(y, 1.0), penalty)
    optimum = solve(problem, tol=1e-8).certificate
    for _ in range(50):
        beta, weights = rng.normal(size=40), rng.normal(size=3)
        found = certify(problem, Point(beta, weights))
        assert found.lower <= optimum.upper and found.upper >= optimum.lower
        assert found == certify(problem, Point(beta, np.maximum(weights, 0.0)))
