"""Products of kernels: energies of pairs, the spectral penalty, Frank-Wolfe, and models by squares of sums."""

from __future__ import annotations

import pickle
import runpy
from dataclasses import replace
from itertools import combinations_with_replacement
from math import factorial, prod
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC

import kernelweave as kw
from kernelweave import DenseGram, Problem, certify, losses, penalties, solve, solvers
from kernelweave import kernels as K
from kernelweave.grams import FactorProducts, LowRankGram, ProductGram, products, products_for
from kernelweave.grams.energies import Matrix, largest
from kernelweave.penalties import SpectralNorm
from kernelweave.problem import Point, Status
from reference import error, factor, minimum
from registry import BINARY, FACTORS, GRAMS, PENALTIES, SOLVERS, factored, label, sized
from test_reference import STACK, Y

EXAMPLE = Path(__file__).parents[1] / "examples" / "and_of_two_views.py"
each_loss = pytest.mark.parametrize("loss", BINARY, ids=label)
each_terms = pytest.mark.parametrize("linear_terms", [True, False], ids=["linear", "products"])
each_build = pytest.mark.parametrize("build", GRAMS[:2], ids=label)


def mixed_signs(n, m, seed):
    """Return kernels with entries of both signs, every third one Gaussian, of different sizes."""
    rng = np.random.default_rng(seed)
    kernels = []
    for k in range(m):
        A = rng.normal(size=(n, int(rng.integers(1, 4))))
        far = ((A[:, None] - A) ** 2).sum(axis=2)
        kernels.append(rng.uniform(0.3, 3.0) * (np.exp(-0.5 * far) if k % 3 == 2 else A @ A.T))
    return np.stack(kernels, axis=2)


def apart(n, m, seed):
    """Return kernels of which no two are other than zero at the same samples."""
    stack, owner = mixed_signs(n, m, seed), np.arange(n) % m
    for k in range(m):
        stack[:, :, k] *= np.outer(owner == k, owner == k)
    return stack


def labels(n, seed):
    y = np.where(np.random.default_rng(seed + 1000).random(n) < 0.5, -1.0, 1.0)
    y[:2] = 1.0, -1.0
    return y


def prepared(stack, seed=0, linear_terms=True, loss=None, C=1.0, bias=True):
    y = labels(len(stack), seed)
    bound, dual_sum = (loss or losses.Hinge()).bind(y, C), 0.0 if bias else None
    return paired(DenseGram(stack), bound, SpectralNorm(linear_terms), dual_sum)


def paired(gram, loss, penalty, dual_sum=0.0):
    """Return the problem on the products of the kernels of a stack."""
    return Problem(products_for(gram, penalty), loss, penalty, dual_sum)


def with_unity(stack):
    return np.concatenate([stack, np.ones((*stack.shape[:2], 1))], axis=2)


def kernels_of(problem):
    stack = problem.gram.base.stack * problem.gram.base.scale
    return with_unity(stack) if problem.gram.linear_terms else stack


def optimum(problem):
    """Return Clarabel's optimum, from the definition: all pairs formed, their weights in the nuclear ball."""
    stack = kernels_of(problem)
    m = stack.shape[2]
    bias = cp.Variable() if problem.bias else 0.0
    Z, f, cones, energies = cp.Variable((m, m), symmetric=True), 0.0, [], []
    for a in range(m):
        for b in range(a + 1):
            L = factor((2.0 if a > b else 1.0) * stack[:, :, a] * stack[:, :, b])
            block, energy = cp.Variable(L.shape[1]), cp.Variable()
            f, energies = f + L @ block, [*energies, energy]
            cones.append(cp.SOC(Z[a, b] + energy, cp.hstack([2.0 * block, Z[a, b] - energy])))
    allowed = [Z >= 0, cp.normNuc(Z) <= 1.0, *cones]
    total = 0.5 * sum(energies) + error(problem.loss.loss, f + bias, problem.loss.y, problem.loss.C)
    return minimum(total, allowed, size=float(problem.loss.C.sum()), fair=5e-6)  # as good as it gets with matrices


def optimum_over_shares(problem):
    """Return Clarabel's optimum over powers of weighted sums: each product's weight is a geometric mean of shares."""
    stack, degree = kernels_of(problem), problem.gram.degree
    shares, bias, f, energies = cp.Variable(stack.shape[2]), cp.Variable(), 0.0, []
    for chosen in combinations_with_replacement(range(stack.shape[2]), degree):
        times = factorial(degree) / prod(factorial(chosen.count(a)) for a in set(chosen))
        L = factor(times * np.prod(stack[:, :, list(chosen)], axis=2))
        block = cp.Variable(L.shape[1])
        f, mean = f + L @ block, cp.geo_mean(cp.hstack([shares[a] for a in chosen]))
        energies.append(cp.quad_over_lin(block, mean))
    total = 0.5 * sum(energies) + error(problem.loss.loss, f + bias, problem.loss.y, problem.loss.C)
    return minimum(total, [cp.sum(shares) <= 1.0], size=float(problem.loss.C.sum()))


# -- energies of pairs --


@each_build
@each_terms
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_energies_are_those_of_the_products(build, linear_terms, dtype, rng, monkeypatch):
    stack, scale = mixed_signs(17, 5, 0).astype(dtype), np.linspace(0.5, 2.0, 5)
    beta = rng.normal(size=17) * (rng.random(17) > 0.4)
    plain = stack.astype(float) * scale
    plain = with_unity(plain) if linear_terms else plain
    expected = np.einsum("i,ija,ijb,j->ab", beta, plain, plain, beta)
    u = rng.random(plain.shape[2])
    for tile in (2**20, 64):
        monkeypatch.setattr(products, "TILE", tile)
        gram = ProductGram(build(stack, scale), linear_terms)
        assert gram.shape == (17, plain.shape[2])
        assert_allclose(gram.energies(beta).matrix, expected, rtol=1e-9, atol=1e-9)
        assert_allclose(products.ProductEnergies(gram, beta).pull(u), expected @ u, rtol=1e-9, atol=1e-9)
        assert_allclose(gram.decision(beta, u), (plain @ u) ** 2 @ beta, rtol=1e-9, atol=1e-9)
        index = np.array([3, 1, 16])
        assert_allclose(gram.combine(index, u), ((plain @ u) ** 2)[np.ix_(index, index)], rtol=1e-6)


