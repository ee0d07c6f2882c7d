"""Kernels learned otherwise than as weighted sums: derivatives, descents, machines, and what is said of the answers."""

from __future__ import annotations

import pickle
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data as equivalent_dense,
)
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_sparse_data as equivalent_sparse,
)

import kernelweave as kw
from kernelweave import DenseGram, Problem, penalties, solve
from kernelweave import kernels as K
from kernelweave.assemble import Options, from_samples, squared_sum
from kernelweave.assemble.combined import GatedSum
from kernelweave.estimators.nonconvex import MODELS, SLOW, Walk
from kernelweave.penalties import SpectralNorm
from kernelweave.problem import Stationarity, Status
from kernelweave.solvers import svm
from kernelweave.solvers.base import too_slow

BANK = K.rbf(gamma=[0.05, 0.5]) + K.linear()
each_model = pytest.mark.parametrize("model", MODELS)
each_power = pytest.mark.parametrize("power", [1, 2])


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(150, 5, n_informative=4, n_redundant=0, random_state=0)
    return X * [1.0, 2.0, 0.5, 1.0, 3.0] + [0.0, 5.0, 0.0, -1.0, 0.0], y


def bank_of(model):
    return K.rbf(on="each") + K.rbf(gamma=0.3, on=[0, 1]) if model == "gmkl" else BANK


def made(model, **params):
    return kw.NonconvexMKLClassifier(bank_of(model), model=model, **params)


def prepared(model, X, y, **params):
    """Return what the parameters combine, and the machine at some parameters, with its value and gradient."""
    estimator = made(model, **params)
    given = estimator._prepare(X, y)
    combination, y = given.assembly, given.subproblems[0].y

    def machine(theta, tol=1e-12):
        kernel = combination.kernel(theta)
        problem = Problem(DenseGram(kernel[:, :, None]), given.loss.bind(y, estimator.C), penalties.Fixed([1.0]))
        found = solve(problem, tol=tol)
        price, slope = combination.price(theta)
        value = 0.5 * (found.certificate.lower + found.certificate.upper) + price
        return value, combination.gradient(theta, found.beta, kernel) + slope, found

    return combination, machine


def allowed(combination, rng):
    """Return parameters inside what is allowed, so that they can move either way."""
    start = combination.start
    return start * rng.uniform(0.3, 0.9, start.size) + (0.0 if start.any() else 0.5) * rng.normal(size=start.size)


# -- derivatives --


@each_power
@each_model
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_gradients_are_those_of_the_machines_value(model, power, loss, data, rng):
    X, y = data[0][:40], data[1][:40]
    combination, machine = prepared(model, X, y, loss=loss, C=0.7, price=2.0, power=power)
    theta = allowed(combination, rng)
    _, gradient, _ = machine(theta)
    for _ in range(6):
        way = rng.normal(size=theta.size)
        way *= 1e-4 * np.abs(theta).min() / np.abs(way).max() if theta.min() > 0 else 1e-5
        change = machine(theta + way)[0] - machine(theta - way)[0]
        size = np.linalg.norm(gradient) * np.linalg.norm(way)
        assert change / 2 == pytest.approx(gradient @ way, rel=1e-4, abs=1e-6 * size)


@each_model
def test_kernels_are_what_they_say(model, data, rng):
    X, y = data
    combination, _ = prepared(model, X, y, normalize=None)
    theta = allowed(combination, rng)
    stack = np.stack([kernel(X) for kernel in BANK], axis=2)
    if model == "nlmkl-p1":
        expected = (stack @ theta) ** 2
    elif model == "gmkl":
        far = (X[:, None] - X) ** 2
        widths = theta[:5] / X.var(axis=0) + theta[5] * 0.3 * np.array([1, 1, 0, 0, 0])
        expected = np.exp(-far @ widths)
    else:
        table = theta.reshape(3, 6)
        scores = (X - X.mean(axis=0)) / X.std(axis=0) / np.sqrt(5) @ table[:, :5].T + table[:, 5]
        odds = np.exp(scores)
        eta = odds / (odds.sum(axis=1, keepdims=True) if model == "lmkl-softmax" else 1 + odds)
        expected = np.einsum("ik,ijk,jk->ij", eta, stack, eta)
        assert_allclose(combination.weights(theta), eta.mean(axis=0))
    assert_allclose(combination.kernel(theta), expected, rtol=1e-9, atol=1e-12)


