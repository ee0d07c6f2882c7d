"""Semismooth Newton on factors: against Clarabel for every penalty, and the promises of its own."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_classification

from kernelweave import Problem, losses, penalties, solve
from kernelweave.grams import LowRankGram
from kernelweave.problem import Status
from kernelweave.solvers import SsNAL
from kernelweave.solvers.ssnal import _balanced, _bend, _direction, _exact_step, _own_gap
from reference import optimum_of
from registry import PENALTIES, label, sized

HINGE = losses.Hinge()
M, RANK = 6, 7
each_penalty = pytest.mark.parametrize("penalty", PENALTIES, ids=label)
EVERYDAY = [penalties.L1(), penalties.Lp(1.05), penalties.Lp(2.0), penalties.ElasticNet(c1=0.4, c2=0.5)]
each_everyday = pytest.mark.parametrize("penalty", EVERYDAY, ids=label)
each_cost = pytest.mark.parametrize("C", [0.01, 1.0, 1000.0])


@cache
def factors(n=120, m=M, seed=0):
    """Return factors of Gaussian kernels on a few landmarks each, and labels that no kernel separates."""
    X, y = make_classification(n, 8, n_informative=5, flip_y=0.1, class_sep=0.7, random_state=seed)
    rng = np.random.default_rng(seed)
    parts = []
    for k in range(m):
        Z = X[:, rng.choice(8, size=3, replace=False)]
        marks = Z[rng.choice(n, size=RANK, replace=False)]
        near, own = (np.exp(-(0.05 * 2.0**k) * ((A[:, None] - marks) ** 2).sum(axis=2)) for A in (Z, marks))
        values, vectors = np.linalg.eigh(own + 1e-3 * np.eye(RANK))
        parts.append(near @ (vectors / np.sqrt(values)))
    return np.hstack(parts), 2.0 * y - 1.0


def small(penalty, C=2.0, n=120, m=M, seed=0, loss=HINGE):
    V, y = factors(n, m, seed)
    return Problem(LowRankGram(V, [RANK] * m), loss.bind(y, C), sized(penalty, m))


def best(problem):
    V, ranks = problem.gram.features, problem.gram.ranks
    parts = np.split(np.asarray(V, dtype=float), np.cumsum(ranks)[:-1], axis=1)
    stack = np.stack([part @ part.T for part in parts], axis=2)
    return optimum_of(problem, stack)


def assert_optimal(problem, found, tol):
    reference = best(problem)
    slack = 1e-6 + 10 * reference.accuracy
    where = f"{found.certificate} {found.status}, reference {reference.value}"
    assert found.converged, where
    assert found.gap <= tol, where
    assert found.certificate.lower <= reference.value * (1 + slack), where
    assert found.certificate.upper >= reference.value * (1 - slack), where


def elsewhere(problem, xp, dtype="float64"):
    """Return the problem with its features in another library."""
    features = xp.asarray(problem.gram.features.tolist(), dtype=getattr(xp, dtype))
    gram = LowRankGram(features, problem.gram.ranks)
    return replace(problem, gram=gram)


@each_penalty
def test_every_penalty_is_certified_and_equals_clarabel(penalty):
    problem = small(penalty)
    assert_optimal(problem, solve(problem, "ssnal", tol=1e-6), 1e-6)


@each_everyday
@each_cost
@pytest.mark.parametrize("loss", [HINGE, losses.Quantile(0.3)], ids=label)
def test_costs_from_tiny_to_huge(penalty, C, loss):
    problem = small(penalty, C=C, n=80, seed=1, loss=loss)
    assert_optimal(problem, solve(problem, "ssnal", tol=1e-5), 1e-5)


@each_everyday
def test_costs_may_differ_from_sample_to_sample(penalty):
    C = np.geomspace(0.5, 5.0, 120)
    problem = small(penalty, C=C)
    assert_optimal(problem, solve(problem, "ssnal", tol=1e-6), 1e-6)


@each_everyday
def test_it_needs_few_steps(penalty):
    assert solve(small(penalty), "ssnal", tol=1e-3).n_iter <= 25
    assert solve(small(penalty), "ssnal", tol=1e-8).n_iter <= 80


@each_everyday
def test_libraries_agree(penalty, xp):
    here = solve(small(penalty), "ssnal", tol=1e-10)
    there = solve(elsewhere(small(penalty), xp), "ssnal", tol=1e-10)
    assert there.converged
    assert there.certificate.upper == pytest.approx(here.certificate.upper, rel=1e-8)
    assert_allclose(there.weights, here.weights, atol=1e-5)
    assert isinstance(there.beta, type(there.coef))
    assert type(there.beta) is type(elsewhere(small(penalty), xp).gram.features)


def test_single_precision_features_are_solved_as_given(xp):
    problem = small(penalties.Lp(2))
    rounded = replace(problem, gram=LowRankGram(problem.gram.features.astype(np.float32), problem.gram.ranks))
    found = solve(elsewhere(rounded, xp, "float32"), "ssnal", tol=1e-8)
    assert_optimal(rounded, found, 1e-8)


def test_one_kernel():
    problem = small(penalties.L1(), m=1)
    assert_optimal(problem, solve(problem, "ssnal", tol=1e-6), 1e-6)


def test_sparse_weights_are_exact_zeros():
    problem = small(penalties.L1(), C=0.05)
    found = solve(problem, "ssnal", tol=1e-8)
    reference = best(problem).weights
    assert 0 < np.count_nonzero(found.weights) < M
    assert_allclose(found.weights, reference, atol=1e-3)
    assert set(np.flatnonzero(reference > 1e-3)) == set(np.flatnonzero(found.weights > 1e-3))


def test_a_kernel_left_out_too_early_comes_back():
    problem = small(penalties.L1())
    solver = SsNAL()
    state = solver.init(problem, None, 1e-6)
    for _ in range(3):
        solver.step(problem, state)
    lost = int(np.argmax(state.weights))
    keep = problem.gram.per_column((np.arange(M) != lost).astype(float))
    state.x = keep * state.x
    solver.refresh(problem, state)
    for _ in range(60):
        solver.step(problem, state)
    assert _own_gap(problem, state) <= 1e-6
    assert state.weights[lost] > 0.01


@each_everyday
def test_warm_start_from_the_solution(penalty):
    problem = small(penalty)
    found = solve(problem, "ssnal", tol=1e-6)
    again = solve(problem, "ssnal", tol=1e-3, start=found.beta)
    assert again.converged
    assert again.n_iter < solve(problem, "ssnal", tol=1e-3).n_iter


def test_no_kernel_worth_its_price_is_the_zero_model():
    found = solve(small(penalties.ElasticNet(c1=1e4, c2=1.0)), "ssnal", tol=1e-9)
    assert found.converged
    assert not found.weights.any()


def test_other_losses_are_sent_to_newton():
    with pytest.raises(ValueError, match=r"solver 'ssnal' .* use solver='newton'"):
        solve(small(penalties.L1(), loss=losses.SquaredHinge()), "ssnal")


def test_a_limit_on_steps_is_honest():
    found = solve(small(penalties.Lp(2), C=100.0), "ssnal", tol=1e-9, max_iter=2)
    assert found.status is Status.MAX_ITER
    assert found.n_iter == 2
    assert found.gap > 1e-9


# -- its parts --


@each_everyday
def test_a_step_lowers_the_augmented_lagrangian(penalty):
    problem, solver = small(penalty, C=10.0), SsNAL()
    state = solver.init(problem, None, 1e-3)
    for _ in range(6):
        before = lagrangian(problem, state)
        dx, slip = _direction(problem, state)
        df = problem.gram.matvec(dx) + slip
        t = _exact_step(problem, state, dx, df)
        state.x, state.f, state.bias = state.x + t * dx, state.f + t * (df - slip), state.bias + t * slip
        assert lagrangian(problem, state) < before
        solver.refresh(problem, state)


def lagrangian(problem, state):
    slope, box = state.sharpness * state.rate, problem.loss.box
    aim = state.alpha + slope * (box.linear - state.f - state.bias)
    p = box.project(aim)
    norms = np.sqrt(problem.gram.squared_norms(state.x))
    return problem.penalty.norm(norms) + float(np.sum((p * aim - 0.5 * p**2) / slope))


@pytest.mark.parametrize("seed", range(5))
def test_the_bias_balances_the_classes(seed):
    rng = np.random.default_rng(seed)
    y, C = np.where(rng.random(50) > 0.3, 1.0, -1.0), rng.random(50) + 0.1
    slope, aim = C * 10.0**seed, rng.normal(size=50) * 10.0 ** (seed - 2)
    for bound in (HINGE.bind(y, C), losses.Quantile(0.3).bind(aim, C)):
        bias, moved = _balanced(bound.box, slope, aim, 3.0)
        assert_allclose(moved, aim - bias * slope)
        assert abs(np.sum(bound.project(moved))) <= 1e-12 * C.sum()


@each_penalty
def test_curvature_of_the_penalty_is_that_of_its_norm(penalty, rng):
    penalty, u = sized(penalty, M), rng.random(M) + 0.2
    w = penalty.weights_of_norms(u)
    live = w > 0
    bend = _bend(penalty, u, w, live)[np.ix_(live, live)] + np.eye(live.sum())
    step = 1e-3 * np.eye(M)[live]
    norm = lambda v: penalty.norm(np.where(live, v, 0.0))  # noqa: E731
    mixed = [
        [(norm(u + a + b) - norm(u + a - b) - norm(u - a + b) + norm(u - a - b)) / 4e-6 for b in step] for a in step
    ]
    root = np.sqrt(w[live])
    assert_allclose(bend, root[:, None] * np.array(mixed) * root, atol=1e-4)