def test_energies_of_definite_kernels_are_not_negative_whatever_the_signs_of_their_entries(rng):
    for seed in range(20):
        stack = mixed_signs(25, 6, seed)
        assert stack.min() < 0
        assert ProductGram(DenseGram(stack)).energies(rng.normal(size=25)).matrix.min() >= 0


def test_contradictory_copies_leave_rounding_and_no_refusal():
    stack = mixed_signs(10, 3, 0)
    index = np.r_[0:10, 0:10]
    y = np.r_[np.ones(10), -np.ones(10)]
    problem = paired(DenseGram(stack[np.ix_(index, index)]), losses.Hinge().bind(y, 10.0), SpectralNorm())
    assert solve(problem).certificate.lower == pytest.approx(200.0)


def test_what_has_no_entries_has_no_products():
    with pytest.raises(TypeError, match="which LowRankGram does not have: use FactorProducts"):
        ProductGram(LowRankGram(np.ones((3, 2)), [1, 1]))


@pytest.mark.parametrize("formed", [0, 128], ids=["power", "matrix"])
def test_indefinite_kernels_are_refused(formed, monkeypatch):
    monkeypatch.setattr(products, "FORMED", formed)
    x = np.linspace(-2, 2, 30)
    bell, sigmoid = np.exp(-((x[:, None] - x) ** 2)), np.tanh(np.outer(x, x) - 1.0)
    with pytest.raises(ValueError, match="is not positive semidefinite and nothing can be certified"):
        solve(prepared(np.stack([-2.0 * bell, bell], axis=2)))
    stack = np.stack([sigmoid, bell], axis=2)
    beta = np.linalg.eigh(sigmoid * bell)[1][:, 0]
    with pytest.raises(ValueError, match="is not positive semidefinite and nothing can be certified"):
        ProductGram(DenseGram(stack)).energies(beta).pull(np.array([1.0, 1e-9]))
    with pytest.raises(ValueError, match="kernel 0 is not positive semidefinite"):
        kw.recipe("nuc-mkl", "precomputed").fit(stack, labels(30, 0))


# -- the penalty --


def nonnegative(m, rng):
    A = rng.random((m, m)) * (rng.random((m, m)) > 0.3)
    return A + A.T


@pytest.mark.parametrize("m", [1, 2, 5, 30])
def test_power_iteration_brackets_the_largest_eigenvalue(m, rng):
    swap = np.kron(np.eye(m), [[0.0, 1.0], [1.0, 0.0]])  # eigenvalues 1 and -1
    split = np.diag(np.linspace(0.1, 1.0, m))
    for matrix in (nonnegative(m, rng), swap, split, np.zeros((m, m))):
        true, found = np.linalg.eigvalsh(matrix)[-1], largest(Matrix(matrix), len(matrix))
        assert found.lower * (1 - 1e-12) <= true <= found.upper * (1 + 1e-12)
        assert found.upper - found.lower <= 1e-6 * true
        assert found.weights.min() >= 0
        assert found.weights @ matrix @ found.weights == pytest.approx(true, rel=1e-6)
        assert Matrix(matrix).top.upper == pytest.approx(true, abs=1e-12)


def test_value_is_half_the_support_function_of_the_nuclear_ball(rng):
    """Convex, homogeneous, increasing; attained by the weights and by no other vector of length one."""
    penalty = SpectralNorm()

    def value(energies):
        return penalty.value(Matrix(energies))

    for _ in range(20):
        M, N = nonnegative(4, rng), nonnegative(4, rng)
        u, v = penalty.weights(Matrix(M)), rng.normal(size=4)
        assert np.linalg.norm(u) == pytest.approx(1.0)
        assert 0.5 * u @ M @ u == pytest.approx(value(M))
        assert 0.5 * v @ M @ v <= value(M) * (v @ v) + 1e-12
        assert value(M + N) <= value(M) + value(N) + 1e-12
        assert value(M + N) >= value(M) - 1e-12
        assert value(3.0 * M) == pytest.approx(3.0 * value(M))


def test_cost_is_that_of_the_weights_brought_to_length_one(rng):
    M, u = nonnegative(4, rng), rng.random(4)
    unit = u / np.linalg.norm(u)
    at = u @ u  # the same function of the samples needs this multiple of unit weights
    assert SpectralNorm().cost(u, Matrix(M))(2.0) == pytest.approx(SpectralNorm().cost(unit, Matrix(M))(2.0 * at))


def test_bad_parameters_are_refused():
    with pytest.raises(ValueError, match="linear_terms must be True or False, got 'yes'"):
        prepared(STACK, linear_terms="yes")
    for degree in (1, 2.5, True):
        with pytest.raises(ValueError, match="degree must be a whole number from 2 on"):
            paired(DenseGram(STACK), losses.Hinge().bind(Y, 1.0), SpectralNorm(degree=degree))


def test_rounding_to_rank_one_never_hurts(rng):
    """For any symmetric Z in the nuclear ball, the square roots of |Z|'s diagonal give at least its energy."""
    for _ in range(50):
        M, Z = nonnegative(5, rng), rng.normal(size=(5, 5))
        Z = Z + Z.T
        values, vectors = np.linalg.eigh(Z)
        u = np.sqrt(np.diag(vectors * np.abs(values) @ vectors.T))
        assert u @ u == pytest.approx(np.abs(values).sum())
        assert u @ M @ u >= np.sum(M * Z) - 1e-12


# -- the problem --


def test_a_problem_wraps_what_its_penalty_weighs():
    problem = prepared(STACK[:8, :8])
    assert isinstance(problem.gram, ProductGram)
    assert replace(problem, loss=problem.loss.times(2.0)).gram is problem.gram
    with pytest.raises(ValueError, match="weighs kernels, not products of them"):
        replace(problem, penalty=penalties.L1())
    with pytest.raises(ValueError, match="linear_terms or degree differs"):
        replace(problem, penalty=SpectralNorm(linear_terms=False))