def test_projection_is_the_nearest_point_of_the_set(rng):
    combination = squared_sum(from_samples(rng.normal(size=(9, 2)), BANK, Options(), weight=np.ones(9)))
    for _ in range(50):
        point = rng.normal(size=3)
        nearest = combination.project(point)
        assert nearest.min() >= 0 and nearest.sum() <= 1 + 1e-12
        for corner in np.vstack([np.eye(3), np.zeros(3), rng.dirichlet(np.ones(4), size=20)[:, :3]]):
            assert (point - nearest) @ (corner - nearest) <= 1e-9


# -- descents --


@each_model
def test_the_objective_never_rises_and_ends_stationary(model, data):
    model = made(model, C=2.0).fit(*data)
    values, steps = np.array(model.history_.upper), model.history_.violation
    assert np.all(np.diff(values) < 0)
    assert values[-1] == model.objective_ < values[0]
    assert model.stationarity_ == steps[-1] <= model.tol < min(steps[:-1])
    assert model.n_iter_ == model.history_.iteration[-1] >= len(values)
    assert model.history_.lower[-1] <= model.objective_


@each_model
def test_stationary_points_are_so_by_finite_differences(model, data, rng):
    """No short way within what is allowed makes the objective fall by more than the violation says."""
    X, y = data[0][:60], data[1][:60]
    model_fitted = made(model, tol=1e-3, max_iter=5000).fit(X, y)
    given = model_fitted._prepare(X, y)
    combination, machine = prepared(model, X, y)
    theta, length = model_fitted.parameters_, 1e-3
    value = machine(theta)[0]
    assert value == pytest.approx(model_fitted.objective_, rel=1e-6)
    for _ in range(10):
        way = rng.normal(size=theta.size)
        there = combination.project(theta + length * way / np.linalg.norm(way))
        assert (value - machine(there)[0]) / value <= 2e-3 * length + 1e-9
    assert given.targets.rows.size == 60


def test_a_bound_near_by_does_not_hide_a_steep_objective(data):
    """Factors that start close to zero and cost far too much have a short way to go, and much to gain on it."""
    fitted = made("gmkl", price=1e3, tol=0.1).fit(*data)
    assert fitted.history_.violation[0] > 0.5
    assert fitted.n_iter_ > 1 and fitted.objective_ < 0.5 * fitted.history_.upper[0]


def test_thousands_of_columns_need_no_table_of_kernels_by_columns(rng):
    X, y = rng.normal(size=(20, 3000)), np.arange(20) % 2
    tracemalloc.start()
    kw.recipe("gmkl", tol=100.0).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 8 * 3000**2


def test_a_machine_that_stalls_ends_the_descent_and_is_told(data, monkeypatch):
    def stalled(problem, tol, start=None, max_iter=None):
        found = solve(problem, tol=tol, start=start)
        loose = replace(found.certificate, lower=0.5 * found.certificate.lower)
        return replace(found, status=Status.STALLED, certificate=loose)

    monkeypatch.setattr("kernelweave.estimators.nonconvex.solve_quietly", stalled)
    monkeypatch.setattr("kernelweave.solvers.svm.solve_quietly", lambda problem, *_, **__: stalled(problem, 0.1))
    with pytest.warns(ConvergenceWarning, match=r"not reached: .* a gap of 5.0e-01. An SVM could not be trained"):
        fitted = made("nlmkl-p1").fit(*data)
    assert fitted.status_ == Status.UNTRAINED.value and fitted.n_iter_ == 1


