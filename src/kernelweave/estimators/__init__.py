"""Estimators: multiple kernel learning with scikit-learn's face."""

from .base import AdviceWarning
from .boosting import BoostedMKLClassifier
from .chosen import MKLClassifierCV, MKLRegressorCV, MKLSurvivalCV
from .classify import MKLClassifier
from .nonconvex import NonconvexMKLClassifier
from .outliers import MKLOutlierDetector
from .regress import MKLRegressor
from .survive import MKLSurvival

__all__ = [
    "AdviceWarning",
    "BoostedMKLClassifier",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLOutlierDetector",
    "MKLRegressor",
    "MKLRegressorCV",
    "MKLSurvival",
    "MKLSurvivalCV",
    "NonconvexMKLClassifier",
]
