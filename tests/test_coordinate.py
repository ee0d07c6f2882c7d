"""Coordinate descent on factors: against Clarabel on every penalty and loss, and its own promises."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kernelweave import DenseGram, Problem, losses, penalties, solve, solvers
from kernelweave.compiled import features
from kernelweave.grams import LowRankGram
from reference import optimum_of
from registry import PENALTIES, QUADRATIC, label, sized

M, RANK = 5, 6


@cache
def sample(n=90):
    """Return features of Gaussian kernels, wide to narrow, and labels that none separates easily."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)
    parts = []
    for gamma in np.geomspace(0.03, 3.0, M):
        Z = X[rng.choice(n, RANK, replace=False)]
        near, own = (np.exp(-gamma * ((A[:, None] - Z) ** 2).sum(axis=2)) for A in (X, Z))
        values, vectors = np.linalg.eigh(own)
        parts.append(near @ (vectors / np.sqrt(np.maximum(values, 1e-3))))
    return np.hstack(parts), y


def small(penalty, loss=None, C=2.0, dtype=float, n=90):
    V, y = sample(n)
    gram = LowRankGram(V.astype(dtype), [RANK] * M)
    return Problem(gram, (loss or losses.Hinge()).bind(y, C), sized(penalty, M))


def stack_of(problem):
    V = problem.gram.features.astype(float)
    return np.stack([V[:, s : s + r] @ V[:, s : s + r].T for s, r in problem.gram.segments()], axis=2)


def optimum(problem):
    return optimum_of(problem, stack_of(problem)).value


@pytest.mark.parametrize("loss", QUADRATIC, ids=label)
@pytest.mark.parametrize("penalty", PENALTIES, ids=label)
def test_equals_clarabel(penalty, loss):
    problem = small(penalty, loss)
    found = solve(problem, "coordinate", tol=1e-4)
    value = optimum(problem)
    assert found.converged and found.gap <= 1e-4
    assert found.certificate.lower <= value * (1 + 1e-6) and value * (1 - 1e-6) <= found.certificate.upper


@pytest.mark.parametrize("penalty", [penalties.L1(), penalties.Lp(1.05), penalties.Lp(2.0)], ids=label)
@pytest.mark.parametrize("C", [0.01, 100.0])
def test_small_and_large_costs(penalty, C):
    problem = small(penalty, C=C)
    found = solve(problem, "coordinate", tol=1e-5)
    assert found.gap <= 1e-5
    assert_allclose(found.certificate.lower, optimum(problem), rtol=2e-5)


def test_costs_of_samples():
    C = np.random.default_rng(2).uniform(0.1, 5.0, size=90)
    problem = small(penalties.Lp(4 / 3), C=C)
    found = solve(problem, "coordinate", tol=1e-5)
    assert np.all(np.abs(found.beta) <= C * (1 + 1e-12))
    assert_allclose(found.certificate.lower, optimum(problem), rtol=2e-5)


def test_l1_drops_kernels_exactly():
    found = solve(small(penalties.L1()), "coordinate", tol=1e-4)
    assert 0 < np.count_nonzero(found.weights) < M
    assert_allclose(found.weights.sum(), 1.0, rtol=1e-12)


def test_equals_the_exact_solver_on_the_same_kernels():
    problem = small(penalties.Lp(2.0))
    found = solve(problem, "coordinate", tol=1e-8)
    exact = solve(replace(problem, gram=DenseGram(stack_of(problem))), "sqp", tol=1e-8)
    assert_allclose(found.weights, exact.weights, rtol=1e-4)
    assert_allclose(found.certificate.lower, exact.certificate.lower, rtol=2e-8)