@each_terms
@each_loss
def test_bounds_hold_at_any_point(linear_terms, loss, rng):
    problem = prepared(mixed_signs(15, 3, 1), 1, linear_terms, loss, C=2.0)
    best, accuracy = optimum(problem)
    for size in np.geomspace(1e-3, 10.0, 15):
        m = problem.gram.shape[1]
        beta = problem.feasible(size * problem.loss.y * rng.random(15))
        bounds = certify(problem, Point(beta, rng.random(m)))
        assert bounds.lower <= best * (1 + 1e-6 + accuracy)
        assert bounds.upper >= best * (1 - 1e-6 - accuracy)


# -- the solver --


@pytest.mark.parametrize(
    ("linear_terms", "value", "weights"),
    [(False, 1.859652, (0.43167, 0.82228, 0.37084)), (True, 1.719928, (0.40026, 0.80640, 0.32589, 0.28863))],
)
def test_known_values(linear_terms, value, weights):
    problem = paired(DenseGram(STACK), losses.Hinge().bind(Y, 1.0), SpectralNorm(linear_terms))
    found = solve(problem, tol=1e-7)
    assert found.solver == "frank-wolfe"
    assert found.certificate.lower == pytest.approx(value, rel=1e-6)
    assert found.certificate.upper == pytest.approx(value, rel=1e-6)
    assert_allclose(found.weights, weights, atol=2e-5)
    assert optimum(problem)[0] == pytest.approx(value, rel=1e-6)


@each_terms
@each_loss
@pytest.mark.parametrize("draw", [mixed_signs, apart], ids=["together", "apart"])
@pytest.mark.parametrize(("n", "m", "C"), [(12, 1, 1.0), (20, 3, 0.1), (25, 4, 10.0), (40, 5, 1.0), (30, 6, 100.0)])
def test_agrees_with_the_semidefinite_programme(n, m, C, draw, loss, linear_terms):
    problem = prepared(draw(n, m, n + m), n, linear_terms, loss, C)
    found, (best, accuracy) = solve(problem, tol=1e-5), optimum(problem)
    assert found.converged, found.certificate
    cones = 1e-5 if isinstance(loss, losses.Logistic) else 1e-6  # Clarabel's exponential cones are less precise
    slack = cones + 10 * accuracy
    assert found.certificate.lower <= best * (1 + slack)
    assert found.certificate.upper >= best * (1 - slack)
    assert found.certificate.upper == pytest.approx(best, rel=1e-4)
    assert np.linalg.norm(found.weights) == pytest.approx(1.0)
    assert found.weights.min() >= 0


@each_loss
@pytest.mark.parametrize(("n", "m", "C"), [(20, 3, 0.1), (120, 2, 10.0)])
def test_agrees_with_the_semidefinite_programme_without_a_bias(n, m, C, loss):
    problem = prepared(mixed_signs(n, m, n + m), n, True, loss, C, bias=False)
    found, (best, accuracy) = solve(problem, tol=1e-5), optimum(problem)
    assert found.converged and found.intercept == 0.0
    assert found.certificate.lower <= best * (1 + 1e-5 + 10 * accuracy)
    assert found.certificate.upper == pytest.approx(best, rel=1e-4)


@pytest.mark.parametrize("loss", [losses.Hinge(), losses.SquaredHinge(), losses.Logistic()], ids=label)
@pytest.mark.parametrize(("n", "tol"), [(90, 1e-3), (150, 1e-3), (150, 1e-6)])
def test_huge_costs_with_kernels_of_low_rank(n, tol, loss):
    """Where machines do not get there in reasonable time, they are trained on features of the combined kernel."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    stack = np.stack([np.outer(x, x) for x in X.T], axis=2)
    found, modest = (solve(paired(DenseGram(stack), loss.bind(y, C), SpectralNorm()), tol=tol) for C in (1e6, 1e2))
    assert found.converged and modest.converged
    assert found.n_iter <= 40
    assert found.certificate.upper > 0.9e4 * modest.certificate.lower


@pytest.mark.parametrize("loss", [losses.Hinge(), losses.Logistic()], ids=label)
def test_small_problems_without_a_bias_take_few_machines(loss):
    rng = np.random.default_rng(90)
    X, y = rng.normal(size=(90, 5)), rng.random(90) < 0.5
    bank = K.rbf(gamma=[0.1, 1.0]) + K.linear()
    model = kw.MKLClassifier(bank, penalty="spectral", C=100.0, loss=loss, fit_intercept=False).fit(X, y)
    assert model.dual_gap_ <= 1e-3 and model.n_iter_ <= 20


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("draw", [mixed_signs, apart], ids=["together", "apart"])
def test_the_gap_is_never_negative_and_machines_are_few(draw, seed):
    rng = np.random.default_rng(seed)
    n, m, C = int(rng.integers(101, 160)), int(rng.integers(2, 9)), float(rng.choice([0.1, 1.0, 10.0, 1000.0]))
    bounds = []
    found = solve(prepared(draw(n, m, seed), seed, C=C), tol=1e-5, callbacks=[lambda i, now, point: bounds.append(now)])
    assert found.converged
    assert found.n_iter <= 40
    for now in [*bounds, found.certificate]:
        assert now.lower <= now.upper * (1 + 1e-10)


@pytest.mark.parametrize("C", [1.0, 10.0, 100.0])
@pytest.mark.parametrize("seed", range(3))
@each_terms
def test_fifteen_machines_are_enough(C, seed, linear_terms):
    """On data that no product separates, so that C matters: many duals end at their bound."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 5))
    y = np.where(X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + rng.normal(size=300) > 0, 1.0, -1.0)
    kernels = []
    for k in range(20):
        A = X[:, [k % 5]] if k % 3 else X[:, [k % 5, (k + 1) % 5]]
        far = ((A[:, None] - A) ** 2).sum(axis=2)
        kernel = A @ A.T if k % 4 == 0 else np.exp(-far * [0.01, 0.05, 0.2][k % 3])
        kernels.append(kernel * 300 / np.trace(kernel))
    problem = paired(DenseGram(np.stack(kernels, axis=2)), losses.Hinge().bind(y, C), SpectralNorm(linear_terms))
    found = solve(problem, tol=1e-4)
    assert found.converged
    assert found.n_iter <= 15
    assert np.count_nonzero(np.abs(found.beta) > 0.999 * C) > 50


