"""Probabilities for losses that give none: a sigmoid of decision values of samples the model has not seen."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import cross_val_predict
from sklearn.utils.validation import column_or_1d

from ..arrays import is_foreign, kind_of
from .base import AdviceWarning

FOLDS = 5
LEAST = 1e-3  # seconds for all folds where the time is up


class Scores(ClassifierMixin, BaseEstimator):
    """A classifier whose samples are decision values already."""

    def fit(self, X: np.ndarray, y: Any, sample_weight: Any = None) -> Scores:
        """Take note of the classes."""
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Return the samples."""
        return X[:, 0] if X.shape[1] == 1 else X

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Return the class of the largest value."""
        codes = (X[:, 0] > 0).astype(int) if X.shape[1] == 1 else X.argmax(axis=1)
        return self.classes_[codes]


def calibrated(clf: Any, X: Any, y: Any, sample_weight: Any) -> CalibratedClassifierCV:
    """Return what turns decision values of ``clf`` into probabilities, learned on folds that it was not fitted on."""
    if is_foreign(X):
        raise TypeError(f"X is a {kind_of(X)}, and probability=True works on NumPy: use loss='logistic', or convert X.")
    y = column_or_1d(y)
    counts = np.unique(y, return_counts=True)[1]
    if counts.min() < 2:
        raise ValueError("probability=True needs two samples or more of each class: use loss='logistic' instead.")
    folds = min(FOLDS, int(counts.min()))
    params = None if sample_weight is None else {"sample_weight": sample_weight}
    plain = clf._to_refit().set_params(probability=False)
    if clf._end < np.inf:
        plain.set_params(max_time=max(clf._end - time.perf_counter(), LEAST) / folds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AdviceWarning)  # the model itself has its own
        scores = cross_val_predict(plain, X, y, cv=folds, method="decision_function", params=params)
    reader = CalibratedClassifierCV(Scores(), method="sigmoid", cv=folds, ensemble=False)
    return reader.fit(as_columns(scores), y, sample_weight=sample_weight)


def as_columns(scores: np.ndarray) -> np.ndarray:
    """Return decision values as a table, one column for two classes."""
    return scores[:, None] if scores.ndim == 1 else scores
