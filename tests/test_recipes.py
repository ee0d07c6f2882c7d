"""Every method by name: an ordinary estimator, and what its line in the table says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernelweave as kw
from kernelweave import kernels as K
from kernelweave import losses
from kernelweave.estimators.boosting import best, largest_margin
from kernelweave.recipes import COLUMNS
from kernelweave.solvers import Mirror

TABLE = kw.recipes()
FEW = [K.RBF(), K.RBF(factor=8.0)]  # kernels that every method takes
PAGE = Path(__file__).parents[1] / "docs" / "recipes.md"


@pytest.fixture(scope="module")
def wdbc():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:160], y[:160]


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


# --- the table -----------------------------------------------------------------------


def test_names_are_those_of_the_table():
    assert all(name == entry.name for name, entry in TABLE.items())
    lines = TABLE.text(400).splitlines()
    assert len(lines) == len(TABLE) + 1
    assert lines[0].split() == " ".join(COLUMNS).split()
    assert [line.split()[0] for line in lines[1:]] == list(TABLE)
    narrow = TABLE.text(80).splitlines()
    assert max(map(len, narrow)) <= 80
    assert [line.split()[0] for line in narrow[1:] if not line.startswith(" ")] == list(TABLE)


def test_the_page_is_made_from_the_table():
    assert PAGE.read_text(encoding="utf-8") == TABLE.markdown()


@pytest.mark.parametrize("name", TABLE)
def test_rows_are_what_recipes_give(name):
    entry = TABLE[name]
    model = kw.recipe(name, C=5.0)
    assert type(model) is entry.estimator
    assert model.C == 5.0
    for parameter in ("penalty", "solver", "loss", "tol", "approximation"):
        if getattr(entry, parameter) is not None:
            assert str(getattr(model, parameter)) == str(getattr(entry, parameter))
    assert entry.loss in entry.losses
    assert all(len(fact) > 1 for fact in entry.row().values())


@pytest.mark.parametrize("name", TABLE)
def test_convex_methods_are_certified_and_sparse_ones_sparse(name, wdbc):
    entry, bank = TABLE[name], K.rbf(factor=[0.1, 1.0, 10.0, 100.0])
    small, model = (kw.recipe(name, bank, C=C).fit(*wdbc) for C in (0.05, 5.0))
    assert model.score(*wdbc) > 0.9
    assert np.isnan(model.dual_gap_) != entry.convex
    if entry.convex and not isinstance(entry.solver, Mirror):  # which ends with its epochs
        assert model.dual_gap_ <= model.tol
    if model.weights_.size > 1:
        assert bool(np.any(model.weights_ == 0) or np.any(small.weights_ == 0)) == entry.sparse


@pytest.mark.parametrize("loss", sorted(name for name, loss in losses._NAMES.items() if "binary" in loss.tasks))
@pytest.mark.parametrize("name", TABLE)
def test_losses_are_those_of_the_table(name, loss, iris):
    X, y = (part[50::2] for part in iris)
    model = kw.recipe(name, FEW, loss=loss, C=10.0)
    if loss in TABLE[name].losses:
        assert model.fit(X, y).score(X, y) > 0.8
    else:
        with pytest.raises((ValueError, TypeError)):
            model.fit(X, y)


# --- rules -----------------------------------------------------------------------


def test_all_columns_are_those_of_svc(wdbc):
    X, y = wdbc
    ours = kw.recipe("svm-all", C=3.0, tol=1e-8).fit(X, y)
    assert_allclose(ours.decision_function(X), SVC(C=3.0, tol=1e-9).fit(X, y).decision_function(X), atol=1e-4)


def test_concatenated_linear_kernels_are_one_linear_kernel(wdbc):
    X, y = wdbc
    parts = K.linear(on=list(range(10))) + K.linear(on=list(range(10, 30)))
    ours = kw.recipe("svm-all", parts, C=0.1, tol=1e-8).fit(X, y)
    theirs = SVC(kernel="linear", C=0.1, tol=1e-9).fit(X, y)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)
    assert_allclose(ours.weights_, 1.0)


def test_product_is_that_of_all_kernels(wdbc):
    X, y = wdbc
    bank = K.rbf(gamma=[0.01, 0.02]) + K.polynomial(degree=2)
    ours = kw.recipe("rbmkl-product", bank, C=2.0, tol=1e-8).fit(X, y)
    product = np.prod([kernel(X) for kernel in bank], axis=0)
    product /= np.mean(np.diagonal(product))
    theirs = SVC(kernel="precomputed", C=2.0, tol=1e-9).fit(product, y)
    assert_allclose(ours.decision_function(X), theirs.decision_function(product), atol=1e-4)


def test_product_of_precomputed_kernels_says_how(wdbc):
    X, y = wdbc
    with pytest.raises(ValueError, match=r"X.prod\(axis=2, keepdims=True\), and use recipe 'svm-average'"):
        kw.recipe("rbmkl-product", "precomputed")
    bank = K.rbf(gamma=[0.01, 0.02])
    stack = np.stack([kernel(X) for kernel in bank], axis=2).prod(axis=2, keepdims=True)
    ours = kw.recipe("svm-average", "precomputed").fit(stack, y).decision_function(stack)
    assert_allclose(ours, kw.recipe("rbmkl-product", bank).fit(X, y).decision_function(X), rtol=1e-6, atol=1e-8)


# --- votes -----------------------------------------------------------------------


def single(K_k, y, C=1.0):
    """One certified machine on one kernel, the same as every voter is."""
    return kw.MKLClassifier("precomputed", penalty="uniform", normalize=None, C=C, tol=1e-8).fit(K_k[:, :, None], y)


@pytest.fixture(scope="module")
def stack(wdbc):
    return np.stack([kernel(wdbc[0]) for kernel in K.rbf(gamma=[0.001, 0.03, 1.0])], axis=2)


@pytest.mark.parametrize("vote", ["lp-beta", "best"])
def test_the_decision_is_the_weighted_sum_of_machines(vote, stack, wdbc):
    y = wdbc[1]
    model = kw.BoostedMKLClassifier("precomputed", vote=vote, normalize=None, tol=1e-8).fit(stack, y)
    outputs = [single(stack[:, :, k], y).decision_function(stack[:, :, k : k + 1]) for k in range(3)]
    assert_allclose(model.decision_function(stack), model.weights_ @ outputs, atol=1e-5)
    assert len(model.machines_) == np.count_nonzero(model.weights_) == len(np.atleast_2d(model.dual_coef_))
    assert f"vote {vote}" in model.summary()


def test_the_best_is_that_of_cross_validation(stack, wdbc):
    y = wdbc[1]
    model = kw.recipe("svm-best", "precomputed", normalize=None, tol=1e-8).fit(stack, y)
    scores = [cross_val_score(SVC(kernel="precomputed", tol=1e-8), stack[:, :, k], y).mean() for k in range(3)]
    assert_allclose(model.weights_, np.eye(3)[int(np.argmax(scores))])
    assert model.margin_ == pytest.approx(max(scores), abs=1e-12)


def test_votes_are_the_optimum_of_their_programme():
    rng = np.random.default_rng(0)
    outputs, codes, weight = rng.normal(size=(40, 4, 3)), rng.integers(0, 3, 40), rng.integers(1, 3, 40).astype(float)
    outputs[np.arange(40), :, codes] += 1.0
    for per_class in (False, True):
        weights, margin = largest_margin(outputs, codes, weight, 0.3, per_class)
        assert weights.shape == (4, 3 if per_class else 1)
        assert_allclose(weights.sum(axis=0), 1.0)
        value = objective(outputs, codes, weight, 0.3, weights, margin)
        assert_allclose(value, programme(outputs, codes, weight, 0.3, per_class), rtol=1e-7)


def programme(outputs, codes, weight, nu, per_class):
    """Optimum of the voters' programme as printed, by cvxpy."""
    import cvxpy as cp

    n, m, c = outputs.shape
    w, xi, rho = cp.Variable((m, c if per_class else 1), nonneg=True), cp.Variable(n, nonneg=True), cp.Variable()
    held = [cp.sum(w, axis=0) == 1]
    for i in range(n):
        said = [outputs[i, :, p] @ w[:, p if per_class else 0] for p in range(c)]
        held += [said[codes[i]] - said[p] + xi[i] >= rho for p in range(c) if p != codes[i]]
    task = cp.Problem(cp.Minimize(-rho + weight @ xi / (nu * weight.sum())), held)
    return task.solve(solver="CLARABEL")


