"""Kernels on views that some samples lack: such a sample is put where the mean of the others is."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .base import Kernel, _Wrapper, columns_of

BLOCK = 2**22  # entries of a kernel that are computed at a time for a mean


class Others:
    """The training samples that have a view, and how much each counts: they stand for those that lack it."""

    def __init__(self, rows: np.ndarray, share: np.ndarray):
        self.rows, self.share = rows, share
        self._grand: list[tuple[Kernel, float]] = []

    def grand(self, kernel: Kernel) -> float:
        """Return the mean of a kernel between them, computed once, some rows at a time."""
        for known, mean in self._grand:
            if known == kernel:
                return mean
        step, total = max(1, BLOCK // self.share.size), 0.0
        for start in range(0, self.share.size, step):
            part = slice(start, start + step)
            total += float(self.share[part] @ kernel(self.rows[part], self.rows).astype(float) @ self.share)
        self._grand.append((kernel, total))
        return total


class _Parts(NamedTuple):
    """What kernels with the same inner half share: which rows lack the view, and that half between the others."""

    lacking: np.ndarray  # (n,) bool
    theirs: np.ndarray  # (p,) bool, of the other side
    inner: Any  # between rows that have the view
    right: Any  # between these rows and the training samples, for samples of the other side that lack it
    left: Any  # between the training samples and rows of the other side, for rows that lack it
    symmetric: bool
    dtype: Any


@dataclass(frozen=True, eq=False, repr=False)
class Present(_Wrapper):
    """A kernel on a view that samples may lack: all numbers that the kernel looks at are NaN there.

    In the space of the kernel's features, a sample that lacks the view is the mean of the training samples that have
    it. With an intercept that is the same as centring the kernel on these and leaving the sample's row at zero: the
    view says nothing about it. The kernel stays positive semidefinite, and samples with the view keep their values.

    Parameters
    ----------
    kernel : Kernel
        What samples with the view are compared by; resolved.
    others : Others
        The training samples that have the view, on the kernel's columns.
    """

    others: Any

    @property
    def statistic(self) -> Hashable:
        inner = self.kernel.statistic
        return None if inner is None else ("present", inner, id(self.others))

    @property
    def accepts_sparse(self) -> bool:
        return False

    def has(self, X: Any) -> np.ndarray:  # (n, d), all columns -> (n,)
        """Whether each sample has the view."""
        return ~lacks(columns_of(X, self.on), self.name)

    def prepare_rows(self, Z: Any) -> Any:
        lacking = lacks(Z, self.name)
        return _Rows(Z[~lacking], self.kernel.prepare_rows(Z[~lacking]), lacking)

    def prepare(self, X: Any, Z: Any = None) -> _Parts:
        lacking, kernel, known = lacks(X, self.name), self.kernel, self.others.rows.astype(X.dtype, copy=False)
        X = X[~lacking] if lacking.any() else X
        if Z is None:
            right = kernel.prepare(X, known) if lacking.any() else None
            return _Parts(lacking, lacking, kernel.prepare(X), right, None, True, X.dtype)
        fixed = Z if isinstance(Z, _Rows) else self.prepare_rows(Z)
        right = kernel.prepare(X, known) if fixed.lacking.any() else None
        left = kernel.prepare(known, fixed.inner) if lacking.any() else None
        return _Parts(lacking, fixed.lacking, kernel.prepare(X, fixed.inner), right, left, False, X.dtype)

    def finish(self, S: _Parts) -> np.ndarray:
        kernel, here, there = self.kernel, ~S.lacking, ~S.theirs
        if here.all() and there.all():
            return kernel.finish(S.inner)
        K = np.empty((here.size, there.size), dtype=S.dtype)
        K[np.ix_(here, there)] = kernel.finish(S.inner)
        if S.lacking.any() and S.theirs.any():
            K[np.ix_(S.lacking, S.theirs)] = self.others.grand(kernel)
        if S.theirs.any():
            means = kernel.finish(S.right) @ self.others.share.astype(S.dtype)
            K[np.ix_(here, S.theirs)] = means[:, None]
            if S.symmetric:
                K[np.ix_(S.lacking, there)] = means
        if S.lacking.any() and not S.symmetric:
            K[np.ix_(S.lacking, there)] = self.others.share.astype(S.dtype) @ kernel.finish(S.left)
        return K

    def self_similarity(self, X: Any) -> np.ndarray:
        lacking = lacks(X, self.name)
        values = np.empty(lacking.size)
        if lacking.any():
            values[lacking] = self.others.grand(self.kernel)
        if not lacking.all():
            values[~lacking] = self.kernel.self_similarity(X[~lacking])
        return values

    def _head(self, asked: Kernel) -> str:
        return self.kernel._head(asked)


class _Rows:
    """Fixed rows: those that have the view, what the inner kernel makes of them, and which lack it."""

    def __init__(self, Z: Any, inner: Any, lacking: np.ndarray):
        self.Z, self.inner, self.lacking = Z, inner, lacking


def lacks(X: Any, name: str) -> np.ndarray:  # (n, d) -> (n,)
    """Return which rows are NaN throughout; rows that are NaN here and there are refused."""
    holes = np.isnan(X)
    lacking = holes.all(axis=1)
    torn = np.flatnonzero(holes.any(axis=1) & ~lacking)
    if torn.size:
        raise ValueError(
            f"X has NaN in some, not all, of the columns of {name}, in {torn.size} samples such as number {torn[0]}: "
            "missing='absent' is for views that a sample lacks altogether: fill such gaps, or give kernels on fewer "
            "columns."
        )
    return lacking


def presence(kernels: Sequence[Kernel], X: Any) -> np.ndarray | None:  # (n, m)
    """Return which samples have what each kernel looks at; None where no kernel knows of missing views."""
    if not any(isinstance(kernel, Present) for kernel in kernels):
        return None
    known: dict[Any, np.ndarray] = {None: np.ones(X.shape[0], dtype=bool)}
    for kernel in kernels:
        if isinstance(kernel, Present) and id(kernel.others) not in known:
            known[id(kernel.others)] = kernel.has(X)
    return np.stack([known[id(k.others) if isinstance(k, Present) else None] for k in kernels], axis=1)


def with_absent(
    asked: Iterable[Kernel],
    X: np.ndarray,  # (n, d) with NaN
    share: np.ndarray,  # (n,) sums to 1
    **known: Any,
) -> list[Kernel]:
    """Resolve kernels on data where views are missing: each on the samples that have what it looks at.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelweave import kernels as K
    >>> from kernelweave.kernels.missing import with_absent
    >>> X = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]])
    >>> with_absent([K.Linear(on="each")], X, np.ones(3) / 3)[1](X).tolist()
    [[4.0, 8.0, 12.0], [8.0, 16.0, 24.0], [12.0, 24.0, 36.0]]
    """
    filled = np.nan_to_num(X, nan=0.0)
    holders: dict[Any, Others] = {}
    found = []
    for item in asked:
        for kernel in item.resolve(filled, sample_weight=share, **known):
            found.append(_on_present(item, kernel, X, share, holders, known))
    return found


def _on_present(
    item: Kernel, kernel: Kernel, X: np.ndarray, share: np.ndarray, holders: dict[Any, Others], known: dict[str, Any]
) -> Kernel:
    """Return a kernel resolved anew on the samples that have its columns."""
    place = kernel.name[len(kernel._head(item)) :]
    block = columns_of(X, kernel.on)
    has = ~lacks(block, kernel.name)
    if not has.any():
        raise ValueError(f"No sample has the columns of {kernel.name}: drop it.")
    if not has.all():
        there = item.on_columns(list(range(X.shape[1])) if kernel.on is None else list(kernel.on))
        again = there.resolve(X[has], sample_weight=share[has], names=known.get("names"))[0]
        again = replace(again, on=kernel.on, group=kernel.group)
        again._labelled(again._head(item) + place)
        kernel = again
    if kernel.on not in holders:
        holders[kernel.on] = Others(block[has], share[has] / share[has].sum())
    others = holders[kernel.on]
    inner = replace(kernel, on=None, group=None)._labelled(kernel.name)
    return Present(inner, others, on=kernel.on, group=kernel.group)._labelled(kernel.name)