def test_many_kernels_cost_a_few_passes_and_no_matrix(monkeypatch):
    """With 200 kernels a machine's energies are read some thirty times, each entry once; their matrix is not formed."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=120) > 0, 1.0, -1.0)
    far = (X[:, None] - X) ** 2
    stack = np.exp(-np.stack([far @ rng.dirichlet(np.ones(6)) * rng.choice([0.1, 1.0]) for _ in range(200)], axis=2))
    problem = paired(DenseGram(stack), losses.Hinge().bind(y, 1.0), SpectralNorm())
    formed = solve(paired(DenseGram(stack[:, :, :100]), losses.Hinge().bind(y, 1.0), SpectralNorm()), tol=1e-5)
    passes = []
    times = products.ProductEnergies.pull
    monkeypatch.setattr(products.ProductEnergies, "pull", lambda self, u: (passes.append(1), times(self, u))[1])
    monkeypatch.setattr(products, "FORMED", 50)
    monkeypatch.delattr(products.ProductEnergies, "matrix")
    assert solve(problem, tol=1e-5).converged
    hundred = paired(DenseGram(stack[:, :, :100]), losses.Hinge().bind(y, 1.0), SpectralNorm())
    passes.clear()
    found = solve(hundred, tol=1e-5)
    assert len(passes) <= 40 * found.n_iter
    assert_allclose(found.weights, formed.weights, atol=1e-4)


def test_a_start_is_taken_up():
    problem = prepared(mixed_signs(120, 4, 0))
    cold = solve(problem, tol=1e-6)
    warm = solve(problem, tol=1e-6, start=cold.beta)
    assert warm.n_iter < cold.n_iter


@pytest.mark.parametrize("penalty", PENALTIES, ids=label)
def test_frank_wolfe_refuses_penalties_on_kernels(penalty):
    problem = Problem(DenseGram(STACK), losses.Hinge().bind(Y, 1.0), sized(penalty, 3))
    with pytest.raises(ValueError, match="works on products of kernels, which DenseGram does not have"):
        solve(problem, "frank-wolfe")


@pytest.mark.parametrize("solver", [*SOLVERS, "mwu"])
def test_other_solvers_refuse_products(solver):
    with pytest.raises(ValueError, match=f"solver '{solver}' works on .*, which ProductGram does not have"):
        solve(prepared(mixed_signs(10, 2, 0)), solver)


def test_kernels_that_do_nothing_get_no_weight():
    stack = np.concatenate([mixed_signs(30, 2, 0), np.zeros((30, 30, 1))], axis=2)
    found = solve(prepared(stack))
    assert found.converged
    assert found.weights[2] == 0
    assert solve(prepared(np.zeros((8, 8, 2)))).status is Status.CONVERGED


def test_copies_of_a_kernel_change_nothing():
    """Two copies with half the square each are one: K_u is the same for every u."""
    stack = mixed_signs(40, 3, 0)
    twice = np.concatenate([stack[:, :, :1] / np.sqrt(2), stack[:, :, :1] / np.sqrt(2), stack[:, :, 1:]], axis=2)
    one, two = (solve(prepared(s), tol=1e-9).certificate.upper for s in (stack, twice))
    assert one == pytest.approx(two, rel=1e-7)


def test_permuting_samples_and_kernels_permutes_the_answer(rng):
    stack, y = mixed_signs(40, 4, 0), labels(40, 0)
    rows, kernels = rng.permutation(40), rng.permutation(4)
    there = paired(DenseGram(stack), losses.Hinge().bind(y, 1.0), SpectralNorm(False))
    shuffled = DenseGram(stack[np.ix_(rows, rows, kernels)])
    here = paired(shuffled, losses.Hinge().bind(y[rows], 1.0), SpectralNorm(False))
    assert_allclose(solve(here, tol=1e-9).weights, solve(there, tol=1e-9).weights[kernels], atol=1e-5)


def test_projected_gradients_end_where_the_certificate_says():
    """Weights u in a ball, published as a problem with local optima, have none: every start leads to one value."""
    stack, y = mixed_signs(25, 3, 1), labels(25, 1)
    certified = solve(prepared(stack, 1, linear_terms=False), tol=1e-6).certificate.upper

    def machine(u):
        kernel = DenseGram(((stack @ u) ** 2)[:, :, None])
        problem = Problem(kernel, losses.Hinge().bind(y), penalties.Fixed([1.0]))
        found = solve(problem, tol=1e-8)
        return found.certificate.upper, ProductGram(DenseGram(stack)).energies(found.beta).pull(u)

    for u in ([1.0, 0.01, 0.01], [0.01, 1.0, 0.01], [0.01, 0.01, 1.0]):
        value, fall = machine(np.array(u))
        for size in np.geomspace(1.0, 1e-3, 60):
            ahead = np.maximum(u + size * fall / np.linalg.norm(fall), 0.0)
            ahead /= max(np.linalg.norm(ahead), 1.0)
            there = machine(ahead)
            if there[0] < value:
                u, (value, fall) = ahead, there
        assert value == pytest.approx(certified, rel=1e-3)
        assert value >= certified * (1 - 1e-6)


# -- more than two --


@each_build
@pytest.mark.parametrize("degree", [2, 3, 4])
def test_energies_of_higher_degree(build, degree, rng):
    stack, beta, u = mixed_signs(13, 4, 2), rng.normal(size=13), rng.random(5)
    gram = ProductGram(build(stack, None), linear_terms=True, degree=degree)
    mixed = with_unity(stack) @ u
    pull = np.einsum("i,ij,ija,j->a", beta, mixed ** (degree - 1), with_unity(stack), beta)
    assert_allclose(products.ProductEnergies(gram, beta).pull(u), pull, rtol=1e-9)
    assert_allclose(gram.decision(beta, u), mixed**degree @ beta, rtol=1e-9)
    assert_allclose(gram.combine(np.arange(13), u), mixed**degree, rtol=1e-9)


@pytest.mark.parametrize("degree", [3, 4])
def test_no_weights_of_length_one_have_more_energy_than_the_largest(degree, rng):
    for seed in range(5):
        gram = ProductGram(DenseGram(mixed_signs(20, 4, seed)), degree=degree)
        energies = gram.energies(rng.normal(size=20))
        top = energies.top
        assert np.sum(top.weights**degree) == pytest.approx(1.0)
        assert top.upper - top.lower <= 1e-6 * top.upper
        for share in rng.dirichlet(np.full(4, 0.5), size=50):
            u = share ** (1.0 / degree)
            assert u @ energies.pull(u) <= top.upper * (1 + 1e-12)


@each_terms
@each_loss
@pytest.mark.parametrize(
    ("degree", "n", "m", "C"), [(2, 25, 4, 1.0), (3, 20, 2, 1.0), (3, 25, 3, 10.0), (4, 20, 2, 0.1)]
)
def test_powers_of_any_degree_agree_with_clarabel(degree, n, m, C, loss, linear_terms):
    stack = mixed_signs(n, m, n) / 2.0
    problem = paired(DenseGram(stack), loss.bind(labels(n, n), C), SpectralNorm(linear_terms, degree))
    found, (best, accuracy) = solve(problem, tol=1e-6), optimum_over_shares(problem)
    assert found.converged
    assert found.certificate.lower <= best * (1 + 1e-6 + 10 * accuracy)
    assert found.certificate.upper == pytest.approx(best, rel=1e-5)
    assert np.sum(found.weights**degree) == pytest.approx(1.0)


def test_a_cube_is_a_model_like_any_other(data, bank):
    X, y = data
    model = kw.MKLClassifier(bank, penalty=SpectralNorm(degree=3)).fit(X[:120], y[:120])
    factors = model.weights_ * model.kernel_scales_
    mixed = np.stack([kernel(X, X[model.support_]) for kernel in bank], axis=2) @ factors[:3] + factors[3]
    assert_allclose(model.decision_function(X), mixed**3 @ model.dual_coef_ + model.intercept_, rtol=1e-9, atol=1e-9)
    assert model.dual_gap_ <= 1e-3
    assert not hasattr(model, "pair_weights_")


# -- models --


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(180, 6, n_informative=4, random_state=0)
    return X, y


@pytest.fixture(scope="module")
def bank():
    return K.rbf(gamma=[0.05, 0.5]) + K.linear()


def squared(model, bank, X, Z):
    """Return the kernel that a model has learned, from its attributes."""
    factors = model.weights_ * model.kernel_scales_
    stack = np.stack([kernel(X, Z) for kernel in bank], axis=2)
    return (stack @ factors[: len(bank)] + factors[len(bank) :].sum()) ** 2


@each_terms
@pytest.mark.parametrize("normalize", ["trace", "dimension", "tail"])
def test_features_of_full_rank_are_the_kernels_at_every_size(data, bank, linear_terms, normalize):
    X, y = data[0][:60], data[1][:60]
    settings = {"penalty": SpectralNorm(linear_terms=linear_terms), "normalize": normalize, "tol": 1e-7}
    kernels = kw.MKLClassifier(bank, **settings).fit(X, y)
    features = kw.MKLClassifier(bank, approximation=kw.Nystroem(rank=60), random_state=0, **settings).fit(X, y)
    assert_allclose(features.kernel_scales_, kernels.kernel_scales_, rtol=1e-6)
    new = data[0][60:]
    assert_allclose(features.decision_function(new), kernels.decision_function(new), rtol=1e-3, atol=1e-3)


@each_terms
def test_decision_function_is_the_expansion_of_the_fitted_attributes(data, bank, linear_terms):
    X, y = data
    model = kw.MKLClassifier(bank, penalty=SpectralNorm(linear_terms)).fit(X[:120], y[:120])
    expected = squared(model, bank, X, X[model.support_]) @ model.dual_coef_ + model.intercept_
    assert_allclose(model.decision_function(X), expected, rtol=1e-9, atol=1e-9)
    assert model.kernel_names_[3:] == ["unity"] * linear_terms
    assert_allclose(model.pair_weights_, np.outer(model.weights_, model.weights_))


def test_linear_terms_are_there_twice(data, bank):
    """The model is a machine on sum_ab Z_ab K_a K_b + 2 sum_a Z_0a K_a, up to a constant."""
    X, y = data
    model = kw.MKLClassifier(bank, penalty="spectral", normalize=None, C=2.0, tol=1e-9).fit(X[:90], y[:90])
    stack = np.stack([kernel(X[:90]) for kernel in bank], axis=2)
    Z = model.pair_weights_
    kernel = np.einsum("ija,ijb,ab->ij", stack, stack, Z[:3, :3]) + 2.0 * stack @ Z[3, :3]
    theirs = SVC(kernel="precomputed", C=2.0, tol=1e-9).fit(kernel, y[:90])
    assert_allclose(model.decision_function(X[:90]), theirs.decision_function(kernel), atol=1e-4)


def test_one_kernel_is_svc_on_its_square(data):
    X, y = data
    ours = kw.MKLClassifier(K.RBF(gamma=0.1), penalty=SpectralNorm(False), tol=1e-8).fit(X, y)
    theirs = SVC(gamma=0.2, tol=1e-9).fit(X, y)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)
    assert_allclose(ours.pair_weights_, [[1.0]])


def test_several_classes_have_pair_weights_each(bank):
    X, y = load_iris(return_X_y=True)
    model = kw.recipe("nuc-mkl", bank).fit(X, y)
    assert model.pair_weights_.shape == (3, 4, 4)
    assert model.score(X, y) > 0.95
    assert_allclose(np.trace(model.pair_weights_, axis1=1, axis2=2), 1.0)
    ovo = kw.recipe("nuc-mkl", bank, multiclass="ovo").fit(X, y)
    assert ovo.score(X, y) > 0.95


def test_precomputed_and_on_demand_are_the_same_machine(data, bank):
    X, y = data
    stack = np.stack([kernel(X) for kernel in bank], axis=2)
    direct = kw.recipe("nuc-mkl", bank, tol=1e-6).fit(X[:120], y[:120])
    ready = kw.recipe("nuc-mkl", "precomputed", tol=1e-6).fit(stack[:120, :120], y[:120])
    assert_allclose(ready.decision_function(stack[:, :120]), direct.decision_function(X), atol=1e-6)
    demand = kw.recipe("nuc-mkl", bank, tol=1e-6, memory=2e4).fit(X[:120], y[:120])
    assert demand.storage_.startswith("columns on demand") and demand.storage_.endswith("products not stored")
    assert_allclose(demand.decision_function(X), direct.decision_function(X), atol=1e-6)


def test_clipped_kernels_are_squared_after_clipping(data):
    X, y = data
    sigmoid = K.Sigmoid(gamma=0.3, coef0=-1.0)
    model = kw.recipe("nuc-mkl", [sigmoid, "linear"], psd="clip", tol=1e-6).fit(X, y)
    values, vectors = np.linalg.eigh(sigmoid(X))
    assert values[0] < -0.1
    clipped = (vectors * np.maximum(values, 0.0)) @ vectors.T
    stack = np.stack([clipped, X @ X.T], axis=2)
    ready = kw.recipe("nuc-mkl", "precomputed", tol=1e-6).fit(stack, y)
    assert_allclose(model.decision_function(X), ready.decision_function(stack), atol=1e-5)


def test_prediction_in_small_blocks_is_the_same(data, bank, monkeypatch):
    X, y = data
    model = kw.recipe("nuc-mkl", bank).fit(X, y)
    whole = model.decision_function(X)
    monkeypatch.setattr("kernelweave.assemble.expansion.BLOCK", 8 * 7 * len(model.support_))
    assert_allclose(model.decision_function(X), whole, rtol=1e-12)


def test_round_trips_and_tools(data, bank):
    X, y = data
    model = kw.recipe("nuc-mkl", bank).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert clone(model).set_params(penalty=SpectralNorm(), penalty__linear_terms=False).penalty.linear_terms is False
    grid = {"C": [0.1, 10.0], "penalty__linear_terms": [True, False]}
    search = GridSearchCV(kw.MKLClassifier(bank, penalty=SpectralNorm()), grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.8
    stack = np.stack([kernel(X) for kernel in bank], axis=2)
    scores = [cross_val_score(kw.recipe("nuc-mkl", b, tol=1e-6), A, y) for b, A in ((bank, X), ("precomputed", stack))]
    assert_allclose(*scores, atol=1e-12)
    along = kw.path(kw.recipe("nuc-mkl", bank), X, y, C=[0.1, 1.0, 10.0])
    assert along.weights.shape == (3, 4)
    assert along.gaps.max() <= 1e-3


def test_other_penalties_have_no_pair_weights(data, bank):
    X, y = data
    model = kw.MKLClassifier(bank).fit(X, y)
    assert not hasattr(model, "pair_weights_")
    assert not hasattr(kw.recipe("nuc-mkl"), "pair_weights_")
    with pytest.raises(AttributeError, match=r"SpectralNorm\(degree=2\)"):
        _ = model.pair_weights_


def test_zero_kernels_are_left_out(data, bank):
    X, y = data
    zero = K.Callable(lambda A, B: np.zeros((len(A), len(B))), "nothing", psd=True)
    with pytest.warns(UserWarning, match="weight 0: nothing"):
        model = kw.recipe("nuc-mkl", [zero, *bank]).fit(X, y)
    assert model.kernel_names_[0] == "nothing" and model.kernel_names_[-1] == "unity"
    assert_allclose(model.weights_[1:], kw.recipe("nuc-mkl", bank).fit(X, y).weights_)
    assert model.weights_[0] == 0


def test_pairs_are_drawn(data, bank):
    X, y = data
    model = kw.recipe("nuc-mkl", bank).fit(X, y)
    axes = kw.plot.pairs(model, ax=kw.plot.canvas(), names=["a", "b", "c", "1"])
    shown = axes.images[0].get_array()
    order = np.argsort(-model.weights_)
    assert_allclose(shown, model.pair_weights_[np.ix_(order, order)])
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [["a", "b", "c", "1"][k] for k in order]
    assert kw.plot.pairs(model, top=2, ax=kw.plot.canvas()).images[0].get_array().shape == (2, 2)
    with pytest.raises(ValueError, match="names has 1 entries for 4 kernels"):
        kw.plot.pairs(model, ax=kw.plot.canvas(), names=["one"])
    with pytest.raises(ValueError, match="top must be at least 1"):
        kw.plot.pairs(model, top=0, ax=kw.plot.canvas())
    with pytest.raises(ValueError, match="was fitted without weights of products: fit with penalty='spectral'"):
        kw.plot.pairs(kw.MKLClassifier(bank).fit(X, y))


def test_the_example_shows_what_it_says(capsys):
    accuracy = runpy.run_path(str(EXAMPLE))["main"]()
    *sums, product = accuracy.values()
    assert max(sums) < 0.6
    assert product > 0.88
    assert "face, narrow" in capsys.readouterr().out


def test_auto_takes_frank_wolfe():
    assert isinstance(solvers.make_solver("auto", prepared(STACK)), solvers.FrankWolfe)


def test_a_machine_that_ran_out_of_steps_goes_on(rng):
    X = 10.0 * rng.normal(size=(150, 2))
    y = rng.random(150) < 0.4
    model = kw.MKLClassifier(K.linear(), penalty=SpectralNorm(False), normalize=None, C=10).fit(X, y)
    assert model.dual_gap_ <= 1e-3


@pytest.mark.parametrize(
    "M", [np.diag(1 - 1e-7 * np.arange(50)), np.kron(np.diag(np.linspace(0.99, 1, 100)), [[0, 1.0], [1, 0]])]
)
def test_the_largest_energy_of_near_ties_is_bracketed(M):
    class Pulled:
        degree = 2

        def pull(self, weights):
            return M @ weights

    top = largest(Pulled(), len(M))
    value = float(np.linalg.eigvalsh(M)[-1])
    assert 0.98 * value <= top.lower <= value * (1 + 1e-12)
    assert value * (1 - 1e-12) <= top.upper <= 1.02 * value
    assert top.weights @ (M @ top.weights) == pytest.approx(top.lower, rel=1e-9)


def test_a_combined_kernel_beyond_memory_is_refused(monkeypatch, rng):
    monkeypatch.setattr("kernelweave.grams.products.COMBINED", 1000)
    X = rng.normal(size=(60, 2))
    model = kw.MKLClassifier(K.rbf(gamma=[0.1, 1.0]), penalty="spectral", memory=10_000)
    with pytest.raises(ValueError, match="penalty='spectral' needs one combined kernel of 60 samples"):
        model.fit(X, X[:, 0] > 0)


# -- on features of low rank --


def narrow(n, m=3, seed=0, rank=2, dtype=float):
    """Return kernels of low rank as features and as matrices, and labels that a product tells apart."""
    rng = np.random.default_rng(seed)
    parts = [rng.uniform(0.5, 1.5) * rng.normal(size=(n, rank)).astype(dtype) for _ in range(m)]
    y = np.where(parts[0][:, 0] * parts[1][:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return LowRankGram(np.hstack(parts), [rank] * m), DenseGram(np.stack([V @ V.T for V in parts], axis=2)), y


@each_terms
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_features_are_those_of_their_kernels(linear_terms, dtype, rng, monkeypatch):
    factors = narrow(40, dtype=dtype)[0]
    exact = np.stack([V @ V.T for V in np.split(factors.features.astype(float), 3, axis=1)], axis=2)
    beta = rng.normal(size=40) * (rng.random(40) > 0.4)
    view, twin = FactorProducts(factors, linear_terms), ProductGram(DenseGram(exact), linear_terms)
    u, index = rng.random(view.shape[1]), np.array([3, 1, 16])
    assert view.shape == twin.shape == (40, 3 + linear_terms)
    for chunk in (2**22, 20):
        monkeypatch.setattr("kernelweave.grams.lowrank.CHUNK", chunk)
        assert_allclose(view.energies(beta).matrix, twin.energies(beta).matrix, rtol=1e-9)
        assert_allclose(view.decision(beta, u), twin.decision(beta, u), rtol=1e-9, atol=1e-9)
    assert_allclose(view.combine(index, u), twin.combine(index, u), rtol=1e-9)
    assert_allclose(view.diagonal(), twin.diagonal(), rtol=1e-9)
    assert_allclose(view.take(index).combine(np.arange(3), u), twin.combine(index, u), rtol=1e-9)
    u[1] = 0.0
    square = view.features(u)
    assert square.shape == (40, 1)
    assert square.features.shape[1] == (4 + linear_terms) * (5 + linear_terms) // 2  # columns without weight stay out
    assert_allclose(square.decision(beta, np.ones(1)), twin.decision(beta, u), rtol=1e-9, atol=1e-9)


@each_terms
@each_loss
@pytest.mark.parametrize("n", [30, 150], ids=["kernel", "features"])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_features_lead_to_the_answer_of_their_kernels(n, C, loss, linear_terms):
    factors, dense, y = narrow(n)
    ours, theirs = (paired(gram, loss.bind(y, C), SpectralNorm(linear_terms)) for gram in (factors, dense))
    assert ours.gram.explicit is (n == 150)
    found, twin = solve(ours, tol=1e-7), solve(theirs, tol=1e-7)
    assert found.converged and found.solver == "frank-wolfe"
    again = certify(theirs, Point(found.coef, found.weights))
    assert again.upper == pytest.approx(found.certificate.upper, rel=1e-9)
    assert found.certificate.lower <= twin.certificate.upper * (1 + 1e-10)
    assert found.certificate.upper >= twin.certificate.lower * (1 - 1e-10)
    assert_allclose(found.weights, twin.weights, atol=1e-3)
    f, g = (p.gram.decision(s.coef, s.weights) + s.intercept for p, s in ((ours, found), (theirs, twin)))
    assert_allclose(f, g, atol=2e-3 * np.abs(g).max())


@pytest.mark.parametrize("explicit", [True, False], ids=["features", "kernel"])
@pytest.mark.parametrize(
    ("linear_terms", "value", "weights"),
    [(False, 1.859652, (0.43167, 0.82228, 0.37084)), (True, 1.719928, (0.40026, 0.80640, 0.32589, 0.28863))],
)
def test_known_values_from_features(explicit, linear_terms, value, weights, monkeypatch):
    monkeypatch.setattr("kernelweave.grams.factorproducts.FEW", 0 if explicit else 1)
    problem = paired(factored(STACK, None), losses.Hinge().bind(Y, 1.0), SpectralNorm(linear_terms))
    assert problem.gram.explicit is explicit
    found = solve(problem, tol=1e-10)
    assert found.gap <= 1e-10
    assert found.certificate.upper == pytest.approx(value, rel=1e-6)
    assert_allclose(found.weights, weights, atol=2e-5)


def test_machines_on_features_begin_with_the_last_duals(monkeypatch):
    factors, _, y = narrow(150)
    problem = paired(factors, losses.Hinge().bind(y, 1.0), SpectralNorm())
    starts = []

    def watched(machine, tol, start, max_iter):
        starts.append(start.copy())
        return solve(machine, tol=tol, start=start)

    monkeypatch.setattr("kernelweave.solvers.frank_wolfe.solve_quietly", watched)
    found = solve(problem, tol=1e-6)
    assert len(starts) == found.n_iter > 2
    assert not starts[0].any() and all(start.any() for start in starts[1:])
    warm = solve(problem, tol=1e-6, start=found.beta)
    assert warm.n_iter < found.n_iter


@pytest.mark.parametrize("which", [1, 2])
def test_an_interrupted_machine_on_features_ends_the_fit_with_what_it_has(which, monkeypatch):
    factors, _, y = narrow(150)
    machines = []

    def interrupted(machine, tol, start, max_iter):
        machines.append(solve(machine, tol=tol, start=start))
        return replace(machines[-1], status=Status.INTERRUPTED) if len(machines) == which else machines[-1]

    monkeypatch.setattr("kernelweave.solvers.frank_wolfe.solve_quietly", interrupted)
    with pytest.warns(RuntimeWarning, match="interrupted"):
        found = solve(paired(factors, losses.Hinge().bind(y, 1.0), SpectralNorm()), tol=1e-9)
    assert found.status is Status.INTERRUPTED and len(machines) == which
    assert 0 < found.certificate.lower < found.certificate.upper < np.inf
    assert found.history.lower[-1] <= found.certificate.upper


def test_machines_on_features_that_stall_end_the_fit(monkeypatch):
    """A machine that has no more to give is not asked for more, and the gap reached is told."""
    factors, _, y = narrow(150)
    asked = []

    def stalled(machine, tol, start, max_iter):
        asked.append(tol)
        found = solve(machine, tol=max(tol, 1e-4), start=start)
        return replace(found, status=Status.STALLED) if tol < 1e-4 else found

    monkeypatch.setattr("kernelweave.solvers.frank_wolfe.solve_quietly", stalled)
    found = solve(paired(factors, losses.Hinge().bind(y, 1.0), SpectralNorm()), tol=1e-8)
    assert found.status is Status.STALLED
    assert 1e-8 < found.gap < 1e-2
    assert min(asked[1:]) > 1e-5


@pytest.mark.parametrize("solver", [*SOLVERS, *FACTORS, "mwu"])
def test_other_solvers_refuse_products_of_features(solver):
    factors, _, y = narrow(20)
    with pytest.raises(ValueError, match=f"solver '{solver}' works on .*, which FactorProducts does not have"):
        solve(paired(factors, losses.Hinge().bind(y, 1.0), SpectralNorm()), solver)


def test_products_of_features_are_refused_where_there_are_none():
    factors, _, y = narrow(20)
    with pytest.raises(ValueError, match="use degree=2, or approximation=None"):
        paired(factors, losses.Hinge().bind(y, 1.0), SpectralNorm(degree=3))
    with pytest.raises(ValueError, match="use degree=2, or approximation=None"):
        kw.MKLClassifier(penalty=SpectralNorm(degree=3), approximation="nystroem").fit("not looked at", y)
    problem = paired(factors, losses.Hinge().bind(y, 1.0), SpectralNorm())
    with pytest.raises(ValueError, match="weighs kernels, not products of them"):
        replace(problem, penalty=penalties.L1())
    with pytest.raises(ValueError, match="differs between the penalty and FactorProducts"):
        replace(problem, penalty=SpectralNorm(linear_terms=False))


def test_products_of_features_run_on_numpy(xp):
    factors, _, _ = narrow(20)
    if xp is np:
        pytest.skip("these are its own")
    with pytest.raises(TypeError, match="Products of kernels run on NumPy, and the features are a"):
        FactorProducts(LowRankGram(xp.asarray(factors.features), factors.ranks))
    model = kw.recipe("nuc-mkl", "linear", approximation=kw.Nystroem(rank=3))
    with pytest.raises(TypeError, match="convert X yourself, or use a penalty that adds kernels, such as 'lp'"):
        model.fit(xp.asarray(factors.features), factors.features[:, 0] > 0)


def test_products_of_features_beyond_memory_are_refused(data, bank):
    X, y = data
    model = kw.recipe("nuc-mkl", bank, approximation=kw.Nystroem(rank=2), random_state=0)
    needed = 8 * len(X) * 7 * 8 // 2  # two columns of each kernel, and the one of ones
    assert model.set_params(memory=needed).fit(X, y).storage_.endswith(", products 39.4 KiB")
    with pytest.raises(ValueError, match=r"180 samples, 28 products\), but memory=40319 allows .* use a smaller rank"):
        model.set_params(memory=needed - 1).fit(X, y)


@each_terms
@pytest.mark.parametrize("explicit", [True, False], ids=["features", "kernel"])
def test_an_approximation_of_full_rank_changes_nothing(data, bank, linear_terms, explicit):
    X, y = data
    bank = K.linear(on=[0, 1]) + K.linear(on=[2, 3]) if explicit else bank
    plain = kw.MKLClassifier(bank, penalty=SpectralNorm(linear_terms), C=0.1, tol=1e-9)
    model = clone(plain).set_params(approximation=kw.Nystroem(rank=120)).fit(X[:120], y[:120])
    plain.fit(X[:120], y[:120])
    assert_allclose(model.weights_, plain.weights_, atol=1e-5)
    assert_allclose(model.pair_weights_, plain.pair_weights_, atol=1e-5)
    assert_allclose(model.decision_function(X), plain.decision_function(X), atol=1e-4)
    assert model.objective_ == pytest.approx(plain.objective_, rel=1e-8)
    assert model.kernel_names_ == plain.kernel_names_
    assert_allclose(model.approximation_error_, 0.0, atol=1e-9)
    assert len(model.approximation_error_) == len(model.weights_)


@pytest.mark.parametrize("approximation", ["nystroem", "cholesky", kw.RandomFeatures(rank=30)], ids=label)
@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_several_classes_on_features(approximation, multiclass):
    X, y = load_iris(return_X_y=True)
    bank = K.rbf(gamma=[0.1, 1.0])
    model = kw.recipe("nuc-mkl", bank, approximation=approximation, multiclass=multiclass, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.95
    assert model.pair_weights_.shape == (3, 3, 3)
    assert model.dual_gap_ <= 1e-3


def test_models_on_features_round_trip_and_report(data, bank, monkeypatch):
    X, y = data
    model = kw.recipe("nlmkl-p2", bank, approximation=kw.Nystroem(rank=3), random_state=0).fit(X.astype(np.float32), y)
    values = model.decision_function(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).decision_function(X), values)
    again = clone(model).fit(X.astype(np.float32), y)
    assert_allclose(again.decision_function(X), values)
    assert "certified for the approximated kernels" in model.summary()
    assert "low rank float32, 3 kernels, 9 columns" in model.storage_
    monkeypatch.setattr("kernelweave.assemble.expansion.BLOCK", 8 * 9 * 7)
    assert_allclose(model.decision_function(X), values, rtol=1e-9)
    along = kw.path(kw.recipe("nuc-mkl", bank, approximation=kw.Nystroem(rank=3), random_state=0), X, y, C=[0.1, 1.0])
    assert along.weights.shape == (2, 4) and along.gaps.max() <= 1e-3


def test_kernels_left_out_have_no_features(data, bank):
    X, y = data
    zero = K.Callable(lambda A, B: np.zeros((len(A), len(B))), "nothing", psd=True)
    ranked = {"approximation": kw.Nystroem(rank=3), "random_state": 0}
    with pytest.warns(UserWarning, match="weight 0: nothing"):
        model = kw.recipe("nuc-mkl", [zero, *bank], **ranked).fit(X, y)
    plain = kw.recipe("nuc-mkl", bank, **ranked).fit(X, y)
    assert_allclose(model.weights_, np.append(0.0, plain.weights_))
    assert_allclose(model.decision_function(X), plain.decision_function(X))


def test_a_model_on_features_without_coefficients_is_its_intercept(data, bank):
    X, y = data
    prepared = kw.recipe("nuc-mkl", bank, approximation=kw.Nystroem(rank=3), random_state=0)._prepare(X, y)
    weights, coef = np.full((1, 4), 0.5), np.zeros((1, 180))
    predictor = prepared.assembly.predictor(prepared.targets, weights, coef, np.array([0.25]))
    assert_allclose(predictor.decide(X), 0.25)
