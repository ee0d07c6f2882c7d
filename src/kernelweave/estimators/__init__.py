"""Estimators: multiple kernel learning with scikit-learn's face."""

from .boosting import BoostedMKLClassifier
from .classify import MKLClassifier
from .nonconvex import NonconvexMKLClassifier

__all__ = ["BoostedMKLClassifier", "MKLClassifier", "NonconvexMKLClassifier"]