def objective(outputs, codes, weight, nu, weights, rho):
    said = np.einsum("ikp,kp->ip", outputs, np.broadcast_to(weights, outputs.shape[1:]))
    right = said[np.arange(len(codes)), codes]
    said[np.arange(len(codes)), codes] = -np.inf
    return -rho + weight @ np.maximum(rho - (right - said.max(axis=1)), 0.0) / (nu * weight.sum())


def test_several_classes_vote_with_weights_in_common_or_of_their_own(iris):
    X, y = iris
    beta = kw.recipe("lp-beta", K.default_bank()).fit(X, y)
    own = kw.recipe("lp-b", K.default_bank(), n_jobs=2).fit(X, y)
    assert beta.weights_.shape == (10,) and own.weights_.shape == (3, 10)
    for model in (beta, own):
        assert model.decision_function(X).shape == (150, 3)
        assert model.problem_names_ == ["setosa", "versicolor", "virginica"]
        assert model.score(X, y) > 0.9
        assert model.intercept_.shape == (3,)


def test_features_of_low_rank_and_columns_on_demand_vote_the_same(wdbc):
    X, y = wdbc
    bank = K.rbf(gamma=[0.001, 0.03]) + K.linear(on=[0, 1])
    direct = kw.recipe("lp-beta", bank, tol=1e-7).fit(X, y)
    for options in ({"memory": 5e4}, {"approximation": kw.Nystroem(rank=160)}):
        model = kw.recipe("lp-beta", bank, tol=1e-7, **options).fit(X, y)
        assert_allclose(model.weights_, direct.weights_, atol=1e-3)
        assert_allclose(model.decision_function(X), direct.decision_function(X), atol=1e-2)


