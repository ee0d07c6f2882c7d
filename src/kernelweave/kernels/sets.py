"""Kernels on bits, counts and categories: fingerprints, codes, grades."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import manhattan_distances
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from .base import Kernel, _block
from .vector import _check_histograms, _row_sums, _Unit


@dataclass(frozen=True, eq=False, repr=False)
class Tanimoto(_Unit):
    """The Tanimoto similarity x'z / (x'x + z'z - x'z), of fingerprints of molecules for example.

    For bits it is the share of those set in either that are set in both. Two samples without any are alike.

    Parameters
    ----------
    on, group : see `Kernel`
        The columns to look at, and what the kernel belongs to.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> K.Tanimoto()(np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]])).round(3)
    array([[1.   , 0.333],
           [0.333, 1.   ]])
    """

    @property
    def statistic(self) -> Hashable:
        return "tanimoto"

    def prepare(self, X: Any, Z: Any = None) -> np.ndarray:
        rows = row_norms(X, squared=True)
        S = safe_sparse_dot(X, (X if Z is None else Z).T, dense_output=True)
        return _shared(S, np.add.outer(rows, rows if Z is None else row_norms(Z, squared=True)) - S)

    def finish(self, S: np.ndarray) -> np.ndarray:
        return S


@dataclass(frozen=True, eq=False, repr=False)
class Jaccard(_Unit):
    """The share of the larger counts that the smaller ones make up, sum min(x, z) / sum max(x, z); non-negative X only.

    For bits it is the same as `Tanimoto`. Two samples without any are alike.

    Parameters
    ----------
    on, group : see `Kernel`
        The columns to look at, and what the kernel belongs to.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> K.Jaccard()(np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 2.0]]))
    array([[1. , 0.4],
           [0.4, 1. ]])
    """

    @property
    def statistic(self) -> Hashable:
        return "jaccard"

    def prepare(self, X: Any, Z: Any = None) -> np.ndarray:
        _check_histograms(self, X, Z)
        rows = _row_sums(X)
        total = np.add.outer(rows, rows if Z is None else _row_sums(Z))
        apart = manhattan_distances(X, Z)  # 2 min(a, b) = a + b - |a - b|, and 2 max(a, b) = a + b + |a - b|
        return _shared(total - apart, total + apart).astype(X.dtype, copy=False)

    def finish(self, S: np.ndarray) -> np.ndarray:
        return S


def _shared(common: np.ndarray, all_of_both: np.ndarray) -> np.ndarray:
    """Return a ratio, 1 where both samples have nothing."""
    return np.divide(common, all_of_both, out=np.ones_like(common), where=all_of_both > 0)


@dataclass(frozen=True, eq=False, repr=False)
class Equality(_Unit):
    """The share of columns in which two samples are equal, for categories: codes, or words where X holds objects.

    Parameters
    ----------
    on, group : see `Kernel`
        The columns to look at, and what the kernel belongs to.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> K.Equality()(np.array([[1.0, 7.0], [1.0, 3.0]]))
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    @property
    def statistic(self) -> Hashable:
        return "equality"

    @property
    def accepts_sparse(self) -> bool:
        return False

    @property
    def accepts_objects(self) -> bool:
        return True

    def prepare(self, X: Any, Z: Any = None) -> np.ndarray:
        Z = X if Z is None else Z
        S = np.zeros((X.shape[0], Z.shape[0]), dtype=np.float64 if X.dtype == object else X.dtype)
        for j in range(X.shape[1]):
            S += np.equal.outer(*_codes(X[:, j], Z[:, j]))
        S /= X.shape[1]
        return S

    def finish(self, S: np.ndarray) -> np.ndarray:
        return S


def _codes(x: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return whole numbers in place of objects, the same for equal ones."""
    if x.dtype != object:
        return x, z
    known: dict[Any, int] = {}
    return tuple(np.array([known.setdefault(item, len(known)) for item in part], dtype=int) for part in (x, z))  # type: ignore[return-value]


@dataclass(frozen=True, eq=False, repr=False)
class Ordinal(_Unit):
    """One minus the distance relative to the range of each column, averaged: for grades, scores and stages.

    Also known as the clinical kernel. New samples beyond the range count as at its end.

    Parameters
    ----------
    low, high : float or list of float, optional
        Ends of the range, for each column; those of the training samples by default.
    on, group : see `Kernel`
        The columns to look at, and what the kernel belongs to.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> K.Ordinal(low=0, high=4)(np.array([[1.0], [2.0], [4.0]]))[0]
    array([1.  , 0.75, 0.25])
    """

    low: Any = None
    high: Any = None

    @property
    def statistic(self) -> Hashable:
        return "ordinal", self.low, self.high

    @property
    def accepts_sparse(self) -> bool:
        return False

    @property
    def _needs_data(self) -> bool:
        return self.low is None or self.high is None

    def _fixed(self, X: Any, columns: tuple[int, ...] | None, sample_weight: Any) -> Kernel:
        block = np.asarray(_block(replace(self, on=columns), X))
        seen = block if sample_weight is None else block[np.asarray(sample_weight) > 0]
        ends = [(self.low, seen.min(axis=0)), (self.high, seen.max(axis=0))]
        low, high = (np.broadcast_to(found if given is None else given, block.shape[1:]) for given, found in ends)
        if np.any(low > high):
            raise ValueError("low of Ordinal must not be above high, in any column.")
        return replace(self, low=low, high=high)

    def prepare(self, X: Any, Z: Any = None) -> np.ndarray:
        low, high = (np.asarray(end, dtype=X.dtype) for end in (self.low, self.high))
        spread = np.where(high > low, high - low, 1).astype(X.dtype)
        X, Z = (None if A is None else (np.clip(A, low, high) - low) / spread for A in (X, Z))
        return 1.0 - manhattan_distances(X, Z).astype(X.dtype, copy=False) / X.shape[1]

    def finish(self, S: np.ndarray) -> np.ndarray:
        return S

    def _head(self, asked: Kernel) -> str:
        return self._title
