"""Targets as losses read them, and the rows that count: all that a fit knows of what is to be learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_consistent_length

from ..arrays import Array, device_of, is_foreign, like, namespace
from .parameters import LEAST, MOST
from .tensors import check_finite, check_together

HUGE = 1e100  # size of targets, or one over it, from which on squares are out of reach
EVERYONE = "all samples"  # name of the one problem that has no targets


@dataclass(frozen=True)
class Subproblem:
    """One of the problems that a fit solves: the rows it is about, all of them if None, and their targets."""

    name: str
    rows: Array | None  # (k,) positions among the rows that count
    y: Array  # (k,) or (k, t), as the loss reads them


@dataclass(frozen=True)
class Targets:
    """What is to be learned, for the rows that count; arrays lie where the samples do.

    Rows of weight zero are left out here, so that nothing further on can tell them from rows that never were.
    """

    rows: Array  # (n,) positions among the rows given
    weight: Array  # (n,) sample weights, for statistics of the data
    cost: Array  # (n,) what C is multiplied by
    n_rows: int  # how many rows were given
    subproblems: Sequence[Subproblem]

    @property
    def all_rows(self) -> bool:
        """Whether no row was left out."""
        return self.rows.shape[0] == self.n_rows


@dataclass(frozen=True)
class Numbers(Targets):
    """Numbers to be predicted."""

    flat: bool  # whether they came without columns


# -- rows that count --------------------------------------------------------------------------------------


def read_weight(sample_weight: Any, beside: Array) -> Array:
    """Return one weight for each entry of ``beside``, where that is; ones if there are none."""
    xp, n = namespace(beside), beside.shape[0]
    if sample_weight is None:
        return xp.ones(n, dtype=xp.float64, device=device_of(beside))
    if is_foreign(sample_weight):
        sample_weight = sample_weight.detach() if hasattr(sample_weight, "detach") else sample_weight
        check_finite(sample_weight, "sample_weight")
    else:
        sample_weight = _weights(sample_weight)
    if tuple(sample_weight.shape) != (n,):
        shape = tuple(sample_weight.shape)
        raise ValueError(f"sample_weight has shape {shape}, X has {n} samples: give one weight each.")
    weight = like(beside, sample_weight)
    if xp.any(weight < 0):
        raise ValueError("sample_weight holds negative values: give weights from 0 on.")
    if not xp.any(weight > 0):
        raise ValueError("sample_weight is zero for every row: give some rows a positive weight.")
    least, most = float(xp.min(xp.where(weight > 0, weight, xp.ones_like(weight)))), float(xp.max(weight))
    if least < LEAST or most > MOST:
        raise ValueError(
            f"sample_weight goes from {least:g} to {most:g}, with which floating point cannot work: give weights from "
            f"{LEAST:g} to {MOST:g}, and 0 to samples that do not count."
        )
    return weight


def _weights(sample_weight: Any) -> np.ndarray:
    """Return weights as numbers, whatever number there is of them."""
    try:
        return check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    except (TypeError, ValueError) as error:
        if "sample_weight" in str(error):
            raise
        raise type(error)(f"sample_weight must hold one number for each sample: {error}") from None


def counted(sample_weight: Any, beside: Array) -> tuple[Array, Array]:
    """Return the positions of the rows with a weight, and their weights, where ``beside`` is."""
    weight = read_weight(sample_weight, beside)
    xp = namespace(weight)
    rows = xp.nonzero(weight)[0]
    return rows, xp.take(weight, rows)


# -- numbers ----------------------------------------------------------------------------------------------


def read_numbers(y: Any, X: Any) -> Array:
    """Return targets that are numbers, (n,) or (n, t), where the samples are, or say what is wrong with them.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.assemble import read_numbers
    >>> read_numbers([3, 1], np.eye(2))
    array([3., 1.])
    """
    check_together("y", y, X)
    if is_foreign(y):
        y = y.detach() if hasattr(y, "detach") else y
        if not namespace(y).isdtype(y.dtype, ("real floating", "integral")):
            _refuse_classes(y.dtype)
        table = like(y, y)
    else:
        table = _as_numbers(np.asarray(y))
    if table.ndim not in (1, 2) or 0 in tuple(table.shape)[1:]:
        raise ValueError(f"y has shape {tuple(table.shape)}: give one number for each sample, or a row of them.")
    check_consistent_length(X, table)
    check_finite(table, "y")
    most = float(namespace(table).max(namespace(table).abs(table)))
    if most > HUGE or 0.0 < most < 1.0 / HUGE:
        raise ValueError(f"y has entries of size {most:.0e}, whose squares floating point does not hold: rescale y.")
    return like(X, table) if is_foreign(X) else table


def _as_numbers(y: np.ndarray) -> np.ndarray:
    if y.dtype.kind in "iuf":
        return y.astype(float)
    if y.dtype.kind == "O":
        try:
            if not any(isinstance(entry, bool | str) for entry in y.ravel()):
                return y.astype(float)
        except (TypeError, ValueError):
            pass
    return _refuse_classes(y.dtype if y.dtype.kind != "O" else "objects")


def _refuse_classes(kind: Any) -> Any:
    raise ValueError(f"y holds {kind}, and a regressor needs numbers: use kw.MKLClassifier for classes.")


def number_targets(
    y: Array,  # (n,) or (n, t)
    sample_weight: Any = None,  # (n,)
    together: bool = True,
    names: Sequence[str] | None = None,  # (t,)
) -> Numbers:
    """Pose the problem of numbers that were read.

    Parameters
    ----------
    y : array of shape (n,) or (n, t)
        As `read_numbers` returns it.
    sample_weight : array of shape (n,), optional
        Weight 2 means the same as giving the row twice, weight 0 the same as leaving it out.
    together : bool, default=True
        Whether several targets are one problem, or each has its own.
    names : sequence of str, optional
        Names of the targets.

    Returns
    -------
    Numbers

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.assemble import number_targets
    >>> targets = number_targets(np.array([[1.0, 4.0], [2.0, 5.0]]), together=False)
    >>> [problem.name for problem in targets.subproblems]
    ['y0', 'y1']
    """
    rows, weight = counted(sample_weight, y)
    xp = namespace(y)
    table = xp.take(y, rows, axis=0)
    _refuse_constant(table)
    if table.ndim == 1:
        made = [Subproblem("y" if names is None else names[0], None, table)]
    else:
        names = [f"y{c}" for c in range(table.shape[1])] if names is None else names
        if together and len(names) > 1:
            made = [Subproblem(" / ".join(names), None, table)]
        else:
            made = [Subproblem(name, None, table[:, c]) for c, name in enumerate(names)]
    return Numbers(rows, weight, weight, y.shape[0], made, y.ndim == 1)


def _refuse_constant(y: Array) -> None:
    """Refuse targets that are all the same."""
    xp = namespace(y)
    if bool(xp.any(xp.max(y, axis=0) > xp.min(y, axis=0))):
        return
    many = "1 sample" if y.shape[0] == 1 else f"all {y.shape[0]} samples"
    raise ValueError(f"y is the same for {many} of positive weight, so nothing can be learned: give others.")


def target_names(y: Any) -> list[str] | None:
    """Return the names that a Series or a DataFrame gives its targets, None without any."""
    if hasattr(y, "columns"):
        return [str(name) for name in y.columns]
    name = getattr(y, "name", None)
    return [name] if isinstance(name, str) else None


# -- outliers ---------------------------------------------------------------------------------------------


def outlier_targets(X: Any, nu: float, sample_weight: Any = None) -> Targets:
    """Pose the problem of samples without targets: a share ``nu`` of their weight may be outside.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.assemble import outlier_targets
    >>> outlier_targets(np.eye(4), nu=0.5).cost
    array([0.5, 0.5, 0.5, 0.5])
    """
    beside = X[:, 0] if is_foreign(X) else np.empty(X.shape[0])
    rows, weight = counted(sample_weight, beside)
    xp = namespace(weight)
    cost = weight / (float(nu) * float(xp.sum(weight)))
    return Targets(rows, weight, cost, X.shape[0], [Subproblem(EVERYONE, None, xp.ones_like(weight))])


# -- times to an event ------------------------------------------------------------------------------------


def read_survival(y: Any, X: Any) -> Array:  # (n, 2)
    """Return whether the event of each sample was seen, and when it was or the sample was lost from sight.

    Parameters
    ----------
    y : structured array with two fields, DataFrame or array of two columns; or array of shape (n,)
        Event and time, in this order unless the names "event" and "time", or the one that is boolean, say otherwise.
        Times alone mean that every event was seen.
    X : array of shape (n, d)
        The samples: the numbers go to their library and device.

    Returns
    -------
    array of shape (n, 2)

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.assemble import read_survival
    >>> y = np.array([(True, 2.5), (False, 4.0)], dtype=[("died", bool), ("days", float)])
    >>> read_survival(y, np.eye(2)).tolist()
    [[1.0, 2.5], [0.0, 4.0]]
    """
    check_together("y", y, X)
    if is_foreign(y):
        y = y.detach() if hasattr(y, "detach") else y
        event, time = _two_columns([(None, column) for column in _columns_of(y)], tuple(y.shape))
        event, time = like(X, event), like(X, time)
    else:
        event, time = (_as_time(part) for part in _two_columns(_fields(y), np.asarray(y).shape))
        event, time = (like(X, event), like(X, time)) if is_foreign(X) else (event, time)
    check_consistent_length(X, time)
    _check_survival(event, time)
    return namespace(time).stack([event, time], axis=1)


def _fields(y: Any) -> list[tuple[str | None, Any]]:
    """Return the columns of targets in the order given, with their names where they have any."""
    if hasattr(y, "columns"):
        return [(str(name), np.asarray(y.iloc[:, j])) for j, name in enumerate(y.columns)]
    y = np.asarray(y)
    if y.dtype.names is not None:
        return [(name, y[name]) for name in y.dtype.names]
    return [(None, column) for column in _columns_of(y)]


def _columns_of(y: Array) -> list[Array]:
    if y.ndim == 1:
        return [y]
    return [y[:, c] for c in range(y.shape[1])] if y.ndim == 2 else []


def _two_columns(fields: list[tuple[str | None, Any]], shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Return event and time: by name, by which is boolean, or in this order; an event for every time that is alone."""
    if len(fields) == 1:
        time = fields[0][1]
        return namespace(time).ones_like(time, dtype=namespace(time).float64), time
    if len(fields) != 2:
        raise ValueError(
            f"y has shape {shape} and {len(fields)} columns; survival takes two: whether the event was seen, and time."
        )
    (first, left), (second, right) = fields
    names = [str(name).lower() for name in (first, second)]
    xp = namespace(left)
    swapped = xp.isdtype(right.dtype, "bool") and not xp.isdtype(left.dtype, "bool")
    if names[0] == "time" or names[1] == "event" or swapped:
        left, right = right, left
    return left, right