@each_model
def test_machines_that_take_long_are_trained_on_features(model, data, monkeypatch):
    """What the solver on kernels does not get done in so many steps is done by interior points on features."""
    X, y = data
    expected = made(model).fit(X, y)
    monkeypatch.setattr("kernelweave.estimators.nonconvex.SVM", replace(svm.SETTINGS, steps=1))
    solved = []

    def watched(*given, **options):
        solved.append(solve(*given, **options))
        return solved[-1]

    monkeypatch.setattr("kernelweave.solvers.svm.solve_quietly", watched)
    fitted = made(model).fit(X, y)
    assert solved and all(found.solver == "interior" for found in solved)
    assert fitted.objective_ == pytest.approx(expected.objective_, rel=1e-3)
    assert fitted.certificate().gap <= 1e-7


def test_squares_in_the_simplex_cost_at_least_what_they_do_in_the_ball(data):
    """Weights that sum to at most one have length at most one, so the convex model's lower bound holds for them too."""
    X, y = data
    for C in (0.1, 1.0, 10.0):
        convex = kw.MKLClassifier(BANK, penalty=SpectralNorm(linear_terms=False), C=C).fit(X, y)
        rival = made("nlmkl-p1", C=C).fit(X, y)
        assert rival.objective_ >= convex.certificate().lower
        assert rival.weights_.sum() == pytest.approx(1.0)


def test_one_kernel_leaves_nothing_to_learn(data):
    X, y = data
    ours = kw.NonconvexMKLClassifier(K.RBF(gamma=0.1)).fit(X, y)
    theirs = SVC(gamma=0.2, tol=1e-9).fit(X, y)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)
    assert ours.n_iter_ == 1
    assert_allclose(ours.pair_weights_, [[1.0]])


def test_columns_of_noise_get_little_width(rng):
    X = rng.normal(size=(200, 6))
    y = X[:, 0] ** 2 + X[:, 1] ** 2 > 1.4
    model = kw.recipe("gmkl", C=10.0, tol=1e-3).fit(X[:120], y[:120])
    assert np.all(model.weights_[:2] > 10 * model.weights_[2:].max())
    assert model.score(X[120:], y[120:]) > SVC(C=10.0).fit(X[:120], y[:120]).score(X[120:], y[120:])


def test_gates_open_kernels_where_they_are_right(rng):
    """Left of zero one column tells the classes apart, right of it the other one, which no sum of two kernels knows."""
    X = rng.normal(size=(400, 3))
    y = np.where(X[:, 0] > 0, X[:, 1], X[:, 2]) > 0
    bank = K.rbf(gamma=0.5, on=1) + K.rbf(gamma=0.5, on=2)
    plain = kw.MKLClassifier(bank, C=10.0).fit(X[:200], y[:200])
    for gate in ("softmax", "sigmoid"):
        local = kw.recipe(f"lmkl-{gate}", bank).fit(X[:200], y[:200])
        assert local.score(X[200:], y[200:]) > 0.9 > 0.8 > plain.score(X[200:], y[200:])


# -- machines and models --


@each_model
def test_the_machine_at_the_parameters_reached_is_svcs(model, data):
    X, y = data
    ours = made(model, C=1.5).fit(X, y)
    kernel = prepared(model, X, y)[0].kernel(ours.parameters_)
    theirs = SVC(kernel="precomputed", C=1.5, tol=1e-9).fit(kernel, y)
    assert_allclose(ours.decision_function(X), theirs.decision_function(kernel), atol=1e-3)


