"""Least squares at fixed weights: equations, and factors that problems on the same kernels share."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kernelweave as kw
from kernelweave import losses, penalties, solvers
from kernelweave.solvers import direct

WEIGHTS = np.array([0.5, 0.0, 2.0])


def drawn(n=60, seed=0, columns=None):
    """Return three kernels, targets and costs."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    apart = np.sum((X[:, None] - X) ** 2, axis=2)
    stack = np.stack([np.exp(-0.3 * apart), X @ X.T, (X @ X.T + 1.0) ** 2], axis=2)
    y = X[:, 0] if columns is None else X[:, :columns]
    return stack, y + 0.3 * rng.normal(size=y.shape), rng.uniform(0.5, 2.0, size=n)


def posed(gram, y, C, bias=True):
    return kw.Problem(gram, losses.Squared().bind(y, C), penalties.Fixed(WEIGHTS), 0.0 if bias else None)


def by_equations(stack, y, C, bias):
    """Return decision values from the equations of the primal optimum, bordered by the constant."""
    kernel, n = stack @ WEIGHTS, len(y)
    A = np.zeros((n + 1, n + 1))
    A[:n, :n] = kernel + np.diag(1.0 / np.broadcast_to(C, (n,)))
    A[:n, n] = A[n, :n] = float(bias)
    A[n, n] = 0.0 if bias else 1.0
    found = np.linalg.solve(A, np.concatenate([y, np.zeros((1, *y.shape[1:]))]))
    return kernel @ found[:n] + found[n]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("columns", [None, 2])
@pytest.mark.parametrize("even", [True, False])
def test_decision_values_are_those_of_the_equations(bias, columns, even):
    stack, y, C = drawn(columns=columns)
    C = np.full_like(C, 3.0) if even else C
    found = kw.solve(posed(kw.DenseGram(stack), y, C, bias), "direct", tol=1e-10)
    assert found.solver == "direct" and found.gap <= 1e-10
    values = (stack @ WEIGHTS) @ found.coef + found.intercept
    assert_allclose(values, by_equations(stack, y, C, bias), atol=1e-8)


def test_costs_are_factored_until_eigenvectors_serve_all_and_classes_not_again(monkeypatch):
    stack, y, C = drawn()
    gram, made = kw.DenseGram(stack), []
    monkeypatch.setattr(direct, "AS_MANY", 2)
    for name in ("cho_factor", "_by_cholesky"):
        real = getattr(direct, name)
        monkeypatch.setattr(direct, name, lambda *a, real=real, name=name, **k: made.append(name) or real(*a, **k))
    real = np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda kernel: made.append("eigh") or real(kernel))
    for cost in (1.0, 1.0, 10.0, 100.0, 1.0):
        for targets in (y, -y, y**2):
            found = kw.solve(posed(gram, targets, cost * C), "direct", tol=1e-9)
            fresh = kw.solve(posed(kw.DenseGram(stack), targets, cost * C), "ascent", tol=1e-9)
            assert_allclose(found.certificate.upper, fresh.certificate.upper, rtol=1e-8)
    assert made == ["_by_cholesky", "cho_factor"] * 2 + ["eigh"]
    kw.solve(posed(gram, y, C[::-1]), "direct")
    assert made[5:] == ["_by_cholesky", "cho_factor"]  # other ridges, of which nothing is known


def test_auto_takes_equations_where_they_are_linear_and_kernels_stored():
    stack, y, C = drawn()
    gram = kw.DenseGram(stack)
    assert kw.solve(posed(gram, y, C)).solver == "direct"
    for loss, penalty in [(losses.Squared(), penalties.L1()), (losses.Huber(), penalties.Fixed())]:
        problem = kw.Problem(gram, loss.bind(y, C), penalty)
        assert kw.solve(problem).solver != "direct"
        with pytest.raises(ValueError, match=r"solver 'direct' .*: use solver='auto'"):
            kw.solve(problem, "direct")


def test_kernels_indefinite_by_more_than_the_ridge_have_bounds_all_the_same():
    stack, y, _ = drawn()
    linear = stack[:, :, 1:2]
    low = linear - 2e-8 * np.eye(len(y))[:, :, None]  # of rank three, with eigenvalues below zero
    loss = losses.Squared().bind(y, 1e8)
    found, plain = (
        kw.solve(kw.Problem(kw.DenseGram(one), loss, penalties.Fixed()), "direct", tol=1e-3) for one in (low, linear)
    )
    assert plain.converged and not found.converged
    assert_allclose(found.certificate.lower, plain.certificate.lower, rtol=1e-3)
    assert plain.certificate.upper < found.certificate.upper < np.inf


def test_estimators_on_uniform_weights_are_least_squares():
    stack, y, _ = drawn()
    reg = kw.MKLRegressor("precomputed", penalty="uniform", normalize=None, C=5.0, tol=1e-9).fit(stack, y)
    assert reg.solver_ == solvers.Direct.name
    kernel, n = stack.mean(axis=2), len(y)
    A = np.block([[kernel + np.eye(n) / 5.0, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    found = np.linalg.solve(A, np.append(y, 0.0))
    assert_allclose(reg.predict(stack), kernel @ found[:n] + found[n], atol=1e-7)
