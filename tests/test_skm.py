"""The support kernel machine of 2004: its own optimality test, and dropping kernels by linear programmes."""

import numpy as np
import pytest

from kernelweave import DenseGram, Problem, certify, losses, penalties, solve
from kernelweave.problem import Status
from kernelweave.solvers.literature import SKM
from kernelweave.solvers.literature.skm import optimality, sparsify


def drawn(twins=False, d=1.0, n=50):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + np.sin(3 * X[:, 1]) + 0.2 * rng.normal(size=n) > 0, 1.0, -1.0)
    distances = ((X[:, None] - X) ** 2).sum(axis=2)
    kernels = [X @ X.T / 3, *(np.exp(-g * distances) for g in (0.05, 0.3, 2.0))]
    kernels = kernels + [kernels[3]] if twins else kernels
    return Problem(DenseGram(np.stack(kernels, axis=2)), losses.Hinge().bind(y, 2.0), penalties.L1(d))


def measured(problem, solution):
    box = problem.loss.box
    support = np.flatnonzero(solution.beta)
    g = problem.gram.weighted_columns(solution.beta[support], support)
    return optimality(problem, box, solution.beta, g, solution.weights)


@pytest.mark.parametrize("twins", [False, True])
def test_sparsify_keeps_the_certificate_and_one_of_two_twins(twins):
    problem = drawn(twins)
    plain = solve(problem, SKM(), tol=1e-4)
    lean = solve(problem, SKM(sparsify=True), tol=1e-4)
    assert lean.converged
    assert np.count_nonzero(lean.weights) <= np.count_nonzero(plain.weights)
    assert lean.weights.sum() == pytest.approx(1.0, abs=1e-9)
    if twins:
        assert np.count_nonzero(plain.weights[[3, 4]]) == 2
        assert np.count_nonzero(lean.weights[[3, 4]]) == 1
        assert lean.weights[[3, 4]].sum() == pytest.approx(plain.weights[[3, 4]].sum(), abs=0.02)


def test_sparsify_drops_nothing_that_is_needed():
    problem = drawn()
    solution = solve(problem, tol=1e-8)
    point = solve(problem, "skm", tol=1e-5)
    weights = sparsify(problem, point)
    assert set(np.flatnonzero(weights)) == set(np.flatnonzero(solution.weights > 1e-6))


@pytest.mark.parametrize("d", [1.0, [0.8, 1.2, 1.0, 0.9]])
def test_own_test_ends_the_fit_where_the_paper_would(d):
    problem, solver = drawn(d=d), SKM(eps1=0.05, eps2=0.05)
    assert solve(problem, solver, tol=1e-12).status is Status.OWN_TEST
    state = solver.init(problem, None, 1e-12)
    end = None
    while end is None:
        while not solver.step(problem, state):
            pass
        assert not (state.eps1 <= 0.05 and state.eps2 <= 0.05)
        point = solver.read(problem, state)
        end = solver.adapt(problem, state, certify(problem, point))
    assert end is Status.OWN_TEST
    g = problem.gram.weighted_columns(point.beta, np.arange(point.beta.size))
    box = problem.loss.box
    assert max(optimality(problem, box, point.beta, g, point.weights)) <= 0.05


def test_optimality_falls_with_the_gap():
    problem = drawn()
    rough, fine = (measured(problem, solve(problem, "skm", tol=tol)) for tol in (1e-1, 1e-5))
    assert fine[0] < rough[0]
    assert fine[1] < rough[1]


def test_half_a_test_is_refused():
    with pytest.raises(ValueError, match="both eps1 and eps2"):
        solve(drawn(), SKM(eps1=0.1))