@each_model
def test_decision_values_are_the_expansion_of_the_fitted_attributes(model, data):
    """The kernel between new samples and support vectors is that of all samples together."""
    X, y = data
    fitted = made(model, normalize=None).fit(X[:100], y[:100])
    settled = fitted._prepare(X[:100], y[:100]).assembly
    S = X[fitted.support_]
    if model == "nlmkl-p1":
        kernel = (np.stack([k(X, S) for k in BANK], axis=2) @ fitted.weights_) ** 2
    elif model == "gmkl":
        kernel = np.exp(-((X[:, None] - S) ** 2) @ (fitted.parameters_ @ settled.widths))
    else:
        new, old = (settled.gate(A, fitted.parameters_) for A in (X, S))
        kernel = np.einsum("ik,ijk,jk->ij", new, np.stack([k(X, S) for k in BANK], axis=2), old)
    expected = kernel @ fitted.dual_coef_ + fitted.intercept_
    assert_allclose(fitted.decision_function(X), expected, rtol=1e-7, atol=1e-8)


@each_model
def test_prediction_in_small_blocks_is_the_same(model, data, monkeypatch):
    fitted = made(model).fit(*data)
    whole = fitted.decision_function(data[0])
    monkeypatch.setattr("kernelweave.assemble.expansion.BLOCK", 8 * 7 * len(fitted.support_))
    assert_allclose(fitted.decision_function(data[0]), whole, rtol=1e-9, atol=1e-12)


@each_model
@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_several_classes(model, multiclass):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    fitted = kw.recipe(model, K.rbf(factor=[0.3, 3.0]), multiclass=multiclass, n_jobs=2).fit(X, names)
    assert fitted.weights_.shape == (3, 2)
    assert fitted.decision_function(X).shape == (150, 3)
    assert fitted.score(X, names) > 0.94
    assert all(isinstance(record, Stationarity) for record in fitted.certificate())
    assert len(fitted.history_) == len(fitted.objective_) == len(fitted.parameters_) == 3


@each_model
def test_sparse_samples_are_the_same(model, data):
    X, y = data[0] * (np.abs(data[0]) > 0.5), data[1]
    dense, thin = (made(model).fit(A, y) for A in (X, sparse.csr_matrix(X)))
    assert_allclose(thin.decision_function(sparse.csr_matrix(X)), dense.decision_function(X), atol=1e-3)


@each_model
def test_float32_samples(model, data):
    X, y = data
    double, single = (made(model).fit(A, y) for A in (X, X.astype(np.float32)))
    assert_allclose(single.decision_function(X), double.decision_function(X), atol=0.05)


def test_zero_kernels_and_rows_without_weight_are_left_out(data):
    X, y = data
    zero = K.Callable(lambda A, B: np.zeros((len(A), len(B))), "nothing", psd=True)
    weight = (np.arange(150) % 3 > 0).astype(float)
    rows = np.flatnonzero(weight)
    for model in ("nlmkl-p1", "lmkl-softmax", "lmkl-sigmoid"):
        with pytest.warns(UserWarning, match="weight 0: nothing"):
            some = kw.recipe(model, [BANK[0], zero, *BANK[1:]]).fit(X, y, sample_weight=weight)
        fewer = kw.recipe(model, BANK).fit(X[rows], y[rows])
        assert_allclose(some.weights_, np.insert(fewer.weights_, 1, 0.0))
        assert_allclose(some.decision_function(X), fewer.decision_function(X), rtol=1e-6, atol=1e-9)


def test_clipped_kernels_are_combined_after_clipping(data):
    X, y = data
    sigmoid = K.Sigmoid(gamma=0.3, coef0=-1.0)
    values, vectors = np.linalg.eigh(sigmoid(X))
    assert values[0] < -0.1
    clipped = (vectors * np.maximum(values, 0.0)) @ vectors.T
    for model in ("nlmkl-p1", "lmkl-softmax"):
        fitted = kw.recipe(model, [sigmoid, "rbf"], psd="clip").fit(X, y)
        combination = fitted._prepare(X, y).assembly
        assert_allclose(combination.gram.stack[:, :, 0], clipped, atol=1e-8)
        kernel = combination.kernel(fitted.parameters_)
        coef = np.zeros(150)
        coef[fitted.support_] = fitted.dual_coef_
        assert_allclose(fitted.decision_function(X), kernel @ coef + fitted.intercept_, atol=1e-6)


