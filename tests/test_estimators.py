"""The estimator is scikit-learn's: its checks, its tools, its answers where they overlap."""

from __future__ import annotations

import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_selector
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernelweave as kw
from kernelweave import kernels as K
from kernelweave.penalties import L1, ElasticNet, Fixed, Group, Lp, MoreauYosida


@pytest.fixture(scope="module")
def wdbc():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:240], y[:240]


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def bank():
    return K.rbf(gamma=[0.01, 0.1, 1.0]) + K.linear() + K.polynomial(degree=2)


@pytest.fixture(scope="module")
def stack(wdbc, bank):
    return stacked(bank, wdbc[0])


def stacked(bank, X, Z=None):
    return np.stack([kernel(X, Z) for kernel in bank], axis=2)


# --- answers -----------------------------------------------------------------------


@pytest.mark.parametrize("penalty", ["l1", "lp", "uniform", Lp(np.inf)])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_kernel_is_svc(wdbc, penalty, weighted):
    X, y = wdbc
    X, y, new = X[:150], y[:150], X
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 150) if weighted else None
    ours = kw.MKLClassifier(K.RBF(gamma=0.02), penalty=penalty, C=3.0, tol=1e-8).fit(X, y, weight)
    theirs = SVC(gamma=0.02, C=3.0, tol=1e-9).fit(X, y, weight)
    np.testing.assert_allclose(ours.decision_function(new), theirs.decision_function(new), atol=1e-4)
    np.testing.assert_allclose(ours.weights_, [1.0])


def test_class_weight_is_svcs(wdbc):
    X, y = wdbc
    for class_weight in ({0: 0.2, 1: 3.0}, "balanced"):
        ours = kw.MKLClassifier(K.RBF(gamma=0.02), class_weight=class_weight, tol=1e-8).fit(X, y)
        theirs = SVC(gamma=0.02, class_weight=class_weight, tol=1e-9).fit(X, y)
        np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_several_classes(iris, bank, multiclass):
    X, y = iris
    names = np.array(["setosa", "versicolor", "virginica"])
    model = kw.MKLClassifier(bank, multiclass=multiclass, C=10.0, n_jobs=2).fit(X, names[y])
    assert model.weights_.shape == (3, 5)
    assert model.dual_coef_.shape == (3, len(model.support_))
    assert model.decision_function(X).shape == (150, 3)
    assert len(model.history_) == len(model.certificate()) == len(model.status_) == 3
    assert model.score(X, names[y]) > 0.95
    assert model.problem_names_[0] == ("setosa" if multiclass == "ovr" else "setosa / versicolor")
    assert any(name in model.summary() for name in model.problem_names_)


def test_scores_of_labels_of_another_kind_are_refused(iris, bank):
    X, y = iris
    names = np.array(["setosa", "versicolor", "virginica"])
    whole, named = (kw.MKLClassifier(bank).fit(X, labels) for labels in (y, names[y]))
    assert named.score(X, names[y].astype("U40")) == whole.score(X, y.astype(np.uint8)) == whole.score(X, y * 1.0)
    for model, labels in ((whole, y.astype(str)), (named, y)):
        with pytest.raises(ValueError, match="Mix of label input types"):
            model.score(X, labels)


def test_one_against_one_is_svcs(iris):
    X, y = iris
    ours = kw.MKLClassifier(K.RBF(gamma=0.2), multiclass="ovo", tol=1e-8).fit(X, y)
    theirs = SVC(gamma=0.2, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)


def test_certificate_brackets_the_objective(wdbc, bank):
    model = kw.MKLClassifier(bank).fit(*wdbc)
    certificate = model.certificate()
    assert certificate.lower <= model.objective_ == certificate.upper
    assert model.dual_gap_ == certificate.gap <= model.tol
    assert model.weights_.sum() == pytest.approx(1.0)
    assert np.count_nonzero(model.weights_) < 5
    assert model.status_ == "The duality gap is within tol."