def test_single_precision_features_solve_their_own_problem():
    double, single = (solve(small(penalties.Lp(2.0), dtype=t), "coordinate", tol=1e-7) for t in (float, np.float32))
    assert double.gap <= 1e-7 and single.gap <= 1e-7
    assert_allclose(single.certificate.lower, double.certificate.lower, rtol=1e-5)
    rounded = small(penalties.Lp(2.0), dtype=np.float32)
    same = replace(rounded, gram=LowRankGram(rounded.gram.features.astype(float), rounded.gram.ranks))
    assert_allclose(single.certificate.lower, solve(same, "coordinate", tol=1e-7).certificate.lower, rtol=2e-7)


def test_repeats_itself_and_the_seed_matters():
    problem = small(penalties.Lp(1.05), dtype=np.float32)
    first, second = (solve(problem, "coordinate", tol=1e-5) for _ in range(2))
    assert_array_equal(first.beta, second.beta)
    assert first.history.upper == second.history.upper
    other = solve(problem, solvers.Coordinate(random_state=1), tol=1e-5)
    assert np.any(other.beta != first.beta)
    assert_allclose(other.certificate.lower, first.certificate.lower, rtol=2e-5)


@pytest.mark.parametrize("loss", QUADRATIC, ids=label)
def test_warm_start_from_a_solution_converges_at_once(loss):
    problem = small(penalties.Lp(2.0), loss)
    beta = solve(problem, "coordinate", tol=1e-8).beta
    assert solve(problem, "coordinate", tol=1e-6, start=beta).n_iter == 1


def test_samples_put_aside_come_back():
    problem = small(penalties.Lp(2.0), C=0.1)
    wrong = np.zeros(problem.loss.y.size)
    wrong[:10] = 0.1 * problem.loss.y[:10]
    assert solve(problem, "coordinate", tol=1e-6, start=wrong).gap <= 1e-6


def test_a_block_of_neighbours_at_a_time():
    """Features beyond the cache are visited in blocks: the path differs, the optimum does not."""
    rng = np.random.default_rng(0)
    V = rng.normal(size=(9001, 500)).astype(np.float32) / 20.0
    y = np.where(V[:, 0] + 0.05 * rng.normal(size=9001) > 0, 1.0, -1.0)
    problem = Problem(LowRankGram(V, [1, 499]), losses.Hinge().bind(y, 0.1), penalties.Lp(2.0))
    assert solve(problem, "coordinate").gap <= 1e-3


class _Rough(penalties.Lp):
    smooth = False


def test_refusals():
    problem = small(penalties.Lp(2.0))
    strict = pytest.importorskip("array_api_strict")
    gram = LowRankGram(strict.asarray(problem.gram.features), problem.gram.ranks)
    foreign = replace(problem, gram=gram)
    with pytest.raises(ValueError, match="'coordinate' runs on NumPy features"):
        solve(foreign, "coordinate")
    with pytest.raises(ValueError, match="works on features of low rank, which DenseGram does not have"):
        solve(replace(problem, gram=DenseGram(stack_of(problem))), "coordinate")
    with pytest.raises(ValueError, match="follows the gradient of the penalty"):
        solve(small(_Rough(2.0)), "coordinate")
    for seed in (-1, 0.5, None):
        with pytest.raises(ValueError, match="random_state"):
            solve(problem, solvers.Coordinate(random_state=seed))


@pytest.mark.parametrize("shape", [(), (1,), (3,)])
@pytest.mark.parametrize(("n", "D"), [(1, 1), (37, 5), (301, 129)])
def test_products_in_double_precision(n, D, shape):
    rng = np.random.default_rng(0)
    V = rng.normal(size=(n, D)).astype(np.float32)
    beta, z = rng.normal(size=(n, *shape)), rng.normal(size=(D, *shape))
    beta[::3] = 0.0
    assert_allclose(features.rmatvec(V, beta), V.astype(float).T @ beta, rtol=1e-12, atol=1e-12 * n)
    assert_allclose(features.matvec(V, z), V.astype(float) @ z, rtol=1e-12, atol=1e-12 * D)
    gram = LowRankGram(V, [D])
    assert_array_equal(gram.rmatvec(beta), features.rmatvec(V, beta))
    assert_array_equal(gram.matvec(z), features.matvec(V, z))