def test_precomputed_stacks_are_squared_too(data):
    X, y = data
    stack = np.stack([kernel(X) for kernel in BANK], axis=2)
    direct = made("nlmkl-p1").fit(X[:120], y[:120])
    ready = kw.recipe("nlmkl-p1", "precomputed").fit(np.ascontiguousarray(stack[:120, :120]), y[:120])
    assert_allclose(ready.decision_function(stack[:, :120]), direct.decision_function(X), atol=1e-6)
    scores = [cross_val_score(kw.recipe("nlmkl-p1", bank), A, y) for bank, A in ((BANK, X), ("precomputed", stack))]
    assert_allclose(*scores, atol=1e-12)


def test_round_trips_and_grid_search(data):
    X, y = data
    for model in MODELS:
        fitted = made(model).fit(X, y)
        again = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(again.decision_function(X), fitted.decision_function(X))
        assert again.summary() == fitted.summary()
    grid = {"model": list(MODELS), "C": [0.1, 1.0]}
    search = GridSearchCV(kw.NonconvexMKLClassifier(K.rbf(factor=[0.3, 3.0])), grid, cv=2).fit(X, y)
    assert search.best_score_ > 0.65
    assert clone(fitted).get_params()["model"] == "lmkl-sigmoid"


# -- what is said --


def test_the_certificate_says_that_nothing_is_certified(data):
    fitted = made("gmkl").fit(*data)
    record = fitted.certificate()
    assert str(record).startswith("objective ") and "not a convex problem, violation of stationarity " in str(record)
    assert record.value == fitted.objective_ and record.violation == fitted.stationarity_ <= 1e-2
    assert 0 <= record.gap <= 1e-7
    assert np.isnan(fitted.dual_gap_)
    assert fitted.status_ == Status.STATIONARY.value
    text = fitted.summary()
    assert "no gap: the problem is not convex" in text and "relative gap" not in text
    assert text.startswith("NonconvexMKLClassifier, gmkl, C=1")


def test_kinks_are_told(data, monkeypatch):
    """Where no step along the gradient helps, as where the objective has none, the descent ends and says so."""
    gradient = GatedSum.gradient
    monkeypatch.setattr(GatedSum, "gradient", lambda *given: -gradient(*given))
    with pytest.warns(ConvergenceWarning, match="kernels of low rank can cause: raise tol"):
        fitted = made("lmkl-softmax").fit(*data)
    assert np.all(np.diff(fitted.history_.upper) < 0)


def test_too_few_machines_are_told(data):
    with pytest.warns(ConvergenceWarning, match=r"Stationarity to tol=0.01 was not reached: .* max_iter SVMs"):
        fitted = made("lmkl-softmax", max_iter=3).fit(*data)
    assert fitted.n_iter_ == 3
    assert fitted.stationarity_ > 1e-2


def test_an_interrupted_descent_keeps_what_it_has(data, monkeypatch):
    asked, kernel = [], GatedSum.kernel

    def sometimes(self, theta):
        asked.append(theta)
        if len(asked) == 5:
            raise KeyboardInterrupt
        return kernel(self, theta)

    monkeypatch.setattr(GatedSum, "kernel", sometimes)
    with pytest.warns(RuntimeWarning, match="The fit was interrupted"):
        fitted = made("lmkl-softmax").fit(*data)
    assert fitted.status_ == Status.INTERRUPTED.value
    assert_allclose(fitted.objective_, fitted.history_.upper[-1])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"model": "mkl"}, "model='mkl' is not known: choose one of 'nlmkl-p1', 'gmkl'"),
        ({"model": "lmkl-softmax", "kernels": "precomputed"}, "gates from the samples, and kernels='precomputed'"),
        ({"model": "gmkl", "kernels": "precomputed"}, "the widths of Gaussian kernels, and kernels='precomputed'"),
        ({"model": "gmkl", "kernels": ["rbf", "linear"]}, "learns the widths of Gaussian kernels, and linear is none"),
        ({"power": 3}, "power must be 1 or 2, got 3"),
        ({"price": 0.0}, "price must be a number, above zero"),
        ({"multiclass": "joint"}, "multiclass='joint' is not known: choose one of 'ovr', 'ovo'"),
        ({"memory": 1000.0}, "reads every kernel for every SVM, and 10 kernels of 6 samples do not fit in memory"),
    ],
)
def test_refusals_name_the_way_out(params, message):
    with pytest.raises(ValueError, match=message):
        kw.NonconvexMKLClassifier(**params).fit(np.arange(12.0).reshape(6, 2), [0, 1, 0, 1, 0, 1])


