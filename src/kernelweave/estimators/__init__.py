"""Estimators: multiple kernel learning with scikit-learn's face."""

from .classify import MKLClassifier

__all__ = ["MKLClassifier"]