def test_equals_of_the_best_are_the_first():
    outputs = np.ones((3, 2, 1))
    weights, share = best(outputs, np.array([1, 1, 0]), np.array([1.0, 1.0, 2.0]))
    assert weights.ravel().tolist() == [1.0, 0.0] and share == 0.5


def test_training_samples_can_settle_the_votes(stack, wdbc):
    y = wdbc[1]
    model = kw.BoostedMKLClassifier("precomputed", cv=None, vote="best").fit(stack, y)
    assert model.margin_ == model.score(stack, y)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"vote": "lp-gamma"}, "vote='lp-gamma' is not known"),
        ({"nu": 0.0}, "nu must be a number above 0 and up to 1"),
        ({"nu": 2}, "got 2"),
        ({"cv": 1}, "2 folds or more"),
        ({"cv": [(np.arange(80), np.arange(80, 160))]}, "hold every row out once"),
        ({"loss": "logistic"}, "not for SVMs that vote"),
    ],
    ids=str,
)
def test_refusals(params, sentence, stack, wdbc):
    with pytest.raises(ValueError, match=sentence):
        kw.BoostedMKLClassifier("precomputed", **params).fit(stack, wdbc[1])


def test_machines_that_vote_do_not_stream(iris):
    with pytest.raises(ValueError, match="so use fit"):
        kw.BoostedMKLClassifier(solver="mirror", approximation="nystroem").partial_fit(*iris)


def test_folds_without_a_class_are_refused(stack, wdbc):
    y = np.sort(wdbc[1])
    halves = [(np.flatnonzero(y == c), np.flatnonzero(y != c)) for c in (0, 1)]
    with pytest.raises(ValueError, match="use a stratified cv"):
        kw.BoostedMKLClassifier("precomputed", cv=halves).fit(stack, y)


def test_a_path_needs_one_problem():
    with pytest.raises(TypeError, match="no path"):
        kw.path(kw.BoostedMKLClassifier(), np.eye(4), [0, 1, 0, 1], C=[1.0])
