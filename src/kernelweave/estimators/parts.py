"""What a model's decision values are made of: the share of each kernel, of each set of columns, of each group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .. import tables
from ..arrays import Array, is_foreign, like, namespace, to_host
from ..assemble.parameters import check_choice

BY = ("kernel", "columns", "group")
SAMPLE = 1000  # training rows kept, evenly spaced, for the variance of parts and the range of columns
ENTRIES = 2**21  # and entries of them at most
MOST = 2000  # products of sets of columns that are told apart
NO_SAMPLES = "training samples, and a model of precomputed kernels, or from a file saved with samples=False, has none"


@dataclass(frozen=True)
class Partition:
    """Which part each kernel belongs to."""

    names: list[str]
    columns: list[tuple[int, ...] | None]  # what each part looks at; None where that is not known
    owner: np.ndarray  # (m,) part of each kernel, or its set where products are told apart
    part_of: Callable[[tuple[int, ...]], int] | None = None  # part of a product of sets


class Parts(BaseEstimator):
    """The part of an estimator that takes its decision values apart."""

    weights_: np.ndarray
    kernel_names_: Sequence[str]
    n_features_in_: int
    _predictor: Any
    _columns: Any  # (m,) columns of each kernel, None for all; None for precomputed stacks
    _sample: Any  # (s, d) some training rows; None for precomputed stacks, and in files without
    _kinds: dict[int, str]  # what the effect of each column is, where the kernels are effects

    def _read_new(self, X: Any) -> Any:
        raise NotImplementedError

    def parts(self, by: str = "kernel") -> list[str]:
        """Return the names of the parts that `contributions` has columns for.

        Parameters
        ----------
        by : {"kernel", "columns", "group"}, default="kernel"
            As for `contributions`.

        Returns
        -------
        list of str
        """
        check_is_fitted(self)
        return list(self._partition(by).names)

    def contributions(self, X: Any, by: str = "kernel") -> Array:
        """Return what each part of the model adds to the decision value of each sample.

        With ``intercept_`` they sum to `decision_function`, or to `predict` of numbers and risks; for
        ``multiclass="ovo"`` to the decision values of the pairs of classes, which then vote.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix of shape (n_new, d); or a stack of shape (n_new, n, m)
            Samples.
        by : {"kernel", "columns", "group"}, default="kernel"
            What a part is: a kernel with weight; all kernels on the same columns; all kernels of a group, those without
            one being a group each. Where the model weighs products of kernels, a product is shared evenly among its
            kernels or groups, and belongs to the columns of all its kernels together.

        Returns
        -------
        array of shape (n_new, n_parts) or (n_new, n_parts, n_outputs)
            In the order of ``parts(by)``; the latter where a sample has several decision values. A tensor if X is one.

        Examples
        --------
        >>> import numpy as np
        >>> import kernelweave as kw
        >>> from kernelweave import kernels as K
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = kw.MKLClassifier(K.rbf(gamma=[0.1, 1.0], on="each")).fit(X[50:], y[50:])
        >>> shares = clf.contributions(X, by="columns")
        >>> shares.shape[1] == len(clf.parts("columns"))
        True
        >>> bool(np.allclose(shares.sum(axis=1) + clf.intercept_, clf.decision_function(X)))
        True
        """
        check_is_fitted(self)
        shares = self._shares(self._read_new(X), self._partition(by))
        return shares[:, :, 0] if shares.shape[2] == 1 else shares

    def _shares(self, X: Any, partition: Partition) -> Array:  # (n, n_parts, n_outputs)
        count = len(partition.names)
        if partition.part_of is None:
            return self._predictor.shares(X, partition.owner, count)
        return self._predictor.joint_shares(X, partition.owner, partition.part_of, count)

    @property
    def effects_(self) -> tables.Effects:
        """The sets of columns that the model uses, by the variance of what they add to the decision values.

        It is measured on up to 1000 of the training samples, which the model keeps for that (see `kernelweave.save` for
        how not to); variances of several decision values are added up.
        """
        check_is_fitted(self)
        if self._sample is None:
            raise AttributeError(f"effects_ needs {NO_SAMPLES}: use contributions(X).")
        return self._table()

    def _table(self, output: int | None = None) -> tables.Effects:
        """Return the parts by the variance they explain, of all decision values or of one."""
        partition = self._partition("columns")
        shares = to_host(self._shares(self._sample, partition))
        return tables.Effects(partition.names, partition.columns, shares if output is None else shares[:, :, [output]])

    # -- partitions ---------------------------------------------------------------------------------------

    def _partition(self, by: str) -> Partition:
        """Return which part each kernel belongs to, and the names of the parts in use."""
        check_choice("by", by, BY)
        used = np.flatnonzero(np.atleast_2d(self.weights_).any(axis=0))
        if by == "columns":
            return self._by_columns(used)
        titles: list[Any] = [self.kernel_names_[k] for k in used.tolist()]
        keys: list[Any] = used.tolist()
        if by == "group":
            groups = getattr(self, "kernel_groups_", [None] * len(self.kernel_names_))
            keys = [groups[k] or title for k, title in zip(used, titles, strict=True)]
            titles = list(dict.fromkeys(keys))
        order = list(dict.fromkeys(keys))
        return Partition(titles, self._columns_of(used, keys, order), self._owner(used, keys, order))

    def _columns_of(self, used: np.ndarray, keys: list[Any], order: list[Any]) -> list[tuple[int, ...] | None]:
        """Return the columns of all kernels in each part."""
        if self._columns is None:
            return [None] * len(order)
        sets: dict[Any, set[int]] = {key: set() for key in order}
        for k, key in zip(used.tolist(), keys, strict=True):
            sets[key] |= set(self._column_set(k))
        return [tuple(sorted(sets[key])) for key in order]

    def _column_set(self, k: int) -> tuple[int, ...]:
        """Return the columns of a kernel; those of one that is 1 everywhere are none."""
        if k >= len(self._columns):
            return ()
        columns = self._columns[k]
        return tuple(range(self.n_features_in_)) if columns is None else columns

    def _owner(self, used: np.ndarray, keys: list[Any], order: list[Any]) -> np.ndarray:  # (m,)
        places = {key: place for place, key in enumerate(order)}
        owner = np.zeros(np.shape(self.weights_)[-1], dtype=int)
        owner[used] = [places[key] for key in keys]
        return owner

    def _by_columns(self, used: np.ndarray) -> Partition:
        if self._columns is None:
            raise ValueError("by='columns' needs samples, and kernels='precomputed' has none: use by='kernel'.")
        keys = [self._column_set(k) for k in used.tolist()]
        order = list(dict.fromkeys(keys))
        owner = self._owner(used, keys, order)
        degree = self._predictor.degree
        if degree == 1:
            return Partition(self._titles(order), list(order), owner)
        if len(order) ** degree > MOST * degree:
            raise ValueError(
                f"by='columns' would tell apart products of {len(order)} sets of columns: use by='kernel' or 'group'."
            )
        products = list(combinations_with_replacement(range(len(order)), degree))
        unions = [tuple(sorted(set().union(*(order[a] for a in sets)))) for sets in products]
        parts = list(dict.fromkeys(unions))
        place = {sets: parts.index(union) for sets, union in zip(products, unions, strict=True)}
        return Partition(self._titles(parts), list(parts), owner, place.__getitem__)

    def _titles(self, sets: list[tuple[int, ...]]) -> list[str]:
        """Return a name for each set of columns."""
        names = getattr(self, "feature_names_in_", None)
        words = [[str(names[j]) if names is not None else f"column {j}" for j in columns] for columns in sets]
        short = [_joined(some, self.n_features_in_) for some in words]
        return [name if short.count(name) == 1 else " : ".join(some) for name, some in zip(short, words, strict=True)]


def _joined(names: list[str], everyone: int) -> str:
    if not names:
        return "constant"
    if len(names) <= 3:
        return " : ".join(names)
    return "all columns" if len(names) == everyone else f"{len(names)} columns from {names[0]}"


def sample_of_rows(X: Any, rows: Any) -> Any:
    """Return some of the training rows, evenly spaced among those that count."""
    count = int(rows.shape[0])
    most = max(1, min(SAMPLE, count, ENTRIES // max(X.shape[1], 1)))
    places = np.unique(np.linspace(0, count - 1, most).round().astype(int))
    if is_foreign(X):
        xp = namespace(X)
        return xp.take(X, xp.take(rows, like(rows, places, "int64")), axis=0)
    return X[np.asarray(rows)[places]]