def test_tensors_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="convert X to NumPy yourself"):
        kw.recipe("gmkl").fit(torch.eye(4), [0, 1, 0, 1])


def test_a_path_is_refused(data):
    with pytest.raises(TypeError, match="has no path"):
        kw.path(kw.recipe("gmkl"), *data, C=[0.1, 1.0])


def test_descents_are_drawn(data):
    axes = kw.plot.convergence(made("gmkl").fit(*data), ax=kw.plot.canvas())
    assert axes.get_ylabel() == "violation of stationarity"


def test_warm_machines_are_no_dead_end():
    """Duals that rounding leaves just off their bounds seem to violate optimality; a warm start must not stop there."""
    X, y = make_classification(300, 8, n_informative=5, n_redundant=0, random_state=0)
    assert kw.recipe("gmkl").fit(X[:200], y[:200]).stationarity_ <= 1e-2


@each_model
@pytest.mark.parametrize("check", [equivalent_dense, equivalent_sparse])
def test_weights_are_repeats_to_the_last_digits(model, check):
    """Although a descent multiplies small differences; scikit-learn's other checks are run on all recipes."""
    check(model, kw.recipe(model, K.rbf(factor=[0.3, 3.0]) if model == "gmkl" else BANK))


def test_columns_held_at_zero_do_not_shorten_the_steps():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 30))
    model = kw.recipe("gmkl").fit(X, X[:, 0] * X[:, 1] > 0)
    assert model.stationarity_ <= model.tol
    assert model.n_iter_ < 300


def test_a_descent_that_hardly_descends_is_ended():
    walk = Walk(None, None, tol=1e-3, max_iter=1000)
    walk.history.upper = [1.0 - 1e-5 * k for k in range(SLOW + 1)]
    assert not walk.slow()  # each step is ten times what one at tol would promise
    walk.history.upper += [walk.history.upper[-1] * (1.0 - 1e-8 * k) for k in range(1, SLOW)]
    assert not walk.slow()  # the first of the last twenty-one was still one of those
    walk.history.upper.append(walk.history.upper[-1])
    assert walk.slow()


def test_a_descent_that_would_take_too_long_is_ended_and_told(data, monkeypatch):
    monkeypatch.setattr("kernelweave.estimators.nonconvex.WAIT", 0.0)
    monkeypatch.setattr("kernelweave.estimators.nonconvex.WAIT_EACH", 0.0)
    with pytest.warns(
        ConvergenceWarning, match=r"not reached: .* too slowly to wait for: raise tol, or say in max_time"
    ):
        fitted = made("gmkl", tol=1e-5).fit(*data)
    assert fitted.status_ == Status.LONG.value
    assert np.all(np.diff(fitted.history_.upper) < 0)
    patient = made("gmkl", tol=1e-5, max_time=100.0).fit(*data)  # with a time it goes on
    assert patient.status_ != Status.LONG.value
    assert patient.n_iter_ > fitted.n_iter_ and patient.objective_ <= fitted.objective_


@pytest.mark.parametrize("rate", [0.8, 0.93, 0.96, 0.99])
def test_what_falls_is_waited_for_as_long_again_as_it_took_so_far(rate):
    steps = 40
    marks = [(float(k), rate**k) for k in range(1, steps + 1)]
    assert too_slow(marks, 1e-2) == (np.log(1e-2) / np.log(rate) > 2 * steps)
