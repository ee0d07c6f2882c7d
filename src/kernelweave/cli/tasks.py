"""What can be learned from a file: classes, numbers, outliers, times to an event; and how well, in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import CommandError

TASKS = ("classification", "regression", "outliers", "survival")


def estimator_of(task: str) -> Any:
    """Return the estimator's class."""
    from .. import estimators

    return {
        "classification": estimators.MKLClassifier,
        "regression": estimators.MKLRegressor,
        "outliers": estimators.MKLOutlierDetector,
        "survival": estimators.MKLSurvival,
    }[task]


def choosing_of(task: str) -> Any:
    """Return the class of the estimator that chooses by cross-validation, None where there is none."""
    from .. import estimators

    return {
        "classification": estimators.MKLClassifierCV,
        "regression": estimators.MKLRegressorCV,
        "survival": estimators.MKLSurvivalCV,
    }.get(task)


def scored(task: str, model: Any, X: Any, y: Any) -> tuple[str, str]:
    """Return the name of a task's score and how a fitted model does on some rows, as text."""
    if task == "outliers":
        return "outliers", f"{100 * float(np.mean(model.predict(X) < 0)):.1f} % of {X.shape[0]} rows"
    name = {"classification": "accuracy", "regression": "R2", "survival": "concordance"}[task]
    return name, f"{model.score(X, y):.4f} on {X.shape[0]} rows"


def described(model: dict[str, Any]) -> str:
    """Say what a saved model predicts."""
    task, target = model.get("task", "classification"), model["target"] or "the label of each line"
    if task == "classification":
        return f"target {target}, classes {', '.join(map(str, model['pipeline'].classes_))}"
    if task == "survival":
        return f"survival, time {target}, event {model['event']}"
    return f"target {target}, a number" if task == "regression" else "outliers, no target"


def task_of(y: np.ndarray) -> str:
    """Tell by its values whether a target is a class or a number: fractions are numbers."""
    return "regression" if y.dtype.kind == "f" and np.any(y != np.round(y)) else "classification"


def as_target(task: str, y: np.ndarray, name: str) -> np.ndarray:
    """Return a column as the target of a task, or say why it cannot be."""
    if task == "classification":
        return _labels(y, name)
    if y.dtype.kind not in "iuf":
        raise CommandError(f"{name} holds no numbers, which --task {task} needs: name another column.")
    if not np.all(np.isfinite(y)):
        raise CommandError(f"{name} holds infinite values; replace or drop those rows.")
    return y.astype(float)


def as_events(y: np.ndarray, name: str) -> np.ndarray:
    """Return a column that says whether events were seen as ones and zeros, or say why it cannot be."""
    if y.dtype.kind not in "biuf" or not np.all((y == 0) | (y == 1)):
        raise CommandError(f"--event {name} must hold 0 and 1, or false and true: whether the event was seen.")
    return y.astype(float)


def _labels(y: np.ndarray, target: str) -> np.ndarray:
    """Write whole numbers as such, and refuse a target that is a measurement."""
    if y.dtype.kind != "f":
        return y
    if not np.all(np.isfinite(y)) or np.any(y != np.round(y)):
        raise CommandError(
            f"{target} holds fractions, a classifier needs classes: name a column of labels, or use --task regression."
        )
    return y.astype(int)