@pytest.mark.parametrize(
    "penalty",
    ["l1", "lp", "elasticnet", "moreau-yosida", "uniform", "average", Group([0, 0, 1, 1, 1])],
    ids=str,
)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_every_penalty_and_loss_by_name(wdbc, bank, penalty, loss):
    X, y = wdbc
    model = kw.MKLClassifier(bank, penalty=penalty, loss=loss, C=10.0).fit(X, y)
    assert model.dual_gap_ <= 1e-3
    assert model.score(X, y) > 0.9


# --- the model on its own -----------------------------------------------------------------------


def test_decision_function_is_the_expansion_of_the_fitted_attributes(wdbc, bank):
    X, y = wdbc
    model = kw.MKLClassifier(bank, penalty="lp").fit(X[:200], y[:200])
    factors = model.weights_ * model.kernel_scales_
    expected = stacked(bank, X, X[model.support_]) @ factors @ model.dual_coef_ + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=1e-9, atol=1e-9)


def test_prediction_in_small_blocks_is_the_same(wdbc, bank, monkeypatch):
    X, y = wdbc
    model = kw.MKLClassifier(bank).fit(X, y)
    whole = model.decision_function(X)
    monkeypatch.setattr("kernelweave.assemble.expansion.BLOCK", 8 * 7 * len(model.support_))
    np.testing.assert_allclose(model.decision_function(X), whole, rtol=1e-12)


def test_round_trips_are_small_and_exact(wdbc, bank, tmp_path):
    X, y = wdbc
    model = kw.MKLClassifier(bank, penalty="lp").fit(X, y)
    data = pickle.dumps(model)
    assert len(data) < 0.05 * X.shape[0] ** 2 * len(bank) * 8
    joblib.dump(model, tmp_path / "model")
    for again in (pickle.loads(data), joblib.load(tmp_path / "model")):
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
        assert again.summary() == model.summary()


def test_clone_copies_nested_parameters(bank):
    model = kw.MKLClassifier(bank, penalty=Lp(1.2), solver=kw.solvers.SMO(working_set=32))
    copy = clone(model).set_params(penalty__p=3.0)
    assert (model.penalty.p, copy.penalty.p, copy.solver.working_set) == (1.2, 3.0, 32)
    assert copy.kernels == bank


def test_all_weights_zero_predicts_a_constant(wdbc, bank):
    X, y = wdbc
    model = kw.MKLClassifier(bank, penalty=ElasticNet(c1=1e3)).fit(X, y)
    assert not model.weights_.any()
    assert np.ptp(model.decision_function(X)) == 0
    assert "constant" in model.summary()


# --- what X may be -----------------------------------------------------------------------


def test_precomputed_is_the_same_machine(wdbc, bank, stack):
    X, y = wdbc
    direct = kw.MKLClassifier(bank, tol=1e-6).fit(X[:200], y[:200])
    before = stack.copy()
    ready = kw.MKLClassifier("precomputed", tol=1e-6).fit(np.ascontiguousarray(stack[:200, :200]), y[:200])
    np.testing.assert_allclose(ready.decision_function(stack[:, :200]), direct.decision_function(X), atol=1e-6)
    np.testing.assert_array_equal(stack, before)
    assert ready.kernel_names_[1] == "kernel 1"
    assert ready.n_features_in_ == 200


def test_stacks_are_used_in_place(wdbc, stack):
    for dtype in (np.float32, np.float64):
        X = stack.astype(dtype)
        prepared = kw.MKLClassifier("precomputed")._prepare(X, wdbc[1])
        assert prepared.assembly.gram.stack is X


def test_read_only_and_mapped_stacks(wdbc, stack, tmp_path):
    np.save(tmp_path / "stack.npy", stack)
    mapped = np.load(tmp_path / "stack.npy", mmap_mode="r")
    model = kw.MKLClassifier("precomputed").fit(mapped, wdbc[1])
    assert model.predict(mapped).shape == (240,)


