"""Labels and weights as numbers, and the binary questions several classes are broken into."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite, check_array
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from ..arrays import Array, device_of, is_foreign, like, namespace, to_host
from .parameters import check_choice
from .tensors import check_finite

BROKEN = ("ovr", "ovo")  # ways to break several classes into questions of two
MULTICLASS = (*BROKEN, "joint")


@dataclass(frozen=True)
class Targets:
    """Labels as numbers, for the rows that count; all but the classes lie where the samples do.

    Rows of weight zero are left out here, so that nothing further on can tell them from rows that never were.
    """

    classes: np.ndarray  # (n_classes,)
    codes: Array  # (n,) position of each label in `classes`
    cost: Array  # (n,) what C is multiplied by
    rows: Array  # (n,) positions among the rows given
    weight: Array  # (n,) sample weights, for statistics of the data
    n_rows: int  # how many rows were given

    @property
    def all_rows(self) -> bool:
        """Whether no row was left out."""
        return self.rows.shape[0] == self.n_rows


def read_targets(
    y: Any,  # (n,)
    sample_weight: Any = None,  # (n,)
    class_weight: Any = None,
    beside: Array | None = None,
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
    beside : array, optional
        The samples: the numbers go to their library and device. Without them, they stay where y is.

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
    return Targets(classes, codes, weight * xp.take(factors, codes), rows, weight, y.shape[0])


def _encode(y: Any) -> tuple[np.ndarray, Array]:
    """Return the different labels, on the host, and the position of each label among them, where y is."""
    if is_foreign(y):
        check_finite(y, "y")
    else:
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
    classes, codes = namespace(y).unique_inverse(y)
    classes = to_host(classes)
    if is_foreign(y) and classes.dtype.kind == "f" and np.any(classes != np.round(classes)):
        raise ValueError("Unknown label type: continuous. y holds fractions, a classifier needs classes.")
    return classes, codes


def read_weight(sample_weight: Any, beside: Array) -> Array:
    """Return one weight for each entry of ``beside``, where that is; ones if there are none."""
    xp, n = namespace(beside), beside.shape[0]
    if sample_weight is None:
        return xp.ones(n, dtype=xp.float64, device=device_of(beside))
    if is_foreign(sample_weight):
        sample_weight = sample_weight.detach() if hasattr(sample_weight, "detach") else sample_weight
        check_finite(sample_weight, "sample_weight")
    else:
        sample_weight = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if tuple(sample_weight.shape) != (n,):
        shape = tuple(sample_weight.shape)
        raise ValueError(f"sample_weight has shape {shape}, X has {n} samples: give one weight each.")
    weight = like(beside, sample_weight)
    if xp.any(weight < 0):
        raise ValueError("sample_weight holds negative values: give weights from 0 on.")
    if not xp.any(weight > 0):
        raise ValueError("sample_weight is zero for every row: give some rows a positive weight.")
    return weight


def _class_factors(class_weight: Any, classes: np.ndarray, codes: Array, weight: Array) -> np.ndarray:
    """Return the factor of each class; "balanced" counts rows by weight."""
    if class_weight is None:
        return np.ones(classes.size)
    if isinstance(class_weight, str) and class_weight == "balanced":
        xp = namespace(codes)
        shares = [float(xp.sum(xp.where(codes == c, weight, 0.0 * weight))) for c in range(classes.size)]
        return sum(shares) / (classes.size * np.array(shares))
    if not isinstance(class_weight, dict):
        raise ValueError(f"class_weight={class_weight!r} is not known: use None, 'balanced' or a dict.")
    factors = compute_class_weight(class_weight, classes=classes, y=classes)
    if not np.all(factors > 0) or not np.all(np.isfinite(factors)):
        raise ValueError("class_weight must be a positive finite number for every class.")
    return factors


@dataclass(frozen=True)
class Task:
    """One question: the rows it is about, all of them if None, and their signs, or classes if there are several."""

    name: str
    rows: Array | None
    y: Array


def split_tasks(targets: Targets, multiclass: str) -> list[Task]:
    """Return the binary questions that several classes are broken into; one question for two classes, or "joint"."""
    check_choice("multiclass", multiclass, MULTICLASS)
    codes, labels = targets.codes, [str(label) for label in targets.classes.tolist()]
    if len(labels) == 2:
        return [Task(" / ".join(labels), None, _signs(codes, 1))]
    if multiclass == "joint":
        return [Task(" / ".join(labels), None, namespace(codes).astype(codes, namespace(codes).float64))]
    if multiclass == "ovr":
        return [Task(label, None, _signs(codes, c)) for c, label in enumerate(labels)]
    return [_duel(a, b, codes, labels) for a, b in combinations(range(len(labels)), 2)]


def _duel(a: int, b: int, codes: Array, labels: list[str]) -> Task:
    xp = namespace(codes)
    rows = xp.nonzero((codes == a) | (codes == b))[0]
    return Task(f"{labels[a]} / {labels[b]}", rows, _signs(xp.take(codes, rows), b))


def _signs(codes: Array, positive: int) -> Array:
    xp = namespace(codes)
    return 2.0 * xp.astype(codes == positive, xp.float64) - 1.0
