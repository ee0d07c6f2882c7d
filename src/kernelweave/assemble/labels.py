"""Labels and weights as numbers, and the binary questions several classes are broken into."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite, check_array
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from .parameters import check_choice

MULTICLASS = ("ovr", "ovo")


@dataclass(frozen=True)
class Targets:
    """Labels as numbers, for the rows that count.

    Rows of weight zero are left out here, so that nothing further on can tell them from rows that never were.
    """

    classes: np.ndarray  # (n_classes,)
    codes: np.ndarray  # (n,) position of each label in `classes`
    cost: np.ndarray  # (n,) what C is multiplied by
    rows: np.ndarray  # (n,) positions among the rows given
    weight: np.ndarray  # (n,) sample weights, for statistics of the data
    n_rows: int  # how many rows were given


def read_targets(
    y: np.ndarray,  # (n,)
    sample_weight: Any = None,  # (n,)
    class_weight: Any = None,
) -> Targets:
    """Turn labels and weights into numbers.

    Parameters
    ----------
    y : array of shape (n,)
        Labels of any kind.
    sample_weight : array of shape (n,), optional
        Weight 2 means the same as giving the row twice, weight 0 the same as leaving it out.
    class_weight : dict or "balanced", optional
        A further factor for each class.

    Returns
    -------
    Targets

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.assemble import read_targets
    >>> read_targets(np.array(["no", "yes", "no"]), [1.0, 2.0, 0.0]).cost
    array([1., 2.])
    """
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    weight = _read_weight(sample_weight, len(y))
    rows = np.flatnonzero(weight)
    classes, codes = np.unique(y[rows], return_inverse=True)
    if classes.size < 2:
        raise ValueError(f"y holds only one class ({classes[0]}) in rows of positive weight: give two classes or more.")
    weight = weight[rows]
    factors = _class_factors(class_weight, classes, codes, weight)
    return Targets(classes, codes, weight * factors[codes], rows, weight, len(y))


def _read_weight(sample_weight: Any, n: int) -> np.ndarray:
    if sample_weight is None:
        return np.ones(n)
    weight = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weight.shape != (n,):
        raise ValueError(f"sample_weight has shape {weight.shape}, X has {n} samples: give one weight each.")
    if np.any(weight < 0):
        raise ValueError("sample_weight holds negative values: give weights from 0 on.")
    if not np.any(weight):
        raise ValueError("sample_weight is zero for every row: give some rows a positive weight.")
    return weight


def _class_factors(class_weight: Any, classes: np.ndarray, codes: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the factor of each class; "balanced" counts rows by weight."""
    if class_weight is None:
        return np.ones(classes.size)
    if isinstance(class_weight, str) and class_weight == "balanced":
        return weight.sum() / (classes.size * np.bincount(codes, weight))
    if not isinstance(class_weight, dict):
        raise ValueError(f"class_weight={class_weight!r} is not known: use None, 'balanced' or a dict.")
    factors = compute_class_weight(class_weight, classes=classes, y=classes[codes])
    if not np.all(factors > 0) or not np.all(np.isfinite(factors)):
        raise ValueError("class_weight must be a positive finite number for every class.")
    return factors


@dataclass(frozen=True)
class Task:
    """One binary question: the rows it is about, all of them if None, and their signs."""

    name: str
    rows: np.ndarray | None
    y: np.ndarray


def split_tasks(targets: Targets, multiclass: str) -> list[Task]:
    """Return the binary questions that several classes are broken into; one question for two classes."""
    check_choice("multiclass", multiclass, MULTICLASS)
    codes, labels = targets.codes, [str(label) for label in targets.classes.tolist()]
    if len(labels) == 2:
        return [Task(" / ".join(labels), None, np.where(codes == 1, 1.0, -1.0))]
    if multiclass == "ovr":
        return [Task(label, None, np.where(codes == c, 1.0, -1.0)) for c, label in enumerate(labels)]
    return [_duel(a, b, codes, labels) for a, b in combinations(range(len(labels)), 2)]


def _duel(a: int, b: int, codes: np.ndarray, labels: list[str]) -> Task:
    rows = np.flatnonzero((codes == a) | (codes == b))
    return Task(f"{labels[a]} / {labels[b]}", rows, np.where(codes[rows] == b, 1.0, -1.0))
