"""scikit-learn's own checks, once for every class and every capability that changes how it reads, fits or predicts."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

import kernelweave as kw
from kernelweave import kernels as K
from kernelweave import losses

FEW = [K.RBF(), K.RBF(factor=8.0)]  # kernels that every method takes
ALL_ROWS = kw.Nystroem(rank=50)  # checks compare decision values to rounding, with rows repeated: all are landmarks
MIXED = KFold(2, shuffle=True, random_state=0)  # checks have targets in order, all alike in a half
CLASSIFIERS = [
    kw.MKLClassifier(),
    kw.MKLClassifier(penalty="lp", loss="squared_hinge", multiclass="ovo", normalize="center"),
    kw.MKLClassifier(FEW, approximation=ALL_ROWS, loss="squared_hinge", solver="newton"),
    kw.MKLClassifier("rbf", approximation=kw.RandomFeatures(rank=6), loss="squared_hinge", solver="newton"),
    kw.MKLClassifier(FEW, loss="logistic"),
    kw.MKLClassifier(FEW, multiclass="joint", penalty="lp"),
    kw.MKLClassifier(FEW, multiclass="joint", loss="logistic"),
    kw.MKLClassifier(FEW, penalty="spectral"),
    kw.MKLClassifier(FEW, penalty="alignment"),
    kw.BoostedMKLClassifier(FEW, cv=2),
    kw.NonconvexMKLClassifier(FEW, model="lmkl-softmax"),
    kw.MKLClassifierCV(FEW, Cs=[1.0, 10.0], candidates=["uniform", "lp"], cv=2),
]
OTHERS = [
    kw.MKLRegressor(),
    kw.MKLRegressor(loss="epsilon_insensitive"),
    kw.MKLRegressor(loss="huber", penalty="lp", targets="each"),
    kw.MKLRegressor(FEW, loss="quantile"),
    kw.MKLRegressor(approximation="nystroem", penalty="lp"),
    kw.MKLOutlierDetector(),
    kw.MKLOutlierDetector(approximation=ALL_ROWS, tol=1e-10),
    kw.MKLSurvival(),
    kw.MKLRegressorCV(Cs=[0.1, 1.0], candidates=["uniform", "l1"], cv=MIXED),
    kw.MKLSurvivalCV(FEW, Cs=[1.0, 10.0], candidates=["uniform", "lp"], cv=MIXED),
]
TABLE = kw.recipes()


@parametrize_with_checks(CLASSIFIERS)
def test_classifiers(estimator, check):
    check(estimator)


@parametrize_with_checks(OTHERS)
def test_other_tasks(estimator, check):
    check(estimator)


def test_every_estimator_is_checked():
    named = {name for name in kw.__all__ if isinstance(getattr(kw, name), type) and hasattr(getattr(kw, name), "fit")}
    assert named == {type(model).__name__ for model in CLASSIFIERS + OTHERS}


# -- recipes: the same classes with other parameters, so a little of everything --


def quick(name):
    """A method as it is tried here: named solvers stop early, and few folds are held out."""
    model = kw.recipe(name, FEW)
    if "solver" in model.get_params() and model.solver != "auto":
        model.set_params(tol=0.1)
    return model.set_params(cv=2) if "cv" in model.get_params() else model


@pytest.mark.parametrize("name", TABLE)
def test_recipes_fit_predict_clone_and_pickle(name):
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], np.array(["setosa", "versicolor", "virginica"])[y][::3]
    model = quick(name)
    before = repr(model.get_params())
    assert model.fit(X, y) is model
    assert repr(model.get_params()) == before
    values = model.decision_function(X)
    assert values.shape == (50, 3)
    assert_array_equal(model.predict(X), model.classes_[values.argmax(axis=1)])
    assert_array_equal(pickle.loads(pickle.dumps(model)).decision_function(X), values)
    again = clone(model)
    assert not hasattr(again, "weights_")
    assert_allclose(again.fit(X, y).decision_function(X), values, rtol=1e-6, atol=1e-8)
    with pytest.raises(ValueError, match="feature"):
        model.predict(X[:, :2])


@pytest.mark.parametrize("name", TABLE)
def test_weights_of_samples_are_repeats(name):
    """The law that scikit-learn checks to seven digits: here both answers must bracket the same optimum."""
    estimator, rng = quick(name), np.random.default_rng(0)
    X, y, counts = rng.random((15, 30)), rng.integers(0, 3, 15), rng.integers(0, 5, 15)
    if isinstance(estimator, kw.BoostedMKLClassifier):
        return  # whose folds differ
    weighted = bounds(clone(estimator).fit(X, y, sample_weight=counts))
    repeated = bounds(clone(estimator).fit(X.repeat(counts, axis=0), y.repeat(counts)))
    plain = bounds(clone(estimator).fit(X, y))
    slack = 1e-9 * np.abs(plain[1])
    assert np.all(np.maximum(weighted[0], repeated[0]) <= np.minimum(weighted[1], repeated[1]) + slack)
    assert not np.all(np.maximum(weighted[0], plain[0]) <= np.minimum(weighted[1], plain[1]))


def bounds(model):
    """Between which two numbers each problem's optimum lies; of a local one, what is stationary is the optimum."""
    if np.isnan(model.dual_gap_):
        value = np.atleast_1d(model.objective_)
        return (1 - 10 * model.tol) * value, (1 + 10 * model.tol) * value
    certificates = np.atleast_1d(model.certificate())
    return tuple(np.array([getattr(certificate, end) for certificate in certificates]) for end in ("lower", "upper"))


