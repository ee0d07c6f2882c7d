"""Effects: decision values taken apart, and banks of one kernel for each column and each pair of columns."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.datasets import make_classification

import kernelweave as kw
from kernelweave import kernels as K

X, LABELS = make_classification(90, 5, n_informative=4, n_redundant=0, n_classes=3, random_state=3)
BINARY = np.where(LABELS == 0, 1, -1)
NUMBERS = X[:, 0] + np.sin(X[:, 1])
SURVIVAL = np.column_stack([LABELS > 0, np.exp(X[:, 0])])
BANK = [*K.rbf(gamma=0.5, on="each"), *K.linear(on=[0, 1]), K.RBF(gamma=0.1) + K.Linear(on=2), *K.rbf(gamma=2.0, on=0)]


def decided(model, Z):
    """Return what contributions and intercepts sum to."""
    if hasattr(model, "_pairwise_votes") and model._pairwise_votes:
        return model._decide(Z)
    return model.decision_function(Z) if hasattr(model, "decision_function") else model.predict(Z)


MODELS = {
    "stored": (kw.MKLClassifier(BANK), BINARY),
    "lp": (kw.MKLClassifier(BANK, penalty="lp"), BINARY),
    "alignment": (kw.MKLClassifier(BANK, penalty=kw.weightings.CentredAlignment("linear"), psd="clip"), BINARY),
    "on demand": (kw.MKLClassifier(BANK, memory=2e5), BINARY),
    "features": (kw.MKLClassifier(BANK, approximation=kw.Nystroem(20), random_state=0), BINARY),
    "random features": (kw.MKLClassifier(K.rbf(on="each"), approximation="random_features", random_state=0), BINARY),
    "one against the rest": (kw.MKLClassifier(BANK), LABELS),
    "one against one": (kw.MKLClassifier(BANK, multiclass="ovo"), LABELS),
    "joint": (kw.MKLClassifier(BANK, multiclass="joint"), LABELS),
    "softmax": (kw.MKLClassifier(BANK, multiclass="joint", loss="logistic", approximation="nystroem"), LABELS),
    "products": (kw.MKLClassifier(BANK, penalty="spectral"), BINARY),
    "products of three": (kw.MKLClassifier(BANK[:3], penalty=kw.penalties.SpectralNorm(degree=3)), LABELS),
    "products without unity": (kw.MKLClassifier(BANK, penalty=kw.penalties.SpectralNorm(linear_terms=False)), LABELS),
    "product features": (kw.MKLClassifier(BANK, penalty="spectral", approximation=kw.Nystroem(4)), LABELS),
    "no bias": (kw.MKLClassifier(BANK, penalty="spectral", fit_intercept=False), BINARY),
    "regression": (kw.MKLRegressor(BANK), NUMBERS),
    "targets": (kw.MKLRegressor(BANK, targets="joint"), np.column_stack([NUMBERS, X[:, 2]])),
    "survival": (kw.MKLSurvival(BANK), SURVIVAL),
    "outliers": (kw.MKLOutlierDetector(BANK, nu=0.2), None),
    "votes": (kw.BoostedMKLClassifier(BANK, cv=None), LABELS),
    "square": (kw.NonconvexMKLClassifier(BANK, model="nlmkl-p1"), BINARY),
    "gates": (kw.NonconvexMKLClassifier(BANK[:4], model="lmkl-softmax", max_iter=8, tol=0.5), BINARY),
    "one Gaussian": (kw.NonconvexMKLClassifier(K.rbf(on="each"), model="gmkl"), BINARY),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_contributions_sum_to_the_decision_values(name):
    model, y = MODELS[name]
    model = pickle.loads(pickle.dumps(model.fit(X, y)))
    Z = np.vstack([X[:20], np.random.default_rng(0).normal(size=(10, 5))])
    values = decided(model, Z)
    for by in ("kernel", "columns", "group"):
        shares = model.contributions(Z, by=by)
        assert shares.shape == (30, len(model.parts(by)), *values.shape[1:])
        constant = model.intercept_ if values.ndim == 2 else model.intercept_[0]
        np.testing.assert_allclose(shares.sum(axis=1) + constant, values, rtol=0, atol=1e-10 * np.abs(values).max())
    assert len(set(model.parts("columns"))) == len(model.parts("columns"))
    assert sum(effect.variance for effect in model.effects_) > 0
