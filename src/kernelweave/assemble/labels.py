"""Classes as targets: labels as numbers, and the problems that several classes are broken into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from ..arrays import Array, is_foreign, like, namespace, to_host
from .parameters import check_choice
from .targets import Subproblem, Targets, read_weight
from .tensors import check_finite, check_together

BROKEN = ("ovr", "ovo")  # ways to break several classes into problems of two
MULTICLASS = (*BROKEN, "joint")


@dataclass(frozen=True)
class Labels(Targets):
    """Classes to be told apart."""

    classes: np.ndarray  # (n_classes,)
    codes: Array  # (n,) position of each label in `classes`


def read_labels(y: Any, X: Any) -> Any:
    """Return labels of any kind, one for each sample: NumPy's, or of the library and on the device of the samples."""
    check_together("y", y, X)
    if not is_foreign(y):
        y = column_or_1d(y, warn=True)
    elif y.ndim != 1:
        raise ValueError(f"y must have one dimension; got the shape {tuple(y.shape)}.")
    check_consistent_length(X, y)
    return y


def class_targets(
    y: Any,  # (n,)
    sample_weight: Any = None,  # (n,)
    class_weight: Any = None,
    multiclass: str = "ovr",
    beside: Array | None = None,
) -> Labels:
    """Pose the problems of labels that were read.

    Parameters
    ----------
    y : array of shape (n,)
        Labels of any kind.
    sample_weight : array of shape (n,), optional
        Weight 2 means the same as giving the row twice, weight 0 the same as leaving it out.
    class_weight : dict or "balanced", optional
        A further factor for each class.
    multiclass : {"ovr", "ovo", "joint"}, default="ovr"
        How more than two classes are told apart.
    beside : array, optional
        The samples: the numbers go to their library and device. Without them, they stay where y is.

    Returns
    -------
    Labels

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.assemble import class_targets
    >>> targets = class_targets(np.array(["no", "yes", "no"]), [1.0, 2.0, 0.0])
    >>> targets.cost, targets.subproblems[0].name
    (array([1., 2.]), 'no / yes')
    """
    known, codes = _encode(y)
    codes = codes if beside is None else like(beside, codes, "int64")
    weight = read_weight(sample_weight, codes)
    xp = namespace(codes)
    rows = xp.nonzero(weight)[0]
    present, codes = xp.unique_inverse(xp.take(codes, rows))
    classes = known[to_host(present)]
    if classes.size < 2:
        raise ValueError(f"y holds only one class ({classes[0]}) in rows of positive weight: give two classes or more.")
    weight = xp.take(weight, rows)
    factors = like(weight, _class_factors(class_weight, classes, codes, weight))
    cost, made = weight * xp.take(factors, codes), split_classes(classes, codes, multiclass)
    return Labels(rows, weight, cost, y.shape[0], made, classes, codes)


def _encode(y: Any) -> tuple[np.ndarray, Array]:
    """Return the different labels, on the host, and the position of each label among them, where y is."""
    if is_foreign(y):
        check_finite(y, "y")
    else:
        assert_all_finite(y, input_name="y")
        _refuse_mixed(y)
        check_classification_targets(y)
    classes, codes = namespace(y).unique_inverse(y)
    classes = to_host(classes)
    if is_foreign(y) and classes.dtype.kind == "f" and np.any(classes != np.round(classes)):
        raise ValueError("Unknown label type: continuous. y holds fractions, a classifier needs classes.")
    return classes, codes


def _refuse_mixed(y: np.ndarray) -> None:
    """Refuse labels that are missing, or that have no order, being words and numbers."""
    kinds = {type(label).__name__ for label in y} if y.dtype.kind == "O" else set()
    if "NoneType" in kinds:
        raise ValueError(f"y has no label, but None, for {sum(label is None for label in y)} samples: drop those.")
    if "str" in kinds and len(kinds) > 1:
        raise ValueError(f"y holds labels of several types ({', '.join(sorted(kinds))}): give all as strings.")


def _class_factors(class_weight: Any, classes: np.ndarray, codes: Array, weight: Array) -> np.ndarray:
    """Return the factor of each class; "balanced" counts rows by weight."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        xp = namespace(codes)
        shares = [float(xp.sum(xp.where(codes == c, weight, 0.0 * weight))) for c in range(classes.size)]
        return sum(shares) / (classes.size * np.array(shares))
    if class_weight is not None and not isinstance(class_weight, dict):
        raise ValueError(f"class_weight={class_weight!r} is not known: use None, 'balanced' or a dict.")
    return given_factors(class_weight, classes)


def given_factors(class_weight: dict[Any, float] | None, classes: np.ndarray) -> np.ndarray:
    """Return the factor that a dict gives each class, 1 where it gives none."""
    if class_weight is None:
        return np.ones(classes.size)
    if not all(isinstance(value, Real) for value in class_weight.values()):
        raise TypeError(f"class_weight must be a number for every class, got {class_weight!r}.")
    factors = compute_class_weight(class_weight, classes=classes, y=classes)
    if not np.all(factors > 0) or not np.all(np.isfinite(factors)):
        raise ValueError("class_weight must be a positive finite number for every class.")
    return factors


def split_classes(classes: np.ndarray, codes: Array, multiclass: str) -> Sequence[Subproblem]:
    """Return the problems of two classes that several are broken into; one problem for two classes, or "joint"."""
    check_choice("multiclass", multiclass, MULTICLASS)
    labels = [str(label) for label in classes.tolist()]
    if len(labels) == 2:
        return [Subproblem(" / ".join(labels), None, _signs(codes, 1))]
    if multiclass == "joint":
        return [Subproblem(" / ".join(labels), None, namespace(codes).astype(codes, namespace(codes).float64))]
    if multiclass == "ovr":
        return [Subproblem(label, None, _signs(codes, c)) for c, label in enumerate(labels)]
    return [_duel(a, b, codes, labels) for a, b in combinations(range(len(labels)), 2)]


def _duel(a: int, b: int, codes: Array, labels: list[str]) -> Subproblem:
    xp = namespace(codes)
    rows = xp.nonzero((codes == a) | (codes == b))[0]
    return Subproblem(f"{labels[a]} / {labels[b]}", rows, _signs(xp.take(codes, rows), b))


def _signs(codes: Array, positive: int) -> Array:
    xp = namespace(codes)
    return 2.0 * xp.astype(codes == positive, xp.float64) - 1.0
