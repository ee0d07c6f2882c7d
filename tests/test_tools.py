"""Tools around estimators: scikit-learn's views of models, routing, importance, calibration, stacking and curves."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.ensemble import StackingClassifier, VotingRegressor
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate, learning_curve, validation_curve
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

import kernelweave as kw
from kernelweave import kernels as K

BANK = K.rbf(factor=[0.5, 2.0]) + K.linear()


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True, as_frame=True)
    return X.iloc[50:], y.iloc[50:]


def fitted(X, y):
    """Yield one fitted model of every kind."""
    events = np.column_stack([np.ones(len(X)), 1.0 + np.arange(len(X))])
    yield kw.MKLClassifier(BANK).fit(X, y)
    yield kw.MKLClassifier(BANK, penalty="spectral").fit(X, y)
    yield kw.MKLClassifier(BANK, loss="logistic").fit(X, y)
    yield kw.MKLRegressor(BANK).fit(X, y)
    yield kw.MKLOutlierDetector(BANK).fit(X)
    yield kw.MKLSurvival(BANK).fit(X, events)
    yield kw.BoostedMKLClassifier(BANK, cv=None).fit(X, y)
    yield kw.NonconvexMKLClassifier(BANK).fit(X, y)
    yield kw.MKLClassifierCV(BANK, Cs=[1.0], candidates=["l1"], cv=2).fit(X, y)
    stream = kw.recipe("ufo-mkl", BANK, approximation=kw.Nystroem(rank=5), random_state=0)
    yield stream.partial_fit(X, y, classes=[1, 2])


def test_views_of_models_read_every_attribute(iris):
    X, y = iris
    for model in fitted(X, y):
        page = estimator_html_repr(model)
        assert type(model).__name__ in page
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for name in dir(model):
                if name.endswith("_") and not name.startswith("_") and hasattr(model, name):
                    getattr(model, name)
        assert type(model).__name__ in repr(model) and "kernels" in model.summary()
        assert estimator_html_repr(make_pipeline(StandardScaler(), model))
        assert repr(clone(model)) == repr(model)


def test_tables_go_through_pipelines_by_name(iris):
    X, y = iris
    bank = K.rbf(on=list(X.columns[:2])) + K.linear(on=X.columns[2])
    scaled = make_pipeline(StandardScaler(), kw.MKLClassifier(bank)).set_output(transform="pandas").fit(X, y)
    assert scaled[-1].feature_names_in_.tolist() == list(X.columns)
    chosen = make_column_transformer((StandardScaler(), list(X.columns)), verbose_feature_names_out=False)
    again = make_pipeline(chosen.set_output(transform="pandas"), kw.MKLClassifier(bank)).fit(X[X.columns[::-1]], y)
    np.testing.assert_array_equal(again.predict(X[X.columns[::-1]]), scaled.predict(X))


def test_weights_of_samples_are_routed(iris):
    X, y = iris
    weight = np.where(y == 1, 3.0, 0.5)
    with sklearn.config_context(enable_metadata_routing=True):
        model = kw.MKLClassifier(BANK).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"C": [1.0]}, cv=2).fit(X, y, sample_weight=weight)
    expected = kw.MKLClassifier(BANK).fit(X, y, weight)
    np.testing.assert_allclose(search.best_estimator_.objective_, expected.objective_, rtol=1e-6)
    assert not np.isclose(expected.objective_, kw.MKLClassifier(BANK).fit(X, y).objective_)


def test_importance_and_dependence(iris):
    X, y = iris
    noisy = X.assign(noise=np.random.default_rng(0).normal(size=len(X)))
    clf = kw.MKLClassifier(K.linear(on="each")).fit(noisy, y)
    found = permutation_importance(clf, noisy, y, n_repeats=3, random_state=0).importances_mean
    assert found.argmax() in (2, 3) and abs(found[4]) < found.max()
    grid = partial_dependence(clf, noisy, ["petal width (cm)"], response_method="decision_function", grid_resolution=5)
    assert np.all(np.diff(grid["average"][0]) > 0)


def test_calibration_stacking_and_several_outputs(iris):
    X, y = iris
    calibrated = CalibratedClassifierCV(kw.MKLClassifier(BANK), cv=3, ensemble=False).fit(X, y)
    odds = calibrated.predict_proba(X)
    np.testing.assert_allclose(odds.sum(axis=1), 1.0)
    stack = StackingClassifier([("mkl", kw.MKLClassifier(BANK)), ("svm", kw.recipe("svm-average", BANK))], cv=2)
    assert stack.fit(X, y).score(X, y) > 0.9
    labels = np.column_stack([y, y == 1])
    assert MultiOutputClassifier(kw.MKLClassifier(BANK)).fit(X, labels).predict(X).shape == labels.shape
    votes = VotingRegressor([("a", kw.MKLRegressor(BANK)), ("b", kw.MKLRegressor(K.linear()))]).fit(X, y)
    assert votes.score(X, y) > 0.5


def test_curves(iris):
    X, y = iris
    sizes, _, scores = learning_curve(kw.MKLClassifier(BANK), X, y, train_sizes=[0.4, 1.0], cv=3, shuffle=True)
    assert sizes.size == 2 and scores.shape == (2, 3)
    _, scores = validation_curve(kw.MKLClassifier(BANK), X, y, param_name="C", param_range=[0.1, 10.0], cv=2)
    assert scores.shape == (2, 2)


def test_cross_validation_keeps_estimators_and_scores(iris):
    X, y = iris
    found = cross_validate(kw.MKLClassifier(BANK), X, y, cv=3, return_estimator=True, scoring=["accuracy", "roc_auc"])
    assert all(model.dual_gap_ <= 1e-3 for model in found["estimator"]) and found["test_roc_auc"].min() > 0.9
    assert cross_val_predict(kw.MKLClassifier(BANK), X, y, cv=3, method="decision_function").shape == (100,)
    table = pd.DataFrame({name: found[name] for name in ("test_accuracy", "test_roc_auc")})
    assert table.shape == (3, 2)


def test_reports_of_skore(iris):
    skore = pytest.importorskip("skore", reason="skore is in the extra 'test'")
    X, y = iris
    model = kw.MKLClassifier(K.linear(on="each"), loss="logistic")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # skore's own
        halves = {"X_train": X[::2], "y_train": y[::2], "X_test": X[1::2], "y_test": y[1::2]}
        one = skore.EstimatorReport(model, **halves)
        expected = clone(model).fit(X[::2], y[::2])
        assert one.metrics.accuracy() == expected.score(X[1::2], y[1::2])
        assert 0.0 < one.metrics.log_loss() < 1.0
        folds = skore.CrossValidationReport(model, X, y, splitter=3)
        assert folds.metrics.accuracy().to_numpy().ravel()[0] > 0.85