def _as_time(part: Any) -> np.ndarray:
    """Return one column of targets as numbers."""
    try:
        return np.asarray(part).astype(float)
    except (TypeError, ValueError):
        raise ValueError("y must hold numbers: whether the event was seen (True or False), and its time.") from None


def _check_survival(event: Array, time: Array) -> None:
    """Refuse events that are neither true nor false, times that cannot be, and targets without any event."""
    xp = namespace(time)
    check_finite(time, "y")
    if not bool(xp.all((event == 0) | (event == 1))):
        raise ValueError("y must say by True or False whether the event was seen: give events first, then times.")
    if bool(xp.any(time < 0)):
        raise ValueError("y holds negative times: count time from when each sample came under observation.")


def survival_targets(
    y: Array,  # (n, 2)
    sample_weight: Any = None,  # (n,)
) -> Targets:
    """Pose the problem of times to an event that were read.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave.assemble import survival_targets
    >>> survival_targets(np.array([[1.0, 2.5], [0.0, 4.0]])).subproblems[0].name
    'all samples'
    """
    rows, weight = counted(sample_weight, y)
    xp = namespace(y)
    table = xp.take(y, rows, axis=0)
    if not bool(xp.any(table[:, 0] == 1)):
        raise ValueError("y holds no event in rows of positive weight, so nothing can be learned: give some with one.")
    if table.shape[0] == 1:
        raise ValueError("y holds 1 sample only, and risks are learned by comparing: give more.")
    return Targets(rows, weight, weight, y.shape[0], [Subproblem(EVERYONE, None, table)])
