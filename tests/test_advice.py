"""Answers that are optimal and perhaps not what was wanted are told, with the way out."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import kernelweave as kw
from kernelweave import kernels as K


@pytest.fixture
def data(rng):
    X = rng.normal(size=(80, 4))
    return X, (X[:, 0] + rng.normal(size=80) > 0).astype(int)


def told(model, X, y):
    """Return what a fit says."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [str(one.message) for one in seen if issubclass(one.category, kw.AdviceWarning)]


def test_a_kernel_that_is_nearly_the_identity(data):
    found = told(kw.MKLClassifier([K.RBF(gamma=30.0), K.Linear()], C=30.0), *data)
    assert any("rbf(gamma=30), which is nearly the identity" in sentence for sentence in found)
    assert not told(kw.MKLClassifier([K.RBF(gamma=0.1), K.Linear()], C=0.1), *data)


def test_a_cost_without_effect(data):
    X, y = data
    model = kw.MKLClassifier([K.RBF(gamma=1.0)], penalty="uniform", C=1e4)
    (sentence,) = told(model, X, y)
    assert sentence.startswith("C=10000 has no effect: no sample is worth more than ")
    limit = float(sentence.split("worth more than ")[1].split(",")[0])
    same = kw.MKLClassifier([K.RBF(gamma=1.0)], penalty="uniform", C=2 * limit, tol=1e-6).fit(X, y)
    model.set_params(tol=1e-6).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), same.decision_function(X), atol=1e-3)
    assert sentence in model.summary()
    assert model.advice_ == [sentence]


def test_columns_of_different_scales():
    X, y = load_breast_cancer(return_X_y=True)
    found = told(kw.MKLClassifier("rbf", C=0.1), X, y)
    assert any("differ in scale by a factor of" in sentence and "StandardScaler" in sentence for sentence in found)
    for bank, samples in (("rbf", StandardScaler().fit_transform(X)), (K.rbf(on="each"), X)):
        assert not any("scale" in sentence for sentence in told(kw.MKLClassifier(bank), samples, y))
