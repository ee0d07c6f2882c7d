"""Laws of Newton's steps on kernels: what factors and matrices solve, how weights of l1 move, what a fit costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kernelweave import DenseGram, Problem, certify, losses, penalties, solve
from kernelweave.problem import Point
from kernelweave.solvers import newton_cg
from kernelweave.solvers.barrier import Barrier
from kernelweave.solvers.factored import Factored

TASKS = {"targets": losses.Squared(), "classes": losses.Softmax(), "survival": losses.Cox()}
each_task = pytest.mark.parametrize("task", TASKS)


def pose(task, n, C, penalty, seed=0):
    """Return a problem with six kernels of different widths."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    apart = np.sum((X[:, None] - X) ** 2, axis=2)
    stack = np.stack([np.exp(-apart * width) for width in (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)], axis=2)
    clean = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    y = {
        "targets": np.column_stack([clean, X[:, 0] ** 2]) + 0.3 * rng.normal(size=(n, 2)),
        "classes": np.digitize(clean + 0.3 * rng.normal(size=n), [-0.5, 0.5]).astype(float),
        "survival": np.column_stack([rng.random(n) < 0.7, rng.exponential(np.exp(-clean))]).astype(float),
    }[task]
    loss = TASKS[task].bind(y, C)
    return Problem(DenseGram(stack), loss, penalty, dual_sum=0.0 if loss.takes_bias else None)


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("alike", [True, False])
def test_factors_are_the_inverse(rng, columns, alike):
    n, m = 12, 4
    A, g, B = rng.normal(size=(n, n)), rng.normal(size=(columns, n, m)), rng.normal(size=(m, 2))
    diagonal = np.full((n, columns), 3.0) if alike else rng.exponential(size=(n, columns))
    tall = g.reshape(-1, m)
    S = np.kron(np.eye(columns), A @ A.T) + tall @ (B @ B.T) @ tall.T
    wanted = np.linalg.inv(np.eye(n * columns) + diagonal.T.reshape(-1, 1) * S)
    r = rng.normal(size=(n, columns))
    found = Factored.of(A @ A.T, diagonal, g, B @ B.T)(r)
    assert_allclose(found.T.ravel(), wanted @ r.T.ravel(), atol=1e-8)


@each_task
@pytest.mark.parametrize("penalty", [penalties.L1(), penalties.Lp(2.0)], ids=str)
def test_steps_by_factors_are_those_of_conjugate_gradients(task, penalty):
    problem, solver = pose(task, 80, 10.0, penalty), newton_cg.NewtonCG()
    state = solver.init(problem, None, 1e-6)
    for _ in range(3):
        solver.step(problem, state)
    bend = 2.0 * state.penalty.curvature(state.q) if state.barrier is None else state.barrier.step(state.q, 0.0).bend
    found = []
    for hard in (False, True):
        state.hard = hard
        system = newton_cg._System(problem, state, bend)
        x, fall = system.solve(1e-12)
        change = system.smooth(x)
        assert_allclose(fall, system.inner(system.residual, change), rtol=1e-6)
        assert_allclose(x + system.curved(change), system.residual, atol=1e-6 * np.abs(system.residual).max())
        found.append(change)
    assert_allclose(found[0], found[1], atol=1e-6 * np.abs(found[1]).max())


def test_shares_stay_on_the_simplex_and_products_come_near_the_aim(rng):
    prices, q = rng.uniform(0.5, 2.0, size=5), rng.exponential(size=5)
    barrier = Barrier.around(prices, np.full(5, 0.2), q)
    for _ in range(12):
        step = barrier.step(q, 0.0)
        still = np.zeros(5)
        barrier = step.to(still, step.longest(still), q)
        assert np.all(barrier.shares > 0.0) and np.all(barrier.slacks(q) > 0.0)
        assert_allclose(barrier.shares.sum(), 1.0)
    assert_allclose(barrier.shares[np.argmax(q / prices)], 1.0, atol=1e-3)  # as l1 has it where energies are given


@each_task
@pytest.mark.parametrize(("penalty", "most"), [(penalties.L1(), 400), (penalties.Lp(2.0), 300)], ids=["l1", "l2"])
def test_large_costs_take_few_products(task, penalty, most, monkeypatch):
    problem, count, smooth = pose(task, 200, 100.0, penalty), [0, 0], newton_cg._System.smooth

    def counted(system, x):
        count[0] += 1
        return smooth(system, x)

    monkeypatch.setattr(newton_cg._System, "smooth", counted)
    found = solve(problem, "newton-cg", tol=1e-3)
    assert found.gap <= 1e-3 and found.n_iter <= 40 and count[0] <= most


@pytest.mark.parametrize("bias", [0.0, None], ids=["bias", "no bias"])
@pytest.mark.parametrize("C", [1e3, 1e5])
def test_small_gaps_at_large_costs(bias, C):
    problem = pose("targets", 101, C, penalties.L1(d=[1.0, 1.0, 2.0, 2.0, 3.0, 3.0]))
    found = solve(replace(problem, dual_sum=bias), "newton-cg", tol=1e-6, max_iter=200)
    assert found.gap <= 1e-6


@each_task
def test_a_fit_cut_short_proves_what_its_own_duals_prove(task):
    problem, solver = pose(task, 60, 1e5, penalties.L1()), newton_cg.NewtonCG()
    state = solver.init(problem, None, 1e-6)
    for _ in range(6):
        solver.step(problem, state)
    found = solver.read(problem, state)
    own = Point(problem.feasible(state.beta), found.weights)
    assert certify(problem, found).lower >= certify(problem, own).lower * (1.0 - 1e-6)


def test_a_first_kernel_comes_in_however_large_it_is():
    problem = pose("targets", 40, 1e3, penalties.ElasticNet())
    stack = problem.gram.stack * np.array([1e-6, 1.0, 1e3, 1e6, 1.0, 1.0])
    assert solve(replace(problem, gram=DenseGram(stack)), "newton-cg", tol=1e-3, max_iter=200).gap <= 1e-3
