"""The logistic loss through the estimator: log odds, probabilities, and scikit-learn's own answer where it has one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

import kernelweave as kw
from kernelweave import kernels as K


@pytest.fixture(scope="module")
def wdbc():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:300], y[:300]


def machine(bank=None, **params):
    bank = K.rbf(gamma=[0.01, 0.1]) + K.linear() if bank is None else bank
    given = {"loss": "logistic", "approximation": kw.Nystroem(rank=40), "random_state": 0} | params
    return kw.MKLClassifier(bank, **given)


@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("penalty", ["l1", kw.penalties.Lp(2.0)], ids=str)
def test_one_linear_kernel_is_logistic_regression(wdbc, penalty, C):
    X, y = wdbc
    ours = machine(K.linear(), penalty=penalty, C=C, normalize=None, tol=1e-7).fit(X, y)
    theirs = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(X, y)
    assert ours.solver_ == "newton"
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=2e-3)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)


@pytest.mark.parametrize("penalty", ["l1", "lp", "elasticnet", "mixed"])
def test_probabilities_of_two_classes(wdbc, penalty):
    X, y = wdbc
    clf = machine(penalty=penalty).fit(X, y)
    assert clf.dual_gap_ <= 1e-3
    chances = clf.predict_proba(X)
    assert chances.shape == (300, 2)
    assert_allclose(chances.sum(axis=1), 1.0)
    assert np.all((chances[:, 1] > 0.5) == (clf.decision_function(X) > 0))
    bound = np.log1p(np.exp(-np.where(y > 0, 1, -1) * clf.decision_function(X))).sum()
    assert bound == pytest.approx(-np.log(chances[np.arange(300), y]).sum(), rel=1e-9)


@pytest.mark.parametrize("loss", ["logistic", "squared", "squared_hinge"])
@pytest.mark.parametrize("penalty", [kw.penalties.ElasticNet(), kw.penalties.Mixed(1.0)], ids=str)
def test_kernels_enter_when_they_are_worth_their_price(wdbc, penalty, loss):
    X, y = wdbc
    used = []
    for C in np.geomspace(1e-3, 1.0, 13):
        clf = machine(penalty=penalty, loss=loss, solver="newton", C=C).fit(X[:60], y[:60])
        assert clf.dual_gap_ <= 1e-3
        used.append(np.count_nonzero(clf.weights_))
    assert used[0] == 0
    assert used[-1] > 0


def test_chances_far_away_are_numbers():
    X, y = load_iris(return_X_y=True)
    clf = machine(K.linear(), C=1e3, tol=1e-2).fit(X, y)
    chances = clf.predict_proba(np.array([[2020.5, 964.9, 739.3, -74.2]]))
    assert_allclose(chances.sum(axis=1), 1.0)


def test_probabilities_of_several_classes_and_their_search():
    X, y = load_iris(return_X_y=True)
    search = GridSearchCV(machine(), {"C": [1.0, 10.0]}, scoring="neg_log_loss", cv=3).fit(X, y)
    chances = search.predict_proba(X)
    assert chances.shape == (150, 3)
    assert_allclose(chances.sum(axis=1), 1.0)
    assert np.mean(chances.argmax(axis=1) == y) > 0.93


def test_unbalanced_classes_keep_their_odds(rng):
    X = rng.normal(size=(400, 2))
    y = rng.random(400) < 0.05
    clf = machine(C=1e-6).fit(X, y)
    assert clf.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), rel=1e-3)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"loss": "hinge"}, "predict_proba needs loss='logistic' or probability=True, not 'hinge' alone"),
        ({"multiclass": "ovo"}, "predict_proba needs multiclass='ovr'"),
    ],
)
def test_what_has_no_probabilities_says_so(params, message):
    assert not hasattr(machine(**params), "predict_proba")
    with pytest.raises(AttributeError) as refusal:
        machine(**params).predict_proba  # noqa: B018
    assert message in f"{refusal.value} {refusal.value.__cause__}"


def test_stored_kernels_and_features_of_all_their_ranks_agree(wdbc):
    X, y = wdbc[0][:120], wdbc[1][:120]
    exact = machine(approximation=None, tol=1e-7).fit(X, y)
    assert exact.solver_ == "ascent"
    features = machine(approximation=kw.Nystroem(rank=120), tol=1e-7).fit(X, y)
    np.testing.assert_allclose(features.predict_proba(X), exact.predict_proba(X), atol=1e-3)
