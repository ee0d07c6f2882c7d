"""Kernels as features, through the estimator: the same attributes, the same answers, memory that grows linearly."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import kernelweave as kw
from kernelweave import kernels as K

BANK = K.rbf(gamma=[0.01, 0.1, 1.0]) + K.linear() + K.polynomial(degree=2)
RBFS = K.rbf(gamma=[0.003, 0.01, 0.03])
APPROXIMATIONS = [kw.Nystroem(rank=20), kw.PivotedCholesky(rank=20, tol=None), kw.RandomFeatures(rank=20)]


@pytest.fixture(scope="module")
def wdbc():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:240], y[:240]


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


def machine(approximation="nystroem", bank=BANK, **params):
    return kw.MKLClassifier(bank, approximation=approximation, random_state=0, **params)


# --- answers -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "full", [kw.Nystroem(rank=120), kw.PivotedCholesky(rank=120, tol=None)], ids=lambda a: type(a).__name__
)
@pytest.mark.parametrize("penalty", ["l1", "lp", "elasticnet"])
@pytest.mark.parametrize("normalize", ["trace", "diagonal", "center", None])
def test_full_rank_is_the_kernels_themselves(wdbc, full, penalty, normalize):
    X, y, new = wdbc[0][:120], wdbc[1][:120], wdbc[0]
    params = {"penalty": penalty, "normalize": normalize, "tol": 1e-8, "C": 2.0}
    exact = kw.MKLClassifier(BANK, **params).fit(X, y)
    factored = machine(full, **params).fit(X, y)
    assert factored.objective_ == pytest.approx(exact.objective_, rel=1e-6)
    np.testing.assert_allclose(factored.kernel_scales_, exact.kernel_scales_, rtol=1e-6)
    np.testing.assert_allclose(factored.decision_function(new), exact.decision_function(new), atol=1e-3)
    np.testing.assert_allclose(factored.approximation_error_, 0.0, atol=1e-6)
    assert exact.approximation_error_ is None


@pytest.mark.parametrize("approximation", APPROXIMATIONS, ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_several_classes_share_the_features(iris, approximation, multiclass):
    X, y = iris
    names = np.array(["setosa", "versicolor", "virginica"])
    model = machine(approximation, RBFS, multiclass=multiclass, C=10.0, n_jobs=2).fit(X, names[y])
    assert model.weights_.shape == (3, 3)
    assert model.dual_coef_.shape == (3, len(model.support_))
    assert model.decision_function(X).shape == (150, 3)
    assert model.score(X, names[y]) > 0.9
    assert model.dual_gap_ <= 1e-3


def test_decision_function_is_that_of_the_features(wdbc):
    X, y = wdbc
    model = machine(kw.Nystroem(rank=20), penalty="lp")
    prepared = model._prepare(X, y)
    model.fit(X, y)
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_
    expected = prepared.assembly.gram.decision(beta, model.weights_) + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-7, atol=1e-9)


def test_the_certificate_is_of_the_approximated_kernels_and_says_so(wdbc):
    model = machine(kw.Nystroem(rank=10)).fit(*wdbc)
    certificate = model.certificate()
    assert certificate.lower <= model.objective_ == certificate.upper
    assert model.dual_gap_ == certificate.gap <= model.tol
    worst = int(np.argmax(model.approximation_error_))
    assert 0 < model.approximation_error_[worst] < 1
    text = model.summary()
    assert "certified for the approximated kernels" in text
    share = 100 * model.approximation_error_[worst]
    assert f"{share:.2g} % of a kernel's trace, in {model.kernel_names_[worst]}" in text


def test_lost_trace_falls_as_the_rank_grows(wdbc):
    lost = [machine(kw.PivotedCholesky(rank=r, tol=None)).fit(*wdbc).approximation_error_ for r in (5, 20, 80)]
    assert np.all(lost[0] >= lost[1]) and np.all(lost[1] >= lost[2]) and lost[0].max() > lost[2].max()


@pytest.mark.parametrize("name", ["nystroem", "cholesky", "random_features"])
def test_names_take_the_defaults(wdbc, name):
    X, y = wdbc
    model = machine(name, RBFS).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.storage_.startswith("low rank float64, 3 kernels, ")


# --- weights of samples and kernels -----------------------------------------------------------------------


@pytest.mark.parametrize("approximation", APPROXIMATIONS, ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("normalize", ["trace", "center"])
def test_weight_zero_is_no_row(wdbc, approximation, normalize):
    X, y = wdbc
    weight = (np.arange(240) % 3 > 0).astype(float)
    rows = np.flatnonzero(weight)
    model = machine(approximation, RBFS, normalize=normalize, tol=1e-6)
    some = clone(model).fit(X, y, sample_weight=weight)
    fewer = clone(model).fit(X[rows], y[rows])
    np.testing.assert_allclose(some.decision_function(X), fewer.decision_function(X), rtol=1e-9)
    np.testing.assert_array_equal(some.support_, rows[fewer.support_])


def test_kernels_without_weight_leave_the_predictor(wdbc):
    X, y = wdbc
    bank = [*RBFS, K.Callable(lambda A, B: np.zeros((len(A), len(B))), "nothing", psd=True)]
    model = machine(kw.Nystroem(rank=20), bank, penalty=kw.penalties.Fixed([1.0, 0.0, 1.0, 1.0]))
    with pytest.warns(UserWarning, match="get weight 0: nothing"):
        model.fit(X, y)
    assert list(np.flatnonzero(model.weights_ == 0)) == [1, 3]
    slim = machine(kw.Nystroem(rank=20), [RBFS[0], RBFS[2]], penalty=kw.penalties.Fixed([1.0, 1.0])).fit(X, y)
    assert len(pickle.dumps(model._predictor)) < 1.1 * len(pickle.dumps(slim._predictor))


def test_all_weights_zero_predicts_a_constant(wdbc):
    model = machine(kw.Nystroem(rank=10), penalty=kw.penalties.ElasticNet(c1=1e3)).fit(*wdbc)
    assert not model.weights_.any()
    assert np.ptp(model.decision_function(wdbc[0])) == 0
    assert "constant" in model.summary()


# --- what X may be -----------------------------------------------------------------------


def test_float32_samples_have_float32_features(wdbc):
    X, y = wdbc
    double, single = (machine(kw.Nystroem(rank=30), penalty="lp").fit(A, y) for A in (X, X.astype(np.float32)))
    assert single.storage_.startswith("low rank float32, 5 kernels, ")
    assert double.storage_.startswith("low rank float64, 5 kernels, ")
    np.testing.assert_allclose(single.decision_function(X), double.decision_function(X), atol=0.05)
    assert single.objective_ == pytest.approx(double.objective_, rel=3e-3)


def test_sparse_samples_are_the_same(wdbc):
    X, y = wdbc
    thin = X * (np.abs(X) > 1)
    model = machine(kw.Nystroem(rank=30), tol=1e-6)
    dense, thinned = (clone(model).fit(A, y) for A in (thin, sparse.csr_matrix(thin)))
    np.testing.assert_allclose(
        thinned.decision_function(sparse.csr_array(thin)), dense.decision_function(thin), atol=1e-4
    )


# --- scikit-learn's tools -----------------------------------------------------------------------


def test_grid_search_over_rank_and_cost(wdbc):
    mkl = machine(kw.Nystroem(rank=5), RBFS, penalty=kw.penalties.Lp(2.0))
    pipeline = Pipeline([("scale", StandardScaler()), ("mkl", mkl)])
    grid = {"mkl__C": [0.1, 10.0], "mkl__approximation__rank": [5, 30]}
    search = GridSearchCV(pipeline, grid, cv=3, n_jobs=2).fit(*wdbc)
    assert search.best_score_ > 0.9
    assert mkl.approximation.rank == 5


@pytest.mark.parametrize("approximation", APPROXIMATIONS, ids=lambda a: type(a).__name__)
def test_round_trips_are_small_and_exact(wdbc, approximation):
    X, y = wdbc
    model = machine(approximation, RBFS, penalty="lp").fit(X, y)
    data = pickle.dumps(model)
    some_rows = X.nbytes  # of which `effects_` tells what parts add: no more than a thousand
    assert len(data) < 8 * (3 * 20 * 60 + 2 * 240) + some_rows + 20_000
    again = pickle.loads(data)
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert again.summary() == model.summary()


def test_the_same_seed_gives_the_same_model(wdbc):
    X, y = wdbc
    one, two = (machine(kw.Nystroem(rank=10)).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


# --- paths -----------------------------------------------------------------------


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_paths_compute_the_features_once(iris, multiclass, monkeypatch):
    X, y = iris
    made = []
    factorise = kw.Nystroem.factorise
    monkeypatch.setattr(kw.Nystroem, "factorise", lambda *a, **k: made.append(1) or factorise(*a, **k))
    model = machine(kw.Nystroem(rank=20), RBFS, penalty="lp", multiclass=multiclass, tol=1e-6)
    path = kw.path(model, X, y, C=[1.0, 0.1])
    assert len(made) == 1
    assert path.gaps.max() <= 1e-6
    for j, C in enumerate([1.0, 0.1]):
        alone = clone(model).set_params(C=C).fit(X, y)
        np.testing.assert_allclose(path.objectives[j], alone.objective_, rtol=3e-6)
        np.testing.assert_allclose(path.weights[j], alone.weights_, atol=5e-3)


# --- refusals -----------------------------------------------------------------------


def test_features_are_held_where_they_fit_and_made_at_each_pass_where_not(wdbc):
    X, y = wdbc
    limit = 240 * 5 * 8 * 17 + 100  # bytes: 17 columns for each of five kernels, and not 18
    held = machine(kw.Nystroem(rank=17), memory=limit).fit(X, y)
    made = machine(kw.Nystroem(rank=40), memory=limit, tol=1e-8).fit(X, y)
    assert "recomputed" not in held.storage_ and "recomputed from X at each pass" in made.storage_
    expected = machine(kw.Nystroem(rank=40), tol=1e-8).fit(X, y)
    assert made.dual_gap_ <= 1e-8
    assert_allclose(made.objective_, expected.objective_, rtol=1e-7)
    with pytest.raises(ValueError, match="use fewer kernels or rows, or a larger memory="):
        machine(kw.PivotedCholesky(rank=40), memory=10).fit(X, y)  # whose pivots need the features


def ours(A, B):
    return A @ B.T - 2.0


REFUSALS = {
    "precomputed": (
        {"kernels": "precomputed", "approximation": "nystroem"},
        "approximation needs samples, and kernels='precomputed' has none",
    ),
    "unknown": ({"approximation": "svd"}, "'svd'"),
    "not known to be definite": (
        {"kernels": ours, "approximation": "nystroem"},
        "ours is not known to be positive semidefinite",
    ),
    "solver on kernels": ({"solver": "smo", "approximation": "nystroem"}, "solver 'smo' works on the entries"),
    "solver on features": ({"solver": "ssnal"}, "solver 'ssnal' works on features of low rank"),
}


@pytest.mark.parametrize(("params", "fragment"), REFUSALS.values(), ids=REFUSALS.keys())
def test_fit_refuses(wdbc, params, fragment):
    X, y = wdbc
    X = np.stack([X @ X.T] * 2, axis=2) if params.get("kernels") == "precomputed" else X
    with pytest.raises(ValueError) as refusal:
        kw.MKLClassifier(**params).fit(X, y)
    assert fragment in str(refusal.value)


@pytest.mark.parametrize("psd", ["clip", "trust"])
def test_kernels_in_doubt_are_clipped_on_request(wdbc, psd):
    X, y = wdbc
    model = machine(kw.Nystroem(rank=20), [ours, "rbf"], psd=psd, penalty="lp").fit(X, y)
    assert model.dual_gap_ <= 1e-3


def test_progress_shows_the_gap(wdbc, capsys):
    machine(kw.Nystroem(rank=10), progress=True).fit(*wdbc)
    assert "gap" in capsys.readouterr().err


def test_clipped_kernels_have_the_size_that_clipping_gives_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] * X[:, 1] > 0
    bank = [K.Sigmoid(gamma=1.0, coef0=-1.0), K.RBF()]
    exact = kw.MKLClassifier(bank, penalty="lp", psd="clip", tol=1e-7).fit(X, y)
    whole = kw.Nystroem(rank=60)
    model = kw.MKLClassifier(bank, penalty="lp", psd="clip", tol=1e-7, approximation=whole, random_state=0).fit(X, y)
    assert_allclose(model.kernel_scales_, exact.kernel_scales_, rtol=1e-6)
    assert model.objective_ == pytest.approx(exact.objective_, rel=1e-5)


@pytest.mark.parametrize("landmarks", ["given", "kmeans"])
def test_a_model_does_not_change_with_the_arrays_it_was_given(landmarks):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    Z, new = X[:10].copy(), rng.normal(size=(5, 3))
    given = kw.Nystroem(rank=10, landmarks=Z) if landmarks == "given" else kw.Nystroem(rank=30, landmarks="kmeans")
    model = kw.MKLClassifier("rbf", approximation=given, random_state=0).fit(X, X[:, 0] > 0)
    before = model.decision_function(new)
    X *= 0.0
    Z *= 0.0
    assert_allclose(model.decision_function(new), before)