def test_prediction_reads_only_what_it_needs(wdbc, stack):
    model = kw.MKLClassifier("precomputed").fit(stack, wdbc[1])
    blank = np.full_like(stack, np.nan)
    used = np.ix_(np.arange(240), model.support_, np.flatnonzero(model.weights_))
    blank[used] = stack[used]
    np.testing.assert_array_equal(model.predict(blank), model.predict(stack))


def test_float32_samples_store_float32_kernels(wdbc, bank):
    X, y = wdbc
    double, single = (kw.MKLClassifier(bank).fit(A, y) for A in (X, X.astype(np.float32)))
    assert single.storage_.startswith("dense float32") and double.storage_.startswith("dense float64")
    np.testing.assert_allclose(single.decision_function(X), double.decision_function(X), atol=0.05)


def test_sparse_samples_are_the_same(wdbc, bank):
    X, y = wdbc
    thin = X * (np.abs(X) > 1)
    dense, thinned = (kw.MKLClassifier(bank, tol=1e-9).fit(A, y) for A in (thin, sparse.csr_matrix(thin)))
    np.testing.assert_allclose(
        thinned.decision_function(sparse.csr_array(thin)), dense.decision_function(thin), atol=1e-6
    )


def test_frames_give_columns_by_name_and_selector(iris):
    X, y = iris
    frame = pd.DataFrame(X, columns=["sepal_length", "sepal_width", "petal_length", "petal_width"])
    frame["petal_width"] = frame["petal_width"].astype("float32")
    chosen = make_column_selector(dtype_include="float64")
    bank = K.rbf(gamma=1.0, on="petal_length") + K.linear(on="each") + K.rbf(gamma=0.1, on=chosen)
    model = kw.MKLClassifier(bank).fit(frame, y)
    assert model.kernel_names_[:2] == ["rbf(gamma=1) on petal_length", "linear on sepal_length"]
    assert model.kernel_names_[-1] == "rbf(gamma=0.1) on 3 columns"
    assert list(model.feature_names_in_) == list(frame.columns)
    shuffled = frame.sample(frac=1.0, random_state=0)
    np.testing.assert_array_equal(model.predict(shuffled), model.predict(frame)[shuffled.index])


def test_callable_kernels(wdbc):
    X, y = wdbc
    theirs = kw.MKLClassifier(K.Linear(), tol=1e-6).fit(X, y)
    ours = kw.MKLClassifier(lambda A, B: A @ B.T, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-6)


# --- scikit-learn's tools -----------------------------------------------------------------------

GRID = {"mkl__C": [0.1, 10.0], "mkl__penalty__p": [1.1, 2.0]}


def test_grid_search_in_a_pipeline(wdbc, bank):
    machine = Pipeline([("scale", StandardScaler()), ("mkl", kw.MKLClassifier(bank, penalty=Lp(2.0)))])
    search = GridSearchCV(machine, GRID, cv=3, n_jobs=2).fit(*wdbc)
    assert search.best_score_ > 0.9


def test_grid_search_on_a_stack_is_that_on_samples(wdbc, bank, stack):
    X, y = wdbc
    scores = []
    for kernels, data in ((bank, X), ("precomputed", stack)):
        machine = Pipeline([("mkl", kw.MKLClassifier(kernels, penalty=Lp(2.0), tol=1e-5))])
        search = GridSearchCV(machine, GRID, cv=3).fit(data, y)
        scores.append(search.cv_results_["mean_test_score"])
        assert search.predict(data).shape == y.shape
    np.testing.assert_allclose(*scores, atol=0.01)


def test_cross_validation_splits_stacks(wdbc, stack):
    scores = cross_val_score(kw.MKLClassifier("precomputed", C=10.0), stack, wdbc[1], cv=3)
    assert scores.min() > 0.9


def test_pipeline_standardises_before_the_kernels(iris, bank):
    machine = make_pipeline(StandardScaler(), kw.MKLClassifier(bank)).fit(*iris)
    assert machine.score(*iris) > 0.9


