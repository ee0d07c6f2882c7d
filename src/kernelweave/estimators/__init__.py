"""Estimators: multiple kernel learning with scikit-learn's face."""

from .boosting import BoostedMKLClassifier
from .classify import MKLClassifier
from .nonconvex import NonconvexMKLClassifier
from .outliers import MKLOutlierDetector
from .regress import MKLRegressor
from .survive import MKLSurvival

__all__ = [
    "BoostedMKLClassifier",
    "MKLClassifier",
    "MKLOutlierDetector",
    "MKLRegressor",
    "MKLSurvival",
    "NonconvexMKLClassifier",
]