# -- survival: scikit-learn's checks know no such targets, so much of what they ask for is asked for here --


@pytest.fixture
def lives(rng):
    X = rng.normal(size=(60, 4))
    time, event = rng.exponential(np.exp(-X[:, 0])), rng.random(60) < 0.7
    return X, np.array(list(zip(event, time, strict=True)), dtype=[("event", "?"), ("time", "<f8")])


@pytest.mark.parametrize(
    "model",
    [kw.MKLSurvival(), kw.MKLSurvival(FEW, penalty="lp", approximation=kw.Nystroem(rank=20), random_state=0)],
    ids=["kernels", "features"],
)
def test_survival_keeps_the_contract_of_estimators(model, lives):
    X, y = lives
    model, before, read = clone(model), repr(model.get_params()), (X.copy(), y.copy())
    assert model.fit(X, y) is model
    assert repr(model.get_params()) == before
    assert_array_equal(X, read[0])
    assert_array_equal(y, read[1])
    risk = model.predict(X)
    assert risk.shape == (60,) and model.n_features_in_ == 4
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), risk)
    assert_allclose(clone(model).fit(X, y).predict(X), risk, rtol=1e-6, atol=1e-8)
    order = np.random.default_rng(1).permutation(60)
    assert_allclose(model.predict(X[order]), risk[order], rtol=1e-9, atol=1e-12)
    assert_allclose(model.fit(X.tolist(), y).predict(X), risk, rtol=1e-6, atol=1e-8)
    with pytest.raises(ValueError, match="feature"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(X > 1.0, np.nan, X), y)
    with pytest.raises(ValueError, match=r"1D array|2D array|1 dimension|reshape"):
        model.fit(X[:, 0], y)
    with pytest.raises((ValueError, TypeError), match="y"):
        clone(model).fit(X, None)


def test_losses_of_one_task_only_are_refused_by_others():
    X, y = load_iris(return_X_y=True)
    for loss in (losses.Cox(), losses.OneClass(), losses.Huber()):
        with pytest.raises(ValueError, match="loss"):
            kw.MKLClassifier(loss=loss).fit(X, y)
    for loss in (losses.Hinge(), losses.Softmax(), losses.Cox(), losses.OneClass()):
        with pytest.raises(ValueError, match="loss"):
            kw.MKLRegressor(loss=loss).fit(X, y)