# --- weights of samples and kernels -----------------------------------------------------------------------


@pytest.mark.parametrize("normalize", ["trace", "diagonal", "center", None])
def test_weight_two_is_the_row_twice(wdbc, normalize):
    X, y = wdbc[0][:60], wdbc[1][:60]
    weight = np.random.default_rng(1).integers(0, 3, 60)
    model = kw.MKLClassifier(K.rbf(factor=[0.1, 1.0]) + K.linear(), normalize=normalize, penalty="lp", tol=1e-9)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, atol=1e-5)
    assert not set(weighted.support_) & set(np.flatnonzero(weight == 0))


def test_rows_without_weight_leave_a_stack(wdbc, stack):
    y, weight = wdbc[1], (np.arange(240) % 3 > 0).astype(float)
    rows = np.flatnonzero(weight)
    some = kw.MKLClassifier("precomputed").fit(stack, y, sample_weight=weight)
    fewer = kw.MKLClassifier("precomputed").fit(stack[np.ix_(rows, rows)], y[rows])
    np.testing.assert_array_equal(some.support_, rows[fewer.support_])
    np.testing.assert_allclose(some.decision_function(stack), fewer.decision_function(stack[:, rows]), rtol=1e-9)


@pytest.mark.parametrize(
    "penalty",
    [L1(d=[1.0, 9.0, 2.0]), Group(["a", "b", "b"]), Fixed([0.2, 0.3, 0.5]), MoreauYosida(a=[1.0, 2.0, 3.0])],
)
def test_zero_kernels_change_nothing_for_the_others(wdbc, stack, penalty):
    y = wdbc[1]
    three = np.concatenate([stack[:, :, :1], 0 * stack[:, :, :1], stack[:, :, 1:2]], axis=2)
    model = kw.MKLClassifier("precomputed", penalty=penalty)
    with pytest.warns(UserWarning, match="weight 0: kernel 1"):
        model.fit(three, y)
    less = {name: np.delete(v, 1) if np.ndim(v) else v for name, v in penalty.get_params().items()}
    two = kw.MKLClassifier("precomputed", penalty=type(penalty)(**less)).fit(stack[:, :, :2], y)
    np.testing.assert_allclose(np.delete(model.weights_, 1), two.weights_)
    assert model.weights_[1] == 0


# --- reports -----------------------------------------------------------------------


def test_progress_shows_the_gap(wdbc, bank, capsys):
    kw.MKLClassifier(bank, progress=True).fit(*wdbc)
    assert "gap" in capsys.readouterr().err


def test_refitting_forgets(wdbc, iris, bank):
    model = kw.MKLClassifier(bank).fit(*iris)
    model.fit(*wdbc)
    assert model.weights_.shape == (5,)
    assert model.n_features_in_ == 30
    assert isinstance(model.status_, str)


FIRST_FIT = """
import importlib, pkgutil, time
import numpy as np, sklearn.svm
begun = time.process_time()
import kernelweave as kw
X = np.random.default_rng(0).standard_normal((200, 5))
kw.MKLClassifier().fit(X, X[:, 0] * X[:, 1] > 0)
print(time.process_time() - begun)
import kernelweave.compiled as room
found = [entry.name for entry in pkgutil.iter_modules(room.__path__)]
names = [f"{room.__name__}.{name}" for name in found if name != "device"]  # needs a GPU
modules = [importlib.import_module(name) for name in names]
engines = [thing for module in modules for thing in vars(module).values() if hasattr(thing, "stats")]
print(len(engines), sum(sum(engine.stats.cache_misses.values()) for engine in engines))
"""


def test_first_fit_of_the_second_process_compiles_nothing():
    def start():
        done = subprocess.run([sys.executable, "-c", FIRST_FIT], capture_output=True, text=True, check=True)
        return [float(number) for number in done.stdout.split()]

    start()
    seconds, engines, compiled = start()
    assert engines > 0
    assert compiled == 0
    assert seconds < 1.5
